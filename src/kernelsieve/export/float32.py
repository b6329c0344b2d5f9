"""How much float32, or points of one byte per value, change the scores: measured, not assumed.

A score is a sum of large terms that nearly cancel: with wide kernels or many points, sum_i |k_i a_ik| can be a hundred
times the score, and the rounding of k counts a hundred times as much.  So a float32 export is tried on rows of the
model's own kind (its points, and rows between them) and on a few far off.  If single precision would cost more than
`SINGLE_IS_ENOUGH`, the export computes in double inside, with float32 rows in and float32 scores out.

Points of one byte per value differ from the model's.  The components are projected on them, B = K_S'S'^+ K_S'S A,
which is the best that the rounded points can do and removes most of the error: what is left comes from the part of
phi(s) - phi(s') outside the span of all rounded points.

Rows also lose digits when they become float32, before anything is computed.  float32 has steps of |x| 2^-23: a column
of 1,000,000 +- 1 comes in steps of .06, and no arithmetic restores the rest.  To measure this, the model's points are
mapped back to raw rows, rounded as rows will be, and scored; the change of the scores is the cost.  Points that float32
represents exactly, like those of a model fitted to float32 rows, cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from ..errors import quoted, warn
from ..spectrum.whitening import RANK_TOLERANCES
from .model import Form, KernelCore, LinearCore
from .preprocessing import VALUE, ExportError, Spread

# float32 is used throughout if the largest error on the probe rows, relative to the largest score, is not above this.
# The promised error is 2e-6.  In onnxruntime, whose products round less, errors on other rows were no larger than those
# on the points.
SINGLE_IS_ENOUGH = 1.5e-6
MAX_PROBES, N_LINEAR_PROBES = 256, 64
LEVELS = 127  # values of a signed byte on either side of zero


def probe_rows(form: Form) -> np.ndarray:
    """Rows as the kernel sees them: the model's points, rows between two of them, zero, and rows far from all."""
    core = form.core
    rng = np.random.default_rng(0)
    if isinstance(core, LinearCore):
        scale = np.abs(core.coef).max(axis=1) + np.finfo(float).tiny
        return core.center + rng.standard_normal((N_LINEAR_PROBES, len(core.center))) / (1 + scale / scale.max())
    points = core.points
    if len(points) > MAX_PROBES:
        points = points[rng.choice(len(points), MAX_PROBES, replace=False)]
    partners = points[rng.permutation(len(points))]
    share = rng.uniform(-0.25, 1.25, (len(points), 1))
    between = points + share * (partners - points)
    far = 30.0  # this many times as far out as the points, sigmoid kernels are saturated, and others vanish or grow
    anywhere = far * np.abs(points).max(axis=0) * rng.standard_normal((MAX_PROBES, points.shape[1]))
    rows = np.concatenate([points, between, 0 * points[:1], far * points, -far * points, anywhere])
    return np.asarray(core.kernel.within(rows))


def relative_error(found: np.ndarray, truth: np.ndarray, n_usual: int, usual: float = np.inf) -> float:
    """The largest error of any row, relative to a scale: the largest value in the first `n_usual` rows.

    If a later row has a larger value of its own, its error is relative to that.  The scale is at most `usual`, because
    the rows that a model is used on may have smaller scores than its points.
    """
    found, truth = (values.reshape(len(values), -1) for values in (found, truth))
    largest = np.abs(truth).max(axis=1)
    usual = min(usual, float(largest[:n_usual].max()))
    scale = np.maximum(largest, usual)
    scale[:n_usual] = usual
    return float((np.abs(found - truth).max(axis=1) / np.where(scale > 0, scale, 1.0)).max())


def n_usual_rows(form: Form) -> int:
    """How many of the probe rows, counted from the first, resemble the training rows."""
    core = form.core
    return N_LINEAR_PROBES if isinstance(core, LinearCore) else 2 * min(len(core.points), MAX_PROBES)


def single_is_enough(form: Form, limit: float = SINGLE_IS_ENOUGH) -> bool:
    """Whether float32 throughout keeps scores and distances close to the model's on the probe rows."""
    core = form.core
    if isinstance(core, LinearCore):
        return True  # products of centred rows, without an exponential that magnifies rounding
    if core.kernel.needs_double:
        return False
    if not all(abs(value) < float(np.finfo(np.float32).max) for value in core.kernel.numbers()):
        return False  # the width is so small that its inverse overflows float32
    with np.errstate(over="ignore"):
        rows, n_usual = probe_rows(form).astype(np.float32), n_usual_rows(form)
    held = np.asarray(np.isfinite(rows).all(axis=1))
    if not held[:n_usual].all():
        return False
    rows = rows[held]
    expansion, usual = core.expansion.orthonormal, rows[:n_usual]
    with np.errstate(over="ignore", invalid="ignore"):
        found = core.expansion.transform(rows).astype(np.float64)
        near = np.stack(expansion.variance_parts(usual), axis=1).astype(np.float64)
    truth = core.expansion.transform(rows.astype(np.float64))
    exact = np.stack(expansion.variance_parts(usual.astype(np.float64)), axis=1)
    largest = np.inf if form.spread is None else 3 * form.spread  # the largest score of ordinary rows
    worst = max(relative_error(found, truth, n_usual, largest), relative_error(near, exact, n_usual) / 2)
    return bool(worst <= limit)  # False for NaN as well, which results from overflow


@dataclass(frozen=True)
class ByteColumns:
    """Points as signed bytes: column j of point i is base_j + codes_ij * step_j."""

    codes: np.ndarray  # (m, d) int8
    step: np.ndarray  # (d,) float32
    base: np.ndarray  # (d,) float32

    @classmethod
    def of(cls, points: np.ndarray, *, centered: bool, wider: np.ndarray | float = 1.0) -> ByteColumns:
        """The nearest points that bytes can represent, about zero if `centered`, otherwise about each column's middle.

        Steps are `wider` times as large as necessary: they then round differently, for better or worse.
        """
        low, high = points.min(axis=0), points.max(axis=0)
        base = np.zeros(points.shape[1], dtype=np.float32) if centered else ((low + high) / 2).astype(np.float32)
        largest = np.abs(points - base).max(axis=0)
        if not largest.max() < np.finfo(np.float32).max:
            raise ExportError("the points do not fit into float32, in which int8 keeps their scale: use float64")
        step = np.where(largest > 0, largest * wider / LEVELS, 1.0).astype(np.float32)
        step = np.where(step > 0, step, np.float32(1.0))
        return cls(np.clip(np.rint((points - base) / step), -LEVELS, LEVELS).astype(np.int8), step, base)

    @property
    def points(self) -> np.ndarray:
        """The points that the bytes represent, in float64."""
        return self.base.astype(np.float64) + self.codes * self.step.astype(np.float64)


def in_bytes(form: Form) -> tuple[Form, ByteColumns]:
    """The form with points, or linear weights, of one byte per value, and the bytes."""
    core = form.core
    if isinstance(core, KernelCore):
        return _best_bytes(form, core)
    codes = ByteColumns.of(core.coef, centered=True)
    # the distance to the plane is measured with an orthonormal basis of the rounded weights
    values, vectors = np.linalg.eigh(codes.points.T @ codes.points)
    # Directions of negligible eigenvalue would have large coefficients, whose rounding in float32 would cost more than
    # the directions add.
    real = values > RANK_TOLERANCES[4] * values[-1]
    mixing = vectors[:, real] / np.sqrt(values[real])
    return replace(form, core=replace(core, coef=codes.points, mixing=mixing)), codes


def _best_bytes(form: Form, core: KernelCore) -> tuple[Form, ByteColumns]:
    """Round the points in several ways and return the one that changes the scores of the probe rows least.

    The change is measured by its mean square: the largest change is that of one row, and says less about others.  The
    ways differ in their steps, which are up to 15 % wider than the largest value needs.  Each way takes the solution of
    a system of the points' size, so 48 are tried, and fewer if there are more than about 140 points.
    """
    rows, rng = probe_rows(form)[: n_usual_rows(form)], np.random.default_rng(0)
    truth = core.expansion.transform(rows)
    tried = []
    for k in range(min(48, 1 + 10**6 // len(core.points) ** 2)):
        wider = 1.0 if k == 0 else rng.uniform(1.0, 1.15, core.points.shape[1])
        codes = ByteColumns.of(core.points, centered=core.kernel.stationary, wider=wider)
        rounded = on_points(core, codes.points)
        tried.append((float(np.mean((rounded.expansion.transform(rows) - truth) ** 2)), k, rounded, codes))
    _, _, rounded, codes = min(tried, key=lambda one: one[:2])
    return replace(form, core=rounded), codes


def on_points(core: KernelCore, points: np.ndarray) -> KernelCore:
    """The components and the mean projected on other points, which lie close to the model's own."""
    wanted = core.coef if core.mean_coef is None else np.column_stack([core.coef, core.mean_coef])
    gram = core.kernel(points, points)
    found, *_ = np.linalg.lstsq(gram, core.kernel(points, core.points) @ wanted, rcond=RANK_TOLERANCES[4])
    coef = found[:, : core.coef.shape[1]]
    if core.mean_coef is None:
        return replace(core, points=points, coef=coef)
    mean_coef = found[:, -1]
    return replace(core, points=points, coef=coef, mean_coef=mean_coef, mean_square=float(mean_coef @ gram @ mean_coef))


def warn_of_rounding(form: Form, held_in_double: Collection[int] = ()) -> None:
    """Warn of columns, by name, whose rounding to float32 shows in the scores; `held_in_double` are not rounded."""
    spread = form.front[0] if form.front and isinstance(form.front[0], Spread) else None
    front = form.front if spread is None else form.front[1:]
    with np.errstate(all="ignore"):
        rows = _usual_rows(form)
        for step in reversed(front):
            rows = step.taken_back(rows)
        source = np.arange(form.n_features) if spread is None else spread.source
        is_number = np.ones(len(source), dtype=bool) if spread is None else spread.test == VALUE
        rounded = is_number & ~np.isin(source, list(held_in_double))
        half_step, deviation = np.abs(rows.mean(axis=0)) * 2.0**-24, rows.std(axis=0)  # half a step of float32
        coarse = rounded & (deviation > 0) & (half_step > 1e-4 * deviation)
        if not coarse.any() or not np.isfinite(rows).all():
            return
        after = np.where(rounded, rows.astype(np.float32).astype(np.float64), rows)
        inner = replace(form, front=front)
        truth, found = (inner.scores(given) for given in (rows, after))
        cost = float(np.abs(found - truth).max() / np.ptp(truth, axis=0).max())
    if cost > 2e-5:  # ten times the error that float32 arithmetic may add
        known = form.input_names or tuple(f"x{j}" for j in range(form.n_features))
        told = quoted([known[j] for j in np.unique(source[coarse])])
        warn(
            f"float32 rows are too coarse for {told}: values vary little against their size, and rounding them costs "
            f"about {100 * cost:.2g} % of the scores. Take dtype='float64', unless the values are "
            "whole numbers or come as float32 anyway"
        )


def _usual_rows(form: Form) -> np.ndarray:
    """Rows that resemble the training rows, as the kernel sees them."""
    core = form.core
    if not isinstance(core, LinearCore):
        return core.points[:MAX_PROBES]
    largest = np.abs(core.coef).max(axis=1)
    unit = (form.spread or 1.0) / np.maximum(largest, 1e-6 * largest.max())
    return core.center + unit * np.random.default_rng(0).standard_normal((N_LINEAR_PROBES, len(unit)))
