"""a + b: the model of two streams, from their models alone.

Moments over the same points add.  Over different points (and one kernel) those of the lighter stream are carried over
to the points of the heavier one by `fit/transfer.py`, the reservoirs become one sample of both streams, and points are
chosen again from it.  Under different kernels, as "median" widths settled apart are, the lighter stream is seen through
its reservoir alone.  So devices can send models, not rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..errors import KernelWarning, warn
from ..fit.parameters import AS_GIVEN
from ..threads import one_blas_thread
from .settled import SETTLED, check_settled, same_value
from .stream import KeptRows, StreamState, same_points

FAR_APART = math.log(2.0)  # of the logarithms of two widths: those that a few rows settle differ by less


def merged(one: Any, other: Any) -> Any:
    """A new model of all rows that either has seen, those of `one` numbered first; neither is changed."""
    _check_alike(one, other)
    ours, theirs = one._state(), other._state()
    if ours.moments is None or theirs.moments is None:
        return _with_few_rows(one, other) if theirs.moments is None else _with_few_rows(other, one)
    same = ours.chosen.kernel == theirs.chosen.kernel and same_points(ours.chosen.points, theirs.chosen.points)
    lead, base, lighter = one, ours, theirs
    if not same and ours.reservoir.weight < theirs.reservoir.weight:
        lead, base, lighter = other, theirs, ours
    result = _copy(lead, one)
    with one_blas_thread():
        added = lighter.moments if same else lighter.moments_over(base.span(None, one.center), one._n_threads())
        result._stream = StreamState(
            ours.reservoir + theirs.reservoir,
            base.moments + replace(added, whitening=base.moments.whitening),
            base.negative_share,
            base.chosen,
            base.since + lighter.reservoir.weight,
        )
        result.n_samples_seen_ = result._stream.reservoir.n_seen
        result._measured_on_a_sample()
        if not same:
            result._choose()
            _warn_of_widths(one, other, result)
    return result


def _warn_of_widths(one: Any, other: Any, result: Any) -> None:
    """Two streams that settled very different widths are of different scales, and the sum has one width."""
    if abs(math.log(one.gamma_ / other.gamma_)) > FAR_APART:
        warn(
            f"the rows of the two streams have settled widths that are far apart, gamma={one.gamma_:.3g} and "
            f"{other.gamma_:.3g}. Their sum has gamma={result.gamma_:.3g}, at which the rows of one of them may all be "
            "alike, or all unlike: give both streams one gamma as a number, or rows on one scale",
            KernelWarning,
        )


def _with_few_rows(model: Any, few: Any) -> Any:
    """The model and the rows of another that has not seen enough to choose points."""
    result = _copy(model, model)
    rows = KeptRows(few._state().reservoir)
    return result.partial_fit(rows.X, sample_weight=rows.weights) if len(rows.numbers) else result


def _copy(fitted: Any, parameters: Any) -> Any:
    """A model with the state of one and the parameters of another, without what is found when asked for."""
    result = clone(parameters)
    own = set(fitted.get_params(deep=False)) | {"drift_record_", AS_GIVEN}
    vars(result).update({name: value for name, value in vars(fitted).items() if name not in own})
    result._drop_components()
    return result


def _check_alike(one: Any, other: Any) -> None:
    for model in (one, other):
        if "_stream" not in vars(model):
            raise ValueError(
                "models add where partial_fit made both: fit keeps no moments to add. Call partial_fit on the rows"
            )
        check_settled(model)
    if one.n_features_in_ != other.n_features_in_:
        raise ValueError(
            f"the models have {one.n_features_in_} and {other.n_features_in_} features: give models of the same columns"
        )
    names: list[Any] = [getattr(model, "feature_names_in_", None) for model in (one, other)]
    if all(found is not None for found in names) and not np.array_equal(names[0], names[1]):
        raise ValueError("the models have different feature names, or another order: give models of the same columns")
    for name in SETTLED:
        values = [model._settled.get(name) for model in (one, other)]
        if not same_value(*values):
            raise ValueError(f"the models have {name}={values[0]!r} and {values[1]!r}: give models that agree")
