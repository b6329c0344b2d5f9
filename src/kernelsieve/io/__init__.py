"""Model files: JSON and arrays in one zip, and nothing in it that could run.

    header.json     {"format", "version", "kernelsieve", "class", "params", "state", "arrays", "sha256"}
    <name>.npy      one member an array, as numpy.save writes it

A model is what its constructor was given (`params`) and what `fit` left in it (`state`, all other attributes).
Both are trees of JSON values; what JSON has no word for is a dict with one key that starts with "$":

    {"$array": name}   {"$csr": ...}   {"$scalar": [dtype, value]}   {"$kernel": ...}   {"$record": ...}   ...

An array that is in the model twice is in the file once.  Reading looks classes up in fixed tables: no name in a
file is ever imported, no pickle ever read.  Members are stored, not compressed, so that a file cannot
unfold to more than its size; the bytes of a file depend on the model alone.  Digests find damage and careless
edits; they are no signature.
"""

from __future__ import annotations

import errno
import os
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..fit.expansion import KernelExpansion
from ..kernels import Kernel, Precomputed
from ..models.fitted import FittedExpansion
from .atomic import replacing
from .codec import Decoder, Encoder
from .container import FORMAT, VERSION, ModelFileError, package_version, read, write

__all__ = ["ModelFileError", "load", "save"]

# What scikit-learn hangs on an estimator that is no part of the model.
NOT_STATE = ("_skl_", "_callback", "_parent_callback", "_metadata_request")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted kernelsieve estimator to one file, atomically.

    The file is complete or it is not there: an error on the way, a full disk included, leaves an older file at
    `path` as it was.  Not kept: a `random_state` that is a generator (saved as None), and a callable `selection`,
    which is replaced by what it chose (row numbers, or points where they are no rows).

    Parameters
    ----------
    model : fitted estimator of this package
        With a named kernel: a callable one is code, which a model file cannot hold.
    path : str or path-like
    """
    check_is_fitted(model)
    name, params, state = _described(model)
    encoder = Encoder(name, _described)
    params = {key: encoder.encode(value, f"params.{key}") for key, value in params.items()}
    state = {key: encoder.encode(value, key) for key, value in state.items()}
    header = {"format": FORMAT, "version": VERSION, "kernelsieve": package_version(), "class": name}
    header |= {"params": params, "state": state}
    with replacing(path) as temporary, temporary.open("xb") as file:
        write(file, header, encoder.arrays)


def _described(model: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Class name, parameters and state of one of our estimators."""
    name = type(model).__name__
    if _estimators().get(name) is not type(model):
        raise TypeError(f"{name} cannot be saved: only kernelsieve's own estimators can, and this is another class")
    return name, _params(model), _state(model)


def _estimators() -> dict[str, type]:
    """The public estimators by name."""
    import kernelsieve

    public = {name: getattr(kernelsieve, name) for name in kernelsieve.__all__}
    return {name: c for name, c in public.items() if isinstance(c, type) and issubclass(c, BaseEstimator)}


def _params(model: Any) -> dict[str, Any]:
    params = model.get_params(deep=False)
    if callable(params.get("kernel")):
        raise TypeError(
            f"a {type(model).__name__} with a callable kernel cannot be saved: a model file holds no code. Use a named "
            "kernel, or kernel='precomputed' and keep the function yourself"
        )
    if not isinstance(params.get("random_state"), Integral | None):
        params["random_state"] = None
    if callable(params.get("selection")):
        params["selection"] = model.expansion_.points if model.support_ is None else model.support_
    return dict(sorted(params.items()))


def _state(model: Any) -> dict[str, Any]:
    names = sorted(set(vars(model)) - set(model.get_params(deep=False)))
    return {name: vars(model)[name] for name in names if not name.startswith(NOT_STATE)}


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `model.save(path)` wrote.  Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    fitted estimator
        Of the class that was saved; its `transform` gives the same numbers, to the last bit.

    Raises
    ------
    ModelFileError
        Where the file is no model, is damaged, was edited, or is of a newer version than this one can read.

    Examples
    --------
    >>> import os, tempfile
    >>> import kernelsieve
    >>> from sklearn.datasets import load_iris
    >>> X = load_iris().data
    >>> model = kernelsieve.KernelPCA(2, kernel="rbf").fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "iris.ks"))
    ...     loaded = kernelsieve.load(os.path.join(folder, "iris.ks"))
    >>> bool((loaded.transform(X) == model.transform(X)).all())
    True
    """
    name = os.fsdecode(path)
    if os.path.isdir(name):
        raise ModelFileError(f"{name}: a folder, not a model file")
    with open(name, "rb") as file:
        try:
            return _rebuild(*read(file))
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from error
        except MemoryError:
            raise
        except Exception as error:
            # Any bytes can come in here, and the parsers below raise a dozen types on them: all say the same.
            if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
                raise
            raise ModelFileError(f"{name}: damaged model file ({type(error).__name__}: {error})") from error


def _rebuild(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    decoder = Decoder(arrays, _made)
    model = _made(header["class"], decoder.decode(header["params"]), decoder.decode(header["state"]))
    try:
        check_is_fitted(model)
    except NotFittedError as error:
        raise ModelFileError("the model in the file is not fitted") from error
    if not isinstance(model, FittedExpansion) and hasattr(model, "check_loaded"):
        model.check_loaded(ModelFileError)
    return model


def _made(name: str, params: dict[str, Any], state: dict[str, Any]) -> Any:
    """An estimator of ours, with the attributes that it had."""
    known = _estimators()
    if name not in known:
        raise ModelFileError(f"holds a {name!r}; this kernelsieve knows {', '.join(known)}")
    try:
        model = known[name](**params)
    except TypeError as error:
        raise ModelFileError(f"parameters do not fit {name}: {error}") from error
    if any(not key.isidentifier() or key.startswith("__") or key in params for key in state):
        raise ModelFileError("attributes in the file have names that no model has")
    vars(model).update(state)
    if isinstance(model, FittedExpansion) and state:  # without state it is a parameter, not yet fitted
        _check_shapes(model)
    return model


def _check_shapes(model: Any) -> None:
    """Arrays that belong together are of one size: what a wrong one would break comes late, and obscurely."""
    state = vars(model)
    expansion, features = state.get("expansion_"), state.get("n_features_in_")
    if not isinstance(expansion, KernelExpansion) or not isinstance(expansion.kernel, Kernel):
        raise ModelFileError("the model in the file has no kernel expansion")
    m, d = expansion.points.shape
    (M,) = expansion.offset.shape
    if isinstance(expansion.kernel, Precomputed):
        columns, d = expansion.kernel.columns, expansion.kernel.n_columns
        if len(columns) != m or not all(isinstance(c, int) and 0 <= c < d for c in columns):
            raise ModelFileError(f"the precomputed kernel's columns do not fit {m} points of {d}")
    pairs: list[tuple[str, Any, tuple[Any, ...]]]
    pairs = [("points", (m, d), (m, features)), ("coef", expansion.coef.shape, (m, M))]
    if expansion.mean_coef is not None:
        pairs.append(("mean_coef", expansion.mean_coef.shape, (m,)))
    density = state.get("_density")
    if density is not None:
        pairs.append(("weights_", state["weights_"].shape, (m,)))
        pairs += [("density's coef", density.coef.shape, (m, m)), ("density's offset", density.offset.shape, (m,))]
        if density.mean_coef is not None:
            pairs.append(("density's mean_coef", density.mean_coef.shape, (m,)))
    inverse = state.get("_inverse_map")
    if inverse is not None:
        n_centers = len(inverse.centers)
        pairs.append(("inverse map's centers", inverse.centers.shape, (n_centers, M)))
        pairs.append(("inverse map's coef", inverse.coef.shape, (1 + M + n_centers, features)))
    expected = {"support_": (m,), "feature_names_in_": (features,), "X_fit_": expansion.points.shape}
    expected |= {"eigenvectors_": (m, M), "eigenvalues_": (M,)}
    expected |= {"explained_variance_": (M,), "explained_variance_ratio_": (M,)}
    pairs += [(name, state[name].shape, shape) for name, shape in expected.items() if state.get(name) is not None]
    for name, found, wanted in pairs:
        if tuple(found) != wanted:
            raise ModelFileError(f"arrays do not fit together: {name} has shape {tuple(found)}, expected {wanted}")
