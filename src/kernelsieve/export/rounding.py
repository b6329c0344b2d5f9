"""What rows lose by being float32, before anything is computed of them.

float32 has steps of |x| 2^-23: a column of 1,000,000 +- 1 comes in steps of .06, which no arithmetic gives back.  The
model's points are taken back to where rows come in, rounded as rows will be, and scored: the difference is the cost.
Points that float32 holds, as those of a model that was fitted to float32 rows, cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from ..errors import quoted, warn
from .cores import LinearCore
from .forms import Form
from .precision import MAX_PROBES
from .steps import VALUE, Affine, Mix, Spread, Squash, Step

HALF_STEP = 2.0**-24  # of float32, of a number near 1
COARSE = 1e-4  # half a step of a column, as a share of its spread, from which it is named
COSTLY = 2e-5  # share of the scores' range: ten times what the arithmetic may cost
N_ROWS = 64  # drawn for a model that has no points
WITHIN = 0.98  # of a squash's bound: what lies on it would be infinitely far out


def warn_of_rounding(form: Form, held_in_double: Collection[int] = ()) -> None:
    """Warn by name of columns whose float32 rounding is seen in the scores; some inputs may be in double."""
    spread = form.front[0] if form.front and isinstance(form.front[0], Spread) else None
    front = form.front if spread is None else form.front[1:]
    with np.errstate(all="ignore"):
        rows = _taken_back(front, _usual_rows(form))
        source = np.arange(form.n_features) if spread is None else spread.source
        is_number = np.ones(len(source), dtype=bool) if spread is None else spread.test == VALUE
        rounded = is_number & ~np.isin(source, list(held_in_double))
        step, deviation = np.abs(rows.mean(axis=0)) * HALF_STEP, rows.std(axis=0)
        coarse = rounded & (deviation > 0) & (step > COARSE * deviation)
        if not coarse.any() or not np.isfinite(rows).all():
            return
        after = np.where(rounded, rows.astype(np.float32).astype(np.float64), rows)
        inner = replace(form, front=front)
        truth, found = (inner.scores_and_error(given)[0] for given in (rows, after))
        cost = float(np.abs(found - truth).max() / np.ptp(truth, axis=0).max())
    if cost > COSTLY:
        known = form.input_names or tuple(f"x{j}" for j in range(form.n_features))
        told = quoted([known[j] for j in source[coarse]])
        warn(
            f"float32 rows are too coarse for {told}: values vary little against their size, and rounding them costs "
            f"about {100 * cost:.2g} % of the scores. Take dtype='float64', unless the values are "
            "whole numbers or float32 where they come from"
        )


def _usual_rows(form: Form) -> np.ndarray:
    """Rows of the model's own kind, as its kernel sees them."""
    core = form.core
    if not isinstance(core, LinearCore):
        return core.points[:MAX_PROBES]
    largest = np.abs(core.weights).max(axis=1)
    unit = (form.spread or 1.0) / np.maximum(largest, 1e-6 * largest.max())
    return core.center + unit * np.random.default_rng(0).standard_normal((N_ROWS, len(unit)))


def _taken_back(front: tuple[Step, ...], rows: np.ndarray) -> np.ndarray:
    """Rows that the steps make these of; where many do, one of them."""
    for step in reversed(front):
        if isinstance(step, Affine):
            rows = rows / step.factor + step.shift
        elif isinstance(step, Mix):
            rows = rows @ np.linalg.pinv(step.matrix)
        elif isinstance(step, Squash):
            inside = np.clip(rows / step.bound, -WITHIN, WITHIN)
            rows = np.where(step.where, step.bound * inside / np.sqrt(1 - inside**2), rows)
    return rows
