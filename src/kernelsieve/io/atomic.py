"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place when it is safely on disk.

    On any error, a full disk included, it vanishes and what was at `path` stays as it was.  A link stays a link, a
    file keeps its permissions.
    """
    target = os.path.realpath(os.fsdecode(path))
    existing = os.stat(target) if os.path.exists(target) else None
    if existing is not None and not stat.S_ISREG(existing.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(existing.st_mode) else errno.EEXIST
        raise OSError(code, "cannot be written here, where something is that is not a file", target)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        yield Path(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if existing is not None:
            os.chmod(temporary, stat.S_IMODE(existing.st_mode))
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            raise OSError(error.errno, error.strerror, target) from error  # the name that the user knows
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
