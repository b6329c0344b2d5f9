"""LikelihoodKernelPCA: sparse kernel PCA by maximum likelihood.

The covariance of the model is sum_i w_i phi(x_i) phi(x_i)' plus noise.  Let K be the gram of the vectors, the rows of
positive weight, and W the diagonal matrix of their weights.  With W^1/2 K W^1/2 = U Lam U', the axes of the model have
the coefficients W^1/2 U Lam^-1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, as_float64, take_rows, to_numpy, top_eigh
from ..errors import warn
from ..fit.expansion import KernelExpansion
from ..fit.outliers import JudgesKernelRows
from ..fit.parameters import INNER_SHARE, at_least, estimator, more_than, one_of, parameter
from ..fit.problem import NOTHING_TO_EXPLAIN
from ..fit.sample import Sample
from ..fit.span import Span
from ..numerics import DEPENDENT, SOLVED
from ..rows.checks import finite
from ..rules.base import Choice
from ..solvers.likelihood import Likelihood, LikelihoodFit, coordinate_ascent, largest_within, sweeps
from ..spectrum.top import component_signs
from .base import Found, KernelTransformer
from .published import OnDictionary

# If no parameter says how sparse the model should be, the noise variance is multiplied by NOISE_STEP_DOWN until the
# vectors explain the share ENOUGH of the variance about the mean, or there are MOST_VECTORS of them.
ENOUGH, MOST_VECTORS = 0.95, 60
NOISE_STEP_DOWN, MAX_STEPS_DOWN = 0.3, 20
# Noise variances below this share of the largest admissible one are refused: dividing by their square overflows.
SMALLEST_NOISE = 1e-100


@dataclass(frozen=True)
class Axes:
    """The principal axes of a model."""

    places: np.ndarray  # (m,) places of the vectors among the candidates, in the order of the rows
    coef: np.ndarray  # (m, M), orthonormal in feature space
    eigenvalues: np.ndarray  # (M,) eigenvalues of sum_i w_i phi_i phi_i'
    variances: np.ndarray  # (M,) variances of the training rows' scores


def sufficient(likelihood: Likelihood, span: Span, *, max_iter: int = 10_000, tol: float = 1e-8) -> LikelihoodFit:
    """The sparsest model that explains enough of the variance or has enough vectors, on a path of noise variances.

    The noise variance is lowered step by step.  Explained variance is a share of the variance about the mean, even if
    features are not centred; otherwise it would be enough to explain the mean, which takes one vector of a wide kernel.
    """
    spread = max(span.mean_length - span.mean_square, DEPENDENT * span.mean_length)
    best: LikelihoodFit | None = None
    for step in range(1, MAX_STEPS_DOWN + 1):
        noise_variance = likelihood.largest_noise_variance * NOISE_STEP_DOWN**step
        start = None if best is None else best.weights
        found = coordinate_ascent(likelihood, noise_variance, start, max_iter=max_iter, tol=tol)
        if best is not None and len(found.active) > MOST_VECTORS:
            return best
        best = found
        explained = float(axes_of(span, found, None).variances.sum())
        if span.total_variance - explained <= (1 - ENOUGH) * spread or len(found.active) >= MOST_VECTORS:
            return best
    assert best is not None
    return best


def likelihood_on(span: Span) -> Likelihood:
    """The likelihood of all rows, as a function of the candidate rows' weights."""
    return Likelihood(span.gram, span.features, span.weight, span.weight * span.total_variance)


def _orthonormalised(coef: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """Coefficients orthonormalised in order; under a wide kernel, rounding may leave only the first ones."""
    factor = np.linalg.cholesky(coef.T @ gram @ coef)
    coef = scipy.linalg.solve_triangular(factor, coef.T, lower=True).T
    off = np.abs(coef.T @ gram @ coef - np.eye(coef.shape[1]))
    within = np.maximum.accumulate(np.maximum(np.tril(off).max(axis=1), np.triu(off).max(axis=0))) <= SOLVED
    return coef[:, : max(1, int(within.sum()))]


def axes_of(span: Span, found: LikelihoodFit, n_components: int | None) -> Axes:
    """The axes of a model, with the coefficients W^1/2 U Lam^-1/2, orthonormalised again to remove rounding errors."""
    assert span.indices is not None
    places = found.active[np.argsort(span.indices[found.active])]
    gram, root = span.gram_at(places), np.sqrt(found.weights[places])
    if not len(places):
        raise ValueError(
            "the likelihood leaves no vector on these rows: give a larger noise_variance, or a noise_fraction"
        )
    values, vectors = top_eigh(root[:, None] * gram * root)
    n_axes = int(np.sum(values > DEPENDENT * values[0]))
    n_axes = n_axes if n_components is None else min(n_components, n_axes)
    coef = root[:, None] * vectors[:, :n_axes] / np.sqrt(values[:n_axes])
    coef = _orthonormalised(coef, gram)
    coef = coef * component_signs(coef)
    scores = coef.T @ span.features[places]
    return Axes(places, coef, values[: coef.shape[1]], np.einsum("ij,ij->i", scores, scores) / span.weight)


def check_not_tiny(noise_variance: float, limit: float) -> None:
    """Raise if a noise variance is so small, compared with the largest admissible one, that its square underflows."""
    if noise_variance < SMALLEST_NOISE * limit:
        raise ValueError(
            f"noise_variance={noise_variance:.6g} is too small to compute with (the rows' variance allows up to "
            f"{limit:.6g}): give a larger noise_variance, or a noise_fraction, or n_support"
        )


@dataclass(frozen=True)
class _Density:
    """The density of rows under a fitted model, for `score_samples`."""

    modelled: KernelExpansion  # the squared length of its scores is k_x' Sigma k_x / s2
    logdet: float
    noise_variance: float

    def logarithms(self, rows: Array, lengths: Array | None, n_threads: int) -> Array:
        """(n,) log-densities up to a constant; `lengths` are k(x, x), computed by the kernel if None."""
        rows = rows if self.modelled.kernel.bounded else as_float64(rows)  # in float32 a quotient may overflow
        length, modelled = self.modelled.variance_parts(rows, lengths, n_threads)
        return -0.5 * (self.logdet + (length - modelled) / float(self.noise_variance))


@estimator
class LikelihoodKernelPCA(JudgesKernelRows, OnDictionary, KernelTransformer):
    """Sparse kernel PCA by maximum likelihood (Tipping 2000).

    Features are modelled as a Gaussian whose covariance is built on a few of the rows,

        phi(x) ~ N(0, C),        C = noise_variance I + sum_i w_i phi(x_i) phi(x_i)',        w_i >= 0

    and the weights maximise the likelihood of all rows.  Most weights become zero; the rows with positive weights are
    the representing vectors, and the axes of C are the components.  `noise_variance` is a variance per direction: the
    larger it is, the fewer vectors remain.  `likelihood_path` shows how many remain for each value.

    Cost: with r candidate rows (all of up to 2000, otherwise `n_dictionary`), one pass over the rows takes
    O(N r (d + r)) time.  Then update="coordinate" takes O(r m) time per step, the other rules O(m^3) per sweep.  A
    transform takes O(m (d + M)) time per row.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components M; None for all axes of the model, whose number is at most that of the vectors.
    noise_variance : float or None, default=None
        Noise variance per direction, between 0 and max_i mean_n k(x_i, x_n)^2 / k(x_i, x_i), above which the
        best model has no vectors.
    noise_fraction : float or None, default=None
        The noise variance as a fraction of the upper limit of `noise_variance`.
    n_support : int or None, default=None
        Search for the noise variance at which as many vectors as possible remain, but at most this many.  Not every
        number occurs.  If `noise_variance`, `noise_fraction` and `n_support` are all None, the noise variance is
        lowered until the vectors explain 95 % of the variance about the mean, or until there would be more than 60.
    update : {"coordinate", "fast", "em"}, default="coordinate"
        "coordinate" maximises the likelihood over one weight at a time, exactly, starting from an empty model.  "fast"
        and "em" are the published rules, which re-estimate all weights at once, starting from equal weights; "fast"
        takes an EM step if the likelihood would fall.  They need thousands of sweeps and leave more vectors.
    kernel, gamma, degree, coef0, kernel_params
        As in SparseKernelPCA.
    center : bool, default=False
        Centre the features, which the published model does not do.  With centring, the axes are still built on
        uncentred features, and they do not become those of centred kernel PCA as the noise vanishes.
    n_dictionary : int or None, default=None
        Number of candidate rows, chosen by randomly pivoted Cholesky.  None takes all rows if at most 2000 are
        different, otherwise 512.
    prune_tol : float, default=1e-3
        For "fast" and "em": a vector is removed if w_i k_ii < prune_tol * noise_variance and the likelihood does not
        fall.
    tol : float, default=1e-8
        The iteration has converged when no step increases the log-likelihood per row by more than this.
    max_iter : int, default=10000
        Largest number of steps ("coordinate") or sweeps ("fast", "em").
    false_alarm_rate : float, default=0.05
        Share of rows like the training rows that `predict` may label as novel.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Number of threads for the pass over the rows, as in SparseKernelPCA.
    batch_size : int or None, default=None
        Number of rows read at a time from files and arrays on disk; None for 32 MB of rows.
    device : str or None, default=None
        The torch device on which rows from the host are processed, such as "cuda".  Arrays that are already on a device
        are always processed there.
    verbose : bool, default=False
        As in SparseKernelPCA.

    Attributes
    ----------
    weights_ : ndarray of shape (m,)
        Weights w of the representing vectors.
    log_likelihood_ : ndarray of shape (n_iter_ + 1,)
        Log-likelihood of the training rows before the first step and after each step, up to a constant that depends
        only on `noise_variance_`.  It never falls.
    noise_variance_, noise_variance_limit_ : float
        The noise variance of the model, and the upper limit of admissible noise variances.
    eigenvalues_ : ndarray of shape (M,)
        Eigenvalues of the model's covariance without noise, sum_i w_i phi(x_i) phi(x_i)'.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (M,)
        Mean square (variance when centred) of the scores on the training rows, and its share of the total.
    n_components_ : int
    threshold_ : float
        The limit that `decision_function` subtracts: the quantile of `score_samples` at `false_alarm_rate`, over up to
        a few thousand training rows that are not representing vectors.  `KernelMonitor(estimator=...)` determines its
        limit on held-out folds instead.
    expansion_, support_vectors_, support_, n_support_, dual_coef_, offset_, gamma_, captured_ratio_,
    captured_ratio_kind_, captured_ratio_n_samples_, n_samples_seen_, n_iter_, converged_
        As in SparseKernelPCA.

    References
    ----------
    Tipping (2000), Sparse kernel principal component analysis, NIPS 13.
    Tipping & Faul (2003), Fast marginal likelihood maximisation for sparse Bayesian models.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import LikelihoodKernelPCA
    >>> X = load_iris().data
    >>> model = LikelihoodKernelPCA(n_support=10, random_state=0).fit(X)
    >>> model.n_support_ <= 10
    True
    >>> model.score_samples(X).shape
    (150,)
    """

    _file_layout = {
        "_logdet": "float",
        "_density": "KernelExpansion[m, p, m]",
        "weights_": "float[m]",
        "log_likelihood_": "float[*]~",
        "noise_variance_": "positive",
        "noise_variance_limit_": "float~",
        "threshold_": "float optional",
        "n_components_": "int",
    }

    n_components: int | None = parameter(None, at_least(1), None, positional=True)
    noise_variance: float | None = parameter(None, more_than(0), None)
    noise_fraction: float | None = parameter(None, INNER_SHARE, None)
    n_support: int | None = parameter(None, at_least(1), None)
    update: str = parameter("coordinate", one_of("coordinate", "fast", "em"))
    center: bool = parameter(False, "boolean")
    prune_tol: float = parameter(1e-3, at_least(0, Real))
    tol: float = parameter(1e-8, at_least(0, Real))
    max_iter: int = parameter(10_000, at_least(1))
    false_alarm_rate: float = parameter(0.05, INNER_SHARE)

    def _check_parameters(self, sample_weight: Any) -> None:
        if self.noise_variance is not None and self.n_support is not None:
            raise ValueError("noise_variance and n_support are two ways to say how sparse: give one of them")

    def _components(self, choice: Choice, span: Span) -> Found:
        likelihood = likelihood_on(span)
        found = self._maximise(likelihood, span)
        axes = axes_of(span, found, self.n_components)
        self._warn_about(found, axes, likelihood.largest_noise_variance)
        expansion = span.expansion_at(axes.places, axes.coef)
        half, logdet = likelihood.posterior(axes.places, found.weights, found.noise_variance)
        density = self._density_of(span, axes, expansion, half.T / np.sqrt(found.noise_variance))
        assert span.indices is not None
        support = span.indices[axes.places]
        return Found(
            expansion,
            support,
            axes.variances,
            axes.eigenvalues,
            attributes={
                "weights_": found.weights[axes.places],
                "log_likelihood_": found.log_likelihood,
                "noise_variance_": found.noise_variance,
                "noise_variance_limit_": likelihood.largest_noise_variance,
                "n_components_": len(axes.eigenvalues),
                "n_iter_": found.n_iter,
                "converged_": found.converged,
                "_logdet": logdet,
                "_density": density,
                "threshold_": self._threshold(
                    choice.problem.sample, support, _Density(density, logdet, found.noise_variance)
                ),
            },
        )

    def _density_of(self, span: Span, axes: Axes, model: KernelExpansion, coef: np.ndarray) -> KernelExpansion:
        """An expansion on the model's points; the squared length of a row's scores is what the model explains of it."""
        offset = span.mean_cross_gram[axes.places] @ coef if self.center else np.zeros(coef.shape[1])
        return KernelExpansion.of(model.kernel, model.points, coef, offset, model.mean_coef)

    def score_samples(self, X: Any, *, diagonal: Any = None) -> Array:
        """Log-likelihood of each row under the model, up to a constant: low for rows unlike the training rows.

            -1/2 (logdet(I + W^1/2 K W^1/2 / s2) + (k(x, x) - k_x' Sigma k_x / s2) / s2)

        With centring, features are relative to the projection of their mean on the span of the representing vectors.

        Parameters
        ----------
        X, diagonal
            As in `reconstruction_error`.

        Returns
        -------
        ndarray of shape (n_samples,)
            For rows in blocks, an iterator of such arrays, one for each block.
        """
        check_is_fitted(self)
        density = _Density(self._density, self._logdet, self.noise_variance_)
        return self._one_a_row(partial(density.logarithms, n_threads=self._n_threads()), X, diagonal)

    @property
    def _least_score(self) -> float:
        if not hasattr(self, "threshold_"):
            raise ValueError("this model was saved by a version that had no threshold_: fit it again to judge rows")
        return self.threshold_

    def _threshold(self, sample: Sample, support: np.ndarray, density: _Density) -> float:
        """The limit of `score_samples`: its quantile at `false_alarm_rate` over rows that are not vectors.

        Vectors are left out because the model fits them better than new rows.
        """
        chosen = sample.rows.indices[: sample.n_evaluation]
        others = ~np.isin(sample.rows.numbers_of(chosen), support)
        places = np.flatnonzero(others if others.any() else ~others)
        rows = finite(take_rows(sample.evaluation.given, places))
        diagonal = None
        if sample.kernel.precomputed:
            diagonal = np.asarray(sample.rows.X.diagonal())[chosen[places]]
        scores = to_numpy(density.logarithms(rows, diagonal, sample.n_threads)).astype(np.float64)
        weights = None if sample.rows.weights is None else sample.rows.weights[places]
        limit = float(np.quantile(scores, self.false_alarm_rate, method="inverted_cdf", weights=weights))
        # The limit is lowered a little, so that rounding does not put the row at the limit below it.
        return limit - SOLVED * float(np.abs(scores).max())

    def _maximise(self, likelihood: Likelihood, span: Span) -> LikelihoodFit:
        limit = likelihood.largest_noise_variance
        if not limit > 0:
            raise ValueError(NOTHING_TO_EXPLAIN)
        noise_variance = None if self.noise_variance is None else float(self.noise_variance)
        if self.n_support is not None:
            return largest_within(
                self.n_support, limit, lambda noise, start: self._solve(likelihood, noise, start, self.n_support)
            )
        if noise_variance is None and self.noise_fraction is None:
            if self.update == "coordinate":
                return sufficient(likelihood, span, max_iter=self.max_iter, tol=self.tol)
            noise_variance = sufficient(likelihood, span).noise_variance
        if noise_variance is None:
            assert self.noise_fraction is not None
            noise_variance = float(self.noise_fraction) * limit
        if not noise_variance < limit:
            raise ValueError(
                f"noise_variance={noise_variance:.6g} leaves nothing to model on these rows: give a value between 0 "
                f"and {limit:.6g}, or noise_fraction, or n_support"
            )
        check_not_tiny(noise_variance, limit)
        return self._solve(likelihood, noise_variance, None)

    def _solve(
        self, likelihood: Likelihood, noise_variance: float, start: np.ndarray | None, max_support: int | None = None
    ) -> LikelihoodFit:
        if self.update == "coordinate":
            return coordinate_ascent(
                likelihood, noise_variance, start, max_iter=self.max_iter, tol=self.tol, max_support=max_support
            )
        # These rules cannot add vectors, so they never start from a sparser model.
        fast = self.update == "fast"
        return sweeps(
            likelihood, noise_variance, fast=fast, max_iter=self.max_iter, tol=self.tol, prune_tol=self.prune_tol
        )

    def _warn_about(self, found: LikelihoodFit, axes: Axes, limit: float) -> None:
        n_support, n_components = len(axes.places), len(axes.eigenvalues)
        advice = f"A noise_variance below {found.noise_variance:.3g} (of at most {limit:.3g}) keeps more vectors"
        if n_support == 1:
            warn(f"the model has collapsed to one vector. {advice}")
        elif self.n_components is not None and n_components < self.n_components:
            warn(f"the model has {n_components} axes, fewer than n_components={self.n_components}. {advice}")
        if not found.converged:
            warn(
                f"the likelihood was still rising after max_iter={self.max_iter} steps of update={self.update!r}",
                ConvergenceWarning,
            )
