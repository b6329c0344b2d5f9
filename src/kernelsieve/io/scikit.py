"""scikit-learn's classes that a pipeline in a file may hold, each with the attributes that it needs to work.

Layouts are written like those of our own classes (`io.layout`).  Attributes that only record the fit and that no
method reads are left out, so that everything in a file can be checked.  Nearest neighbours store their rows and
targets and are fitted to them again when read, because their trees are compiled objects, not data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

from .container import ModelFileError
from .layout import OUTPUT, restored

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
    """A class, what its file must hold, and how an instance is made of it."""

    cls: type
    layout: dict[str, str]
    taken: Callable[[Any], dict[str, Any]] | None = None  # the state, if it is more than the named attributes
    built: Callable[[Any, dict[str, Any]], Any] | None = None  # from an unfitted instance and the state

    def parts(self, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters and state."""
        params = {name: _plain(value) for name, value in sorted(model.get_params(deep=False).items())}
        if self.cls is compose.ColumnTransformer:
            params["transformers"] = _settled_columns(model)
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


def _settled_columns(model: Any) -> list[Any]:
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
    """The restored classifier; two classes are separated by one plane, and each of more classes has its own."""
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
