"""The `kernelsieve` command: its entry point, and how its errors and warnings read.

    0    done
    1    the data or the model are not what is needed: one line, "error: ..."
    2    the command was not understood, or the command line is not installed
    130  interrupted

The commands themselves are in `commands`, which is imported only once their dependencies are known to be there.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NoReturn

NEEDED = ("typer", "rich", "polars")
FAILED, NOT_UNDERSTOOD, INTERRUPTED = 1, 2, 130
DEBUG_VARIABLE = "KERNELSIEVE_DEBUG"  # set, it shows the traceback of an error
# What bad data and bad files raise; anything else is a fault of this program.
EXPECTED = (ValueError, OSError, MemoryError, ImportError, ArithmeticError)


def main() -> None:
    """Run the command line."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        _stop(f"the command line needs {', '.join(missing)}: pip install 'kernelsieve[cli]'", NOT_UNDERSTOOD)
    try:
        from .commands import app

        app(prog_name="kernelsieve")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with one line and an exit code where it would end with a traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        with warnings.catch_warnings():
            _show_warnings_plainly()
            try:
                command(*arguments, **options)
            except KeyboardInterrupt:
                _stop("interrupted", INTERRUPTED)
            except BrokenPipeError:
                raise
            except EXPECTED as error:
                _fail(error, one_line(error))
            except Exception as error:
                if _is_control_flow(error):
                    raise
                _fail(error, f"{type(error).__name__}: {one_line(error)} (a fault of kernelsieve: please report it)")

    return wrapped


def _is_control_flow(error: Exception) -> bool:
    """Whether typer raised it to end the command: Exit, Abort, a usage error."""
    return type(error).__module__.split(".")[0] in ("typer", "click")


def _fail(error: Exception, message: str) -> NoReturn:
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    _stop(message, FAILED)


def _stop(message: str, code: int) -> NoReturn:
    print(f"error: {message}" if code != INTERRUPTED else message, file=sys.stderr)
    raise SystemExit(code)


def one_line(error: BaseException) -> str:
    """What an exception says, on one line."""
    if isinstance(error, MemoryError) and not str(error):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename is not None else ""
        return f"{error.strerror}{place}"
    # scikit-learn's advice on missing values and the like follows in paragraphs of its own
    return " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__


def _show_warnings_plainly() -> None:
    """One line a warning; warnings to programmers about other programmers' code are left out."""
    warnings.simplefilter("default")
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    # the columns were matched by name before the names were left behind
    warnings.filterwarnings("ignore", message="X does not have valid feature names")

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)

    warnings.showwarning = show
