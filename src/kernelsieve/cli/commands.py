"""The list of commands, and the program that holds them.

A command reads its files, calls the library, and writes or prints.  What takes long to import is imported where it is
used, so that `--help` is quick.  A new command is one more line in `COMMANDS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# Module, function: in the order in which `--help` lists them.
COMMANDS = (
    ("fit", "fit"),
    ("transform", "transform"),
    ("update", "update"),
    ("score", "score"),
    ("transform", "inverse"),
    ("report", "report"),
    ("report", "plot"),
    ("describe", "info"),
    ("compare", "compare"),
    ("transform", "compress"),
    ("export", "export"),
    ("monitor", "monitor"),
    ("demo", "demo"),
)


class _PlainHelp:
    """Help without <bool> next to every switch."""

    def get_params(self, context: Any) -> list[Any]:
        params: list[Any] = super().get_params(context)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = " "
        return params


class _Command(_PlainHelp, TyperCommand):
    """A command."""


class _Group(_PlainHelp, TyperGroup):
    """The commands together."""


app = typer.Typer(
    name="kernelsieve",
    cls=_Group,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"kernelsieve {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Kernel PCA that keeps only the few points that carry it.

    \b
    Examples
      kernelsieve report sales.csv -o report.html
      kernelsieve fit sales.csv -o model.ks
      kernelsieve transform model.ks new.csv -o scores.csv
    """


for module, function in COMMANDS:
    app.command(cls=_Command)(getattr(import_module(f".{module}", __package__), function))
