"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable
from typing import BinaryIO


def replace_file(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Write beside `path`, and put it there when it is safely on disk."""
    existing = os.stat(path) if os.path.exists(path) else None
    if existing is not None and not stat.S_ISREG(existing.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(existing.st_mode) else errno.EEXIST
        raise OSError(code, "a model cannot be written here, where something is that is not a file", path)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if existing is not None:
            os.chmod(temporary, stat.S_IMODE(existing.st_mode))
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            raise OSError(error.errno, error.strerror, path) from error  # the name that the user knows
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """So that the new name, too, survives a power cut; some systems cannot."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
