"""The classes that a file can contain, and how each is saved and restored.

Our own classes describe themselves (`_file_layout`, and optionally `_before_saving` and `_resumed`).  For the classes
of scikit-learn that a pipeline in a file may hold, this module lists the attributes that each needs to work.  Their
layouts are written like those of our own classes (`io.layout`).  Attributes that only record the fit and that no method
reads are left out, so that everything in a file can be checked.  Nearest neighbours are saved as their rows and targets
and fitted to these again when the file is read, because their trees are compiled objects, not data.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import (
    compose,
    decomposition,
    discriminant_analysis,
    feature_selection,
    impute,
    linear_model,
    neighbors,
    svm,
)
from sklearn import pipeline as pipelines
from sklearn import preprocessing as pre
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..kernels import is_function, kernel_object
from .container import ModelFileError
from .layout import OUTPUT, check_names, check_state, file_state, from_file_state, layout_of, restored

DEVICE = re.compile(r"(cpu|cuda|hip|hpu|mps|mtia|xla|xpu)(:\d{1,4})?")  # the types of torch devices that compute


@cache
def own_estimators() -> dict[str, type]:
    """The public estimators by name."""
    import kernelsieve

    public = {name: getattr(kernelsieve, name) for name in kernelsieve.__all__}
    return {name: c for name, c in public.items() if isinstance(c, type) and issubclass(c, BaseEstimator)}


def is_known(model: Any) -> bool:
    """Whether a file can hold this estimator."""
    name, cls = type(model).__name__, type(model)
    return own_estimators().get(name) is cls or (name in CLASSES and CLASSES[name].cls is cls)


def parts_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and state of a fitted estimator, checked, because what cannot be loaded must not be saved."""
    cls = type(model)
    if own_estimators().get(cls.__name__) is cls:
        state, layout = file_state(model), layout_of(cls)
        unplaced = [name for name in state if name.startswith("_") and name not in layout]
        if unplaced:
            raise TypeError(f"{cls.__name__} cannot be saved: its _file_layout has no place for {', '.join(unplaced)}")
        return _own_params(model), state
    return CLASSES[cls.__name__].parts(model)


def _own_params(model: Any) -> dict[str, Any]:
    params = model.get_params(deep=False)
    if "kernel" in params and (found := kernel_object(params["kernel"])) is not None:
        params["kernel"] = found
    elif is_function(params.get("kernel")):
        raise TypeError(
            f"a {type(model).__name__} with a callable kernel cannot be saved: a model file holds no code. Use a named "
            "kernel, or kernel='precomputed' and keep the function yourself"
        )
    if not isinstance(params.get("random_state"), Integral | None):
        params["random_state"] = None
    if callable(params.get("selection")):
        params["selection"] = model.expansion_.points if model.support_ is None else model.support_
    return dict(sorted(params.items()))


def rebuilt(content: dict[str, Any], decoder: Any) -> Any:
    """The estimator that a dict with "class", "params" and "state" describes."""
    name = content["class"]
    if name in own_estimators():
        cls: Any = own_estimators()[name]
        layout = layout_of(cls)
    elif name in CLASSES:
        cls, layout = CLASSES[name].cls, CLASSES[name].layout
    else:
        raise ModelFileError(f"holds a {name!r}, which this kernelsieve cannot make")
    if content["state"] and not isinstance(content["state"], dict):
        raise ModelFileError("damaged model file: its attributes have no names")
    if content["state"]:  # an estimator without state is an unfitted one among the parameters of another
        check_names(cls, layout, content["state"])  # before any data, possibly large, are decoded
    params, state = decoder.decode(content["params"]), decoder.decode(content["state"])
    checked_params(cls, params)
    if any(key in params for key in state):
        raise ModelFileError("attributes in the file have names that no model has")
    if not state:
        return cls(**params) if name in own_estimators() else CLASSES[name].unfitted(params)
    check_state(cls, layout, state)
    if name in own_estimators():
        return from_file_state(cls, params, state)
    return CLASSES[name].make(params, state)


def check_fitted(model: Any) -> None:
    """Raise unless an estimator is fitted, and so are the steps of a pipeline or column transformer."""
    parts = [model]
    if type(model) is Pipeline:
        parts = [step for _, step in model.steps]
    elif type(model) is ColumnTransformer:
        parts = [part for _, part, _ in model.transformers_]
    for part in parts:
        if part is None or part in ("drop", "passthrough"):
            continue
        try:
            check_is_fitted(part)
        except (NotFittedError, TypeError) as error:
            raise ModelFileError("the model in the file is not fitted") from error
        if part is not model:
            check_fitted(part)


def checked_params(cls: Any, params: Any) -> BaseEstimator:
    """An unfitted estimator with these parameters, if it accepts them."""
    try:
        model = cls(**params)
    except TypeError as error:
        raise ModelFileError(f"parameters do not fit {cls.__name__}: {error}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model._validate_params()
    except ValueError as error:  # scikit-learn's InvalidParameterError, and our own
        raise ModelFileError(f"parameters do not fit {cls.__name__}: {error}") from error
    device = params.get("device")
    # scikit-learn's constraints allow n_jobs=0 and unknown devices, with which nothing works
    if params.get("n_jobs") == 0 or not DEVICE.fullmatch("cpu" if device is None else device):
        raise ModelFileError(f"parameters do not fit {cls.__name__}: n_jobs or device")
    return model


D = {"n_features_in_": "int=d", "feature_names_in_": "strings[d] optional"}
LINEAR = D | {"coef_": "rows[d] | rows[t, d]", "intercept_": "float | float[t]", "n_iter_": "data optional"}
CLASSIFIER = D | {"classes_": "labels[c]", "coef_": "rows[d] | rows[t, d]", "intercept_": "float | float[t]"}
PROJECTION = D | {
    "components_": "float[M, d]",
    "explained_variance_": "float[M]~",
    "explained_variance_ratio_": "float[M]~",
    "singular_values_": "float[M]~",
}


@dataclass(frozen=True)
class Class:
    """A class of scikit-learn: the layout of its state in a file, and how an instance is saved and restored."""

    cls: type
    layout: dict[str, str]
    taken: Callable[[Any], dict[str, Any]] | None = None  # gives a state that is not just `layout`'s attributes
    built: Callable[[Any, dict[str, Any]], Any] | None = None  # makes an unfitted instance a fitted one

    def parts(self, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters and state."""
        params = {name: _plain(value) for name, value in sorted(model.get_params(deep=False).items())}
        if self.cls is compose.ColumnTransformer:
            params["transformers"] = _columns_as_fitted(model)
        if self.cls is pipelines.Pipeline and not isinstance(params.get("memory"), str):
            params["memory"] = None  # a cache of fits is not part of the model
        if self.taken is not None:
            return params, self.taken(model)
        found = vars(model)
        return params, {name: found[name] for name in self.layout if name in found}

    def unfitted(self, params: dict[str, Any]) -> Any:
        """The estimator as its constructor leaves it; a pipeline's steps have states of their own."""
        model = self.cls(**params)
        return _pipeline(model, {}) if self.cls is pipelines.Pipeline else model

    def make(self, params: dict[str, Any], state: dict[str, Any]) -> Any:
        """The fitted estimator."""
        model = self.cls(**params)
        if self.built is not None:
            return self.built(model, state)
        return restored(model, state)


def _plain(value: Any) -> Any:
    """The value, or None in place of a random generator, which is not data and no longer needed."""
    return None if isinstance(value, np.random.RandomState | np.random.Generator) else value


def _columns_as_fitted(model: Any) -> list[Any]:
    """The transformers as given, with the columns that functions chose in place of the functions."""
    fitted = {name: columns for name, _, columns in model.transformers_}
    return [
        (name, transformer, fitted.get(name, columns) if callable(columns) else columns)
        for name, transformer, columns in model.transformers
    ]


def _neighbour_rows(model: Any) -> dict[str, Any]:
    if callable(model.metric) or callable(model.weights):
        raise TypeError(f"{type(model).__name__} with a function for metric or weights cannot be saved: it is code")
    targets = model._y
    if hasattr(model, "classes_"):
        if model.outputs_2d_:
            raise TypeError(f"{type(model).__name__} with several targets cannot be saved")
        targets = model.classes_[model._y.ravel()]
    state = {"rows": model._fit_X, "targets": targets}
    if hasattr(model, "feature_names_in_"):
        state["feature_names_in_"] = model.feature_names_in_
    return state


def _fitted_again(model: Any, state: dict[str, Any]) -> Any:
    try:
        model.fit(state["rows"], state["targets"])
    except ValueError as error:
        raise ModelFileError(f"the neighbours' rows cannot be used: {error}") from error
    if "feature_names_in_" in state:
        model.feature_names_in_ = state["feature_names_in_"]
    return model


def _neighbours(cls: type) -> Class:
    layout = {"rows": "rows[n, d]", "targets": "labels[n] | labels[n, t]", "feature_names_in_": "strings[d] optional"}
    return Class(cls, layout, _neighbour_rows, _fitted_again)


def _classifier(model: Any, state: dict[str, Any]) -> Any:
    """The restored classifier; it must have one plane for two classes, or one for each of more classes."""
    restored(model, state)
    n_planes, n_classes = 1 if model.coef_.ndim == 1 else model.coef_.shape[0], len(model.classes_)
    if (n_planes, n_classes) != (1, 2) and not n_planes == n_classes > 1:
        raise ModelFileError(f"arrays do not fit together: coef_ has {n_planes} rows for {n_classes} classes")
    return model


def _pipeline(model: Any, state: dict[str, Any]) -> Any:
    if not isinstance(model.steps, list) or not model.steps:
        raise ModelFileError("the pipeline in the file has no steps")
    try:
        model._validate_steps()
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"the pipeline in the file has steps that do not fit: {error}") from error
    _check_widths(model)
    return model


def _check_widths(model: Any) -> None:
    """Check that each step gives as many columns as the next one expects, if both state their number."""
    width = None
    for name, step in model.steps:
        if step is None or isinstance(step, str):
            continue
        wanted = getattr(step, "n_features_in_", None)
        if width is not None and wanted is not None and wanted != width:
            raise ModelFileError(f"arrays do not fit together: step {name!r} takes {wanted} columns, it gets {width}")
        try:
            width = len(step.get_feature_names_out())
        except (AttributeError, ValueError):  # a final classifier has none
            width = None


def _column_transformer(model: Any, state: dict[str, Any]) -> Any:
    d = state["n_features_in_"]
    places = state["_transformer_to_input_indices"]
    for entry in state["transformers_"]:
        if not isinstance(entry, tuple) or len(entry) != 3 or not isinstance(entry[0], str):
            raise ModelFileError("damaged model file: a column transformer's parts are not as they should be")
        for place in places.get(entry[0], []):
            if not isinstance(place, int) or not 0 <= place < d:
                raise ModelFileError(f"arrays do not fit together: part {entry[0]!r} takes column {place} of {d}")
    return restored(model, state)


def _scaler(model: Any, state: dict[str, Any]) -> Any:
    """Refuse a scaler that lacks the means or scales it is set to use: it would fail only when it is used."""
    moves = getattr(model, "with_mean", None) or getattr(model, "with_centering", None)
    stretches = getattr(model, "with_std", None) or getattr(model, "with_scaling", None)
    if (moves and state.get("mean_", state.get("center_")) is None) or (stretches and state["scale_"] is None):
        raise ModelFileError("damaged model file: a scaler without its means or scales")
    return restored(model, state)


_SCALERS = [
    Class(pre.StandardScaler, D | {"mean_": "float[d]?", "var_": "float[d]?", "scale_": "float[d]?",
                                   "n_samples_seen_": "float | float[d]"}, None, _scaler),
    Class(pre.RobustScaler, D | {"center_": "float[d]?", "scale_": "float[d]?"}, None, _scaler),
    Class(pre.MinMaxScaler, D | {"scale_": "float[d]", "min_": "float[d]", "data_min_": "float[d]",
                                 "data_max_": "float[d]", "data_range_": "float[d]", "n_samples_seen_": "int"}),
    Class(pre.MaxAbsScaler, D | {"max_abs_": "float[d]", "scale_": "float[d]", "n_samples_seen_": "int"}),
    Class(pre.Normalizer, D),
    Class(pre.QuantileTransformer, D | {"n_quantiles_": "int=q", "references_": "float[q]",
                                        "quantiles_": "float[q, d]~"}),
    Class(pre.PowerTransformer, D | {"lambdas_": "float[d]~", "_scaler": "StandardScaler optional"}),
    Class(pre.PolynomialFeatures, D | {"_min_degree": "int", "_max_degree": "int", "n_output_features_": "int",
                                       "_n_out_full": "int"}),
    Class(pre.FunctionTransformer, D),
]  # fmt: skip

_ENCODERS = [
    Class(pre.OneHotEncoder, D | {"categories_": "list", "drop_idx_": "data", "_drop_idx_after_grouping": "data",
                                  "_infrequent_enabled": "bool", "_n_features_outs": "list",
                                  "_infrequent_indices": "list optional",
                                  "_default_to_infrequent_mappings": "list optional"}),
    Class(pre.OrdinalEncoder, D | {"categories_": "list", "_missing_indices": "dict", "_infrequent_enabled": "bool",
                                   "_infrequent_indices": "list optional",
                                   "_default_to_infrequent_mappings": "list optional"}),
    Class(pre.LabelBinarizer, {"classes_": "labels[c]", "y_type_": "str", "sparse_input_": "bool"}),
    Class(impute.SimpleImputer, D | {"statistics_": "labels[d]", "_fit_dtype": "dtype", "_fill_dtype": "dtype optional",
                                     "indicator_": "MissingIndicator?"}),
    Class(impute.MissingIndicator, {"features_": "int[*]", "_n_features": "int", "_precomputed": "bool",
                                    "n_features_in_": "int optional", "feature_names_in_": "strings[d] optional"}),
    Class(impute.KNNImputer, D | {"_fit_X": "float[n, d]~", "_mask_fit_X": "bool[n, d]", "_valid_mask": "bool[d]",
                                  "indicator_": "MissingIndicator?"}),
    Class(feature_selection.VarianceThreshold, D | {"variances_": "float[d]"}),
]  # fmt: skip

_PROJECTIONS = [
    Class(decomposition.PCA, PROJECTION | {"mean_": "float[d]", "noise_variance_": "float", "n_components_": "int=M",
                                           "n_samples_": "int", "_fit_svd_solver": "str optional"}),
    Class(decomposition.IncrementalPCA, PROJECTION | {"mean_": "float[d]", "var_": "float[d]", "batch_size_": "int",
                                                      "noise_variance_": "float", "n_components_": "int=M",
                                                      "n_samples_seen_": "float"}),
    Class(decomposition.TruncatedSVD, PROJECTION),
]  # fmt: skip

_REGRESSORS = [
    Class(cls, LINEAR | extra)
    for cls, extra in (
        (linear_model.LinearRegression, {"rank_": "data optional", "singular_": "data optional"}),
        (linear_model.Ridge, {"solver_": "str optional"}),
        (linear_model.RidgeCV, {"alpha_": "data", "best_score_": "data optional"}),
        (linear_model.Lasso, {"dual_gap_": "data optional"}),
        (linear_model.LassoCV, {"alpha_": "float"}),
        (linear_model.ElasticNet, {"dual_gap_": "data optional"}),
        (linear_model.ElasticNetCV, {"alpha_": "float", "l1_ratio_": "float"}),
        (linear_model.SGDRegressor, {"t_": "float"}),
        (linear_model.HuberRegressor, {"scale_": "float"}),
        (linear_model.BayesianRidge, {"alpha_": "float", "lambda_": "float", "sigma_": "float[d, d]",
                                      "X_offset_": "float[d]", "X_scale_": "float[d]"}),
        (linear_model.QuantileRegressor, {}),
        (svm.LinearSVR, {}),
    )
]  # fmt: skip

_CLASSIFIERS = [
    Class(cls, CLASSIFIER | {"n_iter_": "data optional"} | extra, built=_classifier)
    for cls, extra in (
        (linear_model.LogisticRegression, {}),
        (linear_model.LogisticRegressionCV, {"C_": "float[*]", "Cs_": "float[*]"}),
        (linear_model.RidgeClassifier, {"_label_binarizer": "LabelBinarizer", "solver_": "str optional"}),
        (linear_model.RidgeClassifierCV, {"_label_binarizer": "LabelBinarizer", "alpha_": "data",
                                          "best_score_": "data optional"}),
        (linear_model.SGDClassifier, {"t_": "float"}),
        (linear_model.Perceptron, {"t_": "float"}),
        (svm.LinearSVC, {}),
        (discriminant_analysis.LinearDiscriminantAnalysis, {
            "priors_": "float[c]", "means_": "float[c, d]", "xbar_": "float[d] optional",
            "scalings_": "float[d, *] optional", "explained_variance_ratio_": "float[*] optional",
            "covariance_": "float[d, d] optional", "_max_components": "int", "_n_features_out": "int optional"}),
    )
]  # fmt: skip

_OTHERS = [
    Class(neighbors.NearestCentroid, D | {"classes_": "labels[c]", "centroids_": "float[c, d]",
                                          "class_prior_": "float[c] optional",
                                          "within_class_std_dev_": "float[d] optional",
                                          "deviations_": "float[c, d] optional"}),
    _neighbours(neighbors.KNeighborsClassifier),
    _neighbours(neighbors.KNeighborsRegressor),
    Class(compose.ColumnTransformer, D | {"transformers_": "list", "_columns": "list",
                                          "_transformer_to_input_indices": "dict", "_remainder": "list",
                                          "sparse_output_": "bool", "output_indices_": "dict",
                                          "_n_features": "int optional"}, None, _column_transformer),
    Class(pipelines.Pipeline, {}, None, _pipeline),
]  # fmt: skip

CLASSES: dict[str, Class] = {
    entry.cls.__name__: Class(entry.cls, entry.layout | OUTPUT, entry.taken, entry.built)
    for entry in (*_SCALERS, *_ENCODERS, *_PROJECTIONS, *_REGRESSORS, *_CLASSIFIERS, *_OTHERS)
}
