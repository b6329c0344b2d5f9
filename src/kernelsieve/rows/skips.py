"""A uniform sample of an unknown number of rows, by skipping rows instead of drawing for each (Li 1994, algorithm L).

The first k rows fill k places.  Had every row drawn a uniform number, the rows with the k smallest would be kept.  With
w the largest of these, u and u' uniform on (0, 1),

    rows passed over before the next one that is kept    floor(ln u / ln(1 - w))
    w after it                                           w u'^(1/k)

and a kept row replaces that in a random place.  n rows cost k ln(n / k) draws.  Which rows are kept depends on the
seed and on the rows' numbers alone, not on how they are divided into blocks.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, take_rows
from .reservoir import stacked

DRAWN_AT_ONCE = 4096  # kept rows whose numbers are drawn together
NO_ROW = 2.0**60  # a number that no row has


class SkipSample:
    """At most `size` of the rows so far, each with the same probability."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.n_seen = 0
        self._rng = np.random.default_rng(seed)
        self._log_share = 0.0  # ln w
        self._last = float(size - 1)  # number of the last row that is known to be kept
        self._coming = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)  # numbers and places of rows to keep
        self._parts: list[tuple[np.ndarray, np.ndarray, Array]] = []  # places, numbers, rows

    @property
    def whole(self) -> bool:
        """Whether all rows are kept."""
        return self.n_seen <= self.size

    def add(self, block: Array) -> None:
        """One more block of rows."""
        start, stop = self.n_seen, self.n_seen + int(block.shape[0])
        first = np.arange(start, min(stop, self.size))
        later, places = self._kept_before(stop)
        numbers = np.concatenate([first, later])
        if len(numbers):
            self._parts.append((np.concatenate([first, places]), numbers, take_rows(block, numbers - start)))
        self.n_seen = stop
        if sum(len(part[0]) for part in self._parts) > 3 * self.size:  # rare enough to cost almost nothing
            self._prune()

    def _kept_before(self, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of rows to keep before `stop` (except for the first `size`), and their places."""
        while self._last < stop:
            self._draw()
        count = int(np.searchsorted(self._coming[0], stop))
        found = self._coming[0][:count], self._coming[1][:count]
        self._coming = self._coming[0][count:], self._coming[1][count:]
        return found

    def _draw(self) -> None:
        u, shrink = self._rng.random((2, DRAWN_AT_ONCE))
        with np.errstate(divide="ignore", over="ignore"):
            log_shares = self._log_share + np.cumsum(np.log(shrink)) / self.size
            skips = np.floor(np.log(u) / np.log1p(-np.exp(log_shares)))
        numbers = np.minimum(self._last + np.cumsum(np.minimum(skips, NO_ROW) + 1.0), NO_ROW)
        places = self._rng.integers(self.size, size=DRAWN_AT_ONCE)
        self._log_share, self._last = float(log_shares[-1]), float(numbers[-1])
        self._coming = (
            np.concatenate([self._coming[0], numbers.astype(np.int64)]),
            np.concatenate([self._coming[1], places]),
        )

    def _prune(self) -> None:
        """Merge the parts into one: the last row in each place, in the order of places."""
        places, numbers = (np.concatenate([part[i] for part in self._parts]) for i in (0, 1))
        kept = len(places) - 1 - np.unique(places[::-1], return_index=True)[1]
        rows = take_rows(stacked([part[2] for part in self._parts]), kept)
        self._parts = [(places[kept], numbers[kept], rows)]

    def rows(self) -> tuple[np.ndarray, Array]:
        """Numbers and rows: all of them in their order, or a sample in random order."""
        self._prune()
        _, numbers, rows = self._parts[0]
        if self.whole:
            return numbers, rows
        order = self._rng.permutation(self.size)
        return numbers[order], take_rows(rows, order)
