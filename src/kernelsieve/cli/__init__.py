"""The `kernelsieve` command: its entry point, and how it ends.

    0    done
    1    the data or the model are not what is needed: one line, "error: ..."
    2    the command was not understood, would lose a file, or the command line is not installed
    3    `monitor` and `score`: alarm; `update`: the components have turned further than --max-drift
    4    `monitor`: not one row could be judged
    130  interrupted (Ctrl-C)   143  ended by SIGTERM

The commands are in `commands`, which is imported only after its dependencies have been found.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NoReturn

from .messages import Exit, clean, one_line, show_warnings_plainly

NEEDED = ("typer", "rich", "polars")
DEBUG_VARIABLE = "KERNELSIEVE_DEBUG"  # if it is set, errors show their traceback
# Errors that bad data and bad files cause; any other error is a bug of this program.
EXPECTED = (ValueError, OSError, MemoryError, ImportError, ArithmeticError)


def main() -> None:
    """Run the command line."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        _stop(f"the command line needs {', '.join(missing)}: pip install {' '.join(missing)}", Exit.NOT_UNDERSTOOD)
    with contextlib.suppress(ValueError, AttributeError):  # a thread other than the main one; Windows
        signal.signal(signal.SIGTERM, _end)
    try:
        from .commands import app

        app(prog_name="kernelsieve")
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    except SystemExit as done:
        _close_output(done.code)
        raise
    except OSError as error:  # standard output may be full, or closed, before any command is reached
        _close_output(None, error)


def _end(*_: Any) -> NoReturn:
    """End on SIGTERM as after an interrupt, so that files that are being written are removed first."""
    raise SystemExit(Exit.ENDED)


def _close_output(code: Any, error: OSError | None = None) -> None:
    """Flush what was printed; the command has failed if that fails."""
    try:
        if error is not None:
            raise error
        sys.stdout.flush()
    except OSError as failure:
        with contextlib.suppress(OSError):  # so that Python does not try again, and print a message, when it exits
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failure, BrokenPipeError):  # the program that reads the output has closed the pipe
            raise SystemExit(code or Exit.FAILED) from None
        _stop(f"cannot write to standard output: {failure.strerror}", Exit.FAILED)


def plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with one line and an exit code instead of a traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        from .inputs import forget_input
        from .outputs import Refused

        with warnings.catch_warnings():
            show_warnings_plainly()
            try:
                command(*arguments, **options)
            except KeyboardInterrupt:
                _stop("interrupted", Exit.INTERRUPTED)
            except BrokenPipeError:
                raise
            except Refused as error:
                _fail(error, error.message, Exit.NOT_UNDERSTOOD)
            except EXPECTED as error:
                _fail(error, one_line(error))
            except Exception as error:
                if type(error).__module__.split(".")[0] in ("typer", "click"):  # Exit, Abort, a usage error
                    raise
                _fail(error, f"{type(error).__name__}: {one_line(error)} (a fault of kernelsieve: please report it)")
            finally:
                forget_input()

    return wrapped


def _fail(error: Exception, message: str, code: int = Exit.FAILED) -> NoReturn:
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    _stop(message, code)


def _stop(message: str, code: int) -> NoReturn:
    text = clean(" ".join(message.split()))
    with contextlib.suppress(OSError):  # the standard error may be closed
        print(f"error: {text}" if code != Exit.INTERRUPTED else text, file=sys.stderr)
    raise SystemExit(code)
