"""The options that commands share: how their values are read, their groups, and the estimators made from them."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

METHODS = {
    "sparse": "SparseKernelPCA",
    "exact": "KernelPCA",
    "compressed": "CompressedKernelPCA",
    "elastic-net": "ElasticNetKernelPCA",
    "robust": "RobustSparseKernelPCA",
    "likelihood": "LikelihoodKernelPCA",
    "dissimilarity": "DissimilarityKernelPCA",
    "improved": "ImprovedKernelPCA",
    "feature-analysis": "KernelFeatureAnalysis",
    "linear": "ElasticNetPCA",
    "robust-linear": "RobustElasticNetPCA",
}
# Options and the parameters that they set.  An option applies to estimators that have one of its parameters.
SAME_NAME = ("variance", "kernel", "gamma", "degree", "coef0", "selection", "alpha", "batch_size", "keep_stream")
PARAMETERS: dict[str, tuple[str, ...]] = {
    "components": ("n_components",),
    "support": ("n_support", "n_nodes"),
    **{name: (name,) for name in SAME_NAME},
    "seed": ("random_state",),
}
READS_BLOCKS = ("sparse",)  # methods that can be fitted to rows that do not fit in memory
SCALE_NAMES = ("standard", "robust", "none")
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def parse_support(text: str) -> int | float | str:
    """Turn --support into an int, a fraction or "auto"."""
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
    """Turn --gamma into a positive number, "median", "0.3 median", "scale", "auto", or None for "none"."""
    from ..kernels.width import multiple_of_median

    if text.lower() in ("median", "scale", "auto") or multiple_of_median(text) is not None:
        return text.lower()
    if text.lower() == "none":
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise typer.BadParameter(
            f"{text!r} is neither a positive number nor 'auto', 'median', '0.3 median', 'scale' or 'none'"
        )
    return value


def word(
    choices: Iterable[str] | Callable[[], Iterable[str]],
    *flags: str,
    check: Callable[[str], Any] | None = None,
    metavar: str = "NAME",
    help: str | None = None,
) -> Any:
    """An option whose value is one of a few words, which the shell completes; `check` may allow other values, too.

    Words that take long to import are given as a function, and the option then needs a `help` of its own.
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
    from ..rules.registry import SELECTORS

    return ("optimized", *SELECTORS)


def check_share(value: float | None) -> float | None:
    """Check a share, if one is given: above 0, below 1."""
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value:g} is not a share: give a number above 0 and below 1")
    return value


def check_weight(value: float | None) -> float | None:
    """Check a weight, if one is given: above 0, at most 1."""
    if value is not None and not 0 < value <= 1:
        raise typer.BadParameter(f"{value:g} is not a weight: give a number above 0, at most 1")
    return value


def names_of(given: str | Sequence[str] | None) -> list[str]:
    """Column names, which commas separate; a name with a comma in it is quoted, and the option may be repeated."""
    texts = [given] if isinstance(given, str) else given or []
    cells = [cell for text in texts for line in csv.reader([text], skipinitialspace=True) for cell in line]
    return [name.strip() for name in cells if name.strip()]


Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA", help="Rows: .csv, .tsv, .txt (also .gz), .parquet, .xlsx, .npy, .npz; - for standard input."
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `fit` wrote; - for standard input.")]
ModelOutput = Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="Where to write the model.")]
TableOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT", help="Where to write: .csv, .parquet, .npy, .npz; - to print.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that kernelsieve did not write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Keep = Annotated[list[str] | None, typer.Option(metavar="A,B,...", help="Columns of DATA to copy beside the result.")]
Method = Annotated[str, word(METHODS, "--method", "-m")]
Scale = Annotated[
    str,
    word(SCALE_NAMES, metavar="HOW", help="Numbers: standard (mean 0, variance 1), robust (for heavy tails) or none."),
]
Missing = Annotated[
    str, word(("impute", "error"), metavar="HOW", help="Gaps: impute (filled in, with an indicator) or error.")
]
NoCalendar = Annotated[
    bool,
    typer.Option("--no-calendar", help="Keep year, month, day, hour as plain numbers, not one date with circles."),
]
NoTrend = Annotated[
    bool,
    typer.Option("--no-trend", help="Leave out counters and the time of dates: future rows are always later."),
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
    str,
    word(
        kernels, "--kernel", "-k", help="rbf, matern, laplacian, poly, linear, ...; give an unknown name to list them."
    ),
]
Gamma = Annotated[
    str,
    word(
        ("auto", "median", "scale", "none"),
        "--gamma",
        "-g",
        check=parse_gamma,
        metavar="G",
        help="Kernel coefficient: a number, median, '0.3 median', scale, none (1/columns), or auto (by held-out rows).",
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
    list[str] | None,
    typer.Option(metavar="A,B,...", help="Use these columns only, even if they look like identifiers."),
]
Exclude = Annotated[
    list[str] | None, typer.Option("--exclude", "-x", metavar="A,B,...", help="Leave these columns out.")
]
Weights = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of weights: a row of weight 2 counts as two rows. Not a feature."),
]
KeepStream = Annotated[
    bool,
    typer.Option("--keep-stream", help="Keep a sample of the rows in the model, so that `update` can add new rows."),
]
Key = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Array of an .npz file, by default X or the only table; sheet of an .xlsx file."),
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line of the CSV file or sheet is data.")]
Names = Annotated[
    list[str] | None, typer.Option(metavar="A,B,...", help="Names for all columns of the CSV file or sheet.")
]
MissingTexts = Annotated[
    list[str] | None,
    typer.Option("--na", metavar="A,B,...", help="Further texts that stand for a missing value, such as unknown."),
]
GuardFormulas = Annotated[
    bool,
    typer.Option(
        "--guard-formulas", help="Put ' before text in a CSV file that a spreadsheet would run (=, +, -, @ first)."
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        "--batch-size",
        min=1,
        metavar="N",
        help="Read CSV and Parquet N rows at a time; tables over 128 MB are never read whole.",
    ),
]


@dataclass(frozen=True)
class FileOptions:
    """Options of commands that read a table."""

    key: Key = None
    no_header: NoHeader = False
    names: Names = None
    na: MissingTexts = None


@dataclass(frozen=True)
class TableOptions(FileOptions):
    """Options of commands that apply a model to a table."""

    keep: Keep = None
    exclude: Exclude = None
    guard_formulas: GuardFormulas = False
    batch_size: BatchSize = None


@dataclass(frozen=True)
class ModelOptions(FileOptions):
    """Options of commands that fit a model to a table."""

    components: Components = 2
    support: Support = "auto"
    variance: Variance = 0.99
    method: Method = "sparse"
    scale: Scale = "standard"
    missing: Missing = "impute"
    no_calendar: NoCalendar = False
    no_trend: NoTrend = False
    kernel: Kernel = "rbf"
    gamma: Gamma = "median"
    degree: Degree = 3
    coef0: Coef0 = 1
    selection: Selection = "optimized"
    alpha: Alpha = None
    seed: Seed = 0
    columns: Columns = None
    exclude: Exclude = None
    weights: Weights = None
    keep_stream: KeepStream = False
    batch_size: BatchSize = None

    def encoder(self, keep: Sequence[str], dates: dict[str, str]) -> Any:
        """An encoder of tables, not fitted, that does not leave out the columns in `keep`.

        `dates` are the orders of dates in the file, which the model keeps for new files.
        """
        from ..tables.encoder import TableEncoder

        kept, calendar, trend = list(keep) or None, not self.no_calendar, not self.no_trend
        return TableEncoder(
            self.scale, missing=self.missing, keep=kept, calendar=calendar, trend=trend, date_order=dates or None
        )


def asking(*, without: Collection[str] = (), **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's parameter `asked` by all options of its group.

    `defaults` replace those of the group.  Options in `without` are not offered, and keep the default of the group.
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


def given_options(context: Any) -> set[str]:
    """The names of the options that the user wrote on the command line."""
    return {name for name in context.params if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}


def make_estimator(method: str, options: dict[str, Any], given: set[str]) -> Any:
    """An unfitted estimator of a method, which must have the options in `given`, because the user wrote them.

    Of the other options, only those that all methods share are passed on; the rest keep the method's own defaults.
    """
    import kernelsieve

    cls = getattr(kernelsieve, METHODS[method])
    known = cls().get_params()
    keywords: dict[str, Any] = {}
    for option, value in options.items():
        parameter = next((name for name in PARAMETERS[option] if name in known), None)
        if parameter is None:
            if option in given:
                flag = f"--{option.replace('_', '-')}"
                raise typer.BadParameter(f"does not apply to --method {method}", param_hint=flag)
            continue
        shared = method == "sparse" or option in ("components", "seed", "batch_size")
        # KernelPCA's own default is a linear kernel; that of the command is not
        shared |= method == "exact" and option in ("kernel", "gamma")
        if (shared and value is not None) or option in given:
            keywords[parameter] = value
    if method == "exact":
        keywords["fit_inverse_transform"] = keywords.get("kernel") != "precomputed"
    return cls(**keywords)


@dataclass(frozen=True)
class Request:
    """The options of a command that fits a model, and the names of those that the user wrote."""

    asked: ModelOptions
    given: set[str]

    @property
    def columns(self) -> list[str]:
        """The columns to use, even if they look like identifiers; empty for all."""
        return names_of(self.asked.columns)

    @property
    def exclude(self) -> list[str]:
        """The columns to leave out."""
        return names_of(self.asked.exclude)

    @property
    def options(self) -> dict[str, Any]:
        """The values of the options that set parameters of an estimator."""
        return {name: getattr(self.asked, name) for name in PARAMETERS}
