"""The options that commands share: what each may be, and what its text means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def parse_support(text: str) -> int | float | str:
    """An int, a fraction or "auto"."""
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        pass
    try:
        fraction = float(text)
    except ValueError:
        fraction = float("nan")
    if not 0 < fraction <= 1:
        raise typer.BadParameter(f"{text!r} is neither a number of points, nor a fraction of the rows, nor 'auto'")
    return fraction


def parse_gamma(text: str) -> float | str | None:
    """A positive number, "median", "scale", or None for "none"."""
    if text.lower() in ("median", "scale"):
        return text.lower()
    if text.lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise typer.BadParameter(f"{text!r} is neither a positive number nor 'median', 'scale' or 'none'")
    return value


def check_kernel(name: str) -> str:
    """The name of a kernel."""
    from ..kernels import NAMED_KERNELS

    if name not in NAMED_KERNELS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(NAMED_KERNELS)}")
    return name


def check_selection(name: str) -> str:
    """The name of a rule that chooses points."""
    from ..selection.rules import SELECTORS

    if name not in ("optimized", *SELECTORS):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(('optimized', *SELECTORS))}")
    return name


def names_of(text: str | None) -> list[str]:
    """Column names separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


Data = Annotated[Path, typer.Argument(metavar="DATA", help="Rows: .csv, .tsv, .parquet, .npy or .npz.")]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `fit` wrote.")]
Components = Annotated[int, typer.Option("--components", "-c", min=1, metavar="N", help="Number of components.")]
Support = Annotated[
    str,
    typer.Option(
        "--support",
        "-s",
        callback=parse_support,
        metavar="N",
        help="Support points: a number, a fraction of the rows, or auto, the fewest that keep --variance.",
    ),
]
Variance = Annotated[
    float,
    typer.Option(metavar="SHARE", help="Share of exact kernel PCA's captured variance that --support auto keeps."),
]
Kernel = Annotated[
    str,
    typer.Option(
        "--kernel", "-k", callback=check_kernel, metavar="NAME", help="rbf, laplacian, poly, linear, cosine, sigmoid."
    ),
]
Gamma = Annotated[
    str,
    typer.Option(
        "--gamma",
        "-g",
        callback=parse_gamma,
        metavar="G",
        help="Kernel coefficient: a number, median, scale, or none (1/columns).",
    ),
]
Degree = Annotated[float, typer.Option(metavar="X", help="Of the poly kernel.")]
Coef0 = Annotated[float, typer.Option(metavar="X", help="Of the poly and sigmoid kernels.")]
Selection = Annotated[
    str,
    typer.Option(
        callback=check_selection,
        metavar="RULE",
        help="optimized: points move freely; targeted, uniform, rpcholesky: rows; kmeans.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all that is random.")]
Columns = Annotated[str | None, typer.Option(metavar="A,B,...", help="Use these columns only.")]
Exclude = Annotated[str | None, typer.Option("--exclude", "-x", metavar="A,B,...", help="Leave these columns out.")]
Key = Annotated[str | None, typer.Option(metavar="NAME", help="Array of an .npz file; by default X or the only table.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line of the CSV file is data.")]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        min=1,
        metavar="N",
        help="Read CSV and Parquet so many rows at a time; files over 128 MB are never read whole.",
    ),
]
