"""The inputs of an ONNX file: one matrix of numbers, or one input for each column, under the column's name.

    numbers, booleans   (n, 1) in the file's dtype; NaN for a gap
    dates               (n, 1) in double, days since 1970-01-01: float32 holds these to a minute or two only
    labels              (n, 1) texts; the empty text for a gap, unless it is a label of the column

In a matrix all values are numbers, and labels are given by their codes.  A column that was fitted to both empty texts
and gaps can only be given in a matrix, because no text would be left for a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .model import Form
from .ops import Graph, Tensor
from .preprocessing import IS_GAP, NO_TEXT, ExportError, InputColumn, Spread

ROWS = "X"  # the name of the input if the model knows no column names
TEXTS = np.dtype(object)


@dataclass(frozen=True)
class Input:
    """An input of the file."""

    name: str
    dtype: Any  # `TEXTS` for texts
    width: int
    words: str = ""  # a description for the file's documentation


def input_names(n_features: int, known: tuple[str, ...] | None, inputs: str | None) -> tuple[str, ...] | None:
    """The names of the inputs, one for each column, or None for a single input of all columns."""
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
    columns = form.columns or tuple(InputColumn(name, "number") for name in names)
    _check_gaps_are_distinct(form)
    own = {"date": np.dtype(np.float64), "category": TEXTS}
    return [
        Input(name, own.get(column.kind, kind), 1, column.words(texts=True))
        for name, column in zip(names, columns, strict=True)
    ]


def places_in_double(given: Sequence[Input]) -> list[int]:
    """Which columns are given in double, whatever the dtype of the file."""
    return [place for place, one in enumerate(given) if one.dtype == np.float64]


def _check_gaps_are_distinct(form: Form) -> None:
    """Raise if the empty text is a label of a column that also has gaps: one text cannot represent both."""
    for step in form.front:
        if isinstance(step, Spread):
            gaps = {int(j) for j in step.source[step.test == IS_GAP]}
            both = [column.name for j, column in enumerate(step.columns) if j in gaps and NO_TEXT in column.labels]
            if both:
                raise ExportError(
                    f"{', '.join(map(repr, both))}: the model was fitted to both empty texts and gaps there, which an "
                    "input of texts cannot tell apart: give inputs='matrix', where labels are "
                    "numbers and NaN is a gap"
                )


def write(graph: Graph, form: Form, given: Sequence[tuple[str, Any]], names: dict[str, str], kind: Any) -> None:
    """Append a centred form, which takes inputs (name, dtype); its outputs get these names and the dtype `kind`."""
    form = form.in_float32() if graph.dtype == np.float32 else form
    found = form.forward(graph, rows_of(graph, given, form.columns), tuple(names))
    graph.give({name: found[what] for what, name in names.items()}, kind)


def rows_of(graph: Graph, given: Sequence[tuple[str, Any]], columns: Sequence[InputColumn] = ()) -> Tensor:
    """Inputs (name, dtype) as one tensor of numbers in the graph's dtype: texts as the codes of their labels."""
    kinds = {dtype for _, dtype in given}
    if len(kinds) == 1 and TEXTS not in kinds:  # all are cast at once, after concatenation
        numbers = [Tensor(graph, name) for name, _ in given]
        x = numbers[0] if len(numbers) == 1 else graph.add("Concat", *numbers, axis=1)
        return x if kinds == {graph.dtype} else graph.cast(x, graph.dtype)
    parts = []
    for place, (name, dtype) in enumerate(given):
        value = Tensor(graph, name)
        if dtype == TEXTS:
            value = _codes(graph, columns[place], value)
        parts.append(value if dtype == graph.dtype else graph.cast(value, graph.dtype))
    return parts[0] if len(parts) == 1 else graph.add("Concat", *parts, axis=1)


def _codes(graph: Graph, column: InputColumn, text: Tensor) -> Tensor:
    """The code of a label, the code after the last one for any other text, NaN for a gap; (n, 1), float32.

    TfIdfVectorizer over single words is the only operator of opset 18 that can compare texts: Equal accepts them from
    opset 19 on.  The empty text is a gap, unless it is a label.
    """
    n_labels, tells_gaps = len(column.labels), NO_TEXT not in column.labels
    pool = [*column.labels, *([NO_TEXT] if tells_gaps else [])]
    words: dict[str, Any] = {"pool_strings": pool, "ngram_counts": [0], "ngram_indexes": list(range(len(pool)))}
    words |= {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    found = graph.add("TfIdfVectorizer", text, **words)
    # Every indicator adds this to the code of other texts, so that the sum is the label's code, or -1 for a gap.
    adds = [code - n_labels for code in range(n_labels)] + ([-1 - n_labels] if tells_gaps else [])
    codes = found @ graph.const(np.array(adds)[:, None], kind=np.float32) + graph.const(n_labels, kind=np.float32)
    gap = graph.add("Less", codes, graph.const(-0.5, kind=np.float32))
    return graph.where(gap, graph.const(np.nan, kind=np.float32, finite=False), codes) if tells_gaps else codes
