"""The last step, in all directions.

Points are moved in a few principal coordinates (coordinates.py), and where they would go beyond is left over.  At the
end one pass over the rows as they are says that, too: with V the principal directions and B the Gauss-Newton matrix
of captured variance (solvers/points.py), which is the same for every coordinate,

    S <- S + a B^-1 dS (I - V V'),        a = 1, or less where that loses

which gains more than twice as many coordinates to move in would, and costs less than one step in them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..arrays import row_dot
from ..fit.sample import Sample
from ..solvers.ascent import Ascent
from ..solvers.points import CapturedVariance
from .coordinates import Coordinates

LENGTHS = (1.0, 0.25)  # of the step, tried one after the other
TRIAL_ROWS = 1000  # by which it is judged


def lifted(sample: Sample, c: Coordinates, objective: CapturedVariance, moved: np.ndarray) -> np.ndarray:
    """Points in input space, moved on in the directions that their coordinates leave out."""
    assert c.basis is not None
    narrow, points = objective.light(moved), moved @ (c.basis / c.scale).T

    def rows_at(rows: slice) -> np.ndarray:
        first = sample.steering.start
        return sample.light(slice(first + rows.start, first + rows.stop))

    found = narrow.beyond(moved, rows_at)
    step = found.by_metric(found.gradient)
    step -= (step @ c.basis) @ c.basis.T
    longest = c.scale * float(row_dot(step, step).max()) ** 0.5
    step *= min(1.0, Ascent.FIRST_MOVE_AT_MOST / max(longest, 1e-300))
    last = slice(max(0, objective.n_rows - TRIAL_ROWS), objective.n_rows)
    before = narrow.part(last)
    trial = replace(before, rows=rows_at(last) * narrow.rows.dtype.type(c.scale), row_scale=None)
    least = before.captured(moved)
    length = next((a for a in LENGTHS if trial.captured(c.scale * (points + a * step)) > least), 0.0)
    points = points + length * step
    return points if c.origin is None else points + c.origin
