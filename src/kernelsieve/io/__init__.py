"""Model files: JSON and arrays in one zip, and nothing that could be executed.

    header.json     {"format", "version", "kernelsieve", "class", "params", "state", "arrays", "sha256"}
    <name>.npy      one member an array, as numpy.save writes it

A model consists of what its constructor was given (`params`) and what `fit` left in it (`state`, which the model
itself provides).  Both are trees of JSON values; what JSON cannot express is a dict with one key that starts with "$":

    {"$array": name}   {"$csr": ...}   {"$scalar": [dtype, value]}   {"$kernel": ...}   {"$estimator": ...}   ...

An array that occurs twice in the model is in the file once.  Reading looks classes up in fixed tables: no name in a
file is ever imported, no pickle ever read.  Every attribute is then checked against what its class can have: name,
type, shape, finiteness (`layout`).  Members are stored, not compressed, so that a file cannot unfold to more than its
size; the bytes of a file depend on the model alone.  Digests detect damage and careless edits; they are no signature.

Pipelines are saved in this format, too, rather than by skops.io, the usual alternative to pickle.  skops imports
the modules that a file names, after checking a list of types that the caller trusts; two ways around that list were
found in 2025 (CVE-2025-54412, CVE-2025-54413).  A closed list of classes whose every attribute is known cannot be
circumvented, and allows shapes and finiteness to be checked, which skops leaves to the first `transform`.  The price:
only the scikit-learn classes in `registry.CLASSES` can be saved.
"""

from __future__ import annotations

import errno
import os
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .container import (
    FORMAT,
    NEWEST,
    VERSION,
    ModelFileError,
    clear_leftovers,
    opened,
    package_version,
    read,
    replacing,
    write,
)

# `codec` and `registry` know every class that a file can hold, monitors and many of scikit-learn's among them.  They
# are imported when a file is first written or read: who only fits a model need not wait for them.

__all__ = ["ModelFileError", "load", "save"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted kernelsieve estimator, or a pipeline, to one file, atomically.

    The file is complete or it is not there: an error on the way, a full disk included, leaves an older file at
    `path` as it was, and what a killed process left behind is removed by the next save or load there.  A file that is
    read-only is not replaced; permissions are kept, and the owner where the system lets us.

    Two parameters are not kept: a `random_state` that is a generator is saved as None, and a callable `selection` is
    replaced by what it chose (row numbers, or points that are not rows).

    Parameters
    ----------
    model : fitted estimator of this package, or scikit-learn Pipeline
        Its kernel is a named one or a kernel object: a function of yours is code, which a file cannot hold.  A pipeline
        may hold, besides our estimators, scikit-learn's scalers, encoders, imputers, ColumnTransformer, PCA,
        TruncatedSVD, and linear and nearest-neighbour classifiers and regressors.
    path : str or path-like

    Examples
    --------
    >>> import os, tempfile
    >>> import kernelsieve
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> features = kernelsieve.SparseKernelPCA(4, n_support=20, random_state=0)
    >>> pipeline = make_pipeline(StandardScaler(), features, LogisticRegression()).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kernelsieve.save(pipeline, os.path.join(folder, "iris.ks"))
    ...     loaded = kernelsieve.load(os.path.join(folder, "iris.ks"))
    >>> bool((loaded.predict(X) == pipeline.predict(X)).all())
    True
    """
    from .codec import Decoder, Encoder
    from .registry import check_fitted, own_estimators, rebuilt

    name = type(model).__name__
    whole = type(model) is Pipeline
    if not whole and own_estimators().get(name) is not type(model):
        check_is_fitted(model)
        raise TypeError(
            f"{name} cannot be saved: only kernelsieve's own estimators and scikit-learn pipelines of them can, and "
            "this is another class"
        )
    check_is_fitted(model)
    encoder = Encoder(name)
    try:
        content = encoder.estimator(model)
        check_fitted(rebuilt(content, Decoder(encoder.arrays)))
    except (ModelFileError, np.linalg.LinAlgError) as error:  # better now than when it is loaded
        raise ValueError(f"{name} cannot be saved: {error}") from error
    version = NEWEST if whole else VERSION  # 0.1.0 cannot read pipelines
    header = {"format": FORMAT, "version": version, "kernelsieve": package_version(), **content}
    with replacing(path) as temporary, temporary.open("wb") as file:
        write(file, header, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `model.save(path)` or `kernelsieve.save` wrote.  Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    fitted estimator or pipeline
        Of the class that was saved; its `transform` gives the same numbers, to the last bit.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, was edited, or is of a newer version than this one can read.

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
    with opened(name) as file:
        clear_leftovers(name)
        try:
            return _rebuild(*read(file))
        except ModelFileError as error:
            raise ModelFileError(f"{name}: {error}") from error
        except (MemoryError, OSError) as error:
            if isinstance(error, OSError) and error.errno in (
                None,
                errno.EINVAL,
            ):  # from a seek before the start of the file
                raise ModelFileError(f"{name}: damaged model file ({error})") from error
            raise
        except Exception as error:
            # Parsers raise a dozen types of error on arbitrary bytes: all mean that the file is damaged.
            raise ModelFileError(f"{name}: damaged model file ({type(error).__name__}: {error})") from error


def _rebuild(header: dict[str, Any], arrays: dict[str, Any]) -> Any:
    from .codec import Decoder
    from .registry import check_fitted, own_estimators, rebuilt

    known = {**own_estimators(), "Pipeline": Pipeline}
    if header["class"] not in known:
        raise ModelFileError(f"holds a {header['class']!r}; this kernelsieve knows {', '.join(known)}")
    model = rebuilt(header, Decoder(arrays))
    check_fitted(model)
    return model
