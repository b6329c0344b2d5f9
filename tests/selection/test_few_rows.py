"""Few rows: every rule is cheap, and the default is no worse than the best of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from test_moving_points import training_ratio

from kernelsieve import SparseKernelPCA

RULES = ("targeted", "gain", "residual", "farthest", "dissimilar", "rpcholesky", "kmeans")


def factors(rng):
    return rng.standard_normal((60, 8)) @ rng.standard_normal((8, 2000)) + rng.standard_normal((60, 2000))


def kinds(rng):
    return np.concatenate([np.eye(4)[rng.integers(0, 4, 40)] for _ in range(5)], axis=1)


TABLES = {
    "many columns, factors": (factors, "rbf", 0.25),
    "many columns, noise": (lambda rng: rng.standard_normal((26, 3000)), "rbf", 1.0),
    "many columns, counts": (lambda rng: rng.binomial(2, 0.3, (66, 900)).astype(float), "rbf", 1.0),
    "heavy tails": (lambda rng: rng.lognormal(0, 1.5, (66, 20)), "laplacian", 1.0),
    "kinds": (kinds, "rbf", 0.25),
}


@pytest.mark.parametrize("name", TABLES)
def test_few_rows_are_no_worse_off_than_with_the_best_of_all_rules(name):
    make, kernel, width = TABLES[name]
    X = make(np.random.default_rng(7))
    distances = pdist(X, "sqeuclidean" if kernel == "rbf" else "cityblock")
    gamma = 1 / np.median(distances) / (width**2 if kernel == "rbf" else width)
    for n_components, n_support in ((2, 3), (5, 12), (10, 11)):
        ratios = {
            selection: training_ratio(
                SparseKernelPCA(
                    n_components, n_support=n_support, selection=selection, kernel=kernel, gamma=gamma, random_state=0
                ).fit(X),
                X,
                kernel,
                gamma=gamma,
            )
            for selection in ("optimized", *RULES)
        }
        best = max(ratios[rule] for rule in RULES)
        assert ratios["optimized"] > best - 1e-3, (n_components, n_support, ratios)
