"""Two statistics of a row under a kernel expansion, and the inputs that contribute to one of them.

    T2  = sum_k z_k^2 / lambda_k                                  how far along the components
    SPE = k(x, x) - 2 k(x, S) c + c' K_SS c - |z|^2               how far off them, in feature space

For a Gaussian kernel T2 falls again for rows far from all points, because their scores tend to a constant: T2 alone
must never decide.  SPE decides.  It is a distance, and so needs a kernel that is positive semi-definite: for others,
such as tanh, k(x, x) - ... - |z|^2 can have either sign, and they are refused (`crossfit.check_distances`).

Contributions to SPE.  With  dSPE/dx = dk(x, x)/dx - 2 sum_i (c_i + (A z)_i) dk(x, s_i)/dx  in the inputs, and P_jj the
squared length of a unit of input j in the kernel's metric,

    share_j ~ (dSPE/dx_j)^2 / P_jj

is the squared slope along input j per unit of kernel distance.  Shares are scaled to add up to the row's SPE.  Kernel
values of far rows underflow; their exponents are shifted by a constant for each row, which the scaling cancels.

Limits must be valid for rows which the model has not seen.  A quantile of the training rows' own statistic alarms two
to ten times too often, because the model was fitted to them. So the rows are cut into `cv` contiguous folds, each is
scored by a model of the others, and the limit is an order statistic of those held-out values,

    limit = the k-th smallest of n,     k = ceil((n + 1)(1 - alpha))

which a new row of the same kind exceeds with probability (n + 1 - k)/(n + 1) <= alpha.  The probability for *this*
limit is uncertain if n is small: it follows Beta(n + 1 - k, k), of which the central 90 % are reported. Neighbouring
rows are similar, and smoothed values more so: for the interval, n values count as

    n / tau,     tau = 1 + 2 sum_j rho_j,     rho_j the correlation of ranks that are j values apart,

and at least as few as smoothing with weight w leaves, tau >= (2 - w) / w.  Folds are contiguous for the same reason: a
random fold would be predicted from its own neighbours.

The kernel of a monitor sees windows of rows, standardised or whitened.  A window is a row and the `lags` rows before
it, side by side, the newest first.  Windows then go through an affine map

    u = (x - center) / scale                standardised, column by column
    u = (x - center) W                      whitened: W = diag(1/scale) V L^-1/2, over the directions V of the
                                            standardised columns whose variance L is more than rounding

so that a Gaussian kernel of u is one of Mahalanobis distances.  A gradient in u becomes one in the inputs by the same
matrix, dx = W du, and P = W W' says how far a unit of each input moves u:  P_jj = |W_j|^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.stats import beta, rankdata

from ..arrays import Array, is_foreign, itemsize, like, namespace, to_numpy
from ..fit.expansion import KernelExpansion
from ..fit.interpret import weighted_gradient
from ..fit.moments import gram_of
from ..kernels.base import dense
from ..numerics import ROUNDING
from ..rows.checks import SMALLEST, ScaleError, finite
from ..rows.rows import map_row_blocks
from ..threads import cached_property

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
    """Contributions of the inputs of a window, (n, d (lags + 1)), added up for each column, (n, d)."""
    return namespace(values).sum(values.reshape((values.shape[0], -1, n_features)), axis=1)


# Kernel values below this are recomputed with shifted exponents: their products would lose digits or vanish.
SMALL_KERNEL_VALUE = 1e-12
SPE_ROUNDING = 100.0  # rounding error of SPE, which is a difference, in units of the rounding of a row's squared length
# Blocks have this factor fewer rows than kernel values and columns alone would allow, to stay in the cache.
TEMPORARIES = 8


@dataclass(frozen=True)
class Detector:
    """A fitted expansion with the variances of its scores."""

    expansion: KernelExpansion  # over windows that have gone through `inputs`
    variances: np.ndarray  # (M,) of the training scores
    inputs: InputMap

    _file_sizes = ("m", "w", "M")
    _file_layout = {"expansion": "KernelExpansion[m, w, M]", "variances": "positive[M]", "inputs": "InputMap[q]"}

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
        """T2 and SPE of each window, (n,), and the part of SPE that comes from each of its columns, (n, q)."""
        prepare, measure = self.inputs, self._measure(windows)
        metric = np.where(prepare.metric_diagonal > 0, prepare.metric_diagonal, np.inf)

        t2, spe = np.empty((2, windows.shape[0]))
        parts = np.empty(tuple(windows.shape))

        def fill(rows: slice) -> None:
            u = prepare(finite(windows[rows, :]))
            cross_gram, weights, block_t2, block_spe = measure(u)
            t2[rows], spe[rows] = to_numpy(block_t2), to_numpy(block_spe)
            slope = to_numpy(prepare.gradient(self._slope(u, cross_gram, weights)))
            # on the thread that computed the slopes, while these are in its cache
            np.multiply(shares(slope, metric), spe[rows, None], out=parts[rows])

        for _ in map_row_blocks(fill, windows, self._width(windows), n_threads):
            pass
        return t2, spe, parts

    def _width(self, windows: Array) -> int:
        """Numbers computed for each row."""
        return int(TEMPORARIES * (self.expansion.n_support + windows.shape[1]))

    def _measure(self, example: Array) -> Callable[[Array], tuple[Array, Array, Array, Array]]:
        """The map from prepared windows to k(u, S), c + A z, T2 and SPE."""
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
            weights = scores @ coef.T
            spe = model.kernel.diagonal(u) + length - xp.vecdot(scores, scores)
            if mean_coef is not None:
                weights = weights + mean_coef
                spe = spe - 2 * (cross_gram @ mean_coef)
            return cross_gram, weights, (own * own) @ precision, xp.maximum(spe, xp.zeros_like(spe))

        return measure

    def rounding(self, windows: Array) -> float:
        """The rounding error of SPE for rows like the training rows, in their dtype."""
        precision = np.finfo(np.float32 if "32" in str(windows.dtype) else np.float64).eps
        return SPE_ROUNDING * float(precision) * (float(self.variances.sum()) + abs(self.mean_square))

    @property
    def farthest(self) -> float:
        """SPE of a row so far out that all kernel values are zero; infinite if they never are."""
        model = self.expansion.orthonormal
        if not model.kernel.stationary:
            return np.inf
        offset = to_numpy(model.offset)
        return float(model.kernel.diagonal(model.points[:1, :])[0]) + self.mean_square - float(offset @ offset)

    @cached_property
    def mean_square(self) -> float:
        """c' K_SS c; on the host, so that a loaded model has the same last digit as the saved one."""
        model = self.expansion.on_host() if is_foreign(self.expansion.points) else self.expansion
        if model.mean_coef is None:
            return 0.0
        return float(model.mean_coef @ (gram_of(model.kernel, model.points) @ model.mean_coef))

    def _slope(self, u: Array, cross_gram: Array, weights: Array) -> Array:
        """dSPE/du, up to a factor for each row."""
        model = self.expansion.orthonormal
        if model.kernel.stationary:
            cross_gram = _shifted(model, u, cross_gram)
        slope = weighted_gradient(model, u, cross_gram, weights)
        own = model.kernel.diagonal_gradient(u)
        return slope if own is None else slope - own / 2  # only its squares, and their shares, matter


def shares(slope: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """slope_j^2 / metric_j, as shares that add up to one; equal shares if all slopes are zero."""
    slope = slope.astype(np.float64)  # a copy, modified in place
    largest = np.maximum(slope.max(axis=1), -slope.min(axis=1))
    flat = ~(largest > 0)
    slope /= np.where(flat, 1.0, largest)[:, None]  # squares of far rows' slopes would underflow
    squares = np.square(slope, out=slope)
    squares /= metric
    squares[flat] = np.isfinite(metric)
    total = squares.sum(axis=1, keepdims=True)
    squares /= np.where(total > 0, total, 1.0)
    return squares


def _precision(variances: np.ndarray) -> np.ndarray:
    """1 / lambda_k, and zero for components without variance."""
    real = variances > ROUNDING[8] * max(float(variances.max(initial=0.0)), 0.0)
    return np.where(real, 1.0 / np.where(real, variances, 1.0), 0.0)


def _shifted(model: KernelExpansion, u: Array, cross_gram: Array) -> Array:
    """Kernel values divided by the largest of each far row."""
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


CONFIDENCE = 0.9  # of the interval of the false alarm rate
CHANCE = 2.0  # a correlation within this many standard errors, 1 / sqrt(n), may be zero


@dataclass(frozen=True)
class Limit:
    """A limit, and how often rows of the training kind exceed it."""

    value: float
    rate: float  # expected share of new rows above it
    interval: tuple[float, float]  # contains the share with probability CONFIDENCE
    n_held_out: int
    n_effective: float  # number of independent values that are worth as much


def limit_of(values: np.ndarray, false_alarm_rate: float, smoothing: float | None = None) -> Limit:
    """The limit from held-out values, in order; they may have been smoothed."""
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
    """How many consecutive values are worth one: 1 + 2 sum_j rho_j, up to the first rho_j that may be chance."""
    ranks = rankdata(values) - (len(values) + 1) / 2
    spectrum = np.abs(np.fft.rfft(ranks, 2 * len(ranks))) ** 2
    products = np.fft.irfft(spectrum)[: len(ranks)] / np.arange(len(ranks), 0, -1)  # mean product at each distance
    if not products[0] > 0:  # all values are equal
        return 1.0
    correlations = products / products[0]
    ends = np.flatnonzero(correlations <= CHANCE / math.sqrt(len(ranks)))
    return float(1 + 2 * correlations[1 : ends[0] if len(ends) else len(ranks)].sum())


def fold_of(numbers: np.ndarray, n_rows: int, n_folds: int) -> np.ndarray:
    """The fold of each row number: `n_folds` contiguous stretches of nearly equal length."""
    bounds = [n_rows * fold // n_folds for fold in range(1, n_folds)]
    return np.searchsorted(bounds, numbers, side="right")


def runs_of(numbers: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
    """The number of the unbroken run that each row is in: of consecutive row numbers, and of one label."""
    breaks = np.diff(numbers) != 1
    if labels is not None:
        breaks |= np.diff(labels) != 0
    return np.cumsum(np.concatenate([[False], breaks]))


def run_bounds(runs: np.ndarray) -> np.ndarray:
    """Where each run begins; the last element is the number of rows."""
    return np.concatenate([[0], np.flatnonzero(np.diff(runs)) + 1, [len(runs)]])


def smoothed(values: np.ndarray, weight: float | None, start: float) -> np.ndarray:
    """The exponentially weighted mean  s_t = weight v_t + (1 - weight) s_(t-1),  s_0 = start; NaN leaves
    it unchanged."""
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
    """`smoothed`, restarted in every run."""
    parts = [smoothed(values[low:high], weight, start) for low, high in pairwise(bounds.tolist())]
    return np.concatenate(parts)
