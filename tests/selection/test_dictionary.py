"""Dictionaries: what they sum up of all rows, against sums over the whole gram."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from oracles import KERNELS, dictionary_span, gram_of

from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.sample import Sample
from kernelsieve.fit.span import AllRowsSpan, PointSpan
from kernelsieve.kernels import Precomputed, bind_callable, named_kernel
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.threads import one_blas_thread


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_blas_thread():
        yield


KINDS = ("all rows", "all rows, summed", "some rows")


def dictionary_of(X, kernel, *, center=True, weights=None, n_dictionary=None, merge=True, seed=0):
    rng = np.random.default_rng(seed)
    source = ArrayRows(X, weights, merge_copies=merge)
    rows = source.sample(10_000, rng)
    return dictionary_span(source, Sample.of(rows, kernel, 2, center=center), n_dictionary, rng)


def of_kind(kind, X, name="rbf", **options):
    """A dictionary of one of the kinds.  A function is not known to be positive definite: its rows are summed up."""
    params = KERNELS[name]
    kernel = named_kernel(name, **params)
    if kind == "all rows, summed":
        kernel = bind_callable(lambda X, Y: gram_of(name, X, Y, **params), None, X)
    found = dictionary_of(X, kernel, n_dictionary=20 if kind == "some rows" else None, **options)
    assert type(found) is (AllRowsSpan if kind == "all rows" else PointSpan)
    assert len(found.indices) == (20 if kind == "some rows" else len(X))
    return found


@pytest.fixture(params=[None, "weighted"])
def weights(request):
    return None if request.param is None else np.random.default_rng(1).uniform(0.2, 3, 80)


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_everything_against_sums_over_the_gram(name, kind, center, weights, cloud):
    found = of_kind(kind, cloud, name, center=center, weights=weights)
    w = np.ones(80) if weights is None else weights
    gram, cross = (gram_of(name, cloud[found.indices], rows, **KERNELS[name]) for rows in (cloud[found.indices], cloud))
    mean = cross @ w / w.sum()
    about = cross - mean[:, None] if center else cross
    scatter = (about * w) @ about.T
    tiny = 1e-7 * gram.max()

    assert found.weight == pytest.approx(w.sum())
    np.testing.assert_allclose(found.mean_cross_gram, mean, atol=tiny)
    np.testing.assert_allclose(found.coordinates @ found.coordinates.T, gram, atol=tiny)
    np.testing.assert_allclose(
        found.coordinates @ found.moment @ found.coordinates.T, scatter, atol=1e-8 * scatter.max()
    )
    np.testing.assert_allclose(found.features @ found.features.T, scatter, atol=1e-8 * scatter.max())
    np.testing.assert_array_equal(found.kernel.part(found.points, np.array([3, 1]))[1], cloud[found.indices[[3, 1]]])

    lengths = w @ np.diagonal(gram_of(name, cloud, **KERNELS[name]))
    mean_square = mean @ np.linalg.lstsq(gram, mean, rcond=1e-12)[0]  # of its projection on the dictionary's span
    length = lengths - w.sum() * mean_square if center else lengths
    assert found.mean_length == pytest.approx(lengths / w.sum())
    assert found.mean_square == pytest.approx(mean_square, rel=1e-6)
    assert found.weight * found.total_variance == pytest.approx(length, rel=1e-6)
    assert found.total_variance == pytest.approx(length / w.sum(), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gram_or_a_part_of_it(kind, cloud):
    found = of_kind(kind, cloud)
    gram, places = gram_of("rbf", cloud[found.indices], gamma=0.3), np.array([7, 2, 11])
    np.testing.assert_allclose(found.gram_at(places), gram[np.ix_(places, places)], atol=1e-8)
    assert "gram" not in vars(found)  # nothing r x r was needed for a part
    np.testing.assert_allclose(found.gram, gram, atol=1e-8)
    np.testing.assert_allclose(found.gram_at(places), gram[np.ix_(places, places)], atol=1e-8)
    np.testing.assert_allclose(
        found.mean_cross_gram, gram_of("rbf", cloud[found.indices], cloud, gamma=0.3).mean(1), atol=1e-8
    )


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("copies", [(2, 2), (1, 3)], ids=["all alike", "some"])
def test_copies_are_one_row_that_counts_more(copies, kind, cloud):
    """Also where all rows have equally many copies, or one and the same weight."""
    counts = np.repeat(copies, 40)
    repeated, weighted = np.repeat(cloud, counts, axis=0), counts.astype(float)
    for X, weights in ((repeated, None), (cloud, weighted)):
        kernel = named_kernel("rbf", gamma=0.3)
        if kind == "all rows, summed":
            kernel = bind_callable(lambda X, Y: gram_of("rbf", X, Y, gamma=0.3), None, X)
        found = dictionary_of(X, kernel, weights=weights)
        np.testing.assert_array_equal(X[found.indices], cloud)
        cross = gram_of("rbf", cloud, repeated, gamma=0.3)
        cross -= cross.mean(axis=1, keepdims=True)
        assert found.weight == counts.sum()
        np.testing.assert_allclose(found.coordinates @ found.moment @ found.coordinates.T, cross @ cross.T, atol=1e-7)
        np.testing.assert_allclose(found.features @ found.features.T, cross @ cross.T, atol=1e-7)


def test_rows_without_weight_are_no_candidates(cloud):
    weights = np.r_[np.zeros(5), np.ones(75)]
    found = dictionary_of(cloud, named_kernel("rbf", gamma=0.3), weights=weights)
    np.testing.assert_array_equal(found.indices, np.arange(5, 80))
    assert found.weight == 75


def test_precomputed_gram(cloud):
    gram = gram_of("rbf", cloud, gamma=0.3)
    given = dictionary_of(gram, Precomputed(), merge=False)
    rows = of_kind("all rows", cloud)
    np.testing.assert_array_equal(given.indices, np.arange(80))
    np.testing.assert_allclose(given.gram, gram, atol=1e-8)
    np.testing.assert_allclose(given.mean_cross_gram, rows.mean_cross_gram, atol=1e-8)
    assert given.total_variance == pytest.approx(rows.total_variance)


def test_sparse_rows(cloud):
    kernel = named_kernel("rbf", gamma=0.3)
    rows = np.where(cloud > 0, cloud, 0.0)
    sparse, dense = (dictionary_of(X, kernel) for X in (scipy.sparse.csr_matrix(rows), rows))
    np.testing.assert_allclose(sparse.gram, dense.gram, atol=1e-12)
    np.testing.assert_allclose(
        sparse.coordinates @ sparse.moment @ sparse.coordinates.T,
        dense.coordinates @ dense.moment @ dense.coordinates.T,
        atol=1e-8,
    )


def test_of_an_indefinite_kernel_the_positive_part_is_kept(cloud):
    """Eigenvalues no larger than the most negative one are no better known than that, and go with it."""
    kernel = named_kernel("sigmoid", **KERNELS["sigmoid"])
    found = dictionary_of(cloud, kernel)
    values, vectors = np.linalg.eigh(gram_of("sigmoid", cloud, **KERNELS["sigmoid"]))
    assert values[0] < -1e-3
    kept = values > -values[0]
    assert type(found) is PointSpan
    assert found.coordinates.shape[1] == kept.sum()
    np.testing.assert_allclose(found.gram, (vectors[:, kept] * values[kept]) @ vectors[:, kept].T, atol=1e-10)
    assert found.negative_share == pytest.approx(-values[values < 0].sum() / np.abs(values).sum())


def test_a_few_rows_of_an_indefinite_kernel_know_of_all(cloud):
    """Their own gram shows less of the negative part than the rows' does: it is the rows' that tells what is real."""
    params = {"gamma": 0.1, "coef0": 0.5}
    found = dictionary_of(cloud, named_kernel("sigmoid", **params), n_dictionary=6, seed=1)
    own, whole = (np.linalg.eigvalsh(gram_of("sigmoid", X, **params)) for X in (cloud[found.indices], cloud))
    n_kept = np.sum(own > -whole[0] / whole[-1] * own[-1])
    assert n_kept < np.sum(own > max(-own[0], 0))
    assert found.coordinates.shape == (6, n_kept)


def test_how_many_rows_it_has():
    X = np.random.default_rng(0).standard_normal((PLAN.whole_dictionary + 1, 2))
    kernel = named_kernel("rbf", gamma=0.3)
    assert isinstance(dictionary_of(X[:-1], kernel), AllRowsSpan)
    few = dictionary_of(X, kernel)
    assert isinstance(few, PointSpan)
    # a smooth kernel has fewer directions than that: what the rule cannot tell apart it does not take
    assert 10 < len(few.indices) <= PLAN.dictionary_size
    assert isinstance(dictionary_of(X, kernel, n_dictionary=len(X)), AllRowsSpan)
    assert len(dictionary_of(X[:100], kernel, n_dictionary=7).indices) == 7
    assert few.weight == len(X)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_kernel_values_that_are_none(value, cloud):
    gram = gram_of("rbf", cloud, gamma=0.3)
    gram[3, 5] = gram[5, 3] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        dictionary_of(gram, Precomputed(), merge=False)
    broken = cloud.copy()
    broken[3, 2] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        dictionary_of(broken, named_kernel("rbf", gamma=0.3))
