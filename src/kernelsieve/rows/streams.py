"""Rows that do not fit in memory: a pass over them is an iterator of blocks.

A stream can be opened any number of times; each time it gives the same rows, cut into blocks in any way.  The
first pass draws a sample, the second adds up moments block by block:

    length known (files, lists of blocks)   the sample is the one that the same rows in memory would give
    length unknown (a function)             every row draws a random number and those it favours are kept, so that
                                            the sample does not depend on how the stream is cut

Every pass counts the rows and takes their fingerprint: a stream that is not the same twice is an error, not an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import get_ident
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names, check_array

from ..arrays import FLOATS, Array, on_host, take_rows
from ..errors import quoted
from ..numerics import DEPENDENT
from ..threads import start_new_thread
from .checks import finite_rows
from .files import Stream
from .reservoir import Reservoir, stacked
from .rows import ArrayRows, Rows, Summand
from .sampling import SampledRows, row_projections, sample_rows

GOLDEN = (math.sqrt(5) - 1) / 2  # the fractions of its multiples are all different and fill (0, 1) evenly


class StreamRows(Rows):
    """Training rows that come in blocks."""

    def __init__(self, stream: Stream, weights: np.ndarray | None = None, *, merge_copies: bool = True) -> None:
        self.stream = stream
        self.weights = weights
        self.names = stream.names
        self.merge_copies = merge_copies
        self._n_samples = stream.n_samples if weights is None else len(weights)
        self._fingerprint: PassFingerprint | None = None
        self._dtype: Any = None  # of the rows, known with the first block
        if stream.n_samples not in (None, self._n_samples):
            raise ValueError(f"sample_weight has {self._n_samples} values, the stream has {stream.n_samples} rows")

    @property
    def n_samples(self) -> int:  # type: ignore[override]
        """The number of rows; counted in a pass of its own if no pass has been made yet."""
        if self._n_samples is None:
            for _ in self.blocks():
                pass
        assert self._n_samples is not None
        return self._n_samples

    @property
    def length_known(self) -> bool:
        return self._n_samples is not None

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """One pass: the number of the first row of each block, and the block, checked; read ahead by a thread."""
        start, found = 0, PassFingerprint()
        for block in _read_ahead(self._checked()):
            block = self._fitting(block, start)
            found += fingerprint(block, start)
            first, start = start, start + int(block.shape[0])
            if self._fingerprint is not None and start > self.n_samples:  # more than before, perhaps without end
                break
            yield first, block
        self._compare(start, found)

    def _checked(self) -> Generator[Array, None, None]:
        for number, block in enumerate(self.stream.open()):
            self._check_names(block, first=number == 0)
            rows = check_array(
                on_host(block),
                accept_sparse="csr",
                dtype=FLOATS,
                copy=self.stream.overwrites_blocks,  # the next block is asked for while this one is worked on
                ensure_all_finite=False,
                ensure_min_samples=0,
                input_name="X",
            )
            if rows.shape[0]:
                yield rows

    def _check_names(self, block: Any, *, first: bool) -> None:
        """Column names where blocks bring them: those of the first are those of all."""
        found = _get_feature_names(block)
        if found is None:
            return
        names = tuple(str(name) for name in found)
        if first and self.names is None:
            self.names = names
        if names != self.names:
            raise ValueError(f"a block has columns {_listed(names)}, the first has {_listed(self.names)}")

    def _fitting(self, block: Array, start: int) -> Array:
        if self._dtype is None:
            self._dtype, self.n_features = block.dtype, int(block.shape[1])
            self.single_precision = block.dtype == np.float32
        if block.shape[1] != self.n_features:
            raise ValueError(
                f"rows {start} to {start + block.shape[0] - 1} have {block.shape[1]} columns, the first block has "
                f"{self.n_features}"
            )
        return finite_rows(block, start).astype(self._dtype, copy=False)

    def _compare(self, n_samples: int, found: PassFingerprint) -> None:
        """The rows of this pass against those of the first: as many, and the same."""
        if n_samples == 0 and self._fingerprint is None:
            raise ValueError("the stream has no rows")
        if self._n_samples is None:
            self._n_samples = n_samples
        if n_samples != self._n_samples:
            if self.weights is not None and self._fingerprint is None:
                raise ValueError(f"sample_weight has {len(self.weights)} values, the stream has {n_samples} rows")
            raise ValueError(
                f"the stream gave {n_samples} rows on this pass, {self._n_samples} were expected: each pass must give "
                "the same rows, so open files and make iterators inside the function that is called"
            )
        if self._fingerprint is None:
            self._fingerprint = found
        if not found.matches(self._fingerprint):
            raise ValueError("the rows, or their order, changed between two passes: each pass must give the same rows")

    def sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        return super().sample(size, rng) if self.length_known else self._keyed_sample(size, rng)

    def _keyed_sample(self, size: int, rng: np.random.Generator) -> SampledRows:
        """The rows that a random number each favours: a uniform sample of a stream of unknown length."""
        kept = Reservoir.empty(size, int(rng.spawn(1)[0].integers(2**63)))  # rng itself goes on as for rows in memory
        for _, block in self.blocks():
            kept = kept.add(block)
        kept = kept.in_order()
        if kept.whole:
            everything = take_rows(kept.rows, np.argsort(kept.numbers))
            return sample_rows(everything, size, rng, None, merge=self.merge_copies)
        return SampledRows(kept.rows, np.arange(size), None, False, kept.numbers)

    def take(self, numbers: np.ndarray) -> Array:
        order = np.argsort(numbers, kind="stable")
        ordered = np.asarray(numbers)[order]
        parts = []
        for start, block in self.blocks():
            low, high = np.searchsorted(ordered, [start, start + block.shape[0]])
            if high > low:
                parts.append(take_rows(block, ordered[low:high] - start))
        return take_rows(stacked(parts), np.argsort(order, kind="stable"))

    def each(self, function: Callable[[Array], Array], n_columns: int, n_threads: int) -> np.ndarray:
        parts = [ArrayRows(block).each(function, n_columns, n_threads) for _, block in self.blocks()]
        return np.concatenate(parts)

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        total: Any = None
        for start, block in self.blocks():
            weights = None if self.weights is None else self.weights[start : start + block.shape[0]]
            part = summand.over(block, weights, n_threads)
            total = part if total is None else total + part
        return total


@dataclass(frozen=True)
class PassFingerprint:
    """A sum over rows that depends on their values and on their places, and not on how they are cut into blocks."""

    total: float = 0.0
    size: float = 0.0  # what its rounding is to be measured by

    def __add__(self, other: PassFingerprint) -> PassFingerprint:
        return PassFingerprint(self.total + other.total, self.size + other.size)

    def matches(self, other: PassFingerprint) -> bool:
        """Whether both can be those of the same rows."""
        return math.isclose(self.total, other.total, rel_tol=0.0, abs_tol=DEPENDENT * max(self.size, other.size))


def fingerprint(rows: Array, start: int) -> PassFingerprint:
    """sum_i (1 + frac(i golden)) x_i' u for rows number `start` and on, u a fixed random direction."""
    return fingerprint_of(row_projections(rows), start)


def fingerprint_of(projections: np.ndarray, start: int) -> PassFingerprint:
    """The digest of a block from its projections x_i' u."""
    places = 1.0 + np.modf(np.arange(start, start + len(projections)) * GOLDEN)[0]
    return PassFingerprint(float(places @ projections), float(np.abs(projections).sum()))


def same_columns(n_features: int, names: Any, expected: int, expected_names: Any) -> None:
    """Raise unless rows to transform have the model's columns, in the model's order."""
    if n_features != expected:
        raise ValueError(f"X has {n_features} features, but the model is expecting {expected} features as input")
    if names is not None and expected_names is not None and tuple(names) != tuple(expected_names):
        raise ValueError(
            f"The feature names should match those that were passed during fit: X has {_listed(tuple(names))}, the "
            f"model was fitted to {_listed(tuple(expected_names))}"
        )


def _listed(names: tuple[str, ...] | None) -> str:
    return "no names" if names is None else quoted(names)


_LAST = object()
READER_PATIENCE = 1.0  # seconds that a reader is waited for; one that hangs in its source is left to end by itself


def _read_ahead(blocks: Generator[Array, None, None]) -> Iterator[Array]:
    """The blocks unchanged, each read while the one before is worked on."""
    wanted: SimpleQueue[bool] = SimpleQueue()  # one True for each block after the first; False ends the reader
    found: SimpleQueue[Any] = SimpleQueue()  # blocks, an error where there is one, and _LAST

    def read_blocks() -> None:
        try:
            with closing(blocks):  # here, in the thread that opened it
                for block in blocks:
                    found.put(block)
                    if not wanted.get():
                        break
        except BaseException as error:  # handed to whoever waits for the block
            found.put(error)
        finally:
            found.put(_LAST)

    reader, block = None, None
    try:
        reader = start_new_thread(read_blocks, ())
        while (block := found.get()) is not _LAST:
            if isinstance(block, BaseException):
                raise block
            wanted.put(True)
            yield block
    finally:
        wanted.put(False)
        # An iterator that was abandoned is closed by whatever thread collects it, the reader itself included.
        if block is not _LAST and reader not in (None, get_ident()):
            _wait_for_last(found)


def _wait_for_last(found: SimpleQueue[Any]) -> None:
    """So that files are closed when a fit has ended, whichever way."""
    with suppress(Empty):
        while found.get(timeout=READER_PATIENCE) is not _LAST:
            pass
