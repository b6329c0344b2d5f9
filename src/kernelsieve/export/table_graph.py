"""A table's columns as ONNX operators: gaps and labels become indicators.

    a number          as it is, NaN for a gap
    is it a gap?      IsNaN
    is it this label? of texts: TfIdfVectorizer over single words, which is the operator of opset 18 that tells texts
                      apart (Equal takes none before opset 19); of codes: Equal

A text that is none of a column's labels is found by what is left, 1 - sum of the others.  The empty text is a gap,
unless it is a label.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .steps import GAP, NO_TEXT, VALUE, Column, Spread

if TYPE_CHECKING:
    from .graph import Graph


def write_spread(graph: Graph, step: Spread, x: str, texts: Mapping[int, str]) -> str:
    """Append the operators; `x` holds the columns of numbers, `texts` names the inputs of those given as texts."""
    given = np.cumsum([j not in texts for j in range(len(step.columns))]) - 1  # where a column of numbers is in x
    is_text = np.isin(step.source, list(texts))
    pieces, order = [], []
    for kind in (VALUE, GAP, None):
        chosen = np.flatnonzero(~is_text & (step.test == kind if kind is not None else step.test >= 0))
        if len(chosen):
            taken = _gathered(graph, x, given[step.source[chosen]], len(step.columns) - len(texts))
            pieces.append(_tested(graph, taken, kind, step.test[chosen]))
            order.append(chosen)
    for j, text in texts.items():
        chosen = np.flatnonzero(step.source == j)
        if len(chosen):
            pieces.append(_labelled(graph, step.columns[j], text, bool(np.any(step.test[chosen] == GAP))))
            order.append(chosen)
    joined = pieces[0] if len(pieces) == 1 else graph.add("Concat", *pieces, axis=1)
    return _gathered(graph, joined, np.argsort(np.concatenate(order)), len(step.source))


def _gathered(graph: Graph, x: str, columns: np.ndarray, width: int) -> str:
    """Columns of x, which has `width` of them, in this order."""
    if np.array_equal(columns, np.arange(width)):
        return x
    return graph.add("Gather", x, graph.const(columns, kind=np.int64), axis=1)


def _tested(graph: Graph, taken: str, kind: int | None, codes: np.ndarray) -> str:
    if kind == VALUE:
        return taken
    found = graph.add("IsNaN", taken) if kind == GAP else graph.add("Equal", taken, graph.const(codes))
    return graph.add("Cast", found, to=graph.dtype)


def _labelled(graph: Graph, column: Column, text: str, has_gaps: bool) -> str:
    """Indicators of the labels, of other labels and of gaps, in the order in which a TableEncoder has them."""
    n_labels = len(column.labels)
    tells_gaps = (column.other or has_gaps) and NO_TEXT not in column.labels
    pool = [*column.labels, NO_TEXT] if tells_gaps else list(column.labels)
    words: dict[str, Any] = {"pool_strings": pool, "ngram_counts": [0], "ngram_indexes": list(range(len(pool)))}
    words |= {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    counts = graph.add("TfIdfVectorizer", text, **words)  # float32 in any graph
    found = graph.add("Cast", counts, to=graph.dtype) if graph.dtype != np.float32 else counts
    matrix = np.zeros((len(pool), n_labels + column.other + has_gaps))
    matrix[:n_labels, :n_labels] = np.eye(n_labels)
    start = np.zeros(matrix.shape[1])
    if column.other:
        matrix[:, n_labels], start[n_labels] = -1, 1
    if has_gaps and tells_gaps:
        matrix[n_labels, -1] = 1
    if not start.any() and matrix.shape[0] == matrix.shape[1]:
        return found
    return graph.add("Gemm", found, graph.const(matrix), graph.const(start))
