"""What the commands write: tables of scores, models, pages; and what they never overwrite.

No file of the user's is ever lost: an output that is also an input, under whatever name, is refused; an existing file
is replaced only if this program wrote one of the same kind, or with --force.  A file is written under a temporary name
and renamed, so that a command that is killed leaves the old file.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..errors import TableError
from ..tables.files import DEFAULT_KEY, READABLE, checked_format, columns_named
from .messages import clean

STDOUT = Path("-")
MARK = b"kernelsieve"  # stands in files that cannot be recognised as ours by their columns
C_MARK = b"made by kernelsieve"  # the mark of a C header: the user's own code may mention the library as well
MARKED_BYTES = 2**16  # the mark is in the first or last bytes of a page, picture or export
FORMULA = r"^[=+\-@\t\r]"  # the beginning of a cell that a spreadsheet would run


class Refused(typer.BadParameter):
    """The command is valid, but would do harm."""

    def __init__(self, message: str) -> None:
        super().__init__(message, param_hint="--output")


def check_output(
    path: Path,
    inputs: Sequence[Path] = (),
    *,
    kind: str = "",
    force: bool = False,
    names: Sequence[str] = (),
    guard: bool = False,
) -> None:
    """Raise, before a long run, if `path` cannot be written, or if a file would be lost.

    `kind` is one of `WRITTEN`; `names` are the columns that a table will have; with `guard`, formulas are to be
    guarded, which is possible only in a format in which a spreadsheet would run text as a formula.
    """
    if guard and path != STDOUT and checked_format(path) in (".parquet", ".npy", ".npz"):
        raise typer.BadParameter(
            "is for .csv and .tsv files: other formats hold no formulas", param_hint="--guard-formulas"
        )
    if path == STDOUT:
        if kind == "model" and sys.stdout.isatty():
            raise Refused("a model is not text: send it on, or write it to a file")
        return
    if path.exists() and not path.is_file():
        raise TableError(f"cannot write {path}: it is {'a folder' if path.is_dir() else 'not a plain file'}")
    for source in inputs:
        if path.exists() and source.exists() and os.path.samefile(path, source):
            raise Refused(f"{path} is what the command reads: it would be lost. Give another name")
    if kind == "model" and path.suffix.lower() in (*READABLE, ".gz"):
        raise Refused(f"a model is not a {path.suffix} file: give a name such as {path.stem}.ks")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write {path}: no permission to write in {path.parent}")
    if path.is_file() and kind and not force and path.stat().st_size and not _is_ours(path, kind, names):
        raise Refused(
            f"{path} exists and cannot be recognised as {WRITTEN[kind]}: give another name, or --force to replace it"
        )


WRITTEN = {
    "model": "a model",
    "table": "a table with the same columns as the new one",
    "page": "a page that kernelsieve wrote",
    "picture": "a picture that kernelsieve drew",
    "onnx export": "an export of kernelsieve",
    "c export": "an export of kernelsieve",
    "torch export": "an export of kernelsieve",
}


def _is_ours(path: Path, kind: str, names: Sequence[str]) -> bool:
    """Whether this program wrote the file, judging by its contents."""
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
    except Exception:  # whatever error a reader raises, the file is not ours
        return False


def _is_model(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive, archive.open("header.json") as header:
        return b'"kernelsieve-model"' in header.read(200)


def _has_columns(path: Path, names: Sequence[str]) -> bool:
    """Whether the file is a table with exactly the columns that are to be written, in their order."""
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
    """Kept columns (a polars frame) followed by the scores."""
    import polars as pl

    return pl.DataFrame(kept.to_dict() | {name: scores[:, place] for place, name in enumerate(names)})


def write_frames(path: Path | None, frames: Iterator[Any], names: Sequence[str], *, guard: bool = False) -> int:
    """Write polars frames one after the other as one table, all or nothing; return the number of rows.

    `names` are the columns that an .npz file keeps together as "X".  Without a path, the frames are only counted.
    With `guard`, text in a CSV file that a spreadsheet would run as a formula begins with an apostrophe.
    """
    if path is None:
        return sum(frame.height for frame in frames)
    if guard:
        frames = (_guarded(frame) for frame in frames)
    if path == STDOUT:
        return _write_csv(sys.stdout.buffer, frames, ",")
    from ..io.container import replacing

    extension = checked_format(path)
    with replacing(path) as temporary:
        if extension in (".npy", ".npz"):
            return _write_arrays(temporary, extension, frames, names)
        if extension == ".parquet":
            return _write_parquet(temporary, frames)
        import gzip

        opened: Any = gzip.open if path.suffix.lower() == ".gz" else open
        with opened(temporary, "wb") as file:
            return _write_csv(file, frames, written_separator(extension))


def _guarded(frame: Any) -> Any:
    import polars as pl

    names = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    text = pl.col(names).cast(pl.String)
    frame = frame.with_columns(pl.when(text.str.contains(FORMULA)).then(pl.lit("'") + text).otherwise(text).name.keep())
    return frame.rename({name: f"'{name}" for name in frame.columns if re.match(FORMULA, name)})


def _write_csv(file: Any, frames: Iterable[Any], separator: str) -> int:
    import polars as pl

    n_rows = 0
    for number, frame in enumerate(frames):
        unwritten = [name for name, kind in frame.schema.items() if kind.is_nested() or kind == pl.Binary]
        if unwritten:
            raise TableError(
                f"CSV cannot hold lists or bytes, and column {unwritten[0]!r} has them: leave it out, or write .parquet"
            )
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
            archive.comment = MARK  # so that the next command may replace it
    return int(frame.height)


def _plain_array(column: Any) -> np.ndarray:
    """A column as an array without Python objects."""
    values = np.asarray(column.to_numpy())
    return values.astype(np.str_) if values.dtype == object else values


def written_separator(extension: str) -> str:
    """The separator of cells in a file of this extension."""
    return "\t" if extension == ".tsv" else ","


def save_model(model: Any, path: Path) -> None:
    """Write a model to a file, or to standard output."""
    from .. import save

    if path != STDOUT:
        save(model, path)
        return
    with tempfile.TemporaryDirectory(prefix="kernelsieve-") as folder:
        file = Path(folder) / "model.ks"
        save(model, file)
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.buffer.flush()


def say_written(output: Path, as_json: bool, text: str, **facts: Any) -> None:
    """Say what was written, unless it went to standard output itself."""
    if output != STDOUT:
        print(json.dumps({"output": str(output)} | facts) if as_json else f"{clean(str(output))}: {text}")
