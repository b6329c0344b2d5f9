"""CSV files as blocks of whole records, so that a file is read by the same rules whole and in parts.

A record ends at a line break outside quotes.  Per block of bytes this takes a few operations on arrays:

    inside(i)  = parity of the quotes up to byte i          xor, accumulated
    end(i)     = byte i is a line break and not inside      records
    cells(r)   = separators outside quotes in record r, + 1

which also tells rows with too few or too many cells, by their number, before any parser fills them up or cuts them
off.  Blank lines are no rows; where the table has a single column they are its missing values, except at the end.
"""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

BLOCK_BYTES = 2**25  # read at once
MAX_RECORD = 2**28  # bytes of one record: a quote that is never closed would have us read on and on
SEPARATORS = (",", ";", "\t", "|")
QUOTE, LINE_FEED, RETURN = 34, 10, 13
GZIP, UTF16 = b"\x1f\x8b", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class RecordError(ValueError):
    """A file that is no table of records."""


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked where gzip packed them."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def chunks(path: Path, size: int) -> Iterator[bytes]:
    """A file as UTF-8, a piece at a time: a mark at its start is left out, UTF-16 is decoded."""
    with opened(path) as file:
        first = file.read(size)
        decoder: Any = None
        if first[:2] in UTF16:
            decoder = codecs.getincrementaldecoder("utf-16")()
        elif first[:3] == codecs.BOM_UTF8:
            first = first[3:]
        old_breaks = b"\n" not in first and b"\r" in first  # of old Macintoshes, and of some instruments
        piece = first
        while piece:
            text = decoder.decode(piece).encode() if decoder else piece
            yield text.replace(b"\r", b"\n") if old_breaks else text
            piece = file.read(size)


def separator_of(path: Path) -> str:
    """A tab for .tsv, else what splits the first line into most cells."""
    if ".tsv" in [suffix.lower() for suffix in path.suffixes]:
        return "\t"
    line = next(chunks(path, 2**16), b"").split(b"\n")[0]
    return max(SEPARATORS, key=lambda separator: line.count(separator.encode()))


def record_blocks(path: Path, size: int = 0) -> Iterator[bytes]:
    """The file in blocks that end where records do; blank lines at its very end are left out."""
    pending = b""
    for chunk in chunks(path, size or BLOCK_BYTES):
        pending += chunk
        cut = _last_end(pending)
        if cut == 0 and len(pending) > MAX_RECORD:
            raise RecordError("a quote is opened and not closed, or a line has no end")
        block, pending = pending[:cut], pending[cut:]
        # blank lines may be the last of the file: they wait until something follows
        kept = block.rstrip(b"\r\n")
        if kept:
            end = len(kept) + (2 if block[len(kept) : len(kept) + 2] == b"\r\n" else 1)
            yield block[:end]
            block = block[end:]
        pending = block + pending
    rest = pending.rstrip(b"\r\n")
    if rest:
        if rest.count(b'"') % 2:
            raise RecordError("a quote is opened and never closed")
        yield rest + b"\n"


def _last_end(data: bytes) -> int:
    """Just after the last line break that is outside quotes; 0 where there is none."""
    if b'"' not in data:
        return data.rfind(b"\n") + 1
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero((array == LINE_FEED) & _outside(array))
    return int(ends[-1]) + 1 if len(ends) else 0


def _outside(data: np.ndarray) -> np.ndarray:
    """Which bytes are outside quotes."""
    return ~np.logical_xor.accumulate(data == QUOTE)


def checked_block(block: bytes, separator: str, width: int, first: int) -> tuple[bytes, int]:
    """A block of records, all of `width` cells, and how many; `first` is the number of rows before it.

    Blank lines are taken out where there are several columns.
    """
    data = np.frombuffer(block, np.uint8)
    breaks, separators = data == LINE_FEED, data == ord(separator)
    if b'"' in block:
        outside = _outside(data)
        breaks &= outside
        separators &= outside
    ends = np.flatnonzero(breaks)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts
    lengths -= (lengths > 0) & (data[np.maximum(ends - 1, 0)] == RETURN)
    blank = lengths == 0
    if width > 1 and blank.any():
        keep = np.ones(len(data), dtype=bool)
        for start, end in zip(starts[blank], ends[blank], strict=True):
            keep[start : end + 1] = False
        return checked_block(data[keep].tobytes(), separator, width, first) if keep.any() else (b"", 0)
    counts = np.add.reduceat(separators, starts) + 1 if len(starts) else np.empty(0)
    wrong = np.flatnonzero(counts != width)
    if len(wrong):
        row, cells = int(wrong[0]), int(counts[wrong[0]])
        raise RecordError(
            f"row {first + row + 1} has {cells} cell{'s' * (cells > 1)} where the table has {width} columns"
        )
    return block, len(ends)
