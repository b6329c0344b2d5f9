"""`kernelsieve info`, and the description of a model that other commands print: as a table, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from . import options
from .inputs import core_of, encoder_of, load_model
from .messages import clean, percent

REACHED = (
    "n_samples_seen_",
    "captured_ratio_",
    "captured_ratio_kind_",
    "explained_variance_ratio_",
    "component_agreement_",
    "subspace_agreement_",
)
MAX_WORDS = 10  # how many column names, or ratios, are listed


def info(model: options.ModelFile, as_json: options.AsJson = False) -> None:
    """Say what a model file holds.

    \b
    Examples
      kernelsieve info model.ks
      kernelsieve info model.ks --json
    """
    fitted = load_model(model)
    if as_json:
        print(json.dumps(as_data(fitted, model)))
    else:
        Console().print(describe(fitted, model))


def describe(model: Any, path: Path | None = None) -> Any:
    """A rich Table that says what a model is and how well it fits."""
    from rich.table import Table
    from rich.text import Text

    title = Text(clean(str(path)) if path else "model", style="bold")
    table = Table(show_header=False, title=title, title_justify="left")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(model, path):
        table.add_row(name, Text(clean(value)))
    return table


def _facts(model: Any, path: Path | None) -> Iterator[tuple[str, str]]:
    core, encoder = core_of(model), encoder_of(model)
    steps = [type(step).__name__ for _, step in getattr(model, "steps", [])]
    yield "model", type(core).__name__
    if len(steps) > 2 or (steps and encoder is None):
        yield "steps", " -> ".join(steps)
    yield from _kernel_facts(core)
    names = getattr(model, "feature_names_in_", None)
    yield "columns", f"{model.n_features_in_:,}" + ("" if names is None else f": {_shortened(names)}")
    if encoder is not None:
        yield from encoder.describe()
    if hasattr(core, "n_samples_seen_"):
        yield "fitted to", f"{core.n_samples_seen_:,} rows"
    yield from _reached(core)
    if hasattr(core, "limits_"):
        yield from _monitor_facts(core)
    if path is not None and path.is_file():
        yield "file", f"{path.stat().st_size / 1000:,.1f} kB"


def _kernel_facts(core: Any) -> Iterator[tuple[str, str]]:
    expansion = getattr(core, "expansion_", None)
    if expansion is None:
        if hasattr(core, "components_"):
            yield "components", f"{len(core.components_):,}"
        if hasattr(core, "n_nonzero_"):
            yield "loadings", f"{int(core.n_nonzero_.sum()):,} of {core.components_.size:,} are not zero"
        return
    parameters = ", ".join(f"{name} = {value:.4g}" for name, value in _numbers_of(expansion.kernel).items())
    yield "kernel", f"{expansion.kernel.name}" + (f" ({parameters})" if parameters else "")
    yield "components", f"{expansion.n_components:,}"
    # the points of a monitor are those of its estimator
    kind = "free points" if getattr(core, "estimator_", core).support_ is None else "rows"
    yield "support", f"{expansion.n_support:,} {kind}"


def _numbers_of(kernel: Any) -> dict[str, float]:
    return {name: value for name, value in kernel.params().items() if isinstance(value, int | float)}


def _reached(core: Any) -> Iterator[tuple[str, str]]:
    ratios = getattr(core, "explained_variance_ratio_", None)
    lost = getattr(core, "compression_", None)
    if lost is not None and "r2" in lost:  # files of version 0.1.0 have no "r2"
        yield from _compressed(lost)
        return
    if ratios is not None and len(ratios):
        shown = _shortened([percent(ratio) for ratio in ratios])
        yield "explains", f"{percent(ratios.sum())} of the variance ({shown})"
    if getattr(core, "captured_ratio_kind_", "exact") != "exact":
        n_rows, kind = core.captured_ratio_n_samples_, core.captured_ratio_kind_
        different = "different " if n_rows < getattr(core, "n_samples_seen_", n_rows) else ""
        measured = f"on all {n_rows:,} {different}rows" if kind == "all rows" else f"{kind}, {n_rows:,} rows"
        yield "captures", f"{percent(core.captured_ratio_)} of what exact kernel PCA captures ({measured})"

    components = getattr(core, "component_agreement_", None)
    if components is not None and len(components) and getattr(core, "captured_ratio_kind_", "exact") != "exact":
        shown, together = _shortened([f"{value:.2f}" for value in components]), core.subspace_agreement_
        yield "agrees", f"with exact kernel PCA's components: {shown} (all together {together:.2f})"


def _compressed(lost: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How much a compressed model still explains, and the errors of its scores."""
    on_rows = lost["measured_on"] != "feature space"
    if "explained" in lost:
        after, before = percent(lost["explained"]), percent(lost["explained_before"])
        yield "explains", f"{'' if on_rows else 'at least '}{after} of the variance ({before} before compression)"
    where = f"on {lost['n_rows']:,} rows" if on_rows else "in feature space"
    yield "score errors", f"{_shortened([percent(error) for error in lost['error']])} ({where})"
    yield "score R^2", _shortened([f"{share:.3f}" for share in lost["r2"]])


def _monitor_facts(core: Any) -> Iterator[tuple[str, str]]:
    """The limits of a monitor, and when it alarms."""
    (low, high), (needed, remembered) = core.false_alarm_interval_, core.alarm_rule
    yield "limits", f"SPE {core.limits_['spe']:.4g}, T2 {core.limits_['t2']:.4g} ({core.n_held_out_:,} held-out rows)"
    yield "false alarms", f"{core.false_alarm_rate_:.1%} of normal rows ({low:.1%} to {high:.1%})"
    yield "lags", f"{core._fitted_lags:,}"
    yield "smoothing", "none" if core.smoothing is None else f"{core.smoothing:g} (weight of the newest row)"
    yield "rule", f"{needed} of the last {remembered} rows above the limit"
    if core._unreachable:
        yield "note", core._unreachable


def _monitor_data(core: Any) -> dict[str, Any]:
    """The limits of a monitor, for JSON."""
    return {
        "limits": {name: float(value) for name, value in core.limits_.items()},
        "n_held_out": int(core.n_held_out_),
        "false_alarm_rate": float(core.false_alarm_rate_),
        "false_alarm_interval": [float(bound) for bound in core.false_alarm_interval_],
        "lags": int(core._fitted_lags),
        "smoothing": core.smoothing,
        "alarm_rule": [int(number) for number in core.alarm_rule],
    }


def as_data(model: Any, path: Path | None = None) -> dict[str, Any]:
    """The facts about a model, for JSON."""
    from ..rows.frames import column_names

    core, encoder = core_of(model), encoder_of(model)
    facts: dict[str, Any] = {"model": type(core).__name__, "n_features_in": int(model.n_features_in_)}
    facts["steps"] = [type(step).__name__ for _, step in getattr(model, "steps", [])] or [type(core).__name__]
    names = getattr(model, "feature_names_in_", None)
    facts["columns"] = None if names is None else [str(name) for name in names]
    expansion = getattr(core, "expansion_", None)
    if expansion is not None:
        facts["kernel"] = {"name": expansion.kernel.name, **_numbers_of(expansion.kernel)}
        facts |= {"n_components": expansion.n_components, "n_support": expansion.n_support}
    for name in REACHED:
        value = getattr(core, name, None)
        if value is not None:
            facts[name.rstrip("_")] = value.tolist() if hasattr(value, "tolist") else value
    if hasattr(core, "limits_"):
        facts |= _monitor_data(core)
    lost = getattr(core, "compression_", None)
    if lost is not None:
        facts["compression"] = {
            name: value.tolist() if hasattr(value, "tolist") else value for name, value in lost.items()
        }
    if encoder is not None:
        facts["scale"], facts["missing"] = encoder.scale, encoder.missing
        facts["kinds"] = dict(zip(column_names(encoder), map(str, encoder.kinds_), strict=True))
        left_out = zip(column_names(encoder), encoder.reasons_, strict=True)
        facts["left_out"] = {name: str(reason) for name, reason in left_out if reason}
        filled = zip(column_names(encoder), encoder.n_missing_, strict=True)
        facts["n_missing"] = {name: int(number) for name, number in filled if number}
    if path is not None and path.is_file():
        facts["file_bytes"] = path.stat().st_size
    return facts


def _shortened(words: Any) -> str:
    shown = [str(word) for word in words[:MAX_WORDS]]
    return ", ".join(shown) + (", ..." if len(words) > MAX_WORDS else "")
