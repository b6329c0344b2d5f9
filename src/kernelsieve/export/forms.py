"""What a fitted model computes, apart from the library that fitted it: the one thing that every export writes down.

    u = front(x)                               scalers (`steps`)
    z = k(u, S) A - b                          scores
    e = max(|phi(u) - mean|^2 - |z T|^2, 0)    error, the squared distance to the reconstruction, where
        |phi(u) - mean|^2 = k(u, u) - 2 k(u, S) c + c'K_SS c

T makes components orthonormal that are not (an elastic net's).  A linear kernel needs no points: with W = S'A and the
centre mu = S'c it is  z = (u - mu) W + constant,  |phi(u) - mean|^2 = |u - mu|^2,  as sparse PCA in input space is.
A monitor's decision is  limit - e,  negative where it raises an alarm.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..arrays import to_numpy
from .cores import Core, KernelCore, LinearCore, core_of, not_ours
from .steps import Affine, Column, ExportError, Fill, Mix, Spread, Step, apply, joined, steps_of
from .windows import lagged_names, on_windows


@dataclass(frozen=True)
class Form:
    """Everything that is exported of a model."""

    front: tuple[Step, ...]
    core: Core
    n_features: int
    input_names: tuple[str, ...] | None  # of the columns, where the model knows them
    output_names: tuple[str, ...]  # of the components
    limit: float | None = None  # of the error, where the model decides
    facts: dict[str, str] = field(default_factory=dict)  # for people and for metadata
    columns: tuple[Column, ...] = ()  # where rows are of a table: what each column holds
    spread: float | None = None  # standard deviation of the largest score, where the model knows it

    @property
    def n_components(self) -> int:
        return self.core.n_components

    def centered(self, dtype: Any = np.float32) -> Form:
        """The same function with the points of a stationary kernel about the origin, and their centre in the front.

        Distances from products then cancel least, and `dtype` holds most of the points.
        """
        core = self.core
        if isinstance(core, LinearCore):
            step = Affine(core.center, np.ones(len(core.center)))
            core = replace(core, center=np.zeros_like(core.center))
            return replace(self, front=joined((*self.front, step)), core=core)
        if not core.kernel.stationary:
            return self
        return self.shifted(core.points.mean(axis=0), dtype)

    def shifted(self, center: np.ndarray, dtype: Any = np.float32) -> Form:
        """The same function of a stationary kernel with its points about `center`, to within `dtype`.

        Rows become  (x - held) f = (x - shift) f + (shift - held) f,  where `dtype` holds what the front subtracts; the
        points move by the last term, which is a difference of near numbers, and nothing is rounded.
        """
        core, front = self.core, list(self.front)
        assert isinstance(core, KernelCore)
        assert core.kernel.stationary  # only differences count: a shift of both rows and points is free
        fill = front.pop() if front and isinstance(front[-1], Fill) else None
        last = front.pop() if front and isinstance(front[-1], Affine) and np.all(front[-1].factor != 0) else None
        if not isinstance(last, Affine):
            last = Affine(np.zeros(len(center)), np.ones(len(center)))
        with np.errstate(over="ignore"):
            held = (last.shift + center / last.factor).astype(dtype).astype(np.float64)
        if not np.isfinite(held).all():
            return self if np.dtype(dtype) == np.float64 else self.shifted(center, np.float64)
        move = (last.shift - held) * last.factor
        after = () if not isinstance(fill, Fill) else (Fill(fill.values + move),)
        front = [*joined((*front, Affine(held, last.factor))), *after]
        return replace(self, front=tuple(front), core=replace(core, points=core.points + move))

    def scores_and_error(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both in numpy, in float64: what every export is to give."""
        u, core = apply(self.front, np.asarray(rows, dtype=np.float64)), self.core
        if isinstance(core, LinearCore):
            u = u - core.center
            scores, length = u @ core.weights + core.constant, np.sum(u * u, axis=1)
        else:
            gram = core.kernel(u, core.points)
            scores, length = gram @ core.coef - core.offset, core.kernel.diagonal(u)
            if core.mean_coef is not None:
                length = length - 2 * (gram @ core.mean_coef) + core.mean_square
        projection = scores if core.mixing is None else scores @ core.mixing
        return scores, np.maximum(length - np.sum(projection * projection, axis=1), 0)


def form_of(model: Any) -> Form:
    """The form of a fitted model, or of a pipeline of scalers that ends in one.

    Anything with a fitted `expansion_` has one, and sparse PCA in input space.  Where a model has an `input_map_`, its
    `center` and `factor` come before the kernel; where it has `limits_`, the one of "spe" decides; where it has `lags`,
    a row is a window: the newest row, then the one before it, and so on.
    """
    if isinstance(model, Pipeline):
        return _pipeline_form(model)
    _check_fitted(model)
    core = core_of(model)
    return Form(
        _front_of(model),
        core,
        int(model.n_features_in_) * (1 + _lags(model)),
        _window_names(model),
        tuple(_output_names(model, core.n_components)),
        _limit_of(model),
        _facts(model, core),
        spread=_spread_of(model),
    )


def _lags(model: Any) -> int:
    return int(getattr(model, "lags", 0) or 0)


def _front_of(model: Any) -> tuple[Step, ...]:
    inputs = getattr(model, "input_map_", None)
    if inputs is None:
        return ()
    center, factor = (np.asarray(to_numpy(values), dtype=np.float64) for values in (inputs.center, inputs.factor))
    if factor.ndim == 1:
        return joined([Affine(center, factor)])
    return joined([Affine(center, np.ones(len(center))), Mix(factor)])


def _limit_of(model: Any) -> float | None:
    """The largest error of a normal row, where the model decides on each row alone."""
    limits = getattr(model, "limits_", None)
    return None if limits is None or getattr(model, "smoothing", None) is not None else float(limits["spe"])


def _spread_of(model: Any) -> float | None:
    variances = np.asarray(to_numpy(getattr(model, "explained_variance_", np.zeros(0))))
    return float(np.sqrt(variances.max())) if variances.size and 0 < variances.max() < np.inf else None


def _window_names(model: Any) -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else lagged_names(map(str, names), _lags(model))


def _check_fitted(model: Any) -> None:
    if isinstance(model, type):
        raise ExportError(f"{model.__name__} is a class: fit a model, {model.__name__}(...).fit(X), and export that")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(f"this {type(model).__name__} is not fitted: call fit before exporting it") from None
    except TypeError:
        raise ExportError(not_ours(model)) from None


def _pipeline_form(pipeline: Pipeline) -> Form:
    if not pipeline.steps:
        raise ExportError("an empty pipeline cannot be exported")
    *before, (_, last) = pipeline.steps
    form = form_of(last)
    front: list[Step] = []
    names = None
    for _, transformer in before:
        if transformer not in (None, "passthrough"):
            _check_fitted(transformer)
            names = names if front else getattr(transformer, "feature_names_in_", None)
        front.extend(on_windows(step, _lags(last)) for step in steps_of(transformer))
    first = next((t for _, t in before if t not in (None, "passthrough")), last)
    n_features = int(first.n_features_in_) * (1 + _lags(last))
    known = None if names is None else lagged_names(map(str, names), _lags(last))
    input_names = known if front else form.input_names
    columns = front[0].columns if front and isinstance(front[0], Spread) else ()
    if columns:
        n_features, named = len(columns), names is not None or any(column.labels for column in columns)
        input_names = tuple(column.name for column in columns) if named else None
    facts = {"pipeline": " -> ".join(type(t).__name__ for _, t in pipeline.steps if t not in (None, "passthrough"))}
    return replace(
        form,
        front=joined((*front, *form.front)),
        n_features=n_features,
        input_names=input_names,
        facts={**form.facts, **facts},
        columns=columns,
    )


def _output_names(model: Any, n_components: int) -> list[str]:
    try:
        names = [str(name) for name in model.get_feature_names_out()]
    except (AttributeError, ValueError):
        names = []
    return names if len(names) == n_components else [f"{type(model).__name__.lower()}{k}" for k in range(n_components)]


def _facts(model: Any, core: Core) -> dict[str, str]:
    """The model in a few words, all of them text."""
    from .. import __version__

    facts = {"producer": f"kernelsieve {__version__}", "model": type(model).__name__}
    if isinstance(core, KernelCore):
        facts["kernel"] = core.kernel.name
        facts |= {f"kernel_{name}": repr(value) for name, value in core.kernel.params().items()}
        facts["n_support"] = str(len(core.points))
    elif hasattr(model, "expansion_"):
        facts |= {"kernel": "linear", "n_support": str(model.expansion_.n_support)}
    if _lags(model):
        facts["lags"] = str(_lags(model))
    for name in ("n_samples_seen_", "captured_ratio_", "captured_ratio_kind_"):
        value = getattr(model, name, None)
        if value is not None:
            facts[name.rstrip("_")] = str(value)
    ratios = getattr(model, "explained_variance_ratio_", None)
    if ratios is not None:
        facts["explained_variance_ratio"] = json.dumps([float(ratio) for ratio in to_numpy(ratios)])
    return facts
