"""The bytes of a model file: a zip of a header and arrays, which are checked before any object is made of them.

Model files, like all results, are written completely or not at all, without leaving temporary files behind.

A file is written under a temporary name in the same folder, brought to disk, and renamed.  The temporary name holds the
number of the process that writes it, and a lock is held on it meanwhile, so that the next process can tell what a
killed one left behind from what another one is writing at this moment.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

FORMAT, VERSION = "kernelsieve-model", 1
NEWEST = 2  # the newest file version that can be read; version 2 added pipelines
HEADER = "header.json"
FILE_DTYPES = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}


class ModelFileError(ValueError):
    """A file that is not a model, or is damaged."""


def package_version() -> str:
    """The version of this package."""
    import kernelsieve

    return kernelsieve.__version__


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Open a regular file, and refuse anything else: a pipe would block, and a device would never end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        if os.path.isdir(path):
            raise ModelFileError(f"{path}: a folder, not a model file") from error
        if error.errno == errno.ENXIO:  # a socket
            raise ModelFileError(f"{path}: a socket, not a model file") from error
        raise
    about = os.fstat(descriptor)
    mode = about.st_mode
    if stat.S_ISREG(mode) and about.st_size == 0:  # files in /proc also have size 0
        os.close(descriptor)
        raise ModelFileError(f"{path}: empty, not a kernelsieve model file (model.save(path) writes one)")
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise ModelFileError(f"{path}: {what}, not a model file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def write(file: BinaryIO, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays, and the header with a digest of each array and one of itself."""
    described = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=array.nbytes > 2**30) as member:
                writer = _Digesting(member)
                np.lib.format.write_array(writer, array, version=(1, 0), allow_pickle=False)
            described[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": writer.digest}
        header = {**header, "arrays": described}
        header["sha256"] = header_digest(header)
        archive.writestr(_member(HEADER), json.dumps(header, allow_nan=False))


def _member(name: str) -> zipfile.ZipInfo:
    # the earliest date of a zip, so that files made at different times are equal
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.create_system = 3  # Unix, on every system, again so that files are equal
    info.external_attr = 0o644 << 16
    return info


def header_digest(header: dict[str, Any]) -> str:
    """The digest of the header without its own digest."""
    rest = {key: value for key, value in header.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, allow_nan=False, sort_keys=True).encode()).hexdigest()


class _Digesting:
    """A file that remembers the digest of what was written to it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()

    def write(self, data: Any) -> int:
        self._sha256.update(data)
        return int(self._file.write(data))

    @property
    def digest(self) -> str:
        return self._sha256.hexdigest()


def read(file: BinaryIO) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays, after every check that is possible on their bytes."""
    start = file.read(4)
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        if start == b"PK\x03\x04":
            raise ModelFileError("truncated or damaged model file: its end is missing") from error
        raise ModelFileError("not a kernelsieve model file (model.save(path) writes one)") from error
    with archive:
        members = {info.filename: info for info in archive.infolist()}
        if HEADER not in members:
            kind = "a NumPy .npz" if all(name.endswith(".npy") for name in members) else "some other zip"
            raise ModelFileError(f"not a kernelsieve model file but {kind} file")
        _check_stored(archive, os.fstat(file.fileno()).st_size)
        # 32 MB of JSON hold the names of a million columns, and a pipeline of dozens of steps has hundreds of arrays
        if members[HEADER].file_size > 2**25 or len(members) > 10_000:
            raise ModelFileError("its header is larger than that of any model, or it has more arrays: refused")
        data = archive.read(HEADER)
        n_values = sum(data.count(mark) for mark in (b",", b"[", b"{"))
        n_bytes = sum(info.file_size for info in members.values()) - len(data)
        # A value can take 60 times its bytes in memory once it is parsed.  Arrays account for most of them: a column
        # has a name, a kind and a reason in the header, and at least 32 bytes in the arrays.
        if n_values > 2**20 + n_bytes // 4:
            raise ModelFileError("its header holds more values than belong to its arrays: refused")
        header = _read_header(data)
        described = header["arrays"]
        if set(members) != {HEADER, *(f"{name}.npy" for name in described)}:
            raise ModelFileError("members are missing from the file, or others were added to it")
        return header, {name: _read_array(archive, name, about) for name, about in described.items()}


def _check_stored(archive: zipfile.ZipFile, size: int) -> None:
    infos = archive.infolist()
    stored = all(i.compress_type == zipfile.ZIP_STORED and i.file_size == i.compress_size for i in infos)
    if not stored or sum(i.file_size for i in infos) > size or len({i.filename for i in infos}) < len(infos):
        raise ModelFileError("members are compressed or overlap, which kernelsieve never writes: refused")


def _read_header(data: bytes) -> dict[str, Any]:
    header = json.loads(data)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError("not a kernelsieve model file: its header.json is of something else")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise ModelFileError(f"damaged model file: version {version!r}")
    if version > NEWEST:
        raise ModelFileError(
            f"written by a newer kernelsieve ({header.get('kernelsieve')}, file version {version}); this one "
            f"({package_version()}) reads up to version {NEWEST}: upgrade kernelsieve"
        )
    if header.get("sha256") != header_digest(header):
        raise ModelFileError("header.json was changed after it was written (its digest does not match)")
    return header


def _read_array(archive: zipfile.ZipFile, name: str, about: dict[str, Any]) -> np.ndarray:
    dtype, shape = about["dtype"], tuple(about["shape"])
    if dtype not in FILE_DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ModelFileError(f"array {name}: dtype {dtype!r} or shape {shape} is none that a model has")
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    info = archive.getinfo(f"{name}.npy")
    if not n_bytes < info.file_size <= n_bytes + 1024:  # numpy writes a header of 128 bytes for arrays like ours
        raise ModelFileError(f"array {name}: {info.file_size} bytes are no array of shape {shape} and dtype {dtype}")
    data = archive.read(info)
    if hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise ModelFileError(f"array {name} was changed after it was written (its digest does not match)")
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ModelFileError(f"array {name} is of another .npy version")
    found_shape, _, found = np.lib.format.read_array_header_1_0(stream)
    if (found_shape, found.str) != (shape, dtype) or len(data) - stream.tell() != n_bytes:
        raise ModelFileError(f"array {name} is {found} {found_shape}, but the header says {dtype} {shape}")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


try:
    import fcntl
except ImportError:  # Windows: leftovers stay, because there is no lock to tell whether they are in use
    fcntl = None  # type: ignore[assignment]

NAME_LENGTH = 40  # the temporary name keeps this many characters of the file's name, so that it is not too long


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path` to write to; that file replaces the one at `path` when it is safely on disk.

    On any error, a full disk included, the temporary file is removed and the one at `path` stays as it was.  What
    killed processes left beside `path` is removed, too.  A link stays a link; a file keeps its permissions, and its
    owner where the system allows it.  A file that is read-only for everyone is not replaced, as its owner intended.
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
