"""Standard input as a file: it can be read once, and a command may need to read it again, or to seek in it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from .wording import TableError

STDIN = Path("-")
MAGIC = {b"PAR1": ".parquet", b"\x93NUM": ".npy", b"PK\x03\x04": ".npz"}
_spooled: dict[str, Any] = {}  # standard input can be read once, and is kept for the length of the command


def spooled_input() -> Path:
    """Standard input as a file, which is removed when the command ends."""
    if "path" not in _spooled:
        if sys.stdin is None or sys.stdin.isatty():
            raise TableError("nothing is sent to standard input: pipe a table into the command, or name a file")
        folder = tempfile.TemporaryDirectory(prefix="kernelsieve-")
        plain = Path(folder.name) / "standard-input"
        with plain.open("wb") as file:
            while piece := sys.stdin.buffer.read(2**20):
                file.write(piece)
        with plain.open("rb") as file:
            suffix = MAGIC.get(file.read(4), ".csv")
        _spooled.update(folder=folder, path=plain.rename(plain.with_suffix(suffix)))
    return Path(_spooled["path"])


def forget_input() -> None:
    """Remove what `spooled_input` kept."""
    folder = _spooled.pop("folder", None)
    _spooled.clear()
    if folder is not None:
        folder.cleanup()
