"""component_agreement_: how closely each component matches that of exact kernel PCA.

The captured ratio measures all components together.  The agreement measures a single one: it is the correlation of the
component's scores z_k with the scores e_k of exact kernel PCA, on the same rows, whose weights omega sum to one,

    agreement_k = |sum omega z_k e_k| / sqrt(sum omega z_k^2 sum omega e_k^2)

Components of nearly equal variance may trade places, which lowers their agreement although nothing is lost.  In that
case the smallest canonical correlation between the M scores and the M exact ones (the cosine of the largest angle
between the two subspaces) is still near one.

Exact kernel PCA of n rows is computed without their n x n gram.  The exact components u of a few reference rows (500
or more) are close to those of all rows.  With C the covariance of all n rows in feature space, the Rayleigh-Ritz method
gives u'Cu = diag(mu) and scores e.  A step of subspace iteration then adds the directions that the reference rows did
not show.  It takes one pass over the kernel values of all pairs of rows, and stores none of them:

    r = Cu - u diag(mu),      scores of r: K_c (omega e) - e diag(mu),      r'r = e' omega K omega e - diag(mu)^2

r is orthogonal to u, so Rayleigh-Ritz on both together is one more small eigenproblem.  Steps are repeated until the
components no longer change direction, at most five times.  On tables of 3,000 to 4,600 rows, the agreement of 8 to 13 %
of the components was off by more than .02 without any step, one of them by .85.  With the steps, none of 4,902
components was off by more than .003.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from ..arrays import as_float64, to_numpy, top_eigh
from ..errors import PoorComponentsWarning, warn
from ..kernels import Kernel
from ..numerics import ROUNDING, SOLVED
from ..rows.sampling import SampledRows, unit_weights
from ..spectrum.top import exact_components
from ..spectrum.whitening import RANK_TOLERANCE
from ..threads import one_blas_thread
from .captured_ratio import PointsOnRows
from .expansion import KernelExpansion
from .moments import points_like
from .plan import PLAN
from .rowset import RowSet
from .sample import Sample
from .span import Points

HALF = math.sqrt(0.5)  # two sets of scores with this correlation share half of their variance


@dataclass(frozen=True)
class AgreementPlan:
    """How the exact components of all rows are computed."""

    # Number of exact components of the reference rows that subspace iteration starts from.
    start_components: int = 20
    start_components_per_component: int = 3
    reference_rows: int = 500
    reference_rows_per_start: int = 2
    # Limit on the multiplications of one pass over all pairs of rows, which keeps a pass to a second or two. One kernel
    # value counts as `kernel_cost` multiplications. If all rows would exceed the limit, a random part of them is used.
    max_pair_work: float = 2e10
    kernel_cost: int = 50
    dear_rows: int = 1000  # limit on the number of rows if the kernel is a user's function, which may be slow
    # Subspace iteration ends after `max_steps` steps, or as soon as the cosine between each component before and after
    # a step is at least `same_direction`.
    max_steps: int = 5
    same_direction: float = 0.99
    # Components with less than this share of the largest variance are not known separately: the solver may mix them.
    known_one_by_one: float = 1e-3
    # At or above this canonical correlation, components that disagree have only traded places.
    same_subspace: float = 0.95


AGREEMENT = AgreementPlan()


@dataclass(frozen=True)
class Agreement:
    """How closely the components of a model match those of exact kernel PCA on the same rows."""

    components: Annotated[np.ndarray, "float[M]"]  # correlation of the scores with those of exact kernel PCA
    subspace: Annotated[float, "float"]  # smallest canonical correlation between the two sets of components
    n_samples: Annotated[int, "count"]  # number of rows that the agreement was measured on

    _file_sizes = ("M",)

    def warn(self) -> None:
        """Warn of components that differ from those of exact kernel PCA, with advice."""
        poor = np.flatnonzero(self.components < HALF)
        if not len(poor):
            return
        named = ", ".join(str(k + 1) for k in poor[:5]) + (f" and {len(poor) - 5} more" if len(poor) > 5 else "")
        what = f"component {named} is" if len(poor) == 1 else f"components {named} are"
        if self.subspace >= AGREEMENT.same_subspace:
            why = (
                f"all components together are (agreement {self.subspace:.2f}), so some of nearly equal variance have "
                "traded places. Nothing is lost to a method that uses all of them; more points (n_support) set them "
                "right"
            )
        else:
            why = "give more points (n_support) or fewer components (n_components)"
        warn(
            f"{what} mostly not what exact kernel PCA gives (agreement {self.components.min():.2f}, "
            f"component_agreement_): {why}",
            PoorComponentsWarning,
        )


def rows_for_agreement(kernel: Kernel, n_features: int, n_components: int) -> int:
    """The largest number of rows that exact kernel PCA is computed on; of more rows, a random part is used."""
    if kernel.precomputed:
        n_features = 0
    elif not kernel.differentiable and kernel.definite is None:
        return AGREEMENT.dear_rows
    return math.isqrt(int(AGREEMENT.max_pair_work / (n_features + _n_ahead(n_components) + AGREEMENT.kernel_cost)))


def agreement_with_exact(expansion: KernelExpansion, rows: SampledRows, n_threads: int = 1) -> Agreement:
    """Agreement of an expansion with exact kernel PCA of these rows, which are in random order."""
    n, omega = len(rows.indices), unit_weights(rows.weights, len(rows.indices))
    center = expansion.mean_coef is not None
    with one_blas_thread():
        exact = exact_scores(rows, expansion.kernel, expansion.n_components, center=center, n_threads=n_threads)
        scores = to_numpy(expansion.transform(as_float64(rows.values), n_threads))
    return Agreement(*agreement_of_scores(scores, exact, omega, center=center), n)


def agreement_on_all(expansion: KernelExpansion, rows: RowSet, on_rows: PointsOnRows | None = None) -> Agreement | None:
    """Agreement of an expansion with exact kernel PCA of all rows, which the fit has already computed.

    `on_rows` may have the kernel values of rows and points, so that they are not computed again.

    None if these are not all rows, or if the last components have so little variance that the solver may have mixed
    them (spectrum/top.py), so that they are not known separately.
    """
    if not rows.is_all or not rows.exact.variances[-1] > AGREEMENT.known_one_by_one * rows.exact.variances[0]:
        return None
    exact = to_numpy(rows.targets).astype(np.float64)
    if on_rows is not None and on_rows.rows is rows:
        scores = to_numpy(on_rows.features(expansion.coef)) - to_numpy(expansion.offset)
    else:
        # a copy: the model itself keeps no bound kernel
        scores = to_numpy(replace(expansion).transform(as_float64(rows.given)))
    if rows.center:
        exact = exact - rows.unit_weights @ exact
    return Agreement(*agreement_of_scores(scores, exact, rows.unit_weights, center=rows.center), rows.size)


def agreement_of_scores(
    scores: np.ndarray, exact: np.ndarray, omega: np.ndarray, *, center: bool
) -> tuple[np.ndarray, float]:
    """Correlations of the columns of `scores` with those of `exact`, and the smallest canonical correlation.

    The columns of `exact` must be uncorrelated.
    """
    root, found = np.sqrt(omega)[:, None], np.zeros(scores.shape[1])
    scores = root * (scores - omega @ scores if center else scores)
    exact = root * exact
    lengths = np.linalg.norm(scores, axis=0)[: exact.shape[1]] * np.linalg.norm(exact, axis=0)
    products = np.abs(np.sum(scores[:, : exact.shape[1]] * exact, axis=0))
    found[: exact.shape[1]] = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    if exact.shape[1] < scores.shape[1]:
        return np.minimum(found, 1.0), 0.0
    left, sizes, _ = np.linalg.svd(scores / np.maximum(np.linalg.norm(scores, axis=0), 1e-300), full_matrices=False)
    if sizes[-1] <= 1e-10 * sizes[0]:
        return np.minimum(found, 1.0), 0.0
    angles = np.linalg.svd(left.T @ (exact / np.linalg.norm(exact, axis=0)), compute_uv=False)
    return np.minimum(found, 1.0), float(min(angles[-1], 1.0))


def exact_scores(
    rows: SampledRows, kernel: Kernel, n_components: int, *, center: bool, n_threads: int = 1
) -> np.ndarray:
    """(n, M) scores of exact kernel PCA of rows in random order; fewer columns if the rank is below M."""
    points = as_float64(kernel.at(rows.X, rows.indices)[1])
    n, kernel = len(rows.indices), kernel.of_rows(len(rows.indices))
    omega = unit_weights(rows.weights, n)

    def scored(places: np.ndarray, coef: np.ndarray) -> np.ndarray:
        over = KernelExpansion.of(*kernel.part(points, places), coef, np.zeros(coef.shape[1]), None)
        scores = to_numpy(over.transform(points, n_threads))
        return scores - omega @ scores if center else scores

    sample = _reference(SampledRows(points, np.arange(n), rows.weights, whole=True), kernel, n_components, center)
    known = sample.evaluation
    scores = scored(sample.rows.indices[: known.size], _orthonormal(known))
    values, scores = _ritz(scores, omega, scores.shape[1])
    for _ in range(0 if known.is_all else AGREEMENT.max_steps):
        weighted = omega[:, None] * scores
        before = weighted[:, :n_components]
        values, scores = _with_residuals(values, scores, scored(np.arange(n), weighted), omega)
        # Each column of scores has length sqrt(value).
        turned = np.abs(np.sum(before * scores[:, : before.shape[1]], axis=0))
        unturned = turned >= AGREEMENT.same_direction * np.sqrt(
            values[: before.shape[1]] * (before**2 / omega[:, None]).sum(axis=0)
        )
        if unturned.all():
            break
    return scores[:, :n_components]


def scores_on_points(rows: SampledRows, chosen: Points, n_components: int, *, center: bool) -> np.ndarray:
    """(n, M) scores of these rows along the best components on chosen points; fewer columns if the rank is below M."""
    omega, values = unit_weights(rows.weights, len(rows.indices)), as_float64(rows.values)
    whitening = to_numpy(chosen.spectrum.whitening(RANK_TOLERANCE).matrix)
    scores = to_numpy(chosen.kernel(values, points_like(chosen.points, values))) @ whitening
    return _ritz(scores - omega @ scores if center else scores, omega, n_components)[1]


def _n_ahead(n_components: int) -> int:
    return AGREEMENT.start_components_per_component * n_components + AGREEMENT.start_components


def _reference(rows: SampledRows, kernel: Kernel, n_components: int, center: bool) -> Sample:
    """A sample of these rows, with the reference rows as its evaluation rows."""
    n_ahead = min(_n_ahead(n_components), len(rows.indices))
    n_rows = max(AGREEMENT.reference_rows, AGREEMENT.reference_rows_per_start * n_ahead)
    plan = replace(PLAN, all_evaluated=n_rows)
    sample = Sample.of(rows, kernel, n_ahead, center=center, n_evaluation=n_rows, plan=plan).representative.in_float64
    if sample.indefiniteness and not sample.evaluation.is_all:
        raise ValueError(
            "the kernel is not positive semi-definite on these rows: its agreement with exact kernel PCA is measured "
            f"on at most {n_rows} rows"
        )
    return sample


def _orthonormal(rows: RowSet) -> np.ndarray:
    """Coefficients of the components of exact kernel PCA of these rows, over the rows."""
    found = exact_components(rows.gram, rows.n_components, center=rows.center, weights=rows.weights, precise=True)
    real = found.variances > ROUNDING[8] * found.variances[0]
    return to_numpy(found.row_coef)[:, real] / np.sqrt(found.variances[real])


def _ritz(scores: np.ndarray, omega: np.ndarray, n_most: int) -> tuple[np.ndarray, np.ndarray]:
    """Variances and scores of the best components in the span of orthonormal ones, whose scores are given."""
    values, vectors = top_eigh(scores.T @ (omega[:, None] * scores), n_most)
    real = values > ROUNDING[8] * max(float(values[0]), 0.0)
    return values[real], scores @ vectors[:, real]


def _with_residuals(
    values: np.ndarray, scores: np.ndarray, after: np.ndarray, omega: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Variances and scores of the best components in the span of u and r.

    `values` and `scores` are the variances and scores of u; `after` are the scores of C u.
    """
    residual = (after - scores * values) / values
    lengths = (scores.T @ (omega[:, None] * after)) / np.outer(values, values) - np.eye(len(values))
    squares, turned = top_eigh((lengths + lengths.T) / 2)
    real = squares > SOLVED
    both = np.hstack([scores, residual @ (turned[:, real] / np.sqrt(squares[real]))])
    return _ritz(both, omega, len(values))
