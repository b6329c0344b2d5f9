"""Rows and covariances in any unit: the same components, or an error that says so."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kernelsieve import ElasticNetPCA, sparse_pca_path
from kernelsieve.errors import ScaleError

ROWS = np.random.default_rng(5).standard_normal((300, 4))
COVARIANCE = np.cov(ROWS.T)
OPTIONS: list[dict[str, Any]] = [{"alpha": 0.1}, {"n_nonzero": 2, "mode": "sequential", "refit": True}]


@pytest.fixture(autouse=True)
def no_overflow_is_passed_over():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("size", [1e-110, 1e-60, 1e-20, 1e-13, 1e13, 1e20, 1e60, 1e110])
def test_a_covariance_in_another_unit_has_the_same_components(options: dict[str, Any], size: float) -> None:
    expected = ElasticNetPCA(2, **options).fit_covariance(COVARIANCE)
    found = ElasticNetPCA(2, **options).fit_covariance(COVARIANCE * size)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)
    np.testing.assert_allclose(found.explained_variance_ratio_, expected.explained_variance_ratio_, rtol=1e-7)
    np.testing.assert_allclose(found.explained_variance_ / size, expected.explained_variance_, rtol=1e-7)
    np.testing.assert_allclose(found.alpha_ / size, expected.alpha_, rtol=1e-7)
    # without a ridge, |b|^2 - 2 a'Sb + alpha |b|_1 at b of the size of S
    assert found.objective_ / size / size == pytest.approx(expected.objective_, rel=1e-9)


@pytest.mark.parametrize("size", [1e-20, 1e20])
def test_a_ridge_and_an_absolute_alpha_are_in_the_unit_of_the_covariance(size: float) -> None:
    options = {"alpha_scale": "absolute"}
    expected = ElasticNetPCA(2, alpha=0.2, l2=0.5, **options).fit_covariance(COVARIANCE)
    found = ElasticNetPCA(2, alpha=0.2 * size, l2=0.5 * size, **options).fit_covariance(COVARIANCE * size)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-7)
    assert found.objective_ / size == pytest.approx(expected.objective_, rel=1e-9)


@pytest.mark.parametrize("unit", [1e-40, 1e-9, 1e9, 1e40])
@pytest.mark.parametrize("l2", [np.inf, 0.5])
def test_the_objective_of_rows_in_another_unit_is_that_of_the_criterion(unit: float, l2: float) -> None:
    power = 4 if np.isinf(l2) else 2
    expected = ElasticNetPCA(2, alpha=0.1, l2=l2).fit(ROWS).objective_
    found = ElasticNetPCA(2, alpha=0.1, l2=l2 * unit**2).fit(ROWS * unit).objective_
    assert found / unit**power == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("unit", [1e-50, 1e-9, 1e9, 1e50])
@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("scale", ["relative", "absolute"])
def test_the_path_does_not_depend_on_the_unit(unit: float, covariance: bool, scale: str) -> None:
    X, size = (COVARIANCE, unit**2) if covariance else (ROWS, unit)
    alphas = np.array([0.9, 0.3, 0.05])
    absolute = alphas * unit**2 if scale == "absolute" else alphas
    expected = sparse_pca_path(X, alphas=alphas, covariance=covariance, alpha_scale=scale)
    found = sparse_pca_path(X * size, alphas=absolute, covariance=covariance, alpha_scale=scale)
    np.testing.assert_allclose(found.components, expected.components, atol=1e-6)
    np.testing.assert_allclose(found.explained_variance_ratio, expected.explained_variance_ratio, rtol=1e-6)
    np.testing.assert_array_equal(found.alphas, absolute)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_a_covariance_that_cannot_be_squared_is_refused_by_the_name_of_its_column(size: float) -> None:
    names = list("abcd")
    frame = pd.DataFrame(COVARIANCE * size, columns=names)
    model = ElasticNetPCA(2, alpha=0.1)
    with pytest.raises(ScaleError, match="column 'd' has a largest covariance of"):
        model.fit_covariance(frame)
    assert not hasattr(model, "components_")
    with pytest.raises(ScaleError, match="column 'd' has a largest covariance of"):
        sparse_pca_path(frame, covariance=True)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_rows_that_cannot_be_squared_are_refused_by_the_path_as_by_a_fit(unit: float) -> None:
    frame = pd.DataFrame(ROWS * unit, columns=list("abcd"))
    for refusing in (sparse_pca_path, ElasticNetPCA(2).fit):
        with pytest.raises(ScaleError, match=r"column 'a' .* square is too (small|large)"):
            refusing(frame)
