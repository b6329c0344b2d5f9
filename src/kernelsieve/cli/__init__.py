"""The `kernelsieve` command: its entry point, and how its errors and warnings read.

    0    done
    1    the data or the model are not what is needed: one line, "error: ..."
    2    the command was not understood, would lose a file, or the command line is not installed
    3    `monitor` and `score`: alarm          4    `monitor`: not one row could be judged
    130  interrupted            143  told to end

The commands themselves are in `commands`, which is imported only once their dependencies are known to be there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NoReturn

NEEDED = ("typer", "rich", "polars")
FAILED, NOT_UNDERSTOOD, INTERRUPTED, ENDED = 1, 2, 130, 143
DEBUG_VARIABLE = "KERNELSIEVE_DEBUG"  # set, it shows the traceback of an error
# What bad data and bad files raise; anything else is a fault of this program.
EXPECTED = (ValueError, OSError, MemoryError, ImportError, ArithmeticError)


def main() -> None:
    """Run the command line."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        _stop(f"the command line needs {', '.join(missing)}: pip install 'kernelsieve[cli]'", NOT_UNDERSTOOD)
    with contextlib.suppress(ValueError, AttributeError):  # a thread other than the main one; Windows
        signal.signal(signal.SIGTERM, _end)
    try:
        from .commands import app

        app(prog_name="kernelsieve")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as done:
        _close_output(done.code)
        raise
    except OSError as error:  # what is written to may be full, or closed, before any command is reached
        _close_output(None, error)


def _end(*_: Any) -> NoReturn:
    """As an interrupt: whatever is being written is put away first."""
    raise SystemExit(ENDED)


def _close_output(code: Any, error: OSError | None = None) -> None:
    """What was printed reaches its place, or the command has failed."""
    try:
        if error is not None:
            raise error
        sys.stdout.flush()
    except OSError as failure:
        with contextlib.suppress(OSError):  # so that Python does not try again, and complain, at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(failure, BrokenPipeError):  # whoever read it has seen enough
            raise SystemExit(code or FAILED) from None
        _stop(f"cannot write to standard output: {failure.strerror}", FAILED)


def plain_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with one line and an exit code where it would end with a traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        from .standard_input import forget_input
        from .writing import Refused

        with warnings.catch_warnings():
            _show_warnings_plainly()
            try:
                command(*arguments, **options)
            except KeyboardInterrupt:
                _stop("interrupted", INTERRUPTED)
            except BrokenPipeError:
                raise
            except Refused as error:
                _fail(error, error.message, NOT_UNDERSTOOD)
            except EXPECTED as error:
                _fail(error, one_line(error))
            except Exception as error:
                if _is_control_flow(error):
                    raise
                _fail(error, f"{type(error).__name__}: {one_line(error)} (a fault of kernelsieve: please report it)")
            finally:
                forget_input()

    return wrapped


def _is_control_flow(error: Exception) -> bool:
    """Whether typer raised it to end the command: Exit, Abort, a usage error."""
    return type(error).__module__.split(".")[0] in ("typer", "click")


def _fail(error: Exception, message: str, code: int = FAILED) -> NoReturn:
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    _stop(message, code)


def _stop(message: str, code: int) -> NoReturn:
    from .wording import clean

    text = clean(" ".join(message.split()))
    with contextlib.suppress(OSError):  # nobody may be there to read it
        print(f"error: {text}" if code != INTERRUPTED else text, file=sys.stderr)
    raise SystemExit(code)


# What the library says to whoever programs, in the words of the command line.
WORDS = (
    (r"n_samples=(\d+) is too few for cv=(\d+): every fold", r"\1 rows are too few: each of \2 parts held out in turn"),
    (r", fewer lags, or a smaller cv", ", or fewer lags"),
    (r", or a smaller cv", ""),
    (r"fold (\d+) of cv=(\d+)", r"part \1 of \2 held out in turn"),
    (r"lags=", "--lags "),
    (r"false_alarm_rate=", "--false-alarm-rate "),
    (r"whiten=True", "--whiten"),
    (r"or whiten=False", "or leave --whiten out"),
    (r"n_components=", "--components "),
    (r"n_support=", "--support "),
    (r"n_nodes=", "--support "),
    (r"n_components", "--components"),
    (r"n_support", "--support"),
    (r"gamma='(\w+)'", r"--gamma \1"),
    (r"gamma=", "--gamma "),
    (r"selection='(\w+)'", r"--selection \1"),
    (r"kernel='(\w+)'", r"--kernel \1"),
    (r"standardise first, e\.g\. make_pipeline\([^)]*\)[^)]*\)", "give --scale standard"),
    (r",? e\.g\. make_pipeline\([^)]*\)[^)]*\)", ""),
    (r"(inputs|dtype|name)='([^']*)'", r"--\1 \2"),
    (r"outputs=", "--outputs "),
    (r"(sample_weight|random_state)=", r"\1 "),
)


def in_user_terms(text: str) -> str:
    """A message of the library with options in place of Python's parameters."""
    for pattern, words in WORDS:
        text = re.sub(pattern, words, text)
    return text


def one_line(error: BaseException) -> str:
    """What an exception says, on one line."""
    if isinstance(error, MemoryError) and not str(error):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename is not None else ""
        return f"{error.strerror}{place}"
    # scikit-learn's advice on missing values and the like follows in paragraphs of its own
    return in_user_terms(" ".join(str(error).split("\n\n")[0].split())) or type(error).__name__


def _show_warnings_plainly() -> None:
    """One line a warning, and none twice; warnings to programmers about other programmers' code are left out."""
    warnings.simplefilter("always")
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    # the columns were matched by name before the names were left behind
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        from .wording import clean

        text = clean(in_user_terms(" ".join(str(message).split())))
        if text not in shown:
            shown.add(text)
            print(f"warning: {text}", file=sys.stderr)

    warnings.showwarning = show
