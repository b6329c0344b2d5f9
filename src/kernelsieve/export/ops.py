"""The operations in which the forward function of a model is written, once for numpy, torch, ONNX and C.

Steps (preprocessing.py), kernels (`Kernel.forward`) and models (model.py) describe their computation with operators (+
- * / @) and the functions of an `Ops`, which each target implements:

    NumpyOps                 arrays in float64, the truth that exports are compared with
    Graph (below)            ONNX: values are names of tensors, and a call appends a node
    torch_module.TorchOps    tensors, whose gradients flow
    c_code.Loops             C: an expression, and the loops before it; kernels only

If an ONNX function gets only constants, numpy computes it while the file is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

OPSET = 18
# Functions that are a single ONNX operator, by their names in numpy.
OPERATORS = {
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "tanh": "Tanh",
    "abs": "Abs",
    "sign": "Sign",
    "isnan": "IsNaN",
    "isinf": "IsInf",
    "minimum": "Min",
    "maximum": "Max",
    "transpose": "Transpose",
}


class Ops:
    """The functions that can be written in terms of others.  A target implements these others itself:

    exp(x), log(x), sqrt(x), sin(x), tanh(x), abs(x), sign(x), isnan(x), isinf(x);
    minimum(x, number), maximum(x, number);
    where(condition, x, y); number(condition), as 1 or 0; sum(x, keep), max(x, keep) over columns;
    transpose(x); absolute_distances(rows, points);
    column_sums(term, rows, points), sum_j term(ops, x_j, s_j) for all pairs; without points, for each row with itself.
    """

    library: Any = None  # a module with the functions that a target does not define itself
    largest: float  # the largest number of the target's dtype
    smallest: float  # the smallest number of that dtype with full precision

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def equal(self, x: Any, y: Any) -> Any:
        """1 where x and y are equal, else 0."""
        return self.number(x == y)

    def take(self, x: Any, columns: Any) -> Any:
        """Some columns of x."""
        return x[:, columns]

    def column(self, x: Any) -> Any:
        """x, (n,), as (n, 1)."""
        return x[:, None]

    def keep(self, x: Any) -> Any:
        """Mark a value that is used more than once, so that C computes it once."""
        return x

    def squares(self, rows: Any, *, keep: bool = False) -> Any:
        """|x|^2 of every row: (n,), or (n, 1) if the axis is kept."""
        return self.sum(rows * rows, keep)

    def products(self, rows: Any, points: Any, factor: float = 1.0) -> Any:
        """factor x's, (n, m); the factor is applied to the points, because onnxruntime would apply it in float32."""
        return rows @ self.transpose(points if factor == 1 else factor * points)

    def squared_distances(self, rows: Any, points: Any) -> Any:
        """|x - s|^2, (n, m); infinite, not infinity minus infinity, for rows whose square overflows."""
        own = self.squares(rows, keep=True)
        squares = self.products(rows, points, -2.0) + self.transpose(self.squares(points, keep=True)) + own
        return self.maximum(self.where(self.isinf(own), own, squares), 0.0)

    def cosines(self, rows: Any, points: Any) -> Any:
        """x's / (|x| |s|), (n, m); zero for rows of zeros."""
        return self.products(self._unit_rows(rows), self._unit_rows(points))

    def _unit_rows(self, rows: Any) -> Any:
        """Rows divided by their lengths; first by their largest value, so that no square overflows or underflows."""
        rows = rows / self.maximum(self.max(self.abs(rows), True), self.smallest)
        return rows / self.maximum(self.sqrt(self.squares(rows, keep=True)), self.smallest)

    def square_sums(self, rows: Any, points: Any) -> Any:
        """|x|^2 + |s|^2, (n, m)."""
        return self.squares(rows, keep=True) + self.transpose(self.squares(points, keep=True))

    def constant(self, values: np.ndarray) -> Any:
        """An array of numbers that belongs to the kernel."""
        return values

    def for_all_points(self, value: float, points: Any) -> Any:
        """The value of a constant kernel, in a form that combines with kernel values of any number of points."""
        return value

    def on_columns(self, rows: Any, points: Any, columns: tuple[int, ...]) -> tuple[Any, Any, Any]:
        """Operations, rows and points for a kernel that sees only some of the columns."""
        return self, self.take(rows, list(columns)), None if points is None else points[:, list(columns)]

    def with_factors(self, rows: Any, points: Any, factors: np.ndarray) -> tuple[Any, Any, Any]:
        """Operations, rows and points for a kernel that sees each column multiplied by a factor."""
        held = self.constant(factors)
        return self, rows * held, None if points is None else points * held

    def inverse_lengths(self, kernel: Any, rows: Any, points: Any) -> Any:
        """1 / sqrt(k(x, x) k(s, s)), (n, m), and zero where k(x, x) is zero."""
        own, others = (kernel.forward_diagonal(self, given) for given in (rows, points))
        if isinstance(own, float):
            return 1.0 / own
        return self.column(self._inverse_root(own)) * self._inverse_root(others)

    def _inverse_root(self, x: Any) -> Any:
        zero = self.equal(x, 0.0)
        return (1.0 - zero) / self.sqrt(x + zero)

    def nonzero(self, rows: Any) -> Any:
        """(n,) 0 for rows of zeros, 1 for all others."""
        return self.sign(self.max(self.abs(rows), False))

    def power(self, x: Any, exponent: float) -> Any:
        """x^exponent; by squaring if that is whole, because pow is slow and for negative bases not always defined."""
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
        """x, clipped to between `lower` and `upper`."""
        return self.minimum(self.maximum(x, lower), upper)


class NumpyOps(Ops):
    """Arrays in float64; distances are computed from differences, without cancellation."""

    largest, smallest = float(np.finfo(np.float64).max), float(np.finfo(np.float64).tiny)
    library = np

    def number(self, condition: Any) -> Any:
        return np.asarray(condition, dtype=np.float64)

    def sum(self, x: Any, keep: bool) -> Any:
        return np.sum(x, axis=1, keepdims=keep)

    def max(self, x: Any, keep: bool) -> Any:
        return np.max(x, axis=1, keepdims=keep)

    def column_sums(self, term: Any, rows: Any, points: Any) -> Any:
        if points is None:
            return np.sum(term(self, rows, rows), axis=1)
        return np.stack([np.sum(term(self, rows, point), axis=1) for point in points], axis=1)

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


def _operator(op: str) -> tuple[Any, Any]:
    """Two methods of a tensor that append an ONNX operator: with the tensor on the left, and on the right."""

    def left(self: Tensor, *others: Any) -> Tensor:
        return self.graph.add(op, self, *others)

    def right(self: Tensor, other: Any) -> Tensor:
        return self.graph.add(op, other, self)

    return left, right


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of an ONNX graph, by its name."""

    graph: Graph
    name: str
    __array_ufunc__ = None  # makes numpy leave the operation to the tensor if an array is on the left

    __add__, __radd__ = _operator("Add")
    __sub__, __rsub__ = _operator("Sub")
    __mul__ = __rmul__ = _operator("Mul")[0]
    __truediv__, __rtruediv__ = _operator("Div")
    __matmul__, __pow__, __neg__ = _operator("MatMul")[0], _operator("Pow")[0], _operator("Neg")[0]


@dataclass
class Graph(Ops):
    """ONNX operators in order, and their constants; names all begin with `prefix`.

    Numbers become constants, never attributes such as Gemm's `alpha`, which are float32 whatever the tensors are.
    """

    dtype: Any  # of the arithmetic
    prefix: str = "ks_"
    opset: int = OPSET
    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.largest, self.smallest = float(np.finfo(self.dtype).max), float(np.finfo(self.dtype).tiny)

    def const(self, value: Any, *, kind: Any = None, finite: bool = True) -> Tensor:
        """A constant, in the dtype of the arithmetic; OverflowError if that cannot represent it."""
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

    def __getattr__(self, name: str) -> Any:
        """A function that is a single operator; numpy computes it if all arguments are constants."""
        if name not in OPERATORS:
            raise AttributeError(name)

        def call(*inputs: Any) -> Any:
            if any(isinstance(x, Tensor) for x in inputs):
                return self.add(OPERATORS[name], *inputs)
            return getattr(NUMPY, name)(*inputs)

        return call

    def _reduce(self, op: str, x: Any, keep: bool) -> Tensor:
        """A reduction over columns; its axes are an input since opset 18."""
        if self.opset < 18:
            return self.add(op, x, axes=[1], keepdims=int(keep))
        return self.add(op, x, self.const([1], kind=np.int64), keepdims=int(keep))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(condition, Tensor):
            return self.add("Where", condition, x, y)
        if condition.all() or not condition.any():
            return x if condition.all() else y
        return self.add("Where", self.const(condition, kind=bool), x, y)

    def for_all_points(self, value: float, points: np.ndarray) -> np.ndarray:
        # One number for each point, because onnxruntime would multiply a matrix product by a single number in float32.
        return np.full(len(points), value)

    def equal(self, x: Any, y: Any) -> Any:
        if not isinstance(x, Tensor) and not isinstance(y, Tensor):
            return NUMPY.equal(x, y)
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
        if not isinstance(rows, Tensor):
            return NUMPY.squares(rows, keep=keep)
        return self._reduce("ReduceSumSquare", rows, keep)

    def take(self, x: Any, columns: Any) -> Any:
        if not isinstance(x, Tensor):
            return NUMPY.take(x, columns)
        return self.add("Gather", x, self.const(columns, kind=np.int64), axis=1)

    def column(self, x: Any) -> Any:
        return self.add("Reshape", x, self.const([-1, 1], kind=np.int64)) if isinstance(x, Tensor) else x[:, None]

    def column_sums(self, term: Any, rows: Any, points: Any) -> Any:
        if points is None:
            return self.sum(term(self, rows, rows), False)
        return self._scan(rows, points, lambda body, x, s: body.sum(term(body, x, s), False))

    def absolute_distances(self, rows: Any, points: Any) -> Any:
        return self._scan(rows, points, lambda body, x, s: body._reduce("ReduceL1", x - s, False))

    def _scan(self, rows: Any, points: Any, of_point: Any) -> Tensor:
        """of_point(body, rows, s), (n,), for one point s after another, without an n x m x d block."""
        name = f"{self.prefix}scan_{len(self.nodes)}"
        body = Graph(self.dtype, f"{name}_", self.opset)
        of_point(body, Tensor(body, rows.name), Tensor(body, f"{body.prefix}point"))
        body.nodes[-1].output = f"{body.prefix}distance"
        # Stacked along columns: onnxruntime 1.31 multiplies a transposed matrix by a vector wrongly.
        attributes = {"num_scan_inputs": 1, "scan_output_axes": [1]}
        self.nodes.append(Node("Scan", [self.const(points).name], name, attributes, body))
        return Tensor(self, name)


def free_name(name: str, taken: Iterable[str]) -> str:
    """`name`, or the first of name_1, name_2, ... that is still free."""
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
