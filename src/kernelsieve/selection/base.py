"""What every rule for choosing points takes and gives.

A selector is a function

    select(sample, n_support, rng) -> Selection

of a `Sample` (rows, kernel, weights, exact kernel PCA when asked for), the number of points wanted, and a
random generator.  It returns at most `n_support` points: fewer when the rows have no more to give.  The history of a
greedy rule has "unexplained", the share of tr K that is left after each row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..arrays import Array
from ..fit.sample import Sample
from ..kernels import Kernel


@dataclass(frozen=True)
class Selection:
    """Chosen points, and how they were come by."""

    kernel: Kernel  # the kernel in which `points` are meant
    points: Array  # (m, d)
    indices: np.ndarray | None  # (m,) numbers of training rows, or None for points that are not rows
    history: dict[str, Any] = field(default_factory=dict)
    nested: bool = False  # every prefix is the selection of that size
    n_steps: int = 0
    converged: bool = True
    by_reference: bool = False  # the rows were chosen by the reference rows' own components
    exhaustive: bool = False  # the points are all the (different) rows there are
    weights: np.ndarray | None = None  # (m,) of an exhaustive selection's rows, None when all are equal

    @property
    def n_support(self) -> int:
        return int(self.points.shape[0])

    def prefix(self, n_support: int) -> Selection:
        """The first `n_support` points of a nested selection."""
        assert self.nested
        assert self.indices is not None
        kernel, points = self.kernel.part(self.points, np.arange(min(n_support, self.n_support)))
        history = dict(self.history)
        if "unexplained" in history:
            history["unexplained"] = history["unexplained"][:n_support]
        return replace(self, kernel=kernel, points=points, indices=self.indices[:n_support], history=history)


Selector = Callable[[Sample, int, np.random.Generator], Selection]


def select_rows(
    sample: Sample,
    chosen: Array,
    *,
    nested: bool,
    by_reference: bool = False,
    history: dict[str, Any] | None = None,
) -> Selection:
    """The selection of the sample's rows with numbers `chosen`."""
    indices = sample.rows.indices[np.asarray(chosen, dtype=np.intp)]
    kernel, points = sample.kernel.at(sample.rows.X, indices)
    numbers = sample.rows.numbers_of(indices)
    return Selection(kernel, points, numbers, history or {}, nested=nested, by_reference=by_reference)
