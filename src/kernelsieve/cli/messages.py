"""Output of the commands: errors and warnings in one line each, numbers in readable form."""

from __future__ import annotations

import re
import sys
import warnings
from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """Exit status of the commands."""

    FAILED = 1  # the data or the model are not what is needed
    NOT_UNDERSTOOD = 2
    ALARM = 3  # `monitor` or `score` found odd rows, or `update` found drift
    NOT_JUDGED = 4  # not one row could be judged
    INTERRUPTED = 130
    ENDED = 143


# Parameters of the library whose option has another name; for a switch, the value that it sets.
RENAMED = {
    "n_components": "--components",
    "n_support": "--support",
    "n_nodes": "--support",
    "random_state": "--seed",
    "target_error": "--error",
    "sample_weight": "--weights",
    "header=False": "--no-header",
    "whiten=True": "--whiten",
    "whiten=False": "leaving --whiten out",
    "keep_stream=True": "--keep-stream",
}
# Parameters whose option has the same name.
SHARED = (
    "alpha", "batch_size", "coef0", "columns", "degree", "dtype", "exclude", "false_alarm_rate", "gamma", "inputs",
    "kernel", "key", "lags", "missing", "na", "name", "names", "outputs", "scale", "selection", "smoothing", "variance",
)  # fmt: skip
# Matches a parameter and its value as all messages of the library write them, except within the path of a file.
PARAMETER = re.compile(
    rf"(?<![\w/\\])(?:({'|'.join(RENAMED)})|({'|'.join(SHARED)})(?==))(?:=(?:'([^']*)'|\"([^\"]*)\"|([\w+-]*(?:\.\w+)*)))?"
)


def in_options(text: str) -> str:
    """A message of the library with options in place of parameters: --support 5 for n_support=5."""

    def option(found: re.Match[str]) -> str:
        renamed, shared, *values = found.groups()
        value = next((part for part in values if part), "")
        return " ".join(filter(None, [RENAMED.get(renamed) or f"--{shared.replace('_', '-')}", value]))

    return PARAMETER.sub(option, text)


def clean(text: str) -> str:
    """Text with control characters, which could control the terminal, spelled out."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def one_line(error: BaseException) -> str:
    """What an exception says, on one line."""
    if isinstance(error, MemoryError) and not str(error):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror:
        place = f": {error.filename}" if error.filename is not None else ""
        return f"{error.strerror}{place}"
    # the first paragraph only: scikit-learn's advice, for example on missing values, follows in others
    return in_options(" ".join(str(error).split("\n\n")[0].split())) or type(error).__name__


def show_warnings_plainly() -> None:
    """Print each warning once, on one line; leave out warnings that are meant for programmers."""
    warnings.simplefilter("always")
    for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)
    # scikit-learn gives this warning although the command has already matched the columns by name
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = clean(in_options(" ".join(str(message).split())))
        if text not in shown:
            shown.add(text)
            print(f"warning: {text}", file=sys.stderr)

    warnings.showwarning = show


def percent(share: float) -> str:
    """A share in percent, such as 12.3 %."""
    return f"{100 * share:.1f} %"


def counted(number: int, one: str, many: str) -> str:
    """A number and its noun, such as 1 alarm or 1,200 alarms."""
    return f"{number:,} {one if number == 1 else many}"


def duration(seconds: float) -> str:
    """A time with about three digits, in milliseconds, seconds or minutes."""
    if seconds >= 60:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
