"""The oracle of a monitor: statistics that are numbers, alarms, and the same whatever rows come beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .invariants import not_finite, to_numpy
from .models import answer_of
from .rounding import SAFETY, gaussian_rounding


def complaints_of_monitor(model: Any, X: Any, dense: np.ndarray, *, single: bool) -> Iterator[str]:
    """All that can be held against a monitor fitted to X, whose plain numbers are `dense`."""
    yield from not_finite(model)
    if not all(np.isfinite(limit) and limit >= 0 for limit in model.limits_.values()):
        yield f"limits are {model.limits_}"
    found = model.statistics(X)
    for name in ("t2", "spe"):
        values = np.asarray(getattr(found, name), dtype=np.float64)
        if values.shape != (X.shape[0],):
            yield f"{name} has shape {values.shape}"
            return
        values = values[model.lags :]  # the first rows end no window
        if not np.isfinite(values).all() or values.min(initial=0.0) < 0:
            yield f"{name} is from {values.min():.3g} to {values.max():.3g}"
    scores, alarms = answer_of(model, X).astype(np.float64), np.asarray(model.predict(X))
    if not np.isfinite(scores).all():
        yield "score_samples is not finite"
    if not np.isin(alarms, (-1, 1)).all():
        yield f"predict gives {np.unique(alarms)}"
    half = X.shape[0] // 2
    if half and model.lags == 0 and model.smoothing is None:
        gap = float(np.abs(np.asarray(model.score_samples(X[half:])) - scores[half:]).max())
        if gap > 2 * spe_rounding(model, dense, single=single):
            yield f"score_samples depends on the batch: {gap:.3g} of {np.abs(scores).max():.3g}"


def spe_rounding(model: Any, dense: np.ndarray, *, single: bool) -> float:
    """What rounding can do to SPE = k(x, x) - 2 k(x, S) c + c' K_SS c - |z|^2, z = k(x, S) A - b.

    It is a difference of squared lengths: its rounding is theirs, however small it is itself.  With every kernel value
    at most 1, and wrong by kappa u,

        (kappa + sqrt(m)) u (1 + 2 |c|_1 + |c|_1^2 + 2 sum_k max |z_k| |A_k|_1)
    """
    detector = model._detector
    expansion, rows = detector.expansion.orthonormal, to_numpy(detector.inputs(dense))
    points, coef = to_numpy(expansion.points).astype(np.float64), to_numpy(expansion.coef)
    kappa = gaussian_rounding(float(expansion.kernel.gamma), rows, points, single=single)
    mean = 0.0 if expansion.mean_coef is None else float(np.abs(to_numpy(expansion.mean_coef)).sum())
    scores = np.abs(to_numpy(expansion.transform(rows))).max(axis=0)
    size = (1 + mean) ** 2 + 2 * float(scores @ np.abs(coef).sum(axis=0))
    unit = float(np.finfo(np.float32 if single else np.float64).eps)
    return SAFETY * unit * (kappa + float(np.sqrt(len(points)))) * size
