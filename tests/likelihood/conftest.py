"""Rows that the tests of the likelihood share."""

from __future__ import annotations

import numpy as np
import pytest
from likelihood_cases import POLY, fitted

from kernelsieve.threads import one_blas_thread


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """Solvers leave it to the estimator."""
    with one_blas_thread():
        yield


@pytest.fixture(scope="module")
def rows(cloud):
    """50 rows of three features, for the polynomial kernel whose feature space is written down."""
    return cloud[:50, :3]


@pytest.fixture(scope="module")
def clusters():
    """Tipping's three clusters of 30, as METHODS' figures have them."""
    centers = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
    return np.repeat(centers, 30, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((90, 2))


@pytest.fixture(scope="module")
def poly_model(rows):
    with one_blas_thread():
        return fitted(rows, kernel="poly", noise_variance=0.2, **POLY)
