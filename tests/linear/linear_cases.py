"""Data with known sparse components."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse

from kernelsieve.linear.scatter import GramScatter, RowScatter

INF = math.inf


def sparse_signals(n_samples, n_features, size=5, seed=0, deviations=(3.0, 2.0)):
    """Rows with two components of disjoint support in noise, and those components."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((2, n_features))
    for j in range(2):
        truth[j, j * size : (j + 1) * size] = rng.choice([-1, 1], size) / np.sqrt(size)
    scores = rng.standard_normal((n_samples, 2)) * deviations
    return scores @ truth + 0.4 * rng.standard_normal((n_samples, n_features)) + rng.standard_normal(n_features), truth


def both_forms(X):
    centred = X - X.mean(axis=0)
    ones = np.ones(len(X))
    return {
        "gram": GramScatter(centred.T @ centred),
        "rows": RowScatter(centred, ones, None),
        "sparse rows": RowScatter(scipy.sparse.csc_matrix(X), ones, X.mean(axis=0)),
    }
