"""Priority sampling of a stream: every row draws a random priority, and the rows with the largest priorities are kept.

A stream may forget at a rate c: a row of age a counts with exp(-c a) times its original weight.  A row of weight s that
arrived at time t has the weight w and the priority q,

    ln w = ln s + c t        ln q = ln w - ln u,    u uniform on (0, 1)

Instead of lowering the weights of old rows, the weights of new rows grow with time, so w and q of a row never change.
The R rows with the largest priorities are kept.  Let tau be the largest priority that was dropped.  A kept row then
counts with weight max(w, tau) (Duffield, Lund & Thorup 2007), so that sums over the kept rows estimate sums over all
rows.  If nothing is forgotten and all rows have the same weight, this is a uniform sample.

The random number u of a row depends only on the seed and on the row's place in the stream, so the sample is the same
however the stream is cut into blocks.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, replace
from typing import Annotated

import numpy as np
import scipy.sparse

from ..arrays import Array, namespace, take_rows

# The total weight of all rows and that of the kept rows are computed in different ways: the latter from logarithms,
# which grow with the length of a forgetting stream and lose digits.  If no row was dropped, they agree to this share.
SAME_WEIGHT = 1e-3
Arrivals = tuple[np.ndarray, np.ndarray, np.ndarray, Array]  # priorities, log_weights, numbers, rows


@dataclass(frozen=True)
class Reservoir:
    """A sample of at most `size` of the `n_seen` rows that have arrived, in random order."""

    size: Annotated[int, "count"]
    seed: Annotated[int, "count"]
    n_seen: Annotated[int, "count"]
    weight: Annotated[float, "float"]  # the present total weight of all rows seen
    numbers: Annotated[np.ndarray, "int[n]"]  # (n,) places of the kept rows in the stream
    rows: Annotated[Array, "rows[n, d]?"]  # (n, d), None before the first row
    priorities: Annotated[np.ndarray | None, "float[n]"] = None  # (n,) descending
    log_weights: Annotated[np.ndarray | None, "float[n]"] = None  # (n,)
    rate: Annotated[float, "float"] = 0.0  # c, the rate of forgetting: ln 2 / half_life
    clock: Annotated[int, "count"] = 0  # time t of the next row
    dropped: Annotated[float, "float~"] = -math.inf  # largest priority of a row that was not kept
    pending: Annotated[tuple[Arrivals, ...], "empty"] = ()  # rows that arrived after the last sort
    n_pending: Annotated[int, "count"] = 0
    # Model files of version 0.1.0 hold uniform random numbers (ascending) and weights instead of priorities.
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
        if len(keys) < self.n_seen:  # these files lack the largest dropped priority, so its upper bound is used
            converted["dropped"] = float(converted["priorities"][-1])
        for name, value in converted.items():
            object.__setattr__(self, name, value)

    _file_sizes = ("d",)

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the fields that were read from a file can be those of a sample."""
        assert self.priorities is not None
        n_kept = len(self.numbers)
        whole = n_kept <= self.n_seen and self.size > 0 and self.n_pending == 0 and (self.rows is None) == (n_kept == 0)
        most = float(self.priorities[0]) if n_kept else -math.inf  # no dropped priority is larger
        ordered = bool(np.all(np.diff(self.priorities) <= 0)) and self.dropped <= most
        if not whole or not ordered or self.rate < 0 or not self._weighs_its_rows:
            raise error("the sample of rows in the file cannot come from a stream")

    @property
    def _weighs_its_rows(self) -> bool:
        """Whether `weight` equals the weight of the kept rows, or exceeds it if rows were dropped."""
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
        """This empty sample, filled with rows drawn with equal probability from `n_seen` rows of total weight `weight`.

        Unless the drawn rows are the `whole` stream, each represents several rows and gets their weight.  Its priority
        is drawn as if it had arrived with that weight, so that sums over the sample of these and later rows estimate
        sums over all rows.
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
        """Whether no row of positive weight has been dropped, or will be when pending rows are sorted in."""
        return self.dropped == -math.inf and self.n_kept <= self.size

    @property
    def n_kept(self) -> int:
        """The number of rows held; it includes pending rows, some of which the next sort may drop."""
        return len(self.numbers) + self.n_pending

    @property
    def now(self) -> float:
        """c t of the newest row; `log_weights` minus this are the logarithms of the present weights."""
        return self.rate * (self.clock - 1)

    @property
    def kept_weights(self) -> np.ndarray:
        """(n,) the weight that each kept row represents at present; they sum to `weight`.  No rows may be pending."""
        assert self.log_weights is not None
        assert not self.pending
        weights = np.exp(np.maximum(self.log_weights, self.dropped) - self.now)
        return weights if self.whole or not len(weights) else weights * (self.weight / weights.sum())

    def add(self, block: Array, weights: np.ndarray | None = None) -> Reservoir:
        """The sample of the stream continued by one more block of rows."""
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
        # Sort only when more than half as many rows are pending as are sorted, so that adding single rows is cheap.
        return grown.in_order() if 2 * n_pending > len(grown.numbers) else grown

    @property
    def _threshold(self) -> float:
        """A row is kept only if its priority is larger than this."""
        assert self.priorities is not None
        return float(self.priorities[-1]) if len(self.priorities) >= self.size else -math.inf

    def in_order(self) -> Reservoir:
        """The sample with its pending rows sorted in; rows beyond `size` are dropped."""
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
        """A sample of both streams together.

        The newest rows of both streams count as equally old; the rows of `other` are numbered after those of this one.
        """
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
    """c: each new row multiplies the weights of all earlier rows by e^(-c)."""
    return 0.0 if half_life is None else math.log(2.0) / half_life


def stacked(blocks: list[Array]) -> Array:
    """Blocks of rows joined into one array, which is sparse if any block is."""
    if any(scipy.sparse.issparse(block) for block in blocks):
        return scipy.sparse.vstack(blocks, format="csr")
    return blocks[0] if len(blocks) == 1 else namespace(*blocks).concat(blocks, axis=0)
