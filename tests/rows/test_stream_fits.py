"""Rows out of memory: the fit that the same rows in memory give, in two passes and a few blocks of memory."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, assert_same_up_to_sign, captured_by, gram_of
from stream_cases import NAMES, SAMPLE, N, Passes, arrow_table, assert_same_fit, model

from kernelsieve import LikelihoodKernelPCA
from kernelsieve.rows.reservoir import Reservoir
from kernelsieve.rows.sources import Stream

KNOWN_LENGTH = ["memmap", "list", "zarr", "parquet", "csv"]


PASSES = 2


# --- the same fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KNOWN_LENGTH)
@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "linear"])
def test_known_length_is_the_fit_in_memory(kind, name, rows, stored):
    options = {"kernel": name, "n_support": 4 if name == "linear" else 10, **KERNELS[name], **SAMPLE}
    assert_same_fit(model(**options).fit(stored(kind)), model(**options).fit(rows))


@pytest.mark.parametrize("kind", KNOWN_LENGTH)
def test_names_come_with_the_rows(kind, stored):
    fitted = model(**SAMPLE).fit(stored(kind))
    assert hasattr(fitted, "feature_names_in_") == (kind in ("parquet", "csv"))
    if kind in ("parquet", "csv"):
        assert fitted.feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "all rows looked at"])
@pytest.mark.parametrize(
    "options",
    [
        {"center": False},
        {"selection": "targeted"},
        {"selection": "kmeans", "gamma": "scale"},
        {"n_support": "auto", "variance": 0.95},
        {"n_support": 0.01},
        {"n_support": "auto", "selection": "uniform"},
    ],
    ids=lambda options: ",".join(map(str, options.values())),
)
def test_options_on_streams(options, sampled, rows, stored):
    options = {**options, **(SAMPLE if sampled else {})}
    assert_same_fit(model(**options).fit(stored("list")), model(**options).fit(rows))


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "all rows looked at"])
@pytest.mark.parametrize("kind", ["list", "parquet", "function"])
def test_weights(kind, sampled, rows, weights, stored):
    """With weights the length is known for a function too."""
    options = SAMPLE if sampled else {}
    X = Passes(rows) if kind == "function" else stored(kind)
    assert_same_fit(model(**options).fit(X, sample_weight=weights), model(**options).fit(rows, sample_weight=weights))


def test_moments_are_those_of_all_rows(rows, stored, weights):
    """Brute force: on these points no components capture more of all rows, and these capture as much."""
    fitted = model(**SAMPLE).fit(stored("list"))
    points, gamma = fitted.support_vectors_, fitted.gamma_
    cross = gram_of("rbf", rows, points, gamma=gamma)
    expected = captured_by(gram_of("rbf", points, gamma=gamma), cross, 3)
    assert fitted.explained_variance_.sum() == pytest.approx(expected, rel=1e-9)
    repeated = np.repeat(rows, weights.astype(int), axis=0)
    weighted = model(selection=points, gamma=gamma).fit(stored("list"), sample_weight=weights)
    cross = gram_of("rbf", repeated, points, gamma=gamma)
    expected = captured_by(gram_of("rbf", points, gamma=gamma), cross, 3)
    assert weighted.explained_variance_.sum() == pytest.approx(expected, rel=1e-9)
    assert weighted.eigenvalues_.sum() == pytest.approx(expected * weights.sum(), rel=1e-9)


def test_float32_stays_float32(rows):
    """To the precision of float32, in which the kernel is computed."""
    single = rows.astype(np.float32)
    in_memory = model(gamma=0.2, **SAMPLE).fit(single)
    for X in (np.split(single, [300]), Passes(single)):
        fitted = model(gamma=0.2, **SAMPLE, selection=in_memory.support_vectors_).fit(X)
        assert next(iter(fitted.transform(X))).dtype == np.float32
        np.testing.assert_allclose(fitted.eigenvalues_, in_memory.eigenvalues_, rtol=1e-5)
        assert_same_up_to_sign(fitted.transform(single), in_memory.transform(single), 1e-4)


def test_float32_files(rows, tmp_path):
    ds, parquet = pytest.importorskip("pyarrow.dataset"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow_table(rows.astype(np.float32)), tmp_path / "rows.parquet")
    fitted = model(**SAMPLE).fit(ds.dataset(tmp_path / "rows.parquet"))
    assert next(fitted.transform(ds.dataset(tmp_path / "rows.parquet"))).dtype == np.float32
    in_memory = model(**SAMPLE).fit(rows.astype(np.float32))
    np.testing.assert_allclose(fitted.eigenvalues_, in_memory.eigenvalues_, rtol=1e-5)


def test_integers_and_sparse_rows(rows):
    counts = np.round(3 * rows).astype(int)
    assert_same_fit(model(**SAMPLE).fit([counts[:40], counts[40:]]), model(**SAMPLE).fit(counts))
    sparse = scipy.sparse.csr_matrix(np.where(np.abs(rows) > 1, rows, 0))
    options = {"selection": "targeted", "gamma": 0.2, **SAMPLE}
    found = model(**options).fit([sparse[:700], sparse[700:]])
    expected = model(**options).fit(sparse)
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_dictionary", [40, None], ids=["dictionary", "default"])
def test_likelihood(n_dictionary, weighted):
    rng = np.random.default_rng(0)
    X = 2 * rng.standard_normal((8, 3))[rng.integers(8, size=6000)] + 0.5 * rng.standard_normal((6000, 3))
    weights = rng.integers(1, 3, 6000).astype(float) if weighted else None
    options = {"n_dictionary": n_dictionary, "noise_fraction": 0.2, "random_state": 0}
    in_memory = LikelihoodKernelPCA(**options).fit(X, sample_weight=weights)
    streamed = LikelihoodKernelPCA(**options).fit(np.split(X, [10, 5000]), sample_weight=weights)
    assert_same_fit(streamed, in_memory)
    np.testing.assert_allclose(streamed.weights_, in_memory.weights_, rtol=1e-6)
    passes = Passes(X)
    LikelihoodKernelPCA(**options).fit(passes)
    assert passes.count == PASSES


# --- streams of unknown length -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [SAMPLE, {}, {"n_support": "auto", **SAMPLE}, {"n_support": 0.01, **SAMPLE}, {"selection": "targeted", **SAMPLE}],
    ids=["sampled", "whole", "auto", "fraction", "targeted"],
)
def test_the_cut_does_not_matter(options, rows):
    first = model(**options).fit(Passes(rows))
    for cuts in ([], [1, 2, 3], np.arange(7, N, 7)):
        assert_same_fit(model(**options).fit(Passes(rows, cuts)), first, 1e-10)


def test_few_rows_of_unknown_length_are_the_fit_in_memory(rows):
    assert_same_fit(model().fit(Passes(rows)), model().fit(rows))


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=12), size=st.integers(1, 320), seed=st.integers(0, 2**63 - 1))
def test_a_reservoir_keeps_the_largest_priorities(cuts, size, seed):
    """Whatever the cut: as if all numbers had been drawn at once and sorted."""
    X, weights = np.arange(600.0).reshape(300, 2), np.arange(1, 301.0)
    reservoir = Reservoir.empty(size, seed)
    for part in np.split(np.arange(300), sorted(cuts)):
        if len(part):
            reservoir = reservoir.add(X[part], weights[part])
    reservoir = reservoir.in_order()
    priorities = weights / np.random.Generator(np.random.PCG64(seed)).random(300)
    order = np.argsort(-priorities)
    expected = order[:size]
    np.testing.assert_array_equal(reservoir.numbers, expected)
    np.testing.assert_array_equal(reservoir.rows, X[expected])
    assert (reservoir.n_seen, reservoir.weight) == (300, weights.sum())
    assert reservoir.whole == (size >= 300)
    stands_for = weights[expected] if size >= 300 else np.maximum(weights[expected], priorities[order[size]])
    np.testing.assert_allclose(reservoir.kept_weights, stands_for * (weights.sum() / stands_for.sum()), rtol=1e-12)


def test_a_reservoir_is_a_fair_sample():
    """Every row is kept as often as any other: 400 samples of 25 of 100 rows, chi-square at 99 rows."""
    X, kept = np.arange(100.0)[:, None], np.zeros(100)
    for seed in range(400):
        reservoir = Reservoir.empty(25, seed)
        for block in np.split(X, [30, 31, 90]):
            reservoir = reservoir.add(block)
        kept[reservoir.in_order().numbers] += 1
    assert 60 < np.sum((kept - 100) ** 2 / 75) < 150


@pytest.mark.parametrize(
    ("options", "weighted", "most"),
    [
        (SAMPLE, False, PASSES),
        ({}, False, PASSES),
        ({"center": False, "selection": "targeted", **SAMPLE}, True, PASSES),
        ({"n_support": "auto", **SAMPLE}, False, PASSES),
        ({"n_support": "auto"}, False, PASSES + 1),
        ({"n_support": 0.01, **SAMPLE}, False, PASSES + 1),
        ({"selection": np.eye(4), **SAMPLE}, False, PASSES),
        ({"selection": np.arange(4), **SAMPLE}, False, PASSES + 1),
    ],
)
def test_passes(options, weighted, most, rows, weights):
    passes = Passes(rows)
    model(**options).fit(passes, sample_weight=weights if weighted else None)
    assert PASSES <= passes.count <= most


def test_two_passes_where_the_length_is_known(rows):
    passes = Passes(rows)
    fitted = model(n_support=0.01, **SAMPLE).fit(Stream(passes, N, tuple(NAMES)))
    assert passes.count == PASSES
    assert fitted.feature_names_in_.tolist() == NAMES
