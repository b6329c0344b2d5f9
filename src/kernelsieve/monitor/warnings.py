"""Warnings of a monitor about its own fit: where its limit is uncertain, or means nothing."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, to_numpy
from .crossfit import MonitorFit
from .inputs import constant_columns
from .limits import Limit
from .online import Drift

ROWS_A_COMPONENT = 3  # that a monitor which follows drift must remember
# Whitening divides by what the rows' own covariance says: with fewer rows a column it says too little, the models
# without a fold differ from the final one, and the limit alarms at ten times its rate or never.
WHITENING_ROWS = 5


def about_limit(spe: Limit, found: MonitorFit, rate: float, smoothing: float | None) -> str | None:
    """What to say about the limit of SPE, or None; the gravest alone."""
    (low, high), n_rows = spe.interval, spe.n_held_out
    if spe.value <= found.rounding:
        return (
            f"n_components={found.detector.expansion.n_components} leaves nothing over of these rows: their SPE is "
            "rounding, and a limit on it means nothing. Give a smaller n_components, or another kernel"
        )
    if smoothing is None and spe.value >= found.detector.farthest:
        return (
            f"a row unlike all others would not alarm: its SPE is {found.detector.farthest:.4g}, and the limit, of "
            f"held-out rows that are unlike the others too, {spe.value:.4g}. Give more rows, or a smaller gamma"
        )
    if spe.rate > rate:
        return (
            f"{n_rows} held-out rows are too few for false_alarm_rate={rate}: the limit is the largest of them, which "
            f"about {spe.rate:.2g} of new rows exceed"
        )
    if spe.n_effective * rate < 1:
        return (
            f"SPE of neighbouring held-out rows is so alike that {n_rows} of them count as "
            f"{max(1, round(spe.n_effective))}, too few for false_alarm_rate={rate}: the true rate may be anything "
            f"from {low:.2g} to {high:.2g}. Give more rows{', or less smoothing' if smoothing else ''}"
        )
    return None


def about_constants(windows: Array, names: list[str], *, whiten: bool) -> str | None:
    """What to say about columns that do not vary, or None."""
    constant = np.flatnonzero(constant_columns(to_numpy(windows))[: len(names)])
    if not len(constant):
        return None
    if len(constant) == len(names):
        raise ValueError("all rows are the same: there is no variance to monitor")
    listed = ", ".join(names[j] for j in constant[:5]) + (", ..." if len(constant) > 5 else "")
    fate = "whitening leaves them out, so a change in them is not seen" if whiten else "they keep their own unit"
    return f"{len(constant)} constant column{'s' if len(constant) > 1 else ''} ({listed}): {fate}"


def about_whitening(windows: Array, n_features: int) -> str | None:
    """What to say about rows that are too few to be whitened, or None."""
    n_windows, n_columns = (int(size) for size in windows.shape)
    if n_windows >= WHITENING_ROWS * n_columns:
        return None
    lagged = f" ({n_features} with lags={n_columns // n_features - 1})" if n_columns > n_features else ""
    return (
        f"whiten=True with {n_windows} rows for {n_columns} columns{lagged}: below {WHITENING_ROWS} rows a column the "
        "limit does not hold. Give more rows, or whiten=False"
    )


def about_memory(drift: Drift, n_components: int) -> str | None:
    """What to say about a memory that is shorter than the model needs, or None."""
    if drift.remembered >= ROWS_A_COMPONENT * n_components:
        return None
    return (
        f"half_life={drift.half_life:g} remembers about {drift.remembered:.0f} rows, too few for {n_components} "
        "components: normal rows will alarm. Give a longer half_life"
    )
