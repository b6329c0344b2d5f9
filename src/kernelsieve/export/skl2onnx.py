"""Converters for skl2onnx: `skl2onnx.to_onnx(pipeline)` with our estimators anywhere in the pipeline.

They write the same operators as `to_onnx`, in float32 or float64 as the surrounding graph requires; a monitor gives
its label and its decision like skl2onnx's other outlier detectors.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin, TransformerMixin, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..errors import needed
from ..io.container import package_version
from ..io.registry import own_estimators
from ..tables.encoder import TableEncoder
from .float32 import single_is_enough, warn_of_rounding
from .model import Form, form_of
from .onnx_inputs import ROWS, TEXTS, Input, given_inputs, input_names, places_in_double, write
from .ops import OPSET, Graph, Tensor, free_name, node_attributes
from .preprocessing import ExportError, can_fold


def register_onnx_converters() -> None:
    """Teach skl2onnx the estimators of this package.

    Needed once in a process, before ``skl2onnx.to_onnx(pipeline, X[:1])``; `to_onnx` of this package does it itself.

    Examples
    --------
    >>> import numpy as np, skl2onnx
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.export import register_onnx_converters
    >>> X, y = load_digits(return_X_y=True)
    >>> X = X.astype(np.float32)
    >>> pipeline = make_pipeline(SparseKernelPCA(10, n_support=30, random_state=0), LogisticRegression(max_iter=1000))
    >>> register_onnx_converters()
    >>> [output.name for output in skl2onnx.to_onnx(pipeline.fit(X, y), X[:1]).graph.output]
    ['output_label', 'output_probability']
    """
    register = needed("skl2onnx", "pipelines need the skl2onnx package").update_registered_converter
    for name, estimator in own_estimators().items():
        detects = issubclass(estimator, OutlierMixin)
        shapes, convert = (_monitor_shapes, _convert_monitor) if detects else (_score_shapes, _convert_scores)
        register(estimator, f"Kernelsieve{name}", shapes, convert)
    register(ScaledModel, "KernelsieveScaledModel", _score_shapes, _convert_scores)


class ScaledModel(TransformerMixin, BaseEstimator):
    """Scalers and the following model of ours, as one step, because scalers in float32 would lose digits."""

    def __init__(self, steps: Any, dtype: Any = None) -> None:
        self.steps = steps
        self.dtype = dtype  # dtype of the scores; the inputs may have several dtypes

    def fit(self, X: Any, y: Any = None) -> ScaledModel:
        """Do nothing: the steps are fitted already."""
        return self

    @property
    def form(self) -> Form:
        """The function that the steps compute."""
        return form_of(Pipeline(self.steps))

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the rows."""
        return self.form.n_features


def _form(step: Any) -> Form:
    if isinstance(step, TableEncoder):
        raise ExportError(
            "skl2onnx cannot convert a TableEncoder: kernelsieve.export.to_onnx(pipeline) does, as the first step of a "
            "pipeline in which a model of kernelsieve comes next"
        )
    return step.form if isinstance(step, ScaledModel) else form_of(step)


def _tensor_types() -> dict[Any, Any]:
    """skl2onnx's types of tensors, by the dtype of their values."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, StringTensorType

    return {np.dtype(np.float64): DoubleTensorType, np.dtype(np.float32): FloatTensorType, TEXTS: StringTensorType}


def _dtype_of(variable: Any) -> Any:
    """The dtype of an input; anything but float32, float64 and texts counts as int64, and is cast."""
    known = {kind: dtype for dtype, kind in _tensor_types().items()}
    return known.get(type(variable.type), np.dtype(np.int64))


def _dtype_of_scores(operator: Any) -> Any:
    if isinstance(operator.raw_operator, ScaledModel):
        return np.dtype(np.float64 if operator.raw_operator.dtype == np.float64 else np.float32)
    double = any(_dtype_of(variable) == np.float64 for variable in operator.inputs)
    return np.dtype(np.float64 if double else np.float32)


def _score_shapes(operator: Any) -> None:
    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = _tensor_types()[_dtype_of_scores(operator)](
        [n_rows, _form(operator.raw_operator).n_components]
    )


def _monitor_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import Int64TensorType

    n_rows = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = Int64TensorType([n_rows, 1])
    operator.outputs[1].type = _tensor_types()[_dtype_of_scores(operator)]([n_rows, 1])


def _convert_scores(scope: Any, operator: Any, container: Any) -> None:
    graph, form, given, kind = _started(scope, operator, container)
    write(graph, form, given, {"scores": operator.outputs[0].full_name}, kind)
    _into(container, graph)


def _convert_monitor(scope: Any, operator: Any, container: Any) -> None:
    graph, form, given, kind = _started(scope, operator, container)
    if form.limit is None:
        raise ExportError("a monitor with smoothing decides on a series, not on a row: it cannot be converted")
    write(graph, form, given, {"decision": f"{graph.prefix}decision"}, graph.dtype)
    column = graph.add("Unsqueeze", Tensor(graph, f"{graph.prefix}decision"), graph.const([1], kind=np.int64))
    alarm = graph.cast(graph.add("Less", column, 0.0), np.int64)
    _ = graph.const(1, kind=np.int64) - alarm * graph.const(2, kind=np.int64)
    graph.nodes[-1].output = operator.outputs[0].full_name
    graph.give({operator.outputs[1].full_name: column}, kind)
    _into(container, graph)


def _started(scope: Any, operator: Any, container: Any) -> tuple[Graph, Form, list[tuple[str, Any]], Any]:
    """An empty graph, the form to write into it, its inputs (name, dtype), and the requested dtype."""
    if container.target_opset < 13:  # the oldest opset in which all operators used here have their present form
        raise ExportError(f"target_opset={container.target_opset} is too old: give 13 or more")
    kind = _dtype_of_scores(operator)
    form = _form(operator.raw_operator).centered(kind)
    given = [(variable.full_name, _dtype_of(variable)) for variable in operator.inputs]
    single = kind == np.float32 and all(dtype != np.float64 for _, dtype in given)
    arithmetic = np.dtype(np.float32 if single and single_is_enough(form) else np.float64)
    graph = Graph(arithmetic, scope.get_unique_variable_name("ks") + "_", min(container.target_opset, OPSET))
    return graph, form, given, kind


def _into(container: Any, graph: Graph) -> None:
    """Append the graph to the container of skl2onnx."""
    from onnx import helper

    for name, value in graph.constants.items():
        tensor = helper.np_dtype_to_tensor_dtype(value.dtype)
        container.add_initializer(name, tensor, list(value.shape), value.ravel())
    for node in graph.nodes:
        attributes = node_attributes(node)
        container.add_node(node.op, node.inputs, [node.output], op_version=graph.opset, name=node.output, **attributes)


def pipeline_to_onnx(pipeline: Any, kind: Any, wanted: tuple[str, ...], inputs: str | None) -> Any:
    """Convert a pipeline that is more than scalers and a model of ours with skl2onnx."""
    if wanted != ("scores",):
        raise ExportError(
            f"outputs={wanted!r} can be had of a pipeline of scalers that ends in a model of kernelsieve: this one "
            f"ends in {type(pipeline.steps[-1][1]).__name__} and has that step's outputs"
        )
    register_onnx_converters()
    from onnx import helper
    from skl2onnx import to_onnx

    tensors = _tensor_types()
    converted = _with_scaled_model(pipeline, kind)
    given, known = _inputs_of(converted, kind, inputs)
    types = [(one.name, tensors[one.dtype]([None, one.width])) for one in given]
    last = pipeline.steps[-1][1]
    options = {id(last): {"zipmap": False}} if is_classifier(last) else None
    proto = to_onnx(converted, initial_types=types, target_opset=OPSET, options=options)
    for value, one in zip(proto.graph.input, given, strict=True):
        _rename(proto, value, one.name)  # skl2onnx allows only letters and digits
        value.doc_string = one.words
    if hasattr(last, "transform") and len(proto.graph.output) == 1:
        _rename(proto, proto.graph.output[0], free_name("scores", [one.name for one in given]))
    facts = {
        "producer": f"kernelsieve {package_version()}",
        "pipeline": " -> ".join(type(step).__name__ for _, step in pipeline.steps),
        "input_names": json.dumps(known),
        "dtype": kind.name,
    }
    helper.set_model_props(proto, facts)
    return proto


def _inputs_of(pipeline: Pipeline, kind: Any, inputs: str | None) -> tuple[list[Input], list[str] | None]:
    """The inputs of a pipeline's file, and the names of the columns if the pipeline knows them."""
    first = pipeline.steps[0][1]
    if isinstance(first, ScaledModel):
        form = first.form
        given = given_inputs(form, kind, inputs)
        if kind == np.float32:
            warn_of_rounding(form, places_in_double(given))
        return given, None if form.input_names is None else list(form.input_names)
    try:
        n_features = int(pipeline.n_features_in_)
    except AttributeError:
        raise NotFittedError("this pipeline is not fitted: call fit before exporting it") from None
    found = getattr(pipeline, "feature_names_in_", None)
    known = None if found is None else list(map(str, found))
    names = input_names(n_features, None if known is None else tuple(known), inputs)
    return [Input(ROWS, kind, n_features)] if names is None else [Input(name, kind, 1) for name in names], known


def _with_scaled_model(pipeline: Pipeline, kind: Any) -> Pipeline:
    """The pipeline, with its leading scalers and a model of ours right after them merged into one step."""
    ours = tuple(own_estimators().values())
    for place, (_, step) in enumerate(pipeline.steps):
        if isinstance(step, ours) and not isinstance(step, OutlierMixin | TableEncoder):
            head, rest = pipeline.steps[: place + 1], pipeline.steps[place + 1 :]
            return Pipeline([("scaled_model", ScaledModel(head, kind)), *rest])
        if not can_fold(step):
            break
    return pipeline


def _rename(proto: Any, value: Any, name: str) -> None:
    """Rename an input or output of a graph everywhere."""
    before = value.name
    for node in proto.graph.node if name != before else ():
        node.input[:] = [name if word == before else word for word in node.input]
        node.output[:] = [name if word == before else word for word in node.output]
    value.name = name
