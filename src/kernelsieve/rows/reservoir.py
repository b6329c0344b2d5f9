"""Priority sampling of a stream: every row draws a random priority, and the rows with the largest are kept.

A stream may forget at a rate c: a row of age a has exp(-c a) of its original weight.  A row of weight s that came at
time t has the weight and the priority

    ln w = ln s + c t        ln q = ln w - ln u,    u uniform on (0, 1)

both on a scale that grows with time, so that neither changes as the row grows old.  The R rows with the largest
priorities are kept.  With tau the largest priority that was dropped, a kept row stands for max(w, tau) (Duffield, Lund
& Thorup 2007), so that sums over the kept rows estimate sums over all.  If nothing is forgotten and all rows weigh the
same, this is a uniform sample.

The number that a row draws depends on the seed and on its place in the stream alone, so the sample is the same however
the stream is cut into blocks.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, replace

import numpy as np
import scipy.sparse

from ..arrays import Array, namespace, take_rows

# The weight of all rows is summed in a different order from that of the rows kept, whose logarithms grow with the
# length of a forgetting stream. If they should be the same they agree to this share.
SAME_WEIGHT = 1e-3
Arrivals = tuple[np.ndarray, np.ndarray, np.ndarray, Array]  # priorities, log_weights, numbers, rows


@dataclass(frozen=True)
class Reservoir:
    """At most `size` of the `n_seen` rows that have come, in random order."""

    size: int
    seed: int
    n_seen: int
    weight: float  # today's, of all rows seen
    numbers: np.ndarray  # (n,) places in the stream
    rows: Array  # (n, d), None before the first
    priorities: np.ndarray | None = None  # (n,) descending
    log_weights: np.ndarray | None = None  # (n,)
    rate: float = 0.0  # of forgetting: ln 2 / half_life
    clock: int = 0  # time of the next row
    dropped: float = -math.inf  # largest priority of a row that was not kept
    pending: tuple[Arrivals, ...] = ()  # rows that have come since the others were sorted
    n_pending: int = 0
    # Files of version 0.1.0 have these instead of priorities: uniform numbers, ascending, and weights.
    keys: InitVar[np.ndarray | None] = None
    weights: InitVar[np.ndarray | None] = None

    def __post_init__(self, keys: np.ndarray | None, weights: np.ndarray | None) -> None:
        if keys is None or weights is None:
            return
        kept = weights > 0
        own, draws = np.log(weights[kept]), np.log(keys[kept])
        order = np.argsort(draws - own, kind="stable")
        converted = {"log_weights": own[order], "priorities": (own - draws)[order], "clock": self.n_seen}
        converted["numbers"] = self.numbers[kept][order]
        converted["rows"] = None if self.rows is None else take_rows(self.rows, np.flatnonzero(kept)[order])
        if len(keys) < self.n_seen:  # the largest dropped priority is not known: at most the smallest that was kept
            converted["dropped"] = float(converted["priorities"][-1])
        for name, value in converted.items():
            object.__setattr__(self, name, value)

    _file_sizes = ("d",)
    _file_layout = {
        "size": "count",
        "seed": "count",
        "n_seen": "count",
        "weight": "float",
        "numbers": "int[n]",
        "rows": "rows[n, d]?",
        "priorities": "float[n]",
        "log_weights": "float[n]",
        "rate": "float",
        "clock": "count",
        "dropped": "float~",
        "pending": "empty",
        "n_pending": "count",
    }

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless what was read from a file is a sample of rows."""
        assert self.priorities is not None
        n_kept = len(self.numbers)
        whole = n_kept <= self.n_seen and self.size > 0 and self.n_pending == 0 and (self.rows is None) == (n_kept == 0)
        most = float(self.priorities[0]) if n_kept else -math.inf  # no dropped row can come before all kept ones
        ordered = bool(np.all(np.diff(self.priorities) <= 0)) and self.dropped <= most
        if not whole or not ordered or self.rate < 0 or not self._weighs_its_rows:
            raise error("the sample of rows in the file cannot come from a stream")

    @property
    def _weighs_its_rows(self) -> bool:
        """Whether the weight of all rows is that of the kept ones, or more if rows were dropped."""
        assert self.log_weights is not None
        with np.errstate(over="ignore"):
            kept = float(np.exp(self.log_weights - self.now).sum())
        more_is_fine = not self.whole and self.weight > kept
        return more_is_fine or math.isclose(self.weight, kept, rel_tol=SAME_WEIGHT)

    @classmethod
    def empty(cls, size: int, seed: int, half_life: float | None = None) -> Reservoir:
        none = np.empty(0)
        return cls(size, seed, 0, 0.0, np.empty(0, dtype=np.int64), None, none, none, forgetting_rate(half_life))

    def filled(
        self, rows: Array, numbers: np.ndarray, weights: np.ndarray | None, n_seen: int, weight: float, *, whole: bool
    ) -> Reservoir:
        """This empty sample, filled with rows drawn with equal probability from `n_seen` rows of this total weight.

        Each drawn row represents several rows, whose weight it has here.  Its priority is drawn as if it had arrived
        with that weight, so that sums over the sample of these and later rows estimate sums over all.
        """
        own = np.ones(len(numbers)) if weights is None else np.asarray(weights, dtype=np.float64)
        clock = n_seen
        log_weights = np.log(own if whole else own * (weight / own.sum())) + self.rate * (clock - 1)
        draws = np.random.default_rng([self.seed, n_seen]).random(len(own))
        with np.errstate(divide="ignore"):
            priorities = log_weights - np.log(draws)
        order = np.argsort(-priorities, kind="stable")
        return replace(
            self,
            n_seen=n_seen,
            clock=clock,
            weight=weight,
            numbers=np.asarray(numbers, dtype=np.int64)[order],
            rows=take_rows(rows, order),
            priorities=priorities[order],
            log_weights=log_weights[order],
            dropped=-math.inf if whole else float(log_weights.min()),
        )

    @property
    def whole(self) -> bool:
        """Whether all rows of positive weight are still here."""
        return self.dropped == -math.inf

    @property
    def n_kept(self) -> int:
        """Rows held, pending ones included (some of which may still be dropped)."""
        return len(self.numbers) + self.n_pending

    @property
    def now(self) -> float:
        """c t of the newest row; subtracted from log weights it gives today's, for which the newest row has its own
        weight."""
        return self.rate * (self.clock - 1)

    @property
    def kept_weights(self) -> np.ndarray:
        """(n,) the weight that each kept row stands for today; they sum to `weight`.  No rows may be pending."""
        assert self.log_weights is not None
        assert not self.pending
        weights = np.exp(np.maximum(self.log_weights, self.dropped) - self.now)
        return weights if self.whole or not len(weights) else weights * (self.weight / weights.sum())

    def add(self, block: Array, weights: np.ndarray | None = None) -> Reservoir:
        """This sample after one more block of rows."""
        n = int(block.shape[0])
        own = np.ones(n) if weights is None else weights
        draws = np.random.Generator(np.random.PCG64(self.seed).advance(self.n_seen)).random(n)
        with np.errstate(divide="ignore"):
            log_weights = np.log(own) + self.rate * (self.clock + np.arange(n))
            priorities = log_weights - np.log(draws)
        faded = math.exp(-self.rate * n)
        weight = self.weight * faded + float(own @ np.exp(-self.rate * np.arange(n - 1, -1, -1)))
        gone_by = replace(self, n_seen=self.n_seen + n, clock=self.clock + n, weight=weight)
        welcome = priorities > self._threshold
        turned_away = float(priorities.max(initial=-math.inf, where=~welcome))
        chosen = np.flatnonzero(welcome)
        if turned_away > self.dropped:
            gone_by = replace(gone_by, dropped=turned_away)
        if not len(chosen):
            return gone_by
        some = (priorities[chosen], log_weights[chosen], self.n_seen + chosen, take_rows(block, chosen))
        n_pending = self.n_pending + len(chosen)
        grown = replace(gone_by, pending=(*self.pending, some), n_pending=n_pending)
        # Rows are sorted only when there are half as many pending as sorted ones, so that adding single rows is cheap.
        return grown.in_order() if 2 * n_pending > len(grown.numbers) else grown

    @property
    def _threshold(self) -> float:
        """A row with a lower priority than this cannot be kept."""
        assert self.priorities is not None
        return float(self.priorities[-1]) if len(self.priorities) >= self.size else -math.inf

    def in_order(self) -> Reservoir:
        """This sample with all rows sorted, none pending."""
        if not self.pending:
            return self
        parts: list[Arrivals] = [*self.pending]
        if len(self.numbers):
            parts.insert(0, (self.priorities, self.log_weights, self.numbers, self.rows))  # type: ignore[arg-type]
        priorities, log_weights, numbers = (np.concatenate([part[i] for part in parts]) for i in range(3))
        order = np.argsort(-priorities, kind="stable")
        dropped = self.dropped
        if len(order) > self.size:
            dropped = max(dropped, float(priorities[order[self.size]]))
            order = order[: self.size]
        return replace(
            self,
            priorities=priorities[order],
            log_weights=log_weights[order],
            numbers=numbers[order],
            rows=take_rows(stacked([part[3] for part in parts]), order),
            dropped=dropped,
            pending=(),
            n_pending=0,
        )

    def __add__(self, other: Reservoir) -> Reservoir:
        """A sample of both streams, whose newest rows count as equally old; rows of `other` are numbered
        after these."""
        ours, theirs = self.in_order(), other.in_order()
        clock = max(ours.clock, theirs.clock)
        parts: list[Arrivals] = []
        dropped = -math.inf
        for part, first in ((ours, 0), (theirs, ours.n_seen)):
            shift = ours.rate * (clock - 1) - part.now  # makes the newest rows of both equally old
            assert part.priorities is not None
            assert part.log_weights is not None
            if part.rows is not None:
                parts.append((part.priorities + shift, part.log_weights + shift, part.numbers + first, part.rows))
            dropped = max(dropped, part.dropped + shift)
        seed = int(np.random.SeedSequence([ours.seed, theirs.seed]).generate_state(1, np.uint64)[0] >> 1)
        both = replace(
            Reservoir.empty(max(ours.size, theirs.size), seed),
            n_seen=ours.n_seen + theirs.n_seen,
            weight=ours.weight + theirs.weight,
            rate=ours.rate,
            clock=clock,
            dropped=dropped,
            pending=tuple(parts),
        )
        return both.in_order()


def forgetting_rate(half_life: float | None) -> float:
    """c: with each row that comes, the weight of earlier ones is multiplied by e^(-c)."""
    return 0.0 if half_life is None else math.log(2.0) / half_life


def stacked(blocks: list[Array]) -> Array:
    """Blocks of rows as one array: sparse if one of them is."""
    if any(scipy.sparse.issparse(block) for block in blocks):
        return scipy.sparse.vstack(blocks, format="csr")
    return blocks[0] if len(blocks) == 1 else namespace(*blocks).concat(blocks, axis=0)
