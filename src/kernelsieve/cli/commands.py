"""The list of commands, and the program that holds them.

A command reads its files, calls the library, and writes or prints.  Modules that take long to import are imported where
they are used, so that `--help` is quick.  A new command is one more line in `COMMANDS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from . import plain_errors

# (module, function), in the order in which `--help` lists the commands.
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
    """One command, with plain help."""


class _Group(_PlainHelp, TyperGroup):
    """The group of all commands, with plain help."""


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
    """Kernel PCA that keeps only a few support points.

    \b
    Examples
      kernelsieve report sales.csv -o report.html
      kernelsieve fit sales.csv -o model.ks
      kernelsieve transform model.ks new.csv -o scores.csv
    """


for module, function in COMMANDS:
    app.command(cls=_Command)(plain_errors(getattr(import_module(f".{module}", __package__), function)))
