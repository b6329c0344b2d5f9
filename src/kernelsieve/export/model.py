"""The function that a fitted model computes; every export writes this one function.

    u = front(x)                               the steps before the kernel, such as scalers (preprocessing.py)
    z = k(u, S) A - b                          scores
    e = max(|phi(u) - mean|^2 - |z T|^2, 0)    error, the squared distance to the reconstruction, where
        |phi(u) - mean|^2 = k(u, u) - 2 k(u, S) c + c'K_SS c

T orthonormalises components that are not orthonormal (an elastic net's).  A linear kernel needs no points: with W =
S'A and the centre mu = S'c, it gives  z = (u - mu) W + constant  and  |phi(u) - mean|^2 = |u - mu|^2.  Sparse PCA in
input space has the same form.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..arrays import to_numpy
from ..fit.expansion import KernelExpansion
from ..kernels import Kernel, names_of_kernels
from ..kernels.blocks import dense
from .ops import NUMPY
from .preprocessing import Affine, ExportError, Fill, InputColumn, Mix, Spread, Step, joined, lagged_names, steps_of

OUTPUTS = ("scores", "error", "decision")
_NAMES = names_of_kernels(lambda kind: not kind.not_exported)
EXPORTABLE = f"{', '.join(_NAMES[:-1])} and {_NAMES[-1]} kernels and most others of kernelsieve.kernels"


@dataclass(frozen=True)
class KernelCore:
    """z = k(u, S) A - b, all in float64."""

    kernel: Kernel
    points: np.ndarray  # (m, d)
    coef: np.ndarray  # (m, M)
    offset: np.ndarray  # (M,)
    mean_coef: np.ndarray | None  # (m,)
    mean_square: float  # c'K_SS c
    mixing: np.ndarray | None  # (M, rank), T; None if the components are orthonormal
    units: np.ndarray | None = None  # (d,), factors of the columns' differences; None if all are 1

    @property
    def shifts(self) -> bool:
        """Whether the kernel stays the same if rows and points are shifted together."""
        return self.kernel.stationary

    @property
    def largest(self) -> float:
        """The largest number among the points; rounding of rows is measured relative to it."""
        return float(np.abs(self.points).max())

    @property
    def expansion(self) -> KernelExpansion:
        return KernelExpansion(self.kernel, self.points, self.coef, self.offset, self.mean_coef, self.mixing is None)

    def features(self, ops: Any, u: Any) -> Any:
        """The features that the coefficients multiply, k(u, S)."""
        return self.kernel.forward(ops, u, self.points)

    def length(self, ops: Any, u: Any, features: Any) -> Any:
        """|phi(u) - mean|^2, (n,)."""
        own = self.kernel.forward_diagonal(ops, u)
        if self.mean_coef is None:
            return own
        return features @ (-2.0 * self.mean_coef) + (own + self.mean_square)


@dataclass(frozen=True)
class LinearCore:
    """z = (u - centre) W + constant, all in float64; W is `coef`, the constant -`offset`."""

    center: np.ndarray  # (d,)
    coef: np.ndarray  # (d, M)
    offset: np.ndarray  # (M,)
    mixing: np.ndarray | None
    shifts = True
    largest = 1.0

    def features(self, ops: Any, u: Any) -> Any:
        """The features that the coefficients multiply: rows minus their centre."""
        if isinstance(self.center, np.ndarray) and not self.center.any():
            return u
        return u - self.center

    def length(self, ops: Any, u: Any, features: Any) -> Any:
        """|u - centre|^2, (n,)."""
        return ops.squares(features)


Core: TypeAlias = KernelCore | LinearCore


@dataclass(frozen=True)
class Form:
    """Everything about a model that is exported."""

    front: tuple[Step, ...]
    core: Core
    n_features: int
    input_names: tuple[str, ...] | None  # names of the columns, if the model knows them
    output_names: tuple[str, ...]  # names of the components
    limit: float | None = None  # the largest error of a normal row, if the model makes decisions
    facts: dict[str, str] = field(default_factory=dict)  # facts about the model, for descriptions and metadata
    columns: tuple[InputColumn, ...] = ()  # for rows of a table: what each column holds
    spread: float | None = None  # standard deviation of the largest score, if the model knows it

    @property
    def n_components(self) -> int:
        return int(self.core.coef.shape[1])

    def forward(self, ops: Any, rows: Any, outputs: Collection[str] = OUTPUTS) -> dict[str, Any]:
        """The exported function, in the operations of any target; outputs that are not requested are not computed."""
        for step in self.front:
            rows = step(ops, rows)
        core = self.core
        features = core.features(ops, rows)
        scores = features @ core.coef + (-core.offset)
        if tuple(outputs) == ("scores",):
            return {"scores": scores}
        along = scores if core.mixing is None else scores @ core.mixing
        # overflowing squares must give an infinite error, not infinity minus infinity
        captured = ops.minimum(ops.squares(along), ops.largest / 2)
        found = {"scores": scores, "error": ops.maximum(core.length(ops, rows, features) - captured, 0.0)}
        if self.limit is not None:
            found["decision"] = self.limit - found["error"]
        return {name: found[name] for name in outputs if name in found}

    def in_float32(self) -> Form:
        """This function with a front whose numbers float32 can represent."""
        return replace(self, front=tuple(step.in_float32(self.core.largest) for step in self.front))

    def centered(self, dtype: Any = np.float32) -> Form:
        """This function with the points of a stationary kernel centred at the origin; `front` subtracts their centre.

        Distances that are computed from products then cancel least, and `dtype` represents the points most precisely.
        """
        core = self.core
        if isinstance(core, LinearCore):
            step = Affine(core.center, np.ones(len(core.center)))
            core = replace(core, center=np.zeros_like(core.center))
            return replace(self, front=joined((*self.front, step)), core=core)
        if not core.shifts:
            return self
        return self.shifted(core.points.mean(axis=0), dtype)

    def shifted(self, center: np.ndarray, dtype: Any = np.float32) -> Form:
        """This function of a stationary kernel, with `center` moved to the origin as nearly as `dtype` can represent.

        Rows become  (x - held) f = (x - shift) f + (shift - held) f,  where `held` is representable in `dtype`.  The
        points move by the last term, which is a difference of nearby numbers, so nothing is rounded.
        """
        core, front = self.core, list(self.front)
        assert isinstance(core, KernelCore)
        assert core.shifts  # only differences count: a shift of both rows and points is free
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

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """Scores in numpy, in float64: the reference for every export."""
        found: np.ndarray = self.forward(NUMPY, np.asarray(rows, dtype=np.float64), ("scores",))["scores"]
        return found


def form_of(model: Any) -> Form:
    """The form of a fitted model, or of a pipeline of scalers that ends in one.

    It exists for anything with a fitted `expansion_`, and for sparse PCA in input space.  If a model has an
    `input_map_`, its `center` and `factor` come before the kernel.  If it has `limits_`, that of "spe" is the limit of
    a decision.  If it has `lags`, a row is a window: the newest row, then the one before it, and so on.
    """
    if isinstance(model, Pipeline):
        return _steps_form(model.steps)
    _check_fitted(model)
    return _own_form(model) if getattr(model, "encoder_", None) is None else _steps_form([("monitor", model)])


def _own_form(model: Any) -> Form:
    """The form of a model without a pipeline."""
    _check_fitted(model)
    core = core_of(model)
    return Form(
        _front_of(model),
        core,
        int(model.n_features_in_) * (1 + _lags(model)),
        _window_names(model),
        tuple(_output_names(model, core.coef.shape[1])),
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
    """The largest error of a normal row, if the model decides on each row alone."""
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


def _steps_form(steps: list[tuple[str, Any]]) -> Form:
    """The form of a pipeline; if the last step is a monitor of tables, its encoder comes before it as one more step."""
    if not steps:
        raise ExportError("an empty pipeline cannot be exported")
    *before, (_, last) = steps
    form = _own_form(last)
    if getattr(last, "encoder_", None) is not None:
        before = [*before, ("table", last.encoder_)]
    front: list[Step] = []
    names = None
    for _, transformer in before:
        if transformer not in (None, "passthrough"):
            _check_fitted(transformer)
            names = names if front else getattr(transformer, "feature_names_in_", None)
        front.extend(step.on_windows(1 + _lags(last)) for step in steps_of(transformer))
    first = next((t for _, t in before if t not in (None, "passthrough")), last)
    n_features = int(first.n_features_in_) * (1 + _lags(last))
    known = None if names is None else lagged_names(map(str, names), _lags(last))
    input_names = known if front else form.input_names
    columns = front[0].columns if front and isinstance(front[0], Spread) else ()
    if columns:
        n_features, named = len(columns), names is not None or any(column.labels for column in columns)
        input_names = tuple(column.name for column in columns) if named else None
    facts = {
        "pipeline": " -> ".join(type(t).__name__ for _, t in [*before, steps[-1]] if t not in (None, "passthrough"))
    }
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
    """Facts about the model, as texts."""
    from .. import __version__

    facts = {"producer": f"kernelsieve {__version__}", "model": type(model).__name__}
    if isinstance(core, KernelCore):
        facts["kernel"] = core.kernel.title
        numbers = {name: value for name, value in core.kernel.params().items() if isinstance(value, float | int)}
        facts |= {f"kernel_{name}": repr(value) for name, value in numbers.items()}
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


def not_ours(model: Any) -> str:
    """The error message that this model cannot be exported, with a list of what can."""
    return (
        f"{type(model).__name__} cannot be exported: the estimators of kernelsieve can (with {EXPORTABLE}), and "
        "pipelines of scikit-learn's scalers that end in one. kernelsieve.compress turns a KernelPCA of theirs into one"
    )


def core_of(model: Any) -> Core:
    """The part of a model's function that follows all steps before the kernel."""
    expansion = getattr(model, "expansion_", None)
    if isinstance(expansion, KernelExpansion):
        return _kernel_core(expansion)
    if hasattr(model, "components_") and hasattr(model, "_inverse_overlap"):
        return _input_space_core(model)
    raise ExportError(not_ours(model))


def _kernel_core(expansion: KernelExpansion) -> Core:
    kernel = expansion.kernel
    if kernel.not_exported:
        raise ExportError(f"{kernel.not_exported}, so this model cannot be exported: only {EXPORTABLE} can")
    points = to_numpy(dense(expansion.points)).astype(np.float64)
    coef, offset = (to_numpy(values).astype(np.float64) for values in (expansion.coef, expansion.offset))
    mean_coef = None if expansion.mean_coef is None else to_numpy(expansion.mean_coef).astype(np.float64)
    mixing = None if expansion.orthogonal else to_numpy(expansion._mixing).astype(np.float64)
    if not all(np.isfinite(values).all() for values in (points, coef, offset)):
        raise ExportError("the model holds NaN or infinity: it cannot be exported")
    if kernel.preimage == "linear":  # phi(x) is x: no points are needed
        weights = points.T @ coef
        center = np.zeros(points.shape[1]) if mean_coef is None else mean_coef @ points
        return LinearCore(center, weights, offset - center @ weights, mixing)
    mean_square = 0.0 if mean_coef is None else float(mean_coef @ kernel(points, points) @ mean_coef)
    return KernelCore(kernel, points, coef, offset, mean_coef, mean_square, mixing)


def _input_space_core(model: Any) -> LinearCore:
    components = np.asarray(model.components_, dtype=np.float64)
    overlap = model._inverse_overlap()
    projects = model.transform_method == "projection"
    weights = components.T if projects else components.T @ overlap
    # |z T| is the length of the row's projection on the plane: T T' = (V V')^+ for projections, V V' for coordinates
    values, vectors = np.linalg.eigh(overlap if projects else components @ components.T)
    mixing = vectors * np.sqrt(np.maximum(values, 0))
    return LinearCore(np.asarray(model.mean_, dtype=np.float64), weights, np.zeros(len(components)), mixing)
