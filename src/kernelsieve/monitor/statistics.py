"""Two statistics of a row under a kernel expansion, and the inputs that contribute to one of them.

    T2  = sum_k z_k^2 / lambda_k                                  distance along the components
    SPE = k(x, x) - 2 k(x, S) c + c' K_SS c - |z|^2               squared distance off them, in feature space

For a Gaussian kernel T2 becomes small again for rows far from all points, because their scores tend to a constant.  So
alarms depend on SPE, never on T2 alone.  SPE is a squared distance only if the kernel is positive semi-definite: for
other kernels, such as tanh, it can be negative, and they are refused (`crossfit.check_distances`).

Contributions to SPE.  Let  dSPE/dx = dk(x, x)/dx - 2 sum_i (c_i + (A z)_i) dk(x, s_i)/dx  be the gradient with respect
to the inputs, and P_jj the squared length of a unit of input j in the kernel's metric.  Then

    share_j ~ (dSPE/dx_j)^2 / P_jj

is the squared slope along input j per unit of kernel distance.  Shares are scaled to add up to the row's SPE.  The
kernel values of far rows underflow, so their exponents are shifted by a constant for each row; the scaling cancels it.

Limits must be valid for rows that the model has not seen.  A limit set by a quantile of the training rows' own
statistic gives two to ten times too many alarms, because the model was fitted to these rows.  So the rows are cut into
`cv` contiguous folds, each fold is scored by a model of the others, and the limit is an order statistic of these n
held-out values,

    limit = the k-th smallest of n,     k = ceil((n + 1)(1 - alpha))

which a new row of the same kind exceeds with probability (n + 1 - k)/(n + 1) <= alpha.  This probability is an average:
for the limit at hand it follows Beta(n + 1 - k, k), whose central 90 % are reported as an interval.  Neighbouring rows
are similar, and smoothed values even more so.  For the interval, n values therefore count as only

    n / tau,     tau = 1 + 2 sum_j rho_j,     rho_j the correlation of ranks that are j values apart,

where tau is at least (2 - w) / w if values are smoothed with weight w.  Folds are contiguous for the same reason: the
rows of a random fold would be predicted from their own neighbours.

The kernel of a monitor is applied to windows of rows, standardised or whitened.  A window is a row and the `lags` rows
before it, side by side, the newest first.  An affine map turns a window x into the kernel's input u:

    u = (x - center) / scale                standardised, column by column
    u = (x - center) W                      whitened: W = diag(1/scale) V L^-1/2; V are the directions of the
                                            standardised columns whose variance L is more than rounding

After whitening, a Gaussian kernel of u depends on Mahalanobis distances.  The same matrix turns a gradient in u into
one in the inputs, dSPE/dx = W dSPE/du, and P = W W' gives the squared length in u of a unit of each input:
P_jj = |W_j|^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.stats import beta, rankdata

from ..arrays import Array, is_foreign, itemsize, like, namespace, to_numpy
from ..errors import ScaleError
from ..fit.expansion import KernelExpansion
from ..fit.interpret import weighted_gradient
from ..fit.moments import gram_of
from ..kernels.blocks import dense
from ..numerics import ROUNDING
from ..rows.checks import SMALLEST, finite
from ..rows.rows import map_row_blocks
from ..threads import cached_property

# Directions with less than this share of the largest variance come from rounding, or from columns that repeat others.
NO_INPUT_DIRECTION = 1e-6


@dataclass(frozen=True)
class InputMap:
    """u = (x - center) * factor for a vector, (x - center) @ factor for a matrix."""

    center: Annotated[np.ndarray, "float[q]"]  # (q,)
    factor: Annotated[np.ndarray, "float[q] | float[q, *]"]  # (q,) or (q, r)

    _file_sizes = ("q",)

    def __call__(self, windows: Array) -> Array:
        """The windows mapped to u, in their own dtype and on their device; objects are not changed."""
        if windows.dtype == object:
            return windows
        shifted = windows - like(self.center, windows)
        factor = like(self.factor, windows)
        return shifted @ factor if factor.ndim == 2 else shifted * factor

    def gradient(self, gradient: Array) -> Array:
        """A gradient with respect to u, (n, r), converted to one with respect to the inputs, (n, q)."""
        factor = like(self.factor, gradient)
        return gradient @ factor.T if factor.ndim == 2 else gradient * factor

    @property
    def metric_diagonal(self) -> np.ndarray:
        """P_jj, the squared length in u of a unit step of each input."""
        return np.sum(self.factor**2, axis=1) if self.factor.ndim == 2 else self.factor**2

    def moved(self, center: np.ndarray) -> InputMap:
        """The map with the same factor and another centre."""
        return InputMap(center, self.factor)


def no_map(n_columns: int) -> InputMap:
    """The map that leaves inputs unchanged."""
    return InputMap(np.zeros(n_columns), np.ones(n_columns))


def learn_map(windows: Array, *, standardize: bool, whiten: bool, shift: bool = True) -> InputMap:
    """The map fitted to these windows; without `shift`, columns are divided but not centred, so zero stays zero.

    Standardising keeps the unit of constant columns.  Whitening drops them, so later changes in them are not detected.
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
    """Whether each column is constant up to rounding; False for objects."""
    if values.dtype == object:
        return np.zeros(values.shape[1], dtype=bool)
    rounding = ROUNDING[4 if values.dtype == np.float32 else 8]
    return values.std(axis=0, dtype=np.float64) <= rounding * np.abs(values).max(axis=0)


def windows_of(rows: Array, lags: int) -> Array:
    """The windows, (n - lags, d (lags + 1)), of all rows from number `lags` on: a row, then the rows before it."""
    if not lags:
        return rows
    n_windows = rows.shape[0] - lags
    parts = [rows[lags - lag : lags - lag + n_windows] for lag in range(lags + 1)]
    return namespace(rows).concat(parts, axis=1)


def summed_over_lags(values: Array, n_features: int) -> Array:
    """Contributions of the inputs of a window, (n, d (lags + 1)), added up over the lags of each column, (n, d)."""
    return namespace(values).sum(values.reshape((values.shape[0], -1, n_features)), axis=1)


# Rows whose kernel values are all below this get new ones with shifted exponents: products of the small values would
# lose digits or underflow.
SMALL_KERNEL_VALUE = 1e-12
# Rounding error of SPE, a difference of squared lengths, in units of the rounding error of a squared length.
SPE_ROUNDING = 100.0
# Temporary arrays take about this many times the room of a block's kernel values and columns, and must fit the cache.
TEMPORARIES = 8


@dataclass(frozen=True)
class Detector:
    """A fitted expansion with its input map and the variances of its scores; it computes T2, SPE and contributions."""

    expansion: Annotated[KernelExpansion, "KernelExpansion[m, w, M]"]  # its inputs are windows mapped by `inputs`
    variances: Annotated[np.ndarray, "positive[M]"]  # (M,) variances of the training scores
    inputs: Annotated[InputMap, "InputMap[q]"]

    _file_sizes = ("m", "w", "M")

    def statistics(self, windows: Array, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """T2 and SPE of each window, in float64 on the host."""
        prepare, measure = self.inputs, self._measure(windows)

        def of_block(rows: slice) -> np.ndarray:
            _, _, t2, spe = measure(prepare(finite(windows[rows, :])))
            return np.stack([to_numpy(t2), to_numpy(spe)]).astype(np.float64)

        blocks = list(map_row_blocks(of_block, windows, self._width(windows), n_threads))
        t2, spe = np.concatenate(blocks, axis=1) if blocks else np.zeros((2, 0))
        return t2, spe

    def contributions(self, windows: Array, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """T2 and SPE of each window, (n,), and the contribution of each of its columns to SPE, (n, q)."""
        prepare, measure = self.inputs, self._measure(windows)
        metric = np.where(prepare.metric_diagonal > 0, prepare.metric_diagonal, np.inf)

        t2, spe = np.empty((2, windows.shape[0]))
        parts = np.empty(tuple(windows.shape))

        def fill(rows: slice) -> None:
            u = prepare(finite(windows[rows, :]))
            cross_gram, scores, block_t2, block_spe = measure(u)
            t2[rows], spe[rows] = to_numpy(block_t2), to_numpy(block_spe)
            slope = to_numpy(prepare.gradient(self._slope(u, cross_gram, scores)))
            # Computed here, on the thread that computed the slopes, while they are in its cache.
            np.multiply(shares(slope, metric), spe[rows, None], out=parts[rows])

        for _ in map_row_blocks(fill, windows, self._width(windows), n_threads):
            pass
        return t2, spe, parts

    def _width(self, windows: Array) -> int:
        """How many numbers are computed for each row, temporary ones included; it determines the size of blocks."""
        return int(TEMPORARIES * (self.expansion.n_support + windows.shape[1]))

    def _measure(self, example: Array) -> Callable[[Array], tuple[Array, Array, Array, Array]]:
        """The function that computes k(u, S), the scores z of an orthonormal model, T2 and SPE from windows u.

        `example` gives dtype and device.
        """
        model = self.expansion.orthonormal
        points = model.points_like(example)
        cross_gram_of = model.kernel.bind(points)
        coef, offset = like(model.coef, points), like(model.offset, points)
        same = model is self.expansion
        own_coef, own_offset = like(self.expansion.coef, points), like(self.expansion.offset, points)
        precision = like(_precision(self.variances), points)
        mean_coef = None if model.mean_coef is None else like(model.mean_coef, points)
        length = self.mean_square

        def measure(u: Array) -> tuple[Array, Array, Array, Array]:
            xp = namespace(u)
            cross_gram = cross_gram_of(u)
            scores = cross_gram @ coef - offset
            own = scores if same else cross_gram @ own_coef - own_offset
            spe = model.kernel.diagonal(u) + length - xp.vecdot(scores, scores)
            if mean_coef is not None:
                spe = spe - 2 * (cross_gram @ mean_coef)
            return cross_gram, scores, (own * own) @ precision, xp.maximum(spe, xp.zeros_like(spe))

        return measure

    def rounding(self, windows: Array) -> float:
        """The rounding error of SPE for rows similar to the training rows, in the dtype of `windows`."""
        precision = np.finfo(np.float32 if "32" in str(windows.dtype) else np.float64).eps
        return SPE_ROUNDING * float(precision) * (float(self.variances.sum()) + abs(self.mean_square))

    @property
    def farthest(self) -> float:
        """SPE of a row so far out that its kernel values are all zero; infinite if the kernel is not stationary."""
        model = self.expansion.orthonormal
        if not model.kernel.stationary:
            return np.inf
        offset = to_numpy(model.offset)
        return float(model.kernel.diagonal(model.points[:1, :])[0]) + self.mean_square - float(offset @ offset)

    @cached_property
    def mean_square(self) -> float:
        """c' K_SS c; computed on the host, so that a saved and a loaded model agree in all digits."""
        model = self.expansion.on_host() if is_foreign(self.expansion.points) else self.expansion
        if model.mean_coef is None:
            return 0.0
        return float(model.mean_coef @ (gram_of(model.kernel, model.points) @ model.mean_coef))

    def _slope(self, u: Array, cross_gram: Array, scores: Array) -> Array:
        """dSPE/du, up to a factor for each row."""
        model = self.expansion.orthonormal
        weights = scores @ like(model.coef, u).T
        if model.mean_coef is not None:
            weights = weights + like(model.mean_coef, u)
        if model.kernel.stationary:
            cross_gram = _shifted(model, u, cross_gram)
        slope = weighted_gradient(model, u, cross_gram, weights)
        own = model.kernel.diagonal_gradient(u)
        return slope if own is None else slope - own / 2  # -dSPE/du / 2; the factor cancels in the shares


def shares(slope: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """slope_j^2 / metric_j, scaled to add up to one for each row; equal shares if all slopes are zero."""
    slope = slope.astype(np.float64)  # a copy, which is modified in place
    largest = np.maximum(slope.max(axis=1), -slope.min(axis=1))
    flat = ~(largest > 0)
    slope /= np.where(flat, 1.0, largest)[:, None]  # else the squares of a far row's slopes would underflow
    squares = np.square(slope, out=slope)
    squares /= metric
    squares[flat] = np.isfinite(metric)
    total = squares.sum(axis=1, keepdims=True)
    squares /= np.where(total > 0, total, 1.0)
    return squares


def _precision(variances: np.ndarray) -> np.ndarray:
    """1 / lambda_k; zero for components without variance."""
    real = variances > ROUNDING[8] * max(float(variances.max(initial=0.0)), 0.0)
    return np.where(real, 1.0 / np.where(real, variances, 1.0), 0.0)


def _shifted(model: KernelExpansion, u: Array, cross_gram: Array) -> Array:
    """The kernel values; those of a far row are recomputed, divided by the row's largest so that none underflow."""
    xp = namespace(cross_gram)
    far = np.flatnonzero(to_numpy(xp.max(cross_gram, axis=1)) < SMALL_KERNEL_VALUE)
    if not len(far):
        return cross_gram
    points = to_numpy(dense(model.points)).astype(np.float64)
    exponents = model.kernel.far_exponents(to_numpy(u)[far].astype(np.float64), points)
    if exponents is None:
        return cross_gram
    values = np.array(to_numpy(cross_gram))
    values[far] = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return like(values, cross_gram)


CONFIDENCE = 0.9  # probability that the interval of the false alarm rate contains it
CHANCE = 2.0  # correlations up to this many standard errors, of 1 / sqrt(n) each, may be due to chance


@dataclass(frozen=True)
class Limit:
    """A limit, and how often new normal rows exceed it."""

    value: float
    rate: float  # expected share of new rows above it
    interval: tuple[float, float]  # contains this share with probability CONFIDENCE
    n_held_out: int
    n_effective: float  # number of independent values that would give as narrow an interval


def limit_of(values: np.ndarray, false_alarm_rate: float, smoothing: float | None = None) -> Limit:
    """The limit set by held-out values in the order of time, smoothed with weight `smoothing` if that is given."""
    n = len(values)
    place = min(n, math.ceil((n + 1) * (1 - false_alarm_rate)))
    above = n + 1 - place
    memory = 1.0 if smoothing is None else (2 - smoothing) / smoothing
    count = n / max(memory, correlation_time(values))
    tail, rate = (1 - CONFIDENCE) / 2, above / (n + 1)
    low, high = beta.ppf([tail, 1 - tail], rate * (count + 1), (1 - rate) * (count + 1))
    value = float(np.partition(values, place - 1)[place - 1])
    return Limit(value, rate, (float(low), float(high)), n, count)


def correlation_time(values: np.ndarray) -> float:
    """How many consecutive values count as one independent value.

    This is  1 + 2 sum_j rho_j,  where the sum ends before the first rho_j that may be due to chance.
    """
    ranks = rankdata(values) - (len(values) + 1) / 2
    spectrum = np.abs(np.fft.rfft(ranks, 2 * len(ranks))) ** 2
    products = np.fft.irfft(spectrum)[: len(ranks)] / np.arange(len(ranks), 0, -1)  # mean product at distance j
    if not products[0] > 0:  # all values are equal
        return 1.0
    correlations = products / products[0]
    ends = np.flatnonzero(correlations <= CHANCE / math.sqrt(len(ranks)))
    return float(1 + 2 * correlations[1 : ends[0] if len(ends) else len(ranks)].sum())


def fold_of(numbers: np.ndarray, n_rows: int, n_folds: int) -> np.ndarray:
    """The fold of each row number; the `n_folds` folds are contiguous and of nearly equal length."""
    bounds = [n_rows * fold // n_folds for fold in range(1, n_folds)]
    return np.searchsorted(bounds, numbers, side="right")


def runs_of(numbers: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
    """For each row, the number of its run: rows of a run have consecutive numbers and the same label."""
    breaks = np.diff(numbers) != 1
    if labels is not None:
        breaks |= np.diff(labels) != 0
    return np.cumsum(np.concatenate([[False], breaks]))


def run_bounds(runs: np.ndarray) -> np.ndarray:
    """The places where runs begin; the last element is the number of rows."""
    return np.concatenate([[0], np.flatnonzero(np.diff(runs)) + 1, [len(runs)]])


def smoothed(values: np.ndarray, weight: float | None, start: float) -> np.ndarray:
    """The exponentially weighted mean  s_t = weight v_t + (1 - weight) s_(t-1),  s_0 = start.

    A value of NaN leaves the mean unchanged, and gives NaN.
    """
    if weight is None:
        return values
    out, state = np.empty(len(values)), start
    for t, value in enumerate(values.tolist()):
        if value == value:
            state += weight * (value - state)
            out[t] = state
        else:
            out[t] = math.nan
    return out


def smoothed_runs(values: np.ndarray, bounds: np.ndarray, weight: float | None, start: float) -> np.ndarray:
    """`smoothed`, restarted at the beginning of every run."""
    parts = [smoothed(values[low:high], weight, start) for low, high in pairwise(bounds.tolist())]
    return np.concatenate(parts)
