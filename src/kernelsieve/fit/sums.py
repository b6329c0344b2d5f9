"""What a pass over rows adds up, on the host or on an accelerator.

With a shift c near the mean (the first block's own), the same for all blocks, the sums

    sum w,    sum w (f - c),    sum w (f - c)(f - c)',    sum w k(x, x)

give mean and scatter at the end, and the mean's distance from the origin costs no digits.  A block costs one product
and one addition of (q, q).  Weights are taken in a unit of their block, a power of two, which costs no digits: they may
be smaller and larger than float32 holds.  On a device the sums stay there until the pass is over, and only then is it
asked whether all rows were finite: every look at a value on the way would make the device wait.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array, is_numpy, like, namespace, to_numpy
from ..kernels import overwritten_product


def _power_of_two(largest: float) -> float:
    """The power of two next above a number; one where that is zero."""
    return math.ldexp(1.0, math.frexp(largest)[1]) if largest > 0 else 1.0


class FeatureSums:
    """Weight, features, their products, k(x, x): added up where the features are, in the precision of the whitening."""

    def __init__(self, whitening: Array) -> None:
        xp = namespace(whitening)
        self.whitening = whitening
        self.weight = 0.0
        self.total = xp.zeros_like(whitening[0, :])
        self.products: Array | None = None
        self.trace = xp.sum(xp.zeros_like(whitening[0, :]))
        self.shift: Array | None = None  # the mean of the first block that counts
        self.checks: list[tuple[int, int, Array]] = []  # first and last row of each block, and the sum of its values

    def add(self, features: Array, diagonal: Array, weights: Array | None) -> None:
        """One block's whitened features, which are overwritten, and k(x, x) of its rows."""
        xp = namespace(features)
        unit, mass = 1.0, float(features.shape[0])
        if weights is not None:
            unit = _power_of_two(float(namespace(weights).max(weights)))
            weights = like(weights / unit, features)
            mass = float(xp.sum(weights))
        if mass == 0:
            return
        self.weight += unit * mass
        if self.shift is None:
            # Weighted: a row of weight zero may lie anywhere, and a shift far out would cost all other rows digits.
            self.shift = xp.mean(features, axis=0) if weights is None else (weights / mass) @ features
        features -= self.shift
        if weights is None:
            self.trace = self.trace + xp.sum(diagonal, dtype=self.whitening.dtype)
            self.total += xp.sum(features, axis=0, dtype=self.whitening.dtype)
        else:
            self.trace = self.trace + unit * xp.sum(weights * diagonal, dtype=self.whitening.dtype)
            self.total += unit * like(weights @ features, self.whitening)
            features *= xp.sqrt(weights)[:, None]
        self._add_products(features, unit)

    def _add_products(self, features: Array, unit: float) -> None:
        if self.products is not None and is_numpy(features):
            products = overwritten_product(features.T, features, "scatter")
        else:
            products = like(features.T @ features, self.whitening)
        if unit != 1:
            products = unit * like(products, self.whitening)
        if self.products is None:
            self.products = products
        else:
            self.products += products

    def check(self, start: int, block: Array) -> None:
        """Note a block's sum, to be looked at when the pass is over."""
        self.checks.append((start, start + int(block.shape[0]), namespace(block).sum(block)))

    def _raise_if_not_finite(self) -> None:
        """Name the rows of the first block that holds NaN or infinity."""
        if not self.checks:
            return
        xp = namespace(self.whitening)
        sums = to_numpy(xp.stack([total for _, _, total in self.checks]))
        for (start, stop, _), total in zip(self.checks, sums, strict=True):
            if not np.isfinite(total):
                raise ValueError(f"rows {start} to {stop - 1}: Input X contains NaN, infinity or a value too large")

    def mean_and_scatter(self) -> tuple[Array, Array]:
        """The mean of all features, and their products about it, when the pass is over."""
        self._raise_if_not_finite()
        if self.shift is None or self.products is None:  # no row counted
            return self.total, self.total[:, None] * self.total
        off = self.total / self.weight  # the mean, seen from the shift
        scatter = self.products - self.weight * (off[:, None] * off)
        return off + like(self.shift, off), scatter
