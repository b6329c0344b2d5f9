"""What an ONNX file asks for: one matrix of numbers, or one input a column under the column's own name.

    numbers, truths   (n, 1) in the file's dtype; NaN where nothing is there
    dates             (n, 1) in double, days since 1970-01-01: float32 holds these to a minute or two only
    labels            (n, 1) texts; the empty one where nothing is there, unless it is a label of the column

In a matrix all are numbers, labels by their codes.  A column that was fitted to both empty texts and gaps can only be
given so: as texts, nothing would be left to stand for a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .forms import Form
from .graph import Graph
from .steps import GAP, NO_TEXT, Column, ExportError, Spread

ROWS = "X"  # the name of the input where the model knows no column names
TEXT = np.dtype(object)


@dataclass(frozen=True)
class Input:
    """An input of the file."""

    name: str
    dtype: Any  # `TEXT` for texts
    width: int
    words: str = ""  # on what it holds


def input_names(n_features: int, known: tuple[str, ...] | None, inputs: str | None) -> tuple[str, ...] | None:
    """The names of one input a column, or None for one input of all columns."""
    if inputs == "matrix" or (inputs is None and known is None):
        return None
    names = known if known is not None else tuple(f"x{j}" for j in range(n_features))
    if "" in names or len(set(names)) < len(names):
        raise ExportError("columns without a name, or two of one name, cannot be inputs: give inputs='matrix'")
    return names


def given_inputs(form: Form, kind: Any, inputs: str | None) -> list[Input]:
    """The inputs of a form's file whose numbers are of dtype `kind`."""
    names = input_names(form.n_features, form.input_names, inputs)
    if names is None:
        return [Input(ROWS, kind, form.n_features)]
    columns = form.columns or tuple(Column(name, "number") for name in names)
    _check_gaps_can_be_told(form)
    own = {"date": np.dtype(np.float64), "category": TEXT}
    return [
        Input(name, own.get(column.kind, kind), 1, column.words(texts=True))
        for name, column in zip(names, columns, strict=True)
    ]


def places_in_double(given: Sequence[Input]) -> list[int]:
    """Which columns come in double whatever the file's dtype is."""
    return [place for place, one in enumerate(given) if one.dtype == np.float64]


def _check_gaps_can_be_told(form: Form) -> None:
    """Raise where the empty text is a label of a column that also has gaps: the two would be told by one text."""
    for step in form.front:
        if isinstance(step, Spread):
            gaps = {int(j) for j in step.source[step.test == GAP]}
            both = [column.name for j, column in enumerate(step.columns) if j in gaps and NO_TEXT in column.labels]
            if both:
                raise ExportError(
                    f"{', '.join(map(repr, both))}: the model was fitted to both empty texts and gaps there, which an "
                    "input of texts cannot tell apart: give inputs='matrix', where labels are "
                    "numbers and NaN is a gap"
                )


def rows_of(graph: Graph, given: Sequence[tuple[str, Any]]) -> tuple[str, dict[int, str]]:
    """Inputs (name, dtype) as one tensor of numbers in the graph's dtype, and the names of those that are texts."""
    texts = {place: name for place, (name, dtype) in enumerate(given) if dtype == TEXT}
    numbers = [(name, dtype) for name, dtype in given if dtype != TEXT]
    kinds = {dtype for _, dtype in numbers}
    if len(kinds) > 1:  # else all are cast at once, after they have been put together
        numbers = [
            (name if dtype == graph.dtype else graph.add("Cast", name, to=graph.dtype), graph.dtype)
            for name, dtype in numbers
        ]
    x = graph.add("Concat", *(name for name, _ in numbers), axis=1) if len(numbers) > 1 else ""
    x = x or (numbers[0][0] if numbers else "")
    needs_cast = len(kinds) == 1 and kinds != {graph.dtype}
    return graph.add("Cast", x, to=graph.dtype) if needs_cast else x, texts
