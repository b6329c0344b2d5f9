"""What becomes of a table's columns, in words that `kernelsieve info` and the report show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..rows.frames import column_names
from .plan import BOOLEAN, CATEGORY, DATE, LEFT_OUT, NUMBER

MAX_SHOWN = 6  # columns spelled out
SCALES = {
    "standard": "mean 0, variance 1",
    "robust": "median 0, middle half 1 wide, far values drawn in",
    "none": "as they are",
}


def described(encoder: Any) -> list[tuple[str, str]]:
    """Pairs of a heading and a text; only what there is."""
    columns = list(zip(column_names(encoder), encoder.kinds_, encoder.n_missing_, encoder.reasons_, strict=True))
    by_kind = {kind: [name for name, k, _, _ in columns if k == kind] for kind in (NUMBER, BOOLEAN, DATE)}
    facts = [("scale", f"{encoder.scale} ({SCALES[encoder.scale]})")]
    for kind, heading in ((NUMBER, "numbers"), (BOOLEAN, "true or false"), (DATE, "dates")):
        if by_kind[kind]:
            facts.append((heading, _counted(by_kind[kind])))
    labelled = [name for name, kind, _, _ in columns if kind == CATEGORY]
    sizes = [len(labels) + other for labels, other in zip(encoder.categories_, encoder.has_other_, strict=True)]
    if labelled:
        told = [f"{name} ({size} labels)" for name, size in zip(labelled, sizes, strict=True)]
        facts.append(("categories", _counted(told)))
    gaps = [f"{name} ({n:,} of {encoder.n_samples_seen_:,})" for name, k, n, _ in columns if n and k != LEFT_OUT]
    if gaps:
        facts.append(("gaps filled in", _counted(gaps)))
    out = [f"{name} ({reason})" for name, kind, _, reason in columns if kind == LEFT_OUT]
    if out:
        facts.append(("left out", _counted(out)))
    return facts


def _counted(names: Iterable[str]) -> str:
    """How many, and the first few."""
    listed = list(names)
    rest = f" and {len(listed) - MAX_SHOWN:,} more" if len(listed) > MAX_SHOWN else ""
    return f"{len(listed):,}: {', '.join(listed[:MAX_SHOWN])}{rest}"
