"""The likelihood by a Gaussian density in a feature space that can be written down, and the rules that climb it."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
import scipy.sparse.linalg
from scipy.stats import multivariate_normal

from kernelsieve import LikelihoodKernelPCA
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.sample import Sample
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.solvers.likelihood import Likelihood, LikelihoodFit, coordinate_ascent, sweeps

POLY = {"gamma": 0.5, "degree": 2, "coef0": 1.0}  # on three features: ten dimensions


RULES = {
    "coordinate": coordinate_ascent,
    "fast": sweeps,
    "em": lambda *arguments, **options: sweeps(*arguments, fast=False, **options),
}


CENTERED = pytest.mark.parametrize("center", [False, True], ids=["uncentred", "centred"])


def poly_features(X, *, gamma, degree, coef0):
    """phi with phi(x)'phi(y) = (gamma x'y + coef0)^degree: the monomials of (sqrt(gamma) x, sqrt(coef0))."""
    extended = np.column_stack([np.sqrt(gamma) * X, np.full(len(X), np.sqrt(coef0))])
    columns = []
    for chosen in combinations_with_replacement(range(extended.shape[1]), degree):
        ways = factorial(degree) / prod(factorial(count) for count in Counter(chosen).values())
        columns.append(np.sqrt(ways) * extended[:, chosen].prod(axis=1))
    return np.stack(columns, axis=1)


def covariance(points, weights, noise_variance):
    """C = s2 I + sum_i w_i phi_i phi_i'."""
    return noise_variance * np.eye(points.shape[1]) + (points.T * weights) @ points


def log_density(features, points, weights, noise_variance):
    """log N(phi; 0, C) of each row, less the constant -D/2 log(2 pi s2)."""
    constant = -0.5 * features.shape[1] * np.log(2 * np.pi * noise_variance)
    model = multivariate_normal(cov=covariance(points, weights, noise_variance))
    return model.logpdf(features) - constant


def likelihood_of(gram):
    """The likelihood of rows that are all their own dictionary."""
    return Likelihood(gram, gram, float(len(gram)), float(np.trace(gram)))


def some_weights(n, n_active, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.zeros(n)
    weights[rng.choice(n, n_active, replace=False)] = rng.uniform(0.01, 0.5, n_active)
    return weights


def direct_statistics(features, weights, noise_variance):
    """S_i = phi_i' C^-1 phi_i and Q_i = sum_n (phi_i' C^-1 phi_n)^2, by inverting C."""
    products = features @ np.linalg.inv(covariance(features, weights, noise_variance)) @ features.T
    return np.diagonal(products), np.sum(products**2, axis=1)


def wild_problem(seed):
    """A few points and rows of very different lengths, their features written down, and weights as different."""
    rng = np.random.default_rng(seed)
    n_points, n_rows, n_dimensions = rng.integers(2, 9), rng.integers(1, 6), rng.integers(1, 5)
    points = rng.standard_normal((n_points, n_dimensions)) * 10 ** rng.uniform(-1, 1, (n_points, 1))
    features = rng.standard_normal((n_rows, n_dimensions)) * 10 ** rng.uniform(-1, 1, (n_rows, 1))
    likelihood = Likelihood(points @ points.T, points @ features.T, float(n_rows), float(np.sum(features**2)))
    return likelihood, features, points, 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-3, 1.5, n_points)


def counted(counts):
    """A solver whose number of points is a function of the noise variance, and the calls it got."""
    calls = []

    def solve(noise_variance, start):
        calls.append((noise_variance, None if start is None else len(start)))
        return LikelihoodFit(np.ones(counts(noise_variance)), np.zeros(1), noise_variance, True)

    return solve, calls


def sampled(X, kernel, n_dictionary=None, weights=None, *, center=False, seed=0):
    rng = np.random.default_rng(seed)
    rows = ArrayRows(X, weights).sample(PLAN.rows_for_dictionary(n_dictionary), rng)
    return Sample.of(rows, kernel, 1, center=center), rng


def fitted(X, **options):
    return LikelihoodKernelPCA(**{"random_state": 0, **options}).fit(X)


def captured_on(gram, model, center):
    """The variance of the model's scores over exact kernel PCA's (by ARPACK), on the rows of the gram."""
    scores = gram[:, model.support_] @ model.dual_coef_ - model.offset_
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean() if center else gram
    values = scipy.sparse.linalg.eigsh(centred, k=model.n_components_, return_eigenvectors=False)
    return np.sum(scores**2) / values.sum()
