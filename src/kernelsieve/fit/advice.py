"""Kernels that say little of the data: warnings, each with what to do about it, and what few rows cannot know.

Exact kernel PCA of one half of the reference rows follows the rows that it sees: on them its components capture `own`,
on the other half, drawn alike, `other`.  The share that is lost from one to the other,

    optimism = 1 - other / own

is near zero where the rows are many for the kernel, and one where every row is like no other: then a few rows say
nothing of what exact kernel PCA of all rows would capture, and no line from half of them to all of them leads there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from ..arrays import Array, product, take_columns, take_rows, to_numpy
from ..threads import row_ranges
from ..warn import KernelWarning, warn
from .sample import Sample

MIN_EXPLAINED = 0.05
FAR_ABOVE = 2.0  # captured in sample / captured on unseen rows
MIN_HALF, MIN_HALF_PER_COMPONENT = 50, 10  # rows in each half to compare them at all
NEARLY_CONSTANT = 1e-3  # total variance / mean k(x, x)
# With a variance below this share of k(x, x), by the bytes of a number, rounding shows in the scores.
SHOWS_ROUNDING = {2: 1e-3, 4: 1e-3, 8: 1e-7}
SCALE_ROWS, SCALE_COLUMNS = 500, 256
WILD_SCALES = 100.0  # largest standard deviation of a column / that of the lower quartile

# An optimism of .5 adds .004 to the error of a captured ratio, one of .8 adds .17, one of 1 adds 1.  Of 132 fits that
# look at 100 to 800 rows of 1,900, under wide and narrow kernels, 11 intervals then miss the truth, and 40 without.
OPTIMISM_POWER = 8
NOTHING_TO_EXPLAIN = "the rows are all the same to this kernel: there is no variance to explain"
LOST_IN_LENGTH = (
    "the rows differ, but by so little beside their distance from the origin that rounding leaves nothing of it in the "
    "products that this kernel is made of: subtract the mean of every column first"
)
FAR_OUT = 1e-3  # largest difference from the mean of a column / largest number: less may be lost in products


def nothing_to_explain(sample: Sample) -> str:
    """Why rows have no variance to a kernel: they are all one to it, or so far out that products round it away."""
    kernel = sample.kernel
    if kernel.stationary or kernel.precomputed or kernel.name == "callable":
        return NOTHING_TO_EXPLAIN
    rows = sample.reference
    dense = rows.toarray() if scipy.sparse.issparse(rows) else to_numpy(rows)
    away = float(np.abs(dense - dense.mean(axis=0)).max())
    drowned = bool(np.any(dense != dense[:1])) and away < FAR_OUT * float(np.abs(dense).max())
    return LOST_IN_LENGTH if drowned else NOTHING_TO_EXPLAIN


def warn_about_scales(rows: Array) -> None:
    """Columns in very different units: distances see only the largest."""
    if scipy.sparse.issparse(rows) or rows.shape[1] < 2:
        return
    some = to_numpy(rows[:SCALE_ROWS, :])
    # a few columns at a time: what np.std writes down on its way stays in the cache
    deviations = np.concatenate([np.std(some[:, part], axis=0) for part in row_ranges(some.shape[1], SCALE_COLUMNS)])
    varying = np.sort(deviations[deviations > 1e-12 * max(float(deviations.max()), 1e-300)])
    if varying.size < 2:
        return
    low, high = float(varying[(varying.size - 1) // 4]), float(varying[-1])
    if high > WILD_SCALES * low:
        warn(
            f"column scales differ wildly (standard deviations from {low:.3g} to {high:.3g}): the kernel sees only the "
            "largest columns. Standardise first, e.g. make_pipeline(StandardScaler(), SparseKernelPCA(...))",
            KernelWarning,
        )


def warn_of_rounding(spread: float) -> None:
    """Rows that are all the same to the kernel, or so nearly that their differences are lost beside its values."""
    warn(
        f"the kernel is nearly constant on these rows (variance {spread:.1e} of k(x, x)): the scores show rounding. "
        "Centre and scale the rows, or give another gamma",
        KernelWarning,
    )


@dataclass(frozen=True)
class GammaAdvice:
    """What can be said about gamma: its value, and whether the median rule is still to be tried."""

    gamma: float
    try_median: bool

    def towards(self, direction: str) -> str:
        median = ", or gamma='median'" if self.try_median else ""
        return f" Give a {direction} gamma than {self.gamma:.3g}{median}."


def warn_about_kernel(
    explained: float, spread: float, seen_and_unseen: tuple[float, float], advice: GammaAdvice | None
) -> None:
    """Nearly the identity (every row like no other) or nearly constant (all rows alike).

    Parameters
    ----------
    explained : share of the total variance in the components
    spread : total variance over the mean of k(x, x)
    seen_and_unseen : captured variance on rows that chose the points, and on others
    advice : about gamma, None for kernels without a width
    """
    seen, unseen = seen_and_unseen
    narrower, wider = (advice.towards("larger"), advice.towards("smaller")) if advice else ("", "")
    message = None
    if spread < NEARLY_CONSTANT:
        message = f"the kernel is nearly constant on these rows (variance {spread:.1e} of k(x, x)).{narrower}"
    elif explained < MIN_EXPLAINED:
        message = (
            f"the components explain {explained:.1%} of the variance: to this kernel every row is like no other."
            f"{wider} More components help too."
        )
    elif seen > FAR_ABOVE * unseen:
        message = (
            f"the components capture {seen / max(unseen, 1e-300):.1f} times as much variance on the rows they were "
            f"found on as on others: they follow single rows.{wider} Fewer components or more rows help too."
        )
    if message:
        warn(message, KernelWarning)


def split_captured(sample: Sample) -> tuple[float, float]:
    """Variance that exact kernel PCA of one half of the rows captures on that half, and on the other."""
    n_least = max(MIN_HALF, MIN_HALF_PER_COMPONENT * sample.n_components)
    if sample.n_reference < 2 or len(sample.halves[0].places) < n_least:
        return 1.0, 1.0  # too few rows to tell
    own, other = captured_across(sample)
    return (own, other) if own > 0 else (1.0, 1.0)


def captured_across(sample: Sample) -> tuple[float, float]:
    """Variance that exact kernel PCA of one half of the rows captures on that half, and on the other; (0, 0) of none.

    Found once for a sample, of which it may be asked for every number of points that is tried.
    """
    kept: tuple[float, float] | None = vars(sample).get("_captured_across")
    if kept is None:
        kept = vars(sample)["_captured_across"] = _captured_across(sample)
    return kept


def _captured_across(sample: Sample) -> tuple[float, float]:
    if sample.n_reference < 2:
        return 0.0, 0.0
    first, second = (half.places for half in sample.halves)
    found = sample.exact_halves[0]
    positive = found.variances > 1e-12 * found.variances[0]
    if not positive.any():
        return 0.0, 0.0
    directions = to_numpy(found.directions)[:, positive] / np.sqrt(found.variances[positive])
    gram = take_columns(take_rows(sample.gram, second), first)
    scores = to_numpy(product(gram, directions))
    omega = sample.halves[1].weights
    mean = np.average(scores, axis=0, weights=omega) if sample.center else 0.0
    variance = np.average((scores - mean) ** 2, axis=0, weights=omega)
    return found.captured, float(variance.sum())


def error_of_few(sample: Sample) -> float:
    """Of a ratio to exact kernel PCA, by how much the line to all rows can lead astray: optimism^8."""
    own, other = captured_across(sample)
    return min(max(1.0 - other / own, 0.0), 1.0) ** OPTIMISM_POWER if own > 0 else 1.0
