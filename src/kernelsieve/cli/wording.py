"""Words that messages share, and what keeps a file's odd characters from the terminal."""

from __future__ import annotations

from collections.abc import Sequence

MAX_NAMES = 5  # spelled out in a message


class TableError(ValueError):
    """A file that is no table, or not the table that is needed."""


def columns_named(names: Sequence[str]) -> str:
    """Column 'a', or columns 'a', 'b'."""
    return f"column{'s' if len(names) > 1 else ''} {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(repr(str(name)) for name in names[:MAX_NAMES])
    return shown + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")


def clean(text: str) -> str:
    """Text that a terminal only shows: control characters, which could steer it, are spelled out."""
    return "".join(c if c.isprintable() or c in "\n" else f"\\x{ord(c):02x}" for c in text)


def percent(share: float) -> str:
    """12.3 %."""
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Three digits in the unit that suits."""
    if seconds >= 60:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
