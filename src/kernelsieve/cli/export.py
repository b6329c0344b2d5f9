"""`kernelsieve export`: a model file as ONNX, a C header or a torch program, by the suffix of the output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .inputs import load_model
from .messages import clean
from .options import Force, ModelFile
from .outputs import check_output

EXPORT_FORMATS = {".onnx": "onnx", ".h": "c", ".pt": "torch", ".pt2": "torch"}
DTYPES = {"onnx": ("float32", "float64"), "c": ("float32", "float64", "int8"), "torch": ("float32", "float64")}
INPUTS = ("columns", "matrix")


def export(
    model: ModelFile,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write: .onnx, .h (C99), .pt or .pt2 (torch)."),
    ],
    dtype: Annotated[
        str, typer.Option(metavar="TYPE", help="float32 or float64; for .h also int8, points of one byte a value.")
    ] = "float32",
    outputs: Annotated[
        str, typer.Option(metavar="A,B,...", help="Of an .onnx file: scores, error, decision (of a monitor).")
    ] = "scores",
    inputs: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Of an .onnx file: columns, one input each, or matrix, one X of numbers."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Prefix of all names in a .h file; by default the file's name.")
    ] = None,
    force: Force = False,
) -> None:
    """Write a model for use without Python: ONNX, C or torch, by the suffix of the output.

    The file takes rows of the raw table, with only the columns that it uses.
    Gaps are NaN, dates are days since 1970-01-01, durations are days. In an
    .onnx file a text column is an input of texts, empty for a gap; C, torch
    and --inputs matrix take the number of a label instead, which the comment
    of the .h file lists.

    \b
    Examples
      kernelsieve export model.ks -o model.onnx
      kernelsieve export model.ks -o model.onnx --outputs scores,error
      kernelsieve export model.ks -o model.h --dtype int8 --name plant
      kernelsieve export model.ks -o model.pt
    """
    kind = _format_of(output)
    wanted = tuple(word.strip() for word in outputs.split(",") if word.strip())
    _check_options(kind, dtype, wanted, inputs, name)
    check_output(output, [model], kind=f"{kind} export", force=force)
    fitted = load_model(model)
    if kind == "onnx":
        from ..export import to_onnx

        to_onnx(fitted, dtype, wanted, inputs=inputs, path=output)
        said = f"ONNX, {', '.join(wanted)} in {dtype}"
    else:
        said = _write(fitted, output, kind, dtype, name)
    print(f"{clean(str(output))}: {said}, {output.stat().st_size / 1000:,.1f} kB")


def _format_of(output: Path) -> str:
    if output.suffix.lower() not in EXPORT_FORMATS:
        raise typer.BadParameter(
            f"{output.name!r} does not end in {', '.join(EXPORT_FORMATS)}: the suffix says what to write",
            param_hint="--output",
        )
    return EXPORT_FORMATS[output.suffix.lower()]


def _check_options(kind: str, dtype: str, outputs: tuple[str, ...], inputs: str | None, name: str | None) -> None:
    """Refuse options that this format does not have."""
    if dtype not in DTYPES[kind]:
        raise typer.BadParameter(f"{dtype!r} is not one of {', '.join(DTYPES[kind])}", param_hint="--dtype")
    if kind != "onnx" and outputs != ("scores",):
        raise typer.BadParameter("only .onnx files have outputs to choose", param_hint="--outputs")
    if kind != "onnx" and inputs is not None:
        raise typer.BadParameter("only .onnx files have inputs to choose", param_hint="--inputs")
    if inputs not in (None, *INPUTS):
        raise typer.BadParameter(f"{inputs!r} is not one of {', '.join(INPUTS)}", param_hint="--inputs")
    if name is not None and kind != "c":
        raise typer.BadParameter("only .h files have a prefix", param_hint="--name")


def _write(model: Any, output: Path, kind: str, dtype: str, name: str | None) -> str:
    """Write a C header or a torch program; return its description."""
    if kind == "c":
        from ..export import to_c
        from ..export.c_header import name_from

        to_c(model, output, name, dtype)
        return f"C99 header, {name or name_from(output)}_scores and {name or name_from(output)}_error in {dtype}"
    from ..export.torch_module import save_torch

    save_torch(model, output, dtype)
    return f"torch program in {dtype}, read it with torch.export.load"
