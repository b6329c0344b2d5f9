"""What the commands write: tables of scores, models, pages; and what they never write over.

Nothing of the user's is ever lost: an output that is an input, by whatever name, is refused; a file that is there
already is replaced only if this program wrote one of the same kind, or if --force says so.  What is written is
written beside and renamed, so that a command that is killed leaves the old file.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..io.atomic import replacing
from .tables import DEFAULT_KEY, FORMATS, TableError, checked_format
from .wording import columns_named

STDOUT = Path("-")
MARK = b"kernelsieve"  # in what this program writes and cannot be told by its columns
C_MARK = b"made by kernelsieve"  # in a header; code of the user's own may well name the library
MARKED_BYTES = 2**16  # of a page, picture or export, at its start and at its end, that the mark is looked for in


class Refused(typer.BadParameter):
    """A command that is understood, and would do harm."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param_hint="--output")


def check_output(
    path: Path, inputs: Sequence[Path] = (), *, kind: str = "", force: bool = False, names: Sequence[str] = ()
) -> None:
    """Raise now what writing `path` at the end of a long run would raise then, or what would lose a file.

    `kind` is one of `WRITTEN`; `names` are the columns that a table will have.
    """
    if path == STDOUT:
        if kind == "model" and sys.stdout.isatty():
            raise Refused("a model is no text: send it on, or write it to a file")
        return
    if path.exists() and not path.is_file():
        raise TableError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not a plain file'}")
    for source in inputs:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise Refused(f"{path} is what the command reads: it would be lost. Give another name")
    if kind == "model" and path.suffix.lower() in (*FORMATS, ".gz"):
        raise Refused(f"a model is no {path.suffix} file: give a name such as {path.stem}.ks")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write {path}: no permission to write in {path.parent}")
    if path.is_file() and kind and not force and path.stat().st_size and not _is_ours(path, kind, names):
        raise Refused(f"{path} is there and is not {WRITTEN[kind]}: give another name, or --force to replace it")


WRITTEN = {
    "model": "a model",
    "table": "a table that this command wrote",
    "page": "a page that kernelsieve wrote",
    "picture": "a picture that kernelsieve drew",
    "onnx export": "an export of kernelsieve",
    "c export": "an export of kernelsieve",
    "torch export": "an export of kernelsieve",
}


def _is_ours(path: Path, kind: str, names: Sequence[str]) -> bool:
    """Whether this program wrote the file, as far as the file tells."""
    try:
        if kind == "model":
            return _is_model(path)
        if kind == "table":
            return _has_columns(path, names)
        mark = C_MARK if kind == "c export" else MARK
        with path.open("rb") as file:
            start = file.read(MARKED_BYTES)
            file.seek(max(0, path.stat().st_size - MARKED_BYTES))
            return mark in start or mark in file.read()
    except Exception:  # whatever a foreign file makes a reader raise, it is not ours
        return False


def _is_model(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive, archive.open("header.json") as header:
        return b'"kernelsieve-model"' in header.read(200)


def _has_columns(path: Path, names: Sequence[str]) -> bool:
    """A table of exactly the columns that are to be written, scores among them."""
    import polars as pl

    extension = checked_format(path)
    if extension == ".npz":
        with zipfile.ZipFile(path) as archive:
            return archive.comment == MARK
    if extension == ".npy":
        return False
    if extension == ".parquet":
        return list(pl.read_parquet_schema(path)) == list(names)
    frame = pl.read_csv(path, separator=written_separator(extension), n_rows=1, infer_schema=False)
    return frame.columns == list(names)


def check_written(path: Path, names: Sequence[str], kept: Sequence[str]) -> None:
    """Raise if a file of this format cannot hold columns `kept` beside scores of these names."""
    extension = ".csv" if path == STDOUT else checked_format(path)
    if extension == ".npy" and kept:
        raise TableError(f"{path}: .npy holds scores alone; to keep {columns_named(kept)} write .csv, .parquet or .npz")
    clash = [name for name in kept if name in ([DEFAULT_KEY] if extension == ".npz" else names)]
    if clash:
        raise TableError(f"{path}: {columns_named(clash)} cannot be kept: the scores go by that name")


def scored(scores: np.ndarray, names: Sequence[str], kept: Any) -> Any:
    """Kept columns (a polars frame) with scores beside them."""
    import polars as pl

    return pl.DataFrame(kept.to_dict() | {name: scores[:, place] for place, name in enumerate(names)})


def write_frames(path: Path | None, frames: Iterator[Any], names: Sequence[str]) -> int:
    """Write polars frames one after the other as one table, all or nothing; the number of rows.

    `names` are the columns that an .npz file keeps together as "X".  Without a path the frames are only gone through.
    """
    if path is None:
        return sum(frame.height for frame in frames)
    if path == STDOUT:
        return _write_csv(sys.stdout.buffer, frames, ",")
    extension = checked_format(path)
    with replacing(path) as temporary:
        if extension in (".npy", ".npz"):
            return _write_arrays(temporary, extension, frames, names)
        if extension == ".parquet":
            return _write_parquet(temporary, frames)
        if path.suffix.lower() == ".gz":
            import gzip

            with gzip.open(temporary, "wb") as packed:
                return _write_csv(packed, frames, written_separator(extension))
        with temporary.open("wb") as file:
            return _write_csv(file, frames, written_separator(extension))


def _write_csv(file: Any, frames: Iterable[Any], separator: str) -> int:
    n_rows = 0
    for number, frame in enumerate(frames):  # of which the first may have no rows
        text = frame.write_csv(separator=separator, include_header=number == 0)
        file.write(text.encode())
        n_rows += frame.height
    file.flush()
    return n_rows


def _write_parquet(path: Path, frames: Iterator[Any]) -> int:
    first = next(frames)
    second = next(frames, None)
    if second is None:
        first.write_parquet(path)
        return int(first.height)
    from pyarrow.parquet import ParquetWriter

    start = first.to_arrow()
    n_rows = first.height
    with ParquetWriter(path, start.schema) as writer:
        writer.write_table(start)
        while second is not None:
            writer.write_table(second.to_arrow())
            n_rows += second.height
            second = next(frames, None)
    return int(n_rows)


def _write_arrays(path: Path, extension: str, frames: Iterable[Any], names: Sequence[str]) -> int:
    import polars as pl

    frame = pl.concat(list(frames))
    scores = frame.select(names).to_numpy(order="c")
    with path.open("wb") as file:
        if extension == ".npy":
            np.save(file, scores)
        else:
            columns = {name: _plain_array(frame[name]) for name in frame.columns if name not in names}
            np.savez(file, allow_pickle=False, **{DEFAULT_KEY: scores}, **columns)
    if extension == ".npz":
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = MARK  # by which the next command knows that it may replace it
    return int(frame.height)


def _plain_array(column: Any) -> np.ndarray:
    """A column as an array without Python objects."""
    values = np.asarray(column.to_numpy())
    return values.astype(np.str_) if values.dtype == object else values


def written_separator(extension: str) -> str:
    """Between cells of a file of this extension."""
    return "\t" if extension == ".tsv" else ","
