"""A sample of a stream by priority: every row draws a random number, and the rows that it favours are kept.

A row of weight s that came at time t, in a stream that forgets at the rate c (at age a it weighs exp(-c a) of what it
did), has the weight and the priority

    ln w = ln s + c t        ln q = ln w - ln u,    u uniform on (0, 1)

both on a scale that grows with time, so that neither changes while the row grows old.  The R rows of the largest
priorities are kept; with tau the largest priority that was dropped, a kept row stands for max(w, tau) (Duffield, Lund &
Thorup 2007), which makes sums over the kept rows estimates of sums over all.  Where nothing is forgotten and all rows
weigh the same this is a uniform sample.

The number that a row draws depends on the seed and on its place in the stream alone, so the sample is the same however
the stream is cut into blocks.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, replace

import numpy as np
import scipy.sparse

from ..arrays import Array, take_rows

# Rows that have come are put in their place together, when there are half as many as those that are: a row a call then
# costs no copy of all the others.
PENDING_SHARE, LEAST_PENDING = 0.5, 16

Arrivals = tuple[np.ndarray, np.ndarray, np.ndarray, Array]  # priorities, log_weights, numbers, rows


@dataclass(frozen=True)
class Reservoir:
    """At most `size` rows of the `n_seen` that have gone by, in random order."""

    size: int
    seed: int
    n_seen: int
    weight: float  # of all rows seen, each by its age
    numbers: np.ndarray  # (n,) places in the stream
    rows: Array  # (n, d), None before the first
    priorities: np.ndarray | None = None  # (n,) descending
    log_weights: np.ndarray | None = None  # (n,)
    rate: float = 0.0  # of forgetting: ln 2 / half_life
    clock: int = 0  # time of the next row
    dropped: float = -math.inf  # largest priority of a row that is not here
    pending: tuple[Arrivals, ...] = ()  # rows that have come since the others were put in order
    n_pending: int = 0
    # As files of version 0.1.0 have them: uniform numbers, ascending, and weights.
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
        if len(keys) < self.n_seen:  # the best that was dropped is not known: just below the worst that was kept
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
        most = (
            float(self.priorities[0]) if n_kept else -math.inf
        )  # nothing is left out that was drawn before all of them
        ordered = bool(np.all(np.diff(self.priorities) <= 0)) and self.dropped <= most
        if not whole or not ordered or self.weight < 0 or self.rate < 0:
            raise error("the sample of rows in the file is none that a stream leaves")

    @classmethod
    def empty(cls, size: int, seed: int, half_life: float | None = None) -> Reservoir:
        none = np.empty(0)
        return cls(size, seed, 0, 0.0, np.empty(0, dtype=np.int64), None, none, none, forgetting_rate(half_life))

    @property
    def whole(self) -> bool:
        """Whether all rows that weigh anything are still here."""
        return self.dropped == -math.inf

    @property
    def n_kept(self) -> int:
        """Rows that are here, those to be sorted out among them."""
        return len(self.numbers) + self.n_pending

    @property
    def now(self) -> float:
        """c t of the newest row: log weights less this are those of today, when the newest row weighs just its own."""
        return self.rate * (self.clock - 1)

    @property
    def kept_weights(self) -> np.ndarray:
        """(n,) what each kept row stands for today, all together what all rows seen weigh; nothing may be pending."""
        assert self.log_weights is not None
        assert not self.pending
        weights = np.exp(np.maximum(self.log_weights, self.dropped) - self.now)
        return weights if self.whole or not len(weights) else weights * (self.weight / weights.sum())

    def add(self, block: Array, weights: np.ndarray | None = None) -> Reservoir:
        """With the rows of one more block."""
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
        return grown.in_order() if n_pending > max(LEAST_PENDING, PENDING_SHARE * len(grown.numbers)) else grown

    @property
    def _threshold(self) -> float:
        """No row of a lower priority can be among the kept ones."""
        assert self.priorities is not None
        return float(self.priorities[-1]) if len(self.priorities) >= self.size else -math.inf

    def in_order(self) -> Reservoir:
        """The same rows with none pending."""
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
        """A sample of both streams, as of today in each: the rows of `other` are numbered after these."""
        ours, theirs = self.in_order(), other.in_order()
        clock = max(ours.clock, theirs.clock)
        parts: list[Arrivals] = []
        dropped = -math.inf
        for part, first in ((ours, 0), (theirs, ours.n_seen)):
            shift = ours.rate * (clock - 1) - part.now  # so that today is the same day
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
    """c, with which rows weigh e^(-c) of what they did when one more has come."""
    return 0.0 if half_life is None else math.log(2.0) / half_life


def stacked(blocks: list[Array]) -> Array:
    """Blocks of rows as one array, dense or sparse as they are."""
    if any(scipy.sparse.issparse(block) for block in blocks):
        return scipy.sparse.vstack(blocks, format="csr")
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
