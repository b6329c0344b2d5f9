"""What a pass over rows on an accelerator adds up.

Sums stay on the device until the pass is over, and only then is it asked whether all rows were finite: every look at
a value on the way would make the device wait.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Array, like, namespace, to_numpy


class DeviceSums:
    """What a pass adds up: weight, features, their products, k(x, x), all on the device.

    Products are taken about a shift: zero in float64, where the mean costs no digits that matter (whitened features
    are no longer than phi(x)), the first block's mean in float32.
    """

    def __init__(self, whitening: Array) -> None:
        xp = namespace(whitening)
        self.whitening = whitening
        self.weight = 0.0
        self.total = xp.zeros_like(whitening[0, :])
        self.products = xp.zeros_like(whitening.T @ whitening)
        self.trace = xp.sum(xp.zeros_like(whitening[0, :]))
        self.shift: Array | None = None
        self.checks: list[tuple[int, int, Array]] = []  # first and last row of each block, and the sum of its values

    def add(self, features: Array, diagonal: Array, weights: Array | None) -> None:
        """One block's whitened features."""
        xp = namespace(features)
        if features.dtype != self.whitening.dtype:
            if self.shift is None:
                self.shift = xp.mean(features, axis=0)
            features = features - self.shift
        if weights is None:
            self.weight += float(features.shape[0])
            self.trace = self.trace + xp.sum(diagonal, dtype=self.whitening.dtype)
            self.total = self.total + xp.sum(features, axis=0, dtype=self.whitening.dtype)
        else:
            weights = like(weights, features)
            self.weight += float(xp.sum(weights))
            self.trace = self.trace + xp.sum(weights * diagonal, dtype=self.whitening.dtype)
            self.total = self.total + like(weights @ features, self.whitening)
            features = features * xp.sqrt(weights)[:, None]
        self.products = self.products + like(features.T @ features, self.whitening)

    def check(self, start: int, block: Array) -> None:
        """Note a block's sum, to be looked at when the pass is over."""
        self.checks.append((start, start + int(block.shape[0]), namespace(block).sum(block)))

    def _raise_if_not_finite(self) -> None:
        """Name the rows of the first block that holds NaN or infinity."""
        xp = namespace(self.whitening)
        sums = to_numpy(xp.stack([total for _, _, total in self.checks]))
        for (start, stop, _), total in zip(self.checks, sums, strict=True):
            if not np.isfinite(total):
                raise ValueError(f"rows {start} to {stop - 1}: Input X contains NaN, infinity or a value too large")

    def mean_and_scatter(self) -> tuple[Array, Array]:
        """The mean of all features, and their products about it, when the pass is over."""
        self._raise_if_not_finite()
        mean = self.total / (self.weight or 1.0)
        scatter = self.products - self.weight * (mean[:, None] * mean)
        if self.shift is not None:
            mean = mean + like(self.shift, mean)
        return mean, scatter
