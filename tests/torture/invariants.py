"""The oracle: what must hold of any fitted model, and of any error, whatever was given.

Truth comes from the definition, computed the slow way: the weighted, centred gram of scikit-learn's kernels and its
eigenvalues.  Every check is a generator of complaints; no complaint, no fault.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

import kernelsieve

from .rounding import Rounding, rounding_of

# A share of the variance is off by what rounding does to kernel values, relative to the variance: this much where the
# variance is 1 % of k(x, x) or more, which is what is asked where no truth is at hand.  Scores and variances of scores
# are held to the bound of `rounding`.
SHARE_TOLERANCE = {False: 1e-9, True: 1e-3}
# A kernel whose variance is less than this share of k(x, x) is constant to rounding: no truth to compare with.
NO_VARIANCE = {False: 1e-7, True: 1e-3}
MEASURED = 1e-4  # to which captured_ratio_ is measured, on a gram in float32 (fit/sample.py)
WIDTH_KERNELS = ("rbf", "laplacian")
_PACKAGE = os.path.dirname(kernelsieve.__file__)
_VALIDATION = (os.path.join("sklearn", "utils"), os.path.join("sklearn", "base.py"), "array_api_compat")


# Errors


def unclear(error: BaseException) -> Iterator[str]:
    """Why an error is no clear answer to bad input, if it is not.

    Clear is a ValueError or TypeError that this package, or scikit-learn's validation, raised on purpose: one that
    numpy raised half-way through the computation says nothing to who gave the input.
    """
    name = f"{type(error).__name__}: {error}"
    if not isinstance(error, ValueError | TypeError) or isinstance(error, np.linalg.LinAlgError):
        if not (isinstance(error, NotImplementedError) and "for sparse matrices" in str(error)):  # scikit-learn's own
            yield f"{name} (neither ValueError nor TypeError)"
        return
    frame = error.__traceback__
    assert frame is not None
    while frame.tb_next is not None:
        frame = frame.tb_next
    path = frame.tb_frame.f_code.co_filename
    if any(part in path for part in _VALIDATION):
        return
    operation = next(i for i in dis.get_instructions(frame.tb_frame.f_code) if i.offset == frame.tb_lasti)
    if not path.startswith(_PACKAGE) or operation.opname not in ("RAISE_VARARGS", "RERAISE"):
        where = f"{os.path.basename(path)}:{frame.tb_frame.f_code.co_name}"
        yield f"{name} (raised by the way, in {where})"
    if not str(error).strip():
        yield f"{type(error).__name__} without a word"


# State


def fingerprint_of(X: Any) -> Any:
    """What must be the same after a fit of X: its bytes, or its parts'."""
    if scipy.sparse.issparse(X):
        return tuple(part.tobytes() for part in (X.data, X.indices, X.indptr))
    if isinstance(X, list | tuple):
        return tuple(fingerprint_of(part) for part in X)
    if callable(X) or hasattr(X, "dask"):
        return None
    try:
        values = np.asarray(X)
    except (ValueError, TypeError, RuntimeError):
        return None
    return values.tobytes() if values.dtype != object else repr(X)


class Surroundings:
    """What a fit must leave as it found it, outside of its estimator: threads and BLAS."""

    def __init__(self) -> None:
        self.blas = blas_threads()

    def complaints(self) -> Iterator[str]:
        if blas_threads() != self.blas:
            yield f"BLAS threads {self.blas} became {blas_threads()}"
        n_readers = sum(map(_reads_blocks, sys._current_frames().values()))
        if n_readers:
            yield f"{n_readers} reader thread(s) stayed"


def _reads_blocks(frame: Any) -> bool:
    """Whether a thread is at work in the reader of a stream."""
    while frame is not None and frame.f_code.co_name != "read_blocks":
        frame = frame.f_back
    return frame is not None


def blas_threads() -> list[int]:
    """The number of threads of every BLAS in the process."""
    from threadpoolctl import threadpool_info

    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]


def state_of(model: Any) -> dict[str, Any]:
    """The attributes of an estimator, callbacks of scikit-learn left out."""
    return {name: value for name, value in vars(model).items() if "callback" not in name and "_skl_" not in name}


def changed(model: Any, before: dict[str, Any]) -> Iterator[str]:
    """Attributes that are not the very objects they were."""
    after = state_of(model)
    for name in sorted(set(before) | set(after)):
        if name not in after:
            yield f"{name} was lost"
        elif name not in before:
            yield f"{name} was left behind"
        elif after[name] is not before[name]:
            yield f"{name} was replaced"


# Fitted models


def not_finite(model: Any) -> Iterator[str]:
    """Public results that are NaN or infinite; ADMM has no duality gap, and says so by NaN."""
    names = [name for name in vars(model) if name.endswith("_") and not name.startswith("_")]
    if getattr(model, "solver", "") == "admm":
        names.remove("dual_gap_")
    names += [name for name in ("dual_coef_", "offset_", "support_vectors_") if hasattr(type(model), name)]
    for name in names:
        value = getattr(model, name)
        if scipy.sparse.issparse(value):
            value = value.data
        elif hasattr(value, "detach"):
            value = value.cpu().numpy()
        if isinstance(value, float | np.floating | np.ndarray):
            numbers = np.asarray(value)
            if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
                yield f"{name} is not finite"


def impossible(model: Any, *, single: bool = False) -> Iterator[str]:
    """Shares and variances that cannot be."""
    tolerance = SHARE_TOLERANCE[single]
    if hasattr(model, "explained_variance_"):
        variance = to_numpy(model.explained_variance_)
        if variance.size == 0:
            yield "no component at all"
        elif variance.min() < 0:
            yield f"explained_variance_ is negative: {variance.min():.3g}"
    if hasattr(model, "explained_variance_ratio_"):
        ratio = to_numpy(model.explained_variance_ratio_)
        if ratio.size and (ratio.min() < -tolerance or ratio.sum() > 1 + tolerance):
            yield f"explained_variance_ratio_ is from {ratio.min():.6g} on and sums to {ratio.sum():.6g}"
    captured = getattr(model, "captured_ratio_", None)
    if captured is not None and not -tolerance <= captured <= 1 + tolerance:
        yield f"captured_ratio_ is {captured:.6g}"


def wrong_scores(model: Any, scores: Any, n_rows: int, *, single: bool = False) -> Iterator[str]:
    """Scores of another shape, dtype, or not finite."""
    values = to_numpy(scores)
    expected = (n_rows, model._n_features_out)
    if values.shape != expected:
        yield f"scores have shape {values.shape}, not {expected}"
    if values.dtype != (np.float32 if single else np.float64):
        yield f"scores are {values.dtype} for {'float32' if single else 'float64'} rows"
    if not np.isfinite(values).all():
        yield "scores are not finite"


def batch_dependent(model: Any, X: Any, scores: np.ndarray, rounding: Rounding) -> Iterator[str]:
    """Scores that depend on the rows transformed beside them, by more than sums in another order do."""
    n = scores.shape[0]
    for rows in (slice(0, 1), slice(n // 2, n)):
        gap = np.abs(to_numpy(model.transform(X[rows])).astype(np.float64) - scores[rows]).max(axis=0)
        if (gap > 2 * rounding.scores).any():
            worst = int(np.argmax(gap - 2 * rounding.scores))
            size = float(np.abs(scores[:, worst]).max())
            yield f"transform depends on the batch: {gap[worst]:.3g} of {size:.3g}"
            return


def variance_untrue(model: Any, scores: np.ndarray, weights: Any, rounding: Rounding) -> Iterator[str]:
    """explained_variance_ that is not the variance of the scores on the training rows."""
    reported = to_numpy(model.explained_variance_)
    omega = np.full(len(scores), 1.0 / len(scores)) if weights is None else np.asarray(weights, float)
    omega = omega / omega.max()
    omega = omega / omega.sum()
    scores = scores.astype(np.float64)
    mean = omega @ scores if getattr(model, "center", True) else 0.0
    found = omega @ (scores - mean) ** 2
    if isinstance(model, kernelsieve.ElasticNetPCA | kernelsieve.RobustElasticNetPCA):
        return  # theirs is what each component adds to those before it, of robust weights
    if isinstance(model, kernelsieve.LikelihoodKernelPCA | kernelsieve.RobustSparseKernelPCA):
        return  # robust weights; posterior means
    if isinstance(model, kernelsieve.CompressedKernelPCA) or not reported.size:
        return  # the original's
    gap = np.abs(reported - found)
    if (gap > rounding.variance(np.maximum(reported, found))).any():
        largest = max(float(reported.max()), float(found.max()))
        yield f"explained_variance_ is off by {gap.max() / largest:.3g} of the scores' variance"


def exact_variances(model: Any, rows: np.ndarray, weights: Any) -> np.ndarray | None:
    """Eigenvalues of the covariance in feature space, descending, from the definition; None where there is no truth."""
    kernel = getattr(model, "kernel", "linear")
    if callable(kernel) or kernel == "precomputed" or not hasattr(model, "expansion_"):
        return None
    options = {"gamma": model.gamma_} if kernel in (*WIDTH_KERNELS, "poly", "sigmoid") else {}
    if kernel in ("poly", "sigmoid"):
        options["coef0"] = model.coef0
    if kernel == "poly":
        options["degree"] = model.degree
    with np.errstate(all="ignore"):
        if kernel == "rbf":  # by differences: to scikit-learn's products a row far out is not one with its own copy
            gram = np.exp(-model.gamma_ * cdist(rows, rows, "sqeuclidean"))
        elif kernel == "cosine":  # scikit-learn's takes rows for zero that are shorter than ten roundings
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            directions = rows / np.where(lengths > 0, lengths, 1.0)
            gram = directions @ directions.T
        else:
            gram = pairwise_kernels(rows, metric=kernel, **options)
    if not np.isfinite(gram).all():
        return None
    omega = np.full(len(rows), 1.0 / len(rows)) if weights is None else np.asarray(weights, float) / np.max(weights)
    omega = omega / omega.sum()
    mean = omega @ gram
    if model.center:
        gram = gram - mean - mean[:, None] + mean @ omega
    root = np.sqrt(omega)
    return np.maximum(np.linalg.eigvalsh(root[:, None] * gram * root)[::-1], 0.0)


def may_be_indefinite(model: Any) -> bool:
    """Whether the kernel need not be positive semi-definite."""
    kernel = getattr(model, "kernel", "linear")
    return kernel == "sigmoid" or (kernel == "poly" and (model.degree != round(model.degree) or model.coef0 < 0))


def untrue_agreement(model: Any, rows: np.ndarray, weights: Any, rounding: Rounding) -> Iterator[str]:
    """A ratio of a kernel that need not be definite which is not what variances and exact kernel PCA's have in common.

    A model whose variances are far above exact kernel PCA's is as wrong as one whose variances are far below.
    """
    own = isinstance(model, kernelsieve.SparseKernelPCA | kernelsieve.OnlineKernelPCA)
    if not own or not model.expansion_.orthogonal or model.captured_ratio_kind_ != "all rows":
        return
    truth, found = exact_variances(model, rows, weights), to_numpy(model.explained_variance_)
    if truth is None or not truth[0] > 0:
        return
    truth = truth[: len(found)]
    agreement = max(1 - float(np.abs(found - truth).sum() / truth.sum()), 0.0)
    if abs(agreement - model.captured_ratio_) > rounding.share(float(truth.sum())) + MEASURED:
        yield f"captured_ratio_ is {model.captured_ratio_:.6g} where {agreement:.6g} is that of exact kernel PCA"


def untrue_shares(
    model: Any, rows: np.ndarray, weights: Any, rounding: Rounding, *, single: bool = False
) -> Iterator[str]:
    """Shares of the variance above what exact kernel PCA, from the definition, has; ratios that are not true."""
    if isinstance(model, kernelsieve.RobustSparseKernelPCA):
        return  # shares of what is left when outliers count less
    if may_be_indefinite(model):
        yield from untrue_agreement(model, rows, weights, rounding)
        return
    truth = exact_variances(model, rows, weights)
    if truth is None or not truth[0] > 0:
        return
    kernel = model.kernel
    length = 1.0 if kernel in (*WIDTH_KERNELS, "cosine") else float(np.max(np.abs(rows)) ** 2 * rows.shape[1])
    if kernel == "poly":
        length = float((model.gamma_ * length + abs(model.coef0)) ** model.degree)
    if truth.sum() < NO_VARIANCE[single] * length:
        return
    n_components = model._n_features_out
    best = float(truth[:n_components].sum())
    share = float(to_numpy(model.explained_variance_ratio_).sum())
    tolerance = rounding.share(float(truth.sum()))
    known = getattr(model, "captured_ratio_kind_", "") in ("exact", "all rows")
    if not known and share > 0:
        # the mean's length outside the points is estimated on a sample: the total is too small by all of it at most
        total = float(to_numpy(model.explained_variance_).sum()) / share
        share *= total / (total + getattr(model, "mean_outside_", 0.0))
    if share > best / truth.sum() + tolerance:
        yield f"explained_variance_ratio_ sums to {share:.6g}, exact kernel PCA's to {best / truth.sum():.6g}"
    own = not isinstance(model, kernelsieve.LikelihoodKernelPCA | kernelsieve.CompressedKernelPCA)
    own &= getattr(model, "eigen_solver", "") != "randomized"  # which is asked for because it is rough
    if own and model.expansion_.orthogonal and known:
        captured = float(to_numpy(model.explained_variance_).sum()) / best
        if abs(captured - model.captured_ratio_) > rounding.share(best) + MEASURED:
            yield f"captured_ratio_ is {model.captured_ratio_:.6g} where {captured:.6g} is captured"


def wrong_uses(model: Any, X: Any, *, single: bool = False) -> Iterator[str]:
    """reconstruction_error, score and inverse_transform that are not finite or impossible."""
    error = to_numpy(model.reconstruction_error(X))
    if not np.isfinite(error).all() or error.min() < 0:
        yield f"reconstruction_error is from {error.min():.3g} to {error.max():.3g}"
    score = model.score(X)
    if not score <= 1 + SHARE_TOLERANCE[single]:
        yield f"score is {score:.6g}"
    try:
        rows = to_numpy(model.inverse_transform(to_numpy(model.transform(X))))
    except (ValueError, AttributeError) as error:
        if "inverse" not in str(error) and "go back" not in str(error):
            yield from unclear(error)
    else:
        if not np.isfinite(rows).all():
            yield "inverse_transform is not finite"


def complaints_of_fit(
    model: Any, X: Any, rows: np.ndarray, weights: Any, *, single: bool = False, told: str = ""
) -> Iterator[str]:
    """All that can be held against a model fitted to X, whose plain numbers are `rows`.

    `told` is what the fit has warned of: that its scores are rounding, or that the kernel is indefinite, and what
    follows from that, is not held against it.
    """
    constant, indefinite = "nearly constant" in told, "not positive semi-definite" in told
    yield from not_finite(model)
    if not (constant and model._n_features_out == 0):
        yield from impossible(model, single=single)
    scores = model.transform(X)
    yield from wrong_scores(model, scores, len(rows), single=single)
    scores = to_numpy(scores)
    if not constant:
        rounding = rounding_of(model, rows, single=single)
        if not indefinite:
            yield from variance_untrue(model, scores, weights, rounding)
        yield from untrue_shares(model, rows, weights, rounding, single=single)
        yield from batch_dependent(model, X, scores, rounding)
    if scores.size:
        yield from wrong_uses(model, X, single=single)


def to_numpy(values: Any) -> np.ndarray:
    """Numbers of any array library in numpy."""
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    return np.asarray(values)
