"""`kernelsieve export`: a model file as ONNX, a C header or a torch program, by the suffix of the output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from . import plain_errors
from .options import ModelFile

FORMATS = {".onnx": "onnx", ".h": "c", ".pt": "torch", ".pt2": "torch"}
DTYPES = {"onnx": ("float32", "float64"), "c": ("float32", "float64", "int8"), "torch": ("float32",)}
PEEK = 2**16  # bytes looked at to tell whether a file is an export of ours


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("export")(export)


@plain_errors
def export(
    model: ModelFile,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write: .onnx, .h (C99) or .pt (torch).")
    ],
    dtype: Annotated[
        str, typer.Option(metavar="TYPE", help="float32 or float64; for .h also int8, points of one byte a value.")
    ] = "float32",
    outputs: Annotated[
        str, typer.Option(metavar="A,B,...", help="Of an .onnx file: scores, error, decision (of a monitor).")
    ] = "scores",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What names in a .h file begin with; by default the file's.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite a file that is not an export.")] = False,
) -> None:
    """Write a model for use without Python: ONNX, C or torch, by the suffix of the output.

    \b
    Examples
      kernelsieve export model.ks -o model.onnx
      kernelsieve export model.ks -o model.onnx --outputs scores,error
      kernelsieve export model.ks -o model.h --dtype int8 --name plant
      kernelsieve export model.ks -o model.pt
    """
    kind = _format_of(output)
    if dtype not in DTYPES[kind]:
        raise typer.BadParameter(f"{dtype!r} is none of {', '.join(DTYPES[kind])}", param_hint="--dtype")
    wanted = tuple(word.strip() for word in outputs.split(",") if word.strip())
    if kind != "onnx" and wanted != ("scores",):
        raise typer.BadParameter(
            "only .onnx files have outputs to choose; C and torch have all", param_hint="--outputs"
        )
    if name is not None and kind != "c":
        raise typer.BadParameter("only .h files have names to begin", param_hint="--name")
    _check_output(model, output, kind, force)
    from .. import load

    said = _write(load(model), output, kind, dtype, wanted, name)
    size = output.stat().st_size
    Console().print(f"{output}: {said}, {size / 1000:,.1f} kB", highlight=False, soft_wrap=True)


def _format_of(output: Path) -> str:
    if output.suffix.lower() not in FORMATS:
        raise typer.BadParameter(
            f"{output.name!r} does not end in {', '.join(FORMATS)}: the suffix says what to write",
            param_hint="--output",
        )
    return FORMATS[output.suffix.lower()]


def _check_output(model: Path, output: Path, kind: str, force: bool) -> None:
    """Refuse to write over the model itself, or over a file that is no export, before any work is done."""
    if output.exists() and model.exists() and os.path.samefile(model, output):
        raise ValueError(f"{output} is the model itself: give another name")
    if output.exists() and not output.is_file():
        raise ValueError(f"{output} is not a file")
    if output.exists() and output.stat().st_size and not force and not _is_export(output, kind):
        raise ValueError(f"{output} is there already and is no export of kernelsieve: use --force to overwrite it")
    if not output.parent.is_dir():
        raise ValueError(f"there is no folder {output.parent}")


def _is_export(path: Path, kind: str) -> bool:
    with path.open("rb") as file:
        head = file.read(PEEK)
        file.seek(max(0, path.stat().st_size - PEEK))
        both = head + file.read()
    return both.startswith(b"/*") and b"made by kernelsieve" in head if kind == "c" else b"kernelsieve" in both


def _write(model: Any, output: Path, kind: str, dtype: str, outputs: tuple[str, ...], name: str | None) -> str:
    """Write the file; returns what it is."""
    if kind == "onnx":
        from ..export import to_onnx

        to_onnx(model, dtype, outputs, path=output)
        return f"ONNX, {', '.join(outputs)} in {dtype}"
    if kind == "c":
        from ..export import to_c
        from ..export.c_header import name_from

        to_c(model, output, name, dtype)
        return f"C99 header, {name or name_from(output)}_scores and {name or name_from(output)}_error in {dtype}"
    from ..export.torch_module import save_torch

    save_torch(model, output)
    return "torch program, read it with torch.export.load"
