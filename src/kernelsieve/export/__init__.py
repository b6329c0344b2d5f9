"""Use a fitted model without Python: ONNX, a C header, a torch module.

    to_onnx(model)                  one ONNX file of standard operators, for onnxruntime in any language or a browser
    to_c(model, "model.h", "name")  one C99 header that needs only math.h, for a microcontroller
    to_torch(model)                 an nn.Module: gradients flow, points and coefficients can be trained further
    register_onnx_converters()      lets skl2onnx.to_onnx(pipeline) convert the estimators of this package

Every export holds the same few numbers, the support points, their coefficients and an offset, and is tested to give the
scores that `transform` gives.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .c_header import to_c
    from .onnx_file import to_onnx
    from .preprocessing import ExportError
    from .skl2onnx import register_onnx_converters
    from .torch_module import to_torch

__all__ = ["ExportError", "register_onnx_converters", "to_c", "to_onnx", "to_torch"]

_DEFINED_IN = {
    "ExportError": ".preprocessing",
    "register_onnx_converters": ".skl2onnx",
    "to_c": ".c_header",
    "to_onnx": ".onnx_file",
    "to_torch": ".torch_module",
}


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_DEFINED_IN[name], __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
