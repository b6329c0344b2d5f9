"""A monitor at work: one row or block after another, with what joins them.

    windows      the last `lags` rows are kept, so that a window reaches back over calls
    smoothing    the exponentially weighted mean of SPE goes on where it stopped
    alarm rule   k of the last n rows, the newest among them, above the limit
    drift        rows below the limit enter the moments with forgetting, lam = 2^(-1/half_life): old weight and scatter
                 are multiplied by lam^n when n rows come; the centre of the inputs follows with the same memory.  Rows
                 above the limit do not enter, so that a monitor follows slow drift and not a fault.

A row with a missing value is recorded as missing: it gives no alarm, ends the windows that it would be in, and leaves
everything else as it was.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..fit.moments import Moments
from ..fit.transfer import forgotten

DRIFT_STEPS = 20  # updates of the components in one half-life


@dataclass(frozen=True)
class Record:
    """What a monitor says about one row."""

    number: int  # rows since the monitor was started
    spe: float  # smoothed where the monitor smooths; NaN where the row has no whole window
    limit: float
    t2: float
    t2_limit: float
    exceeded: bool  # spe above its limit
    alarm: bool  # by the rule of k of n
    missing: bool  # a missing value in the row, or in the window behind it
    top: tuple[tuple[str, float], ...]  # the variables that contribute most to SPE, with their share of it

    def __str__(self) -> str:
        if self.missing:
            return f"row {self.number}: missing"
        state = "ALARM" if self.alarm else "above the limit" if self.exceeded else "normal"
        causes = ", ".join(f"{name} {share:.0%}" for name, share in self.top)
        return f"row {self.number}: {state}, SPE {self.spe:.4g} of {self.limit:.4g}; {causes}"


@dataclass(frozen=True)
class LiveState:
    """What is kept of the rows that have gone by."""

    number: int = 0
    tail: np.ndarray | None = None  # (<= lags, d) the last rows of an unbroken series
    smoothed: float | None = None  # the last value of the weighted mean
    recent: tuple[bool, ...] = ()  # exceeded, of the last n - 1 rows

    _file_sizes = ("d",)
    _file_layout = {"number": "count", "tail": "float[*, d]?", "smoothed": "float?", "recent": "list"}


@dataclass(frozen=True)
class Drift:
    """Moments with forgetting, and the rows that wait to enter them."""

    moments: Moments
    half_life: float
    waiting: list[np.ndarray] = field(default_factory=list)

    _file_sizes = ("m",)
    _file_layout = {"moments": "Moments[m]", "half_life": "positive", "waiting": "list"}

    @property
    def step(self) -> int:
        """Rows after which the components are found again."""
        return max(1, round(self.half_life / DRIFT_STEPS))

    @property
    def remembered(self) -> float:
        """The weight of a long stream's rows, 1 / (1 - lam)."""
        return remembered_rows(self.half_life)

    def forget(self, n_rows: int) -> float:
        """lam^n."""
        return float(2.0 ** (-n_rows / self.half_life))


def started(moments: Moments, half_life: float) -> Drift:
    """The training rows count as no more than the rows that a long stream remembers."""
    return Drift(forgotten(moments, min(1.0, remembered_rows(half_life) / moments.weight)), half_life)


def remembered_rows(half_life: float) -> float:
    """1 / (1 - lam)."""
    return -1.0 / math.expm1(-math.log(2.0) / half_life)
