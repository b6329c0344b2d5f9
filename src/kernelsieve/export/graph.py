"""A model's form as ONNX operators, apart from any library that holds them.

    rbf         Sub, [Mul], Clip, Gemm, ReduceSumSquare, Mul, Sub, Min, Exp, Gemm
    laplacian   Sub, Scan over the points (Sub, ReduceL1), Mul, Exp, Gemm: no n x m x d block is ever made
    poly        Gemm, Mul by squaring for whole degrees (else Pow), Gemm
    sigmoid     Gemm, Tanh, Gemm
    cosine      rows over their largest value, Gemm, over their length, Gemm
    linear      Sub, Gemm

gamma goes into weights, never into Gemm's `alpha`, which is float32 whatever the tensors are.  Nothing overflows on the
way for rows whose scores do not: a row of 1e30 is far from every point, not NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..kernels import RBF, Cosine, Laplacian, Polynomial, Sigmoid
from .cores import KernelCore, LinearCore
from .forms import Form
from .steps import SHIFT_ROUNDING, SQUASH_FROM, Affine, Clip, Fill, Mix, Spread, Squash, split
from .table_graph import write_spread

OPSET = 18
OUTPUTS = ("scores", "error", "decision")


@dataclass
class Node:
    """One operator; a Scan carries the graph of its body."""

    op: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)
    body: Graph | None = None


@dataclass
class Graph:
    """Operators in order, and their constants; names all begin with `prefix`."""

    dtype: Any  # of the arithmetic
    prefix: str = "ks_"
    opset: int = OPSET
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def const(self, value: Any, *, kind: Any = None) -> str:
        """The name of a constant."""
        array = np.asarray(value, dtype=kind or self.dtype)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise OverflowError
        name = f"{self.prefix}constant_{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(array) if array.ndim else array
        return name

    def add(self, op: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Append an operator; returns the name of what it gives."""
        name = output or f"{self.prefix}{op.lower()}_{len(self.nodes)}"
        self.nodes.append(Node(op, list(inputs), name, attributes))
        return name

    def reduce(self, op: str, x: str, *, keep: bool, output: str | None = None) -> str:
        """A reduction over columns: its axes became an input with opset 18."""
        keepdims = int(keep)
        if self.opset < 18:
            return self.add(op, x, output=output, axes=[1], keepdims=keepdims)
        return self.add(op, x, self.const([1], kind=np.int64), output=output, keepdims=keepdims)

    def subtract(self, x: str, shift: np.ndarray, resolution: np.ndarray) -> str:
        """x - shift, to more digits than the dtype has where the shift needs them."""
        if not np.any(shift):
            return x
        if self.dtype == np.float64:
            return self.add("Sub", x, self.const(shift))
        high, low = split(shift)
        x = self.add("Sub", x, self.const(high))
        return self.add("Sub", x, self.const(low)) if np.any(np.abs(low) > resolution) else x


def write(graph: Graph, form: Form, x: str, outputs: dict[str, str], texts: Mapping[int, str] | None = None) -> None:
    """Append the operators of `form`, which must be centred, on rows `x`; `outputs` says what and under which names.

    `texts` names, by column number, the inputs of columns that are given as texts and are not in `x`.
    """
    core = form.core
    u = _write_front(graph, form, x, texts or {})
    projected = "error" in outputs or "decision" in outputs
    if isinstance(core, LinearCore):
        scores = graph.add(
            "Gemm", u, graph.const(core.weights), graph.const(core.constant), output=outputs.get("scores")
        )
        length = graph.reduce("ReduceSumSquare", u, keep=False) if projected else ""
    else:
        gram, own, transposed = _write_kernel(graph, core, u, projected)
        coef, offset = graph.const(core.coef), graph.const(-core.offset)
        attributes = {"transA": 1} if transposed else {}
        scores = graph.add("Gemm", gram, coef, offset, output=outputs.get("scores"), **attributes)
        length = _write_length(graph, core, gram, own, transposed) if projected else ""
    if not projected:
        return
    along = scores if core.mixing is None else graph.add("MatMul", scores, graph.const(core.mixing))
    captured = graph.reduce("ReduceSumSquare", along, keep=False)
    # squares that overflow must leave an infinite error, not infinity minus infinity
    captured = graph.add("Min", captured, graph.const(np.finfo(graph.dtype).max / 2))
    rest = graph.add("Sub", length, captured)
    error = graph.add("Max", rest, graph.const(0.0), output=outputs.get("error"))
    if "decision" in outputs:
        graph.add("Sub", graph.const(form.limit), error, output=outputs["decision"])


def write_as(kind: Any, graph: Graph, form: Form, x: str, outputs: dict[str, str], texts: Mapping[int, str]) -> None:
    """`write`, with outputs of dtype `kind`, whatever that of the arithmetic is."""
    if graph.dtype == kind:
        write(graph, form, x, outputs, texts)
        return
    inside = {what: f"{graph.prefix}{what}" for what in outputs}
    write(graph, form, x, inside, texts)
    for what, name in outputs.items():
        graph.add("Cast", inside[what], output=name, to=kind)


def _write_front(graph: Graph, form: Form, x: str, texts: Mapping[int, str]) -> str:
    for step in form.front:
        if isinstance(step, Affine):
            resolution = SHIFT_ROUNDING * form.core.largest / np.maximum(np.abs(step.factor), np.finfo(np.float64).tiny)
            x = graph.subtract(x, step.shift, resolution)
            if np.any(step.factor != 1):
                x = graph.add("Mul", x, graph.const(step.factor))
        elif isinstance(step, Clip):
            x = graph.add("Clip", x, graph.const(step.lower), graph.const(step.upper))
        elif isinstance(step, Mix):
            x = graph.add("MatMul", x, graph.const(step.matrix))
        elif isinstance(step, Spread):
            x = write_spread(graph, step, x, texts)
        elif isinstance(step, Fill):
            x = graph.add("Where", graph.add("IsNaN", x), graph.const(step.values), x)
        elif isinstance(step, Squash):
            x = _write_squash(graph, step, x)
    return x


def _write_squash(graph: Graph, step: Squash, x: str) -> str:
    near = graph.add("Clip", x, graph.const(-SQUASH_FROM), graph.const(SQUASH_FROM))
    share = graph.add("Mul", near, graph.const(1 / step.bound))
    length = graph.add("Sqrt", graph.add("Add", graph.add("Mul", share, share), graph.const(1.0)))
    drawn_in = graph.add("Div", near, length)
    return drawn_in if step.where.all() else graph.add("Where", graph.const(step.where, kind=bool), drawn_in, x)


def _write_kernel(graph: Graph, core: KernelCore, u: str, own: bool) -> tuple[str, str, bool]:
    """k(u, S), k(u, u) where wanted and not constant (else ""), and whether the first came out transposed."""
    kernel, points = core.kernel, core.points
    if isinstance(kernel, RBF):
        return _write_rbf(graph, kernel.gamma, points, u), "", False
    if isinstance(kernel, Laplacian):
        distances = _write_manhattan(graph, points, u)
        return graph.add("Exp", graph.add("Mul", distances, graph.const(-kernel.gamma))), "", True
    if isinstance(kernel, Cosine):
        return *_write_cosine(graph, points, u, own), False
    assert isinstance(kernel, Polynomial | Sigmoid)
    base = graph.add("Gemm", u, graph.const(kernel.gamma * points.T), graph.const(np.full(len(points), kernel.coef0)))
    itself = ""
    if own:
        square = graph.reduce("ReduceSumSquare", u, keep=False)
        itself = graph.add("Mul", square, graph.const(kernel.gamma))
        itself = graph.add("Add", itself, graph.const(kernel.coef0))
    if isinstance(kernel, Sigmoid):
        return graph.add("Tanh", base), graph.add("Tanh", itself) if own else "", False
    return _write_power(graph, base, kernel.degree), _write_power(graph, itself, kernel.degree) if own else "", False


def _write_rbf(graph: Graph, gamma: float, points: np.ndarray, u: str) -> str:
    weights = 2 * gamma * points.T
    # Far beyond this a product with the points would overflow, and infinity minus infinity is no distance; the
    # square of such a row overflows too, but to minus infinity in the exponent, which is right.
    largest = max(1.0, float(np.abs(weights).sum(axis=0).max()))
    limit = np.finfo(graph.dtype).max / (4 * largest)
    near = graph.add("Clip", u, graph.const(-limit), graph.const(limit))
    products = graph.add("Gemm", near, graph.const(weights), graph.const(-gamma * np.sum(points**2, axis=1)))
    square = graph.add("Mul", graph.reduce("ReduceSumSquare", u, keep=True), graph.const(gamma))
    exponent = graph.add("Min", graph.add("Sub", products, square), graph.const(0.0))
    return graph.add("Exp", exponent)


def _write_manhattan(graph: Graph, points: np.ndarray, u: str) -> str:
    """|u - s|_1, (m, n), one point after another."""
    body = Graph(graph.dtype, f"{graph.prefix}scan_", graph.opset)
    body.reduce("ReduceL1", body.add("Sub", u, f"{body.prefix}point"), keep=False, output=f"{body.prefix}distance")
    name = f"{graph.prefix}scan_{len(graph.nodes)}"
    graph.nodes.append(Node("Scan", [graph.const(points)], name, {"num_scan_inputs": 1}, body))
    return name


def _write_cosine(graph: Graph, points: np.ndarray, u: str, own: bool) -> tuple[str, str]:
    tiny = graph.const(np.finfo(graph.dtype).tiny)
    largest = graph.reduce("ReduceMax", graph.add("Abs", u), keep=True)
    row = graph.add("Div", u, graph.add("Max", largest, tiny))
    length = graph.add("Sqrt", graph.reduce("ReduceSumSquare", row, keep=True))  # at least 1, or 0 for a zero row
    norms = np.sqrt(np.sum(points**2, axis=1))
    unit = points / np.where(norms > 0, norms, 1.0)[:, None]
    products = graph.add("MatMul", row, graph.const(unit.T))
    gram = graph.add("Div", products, graph.add("Max", length, tiny))
    return gram, graph.add("Sign", graph.reduce("ReduceMax", graph.add("Abs", row), keep=False)) if own else ""


def _write_power(graph: Graph, base: str, degree: float) -> str:
    """base^degree, by squaring where the degree is whole: Pow is slow, and undefined for negative bases in places."""
    if degree != int(degree) or not 1 <= degree <= 64:
        return graph.add("Pow", base, graph.const(degree))
    result, remaining = "", int(degree)
    while remaining:
        if remaining % 2:
            result = graph.add("Mul", result, base) if result else base
        remaining //= 2
        if remaining:
            base = graph.add("Mul", base, base)
    return result


def _write_length(graph: Graph, core: KernelCore, gram: str, own: str, transposed: bool) -> str:
    """|phi(u) - mean|^2, (n,)."""
    constant = core.mean_square + (0.0 if own else 1.0)
    if core.mean_coef is None:
        return own or graph.const(constant)
    coef = graph.const(-2 * core.mean_coef)
    toward = graph.add("MatMul", coef, gram) if transposed else graph.add("MatMul", gram, coef)
    length = graph.add("Add", toward, graph.const(constant))
    return graph.add("Add", length, own) if own else length
