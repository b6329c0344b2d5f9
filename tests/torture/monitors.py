"""The oracle of a monitor: statistics that are numbers, alarms, and the same whatever rows come beside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .invariants import not_finite
from .models import answer_of

BATCH = 1e-6  # of the largest statistic: rows are standardised, so that nothing is far from the origin
BATCH_FLOAT32 = 1e-3


def complaints_of_monitor(model: Any, X: Any, *, single: bool) -> Iterator[str]:
    """All that can be held against a monitor fitted to X."""
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
        if gap > (BATCH_FLOAT32 if single else BATCH) * float(np.abs(scores).max()):
            yield f"score_samples depends on the batch: {gap:.3g} of {np.abs(scores).max():.3g}"
