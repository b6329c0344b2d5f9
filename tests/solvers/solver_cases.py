"""Problems and slow solvers that the tests of the elastic-net solvers share."""

from __future__ import annotations

import numpy as np
from oracles import gram_of

from kernelsieve.solvers.alternation import kernel_pca_directions
from kernelsieve.solvers.greedy import pivoted_cholesky
from kernelsieve.solvers.quadratic import HessianQuadratic, elastic_net_quadratic, largest_alpha

CLUSTER_ALPHAS = (0.02, 0.02, 0.009, 0.008, 0.006, 0.007, 0.01, 0.01)


def parabola(n=500):
    """The paper's second example: all x first, then all noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + 0.2 * rng.standard_normal(n)])


def kernel_pca(gram, n_components):
    """b with b'K b = 1, (n, n_components), and K's eigenvalues."""
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    return vectors / np.sqrt(values), values


def hessian_problem(gram, b, l2):
    """METHODS section 4's K-only form, dense: H = K(K + l2 I), linear = K^2 b, constant b'K^2 b."""
    return HessianQuadratic(gram @ gram + l2 * gram, gram @ (gram @ b), float(np.vdot(b, gram @ (gram @ b))))


def factor_of(gram):
    return np.ascontiguousarray(pivoted_cholesky(lambda j: gram[:, j], np.diagonal(gram)).filled)


def printed_objective(gram, b, a, l2, alpha, weights=1.0):
    """J as METHODS section 4 prints it, with symmetric roots of K."""
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    p, q = root @ b, root @ a
    rows = np.abs(a) if a.ndim == 1 else np.linalg.norm(a, axis=1)
    return 0.5 * np.sum((root @ (p - q)) ** 2) + 0.5 * l2 * np.sum(q**2) + alpha * np.sum(weights * rows)


def dual_gap(hessian, linear, target_square, a, alpha, weights):
    """(primal - dual, primal) of the (group) lasso on an explicit design X and target y with X'X = H, X'y = linear and
    y'y = target_square: nothing of the code's formulas."""
    values, vectors = np.linalg.eigh(hessian)
    keep = values > 1e-13 * values[-1]
    matrix, linear = a.reshape(len(a), -1), linear.reshape(len(a), -1)
    design = np.sqrt(values[keep])[:, None] * vectors[:, keep].T
    target = (vectors[:, keep].T @ linear) / np.sqrt(values[keep])[:, None]
    outside = np.zeros((1, matrix.shape[1]))
    outside[0, 0] = np.sqrt(max(target_square - np.sum(target**2), 0.0))
    design, target = np.vstack([design, np.zeros((1, len(a)))]), np.vstack([target, outside])
    residual = target - design @ matrix
    theta = residual * min(1.0, alpha / np.max(np.linalg.norm(design.T @ residual, axis=1) / weights))
    primal = 0.5 * np.sum(residual**2) + alpha * np.sum(weights * np.linalg.norm(matrix, axis=1))
    return primal - 0.5 * np.sum(target**2) + 0.5 * np.sum((target - theta) ** 2), primal


def coordinate_descent(hessian, linear, alpha, weights, n_sweeps=20_000):
    """The slow obvious minimiser, one coordinate (or row) after another."""
    a = np.zeros_like(linear)
    for _ in range(n_sweeps):
        before = a.copy()
        for i in range(len(a)):
            g = linear[i] - hessian[i] @ a + hessian[i, i] * a[i]
            length = np.linalg.norm(g)
            a[i] = max(0.0, 1 - alpha * weights[i] / length) * g / hessian[i, i] if length > 0 else 0.0
        if np.abs(a - before).max() < 1e-15:
            break
    return a


def assert_optimal(hessian, linear, result, alpha, weights, atol):
    """0 in the subdifferential: c_i = alpha w_i a_i/|a_i| on the support, |c_i| <= alpha w_i off it."""
    a = result.coef if result.coef.ndim == 2 else result.coef[:, None]
    c = (linear if linear.ndim == 2 else linear[:, None]) - hessian @ a
    lengths = np.linalg.norm(a, axis=1)
    support = lengths > 0
    np.testing.assert_array_equal(np.flatnonzero(support), result.active)
    wanted = alpha * weights[support, None] * a[support] / lengths[support, None]
    np.testing.assert_allclose(c[support], wanted, rtol=0, atol=atol * alpha)
    assert np.all(np.linalg.norm(c[~support], axis=1) <= alpha * weights[~support] * (1 + atol))


def random_problem(seed, n_components=None):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 40))
    rows = rng.standard_normal((n, 2))
    if seed % 3 == 0:
        rows[n // 2 :] = rows[: n - n // 2]  # every point twice
    gram = gram_of("rbf", rows, gamma=10 ** rng.uniform(-1, 1))
    factor = factor_of(gram)
    moment = factor.T @ factor
    directions = kernel_pca_directions(moment, min(n_components or 1, len(moment)))
    l2 = 10 ** rng.uniform(-3, 0)
    problem = elastic_net_quadratic(factor, moment, directions if n_components else directions[:, 0], l2)
    weights = rng.uniform(0.5, 2, n) if seed % 2 else np.ones(n)
    return problem, weights, 10 ** rng.uniform(-2, -0.1) * largest_alpha(problem, weights)
