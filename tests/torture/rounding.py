"""How far rounding alone can move a result, and what is left out as rounding: the only slack that the oracle gives.

A score is z_k = sum_i k(x, s_i) A_ik - b_k.  With u the rounding of one operation in the rows' precision, and kernel
values that are wrong by at most kappa u |k|, it is wrong by no more than

    (kappa + m) u max_x sum_i |k|(x, s_i) |A_ik|

where |k| is the kernel with every product and sum in it taken absolutely: |x| |s| for a linear kernel,
(gamma |x||s| + |coef0|)^degree for a polynomial.  Sums of n roundings of either sign are sqrt(n) in place of n, and
`SAFETY` times that; what is seen is a tenth of it at the most.  Where A is large and of mixed signs, as with nearly
dependent points, the bound is large beside the scores: so are the errors.

The squared length of a component, A_k'K_SS A_k, which is one, is wrong by (kappa + sqrt(m)) u |A_k|'|k|(S, S)|A_k|,
and where A comes from an eigendecomposition of K_SS, whose result is that of a matrix near by, also by
sqrt(m) u |K_SS| |A_k|^2 in float64.  The variance along it is wrong by as much, relatively; that of the mean's
projection sum_i c_i phi(s_i) likewise, which is taken off k(x, x) where a share is formed.

A variance v'C v in the coordinates of the span is wrong by what C is, a sum over
n rows in m coordinates: sqrt(max(n, m)) u |C|, and |C| is the largest variance.  Of components that are not the best
in the span, nor of unit length, |C| is no more than max k(x, x), and the error is that times |v|^2.  Values of
stationary kernels are summed up and whitened last (fit/moments.py): sums are wrong by m u, variances by m u |A_k|^2.

Beside rounding, a fit leaves out on purpose what it takes for rounding.  The variance that it reports is that of
z - g, where g_k(x) = <phi(x), Q v_k> and Q projects on what was left out of the span of its points D, with the gram
K_DD = G G' + R.  Components that are the best in a span are in it, and g = 0.  Of others:

    published rules, on all of D    g = k(x, D) P A_k, P the projection on eigenvectors of K_DD below the floor, and for
                                    those above it the eigenvectors' own error, u |K_DD| for a unit one: together less
                                    than  |k(x, D) P A_k| + sqrt(m) u |K_DD| |A_k| sqrt(max k(x, x) / smallest above)
    nets on some of D, all rows     g = R A_k; by pivoted Cholesky |R_xy| <= DEPENDENT max k(x, x), and so
                                    |g_k(x)| <= DEPENDENT max k(x, x) sum_i |A_ik|; by whitening |R| is the floor, and
                                    |g_k(x)| <= floor |A_k|
    nets on some of D, some rows    |g_k(x)|^2 <= k(x, x) A_k'R A_k <= max k(x, x) floor |A_k|^2

The floor is the whitening's: the share in RANK_TOLERANCES of the largest eigenvalue, or the size of the most
negative eigenvalue where that is larger.  The largest of K_DD is at most that of all rows, and so is the negative one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse

import kernelsieve
from kernelsieve.fit.plan import PLAN
from kernelsieve.kernels import Kernel
from kernelsieve.kernels.objects import ObjectKernel
from kernelsieve.kernels.views import Stretched
from kernelsieve.numerics import DEPENDENT
from kernelsieve.rows.kinds import object_rows
from kernelsieve.spectrum.whitening import RANK_TOLERANCES

SAFETY = 2.0
LARGEST_EXPONENT = 1.0  # e exp(-e) is less: the error of exp(-e) where e itself has a relative error
# Whose components are a rule's, not the best in a span.
PUBLISHED_RULES = (
    kernelsieve.DissimilarityKernelPCA,
    kernelsieve.ImprovedKernelPCA,
    kernelsieve.KernelFeatureAnalysis,
    kernelsieve.OnlineKernelPCA,
)
ABOUT = 1.01  # an eigenvalue so close to the floor may be above it here and below it there
# Squared widths from which on distances are taken by differences (kernels/radial.py), in float64 and float32.
BY_DIFFERENCES = {False: 1e8, True: 1e3}
# Squared widths that the centre of the rows may be off the origin before they are shifted to it, in our kernel and in
# KernelPCA, which leaves distances to scikit-learn as long as it can.
NEAR_ORIGIN, SCIKIT_LEARNS_OWN = 64.0, 1e6


@dataclass(frozen=True)
class Rounding:
    """What rounding can do to a fitted model's results on some rows."""

    scores: np.ndarray  # (M,), of one score
    kernel: float  # of one kernel value
    left_out: np.ndarray  # (M,), of one score, that the fit leaves out
    relative: float  # of a variance, as a share of the largest
    length: float = 0.0  # of a component's squared length
    mean: float = 0.0  # of the mean's squared length
    covariance: float | np.ndarray = 0.0  # (M,), of the variance along a component

    def variance(self, variances: np.ndarray) -> np.ndarray:
        """(M,), of the variance of scores whose variances these are: once in the fit, once in transform."""
        deviations = np.sqrt(np.maximum(variances, 0.0))
        once, twice = (2 * deviations * moved + moved**2 for moved in (self.left_out, self.scores))
        return once + 2 * twice + self.relative * variances.max(initial=0.0) + self.covariance

    def share(self, total: float) -> float:
        """Of a variance as a share of the total: mean lengths and their differences are kernel values."""
        return (4 * self.kernel + self.mean) / total + self.length + self.relative if total > 0 else np.inf


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
        relative = SAFETY * unit * np.sqrt(rows.shape[1])
        return Rounding(relative * size, 0.0, np.zeros(len(loadings)), relative)
    points, coef = _host(expansion.points).astype(np.float64), np.abs(_coefficients(model))
    absolute, kappa = _absolute_kernel(model, rows, points, single)
    if isinstance(model, kernelsieve.KernelPCA) and model.center:  # scikit-learn centres the kernel values themselves
        absolute = absolute + absolute.mean(axis=0) + absolute.mean(axis=1, keepdims=True) + absolute.mean()
    terms = kappa + np.sqrt(len(points))
    scores = SAFETY * unit * terms * (absolute @ coef).max(axis=0, initial=0.0)
    largest = float(absolute.max(initial=0.0))
    among_points = _absolute_kernel(model, points, points, single)[0]
    lengths = [
        SAFETY * unit * terms * float(np.max(np.sum(a * (np.broadcast_to(among_points, (len(a), len(a))) @ a), axis=0)))
        for a in (coef, _mean_coefficients(model))
        if a.size
    ]
    if lengths and not isinstance(model, kernelsieve.KernelPCA):
        decomposed = (
            np.finfo(np.float64).eps * np.sqrt(len(points)) * np.linalg.norm(_gram(expansion.kernel, points), 2)
        )
        norm = float(_norms(coef).max(initial=0.0))
        lengths[0] += SAFETY * float(decomposed) * norm * norm  # infinite, where rows are next to nothing
    if isinstance(model, kernelsieve.CompressedKernelPCA) and model.kernel == "rbf":
        # its scores are its own, its shares those of exact kernel PCA, which leaves distances to scikit-learn
        kappa = gaussian_rounding(float(model.gamma_), rows, points, SCIKIT_LEARNS_OWN, single=single)
    summed = SAFETY * unit * float(np.sqrt(max(len(points), len(rows))))
    published, longest = isinstance(model, PUBLISHED_RULES), float(np.max(np.sum(coef * (among_points @ coef), axis=0)))
    return Rounding(
        scores,
        SAFETY * unit * kappa * largest,
        _left_out(model, rows, points, largest, single),
        summed,
        *lengths,
        covariance=summed * largest * longest if published else _whitened_last(expansion.kernel, coef),
    )


def _whitened_last(kernel: Kernel, coef: np.ndarray) -> np.ndarray:
    """(M,), of a variance whose sums are of kernel values no larger than one."""
    return float(kernel.stationary) * SAFETY * len(coef) * float(np.finfo(np.float64).eps) * _norms(coef) ** 2


def _left_out(model: Any, rows: np.ndarray, points: np.ndarray, largest: float, single: bool) -> np.ndarray:
    """(M,) a bound of |g_k(x)|, where k(x, x) is `largest` at the most."""
    coef = _coefficients(model)
    if isinstance(model, PUBLISHED_RULES):
        return _left_out_of_points(model.expansion_.kernel, rows, points, coef, single)
    if not isinstance(model, kernelsieve.ElasticNetKernelPCA):
        return np.zeros(coef.shape[1])
    all_rows = len(rows) <= (model.n_dictionary or PLAN.whole_dictionary)
    if all_rows and model.expansion_.kernel.definite:
        return DEPENDENT * largest * np.abs(coef).sum(axis=0)
    floor = _floor(np.linalg.eigvalsh(_gram(model.expansion_.kernel, rows)), single)
    return (floor if all_rows else np.sqrt(floor * largest)) * _norms(coef)


def _left_out_of_points(
    kernel: Any, rows: np.ndarray, points: np.ndarray, coef: np.ndarray, single: bool
) -> np.ndarray:
    values, vectors = np.linalg.eigh(_gram(kernel, points))
    floor = _floor(values, single)
    below, above = vectors[:, values <= ABOUT * floor], values[values > floor]
    rows, points = _as_taken(kernel, rows), _as_taken(kernel, points)
    cross_gram = _host(kernel(rows, points))
    known = np.abs(cross_gram @ (below @ (below.T @ coef))).max(axis=0, initial=0.0)
    unit, length = float(np.finfo(np.float64).eps), float(np.sqrt(np.abs(_host(kernel.diagonal(rows))).max()))
    turned = SAFETY * unit * np.sqrt(len(points)) * values[-1] * length / np.sqrt(above.min(initial=values[-1]))
    return known + turned * _norms(coef)


def _norms(coef: np.ndarray) -> np.ndarray:
    """(M,), of columns whose squares may overflow."""
    unit = np.abs(coef).max(initial=np.finfo(np.float64).tiny)
    return np.asarray(unit * np.linalg.norm(coef / unit, axis=0))


def _gram(kernel: Any, rows: np.ndarray) -> np.ndarray:
    given = _as_taken(kernel, rows)
    gram = _host(kernel(given, given))
    return (gram + gram.T) / 2


def _as_taken(kernel: Any, rows: np.ndarray) -> np.ndarray:
    return object_rows(rows) if isinstance(kernel, ObjectKernel) else rows


def _floor(values: np.ndarray, single: bool) -> float:
    """Eigenvalues no larger are left out; `values` ascend."""
    return max(RANK_TOLERANCES[4 if single else 8] * float(values[-1]), -float(values[0]))


def _coefficients(model: Any) -> np.ndarray:
    """A, as transform uses it: scikit-learn's own does not centre it."""
    if not isinstance(model, kernelsieve.KernelPCA):
        return _host(model.expansion_.coef).astype(np.float64)
    real = model.eigenvalues_ > 0
    return np.where(real, model.eigenvectors_ / np.sqrt(np.where(real, model.eigenvalues_, 1.0)), 0.0)


def gaussian_rounding(
    gamma: float, rows: np.ndarray, points: np.ndarray, near: float = NEAR_ORIGIN, *, single: bool
) -> float:
    """kappa of a Gaussian kernel: products of rows seen from the points' centre cancel to squared distances."""
    away = rows - points.mean(axis=0)
    squares = 4 * gamma * float(np.einsum("ij,ij->i", away, away).max())
    return (float(np.sqrt(rows.shape[1])) + 1) * (LARGEST_EXPONENT + min(squares + near, BY_DIFFERENCES[single]))


def _mean_coefficients(model: Any) -> np.ndarray:
    """(m, 1), |c|; zeros where nothing is centred."""
    mean = model.expansion_.mean_coef
    return (
        np.zeros((model.expansion_.n_support, 1)) if mean is None else np.abs(_host(mean).astype(np.float64))[:, None]
    )


def _absolute_kernel(model: Any, rows: np.ndarray, points: np.ndarray, single: bool) -> tuple[np.ndarray, float]:
    """|k|(x, s) for all pairs, or a bound of it, and kappa."""
    kernel, root = model.kernel, float(np.sqrt(rows.shape[1])) + 1
    if kernel == "rbf":
        near = SCIKIT_LEARNS_OWN if isinstance(model, kernelsieve.KernelPCA) else NEAR_ORIGIN
        return np.ones((1, len(points))), gaussian_rounding(float(model.gamma_), rows, points, near, single=single)
    if isinstance(kernel, Kernel):  # |k(x, s)|^2 <= k(x, x) k(s, s); an indefinite kernel's values are at most one
        kernel = model.expansion_.kernel
        kappa = root * LARGEST_EXPONENT + _of_scaled_columns(kernel, rows)
        own, others = (np.abs(_host(kernel.diagonal(_as_taken(kernel, some)))) for some in (rows, points))
        return np.maximum(np.sqrt(own)[:, None] * np.sqrt(others), 1.0), kappa
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


def _of_scaled_columns(kernel: Kernel, rows: np.ndarray) -> float:
    """What columns that are multiplied by factors f add to kappa: each number is rounded once more, by u |f x|.

    A function of gamma |d|^2, or of gamma |d|_1, of differences d moves by at most sqrt(gamma) |f x|, or by gamma
    |f x|_1, times u.
    """
    parts = [value for field in fields(kernel) if isinstance(value := getattr(kernel, field.name), Kernel)]
    most = sum(_of_scaled_columns(part, rows) for part in parts)
    if isinstance(kernel, Stretched):
        gamma, scaled = float(kernel.kernel.gamma), rows * np.array(kernel.column_factors)
        by_norm = np.sqrt(gamma) * np.linalg.norm(scaled, axis=1) + gamma * np.abs(scaled).sum(axis=1)
        most += float(by_norm.max())
    return most


def _host(values: Any) -> np.ndarray:
    if scipy.sparse.issparse(values):
        return np.asarray(values.toarray())
    if hasattr(values, "detach"):
        return np.asarray(values.detach().cpu().numpy())
    values = np.asarray(values)
    return np.stack(list(values.ravel())) if values.dtype == object else values  # each point an object, itself an array
