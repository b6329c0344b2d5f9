"""The options that commands share: what each may be, what its text means, and which commands ask for together."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from .methods import METHODS

SCALES = ("standard", "robust", "none")
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def parse_support(text: str) -> int | float | str:
    """An int, a fraction or "auto"."""
    try:
        number = text if text == "auto" else int(text)
    except ValueError:
        pass
    else:
        if number != "auto" and int(number) < 1:
            raise typer.BadParameter(f"{text!r} is not a number of points: give 1 or more")
        return number
    try:
        fraction = float(text)
    except ValueError:
        fraction = float("nan")
    if not 0 < fraction <= 1:
        raise typer.BadParameter(f"{text!r} is neither a number of points, nor a fraction of the rows, nor 'auto'")
    return fraction


def parse_gamma(text: str) -> float | str | None:
    """A positive number, "median", "scale", "auto", or None for "none"."""
    if text.lower() in ("median", "scale", "auto"):
        return text.lower()
    if text.lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise typer.BadParameter(f"{text!r} is neither a positive number nor 'auto', 'median', 'scale' or 'none'")
    return value


def word(
    choices: Iterable[str] | Callable[[], Iterable[str]],
    *flags: str,
    check: Callable[[str], Any] | None = None,
    metavar: str = "NAME",
    help: str | None = None,
) -> Any:
    """An option that is one of a few words, which the shell completes; `check` where it may be more than that.

    Words that take long to import are given as a function, and need a `help` of their own.
    """

    def words() -> list[str]:
        return list(choices() if callable(choices) else choices)

    def one_of_them(text: str) -> str:
        if text not in words():
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(words())}")
        return text

    return typer.Option(
        *flags,
        callback=check or one_of_them,
        autocompletion=words,
        metavar=metavar,
        help=help or f"{', '.join(words())}.",
    )


def kernels() -> Iterable[str]:
    """The names of the kernels."""
    from ..kernels import NAMED_KERNELS

    return NAMED_KERNELS


def selections() -> Iterable[str]:
    """The names of the rules that choose points."""
    from ..selection.rules import SELECTORS

    return ("optimized", *SELECTORS)


def check_share(value: float | None) -> float | None:
    """A share between 0 and 1, where one is given."""
    if value is not None and not 0 < value <= 1:
        raise typer.BadParameter(f"{value:g} is not a share: give a number above 0, at most 1")
    return value


def names_of(text: str | None) -> list[str]:
    """Column names separated by commas; one that has a comma in it stands in quotes."""
    cells = next(csv.reader([text or ""], skipinitialspace=True), [])
    return [name.strip() for name in cells if name.strip()]


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="Rows: .csv, .tsv, .parquet, .npy or .npz; - for standard input.")
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `fit` wrote; - for standard input.")]
ModelOutput = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Where to write the model.")]
TableOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT", help="Where to write: .csv, .parquet, .npy, .npz; - to print.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that kernelsieve did not write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Keep = Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns of DATA to copy beside the result.")]
Method = Annotated[str, word(METHODS, "--method", "-m")]
Scale = Annotated[
    str,
    word(SCALES, metavar="HOW", help="Numbers: standard (mean 0, variance 1), robust (for heavy tails) or none."),
]
Missing = Annotated[
    str, word(("impute", "error"), metavar="HOW", help="Gaps: impute (filled in, with an indicator) or error.")
]
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
    typer.Option(
        callback=check_share,
        metavar="SHARE",
        help="Share of exact kernel PCA's captured variance that --support auto keeps.",
    ),
]
Kernel = Annotated[
    str, word(kernels, "--kernel", "-k", help="rbf, laplacian, poly, linear, ...; a wrong name lists them all.")
]
Gamma = Annotated[
    str,
    word(
        ("auto", "median", "scale", "none"),
        "--gamma",
        "-g",
        check=parse_gamma,
        metavar="G",
        help="Kernel coefficient: a number, median, scale, none (1/columns), or auto, tried on held-out rows.",
    ),
]
Degree = Annotated[float, typer.Option(metavar="X", help="Of the poly kernel.")]
Coef0 = Annotated[float, typer.Option(metavar="X", help="Of the poly and sigmoid kernels.")]
Selection = Annotated[
    str,
    word(
        selections,
        metavar="RULE",
        help="optimized: points move freely; targeted, uniform, rpcholesky: rows; kmeans.",
    ),
]
Alpha = Annotated[float | None, typer.Option(metavar="X", help="Penalty of the elastic-net methods.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of all that is random.")]
Columns = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Use these columns only, even if they look like identifiers.")
]
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


@dataclass(frozen=True)
class TableOptions:
    """Options of commands that apply a model to a table."""

    keep: Keep = None
    key: Key = None
    no_header: NoHeader = False
    batch_size: BatchSize = None


@dataclass(frozen=True)
class ModelOptions:
    """Options of commands that fit a model to a table."""

    components: Components = 2
    support: Support = "auto"
    variance: Variance = 0.99
    method: Method = "sparse"
    scale: Scale = "standard"
    missing: Missing = "impute"
    kernel: Kernel = "rbf"
    gamma: Gamma = "median"
    degree: Degree = 3
    coef0: Coef0 = 1
    selection: Selection = "optimized"
    alpha: Alpha = None
    seed: Seed = 0
    columns: Columns = None
    exclude: Exclude = None
    key: Key = None
    no_header: NoHeader = False
    batch_size: BatchSize = None


def asking(*, without: Collection[str] = (), **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, in the place of its `asked`, all options of what that is; some may have another default.

    Those that it goes `without` are not the user's to set, and have the default that they have for all commands.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        group = own["asked"].annotation
        kinds = get_type_hints(group, include_extras=True)
        shared = [
            inspect.Parameter(
                one.name, KEYWORD, default=defaults.get(one.name, one.default), annotation=kinds[one.name]
            )
            for one in fields(group)
            if one.name not in without
        ]
        parameters: list[inspect.Parameter] = []
        for name, parameter in own.items():
            parameters += shared if name == "asked" else [parameter.replace(kind=KEYWORD)]

        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            asked = group(**{one.name: values.pop(one.name) for one in shared})
            command(asked=asked, **values)

        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return decorated
