"""The Bessel kernel, kernlab's besseldot.

    k(x, y) = (Gamma(order + 1) 2^order J_order(r) / r^order)^degree,     r = |x - y| / width

It is positive definite on rows of up to 2 order + 2 columns, because J_order(r) / r^order is then the Fourier
transform of a measure on the sphere; for more columns this is not guaranteed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from scipy.special import hyp0f1, j0, j1

from ..arrays import Array, like, to_numpy
from .radial import NEAREST, Radial

# t below which g_1 - g_0 loses digits, and g_2 = sum_k (-t / 2)^k / (k! 3 4 ... (k + 2)), to rounding there.
CANCELLING = 0.5
SERIES = [(-0.5) ** k * 2 / (factorial(k) * factorial(k + 2)) for k in range(10)]


@dataclass(frozen=True, repr=False)
class Bessel(Radial):
    """(Gamma(order + 1) 2^order J_order(r) / r^order)^degree with r = |x - y| / width; kernlab's besseldot.

    Positive definite on rows of up to 2 order + 2 columns; not known for more.  Karatzoglou, Smola, Hornik & Zeileis
    (2004), kernlab: an S4 package for kernel methods in R.

    Parameters
    ----------
    order : int, default=1
        Of the Bessel function of the first kind.
    degree : int, default=1
    width : float, sequence of floats, "median" or "median per column", optional
        1 / sigma of kernlab; the median distance of rows by default.
    gamma : float, "median" or "scale", optional
        1 / (2 width^2), instead of the width.
    """

    order: int = 1
    degree: int = 1
    name = "bessel"
    definite = None
    preimage = "ridge"
    not_exported = "the Bessel kernel has no function in ONNX, C or torch"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("order", 0), ("degree", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name}={value!r} of Bessel must be a whole number of at least {least}")

    def of_square(self, ops: Any, t: Any) -> Any:
        return like(_base(t, self.order) ** self.degree, t)

    def ratio(self, ops: Any, t: Any) -> Any:
        raise TypeError("the Bessel kernel crosses zero, where a ratio to it is infinite")

    def attraction(self, rows: Array, points: Array, cross_gram: Array) -> Array:
        # -df/dt for f = g^degree and g = 0F1(order + 1, -t / 2), with g' = -0F1(order + 2, -t / 2) / (2 order + 2)
        t = -self.bind_exponents(points)(rows)
        slope = _base(t, self.order + 1) / (2 * self.order + 2)
        return like(self.degree * _base(t, self.order) ** (self.degree - 1) * slope, cross_gram)


def _base(t: Array, order: int) -> np.ndarray:
    """g = Gamma(order + 1) 2^order J_order(r) / r^order with r^2 = 2 t, as the hypergeometric function that it is.

    J_0 and J_1 cost a seventh of that function, and  g_2 = 8 (g_1 - g_0) / r^2  where that does not cancel.
    """
    t = to_numpy(t).astype(np.float64)
    if order > 2:
        return np.asarray(hyp0f1(order + 1, -0.5 * t))
    square = np.maximum(2.0 * t, NEAREST)
    r = np.sqrt(square)
    if order == 0:
        return np.asarray(j0(r))
    first = 2.0 * j1(r) / r
    if order == 1:
        return np.asarray(first)
    found, near = 8.0 * (first - j0(r)) / square, t < CANCELLING
    found[near] = np.polynomial.polynomial.polyval(t[near], SERIES)
    return found
