"""Rows that the tests of the likelihood share."""

from __future__ import annotations

import pytest
from likelihood_cases import POLY, fitted
from oracles import three_clusters

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
def poly_model(rows):
    with one_blas_thread():
        return fitted(rows, kernel="poly", noise_variance=0.2, **POLY)


@pytest.fixture(scope="module")
def clusters():
    return three_clusters()
