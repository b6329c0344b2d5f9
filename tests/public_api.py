"""The public names as this version has them: what tests/public_api.txt lists, one a line.

    kernelsieve.SparseKernelPCA                  a class, a function or a module's name
    kernelsieve.SparseKernelPCA(gamma)           a parameter that may be given by name
    kernelsieve.SparseKernelPCA.transform(X)     a method's
    kernelsieve.SparseKernelPCA: gamma_          an attribute that `fit` leaves
    $ kernelsieve fit --scale                    an option of a command

`python tests/public_api.py` adds what is new to the list.  What leaves it is taken out by hand, and only after the two
minor versions with a FutureWarning that CONTRIBUTING.md asks for.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import kernelsieve

LIST = Path(__file__).with_name("public_api.txt")
MODULES = {
    "kernelsieve": kernelsieve,
    "kernelsieve.plots": kernelsieve.plots,
    "kernelsieve.export": kernelsieve.export,
    "kernelsieve.kernels": kernelsieve.kernels,
}
FOR_THE_FILE_FORMAT = {"check_loaded"}  # asked by `load` alone, and in no documentation
BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def public_values() -> Iterator[tuple[str, object]]:
    """Everything that can be imported, by its full name; `to_torch` where torch is installed."""
    for module_name, module in MODULES.items():
        for name in getattr(module, "PUBLIC", module.__all__):
            if name == "to_torch" and find_spec("torch") is None:
                continue
            value = getattr(module, name)
            if inspect.ismodule(value):  # `kernelsieve.report`, once something has imported a module of that package
                value = getattr(value, name, value)
            yield f"{module_name}.{name}", value


def public_names() -> Iterator[str]:
    for full, value in public_values():
        yield full
        if inspect.isclass(value):
            yield from _parameters(value, full)
            if not full.startswith("kernelsieve.kernels."):  # whose methods are the library's own contract
                yield from _members(value, full)
            yield from (f"{full}: {attribute}" for attribute in _documented_attributes(value))
        elif inspect.isfunction(value):
            yield from _parameters(value, full)
    yield from _commands()


def _parameters(function: object, name: str) -> Iterator[str]:
    if inspect.isclass(function) and issubclass(function, BaseException):
        return
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    yield from (f"{name}({one.name})" for one in found if one.kind in BY_NAME and one.name != "self")


def _members(cls: type, name: str) -> Iterator[str]:
    parameters = () if issubclass(cls, BaseException) else inspect.signature(cls).parameters
    for member in dir(cls):
        owner = next(base for base in cls.__mro__ if member in vars(base))
        ours = owner.__module__.startswith("kernelsieve") and not member.startswith("_")
        if not ours or member in parameters or member in FOR_THE_FILE_FORMAT:
            continue
        if member.endswith("_"):  # whether `fit` sets it or a property finds it is not the user's to know
            yield f"{name}: {member}"
            continue
        value = inspect.getattr_static(cls, member)
        yield f"{name}.{member}"
        if inspect.isfunction(value):
            yield from _parameters(value, f"{name}.{member}")


def _documented_attributes(cls: type) -> list[str]:
    text = inspect.getdoc(cls) or ""
    _, _, section = text.partition("\nAttributes\n----------\n")
    section = re.split(r"\n\n?\w[\w ]*\n-{3,}\n", section)[0]
    named = re.findall(r"^(\w[\w, ]*?) :", section, flags=re.MULTILINE)
    return [name.strip() for names in named for name in names.split(",")]


def _commands() -> Iterator[str]:
    try:
        from typer.main import get_command
    except ImportError:  # without the extra `cli` there is no command line
        return
    from kernelsieve.cli.commands import app

    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        yield f"$ kernelsieve {name}"
        for parameter in command.params:
            yield from (f"$ kernelsieve {name} {option}" for option in parameter.opts if option.startswith("-"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    listed = set(LIST.read_text().splitlines()) if LIST.exists() else set()
    new = sorted(set(public_names()) - listed)
    if "--check" in sys.argv:
        sys.exit("not in tests/public_api.txt yet:\n" + "\n".join(new) if new else 0)
    LIST.write_text("\n".join(sorted(listed | set(new))) + "\n")
    print(f"{len(new)} names added")
