"""Rows given by their kernel values with some landmarks: fits then need k(x, S) and k(S, S), nothing else.

A row of values determines the projection of phi(x) on the span of the landmarks' features, so the kernel of two rows
is

    k(x, S) k(S, S)^-1 k(S, y)

(Williams & Seeger 2001), which equals k if x or y is a landmark.  It is a linear kernel of rows expressed in an
orthonormal basis of that span.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, like
from .base import Kernel
from .products import Linear
from .views import View
from .width import Seen

# By the bytes of a number: how much k(s, t) and k(t, s) may differ, and how far below zero an eigenvalue may be,
# relative to the largest.
LANDMARK_ROUNDING = {4: 1e-4, 8: 1e-8}


@dataclass(frozen=True, repr=False, eq=False)
class Landmarks(View):
    """k(x, S) k(S, S)^-1 k(S, y) of rows k(x, S); made by `landmarks`."""

    kernel: Kernel
    gram: Any
    name = "landmarks"
    of_all = ("differentiable",)
    linear_in_rows = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "not_exported", "its kernel values come from elsewhere")
        gram = self.gram
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not gram.size:
            raise ValueError(f"landmarks() needs k(S, S), a square matrix, and this one has shape {gram.shape}")
        if not np.all(np.isfinite(gram)):
            i, j = np.argwhere(~np.isfinite(gram))[0]
            raise ValueError(f"k(S, S) of landmarks() has {gram[i, j]} for the pair {i}, {j}")
        rounding = LANDMARK_ROUNDING[gram.dtype.itemsize]
        off = np.abs(gram - gram.T) > rounding * np.abs(gram).max()
        if off.any():
            i, j = np.argwhere(off)[0]
            raise ValueError(
                f"k(S, S) of landmarks() is not symmetric: {gram[i, j]:.6g} and {gram[j, i]:.6g} at {i}, {j}"
            )
        values, vectors = np.linalg.eigh(gram.astype(np.float64))
        if not values[-1] > 0 or values[0] < -rounding * values[-1]:
            raise ValueError(
                f"k(S, S) of landmarks() has the eigenvalue {values[0]:.3g} beside {values[-1]:.3g}: the kernel must "
                "be positive semi-definite on the landmarks, and not zero"
            )
        real = values > len(gram) * np.finfo(gram.dtype).eps * values[-1]
        object.__setattr__(self, "whitening", vectors[:, real] / np.sqrt(values[real]))

    def __repr__(self) -> str:
        return f"landmarks(<k(S, S) of {len(self.gram)}>)"

    def settled(self, seen: Seen) -> Kernel:
        if scipy.sparse.issparse(seen.rows):
            raise ValueError("landmarks() needs dense rows: give k(x, S) as an array")
        if seen.n_columns != len(self.gram):
            raise ValueError(
                f"rows have {seen.n_columns} values, and k(S, S) of landmarks() is of {len(self.gram)} landmarks: rows "
                "are k(x, S), one value for each"
            )
        return self

    def stretched(self, factors: tuple[float, ...]) -> Kernel:
        return Kernel.stretched(self, factors)

    def _basis(self, rows: Array) -> Array:
        return like(self.whitening, rows)  # type: ignore[attr-defined]

    def see(self, rows: Array) -> Array:
        return rows @ self._basis(rows)

    def back(self, slopes: Array, like_points: Array) -> Array:
        return slopes @ self._basis(slopes).T

    def linear_features(self, rows: Array) -> Array:
        return self.see(rows)

    def with_features(self, features: Array) -> Array:
        return features @ like(np.linalg.pinv(self.whitening), features)  # type: ignore[attr-defined]

    def unit(self, rows: Array) -> tuple[float, Kernel]:
        return 1.0, self

    def numbers(self) -> list[Any]:
        return [float(np.abs(self.gram).max())]


def landmarks(gram: Any) -> Landmarks:
    """A kernel for rows that are kernel values with landmarks S: the rows are k(x, S), and k(S, S) is given here.

    For kernels that are computed elsewhere, or read from a file: N x m values are all that a fit needs, and m those of
    a new row.  The rows are as good as the landmarks: what of a row lies outside of their span in feature space is not
    seen, and counts neither in `explained_variance_ratio_`, `captured_ratio_` and `score` nor as reconstruction error.

    Parameters
    ----------
    gram : array of shape (m, m)
        k(S, S), positive semi-definite, in the precision of the rows.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import landmarks
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> S = X[:40]
    >>> def k(A, B):
    ...     return np.exp(-((A[:, None] - B) ** 2).sum(axis=2) / 4)
    >>> model = SparseKernelPCA(2, n_support=10, kernel=landmarks(k(S, S)), random_state=0).fit(k(X, S))
    >>> model.transform(k(X[:5], S)).shape
    (5, 2)
    """
    values = np.asarray(gram)
    return Landmarks(Linear(), values if values.dtype == np.float32 else values.astype(np.float64))
