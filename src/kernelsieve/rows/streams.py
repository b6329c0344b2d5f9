"""Rows that do not fit in memory, or were never in one array: a pass over them is an iterator of blocks.

A stream can be opened any number of times.  Each time it gives the same rows, but may cut them into other blocks.  A
block is processed where it is: on the host (torch tensors there are read as numpy arrays, without a copy) or on a
device.  First a sample is drawn, then moments are added up block by block.  The sample is drawn as follows:

    blocks in memory (a list)    row numbers are drawn, and only those rows are read
    length known (files)         row numbers are drawn, and those rows are taken during a pass
    length unknown (a function)  a pass skips from each row that is kept to the next one (SkipSample)

So the sample does not depend on how the stream is cut into blocks.  If the length is known, it is the sample that would
be drawn from the same rows in memory.

Every pass counts the rows and checks them with all threads, while a block is in the cache or on its device.  It also
takes a fingerprint of the rows, unless they are in memory: a stream whose rows change between passes is an error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache, reduce
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Any

import numpy as np
from scipy.linalg.blas import dasum, ddot

from ..arrays import (
    Array,
    as_float64,
    float64_like,
    is_foreign,
    is_numpy,
    itemsize,
    like,
    namespace,
    numbers,
    take_rows,
)
from ..errors import quoted
from ..kernels.blocks import overwritten_blocks, overwritten_float64
from ..numerics import DEPENDENT
from ..threads import block_rows, one_blas_thread, ordered_map, row_ranges, start_new_thread
from .checks import FiniteCheck, NotFiniteError, finite, finite_rows
from .kinds import BlockKind, Copies, host_block
from .reservoir import stacked
from .rows import ArrayRows, Rows, Summand, cut_for_device, with_smaller_blocks
from .sampling import SampledRows, SkipSample, projection_of_columns, sample_rows
from .sources import Advance, Stream

PERIOD = 65_537  # rows whose weights in a fingerprint are drawn; the next ones get these again, times a common factor
MOST_AHEAD = 256  # blocks are read this far ahead at most: very small ones take more memory than their rows
JOINED_BYTES = 2**26  # smaller blocks on a device are joined, because a kernel launch would take as long as the work

Through = Callable[[Iterable[tuple[int, Array]], int, int], Iterable[tuple[int, Array]]]


class StreamRows(Rows):
    """Training rows that are read from a stream, block by block."""

    def __init__(
        self,
        stream: Stream,
        weights: np.ndarray | None = None,
        *,
        merge_copies: bool = True,
        n_threads: int = 1,
    ) -> None:
        self.stream = stream
        self.weights = weights
        self.names = stream.names
        self.merge_copies = merge_copies
        self.n_threads = n_threads  # threads that check blocks
        self.in_memory = stream.parts is not None and stream.watch is None
        self._n_samples = stream.n_samples if weights is None else len(weights)
        self._sums: np.ndarray | None = None  # fingerprints of the first pass, as `PassCheck.sums` returns them
        self._kind: BlockKind | None = None  # of all blocks, known after the first block
        self.at_hand: Callable[[], bool] = lambda: True  # whether a pass can give its next block without waiting
        if stream.n_samples not in (None, self._n_samples):
            raise ValueError(f"sample_weight has {self._n_samples} values, the stream has {stream.n_samples} rows")

    @property
    def n_samples(self) -> int:  # type: ignore[override]
        """The number of rows; if it is not known yet, an extra pass counts them."""
        if self._n_samples is None:
            for _ in self.blocks():
                pass
        assert self._n_samples is not None
        return self._n_samples

    @property
    def length_known(self) -> bool:
        return self._n_samples is not None

    @property
    def kind(self) -> BlockKind:
        """The kind of all blocks, which the first one determines."""
        assert self._kind is not None
        return self._kind

    # Methods that make a pass over the blocks.

    def blocks(self, *, ahead: bool = True) -> Iterator[tuple[int, Array]]:
        """One pass over checked blocks, each given with the number of its first row."""
        check = self._new_check()
        with closing(self.opened(ahead=ahead)) as opened:
            for start, block in opened:
                self._look_at(block, start, check)
                yield start, block
        self._compare(check)

    def _new_check(self) -> PassCheck:
        return PassCheck(in_memory=self.stream.parts is not None)

    def _look_at(self, block: Array, start: int, check: PassCheck) -> None:
        """Check a block: on the host by all threads, each with one large part of it; on a device as a whole."""
        if is_foreign(block):
            check(block, start)
            return
        n_rows, least = int(block.shape[0]), block_rows(1, int(block.shape[1]), itemsize(block))
        parts = row_ranges(n_rows, max(least, -(-n_rows // self.n_threads)))
        with one_blas_thread():
            for _ in ordered_map(lambda part: check(block[part], start + part.start), parts, self.n_threads):
                pass

    def opened(self, *, ahead: bool = True, far: int = 0) -> Generator[tuple[int, Array], None, None]:
        """One pass over blocks of one kind, with rows counted but not checked; with `ahead`, a thread reads ahead.

        It reads one block ahead, and with `far` more and more of them, up to this many bytes.
        """
        ahead = ahead and self.stream.parts is None
        copies = Copies() if ahead and self.stream.overwrites_blocks else None
        start, given = 0, self._converted(copies)
        if ahead:
            found: SimpleQueue[Any] = SimpleQueue()
            self.at_hand = lambda: not found.empty()
            given = _read_ahead(given, found, far)
        with closing(given) as blocks, self._watched() as advance:
            for kind, block in blocks:
                self._check_kind(kind, start, int(block.shape[0]))
                first, start = start, start + int(block.shape[0])
                if self._length_is_certain and start > self.n_samples:  # too many rows, perhaps an endless stream
                    break
                yield first, block
                advance(start - first)
        self._check_count(start)

    def _watched(self) -> AbstractContextManager[Advance]:
        watch = self.stream.watch
        return nullcontext(lambda n_rows: None) if watch is None else watch(self._n_samples)

    def _converted(self, copies: Copies | None) -> Generator[tuple[BlockKind, Array], None, None]:
        start = 0
        with _noted(lambda: start):
            for block in self.stream.open():
                kind, rows = host_block(block, copies)
                if rows.shape[0]:
                    yield kind, rows
                    start += int(rows.shape[0])

    def _check_kind(self, kind: BlockKind, start: int, n_rows: int) -> None:
        """Store the kind of the first block; raise if a later block is of another kind."""
        if self._kind is None:
            self._kind, self.n_features = kind, kind.n_features
            self.single_precision, self.names = kind.dtype == "float32", self.names or kind.names
        else:
            kind.check_like(self._kind, start, start + n_rows - 1)
        if kind.names is not None and kind.names != self.names:
            raise ValueError(
                f"rows {start} to {start + n_rows - 1} have other columns than the first block: "
                f"{_first_difference(kind.names, self.names)}"
            )

    @property
    def _length_is_certain(self) -> bool:
        return self._n_samples is not None and (self._sums is not None or self.stream.n_samples is not None)

    def _check_count(self, n_samples: int) -> None:
        """Raise if this pass had another number of rows than the first pass or the weights."""
        if n_samples == 0 and not self._n_samples:
            raise ValueError("the stream has no rows")
        if self._n_samples is None:
            self._n_samples = n_samples
        if n_samples != self._n_samples:
            if self.weights is not None and self._sums is None:
                raise ValueError(f"sample_weight has {len(self.weights)} values, the stream has {n_samples} rows")
            raise ValueError(
                f"the stream gave {n_samples} rows on this pass, {self._n_samples} were expected: each pass must give "
                "the same rows, so open files and make iterators inside the function that is called"
            )

    def _compare(self, check: PassCheck) -> None:
        """Raise unless the rows of this pass were all finite, and the same as in the first pass."""
        try:
            check.finish()
        except NotFiniteError:  # on a device, this check comes late and names no row: find it in another pass
            for start, block in self.opened(ahead=False):
                finite_rows(block, start)
            raise
        found = check.sums()
        if self._sums is None:
            self._sums = found
        if not of_pass(found).matches(of_pass(self._sums)):
            first, stop = first_change(self._sums, found, self.n_samples)
            raise ValueError(
                f"rows {first} to {stop - 1}, or their order, changed between two passes: each pass must give the same "
                "rows"
            )

    # Methods declared by `Rows`.

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        if self._n_samples == 0:
            self._check_count(0)
        return super().sample(size, rng) if self.length_known else self._skipping_sample(size, rng)

    def _skipping_sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        """A uniform sample of a stream of unknown length."""
        # A spawned generator leaves the state of rng unchanged.  So if all rows are kept, `sample_rows` below draws as
        # it does for rows in memory.
        kept = SkipSample(size, int(rng.spawn(1)[0].integers(2**63)))
        for _, block in self._once():
            kept.add(block)
        row_numbers, rows = kept.rows()
        if kept.whole:
            return sample_rows(rows, size, rng, None, merge=self.merge_copies)
        return SampledRows(rows, np.arange(size), None, False, row_numbers)

    def _once(self) -> Iterator[tuple[int, Array]]:
        """One pass to take a few rows from its blocks.

        That is little work, so a source that overwrites its blocks waits for it: reading ahead would need copies.
        """
        return self.blocks(ahead=not self.stream.overwrites_blocks)

    def take(self, numbers: np.ndarray) -> Array:
        order = np.argsort(numbers, kind="stable")
        ordered = np.asarray(numbers)[order]
        found = self._once() if self.stream.parts is None else self._parts()
        parts = []
        for start, block in found:
            low, high = np.searchsorted(ordered, [start, start + block.shape[0]])
            if high > low:
                parts.append(self._rows_of(block, ordered[low:high] - start, start))
        taken = stacked(parts)
        if self.stream.parts is not None and not _is_finite(taken):  # blocks of a list are unchecked
            for start, block in self.opened():
                finite_rows(block, start)
        return take_rows(taken, np.argsort(order, kind="stable"))

    def _parts(self) -> Iterator[tuple[int, Any]]:
        """The blocks of a list, unchanged, each with the number of its first row."""
        start = 0
        for block in self.stream.parts or ():
            yield start, block
            start += int(block.shape[0])

    def _rows_of(self, block: Any, places: np.ndarray, start: int) -> Array:
        """The rows at some places of a block; a block of a list is converted first, and its kind is checked."""
        if self.stream.parts is None:
            return take_rows(block, places)
        with _noted(lambda: start):
            kind, rows = host_block(block)
        self._check_kind(kind, start, int(rows.shape[0]))
        return take_rows(rows, places)

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        parts = [ArrayRows(block).each(function, n_columns, n_threads) for _, block in self.blocks()]
        return np.concatenate(parts)

    def add_up(self, summand: Summand, n_threads: int, through: Through | None = None) -> Any:
        """The summand's sum over all rows; `through`, if given, moves blocks from the host to a device.

        `through` copies a block before it asks for the next, so a source may overwrite its blocks; the next block is
        read while the device works.
        """
        ahead = through is None or not self.stream.overwrites_blocks
        joined = self.stream.may_be_joined and through is None

        def attempt(halvings: int) -> Any:
            check = self._new_check()
            with closing(self.opened(ahead=ahead)) as opened:
                blocks = self._joined(opened, summand.width) if joined else opened
                there = (through or cut_for_device)(blocks, summand.width, halvings)
                found = summand.over_blocks(there, self.weights, n_threads, check)
            self._compare(check)
            return found

        return with_smaller_blocks(attempt)

    def _joined(self, blocks: Iterable[tuple[int, Array]], width: int) -> Iterator[tuple[int, Array]]:
        """Small blocks joined to blocks of the size that a thread or a device processes at once."""
        kept: list[Array] = []
        first, n_kept = 0, 0
        for start, block in blocks:
            if not kept:
                first = start
            foreign, row_bytes = is_foreign(block), int(block.shape[1]) * itemsize(block)
            wanted = JOINED_BYTES // row_bytes if foreign else block_rows(width, block.shape[1], itemsize(block))
            copied = foreign and self.stream.overwrites_blocks and n_kept + block.shape[0] < wanted
            kept.append(namespace(block).asarray(block, copy=True) if copied else block)
            n_kept += int(block.shape[0])
            if n_kept >= wanted:
                yield first, stacked(kept)
                kept, n_kept = [], 0
        if kept:
            yield first, stacked(kept)


class PassCheck(FiniteCheck):
    """Checks every block of a pass and, unless the rows are in memory, computes the fingerprint of the pass."""

    def __init__(self, *, in_memory: bool = False) -> None:
        super().__init__()
        self._in_memory = in_memory  # rows held in memory are the same on every pass
        self._parts: dict[int, tuple[Any, Any]] = {}  # total and size of each part's fingerprint, by its first row
        self._there: tuple[Array, Array] | None = None  # the direction and the weights by place, on a device

    def on_host(self, block: Array, start: int) -> Array:
        finite_rows(block, start)
        if not self._in_memory:
            found = fingerprint(block, start)
            self._parts[start] = found.total, found.size
        return block

    def on_device(self, block: Array, start: int) -> None:
        if self._in_memory:
            return
        if self._there is None:
            direction = float64_like(projection_of_columns(block.shape[1]), block)
            self._there = direction, like(_weights_by_place(), direction)
        direction, weights = self._there
        self._parts[start] = _sums(as_float64(block) @ direction, start, weights)

    def sums(self) -> np.ndarray:
        """(n, 3): for each part of the pass, in order, its first row and the total and size of its fingerprint."""
        starts = sorted(self._parts)
        if not starts:
            return np.zeros((0, 3))
        totals, sizes = (numbers(*values) for values in zip(*(self._parts[start] for start in starts), strict=True))
        return np.column_stack([starts, totals, sizes])


def _is_finite(rows: Array) -> bool:
    try:
        finite(rows)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class PassFingerprint:
    """A sum over rows that depends on their values and on their order, but not on how they are cut into blocks."""

    total: float = 0.0
    size: float = 0.0  # the sum of absolute values, to which rounding errors are relative

    def __add__(self, other: PassFingerprint) -> PassFingerprint:
        return PassFingerprint(self.total + other.total, self.size + other.size)

    def matches(self, other: PassFingerprint) -> bool:
        """Whether both are fingerprints of the same rows, as far as rounding allows to tell."""
        return math.isclose(self.total, other.total, rel_tol=0.0, abs_tol=DEPENDENT * max(self.size, other.size))


def of_pass(sums: np.ndarray) -> PassFingerprint:
    """The fingerprint of a whole pass, from `PassCheck.sums`."""
    return PassFingerprint(float(np.sum(sums[:, 1])), float(np.sum(sums[:, 2])))


def first_change(one: np.ndarray, other: np.ndarray, n_samples: int) -> tuple[int, int]:
    """A range of rows in which two passes, given by their `PassCheck.sums`, first differ.

    The passes may be cut differently, so the range begins and ends at rows where a part begins in both of them.
    """
    bounds = np.append(np.intersect1d(one[:, 0], other[:, 0]), n_samples)  # bounds[0] is row 0
    ours, theirs = (
        np.add.reduceat(sums[:, 1:], np.searchsorted(sums[:, 0], bounds[:-1]), axis=0) for sums in (one, other)
    )
    apart = np.abs(ours[:, 0] - theirs[:, 0]) > DEPENDENT * np.maximum(ours[:, 1], theirs[:, 1])
    place = int(np.argmax(apart)) if apart.any() else 0
    return int(bounds[place]), int(bounds[place + 1] if apart.any() else n_samples)


def fingerprint(rows: Array, start: int) -> PassFingerprint:
    """sum_i c_i x_i' u over rows x_i, numbered from `start` on; u is a fixed random direction, c_i between 1 and 2."""
    direction = projection_of_columns(rows.shape[1])
    parts = row_ranges(rows.shape[0], block_rows(1, rows.shape[1], 8))  # as float64, a part fits in the cache
    with overwritten_blocks():  # threads wait for the memory that others take, so each uses its own again
        found = [fingerprint_of(overwritten_float64(rows[part, :]) @ direction, start + part.start) for part in parts]
    return reduce(operator.add, found, PassFingerprint())


def fingerprint_of(projections: Array, start: int) -> PassFingerprint:
    """The fingerprint of a block from its projections x_i' u."""
    return PassFingerprint(*numbers(*_sums(projections, start, _weights_by_place())))


@lru_cache(maxsize=1)
def _weights_by_place() -> np.ndarray:
    """(PERIOD,) random numbers w between 1 and 2; row i has the weight w[i mod PERIOD] w[i div PERIOD]."""
    return 1.0 + np.random.default_rng(1).random(PERIOD)


def _sums(projections: Array, start: int, weights: Array) -> tuple[Any, Any]:
    """The total and the size of a block's fingerprint, on the device of its projections and the weights by place."""
    xp, n_rows, done = namespace(projections), int(projections.shape[0]), 0
    total, size = xp.sum(projections[:0]), xp.sum(projections[:0])
    while done < n_rows:
        period, place = divmod(start + done, PERIOD)
        part = projections[done : min(n_rows, done + PERIOD - place)]
        own = weights[place : place + part.shape[0]]
        factor = float(_weights_by_place()[period % PERIOD])
        if is_numpy(part):  # scipy keeps the interpreter's lock, which other threads would hold up for longer
            total, size = total + factor * ddot(own, part), size + dasum(part)
        else:
            total, size = total + factor * (own @ part), size + xp.sum(xp.abs(part))
        done += int(part.shape[0])
    return total, size


def same_columns(n_features: int, names: Any, expected: int, expected_names: Any) -> None:
    """Raise unless rows to transform have the model's columns, in the model's order."""
    if n_features != expected:
        raise ValueError(f"X has {n_features} features, but the model is expecting {expected} features as input")
    if names is not None and expected_names is not None and tuple(names) != tuple(expected_names):
        raise ValueError(
            f"The feature names should match those that were passed during fit: X has {_listed(tuple(names))}, the "
            f"model was fitted to {_listed(tuple(expected_names))}"
        )


def _first_difference(ours: tuple[str, ...], theirs: tuple[str, ...] | None) -> str:
    """The first column whose name differs, in words."""
    if theirs is None:
        return f"{_listed(ours)}, where the first has no names"
    column = next(j for j, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
    return f"column {column} is {ours[column]!r}, there it is {theirs[column]!r}"


@contextmanager
def _noted(start: Callable[[], int]) -> Iterator[None]:
    """Add to an error the number of the first row of the block that was being read."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This error was raised while the block that begins with row {start()} was read.")
        raise


def _listed(names: tuple[str, ...] | None) -> str:
    return "no names" if names is None else quoted(names)


_LAST = object()
READER_PATIENCE = 1.0  # seconds to wait for the reader thread; if its source hangs, it is left to end by itself


def read_blocks(
    blocks: Generator[Any, None, None], found: SimpleQueue[Any], wanted: SimpleQueue[None], ended: Callable[[], bool]
) -> None:
    """Put the blocks into `found`, and finally _LAST; after each one, wait until another is `wanted`."""
    try:
        with closing(blocks):  # close the source in the thread that opened it
            for block in blocks:
                found.put(block)
                wanted.get()
                if ended():
                    break
    except BaseException as error:  # handed to the thread that waits for the block, which raises it
        found.put(error)
    finally:
        found.put(_LAST)


def _read_ahead(
    blocks: Generator[tuple[BlockKind, Array], None, None], found: SimpleQueue[Any], far: int = 0
) -> Generator[tuple[BlockKind, Array], None, None]:
    """The blocks unchanged; a thread reads each block while the one before is processed.

    It puts into `found` the blocks, possibly an error, and finally _LAST.  With each block that is taken, it reads one
    block further ahead, as long as these are fewer than MOST_AHEAD and have fewer than `far` bytes.

    A device works asynchronously.  So if blocks are on a device, the next one is requested only when the work on the
    one before has been queued, and may then overwrite its memory.
    """
    wanted: SimpleQueue[None] = SimpleQueue()  # one entry for each block that may be read, and one to end the reader
    ended, reader, block = False, None, None

    def taken() -> Generator[tuple[BlockKind, Array], None, None]:
        nonlocal block
        n_ahead = 1
        while (block := found.get()) is not _LAST:
            if isinstance(block, BaseException):
                raise block
            waits = is_foreign(block[1])
            if not waits:
                wanted.put(None)
                n_bytes = n_ahead * block[1].shape[0] * block[1].shape[1] * itemsize(block[1])
                if n_ahead < MOST_AHEAD and n_bytes < far:
                    n_ahead += 1
                    wanted.put(None)
            yield block
            if waits:
                wanted.put(None)

    try:
        reader = start_new_thread(read_blocks, (blocks, found, wanted, lambda: ended))
        # The loop has a function of its own, because in Python 3.12 `try` does not cover the jump to the start of a
        # loop that ends it, and that is where interrupts are raised.
        yield from taken()
    finally:
        ended = True
        wanted.put(None)
        # If this generator was abandoned, the garbage collector closes it in any thread, even in the reader itself,
        # which cannot wait for itself.
        if block is not _LAST and reader not in (None, get_ident()):
            _wait_for_last(found)


def _wait_for_last(found: SimpleQueue[Any]) -> None:
    """Wait for the reader thread, so that files are closed when a fit ends, whether it succeeded or not."""
    with suppress(Empty):
        while found.get(timeout=READER_PATIENCE) is not _LAST:
            pass
