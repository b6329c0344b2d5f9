"""Names and operators of an ONNX file, which both ways of making one share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .graph import Graph, Node


def free_name(name: str, taken: Iterable[str]) -> str:
    """`name`, or the first of name_1, name_2, ... that no column has."""
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
