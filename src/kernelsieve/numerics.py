"""Tolerances: the share of what it is compared with below which a number is only rounding.

The eps of float64 is 2.2e-16, that of float32 1.2e-7.  How far above it a tolerance lies says what has happened to the
numbers before: one product, a sum of many, a factorisation, or a square root of what rounding left.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(np.float64).eps)
FEW_ROUNDINGS = 1e-14  # 50 eps: an eigenvalue, or a pivot, of a small matrix
# Sums over many numbers and differences of such sums, by the bytes of a number: 8 eps of float32, 5,000 of float64.
ROUNDING = {4: 1e-6, 8: 1e-12}
DEPENDENT = 1e-10  # the squared length that is left of a vector outside the span of others that it depends on
SOLVED = 1e-9  # by how much an equation that is solved may be violated
HALF_THE_DIGITS = 1e-8  # sqrt(eps): the length that is left of such a vector, and of a step that changes nothing
FLOAT32_SEES = 1e-5  # of k(x, x): a variance that is less is known to two or three digits in float32
