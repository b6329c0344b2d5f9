"""Rows in dask: the fit that the same rows in memory give, on threads, on a cluster, and when workers are lost.

One cluster serves all tests that need one: two worker processes of one thread each.  The last test closes it.
"""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse
from oracles import captured_by, gram_of
from stream_cases import NAMES, SAMPLE, assert_same_fit

from kernelsieve import ElasticNetPCA, KernelMonitor, KernelPCA, LikelihoodKernelPCA, SparseKernelPCA

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

N, SEED = 1600, 9


@pytest.fixture(scope="module")
def expected(rows):
    return model(**SAMPLE).fit(rows)


def model(**options):
    return SparseKernelPCA(**{"n_components": 3, "n_support": 10, "random_state": 0, **options})


def chunked(rows, chunks=(300, 4)):
    return da.from_array(rows, chunks=chunks)


def frame_of(rows, npartitions=5):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    return dd.from_pandas(pd.DataFrame(rows, columns=NAMES), npartitions=npartitions)


def unknown(array):
    """The same array, its chunks computed and of lengths that are not known before."""
    return array[array[:, 0] > -np.inf]


# --- the same fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
@pytest.mark.parametrize(
    "chunks", [(N, 4), (300, 4), (95, 4), (17, 4), ((1, 0, 1500, 99), (4,)), (400, 3), (N, 1)], ids=str
)
def test_any_chunks(chunks, scheduler, rows, expected):
    with dask.config.set(scheduler=scheduler):
        assert_same_fit(model(**SAMPLE).fit(chunked(rows, chunks)), expected)


@pytest.mark.parametrize("chunks", [(300, 4), (300, 3)], ids=str)
def test_unknown_chunks(chunks, rows, expected):
    X = unknown(chunked(rows, chunks))
    assert np.isnan(X.shape[0])
    assert_same_fit(model(**SAMPLE).fit(X), expected)


def test_chunks_that_turn_out_empty(rows):
    """A filter leaves nothing of some chunks, the first among them."""
    keep = (np.arange(N) >= 300) & ((np.arange(N) < 600) | (np.arange(N) >= 900))
    X = chunked(rows)[da.from_array(keep, chunks=300)]
    fitted = model(**SAMPLE).fit(X)
    assert_same_fit(fitted, model(**SAMPLE).fit(rows[keep]))
    np.testing.assert_allclose(fitted.transform(X).compute(), fitted.transform(rows[keep]), atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "poly", "gamma": 0.2, "degree": 2},
        {"kernel": "laplacian", "gamma": 0.2},
        {"center": False, "selection": "targeted"},
        {"n_support": "auto", "variance": 0.95},
        {"n_support": 0.01},
        {"selection": np.array([1599, 3, 700, 0])},
        {"selection": np.eye(4), "gamma": 0.2},
    ],
    ids=lambda options: ",".join(options),
)
@pytest.mark.parametrize("sampled", [True, False], ids=["sampled", "all rows looked at"])
def test_options(options, sampled, rows):
    options = {**options, **(SAMPLE if sampled else {})}
    fitted = model(**options).fit(chunked(rows))
    assert_same_fit(fitted, model(**options).fit(rows))
    if fitted.support_ is not None:
        np.testing.assert_array_equal(rows[fitted.support_], fitted.support_vectors_)


def test_weights(rows, weights):
    X, expected = chunked(rows), model(**SAMPLE).fit(rows, sample_weight=weights)
    assert_same_fit(model(**SAMPLE).fit(X, sample_weight=weights), expected)
    assert_same_fit(model(**SAMPLE).fit(unknown(X), sample_weight=da.from_array(weights, chunks=100)), expected)
    none_in_a_chunk = np.where(np.arange(N) < 300, 0.0, weights)
    assert_same_fit(model().fit(X, sample_weight=none_in_a_chunk), model().fit(rows, sample_weight=none_in_a_chunk))


def test_moments_are_those_of_all_rows(rows):
    """Brute force: these components capture the most that any on these points do, on all rows."""
    fitted = model(**SAMPLE).fit(chunked(rows, (100, 4)))
    points, gamma = fitted.support_vectors_, fitted.gamma_
    most = captured_by(gram_of("rbf", points, gamma=gamma), gram_of("rbf", rows, points, gamma=gamma), 3)
    assert fitted.explained_variance_.sum() == pytest.approx(most, rel=1e-9)


def test_integers_and_float32(rows):
    counts = np.round(3 * rows).astype(np.int32)
    assert_same_fit(model(**SAMPLE).fit(chunked(counts)), model(**SAMPLE).fit(counts))
    single = rows.astype(np.float32)
    points, expected = model(gamma=0.2).fit(single).support_vectors_, model(gamma=0.2).fit(single)
    fitted = model(gamma=0.2, selection=points).fit(chunked(single))
    np.testing.assert_allclose(fitted.eigenvalues_, expected.eigenvalues_, rtol=1e-5)
    scores = fitted.transform(chunked(single))
    assert scores.dtype == scores.compute().dtype == np.float32


def test_dataframes_bring_names(rows, expected):
    frame = frame_of(rows)
    fitted = model(**SAMPLE).fit(frame)
    assert fitted.feature_names_in_.tolist() == NAMES
    assert_same_fit(fitted, expected)
    scores = fitted.transform(frame)
    np.testing.assert_allclose(scores.compute(), expected.transform(rows), atol=1e-8)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(frame[NAMES[::-1]])
    mixed = frame.assign(flag=frame.a > 0, count=1)
    assert_same_fit(
        model(**SAMPLE).fit(mixed), model(**SAMPLE).fit(np.column_stack([rows, rows[:, 0] > 0, np.ones(N)]))
    )
    assert model(**SAMPLE).fit(frame.astype(np.float32)).transform(frame.astype(np.float32)).dtype == np.float32


def test_graphs_are_computed_twice_and_never_held(rows, expected):
    """One pass samples, one sums up: a chunk is computed once in each."""
    lock, computed = threading.Lock(), []

    def count(block):
        with lock:
            computed.append(len(block))
        return block

    X = chunked(rows).map_blocks(count, meta=np.empty((0, 0)))
    assert_same_fit(model(**SAMPLE).fit(X), expected)
    assert sum(computed) == 2 * N


def test_likelihood():
    rng = np.random.default_rng(0)
    X = 2 * rng.standard_normal((8, 3))[rng.integers(8, size=6000)] + 0.5 * rng.standard_normal((6000, 3))
    options = {"n_dictionary": 40, "noise_fraction": 0.2, "random_state": 0}
    assert_same_fit(LikelihoodKernelPCA(**options).fit(chunked(X, (1000, 3))), LikelihoodKernelPCA(**options).fit(X))


def test_transform_is_lazy(rows, expected):
    computed = []

    def count(block):
        computed.append(len(block))
        return block

    scores = expected.transform(chunked(rows).map_blocks(count, meta=np.empty((0, 0))))
    assert isinstance(scores, da.Array)
    assert not computed
    assert scores.chunks == ((300,) * 5 + (100,), (3,))
    np.testing.assert_allclose(scores[650:700].compute(), expected.transform(rows[650:700]), atol=1e-12)
    assert sum(computed) == 300
    np.testing.assert_allclose(
        expected.transform(unknown(chunked(rows, (300, 2)))).compute(), expected.transform(rows), atol=1e-12
    )


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_missing_values_are_placed(value, rows):
    bad = rows.copy()
    bad[1234, 2] = value
    for X in (chunked(bad), unknown(chunked(bad))):
        with pytest.raises(ValueError, match="rows 1200 to 1499: Input X contains"):
            model(**SAMPLE).fit(X)
        with pytest.raises(ValueError, match="Input X contains"):
            model().fit(rows).transform(X).compute()


class Changing:
    """A chunk function that does something else from the second pass on."""

    def __init__(self, change):
        self.change, self.seen, self.lock = change, {}, threading.Lock()

    def __call__(self, block, block_info=None):
        place = block_info[0]["chunk-location"]
        with self.lock:
            self.seen[place] = self.seen.get(place, 0) + 1
            first = self.seen[place] == 1
        return block if first or place[0] != 2 else self.change(block)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda block: block[:-1], r"rows 600 to 899 has shape \(299, 4\), \(300, 4\) was expected"),
        (lambda block: block[:, :3], r"rows 600 to 899 has shape \(300, 3\), \(300, 4\) was expected"),
        (lambda block: block[::-1], "rows 600 to 899 changed between two passes"),
        (lambda block: block + 1e-6, "rows 600 to 899 changed between two passes"),
    ],
    ids=["length", "width", "order", "values"],
)
def test_chunks_that_change_between_passes(change, message, rows):
    X = chunked(rows).map_blocks(Changing(change), dtype=float, meta=np.empty((0, 0)))
    fitted = model(**SAMPLE)
    with pytest.raises(ValueError, match=message):
        fitted.fit(X)
    assert not [name for name in vars(fitted) if name.endswith("_")]


def test_chunks_that_are_not_what_they_say(rows):
    X = chunked(rows).map_blocks(lambda block: block[:150], dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"rows \d+ to \d+ has shape \(150, 4\)"):
        model(**SAMPLE).fit(X)


def test_what_is_no_table(rows):
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        model().fit(chunked(rows)[:, 0])
    with pytest.raises(ValueError, match="real numbers, it has dtype complex128"):
        model().fit(chunked(rows) + 1j)
    with pytest.raises(ValueError, match="real numbers, it has dtype <U"):
        model().fit(chunked(rows.astype(str)))
    with pytest.raises(TypeError, match="a dask array or dataframe is needed, not a dask Delayed"):
        model().fit(dask.delayed(np.asarray)(rows))
    with pytest.raises(ValueError, match="has 1 rows, at least 2"):
        model().fit(chunked(rows)[:1])
    with pytest.raises(ValueError, match="whole gram in memory"):
        model(kernel="precomputed").fit(chunked(rows))
    with pytest.raises(ValueError, match="sample_weight has 5 values, the dask array has 1600 rows"):
        model().fit(chunked(rows), sample_weight=np.ones(5))
    with pytest.raises(ValueError, match="3 features, but the model is expecting 4"):
        model().fit(rows).transform(chunked(rows)[:, :3])
    frame = frame_of(rows)
    with pytest.raises(ValueError, match="columns 'label' of the dask dataframe are not numeric"):
        model().fit(frame.assign(label="x"))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        model().fit(frame["a"])


class Broken(Exception):
    pass


def test_errors_of_the_graph_come_out_unchanged(rows):
    def fails(block):
        raise Broken("disk on fire")

    fitted = model().fit(rows)
    before = dict(vars(fitted))
    with pytest.raises(Broken, match="disk on fire"):
        fitted.fit(chunked(rows).map_blocks(fails, dtype=float, meta=np.empty((0, 0))))
    assert vars(fitted) == before


# --- a cluster ---------------------------------------------------------------------------------------------------


def nap(block):
    time.sleep(0.05)
    return block


def slow(rows):
    """The rows in 32 chunks that take a while, and again on every pass."""
    return chunked(rows, (50, 4)).map_blocks(nap, meta=np.empty((0, 0)))


def test_a_cluster_gives_the_same(cluster, rows, weights, expected):
    assert_same_fit(model(**SAMPLE).fit(chunked(rows)), expected)
    assert_same_fit(
        model(**SAMPLE).fit(unknown(chunked(rows)), sample_weight=weights),
        model(**SAMPLE).fit(rows, sample_weight=weights),
    )
    scores = expected.transform(chunked(rows))
    np.testing.assert_allclose(scores.compute(), expected.transform(rows), atol=1e-12)


def test_a_cluster_names_the_rows_of_an_error(cluster, rows):
    bad = rows.copy()
    bad[1234, 2] = np.nan
    with pytest.raises(ValueError, match="rows 1200 to 1499: Input X contains NaN"):
        model(**SAMPLE).fit(chunked(bad))


def test_a_killed_worker_costs_a_retry(cluster, rows, expected):
    """Killed while the second pass runs; the nanny starts another, the scheduler repeats what was lost."""
    pids = list(cluster.run(os.getpid).values())
    killed = threading.Event()

    def choose(X, n_support, **_):
        threading.Timer(0.3, kill).start()  # chosen: now comes the pass over all rows
        return expected.support_vectors_

    def kill():
        os.kill(pids[0], signal.SIGKILL)
        killed.set()

    fitted = model(selection=choose, gamma=expected.gamma_, **SAMPLE).fit(slow(rows))
    assert killed.is_set()
    np.testing.assert_allclose(fitted.eigenvalues_, expected.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(fitted.dual_coef_, expected.dual_coef_, atol=1e-8 * np.abs(expected.dual_coef_).max())
    cluster.wait_for_workers(2, timeout=30)
    assert pids[0] not in cluster.run(os.getpid).values()


def test_a_cluster_that_goes_away(cluster, rows, expected):
    """An error that says so, and a model that is what it was."""
    closing = threading.Timer(0.3, cluster.cluster.close)

    def choose(X, n_support, **_):
        closing.start()
        return expected.support_vectors_

    fitted = model(selection=choose, **SAMPLE)
    before = dict(vars(fitted))
    with pytest.raises(RuntimeError, match=r"the dask cluster did not finish the fit.*still there"):
        fitted.fit(slow(rows))
    closing.join()
    assert vars(fitted) == before


def test_sparse_chunks_are_refused_in_words_that_help(rows):
    chunks = da.from_array(rows[:200, :3], chunks=(50, 3)).map_blocks(scipy.sparse.csr_matrix)
    fitted = SparseKernelPCA(2, n_support=10, random_state=0).fit(rows[:200, :3])
    for use in (
        SparseKernelPCA(2, n_support=10).fit,
        lambda X: fitted.transform(X).compute(),
        KernelMonitor(2, 10).fit,
        fitted.score,
        SparseKernelPCA(2, n_support=10).partial_fit,
        KernelPCA(2).fit,
        KernelPCA(2).fit(rows[:200, :3]).transform,
        ElasticNetPCA(2, alpha=0.1).fit,
    ):
        # without a cluster: other tests of this module close theirs
        with (
            dask.config.set(scheduler="synchronous"),
            pytest.raises(TypeError, match=r"chunks of the dask array are sparse.*toarray"),
        ):
            use(chunks)
