"""Rows out of memory: the fit that the same rows in memory give, in two passes and a few blocks of memory.

What streams must equal is the fit of the same rows in one array; what that must equal, brute force over all rows.
"""

from __future__ import annotations

import _thread
import gc
import subprocess
import sys
import textwrap
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, assert_same_up_to_sign, captured_by, gram_of
from sklearn.exceptions import NotFittedError
from test_threads import interrupted_at

from kernelsieve import LikelihoodKernelPCA, SparseKernelPCA
from kernelsieve.rows.files import Stream
from kernelsieve.rows.reservoir import Reservoir
from kernelsieve.rows.streams import StreamRows, fingerprint

N = 1500
NAMES = ["a", "b", "c", "d"]
SAMPLE = {"n_optimization_samples": 400}  # fewer than the rows, so that they are sampled
KNOWN_LENGTH = ["memmap", "list", "zarr", "parquet", "csv"]
PASSES = 2


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    centers = 2 * rng.standard_normal((6, 4))
    return centers[rng.integers(6, size=N)] + 0.6 * rng.standard_normal((N, 4))


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(4).integers(0, 4, N).astype(float)


@pytest.fixture(scope="module")
def stored(rows, tmp_path_factory):
    """The rows by every kind of storage whose length is known."""
    folder = tmp_path_factory.mktemp("streams")
    cache = {}

    def get(kind):
        if kind not in cache:
            cache[kind] = store(rows, kind, folder)
        return cache[kind]

    return get


def store(rows, kind, folder):
    if kind == "memmap":
        np.save(folder / "rows.npy", rows)
        return np.load(folder / "rows.npy", mmap_mode="r")
    if kind == "list":
        return np.split(rows, [1, 2, 700, 700, 1400])
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        array = zarr.create_array(store=str(folder / "rows.zarr"), shape=rows.shape, chunks=(400, 3), dtype=rows.dtype)
        array[:] = rows
        return array
    ds = pytest.importorskip("pyarrow.dataset")
    table = arrow_table(rows)
    if kind == "parquet":  # two files of several row groups
        from pyarrow import parquet

        (folder / "files").mkdir()
        parquet.write_table(table[:600], folder / "files" / "1.parquet", row_group_size=250)
        parquet.write_table(table[600:], folder / "files" / "2.parquet", row_group_size=1000)
        return ds.dataset(folder / "files")
    from pyarrow import csv

    csv.write_csv(table, folder / "rows.csv")
    return ds.dataset(folder / "rows.csv", format="csv")


def arrow_table(rows):
    pa = pytest.importorskip("pyarrow")
    return pa.table({name: np.ascontiguousarray(column) for name, column in zip(NAMES, rows.T, strict=True)})


def model(**options):
    return SparseKernelPCA(**{"n_components": 3, "n_support": 10, "random_state": 0, "batch_size": 333, **options})


class Passes:
    """A function that gives the blocks of X and counts its calls."""

    def __init__(self, X, cuts=(500, 1000)):
        self.blocks, self.count = np.split(X, cuts), 0

    def __call__(self):
        self.count += 1
        yield from self.blocks


def assert_same_fit(found, expected, tolerance=1e-8):
    """Equal in all that a fit leaves, relative to the size of it."""
    for name in ("support_vectors_", "dual_coef_", "offset_", "eigenvalues_", "explained_variance_ratio_", "gamma_"):
        theirs = getattr(expected, name)
        size = np.abs(theirs).max()
        np.testing.assert_allclose(getattr(found, name), theirs, rtol=0, atol=tolerance * size, err_msg=name)
    if expected.support_ is None:
        assert found.support_ is None
    else:
        np.testing.assert_array_equal(found.support_, expected.support_)
    assert found.captured_ratio_ == pytest.approx(expected.captured_ratio_, abs=1e-6)
    assert found.captured_ratio_kind_ == expected.captured_ratio_kind_
    assert found.n_samples_seen_ == expected.n_samples_seen_
    assert found.n_features_in_ == expected.n_features_in_


def readers():
    """Threads that read blocks, by what they are doing."""
    return [frame for frame in sys._current_frames().values() if reads_blocks(frame)]


def reads_blocks(frame):
    while frame is not None and frame.f_code.co_name != "read_blocks":
        frame = frame.f_back
    return frame is not None


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


def test_blocks_may_be_one_buffer(rows):
    """A reader may fill the same array again and again: blocks are read ahead, and must not change meanwhile."""

    def one_buffer():
        buffer = np.empty((100, 4))
        for start in range(0, N, 100):
            buffer[:] = rows[start : start + 100]
            yield buffer

    assert_same_fit(model(**SAMPLE).fit(one_buffer), model(**SAMPLE).fit(Passes(rows)), 1e-10)


def test_blocks_may_be_empty(rows):
    none = rows[:0]
    assert_same_fit(model(**SAMPLE).fit([none, rows[:10], none, none, rows[10:], none]), model(**SAMPLE).fit(rows))
    assert_same_fit(
        model(**SAMPLE).fit(lambda: iter([none, rows[:10], none, rows[10:]])), model(**SAMPLE).fit(Passes(rows))
    )


def test_blocks_may_be_data_frames(rows):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows, columns=NAMES)
    fitted = model(**SAMPLE).fit([frame[:300], frame[300:]])
    assert fitted.feature_names_in_.tolist() == NAMES
    assert_same_fit(fitted, model(**SAMPLE).fit(frame))
    with pytest.raises(ValueError, match=r"a block has columns 'd', 'c'.*the first has 'a', 'b'"):
        model().fit([frame[:300], frame[300:][NAMES[::-1]]])


# --- points ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["targeted", "rpcholesky", "uniform"])
@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "all rows looked at"])
def test_support_numbers_are_those_of_the_whole_stream(selection, sampled, rows, stored):
    options = {"selection": selection, **(SAMPLE if sampled else {})}
    for X in (stored("list"), Passes(rows), stored("parquet")):
        fitted = model(**options).fit(X)
        np.testing.assert_allclose(rows[fitted.support_], fitted.support_vectors_, atol=1e-14)
        assert len(np.unique(fitted.support_)) == 10


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "all rows looked at"])
def test_own_points_and_rows(sampled, rows):
    options = {"gamma": 0.2, **(SAMPLE if sampled else {})}
    chosen = np.array([1499, 3, 700, 0, -2, 40])
    for selection in (rows[chosen] + 0.01, chosen, chosen.tolist(), np.isin(np.arange(N), chosen)):
        expected = model(selection=selection, **options).fit(rows)
        assert_same_fit(model(selection=selection, **options).fit(np.split(rows, [500])), expected)
        unknown = model(selection=selection, **options).fit(Passes(rows))
        np.testing.assert_allclose(unknown.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
        if np.ndim(selection) == 1:
            np.testing.assert_array_equal(unknown.support_vectors_, rows[unknown.support_])


def test_own_functions_choose_among_the_rows_they_are_shown(rows):
    shown = []

    def first_rows(X, n_support, *, kernel, rng):
        shown.append(np.array(X))
        return np.arange(n_support)

    fitted = model(selection=first_rows, gamma=0.2, **SAMPLE).fit(Passes(rows))
    assert shown[-1].shape == (400, 4)
    np.testing.assert_array_equal(fitted.support_vectors_, shown[-1][:10])
    np.testing.assert_array_equal(rows[fitted.support_], fitted.support_vectors_)
    points = model(selection=lambda X, n, **_: X[:n] + 1.0, gamma=0.2, **SAMPLE).fit(Passes(rows))
    assert points.support_ is None
    np.testing.assert_array_equal(points.support_vectors_, shown[-1][:10] + 1.0)


# --- transform ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["list", "zarr", "function"])
def test_transform_gives_blocks(kind, rows, stored):
    fitted = model().fit(rows)
    X = Passes(rows) if kind == "function" else stored(kind)
    blocks = list(fitted.transform(X))
    assert len(blocks) > 2
    np.testing.assert_allclose(np.concatenate(blocks), fitted.transform(rows), atol=1e-12)


def test_transform_of_files(rows, stored):
    fitted = model().fit(stored("parquet"))
    expected = model().fit(rows).transform(rows)
    np.testing.assert_allclose(np.concatenate(list(fitted.transform(stored("parquet")))), expected, atol=1e-8)


def test_transform_reads_little_further_than_it_is_asked(rows):
    read = []

    def blocks():
        for number in range(100):
            read.append(number)
            yield rows[:50]

    scores = model().fit(rows).transform(blocks)
    assert not read
    next(scores)
    scores.close()
    assert len(read) < 5
    assert not readers()


def test_transform_skips_empty_blocks_and_places_missing_values(rows):
    fitted = model().fit(rows)
    blocks = [rows[:0], rows[:7], rows[:0], rows[7:20]]
    np.testing.assert_allclose(np.concatenate(list(fitted.transform(blocks))), fitted.transform(rows[:20]), atol=1e-12)
    with pytest.raises(ValueError, match="rows 7 to 19: Input X contains NaN"):
        list(fitted.transform([rows[:7], rows[7:20] * np.nan]))
    with pytest.raises(ValueError, match="X has 3 features, but the model is expecting 4"):
        list(fitted.transform([rows[:7, :3]]))


@pytest.mark.filterwarnings("error")
def test_transform_wants_the_columns_in_order(rows, stored):
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    fitted = model(**SAMPLE, tol=1.0).fit(stored("parquet"))
    list(fitted.transform(stored("parquet")))
    schema = pa.schema([(name, pa.float64()) for name in NAMES[::-1]])
    with pytest.raises(ValueError, match=r"feature names should match.*'d', 'c', 'b', 'a'.*'a', 'b', 'c', 'd'"):
        list(fitted.transform(ds.dataset(stored("parquet").files, schema=schema)))


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["list", "function", "zarr"])
def test_missing_values_are_placed(kind, value, rows):
    bad = rows.copy()
    bad[1234, 2] = value
    X = np.split(bad, [500, 1000]) if kind == "list" else Passes(bad)
    where = "rows 1000 to 1499"
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        X, where = zarr.array(bad), "rows 999 to 1331"
    with pytest.raises(ValueError, match=f"{where}: Input X contains"):
        model(**SAMPLE).fit(X)


def test_missing_values_of_a_dataset(rows, tmp_path):
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    from pyarrow import parquet

    flags = pa.array([None if i == 700 else bool(i % 2) for i in range(N)])
    parquet.write_table(arrow_table(rows).append_column("flag", flags), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="rows 666 to 998: Input X contains NaN"):
        model().fit(ds.dataset(tmp_path / "rows.parquet"))


def test_blocks_of_different_width(rows):
    with pytest.raises(ValueError, match="rows 500 to 1499 have 3 columns, the first block has 4"):
        model().fit([rows[:500], rows[500:, :3]])


@pytest.mark.parametrize("X", [lambda: iter(()), [np.empty((0, 4))], lambda: iter([np.empty((0, 4))] * 3)])
def test_an_empty_stream(X):
    with pytest.raises(ValueError, match="the stream has no rows"):
        model().fit(X)


def test_a_generator_can_be_read_only_once(rows):
    with pytest.raises(TypeError, match=r"read only once.*a function that returns a new one.*partial_fit"):
        model().fit(block for block in [rows])
    with pytest.raises(TypeError, match="read only once"):
        model().fit(iter([rows]))


@pytest.mark.parametrize("result", [np.zeros((9, 2)), None, 3])
def test_functions_that_return_no_blocks(result):
    with pytest.raises(TypeError, match="must return an iterator of blocks"):
        model().fit(lambda: result)


def test_a_function_whose_iterator_is_used_up(rows):
    used_up = iter(np.split(rows, [500]))
    with pytest.raises(ValueError, match=r"gave 0 rows on this pass, 1500 were expected.*inside the function"):
        model(**SAMPLE).fit(lambda: used_up)


@pytest.mark.parametrize("change", ["value", "order", "columns", "shorter", "longer", "tiny numbers"])
def test_rows_that_change_between_passes(change, rows):
    count = 0
    scale = 1e-12 if change == "tiny numbers" else 1.0

    def blocks():
        nonlocal count
        count += 1
        X = scale * rows
        if count == 2 and change in ("value", "tiny numbers"):
            X[777, 1] += scale
        if count == 2 and change == "order":
            X[[3, 4]] = X[[4, 3]]
        if count == 2 and change == "columns":
            X = X[:, ::-1]
        length = {"shorter": N - 1, "longer": N + 1}.get(change, N) if count == 2 else N
        yield from np.array_split(np.resize(X, (length, 4)), 3)

    with pytest.raises(ValueError, match=f"gave {N - 1}|gave {N + 1}|changed between two passes"):
        model(**SAMPLE).fit(blocks)


def test_a_second_pass_without_end(rows, weights):
    count = 0

    def blocks():
        nonlocal count
        count += 1
        yield from np.array_split(rows, 3)
        while count == 2:
            yield rows

    with pytest.raises(ValueError, match=f"gave {2 * N} rows on this pass, {N} were expected"):
        model(**SAMPLE).fit(blocks, sample_weight=weights)
    assert not readers()


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(1, 499), unique=True), seed=st.integers(0, 99), power=st.integers(-12, 12))
def test_fingerprints_do_not_depend_on_the_cut(cuts, seed, power):
    X = 10.0**power * np.random.default_rng(seed).standard_normal((500, 3))
    whole = fingerprint(X, 0)
    bounds = [0, *sorted(cuts), 500]
    parts = [fingerprint(X[a:b], a) for a, b in pairwise(bounds)]
    total = parts[0]
    for part in parts[1:]:
        total += part
    assert total.matches(whole)
    assert fingerprint(X.astype(np.float32).astype(np.float64), 0).matches(fingerprint(X.astype(np.float32), 0))
    moved = X.copy()
    moved[seed] += 1e-5 * 10.0**power
    assert not fingerprint(moved, 0).matches(whole)


def test_a_file_that_changes_between_passes(rows, tmp_path):
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(store=str(tmp_path / "rows.zarr"), shape=rows.shape, chunks=(400, 4), dtype="f8")
    array[:] = rows

    def choose(X, n_support, **_):
        array[900:1000] = 0.0  # someone writes while points are being chosen
        return X[:n_support]

    with pytest.raises(ValueError, match="changed between two passes"):
        model(selection=choose, **SAMPLE).fit(array)


def test_text_columns_of_a_dataset_are_named(rows, tmp_path):
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    from pyarrow import parquet

    parquet.write_table(arrow_table(rows).append_column("label", pa.array(["x"] * N)), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"columns 'label' of the dataset are not numeric.*schema="):
        model().fit(ds.dataset(tmp_path / "rows.parquet"))
    chosen = ds.dataset(tmp_path / "rows.parquet", schema=pa.schema([(name, pa.float64()) for name in ("c", "a")]))
    fitted = model(**SAMPLE).fit(chosen)
    assert fitted.feature_names_in_.tolist() == ["c", "a"]
    assert_same_fit(fitted, model(**SAMPLE).fit(rows[:, [2, 0]]))


def test_datasets_of_any_kind(rows, tmp_path):
    """Filtered, in memory, with a column in the folders' names, CSV with options of its own."""
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    import pyarrow.compute as pc
    from pyarrow import csv

    table = arrow_table(rows)
    expected = model(**SAMPLE).fit(rows)
    assert_same_fit(model(**SAMPLE).fit(ds.dataset(table)), expected)
    assert_same_fit(
        model(**SAMPLE).fit(ds.dataset(table).filter(pc.field("a") > 0)), model(**SAMPLE).fit(rows[rows[:, 0] > 0])
    )
    day = np.arange(N) % 2
    ds.write_dataset(
        table.append_column("day", pa.array(day)), tmp_path / "days", format="parquet", partitioning=["day"]
    )
    by_day = ds.dataset(tmp_path / "days", partitioning=ds.partitioning(pa.schema([("day", pa.int64())])))
    order = np.argsort(day, kind="stable")
    assert_same_fit(model(**SAMPLE).fit(by_day), model(**SAMPLE).fit(np.column_stack([rows, day])[order]))
    csv.write_csv(table, tmp_path / "rows.txt", csv.WriteOptions(delimiter=";"))
    strange = ds.CsvFileFormat(
        parse_options=csv.ParseOptions(delimiter=";"),
        read_options=csv.ReadOptions(column_names=["p", "q", "r", "s"], skip_rows=1, block_size=2**14),
    )
    fitted = model(**SAMPLE).fit(ds.dataset(tmp_path / "rows.txt", format=strange))
    assert fitted.feature_names_in_.tolist() == ["p", "q", "r", "s"]
    assert_same_fit(fitted, expected)


def test_a_precomputed_kernel_needs_its_gram(rows):
    with pytest.raises(ValueError, match="whole gram in memory"):
        model(kernel="precomputed").fit([rows[:10], rows[10:]])


def test_weights_that_do_not_fit(rows):
    for X in (np.split(rows, [500]), Passes(rows)):
        with pytest.raises(ValueError, match="sample_weight has 7 values, the stream has 1500 rows"):
            model().fit(X, sample_weight=np.ones(7))
        with pytest.raises(ValueError, match="none negative"):
            model().fit(X, sample_weight=-np.ones(N))


class Broken(Exception):
    pass


@pytest.mark.parametrize("on_pass", [1, 2])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_errors_of_the_reader_come_out_unchanged(after, on_pass, rows):
    error, count, closed = Broken("disk on fire"), 0, []

    def blocks():
        nonlocal count
        count, opened = count + 1, threading.get_ident()
        try:
            for number, block in enumerate(np.array_split(rows, 4)):
                if count == on_pass and number == after:
                    raise error
                yield block
        finally:
            closed.append(threading.get_ident() == opened)

    fitted = model().fit(rows)
    before = dict(vars(fitted))
    with pytest.raises(Broken) as caught:
        fitted.set_params(**SAMPLE).fit(blocks)
    assert caught.value is error
    assert closed == [True] * on_pass
    assert not readers()
    assert vars(fitted) == before | SAMPLE


def test_a_fit_that_fails_ends_its_reader_and_closes_the_stream(rows):
    closed = []

    def endless():
        opened = threading.get_ident()
        try:
            while True:
                yield rows
        finally:  # in the thread that opened what is to be closed
            closed.append(threading.get_ident() == opened)

    for _ in StreamRows(Stream(endless)).blocks():
        break
    assert closed == [True]
    assert not readers()

    def fails_in_the_second_pass(X, Y):
        if len(Y) == 7:  # the points, and not the sample
            raise Broken
        return gram_of("rbf", X, Y, gamma=0.2)

    fitted = model(kernel=fails_in_the_second_pass, selection=np.arange(7), **SAMPLE)
    with pytest.raises(Broken):
        fitted.fit([rows[:700], rows[700:]])
    assert not readers()
    with pytest.raises(NotFittedError):
        fitted.transform(rows)
    assert not [name for name in vars(fitted) if name.endswith("_")]


@pytest.mark.parametrize("by", ["signal", "reader"])
def test_interrupts(by, rows):
    """Ctrl-C while blocks are read: out at once, as it was, and no thread left behind."""

    def blocks():
        yield rows[:500]
        if by == "reader":
            raise KeyboardInterrupt
        _thread.interrupt_main()
        while True:
            time.sleep(0.01)
            yield rows[500:600]

    fitted = model().fit(rows)
    before = fitted.transform(rows)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(blocks)
    assert not readers()
    np.testing.assert_array_equal(fitted.transform(rows), before)


def test_an_interrupt_anywhere_in_the_reading_ends_the_reader():
    """Ctrl-C between any two steps of reading ahead: no second one is needed, and no thread stays."""
    step = 1

    def read():
        assert [int(block[0, 0]) for _, block in StreamRows(Stream(blocks)).blocks()] == [0, 1, 2]

    def blocks():
        return iter([np.full((2, 2), float(i)) for i in range(3)])

    while interrupted_at(step, read, "streams.py"):
        deadline = time.monotonic() + 5
        while readers() and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not readers(), step
        step += 1
    assert step > 300
    read()


def test_an_abandoned_iterator_says_nothing(rows, capfd):
    """Whatever thread collects it, the reader's own included."""
    scores = model().fit(rows).transform(lambda: iter(np.array_split(rows, 9)))
    next(scores)
    holder = [scores]
    holder.append(holder)  # a cycle: collected by the collector, in any thread
    del scores, holder
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert not readers()
    assert capfd.readouterr().err == ""


# --- memory ------------------------------------------------------------------------------------------------------


def test_a_file_five_times_the_memory(tmp_path):
    """500,000 x 20 of float64 (80 MB) fit within a fifth of that."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = np.random.default_rng(0).standard_normal((500_000, 20))
    table = pa.table({f"x{j}": np.ascontiguousarray(column) for j, column in enumerate(X.T)})
    parquet.write_table(
        table, tmp_path / "rows.parquet", row_group_size=30_000, use_dictionary=False, compression="none"
    )
    parquet.write_table(table[:6000], tmp_path / "few.parquet")
    program = """
        import sys, threading, time
        import numpy as np
        import pyarrow.dataset as ds
        from kernelsieve import SparseKernelPCA

        def private_bytes():
            line = next(line for line in open("/proc/self/status") if line.startswith("RssAnon"))
            return 1024 * int(line.split()[1])

        def watch():
            while not done.wait(0.002):
                peaks.append(private_bytes())

        model = SparseKernelPCA(3, n_support=20, n_optimization_samples=2000, batch_size=5000, random_state=0)
        model.fit(ds.dataset(sys.argv[2]))  # imports and pools are no cost of a fit
        before, peaks, done = private_bytes(), [0], threading.Event()
        watcher = threading.Thread(target=watch)
        watcher.start()
        model.fit(ds.dataset(sys.argv[1]))
        done.set()
        watcher.join()
        print(max(peaks) - before, *model.eigenvalues_)
    """
    arguments = [tmp_path / "rows.parquet", tmp_path / "few.parquet"]
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    peak, *eigenvalues = map(float, run.stdout.split())
    assert peak < X.nbytes / 5
    in_memory = SparseKernelPCA(3, n_support=20, n_optimization_samples=2000, random_state=0).fit(X)
    np.testing.assert_allclose(eigenvalues, in_memory.eigenvalues_, rtol=1e-8)
