"""a + b: the model of two streams, computed from their models alone, so that devices can send models instead of rows.

Moments over the same points add.  If the points differ but the kernel is the same, the moments of one stream are
transferred to the points of the other (`fit/moments.py`), the reservoirs are merged into one sample of both streams,
and points are chosen again from it.  The moments are transferred to the points of the heavier stream, or to those of
the left one if the user gave them.  If the kernels differ, for instance because "median" widths were determined
separately, only the reservoir of the other stream is used.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..errors import KernelWarning, warn
from ..rows.dispatch import store_columns
from ..threads import one_blas_thread
from .state import FROZEN, ReservoirRows, StreamState, check_frozen, same_points, same_value

WIDTHS_FAR_APART = math.log(2.0)  # gammas found from different rows of one source differ by a smaller factor


def merged(one: Any, other: Any) -> Any:
    """A new model of the rows of both models, with the rows of `one` numbered first; neither model is changed."""
    _check_alike(one, other)
    ours, theirs = one._stream, other._stream
    if not (ours.ready and theirs.ready):
        return _with_few_rows(one, theirs) if not theirs.ready else _with_few_rows(other, ours)
    same = ours.chosen.kernel == theirs.chosen.kernel and same_points(ours.chosen.points, theirs.chosen.points)
    base, lighter = ours, theirs
    given = not isinstance(one.selection, str) and not callable(one.selection)
    if not (same or given) and ours.reservoir.weight < theirs.reservoir.weight:
        base, lighter = theirs, ours
    result = _copy(one)
    with one_blas_thread():
        added = lighter.moments if same else lighter.moments_over(base.span, one._n_threads())
        result._stream = StreamState(
            ours.reservoir + theirs.reservoir,
            base.moments + replace(added, whitening=base.moments.whitening),
            base.negative_share,
            base.chosen,
            base.since + lighter.reservoir.weight,
            ours.parameters,
            base.choice,
        )
        if not same:
            result._choose(result._stream)
            _warn_of_widths(one, other, result)
    return result


def _warn_of_widths(one: Any, other: Any, result: Any) -> None:
    """Warn if two streams have very different widths: their rows are on different scales, but the sum has one width."""
    if abs(math.log(one.gamma_ / other.gamma_)) > WIDTHS_FAR_APART:
        warn(
            f"the rows of the two streams have settled widths that are far apart, gamma={one.gamma_:.3g} and "
            f"{other.gamma_:.3g}. Their sum has gamma={result.gamma_:.3g}, at which the rows of one of them may all be "
            "alike, or all unlike: give both streams one gamma as a number, or rows on one scale",
            KernelWarning,
        )


def _with_few_rows(model: Any, few: StreamState) -> Any:
    """A copy of `model` with the rows of another stream, which has too few rows to choose points from."""
    result = _copy(model)
    result._stream = model._stream
    rows = ReservoirRows(few.reservoir)
    return result.partial_fit(rows.X, sample_weight=rows.weights) if len(rows.numbers) else result


def _copy(model: Any) -> Any:
    """A new, unfitted model with the parameters and the columns of `model`."""
    result = clone(model)
    store_columns(result, model.n_features_in_, getattr(model, "feature_names_in_", None))
    return result


def _check_alike(one: Any, other: Any) -> None:
    for model in (one, other):
        if model._stream is None:
            raise ValueError(
                "models add where partial_fit made both: fit keeps no moments to add. Call partial_fit on the rows"
            )
        check_frozen(model, model._stream.parameters)
    if one.n_features_in_ != other.n_features_in_:
        raise ValueError(
            f"the models have {one.n_features_in_} and {other.n_features_in_} features: give models of the same columns"
        )
    names: list[Any] = [getattr(model, "feature_names_in_", None) for model in (one, other)]
    if all(found is not None for found in names) and not np.array_equal(names[0], names[1]):
        raise ValueError("the models have different feature names, or another order: give models of the same columns")
    for name in FROZEN:
        values = [model._stream.parameters.get(name) for model in (one, other)]
        if not same_value(*values):
            raise ValueError(f"the models have {name}={values[0]!r} and {values[1]!r}: give models that agree")
