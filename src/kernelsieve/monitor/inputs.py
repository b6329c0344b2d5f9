"""What the kernel of a monitor sees of the inputs: windows of rows, standardised or whitened.

A window is a row and the `lags` rows before it, side by side, the newest first.  Windows then go through an affine map

    u = (x - center) / scale                standardised, column by column
    u = (x - center) W                      whitened: W = diag(1/scale) V L^-1/2, over the directions V of the
                                            standardised columns whose variance L is more than rounding

so that a Gaussian kernel of u is one of Mahalanobis distances.  A gradient in u becomes one in the inputs by the same
matrix, dx = W du, and P = W W' says how far a unit of each input moves u:  P_jj = |W_j|^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse

from ..arrays import Array, itemsize, like, namespace, to_numpy
from ..numerics import ROUNDING
from ..rows.checks import SMALLEST, ScaleError

# Directions with less variance than this share of the largest are rounding, or columns that repeat others.
NO_INPUT_DIRECTION = 1e-6


@dataclass(frozen=True)
class InputMap:
    """u = (x - center) * factor for a vector, (x - center) @ factor for a matrix."""

    center: np.ndarray  # (q,)
    factor: np.ndarray  # (q,) or (q, r)

    _file_sizes = ("q",)
    _file_layout = {"center": "float[q]", "factor": "float[q] | float[q, *]"}

    def __call__(self, windows: Array) -> Array:
        """The windows as the kernel sees them, in their own dtype and on their device; objects unchanged."""
        if windows.dtype == object:
            return windows
        shifted = windows - like(self.center, windows)
        factor = like(self.factor, windows)
        return shifted @ factor if factor.ndim == 2 else shifted * factor

    def gradient(self, gradient: Array) -> Array:
        """A gradient in u, (n, r), converted to one in the inputs, (n, q)."""
        factor = like(self.factor, gradient)
        return gradient @ factor.T if factor.ndim == 2 else gradient * factor

    @property
    def metric_diagonal(self) -> np.ndarray:
        """P_jj, the squared length in u of a unit step of each input."""
        return np.sum(self.factor**2, axis=1) if self.factor.ndim == 2 else self.factor**2

    def moved(self, center: np.ndarray) -> InputMap:
        """This map about another centre."""
        return InputMap(center, self.factor)


def no_map(n_columns: int) -> InputMap:
    """Inputs unchanged."""
    return InputMap(np.zeros(n_columns), np.ones(n_columns))


def learn_map(windows: Array, *, standardize: bool, whiten: bool, shift: bool = True) -> InputMap:
    """The map fitted to these windows; without `shift`, columns are only divided, and zero stays zero.

    Constant columns keep their unit if columns are standardised; whitening drops them, so later changes in them are
    not seen.
    """
    values = to_numpy(windows)
    if not (standardize or whiten) or values.dtype == object:
        return no_map(values.shape[1])
    center, scale = column_scales(values)
    if scale.min() < SMALLEST[itemsize(values)]:
        raise ScaleError(
            int(np.argmin(scale)),
            f"has a standard deviation of {scale.min():.3g}, too small to bring to one: scale it, or leave it out",
        )
    if not whiten:
        return InputMap(center if shift else np.zeros_like(center), 1.0 / scale)
    standard = (values - center) / scale
    variances, directions = scipy.linalg.eigh(standard.T @ standard / len(standard))
    kept = variances > NO_INPUT_DIRECTION * variances[-1]
    if not variances[-1] > 0:
        raise ValueError("all columns are constant: there is nothing to monitor")
    return InputMap(center, (directions[:, kept] / np.sqrt(variances[kept])) / scale[:, None])


def column_scales(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column in float64; for constant columns the deviation is set to 1."""
    center = values.mean(axis=0, dtype=np.float64)
    scale = values.std(axis=0, dtype=np.float64)
    return center, np.where(constant_columns(values), 1.0, scale)


def constant_columns(values: np.ndarray) -> np.ndarray:
    """Whether each column holds one value, up to rounding; False for objects."""
    if values.dtype == object:
        return np.zeros(values.shape[1], dtype=bool)
    rounding = ROUNDING[4 if values.dtype == np.float32 else 8]
    return values.std(axis=0, dtype=np.float64) <= rounding * np.abs(values).max(axis=0)


def windows_of(rows: Array, lags: int) -> Array:
    """Each row from number `lags` on, with the `lags` rows before it, (n - lags, d (lags + 1)), the newest first."""
    if not lags:
        return rows
    n_windows = rows.shape[0] - lags
    parts = [rows[lags - lag : lags - lag + n_windows] for lag in range(lags + 1)]
    return namespace(rows).concat(parts, axis=1)


def summed_over_lags(values: Array, n_features: int) -> Array:
    """(n, d (lags + 1)) -> (n, d)."""
    return namespace(values).sum(values.reshape((values.shape[0], -1, n_features)), axis=1)
