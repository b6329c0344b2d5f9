"""What is kept of a stream: moments of all rows over the points, and a sample of the rows to choose points by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, take_rows
from ..errors import warn
from ..fit.expansion import FEW_ROWS, KernelExpansion
from ..fit.moments import FeatureSums, Moments, MomentSum
from ..fit.span import PointSpan
from ..fit.transfer import ages, forgotten, overlap, transferred, weighing
from ..rows.memory import ArrayRows, Summand
from ..rows.reservoir import Reservoir
from ..threads import cached_property


@dataclass(frozen=True)
class StreamState:
    """The rows that have gone by, as far as they are kept."""

    reservoir: Reservoir
    moments: Moments | None  # of all rows over the points, None before these are chosen
    negative_share: float = 0.0  # of the spectrum of the points' gram, which was dropped
    chosen: KernelExpansion | None = None  # the model when its points were chosen
    since: float = 0.0  # weight of the rows since then

    _file_sizes = ("m", "d")
    _file_layout = {
        "reservoir": "Reservoir[d]",
        "moments": "Moments[m]?",
        "negative_share": "float",
        "chosen": "KernelExpansion[m, d, M]?",
        "since": "float",
    }

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the parts from a file are those of one stream."""
        if self.chosen is not None and self.moments is None:
            raise error("the stream in the file has points, but no moments over them")
        if self.since < 0 or not 0 <= self.negative_share <= 1:
            raise error("the stream in the file has weights below zero")

    @property
    def rate(self) -> float:
        """Of forgetting."""
        return self.reservoir.rate

    def with_rows(self, rows: ArrayRows, n_threads: int) -> StreamState:
        """With more rows, on the same points."""
        n, own = rows.n_samples, rows.weights
        came = float(n) if own is None else float(own.sum())
        state = replace(self, reservoir=self.reservoir.add(rows.X, own), since=self.since + came)
        if self.moments is None or self.chosen is None:
            return state
        by_age = ages(n, self.rate)
        if by_age is not None:
            rows = ArrayRows(rows.X, by_age if own is None else own * by_age)
        share = 1.0 if by_age is None else float(np.exp(-self.rate * n))
        grown = replace(state, moments=forgotten(self.moments, share) + self._moments_of(rows, n_threads))
        if "_basis" in vars(self):
            vars(grown)["_basis"] = self._basis  # need not be made again: the points are the same
        return grown

    @cached_property
    def _basis(self) -> KernelExpansion:
        """The whitened features as a model's scores: what is bound to the points is kept from one call to the next."""
        assert self.moments is not None
        assert self.chosen is not None
        whitening = self.moments.whitening
        return KernelExpansion(self.chosen.kernel, self.chosen.points, whitening, np.zeros(whitening.shape[1]))

    def _moments_of(self, rows: ArrayRows, n_threads: int) -> Moments:
        """Of some rows over the points."""
        basis = self._basis
        if rows.n_samples > FEW_ROWS or not isinstance(rows.X, np.ndarray):
            return rows.add_up(MomentSum(basis.kernel, basis.points, basis.coef), n_threads)
        features, lengths = basis.transform(rows.X), basis.kernel.diagonal(rows.X)
        sums = FeatureSums(basis.coef)
        sums.add(features, lengths, rows.weights)
        return sums.moments()

    def span(self, support: np.ndarray | None, center: bool) -> PointSpan:
        """The span of the points with the moments of all rows over it."""
        assert self.moments is not None
        assert self.chosen is not None
        return PointSpan(
            self.chosen.kernel, self.chosen.points, support, center, self.moments, dropped=self.negative_share
        )

    def moments_over(self, span: PointSpan, n_threads: int) -> Moments:
        """Moments of all rows over the points of another span: exact where all rows are kept, else by transfer."""
        kept = KeptRows(self.reservoir)
        new, old = span.moments.whitening, self.chosen
        on_new = kept.add_up(MomentSum(span.kernel, span.points, new), n_threads)
        if self.reservoir.whole or self.moments is None or old is None or old.kernel != span.kernel:
            return on_new
        if span.kernel.definite is False:  # its features have no inner product that a projection could go by
            return on_new
        if same_points(old.points, span.points):
            return self.moments
        on_old = kept.add_up(MomentSum(old.kernel, old.points, self.moments.whitening), n_threads)
        basis = overlap(span.kernel, (span.points, new), (old.points, self.moments.whitening))
        return transferred(self.moments, on_old, on_new, basis)


class KeptRows(ArrayRows):
    """The rows of a reservoir in the order in which they came; their moments weigh what all rows seen do."""

    def __init__(self, reservoir: Reservoir) -> None:
        reservoir = reservoir.in_order()
        order = np.argsort(reservoir.numbers)
        rows = np.empty((0, 0)) if reservoir.rows is None else take_rows(reservoir.rows, order)
        weights = reservoir.kept_weights[order]
        super().__init__(rows, None if np.all(weights == 1) else weights)
        self.n_samples = reservoir.n_seen
        self.numbers = reservoir.numbers[order]
        self._weight_seen = None if reservoir.whole else reservoir.weight

    def add_up(self, summand: Summand, n_threads: int) -> Any:
        kept = super().add_up(summand, n_threads)
        return kept if self._weight_seen is None else weighing(kept, self._weight_seen)


def start_anew(model: Any, why: str) -> None:
    """Forget what `fit` left, which nothing can be added to."""
    warn(f"{type(model).__name__} was fitted by fit, which {why}")
    for name in [name for name in vars(model) if name.endswith("_") or name in model._stale]:
        delattr(model, name)


def same_points(some: Array, others: Array) -> bool:
    """Whether both are the same points in the same order."""
    if some is others:
        return True
    if some.shape != others.shape or scipy.sparse.issparse(some) != scipy.sparse.issparse(others):
        return False
    if scipy.sparse.issparse(some):
        return (some != others).nnz == 0
    return bool(np.array_equal(some, others))
