"""Oracles that the tests share.

Truth never comes from the code under test: it comes from scikit-learn, from a dense eigendecomposition of
the whole gram in float64, or from brute force.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import scipy.linalg
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import pairwise
from threadpoolctl import threadpool_limits

from kernelsieve.fit.problem import Problem
from kernelsieve.search.chooser import dictionary

# Name and parameters of every named vector kernel, gamma a number of order 1 / (squared length) of `cloud`.
KERNELS = {
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.4, "degree": 3, "coef0": 1.0},
    "linear": {},
    "sigmoid": {"gamma": 0.05, "coef0": 0.2},
    "cosine": {},
    "laplacian": {"gamma": 0.25},
    "matern": {"gamma": 0.3},
}


def matern(X, Y=None, gamma=None):
    """scikit-learn's Gaussian-process kernel of smoothness 3/2, whose width is 1 / sqrt(2 gamma)."""
    return Matern(length_scale=(2 * gamma) ** -0.5, nu=1.5)(X, Y)


def gram_of(name, X, Y=None, **params):
    """k(X, Y) by scikit-learn."""
    function = {
        "rbf": pairwise.rbf_kernel,
        "poly": pairwise.polynomial_kernel,
        "linear": pairwise.linear_kernel,
        "sigmoid": pairwise.sigmoid_kernel,
        "cosine": pairwise.cosine_similarity,
        "laplacian": pairwise.laplacian_kernel,
        "matern": matern,
    }[name]
    return function(X, Y, **params)


def exact_kernel_pca(gram, n_components, *, center=True, weights=None):
    """(eigenvalues as scikit-learn's KernelPCA, unit components over the rows, offset) by LAPACK's eigh.

    With weights w (sum n) the covariance is that of the rows repeated w times.  The scores of new rows are
    k(x, X) components - offset.
    """
    n = len(gram)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    omega, root = w / w.sum(), np.sqrt(w)
    centred = gram
    if center:
        means = omega @ gram
        centred = gram - means - means[:, None] + omega @ means
    with threadpool_limits(1):  # on a busy machine LAPACK's own threads cost far more than they gain
        values, vectors = scipy.linalg.eigh(
            root[:, None] * centred * root, subset_by_index=[n - n_components, n - 1], overwrite_a=True
        )
    values, vectors = values[::-1], vectors[:, ::-1]
    components = root[:, None] * vectors / np.sqrt(values)
    if center:
        components = components - omega[:, None] * components.sum(axis=0)
    offset = omega @ gram @ components if center else np.zeros(n_components)
    return values, components, offset


def captured_by(gram_ss, cross, n_components, *, center=True):
    """The most variance that components in span(phi(S)) capture on rows with cross-gram `cross`: a generalised
    eigenproblem solved on the numerical range of K_SS."""
    values, vectors = np.linalg.eigh(gram_ss)
    keep = values > 1e-10 * values[-1]
    features = cross @ (vectors[:, keep] / np.sqrt(values[keep]))
    if center:
        features = features - features.mean(axis=0)
    spectrum = np.linalg.svd(features, compute_uv=False) ** 2 / len(cross)
    return float(spectrum[:n_components].sum())


def held_out_ratio(model, gram_train, gram_test, scores_test):
    """Variance of the model's scores on unseen rows over exact kernel PCA's on the same rows."""
    _, components, offset = exact_kernel_pca(gram_train, scores_test.shape[1])
    exact = gram_test @ components - offset
    return np.var(scores_test, axis=0).sum() / np.var(exact, axis=0).sum()


def match_signs(scores, truth):
    """`scores` with each column's sign turned to that of `truth`."""
    signs = np.sign(np.sum(np.asarray(scores) * np.asarray(truth), axis=0))
    return np.asarray(scores) * np.where(signs == 0, 1.0, signs)


def assert_same_up_to_sign(scores, truth, atol):
    np.testing.assert_allclose(match_signs(scores, truth), truth, rtol=0, atol=atol)


def subspace_gap(gram, coef_a, coef_b):
    """How far apart two sets of orthonormal components over the same points are: 0 same span, 1 orthogonal."""
    cosines = scipy.linalg.svdvals(coef_a.T @ gram @ coef_b)
    return float(np.sqrt(np.maximum(1 - cosines.min() ** 2, 0)))


def finite_difference(function, points, step=1e-5):
    """Central differences of a scalar function of an array."""
    gradient = np.empty_like(points)
    for index in np.ndindex(*points.shape):
        move = np.zeros_like(points)
        move[index] = step
        gradient[index] = (function(points + move) - function(points - move)) / (2 * step)
    return gradient


def value_and_gradient(objective, points):
    """What an objective of points says at some, without what the climb needs beside it."""
    found = objective.evaluate(points)
    return found.value, found.gradient


def dictionary_span(rows, sample, n_dictionary, rng):
    """The span of the dictionary that estimators would take on these rows."""
    problem = Problem(rows, sample, 1.0, rng)
    return problem.span(dictionary(problem, n_dictionary))


def run_python(code):
    """What a program prints, in a process of its own: for what it imports and the memory that it takes."""
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def six_clusters(n_rows, seed):
    """Rows of four columns about six centres."""
    rng = np.random.default_rng(seed)
    centers = 2 * rng.standard_normal((6, 4))
    return centers[rng.integers(6, size=n_rows)] + 0.6 * rng.standard_normal((n_rows, 4))


def whole_weights(n_rows):
    """Weights that are 0, 1, 2 or 3: numbers of copies."""
    return np.random.default_rng(4).integers(0, 4, n_rows).astype(float)


class CountingKernel:
    """A vectorised Gaussian that counts its evaluations and remembers the points it saw."""

    def __init__(self):
        self.evaluations = 0
        self.points = []

    def __call__(self, X, Y):
        self.evaluations += len(X) * len(Y)
        self.points.append(np.array(Y))
        return gram_of("rbf", X, Y, gamma=0.3)


def state_of(model):
    """All that a fit has left, arrays and records by their parts."""
    if hasattr(model, "__dict__"):
        return {name: state_of(value) for name, value in vars(model).items() if "callback" not in name}
    return model


def failure_of(call, *arguments):
    """The error by which a call says what is wrong with its arguments, None if it returns."""
    try:
        call(*arguments)
    except (ValueError, TypeError) as error:
        return error
    return None


def three_clusters():
    """Tipping's 90 points in the plane, which Wang & Tanaka use, too."""
    centers = np.repeat([(-0.5, -0.2), (0, 0.6), (0.5, 0)], 30, axis=0)
    return centers + 0.1 * np.random.default_rng(0).standard_normal((90, 2))


def quadratic_features(X, gamma=0.4, coef0=1.0):
    """phi with phi(x)'phi(y) = (gamma x'y + coef0)^2, written out."""
    X = np.sqrt(gamma) * X
    i, j = np.triu_indices(X.shape[1], 1)
    constant = np.full((len(X), 1), coef0)
    return np.hstack([X**2, np.sqrt(2) * X[:, i] * X[:, j], np.sqrt(2 * coef0) * X, constant])


def best_on(points, rows, weights=None, *, center=True, kernel="rbf", **params):
    """Eigenvalues and scores of the best three components on these points, from the features of all rows at once."""
    gram, cross = gram_of(kernel, points, **params), gram_of(kernel, rows, points, **params)
    values, vectors = np.linalg.eigh(gram)
    keep = values > 1e-11 * values[-1]
    features = cross @ (vectors[:, keep] / np.sqrt(values[keep]))
    w = np.ones(len(rows)) if weights is None else weights
    if center:
        features = features - w @ features / w.sum()
    spectrum, axes = np.linalg.eigh((features * w[:, None]).T @ features)
    return spectrum[::-1][:3], features @ axes[:, ::-1][:, :3]


def fed(model, rows, cuts=(), weights=None, *, step=None):
    """The model after `partial_fit` of the rows in pieces: cut at some places, or every `step` rows."""
    places = cuts if step is None else range(step, rows.shape[0], step)
    for part in np.split(np.arange(rows.shape[0]), places):
        model.partial_fit(rows[part], sample_weight=None if weights is None else weights[part])
    return model
