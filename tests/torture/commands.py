"""The command line on files as people have them: damaged, ragged, mislabelled, empty, strange.

Every command ends with 0 and a whole output, or with 1 or 2 and a line that says why; never with a traceback, never
with half a file, and with the input as it was.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import kernelsieve

from .campaign import CLEAR, FAULT, OK, Attempt, Outcome
from .inputs import choose
from .models import rows_of

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@contextmanager
def session() -> Iterator[Attempt]:
    """A folder, and a model of four columns in it."""
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "good.ks")
        import pandas as pd

        frame = pd.DataFrame(rows_of(), columns=list("abcd"))
        kernelsieve.SparseKernelPCA(2, n_support=8, random_state=0).fit(frame).save(model)

        def attempt(rng: np.random.Generator) -> Outcome:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                return _attempt(rng, place, model)

        yield attempt


def _attempt(rng: np.random.Generator, folder: str, model: str) -> Outcome:
    from typer.testing import CliRunner

    from kernelsieve.cli.commands import app

    path, n_rows, words = _table(rng, folder)
    bare = "bare" in words
    with open(path, "rb") as file:
        before = file.read()
    arguments, output = _command(rng, path, folder, model, bare)
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    shown = f"[{' '.join(arguments).replace(folder, '.').replace(os.path.dirname(model), '.')}; {words}]"
    with open(path, "rb") as file:
        if file.read() != before:
            return Outcome(FAULT, f"the input was changed {shown}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Outcome(FAULT, f"{type(result.exception).__name__}: {str(result.exception)[:100]} {shown}")
    if "Traceback" in result.output or "a fault of kernelsieve" in result.output or "panicked" in result.output:
        return Outcome(FAULT, f"{result.output.strip().splitlines()[-1][:200]} {shown}")
    if UNPRINTABLE.search(result.output.replace("\x1b[", "")):
        return Outcome(FAULT, f"control characters on the screen {shown}")
    reading = "--no-header" in arguments if bare else "--no-header" not in arguments
    if arguments[0] == "transform" and n_rows is not None and reading and result.exit_code:
        return Outcome(FAULT, f"exit code {result.exit_code} for a whole table {shown}")
    return _judged(result.exit_code, result.output, output, n_rows if reading else None, folder, shown)


def _judged(code: int, printed: str, output: str | None, n_rows: int | None, folder: str, shown: str) -> Outcome:
    if code not in (0, 1, 2):
        return Outcome(FAULT, f"exit code {code} {shown}")
    if code:
        if output is not None and os.path.exists(output):
            return Outcome(FAULT, f"exit code {code}, and yet an output {shown}")
        return Outcome(CLEAR) if printed.strip() else Outcome(FAULT, f"exit code {code} without a word {shown}")
    if output is None:
        return Outcome(OK)
    if not os.path.exists(output):
        return Outcome(FAULT, f"exit code 0 and no output {shown}")
    if output.endswith(".ks"):
        kernelsieve.load(output)
    elif n_rows is not None and (found := _rows_in(output)) != n_rows:
        return Outcome(FAULT, f"{found} scores for {n_rows} rows {shown}")
    left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
    return Outcome(FAULT, f"{left} left behind {shown}") if left else Outcome(OK)


def _rows_in(path: str) -> int:
    if path.endswith(".npy"):
        return len(np.load(path))
    import polars as pl

    return pl.read_parquet(path).height if path.endswith(".parquet") else pl.read_csv(path).height


def _command(rng: np.random.Generator, path: str, folder: str, model: str, bare: bool) -> tuple[list[str], str | None]:
    output = os.path.join(folder, "out" + choose(rng, [".csv", ".parquet", ".npy"]))
    fitted = os.path.join(folder, "model.ks")
    extra = choose(
        rng,
        [[], ["--batch-size", "7"], ["--no-header"], ["--columns", "a,a"], ["--exclude", "a"], ["--columns", "a,b"]],
        [0.5, 0.2, 0.1, 0.06, 0.07, 0.07],
    )
    if bare and rng.random() < 0.7:
        extra = ["--no-header", *choose(rng, [[], ["--batch-size", "7"]])]
    match choose(rng, ["fit", "transform", "info", "compare"], [0.5, 0.35, 0.1, 0.05]):
        case "fit":
            return ["fit", path, "-o", fitted, "-c", "2", *extra], fitted
        case "transform":
            extra = [] if extra[:1] in (["--columns"], ["--exclude"]) else extra
            return ["transform", model, path, "-o", output, *extra], output
        case "info":
            return ["info", choose(rng, [path, model])], None
    return ["compare", path, "-c", "2"], None


def _table(rng: np.random.Generator, folder: str) -> tuple[str, int | None, str]:
    """A file, the number of its rows where that is certain, and what it is."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    n = int(choose(rng, [1, 5, 40, 200]))
    frame = pd.DataFrame(rows_of(n, 4, int(rng.integers(100))), columns=list("abcd"))
    kind = choose(rng, [".csv", ".tsv", ".parquet", ".npy", ".csv.gz"], [0.6, 0.1, 0.15, 0.1, 0.05])
    path = os.path.join(folder, "data" + kind)
    bare, whole = kind in (".csv", ".tsv", ".csv.gz") and rng.random() < 0.15, n
    if kind == ".parquet":
        names = choose(rng, [list("abcd"), ["a", "", "a", "d"], ["", "", "", ""]], [0.7, 0.2, 0.1])
        if names != list("abcd"):
            kind, whole = f"{kind} with columns {names}", None
        columns = [pa.array(column) for column in frame.to_numpy().T]
        pq.write_table(pa.table(columns, names=names), path, row_group_size=int(rng.integers(1, 60)))
    elif kind == ".npy":
        np.save(path, frame.to_numpy())
    else:
        frame.to_csv(path, index=False, header=not bare, sep="\t" if kind == ".tsv" else ",")
        kind = f"bare {kind}" if bare else kind
    if rng.random() < 0.25:
        return path, whole, f"{kind} of {n} rows"
    damage = _damage_text if path.endswith((".csv", ".tsv")) and rng.random() < 0.8 else _damage_bytes
    with open(path, "rb") as file:
        data, words = damage(rng, file.read())
    with open(path, "wb") as file:
        file.write(data)
    return path, None, f"{kind} of {n} rows, {words}"


def _damage_bytes(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    place = int(rng.integers(len(data)))
    match choose(rng, ["cut", "bytes", "insert", "empty"]):
        case "cut":
            return data[:place], "cut"
        case "bytes":
            changed = bytearray(data)
            for where in rng.integers(len(data), size=int(rng.integers(1, 30))):
                changed[where] = int(rng.integers(256))
            return bytes(changed), "bytes changed"
        case "insert":
            return data[:place] + rng.bytes(20) + data[place:], "bytes inserted"
    return b"", "empty"


STRANGE = ["", "nan", "inf", "-", "1e400", "abc", "1,5", '"', "\x1b[31mred\x1b[0m", "NULL", "99999999999999999999999"]
STRANGE += ["0x10", "é", "\ufeff", " 1.5 ", "1_000", "true", "2020-01-01", "\x00"]


def _damage_text(rng: np.random.Generator, data: bytes) -> tuple[bytes, str]:
    lines = data.decode().split("\n")
    row = int(rng.integers(len(lines)))
    match choose(rng, ["cell", "blank", "ragged", "header", "crlf", "quotes", "bom", "long", "twice", "one column"]):
        case "cell":
            cells = lines[row].split(",")
            cells[int(rng.integers(len(cells)))] = choose(rng, STRANGE)
            lines[row] = ",".join(cells)
            words = f"a cell {cells}"[:60]
        case "blank":
            lines.insert(row, choose(rng, ["", "  ", ",,,"]))
            words = "a blank line"
        case "ragged":
            lines[row] = choose(rng, [lines[row] + ",1", lines[row].rpartition(",")[0]])
            words = "a ragged row"
        case "header":
            lines[0] = choose(rng, ["a,a,b,c", "1,2,3,4", "", "a,b", "a,b,c,d,e", "\x1b[31m,b,c,d", "é,ü,ß,x"])
            words = f"header {lines[0]!r}"
        case "crlf":
            return "\r\n".join(lines).encode(), "crlf"
        case "quotes":
            lines[row] = '"' + lines[row]
            words = "an open quote"
        case "bom":
            return choose(rng, [b"\xef\xbb\xbf", b"\xff\xfe"]) + data, "bom"
        case "long":
            lines[row] = lines[row] + "9" * 5000
            words = "a long line"
        case "twice":
            lines = lines + lines
            words = "header twice"
        case _:
            lines = [line.partition(",")[0] for line in lines]
            words = "one column"
    return "\n".join(lines).encode(), words
