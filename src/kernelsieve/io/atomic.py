"""Files that are written completely or not at all, without leaving temporary files behind.

A file is written under a temporary name in the same folder, brought to disk, and renamed.  The temporary name holds the
number of the process that writes it, and a lock is held on it meanwhile, so that the next process can tell what a
killed one left behind from what another one is writing at this moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: leftovers stay, because there is no lock to tell whether they are in use
    fcntl = None  # type: ignore[assignment]

NAME_LENGTH = 40  # characters of the name that the temporary one keeps, so that it is not too long


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place when it is safely on disk.

    On any error, a full disk included, it vanishes and what was at `path` stays as it was; what killed processes
    left beside `path` is removed.  A link stays a link; a file keeps its permissions, and its owner where the system
    allows it.  A file that is read-only for everyone is not replaced: whoever made it so meant it.
    """
    target = os.path.realpath(os.fsdecode(path))
    existing = _replaceable(target)
    clear_leftovers(target)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:NAME_LENGTH]}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with _locked(temporary):
            yield Path(temporary)
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            if existing is not None:
                _keep_owner_and_mode(temporary, existing)
            os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, temporary):
            raise OSError(error.errno, error.strerror, target) from error  # the name that the user knows
        raise
    _sync_folder(folder)


def _replaceable(target: str) -> os.stat_result | None:
    """The status of the file at `target`, None if there is none; raises where it must not be replaced."""
    if not os.path.exists(target):
        return None
    existing = os.stat(target)
    if not stat.S_ISREG(existing.st_mode):
        code = errno.EISDIR if stat.S_ISDIR(existing.st_mode) else errno.EEXIST
        raise OSError(code, "cannot be written: what exists there is not a file", target)
    if not existing.st_mode & 0o222:
        raise PermissionError(errno.EACCES, "is read-only, and not replaced", target)
    return existing


@contextlib.contextmanager
def _locked(temporary: str) -> Iterator[None]:
    """Make the new file, and hold a lock on it while it is written."""
    mode = 0o666  # the user's umask applies, as for any new file
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # some network drives know no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _keep_owner_and_mode(temporary: str, existing: os.stat_result) -> None:
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):  # only the superuser can change a file's owner
            os.chown(temporary, existing.st_uid, existing.st_gid)
    os.chmod(temporary, stat.S_IMODE(existing.st_mode))


def clear_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what processes that have ended left beside `path`; if that fails, it fails silently."""
    if fcntl is None:
        return
    folder, name = os.path.split(os.path.realpath(os.fsdecode(path)))
    pattern = re.compile(re.escape(f".{name[:NAME_LENGTH]}.") + r"(\d+)\.[0-9a-f]{8}\.tmp")
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            found = pattern.fullmatch(entry)
            if found and not _is_alive(int(found[1])):
                _remove_unlocked(os.path.join(folder, entry))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


def _remove_unlocked(path: str) -> None:
    """Remove a file unless it is locked: its process may be alive on another machine or in another container."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(descriptor)


def _sync_folder(folder: str) -> None:
    """Flush the folder, too, so that the new name survives a power cut; some systems cannot do this."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
