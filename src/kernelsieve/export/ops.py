"""The vocabulary that the forward function of a model is written in, once for numpy, torch, ONNX and C.

Steps (preprocessing.py), kernels (`Kernel.forward`) and models (model.py) say what they compute by operators
(+ - * / @) and by the functions of an `Ops`; each target brings its own:

    NumpyOps                 arrays in float64, the truth that exports are compared with
    Graph (below)            ONNX: values are names of tensors, and a call appends a node
    torch_module.TorchOps    tensors, whose gradients flow
    c_code.Loops             C: an expression, and the loops before it; kernels only

Where an ONNX function is given constants alone, numpy computes it while the file is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

OPSET = 18


class Ops:
    """What is written with other functions, and the names of those that a target must have.

    exp(x), sqrt(x), tanh(x), abs(x), sign(x), isnan(x), isinf(x); minimum(x, number), maximum(x, number);
    where(condition, x, y); equal(x, y) and number(condition), as 1 or 0; sum(x, keep), max(x, keep) over columns;
    transpose(x); take(x, columns); absolute_distances(rows, points).
    """

    library: Any = None  # a module that has those of these functions that a target does not write itself
    largest: float  # the largest number
    smallest: float  # the smallest that has all its digits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def keep(self, x: Any) -> Any:
        """A value that is used more than once."""
        return x

    def squares(self, rows: Any, *, keep: bool = False) -> Any:
        """|x|^2 of every row, (n,) or, to keep the axis, (n, 1)."""
        return self.sum(rows * rows, keep)

    def products(self, rows: Any, points: Any, factor: float = 1.0) -> Any:
        """factor x's, (n, m); the factor goes into the points, because onnxruntime would take it in float32."""
        return rows @ self.transpose(points if factor == 1 else factor * points)

    def squared_distances(self, rows: Any, points: Any) -> Any:
        """|x - s|^2, (n, m); infinite, not infinity minus infinity, for rows whose square overflows."""
        own = self.squares(rows, keep=True)
        squares = self.products(rows, points, -2.0) + self.transpose(self.squares(points, keep=True)) + own
        return self.maximum(self.where(self.isinf(own), own, squares), 0.0)

    def cosines(self, rows: Any, points: Any) -> Any:
        """x's / (|x| |s|), (n, m), and zero where a row is."""
        return self.products(self._unit_rows(rows), self._unit_rows(points))

    def _unit_rows(self, rows: Any) -> Any:
        """Rows over their lengths; first over their largest value, so that no square overflows or vanishes."""
        rows = rows / self.maximum(self.max(self.abs(rows), True), self.smallest)
        return rows / self.maximum(self.sqrt(self.squares(rows, keep=True)), self.smallest)

    def nonzero(self, rows: Any) -> Any:
        """1 for every row but those that are zero, (n,)."""
        return self.sign(self.max(self.abs(rows), False))

    def power(self, x: Any, exponent: float) -> Any:
        """x^exponent, by squaring where that is whole: pow is slow, and undefined for negative bases in places."""
        if exponent != int(exponent) or not 1 <= exponent <= 64:
            return x**exponent
        result, remaining = None, int(exponent)
        while remaining:
            if remaining % 2:
                result = x if result is None else result * x
            remaining //= 2
            if remaining:
                x = self.keep(x * x)
        return result

    def clip(self, x: Any, lower: float, upper: float) -> Any:
        """x, but no less than `lower` and no more than `upper`."""
        return self.minimum(self.maximum(x, lower), upper)


class NumpyOps(Ops):
    """Arrays in float64; distances by differences, which cancel nothing."""

    largest, smallest = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)
    library = np

    def equal(self, x: Any, y: Any) -> Any:
        return self.number(np.equal(x, y))

    def number(self, condition: Any) -> Any:
        return np.asarray(condition, dtype=np.float64)

    def sum(self, x: Any, keep: bool) -> Any:
        return np.sum(x, axis=1, keepdims=keep)

    def max(self, x: Any, keep: bool) -> Any:
        return np.max(x, axis=1, keepdims=keep)

    def take(self, x: Any, columns: Any) -> Any:
        return x[:, columns]

    def squared_distances(self, rows: Any, points: Any) -> Any:
        return cdist(rows, points, "sqeuclidean")

    def absolute_distances(self, rows: Any, points: Any) -> Any:
        return cdist(rows, points, "cityblock")


NUMPY = NumpyOps()


@dataclass
class Node:
    """One operator of ONNX; a Scan carries the graph of its body."""

    op: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)
    body: Graph | None = None


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of an ONNX graph, by its name."""

    graph: Graph
    name: str
    __array_ufunc__ = None  # an array on the left leaves the operation to the tensor

    def __add__(self, other: Any) -> Tensor:
        return self.graph.add("Add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self.graph.add("Add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self.graph.add("Sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self.graph.add("Sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self.graph.add("Mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self.graph.add("Mul", self, other)

    def __truediv__(self, other: Any) -> Tensor:
        return self.graph.add("Div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self.graph.add("Div", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self.graph.add("MatMul", self, other)

    def __pow__(self, other: Any) -> Tensor:
        return self.graph.add("Pow", self, other)

    def __neg__(self) -> Tensor:
        return self.graph.add("Neg", self)


@dataclass
class Graph(Ops):
    """ONNX operators in order, and their constants; names all begin with `prefix`.

    Numbers go into constants, never into attributes such as Gemm's `alpha`, which are float32 whatever the tensors are.
    """

    dtype: Any  # of the arithmetic
    prefix: str = "ks_"
    opset: int = OPSET
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.largest, self.smallest = float(np.finfo(self.dtype).max), float(np.finfo(self.dtype).tiny)

    def const(self, value: Any, *, kind: Any = None, finite: bool = True) -> Tensor:
        """A constant, in the dtype of the arithmetic; OverflowError where that does not hold it."""
        with np.errstate(over="ignore"):
            array = np.asarray(value, dtype=kind or self.dtype)
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise OverflowError
        name = f"{self.prefix}constant_{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(array) if array.ndim else array
        return Tensor(self, name)

    def add(self, op: str, *inputs: Any, **attributes: Any) -> Tensor:
        """Append an operator of tensors and constants."""
        names = [(x if isinstance(x, Tensor) else self.const(x)).name for x in inputs]
        node = Node(op, names, f"{self.prefix}{op.lower()}_{len(self.nodes)}", attributes)
        self.nodes.append(node)
        return Tensor(self, node.output)

    def give(self, values: dict[str, Tensor], kind: Any) -> None:
        """Give values the names of outputs, in dtype `kind`."""
        for name, value in values.items():
            attributes = {} if kind == self.dtype else {"to": kind}
            self.nodes.append(Node("Cast" if attributes else "Identity", [value.name], name, attributes))

    def _reduce(self, op: str, x: Any, keep: bool) -> Tensor:
        """A reduction over columns: its axes became an input with opset 18."""
        if self.opset < 18:
            return self.add(op, x, axes=[1], keepdims=int(keep))
        return self.add(op, x, self.const([1], kind=np.int64), keepdims=int(keep))

    def _call(self, function: str, op: str, *inputs: Any) -> Any:
        if any(isinstance(x, Tensor) for x in inputs):
            return self.add(op, *inputs)
        return getattr(NUMPY, function)(*inputs)

    def exp(self, x: Any) -> Any:
        return self._call("exp", "Exp", x)

    def sqrt(self, x: Any) -> Any:
        return self._call("sqrt", "Sqrt", x)

    def tanh(self, x: Any) -> Any:
        return self._call("tanh", "Tanh", x)

    def abs(self, x: Any) -> Any:
        return self._call("abs", "Abs", x)

    def sign(self, x: Any) -> Any:
        return self._call("sign", "Sign", x)

    def isnan(self, x: Any) -> Any:
        return self._call("isnan", "IsNaN", x)

    def isinf(self, x: Any) -> Any:
        return self._call("isinf", "IsInf", x)

    def minimum(self, x: Any, number: float) -> Any:
        return self._call("minimum", "Min", x, number)

    def maximum(self, x: Any, number: float) -> Any:
        return self._call("maximum", "Max", x, number)

    def transpose(self, x: Any) -> Any:
        return self._call("transpose", "Transpose", x)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(condition, Tensor):
            return self.add("Where", condition, x, y)
        if condition.all() or not condition.any():
            return x if condition.all() else y
        return self.add("Where", self.const(condition, kind=bool), x, y)

    def equal(self, x: Any, y: Any) -> Any:
        return self.number(self.add("Equal", x, y))

    def number(self, condition: Any) -> Any:
        return self.cast(condition, self.dtype)

    def cast(self, x: Any, kind: Any) -> Tensor:
        """x in another dtype."""
        return self.add("Cast", x, to=kind)

    def sum(self, x: Any, keep: bool) -> Any:
        return self._reduce("ReduceSum", x, keep) if isinstance(x, Tensor) else NUMPY.sum(x, keep)

    def max(self, x: Any, keep: bool) -> Any:
        return self._reduce("ReduceMax", x, keep) if isinstance(x, Tensor) else NUMPY.max(x, keep)

    def squares(self, rows: Any, *, keep: bool = False) -> Any:
        return (
            self._reduce("ReduceSumSquare", rows, keep) if isinstance(rows, Tensor) else NUMPY.squares(rows, keep=keep)
        )

    def take(self, x: Any, columns: Any) -> Any:
        return self.add("Gather", x, self.const(columns, kind=np.int64), axis=1)

    def absolute_distances(self, rows: Any, points: Any) -> Any:
        """One point after another: no n x m x d block is ever made."""
        body = Graph(self.dtype, f"{self.prefix}scan_", self.opset)
        apart = Tensor(body, rows.name) - Tensor(body, f"{body.prefix}point")
        body._reduce("ReduceL1", apart, False)
        body.nodes[-1].output = f"{body.prefix}distance"
        name = f"{self.prefix}scan_{len(self.nodes)}"
        self.nodes.append(Node("Scan", [self.const(points).name], name, {"num_scan_inputs": 1}, body))
        return self.transpose(Tensor(self, name))


def free_name(name: str, taken: Iterable[str]) -> str:
    """`name`, or the first of name_1, name_2, ... that is not taken."""
    taken, found, number = set(taken), name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def tensor_type(dtype: Any) -> int:
    """onnx's number for a dtype."""
    from onnx import TensorProto, helper

    return int(TensorProto.STRING if np.dtype(dtype) == object else helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def initializers(graph: Graph) -> list[Any]:
    """The constants of a graph as onnx holds them."""
    from onnx import numpy_helper

    return [numpy_helper.from_array(value, name) for name, value in graph.constants.items()]


def node_proto(node: Node) -> Any:
    """An operator as onnx holds it."""
    from onnx import helper

    return helper.make_node(node.op, node.inputs, [node.output], node.output, **node_attributes(node))


def node_attributes(node: Node) -> dict[str, Any]:
    """Attributes as onnx holds them: types by number, the body of a Scan as a graph."""
    from onnx import helper

    attributes = dict(node.attributes)
    if node.op == "Cast":
        attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(attributes["to"]))
    if node.body is not None:
        body = node.body
        tensor = helper.np_dtype_to_tensor_dtype(np.dtype(body.dtype))
        point = helper.make_tensor_value_info(f"{body.prefix}point", tensor, [None])
        distance = helper.make_tensor_value_info(f"{body.prefix}distance", tensor, [None])
        nodes = [node_proto(inner) for inner in body.nodes]
        attributes["body"] = helper.make_graph(nodes, body.prefix, [point], [distance], initializers(body))
    return attributes
