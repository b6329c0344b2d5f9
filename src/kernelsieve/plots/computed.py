"""Captured variance against the number of points, measured on the rows at hand."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..fit.validation import some_numbers, whole_number

CURVE_ROWS = 5000  # of the rows that the curve is measured on
N_SIZES, MAX_SIZE = 7, 200
OWN_NAMES = {"optimized": "moved freely", "uniform": "rows at random"}


def computed_curves(
    X: Any, estimator: Any = None, sizes: Sequence[int] | None = None
) -> tuple[list[int], dict[str, list[float]]]:
    """Numbers of points, and by name of the choice the share of exact kernel PCA's variance at each."""
    from .. import SparseKernelPCA

    if estimator is None:
        estimator = SparseKernelPCA(random_state=0)
    if not isinstance(estimator, SparseKernelPCA):
        raise TypeError(f"estimator must be a SparseKernelPCA, not {type(estimator).__name__}")
    shape = np.shape(X) if not hasattr(X, "shape") else tuple(X.shape)
    if len(shape) != 2:
        raise ValueError(f"captured_curve needs rows by columns, or numbers of points with their curves: got {shape}")
    rows = X
    if shape[0] > CURVE_ROWS:
        rows = _safe_indexing(X, np.random.default_rng(0).choice(shape[0], CURVE_ROWS, replace=False))
    if not isinstance(estimator.n_components, Integral):
        raise ValueError(f"captured_curve needs a number of components, not n_components={estimator.n_components}")
    fewest = int(estimator.n_components) + 1
    wanted = _sizes(fewest, min(shape[0], CURVE_ROWS))
    if sizes is not None:
        some_numbers("sizes", sizes, "numbers of support points")
        wanted = [whole_number("sizes", size) for size in np.asarray(sizes).tolist()]
    choices = dict.fromkeys([estimator.selection if isinstance(estimator.selection, str) else "optimized", "uniform"])
    names = {choice: OWN_NAMES.get(choice, choice) for choice in choices}
    return wanted, {name: [_share(estimator, rows, choice, m) for m in wanted] for choice, name in names.items()}


def _sizes(fewest: int, n_rows: int) -> list[int]:
    most = max(fewest, min(MAX_SIZE, n_rows // 2))
    return sorted({round(size) for size in np.geomspace(fewest, most, N_SIZES)})


def _share(estimator: Any, rows: Any, selection: str, n_support: int) -> float:
    settings: dict[str, Any] = {"selection": selection, "n_support": n_support}
    if hasattr(estimator, "gamma_"):
        settings["gamma"] = estimator.gamma_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a curve's poor end: the curve itself shows it
        return float(clone(estimator).set_params(**settings).fit(rows).captured_ratio_)
