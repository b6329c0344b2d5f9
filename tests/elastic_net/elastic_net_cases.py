"""What the tests of ElasticNetKernelPCA share: the printed criterion, written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from oracles import exact_kernel_pca

TIGHT = 1e-10  # duality gap at which a solution's support is settled


RBF = {"gamma": 0.3}


centrings = pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])


sparsities = pytest.mark.parametrize("sparsity", ["component", "joint"])


def whole_coef(model, n_rows):
    """The components over all rows, (n, M)."""
    coef = np.zeros((n_rows, model.dual_coef_.shape[1]))
    coef[model.support_] = model.dual_coef_
    return coef


class Criterion:
    """METHODS section 4 on a gram: J(a) = 1/2 (b-a)'K H K (b-a) + (l2/2) a'K a + alpha |a|_1, b kernel PCA's."""

    def __init__(self, gram, n_components, l2, *, center, weights=None):
        self.gram, self.l2 = gram, l2
        w = np.ones(len(gram)) if weights is None else weights
        about = gram - (gram @ w / w.sum())[:, None] if center else gram
        self.scatter = (about * w) @ about.T  # K H K
        self.b = exact_kernel_pca(gram, n_components, center=center, weights=weights)[1]

    @property
    def alpha_max(self):
        return np.abs(self.scatter @ self.b).max(axis=0)

    def smooth(self, a):
        return 0.5 * np.sum((self.b - a) * (self.scatter @ (self.b - a))) + 0.5 * self.l2 * np.sum(a * (self.gram @ a))

    def pull(self, a):
        """Minus the gradient of the smooth part."""
        return self.scatter @ (self.b - a) - self.l2 * self.gram @ a

    def stretched(self, unit, penalty):
        """The best a among the multiples of each column of `unit`."""
        unit = unit * np.sign(np.sum(unit * (self.scatter @ self.b), axis=0))
        used = unit.any(axis=0)

        def value(lengths):
            return self.smooth(unit * lengths) + penalty(unit * lengths)

        start = np.where(used, 0.5, 0.0)
        found = scipy.optimize.minimize(value, start, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-12})
        return unit * np.where(used, found.x, 0.0)


def by_component(alphas):
    return lambda a: float(np.sum(alphas * np.abs(a)))


def by_row(alpha):
    return lambda a: float(alpha * np.linalg.norm(a, axis=1).sum())


def assert_solves(criterion, model, n_rows, sparsity="component", atol=1e-3):
    """`objective_` is J at the model's components, and no coefficient wants to move."""
    penalty = by_row(model.alpha_[0]) if sparsity == "joint" else by_component(model.alpha_)
    a = criterion.stretched(whole_coef(model, n_rows), penalty)
    assert model.objective_[0] == pytest.approx(criterion.smooth(a) + penalty(a), rel=1e-6)
    pull = criterion.pull(a)
    lengths = np.linalg.norm(a, axis=1, keepdims=True) if sparsity == "joint" else np.abs(a)
    pulls = np.linalg.norm(pull, axis=1, keepdims=True) if sparsity == "joint" else np.abs(pull)
    assert np.all(pulls <= model.alpha_[: pulls.shape[1]] * (1 + atol))
    wanted = model.alpha_ * a / np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(np.where(lengths > 0, pull - wanted, 0), 0, atol=atol * model.alpha_.max())


def assert_same_model(one, other, new_rows, times=1.0, atol=1e-7):
    np.testing.assert_array_equal(one.n_nonzero_, other.n_nonzero_)
    np.testing.assert_allclose(other.transform(new_rows), one.transform(new_rows), atol=atol)
    np.testing.assert_allclose(other.reconstruction_error(new_rows), one.reconstruction_error(new_rows), atol=atol)
    np.testing.assert_allclose(other.explained_variance_, one.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(other.eigenvalues_, times * one.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(other.alpha_max_, times * one.alpha_max_, rtol=1e-6)
    np.testing.assert_allclose(other.objective_, times * one.objective_, rtol=1e-6)
    assert other.l2_ == pytest.approx(times * one.l2_, rel=1e-6)
    assert other.captured_ratio_ == pytest.approx(one.captured_ratio_, abs=1e-7)
