"""to_onnx: a model, or a pipeline, as one ONNX file of standard operators."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..errors import needed
from ..io.container import replacing
from .float32 import single_is_enough, warn_of_rounding
from .model import OUTPUTS, Form, form_of
from .onnx_inputs import TEXTS, Input, given_inputs, places_in_double, write
from .ops import OPSET, Graph, free_name, initializers, node_proto, tensor_type
from .preprocessing import ExportError, can_fold


def to_onnx(
    model: Any,
    dtype: Any = "float32",
    outputs: Sequence[str] = ("scores",),
    *,
    inputs: str | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Any:
    """A fitted model, or a pipeline with one in it, as an ONNX model: opset 18, standard operators, no custom ones.

    Computes ``k(x, S) A - b`` with the model's own m points: MNIST on 50 points takes 160 kB and about 10 us a row.
    Where float32 arithmetic would cost more than 2e-6 of the scores (wide kernels, many points), a float32 model
    computes in double inside; ``arithmetic`` in the metadata says which it is.

    Parameters
    ----------
    model : fitted estimator of kernelsieve, or Pipeline
        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA and TableEncoder before a model of kernelsieve
        become part of its operators.  Any other pipeline goes through skl2onnx (see `register_onnx_converters`), with
        its outputs.
    dtype : {"float32", "float64"}, default="float32"
        The dtype of rows and scores.
    outputs : sequence of {"scores", "error", "decision"}, default=("scores",)
        "scores", (n, M), is `transform`; "error", (n,), is `reconstruction_error`, a monitor's SPE; "decision", (n,),
        a monitor's `decision_function`, negative for rows that are not normal.
    inputs : {"matrix", "columns"}, optional
        One input ``X`` of shape (n, d), or one of shape (n, 1) for each column, under its name.  By default "columns"
        for a model that was fitted to named columns.  After a TableEncoder these are the raw columns that it uses:
        labels as texts, empty for a gap, dates as doubles, days since 1970-01-01; in a matrix, labels by their codes.
        A column fitted to both empty texts and gaps needs "matrix".
    path : str or path-like, optional
        Also write the file, whole or not at all.

    Returns
    -------
    onnx.ModelProto
        `metadata_props` has the kernel and its parameters, the numbers of points and rows, the share of variance
        kept, and the names of columns and components.

    Examples
    --------
    >>> import numpy as np, onnxruntime
    >>> from sklearn.datasets import load_digits
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.export import to_onnx
    >>> X = load_digits().data.astype(np.float32)
    >>> model = SparseKernelPCA(2, n_support=20, random_state=0).fit(X)
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> (scores,) = session.run(None, {"X": X[:5]})
    >>> bool(np.abs(scores - model.transform(X[:5].astype(np.float64))).max() < 1e-5)
    True
    """
    needed("onnx", "ONNX export needs the onnx package")
    kind, wanted = _checked_dtype(dtype), _checked_outputs(outputs)
    if inputs not in (None, "matrix", "columns"):
        raise ValueError(f"inputs={inputs!r} is neither 'matrix' nor 'columns'")
    if isinstance(model, Pipeline) and not _is_direct(model):
        from .skl2onnx import pipeline_to_onnx

        proto = pipeline_to_onnx(model, kind, wanted, inputs)
    else:
        proto = _from_form(form_of(model), kind, wanted, inputs)
    if path is not None:
        with replacing(path) as temporary:
            temporary.write_bytes(proto.SerializeToString(deterministic=True))
    return proto


def _checked_dtype(dtype: Any) -> Any:
    try:
        kind = None if dtype is None else np.dtype(dtype)
    except TypeError:
        kind = None
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype={dtype!r} is neither 'float32' nor 'float64'")
    return kind


def _checked_outputs(outputs: Sequence[str]) -> tuple[str, ...]:
    wanted = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    unknown = [name for name in wanted if name not in OUTPUTS]
    if unknown or not wanted or len(set(wanted)) < len(wanted):
        raise ValueError(f"outputs={outputs!r}: give one or more of {', '.join(map(repr, OUTPUTS))}, each once")
    return wanted


def _is_direct(pipeline: Pipeline) -> bool:
    """Whether the pipeline consists of scalers and one model of ours, which can be written as one function."""
    if not pipeline.steps:
        return True  # the caller refuses it
    *before, (_, last) = pipeline.steps
    ours = any(home.__module__.split(".")[0] == "kernelsieve" for home in type(last).__mro__)
    return ours and all(can_fold(step) for _, step in before)


def _from_form(form: Form, kind: Any, wanted: tuple[str, ...], inputs: str | None) -> Any:
    if "decision" in wanted and form.limit is None:
        raise ExportError(
            f"{form.facts['model']} decides nothing on a single row ('decision' is for a monitor without smoothing): "
            "give outputs 'scores' and 'error'"
        )
    form = form.centered(kind)
    given = given_inputs(form, kind, inputs)
    if kind == np.float32:
        warn_of_rounding(form, places_in_double(given))
    single = kind == np.float32 and all(one.dtype != np.float64 for one in given) and single_is_enough(form)
    arithmetic = np.dtype(np.float32 if single else np.float64)
    taken = {one.name for one in given}
    names = {name: free_name(name, taken) for name in wanted}
    try:
        graph = _graph_of(form, kind, arithmetic, given, names)
    except OverflowError:
        if arithmetic == np.float64:
            raise ExportError("numbers of this model overflow in float64") from None
        arithmetic = np.dtype(np.float64)
        graph = _graph_of(form, kind, arithmetic, given, names)
    shapes: dict[str, list[Any]] = {"scores": ["n", form.n_components], "error": ["n"], "decision": ["n"]}
    facts = {
        **form.facts,
        "input_names": json.dumps(form.input_names),
        "output_names": json.dumps(form.output_names),
        "n_features": str(form.n_features),
        "n_components": str(form.n_components),
        "dtype": kind.name,
        "arithmetic": arithmetic.name,
    }
    if form.limit is not None:
        facts["limit"] = repr(form.limit)
    told = {column.name: column.words(texts=any(one.dtype == TEXTS for one in given)) for column in form.columns}
    if any(told.values()):
        facts["columns"] = json.dumps({name: words for name, words in told.items() if words}, ensure_ascii=False)
    return _model_proto(graph, kind, given, {names[n]: shapes[n] for n in wanted}, facts)


def _graph_of(form: Form, kind: Any, arithmetic: Any, given: Sequence[Input], names: dict[str, str]) -> Graph:
    prefix = "ks_"
    while any(name.startswith(prefix) for name in (*(one.name for one in given), *names.values())):
        prefix = f"{prefix}_"
    graph = Graph(arithmetic, prefix)
    write(graph, form, [(one.name, one.dtype) for one in given], names, kind)
    return graph


def _model_proto(
    graph: Graph, kind: Any, given: Sequence[Input], outputs: dict[str, list[Any]], facts: dict[str, str]
) -> Any:
    from onnx import checker, helper

    tensor = helper.np_dtype_to_tensor_dtype(kind)
    rows = [helper.make_tensor_value_info(i.name, tensor_type(i.dtype), ["n", i.width], i.words) for i in given]
    wanted = [helper.make_tensor_value_info(name, tensor, shape) for name, shape in outputs.items()]
    nodes, constants = [node_proto(node) for node in graph.nodes], initializers(graph)
    words = f"{facts['model']} by {facts['producer']}: {facts['n_features']} columns to {facts['n_components']} scores"
    body = helper.make_graph(nodes, "kernelsieve", rows, wanted, constants, doc_string=words)
    opsets = [helper.make_opsetid("", OPSET)]  # it needs IR version 8; old runtimes refuse newer ones
    proto = helper.make_model(body, opset_imports=opsets, ir_version=8, producer_name="kernelsieve")
    proto.producer_version = facts["producer"].split()[-1]
    helper.set_model_props(proto, facts)
    checker.check_model(proto, full_check=True)
    return proto
