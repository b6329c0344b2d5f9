"""A model in words: what `kernelsieve info` and `kernelsieve fit` print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_SHOWN = 6  # column names and ratios spelled out


def describe(model: Any, path: Path) -> Any:
    """A rich Table of what a model is and what it reached."""
    from rich.table import Table

    table = Table(show_header=False, title=str(path), title_justify="left", title_style="bold")
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in _facts(model, path):
        table.add_row(name, value)
    return table


def _facts(model: Any, path: Path) -> Iterator[tuple[str, str]]:
    expansion = model.expansion_
    yield "model", type(model).__name__
    numbers = {name: value for name, value in expansion.kernel.params().items() if isinstance(value, int | float)}
    parameters = ", ".join(f"{name} = {value:.4g}" for name, value in numbers.items())
    yield "kernel", f"{expansion.kernel.name}" + (f" ({parameters})" if parameters else "")
    yield "components", f"{expansion.n_components:,}"
    kind = "free points" if model.support_ is None else "rows"
    yield "support", f"{expansion.n_support:,} {kind}"
    names = getattr(model, "feature_names_in_", None)
    yield "columns", f"{model.n_features_in_:,}" + ("" if names is None else f": {_shortened(names)}")
    if hasattr(model, "n_samples_seen_"):
        yield "fitted to", f"{model.n_samples_seen_:,} rows"
    ratios = model.explained_variance_ratio_
    yield "explains", f"{_percent(ratios.sum())} of the variance ({_shortened([_percent(ratio) for ratio in ratios])})"
    if getattr(model, "captured_ratio_kind_", "exact") != "exact":
        n_rows, kind = model.captured_ratio_n_samples_, model.captured_ratio_kind_
        measured = f"on all {n_rows:,} rows" if kind == "all rows" else f"{kind}, {n_rows:,} rows"
        yield "captures", f"{_percent(model.captured_ratio_)} of what exact kernel PCA captures ({measured})"
    yield "file", f"{path.stat().st_size / 1000:,.1f} kB"


def _shortened(words: Any) -> str:
    shown = [str(word) for word in words[:MAX_SHOWN]]
    return ", ".join(shown) + (", ..." if len(words) > MAX_SHOWN else "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
