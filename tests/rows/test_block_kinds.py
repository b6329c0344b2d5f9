"""Blocks of any array library, worked on where they are: the fit of one array, and scores of the kind that came in."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from stream_cases import NAMES, N, arrow_table, assert_same_fit, model

from kernelsieve import (
    ElasticNetPCA,
    KernelMonitor,
    KernelPCA,
    LikelihoodKernelPCA,
    OnlineKernelPCA,
    RobustElasticNetPCA,
    RobustSparseKernelPCA,
    SparseKernelPCA,
    compress,
)
from kernelsieve.arrays import to_numpy
from kernelsieve.rows import streams
from kernelsieve.rows.kinds import host_block
from kernelsieve.rows.sampling import SkipSample
from kernelsieve.rows.sources import Stream
from kernelsieve.rows.streams import StreamRows

torch = pytest.importorskip("torch")
from stand_in import OnDevice, on_device  # noqa: E402

POINTS = {"selection": np.arange(0, N, 150), "gamma": 0.2}


def cut(rows, size=400):
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def loader(rows, **options):
    from torch.utils.data import DataLoader, TensorDataset

    labels = torch.zeros(len(rows))
    return DataLoader(TensorDataset(torch.as_tensor(rows), labels), **{"batch_size": 400, **options})


KINDS = {
    "torch": lambda rows: cut(torch.as_tensor(rows)),
    "function of torch": lambda rows: lambda: iter(cut(torch.as_tensor(rows))),
    "loader of tuples": loader,
    "loader of ready tensors": lambda rows: loader_of(cut(torch.as_tensor(rows))),
    "arrow tables": lambda rows: [arrow_table(block) for block in cut(rows)],
    "arrow batches": lambda rows: arrow_table(rows).to_batches(max_chunksize=400),
    "polars": lambda rows: [pytest.importorskip("polars").DataFrame(block, schema=NAMES) for block in cut(rows)],
    "memmaps and arrays": lambda rows: [block.view(np.ndarray) for block in cut(rows)],
}


def loader_of(blocks):
    return torch.utils.data.DataLoader(blocks, batch_size=None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_is_that_of_one_array(kind, rows):
    options = {"selection": "targeted", "gamma": 0.2}
    found = model(**options).fit(KINDS[kind](rows))
    assert_same_fit(found, model(**options).fit(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_scores_come_back_as_the_blocks_came(kind, rows):
    fitted = model(**POINTS).fit(rows)
    blocks = list(fitted.transform(KINDS[kind](rows)))
    assert len(blocks) == len(cut(rows))
    of_torch = "torch" in kind or "loader" in kind
    assert all(isinstance(block, torch.Tensor if of_torch else np.ndarray) for block in blocks)
    np.testing.assert_allclose(np.concatenate(blocks), fitted.transform(rows), atol=1e-12)


def test_tensors_of_the_host_are_not_copied(rows):
    tensor = torch.as_tensor(rows)
    assert np.shares_memory(host_block(tensor)[1], rows)
    half = host_block(tensor.half())[1]
    np.testing.assert_allclose(half, rows, rtol=1e-3)
    assert half.dtype == np.float64
    assert host_block(torch.ones((2, 2), dtype=torch.int64))[1].dtype == np.float64
    assert host_block(torch.ones((2, 2), requires_grad=True))[1].shape == (2, 2)


def test_complex_tensors_are_refused(rows):
    for block in (torch.as_tensor(rows * 1j), on_device(rows * 1j)):
        with pytest.raises(ValueError, match="Complex data not supported"):
            model(**POINTS).fit([block])


# --- on a device, by a stand-in for CUDA ---------------------------------------------------------------------------


DEVICE_KINDS = {
    "list": lambda rows: cut(on_device(rows)),
    "uneven list": lambda rows: list(torch.split(on_device(rows), [1, 2, 697, N - 700])),
    "function": lambda rows: lambda: iter(cut(on_device(rows))),
}


@pytest.mark.parametrize("kind", DEVICE_KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_on_a_device_are_the_fit_of_one_tensor(kind, weighted, rows, weights):
    one, weights = torch.as_tensor(rows), weights if weighted else None
    expected = model(**POINTS).fit(one, sample_weight=weights)
    found = model(**POINTS).fit(DEVICE_KINDS[kind](rows), sample_weight=weights)
    assert isinstance(found.support_vectors_, OnDevice)  # chosen, summed up and kept there
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    scores = list(found.transform(DEVICE_KINDS[kind](rows)))
    assert all(isinstance(block, OnDevice) for block in scores)
    np.testing.assert_allclose(torch.cat(scores).cpu(), expected.transform(one), atol=1e-9)


def test_one_buffer_on_a_device(rows):
    """A generator may fill the same memory again and again, there too."""

    def one_buffer():
        buffer = on_device(np.empty((100, 4)))
        for start in range(0, N, 100):
            buffer.copy_(torch.as_tensor(rows[start : start + 100]))
            yield buffer

    expected = model(**POINTS).fit(rows)
    found = model(**POINTS).fit(one_buffer)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(
        np.concatenate([block.cpu() for block in found.transform(one_buffer)]), expected.transform(rows), atol=1e-9
    )


def test_a_sample_is_drawn_on_the_device(rows):
    stream = StreamRows(Stream(lambda: iter(cut(on_device(rows)))))
    sampled = stream.sample(300, np.random.default_rng(0))
    assert isinstance(sampled.X, OnDevice)
    np.testing.assert_array_equal(sampled.X.cpu(), rows[sampled.numbers])
    assert len(set(sampled.numbers.tolist())) == 300


@pytest.mark.parametrize("where", ["device", "host"])
def test_a_gap_on_a_device_names_its_row(where, rows):
    bad = rows.copy()
    bad[1234, 2] = np.nan
    blocks = [on_device(block) for block in cut(bad)] if where == "device" else cut(bad)
    for X in (blocks, lambda: iter(blocks)):
        fitted = model(**POINTS, device=None if where == "device" else "cpu")
        with pytest.raises(ValueError, match=r"Input X contains NaN: the first is in column 2 of row 1234"):
            fitted.fit(X)
        assert not hasattr(fitted, "expansion_")
    fitted = model(**POINTS).fit(rows)
    with pytest.raises(ValueError, match=r"in column 2 of row 1234"):
        list(fitted.transform(blocks))


@pytest.mark.parametrize("where", ["device", "host"])
def test_a_number_too_large_to_square_is_refused_on_a_device_as_on_the_host(where, rows):
    large = rows.astype(np.float32)
    large[1234, 2] = 1e16
    one = on_device(large) if where == "device" else large
    words = "reaches 1e[+]16, whose square is too large to compute with: scale it or give float64"
    for X, place in ((one, ""), (cut(one), "rows 1200 to 1499: "), (lambda: iter(cut(one)), "rows 1200 to 1499: ")):
        fitted = model(**POINTS, device=None if where == "device" else "cpu", n_optimization_samples=50)
        with pytest.raises(ValueError, match=place + ".*" + words):
            fitted.fit(X)
        assert not hasattr(fitted, "expansion_")


def test_rows_on_a_device_that_change_between_passes(rows):
    count = 0

    def blocks():
        nonlocal count
        count += 1
        X = rows.copy()
        X[777, 1] += count >= 2
        yield from cut(on_device(X))

    with pytest.raises(ValueError, match="changed between two passes"):
        model(**POINTS).fit(blocks)


def test_blocks_go_to_a_device_in_parts_that_suit_it(rows):
    """Cut and joined: the blocks there need not be those that came."""
    device = pytest.importorskip("kernelsieve.rows.device")
    blocks = [(0, rows[:700]), (700, rows[700:701]), (701, rows[701:])]
    width = 2**30 // (8 * 400)  # 400 rows fill a block
    found = list(device.copied_blocks(blocks, width, 0, torch.device("cpu")))
    assert [start for start, _ in found] == [0, 400, 800, 1200]
    np.testing.assert_array_equal(torch.cat([block for _, block in found]), rows)
    even = list(device.copied_blocks([(0, rows)], width, 0, torch.device("cpu"), N))
    assert [len(block) for _, block in even] == [375] * 4


# --- one pass is enough --------------------------------------------------------------------------------------------


def test_methods_that_read_once_take_blocks_of_any_kind(rows):
    fitted = model(**POINTS).fit(rows)
    kinds = [cut(rows), lambda: iter(cut(rows)), loader(rows), cut(on_device(rows))]
    for X in (*kinds, iter(cut(rows))):
        assert fitted.score(X) == pytest.approx(fitted.score(rows), abs=1e-10)
    for X in (*kinds, iter(cut(rows))):
        errors = [block.cpu() if isinstance(block, torch.Tensor) else block for block in fitted.reconstruction_error(X)]
        np.testing.assert_allclose(np.concatenate(errors), fitted.reconstruction_error(rows), atol=1e-10)
    scores = fitted.transform(iter(cut(rows)))
    np.testing.assert_allclose(np.concatenate(list(scores)), fitted.transform(rows), atol=1e-12)


@pytest.mark.parametrize(
    "estimator",
    [
        LikelihoodKernelPCA(2, gamma=0.2, random_state=0),
        RobustSparseKernelPCA(2, gamma=0.2, random_state=0),
        KernelMonitor(n_components=2, n_support=8, cv=2, random_state=0),
    ],
)
@pytest.mark.parametrize("method", ["score_samples", "decision_function", "predict"])
def test_blocks_are_judged_as_one_array(estimator, method, rows):
    judge = getattr(clone(estimator).fit(rows[:240]), method)
    for X in (cut(rows), lambda: iter(cut(rows)), loader(rows), cut(on_device(rows)), iter(cut(rows))):
        found = judge(X)  # a monitor, whose rows may be a series, judges them in one array
        blocks = [found] if isinstance(found, np.ndarray) else [np.asarray(to_numpy(block)) for block in found]
        np.testing.assert_allclose(np.concatenate(blocks), judge(rows), atol=1e-9)


def test_exact_components_transform_blocks(rows):
    fitted = KernelPCA(3, kernel="rbf", gamma=0.2).fit(rows[:200])
    for X in (cut(rows), lambda: iter(cut(rows)), loader(rows), cut(on_device(rows)), iter(cut(rows))):
        found = list(fitted.transform(X))
        assert len(found) == len(cut(rows))
        np.testing.assert_allclose(
            np.concatenate([to_numpy(block) for block in found]), fitted.transform(rows), atol=1e-9
        )


@pytest.mark.parametrize("estimator", [model(), OnlineKernelPCA(3, budget=12, gamma=0.2, random_state=0)])
def test_a_stream_takes_blocks_as_it_takes_calls(estimator, rows):
    calls = clone(estimator)
    for block in cut(rows):
        calls.partial_fit(block)
    for X in (cut(rows), iter(cut(rows)), loader(rows), lambda: iter(cut(on_device(rows)))):
        once = clone(estimator).partial_fit(X)
        np.testing.assert_allclose(once.transform(rows), calls.transform(rows), atol=1e-10)
        assert once.n_samples_seen_ == N
    if hasattr(estimator, "refresh"):
        np.testing.assert_allclose(once.refresh().eigenvalues_, calls.refresh().eigenvalues_, rtol=1e-10)


def test_a_stream_that_breaks_leaves_the_model_as_it_was(rows):
    fitted = model().partial_fit(rows[:400])
    before = fitted.transform(rows)

    def breaks():
        yield rows[400:800]
        raise OSError("disk on fire")

    bad = [rows[400:800], rows[800:] * np.nan]
    mixed = [rows[400:800], rows[800:].astype(np.float32)]
    for X, words in (
        (breaks, "disk on fire"),
        (bad, "column 0 of row 400"),
        (mixed, "rows 400 to 1099 are float32"),
        ([rows[400:, :3]], "3 features"),
    ):
        with pytest.raises((OSError, ValueError), match=words):
            fitted.partial_fit(X)
        np.testing.assert_array_equal(fitted.transform(rows), before)
    assert fitted.n_samples_seen_ == 400


def test_weights_of_blocks(rows, weights):
    once = model().partial_fit(cut(rows), sample_weight=weights)
    np.testing.assert_allclose(
        once.eigenvalues_, model().partial_fit(rows, sample_weight=weights).eigenvalues_, rtol=1e-9
    )


def test_a_monitor_takes_blocks(rows):
    rows = rows[:240]
    monitor = KernelMonitor(n_components=3, n_support=8, cv=2, random_state=0).fit(rows)
    there = clone(monitor).fit(torch.as_tensor(rows))
    for X, expected in ((loader(rows, batch_size=100), monitor), (cut(on_device(rows), 100), there)):
        found = clone(monitor).fit(X)
        assert found.limits_["spe"] == pytest.approx(expected.limits_["spe"], rel=1e-6)
        np.testing.assert_allclose(found.statistics(X).spe, expected.statistics(rows).spe, rtol=1e-5, atol=1e-9)
    one_by_one = [monitor.update(row).spe for row in rows[:20]]
    monitor.restart()
    together = monitor.update(iter([rows[:7], torch.as_tensor(rows[7:15]), scipy.sparse.csr_array(rows[15:20])]))
    np.testing.assert_allclose([record.spe for record in together], one_by_one, rtol=1e-9)


def test_a_fit_of_three_passes(rows):
    expected = RobustSparseKernelPCA(2, gamma=0.2, random_state=0).fit(rows)
    found = clone(expected).fit(loader(rows))
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-7)


# --- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (lambda X: torch.as_tensor(X), "are a torch tensor on cpu, the first block is a numpy array"),
        (lambda X: scipy.sparse.csr_array(X), "are a sparse matrix, the first block is a numpy array"),
        (arrow_table, "are a pyarrow table, the first block is a numpy array"),
        (lambda X: X.astype(np.float32), "are float32, the first block is float64"),
    ],
)
def test_mixed_blocks_are_refused_by_their_rows(second, words, rows):
    blocks = [rows[:500], second(rows[500:])]
    for X in (blocks, lambda: iter(blocks)):
        fitted = model(**POINTS)
        with pytest.raises(ValueError, match=f"rows 500 to 1499 {words}"):
            fitted.fit(X)
        assert not hasattr(fitted, "expansion_")


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (None, "block 1 of the list is a NoneType, but must have rows and columns"),
        (np.ones(4), r"block 1 of the list is an array of shape \(4,\), but must have rows and columns"),
    ],
)
def test_a_list_with_something_else_than_blocks_says_where(second, words, rows):
    with pytest.raises(ValueError, match=words):
        model().fit([rows, second])


def test_columns_of_other_names_are_named(rows):
    pd = pytest.importorskip("pandas")
    blocks = [pd.DataFrame(rows, columns=NAMES), pd.DataFrame(rows[:7], columns=["a", "b", "x", "d"])]
    for X in (blocks, lambda: iter(blocks)):
        with pytest.raises(ValueError, match=r"rows 1500 to 1506 have other .* column 2 is 'x', there it is 'c'"):
            model().fit(X)


def test_text_in_a_list_says_in_which_block(rows):
    with pytest.raises(ValueError, match="could not convert string to float") as caught:
        model().fit([rows, np.full((3, 4), "a")])
    assert "the block that begins with row 1500" in caught.value.__notes__[0]


def test_a_loader_that_shuffles_is_refused(rows):
    with pytest.raises(ValueError, match="shuffle=False"):
        model().fit(loader(rows, shuffle=True))


def test_a_loader_of_dicts_is_refused_in_words(rows):
    batches = loader_of([{"x": block, "y": 0} for block in cut(torch.as_tensor(rows))])
    with pytest.raises(TypeError, match=r"a dict of 'x', 'y'.*a function that yields the tensor of each batch"):
        model(**POINTS).fit(batches)


@pytest.mark.parametrize("estimator", [KernelPCA(2, kernel="rbf"), ElasticNetPCA(2), RobustElasticNetPCA(2)])
@pytest.mark.parametrize("kind", ["list", "torch", "arrow batches", "function of torch", "loader of tuples"])
def test_what_needs_one_array_says_so(estimator, kind, rows):
    X = cut(rows) if kind == "list" else KINDS[kind](rows)
    with pytest.raises(TypeError, match=r"PCA needs all rows here in one array.*np.concatenate"):
        clone(estimator).fit(X)


def test_methods_that_need_one_array_say_so(rows):
    fitted = model(**POINTS).fit(rows)
    for method in (fitted.input_gradient, fitted.sensitivity, lambda X: compress(fitted, 5, X=X)):
        with pytest.raises(TypeError, match=r"SparseKernelPCA needs all rows here in one array"):
            method(cut(rows))


# --- what a pass costs ---------------------------------------------------------------------------------------------


def test_blocks_in_memory_are_read_once(rows, monkeypatch):
    """The sample's rows are drawn first, and only they are taken."""
    looked_at, look = [], streams.finite
    monkeypatch.setattr(streams, "finite", lambda taken: looked_at.append(len(taken)) or look(taken))
    blocks = cut(rows)
    StreamRows(Stream(lambda: iter(blocks), N, parts=blocks)).sample(300, np.random.default_rng(0))
    assert sum(looked_at) == 300


def test_only_rows_that_are_read_anew_are_fingerprinted(rows, monkeypatch):
    """Blocks in memory cost what one array there costs."""
    taken, sums = [], streams._sums
    monkeypatch.setattr(streams, "_sums", lambda *given: taken.append(1) or sums(*given))
    for blocks in (cut(rows), cut(on_device(rows))):
        model(**POINTS).fit(blocks)
        assert not taken
        model(**POINTS).fit(lambda blocks=blocks: iter(blocks))
        assert taken
        taken.clear()


def test_the_same_bits_for_any_number_of_threads(rows):
    found = [model(**POINTS, n_jobs=n).fit(lambda: iter(cut(rows, 37))) for n in (1, 2, 5)]
    for other in found[1:]:
        np.testing.assert_array_equal(other.dual_coef_, found[0].dual_coef_)
        np.testing.assert_array_equal(other.eigenvalues_, found[0].eigenvalues_)


def test_skips_are_a_fair_sample():
    """Every row is kept as often as any other: 1200 samples of 25 of 100 rows, chi-square at 99 rows."""
    X, kept = np.arange(100.0)[:, None], np.zeros(100)
    for seed in range(1200):
        sample = SkipSample(25, seed)
        for block in np.split(X, [30, 31, 90]):
            sample.add(block)
        numbers, values = sample.rows()
        assert np.array_equal(values[:, 0], numbers)
        kept[numbers] += 1
    assert 60 < np.sum((kept - 300) ** 2 / 225) < 150


def test_skips_do_not_depend_on_the_cut():
    X, cuts = np.arange(20_000.0)[:, None], [1, 2, 700, 701, 15_000]
    whole, parts = SkipSample(500, 3), SkipSample(500, 3)
    whole.add(X)
    for block in np.split(X, cuts):
        parts.add(block)
    np.testing.assert_array_equal(whole.rows()[0], parts.rows()[0])
    assert abs(whole.rows()[0].mean() - 10_000) < 1000  # 4 standard deviations of a mean of 500


def test_no_thread_reads_a_list(rows):
    """Blocks in memory need no reading ahead."""
    before = set(sys._current_frames())
    for _ in StreamRows(Stream(lambda: iter(cut(rows)), N, parts=cut(rows))).blocks():
        assert set(sys._current_frames()) == before
    assert threading.active_count() >= 1


def test_a_device_reads_no_further_than_its_work(rows):
    """The next block there is asked for when the last has been taken: it may be made in the same memory."""
    made = []

    def blocks():
        for block in cut(on_device(rows)):
            made.append(len(block))
            yield block

    for number, _ in enumerate(StreamRows(Stream(blocks, overwrites_blocks=True)).blocks()):
        assert len(made) == number + 1


@pytest.mark.parametrize("device", [None, "cpu"])
def test_small_blocks_cost_no_more_moments_than_large_ones(device, rows, monkeypatch):
    """They are joined until they are worth the work of a thread, or of a launch."""
    from kernelsieve.fit.moments import FeatureSums

    adds, add = [], FeatureSums.add
    monkeypatch.setattr(FeatureSums, "add", lambda self, *given: adds.append(1) or add(self, *given))
    model(**POINTS, device=device).fit(cut(rows, 10))
    model(**POINTS).fit(cut(on_device(rows), 10))
    assert len(adds) <= 6


@pytest.mark.parametrize("estimator", [KernelPCA(2), KernelMonitor(3, 10), SparseKernelPCA(2)])
def test_every_estimator_names_the_place_of_a_gap(estimator, rows):
    bad = rows[:200].copy()
    bad[123, 2] = np.nan
    with pytest.raises(ValueError, match=r"Input X contains NaN: the first is in column 2 of row 123 "):
        estimator.fit(bad)
