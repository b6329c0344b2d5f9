"""Relative tolerances: a number is only rounding if it is below this share of the number it is compared with.

The eps of float64 is 2.2e-16, that of float32 1.2e-7.  How far above eps a tolerance lies depends on the computation
that the number comes from: one product, a sum of many numbers, a factorisation, or the square root of a rounding error.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(np.float64).eps)
FEW_ROUNDINGS = 1e-14  # for an eigenvalue, or a pivot, of a small matrix: about 50 eps
# For sums over many numbers and differences of such sums.  The key is the number of bytes: 8 eps of float32, 5,000 of
# float64.
ROUNDING = {4: 1e-6, 8: 1e-12}
DEPENDENT = 1e-10  # a vector depends on others if no larger share of its squared length lies outside their span
SOLVED = 1e-9  # largest violation of an equation that counts as solved
HALF_THE_DIGITS = 1e-8  # about sqrt(eps): for lengths whose squares are known only to within eps, and for steps
FLOAT32_SEES = 1e-5  # in float32, a variance below this share of k(x, x) has two or three correct digits at most
