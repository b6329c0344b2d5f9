"""A uniform sample of a stream: every row draws a random number, and the rows with the smallest are kept.

The number that a row draws depends on the seed and on its place in the stream alone, so the sample is the same however
the stream is cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse

from ..arrays import Array, take_rows


@dataclass(frozen=True)
class Reservoir:
    """At most `size` rows of the `n_seen` that have gone by, in random order."""

    size: int
    seed: int
    n_seen: int
    weight: float  # of all rows seen
    keys: np.ndarray  # (n,) ascending
    numbers: np.ndarray  # (n,) places in the stream
    weights: np.ndarray  # (n,)
    rows: Array  # (n, d), None before the first

    _file_sizes = ("d",)
    _file_layout = {
        "size": "int",
        "seed": "int",
        "n_seen": "int",
        "weight": "float",
        "keys": "float[n]",
        "numbers": "int[n]",
        "weights": "float[n]",
        "rows": "rows[n, d]?",
    }

    @classmethod
    def empty(cls, size: int, seed: int) -> Reservoir:
        return cls(size, seed, 0, 0.0, np.empty(0), np.empty(0, dtype=np.int64), np.empty(0), None)

    @property
    def whole(self) -> bool:
        """Whether all rows are still here."""
        return self.n_seen == len(self.keys)

    def add(self, block: Array, weights: np.ndarray | None = None) -> Reservoir:
        """With the rows of one more block."""
        n = int(block.shape[0])
        new_weights = np.ones(n) if weights is None else weights
        gone_by = replace(self, n_seen=self.n_seen + n, weight=self.weight + float(new_weights.sum()))
        keys = np.random.Generator(np.random.PCG64(self.seed).advance(self.n_seen)).random(n)
        chosen = np.arange(n)
        if len(self.keys) >= self.size:
            chosen = np.flatnonzero(keys < self.keys[self.size - 1])
            if not len(chosen):
                return gone_by
        keys = np.concatenate([self.keys, keys[chosen]])
        order = np.argsort(keys, kind="stable")[: self.size]
        rows = take_rows(block, chosen) if self.rows is None else stacked([self.rows, take_rows(block, chosen)])
        return replace(
            gone_by,
            keys=keys[order],
            numbers=np.concatenate([self.numbers, self.n_seen + chosen])[order],
            weights=np.concatenate([self.weights, new_weights[chosen]])[order],
            rows=take_rows(rows, order),
        )


def stacked(blocks: list[Array]) -> Array:
    """Blocks of rows as one array, dense or sparse as they are."""
    if any(scipy.sparse.issparse(block) for block in blocks):
        return scipy.sparse.vstack(blocks, format="csr")
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
