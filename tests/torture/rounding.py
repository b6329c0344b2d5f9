"""How far rounding alone can move a result: the only slack that the oracle gives.

A score is z_k = sum_i k(x, s_i) A_ik - b_k.  With u the rounding of one operation in the rows' precision, and kernel
values that are wrong by at most kappa u |k|, it is wrong by no more than

    (kappa + m) u max_x sum_i |k|(x, s_i) |A_ik|

where |k| is the kernel with every product and sum in it taken absolutely: |x| |s| for a linear kernel,
(gamma |x||s| + |coef0|)^degree for a polynomial.  Sums of n roundings of either sign are sqrt(n) in place of n, and
`SAFETY` times that; what is seen is a tenth of it at the most.  Where A is large and of mixed signs, as with nearly
dependent points, the bound is large beside the scores: so are the errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

import kernelsieve

SAFETY = 2.0
# What a fit leaves out on purpose, as a share of a variance: residuals of a factorised kernel below 1e-10 k(x, x)
# (solvers/greedy.py), a hundred times that beside variances much smaller than k(x, x), as weights of 1e-12 to 1e12 make
# them, and for float32 rows directions that carry less than 1e-3 of any component (fit/problem.py).
LEFT_OUT = {False: 1e-8, True: 1e-3}
# And of a kernel that need not be definite, negative eigenvalues below 1e-6 of the largest (fit/sample.py), in silence.
LEFT_OUT_INDEFINITE = 1e-5
LARGEST_EXPONENT = 1.0  # e exp(-e) is less: the error of exp(-e) where e itself has a relative error
# Squared widths from which on distances are taken by differences (kernels/distances.py), in float64 and float32.
BY_DIFFERENCES = {False: 1e8, True: 1e3}
# Squared widths that the centre of the rows may be off the origin before they are shifted to it, in our kernel and in
# KernelPCA, which leaves distances to scikit-learn as long as it can.
NEAR_ORIGIN, SCIKIT_LEARNS_OWN = 64.0, 1e6


@dataclass(frozen=True)
class Rounding:
    """What rounding can do to a fitted model's results on some rows."""

    scores: np.ndarray  # (M,), of one score
    kernel: float  # of one kernel value
    left_out: float

    def variance(self, variances: np.ndarray) -> np.ndarray:
        """(M,), of the variance of scores whose variances these are: once in the fit, once in transform."""
        moved = 2 * (2 * np.sqrt(np.maximum(variances, 0.0)) * self.scores + self.scores**2)
        return moved + self.left_out * variances.max(initial=0.0)

    def share(self, total: float) -> float:
        """Of a variance as a share of the total: mean lengths and their differences are kernel values."""
        return 4 * self.kernel / total + LEFT_OUT[False] if total > 0 else np.inf


def rounding_of(model: Any, rows: np.ndarray, *, single: bool) -> Rounding:
    """The bounds for a model and dense rows (n, d) in float64."""
    unit = float(np.finfo(np.float32 if single else np.float64).eps)
    expansion = getattr(model, "expansion_", None)
    if expansion is None:  # (x - mean)' v: linear models of the rows themselves
        loadings = _host(model.components_)
        if model.transform_method == "least-squares":
            loadings = np.linalg.pinv(loadings @ loadings.T, hermitian=True) @ loadings
        loadings = np.abs(loadings)
        size = (np.abs(rows).max(axis=0) + np.abs(_host(model.mean_))) @ loadings.T
        return Rounding(SAFETY * unit * np.sqrt(rows.shape[1]) * size, 0.0, LEFT_OUT[single])
    points, coef = _host(expansion.points).astype(np.float64), np.abs(_coefficients(model))
    absolute, kappa = _absolute_kernel(model, rows, points, single)
    if isinstance(model, kernelsieve.KernelPCA) and model.center:  # scikit-learn centres the kernel values themselves
        absolute = absolute + absolute.mean(axis=0) + absolute.mean(axis=1, keepdims=True) + absolute.mean()
    terms = kappa + np.sqrt(len(points))
    scores = SAFETY * unit * terms * (absolute @ coef).max(axis=0, initial=0.0)
    left_out = max(LEFT_OUT[single], 0.0 if expansion.kernel.definite else LEFT_OUT_INDEFINITE)
    return Rounding(scores, SAFETY * unit * kappa * float(absolute.max(initial=0.0)), left_out)


def _coefficients(model: Any) -> np.ndarray:
    """A, as transform uses it: scikit-learn's own does not centre it."""
    if not isinstance(model, kernelsieve.KernelPCA):
        return _host(model.expansion_.coef).astype(np.float64)
    real = model.eigenvalues_ > 0
    return np.where(real, model.eigenvectors_ / np.sqrt(np.where(real, model.eigenvalues_, 1.0)), 0.0)


def _absolute_kernel(model: Any, rows: np.ndarray, points: np.ndarray, single: bool) -> tuple[np.ndarray, float]:
    """|k|(x, s) for all pairs, or a bound of it, and kappa."""
    kernel, root = model.kernel, float(np.sqrt(rows.shape[1])) + 1
    if kernel == "rbf":
        away = rows - points.mean(axis=0)
        squares = 4 * float(model.gamma_) * float(np.einsum("ij,ij->i", away, away).max())
        near = SCIKIT_LEARNS_OWN if isinstance(model, kernelsieve.KernelPCA) else NEAR_ORIGIN
        exponent = min(squares + near, BY_DIFFERENCES[single])
        return np.ones((1, len(points))), root * (LARGEST_EXPONENT + exponent)
    if kernel == "laplacian" or callable(kernel):  # by differences, the campaign's own callables too
        return np.ones((1, len(points))), root * LARGEST_EXPONENT
    if kernel == "cosine":
        return np.ones((1, len(points))), root
    lengths = np.linalg.norm(rows, axis=1)[:, None] * np.linalg.norm(points, axis=1)
    if kernel == "linear":
        return lengths, root
    inside = float(model.gamma_) * lengths + abs(float(model.coef0))
    if kernel == "poly":
        return inside ** float(model.degree), root * max(float(model.degree), 1.0)
    return np.ones((1, len(points))), root * (1 + float(inside.max(initial=0.0)))  # sigmoid: its slope is at most one


def _host(values: Any) -> np.ndarray:
    if scipy.sparse.issparse(values):
        return np.asarray(values.toarray())
    if type(values).__module__.startswith("torch"):
        return np.asarray(values.detach().cpu().numpy())
    return np.asarray(values)
