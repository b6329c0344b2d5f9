"""Blocks of any form, support by row number, and scores that come in blocks."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from oracles import gram_of
from stream_cases import NAMES, SAMPLE, N, Passes, assert_same_fit, model, readers

from kernelsieve.rows.kinds import Copies
from kernelsieve.rows.sources import Stream
from kernelsieve.rows.streams import StreamRows


def test_blocks_may_be_one_buffer(rows):
    """A reader may fill the same array again and again: blocks are read ahead, and must not change meanwhile."""

    def one_buffer():
        buffer = np.empty((100, 4))
        for start in range(0, N, 100):
            buffer[:] = rows[start : start + 100]
            yield buffer

    assert_same_fit(model(**SAMPLE).fit(one_buffer), model(**SAMPLE).fit(Passes(rows)), 1e-10)


def test_copies_of_blocks_use_the_same_memory_again(rows):
    """New memory for each block of 128 MB took fifteen times as long as the copy."""

    def one_buffer():
        buffer = np.empty((100, 4))
        for start in range(0, N, 100):
            buffer[:] = rows[start : start + 100]
            yield buffer

    places, kept = set(), []
    for start, block in StreamRows(Stream(one_buffer, overwrites_blocks=True)).blocks():
        np.testing.assert_array_equal(block, rows[start : start + 100])
        places.add(block.__array_interface__["data"][0])
        if start == 300:
            kept = [block[7:9, 1:], block.T]
    # One is worked on, one is read ahead, one is let go, parts of one are kept, and one may be on its way between them.
    assert len(places) <= 5
    np.testing.assert_array_equal(kept[0], rows[307:309, 1:])
    np.testing.assert_array_equal(kept[1], rows[300:400].T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_of_blocks_of_any_size_and_layout(rows, dtype):
    copies = Copies()
    for block in (rows[:5], rows[:900], rows[::3], np.asfortranarray(rows[:50]), rows[:0], rows[5:6]):
        given = block.astype(dtype, order="K")
        copied = copies.copy(given)
        assert copied.dtype == dtype
        assert not np.shares_memory(copied, given)
        np.testing.assert_array_equal(copied, given)


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
    with pytest.raises(ValueError, match=r"rows 300 to 1499 have other .* column 0 is 'd', there it is 'a'"):
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


def test_reading_far_ahead_ends_with_the_transform(rows):
    """More and more blocks are read ahead, and none any more once the scores are no longer asked for."""
    read = []

    def blocks():
        for number in range(1000):
            read.append(number)
            yield rows[:50]

    scores = model(n_jobs=4).fit(rows).transform(blocks)
    for _ in range(20):
        next(scores)
    time.sleep(0.1)
    assert 25 < len(read) < 80
    scores.close()
    after = len(read)
    time.sleep(0.1)
    assert len(read) == after
    assert not readers()


def test_a_block_that_is_late_holds_up_no_scores(rows):
    """Scores are given before the next block is there, however far ahead may be read."""
    asked = threading.Semaphore(0)

    def one_at_a_time():
        for start in range(0, N, 50):
            assert asked.acquire(timeout=10)
            yield rows[start : start + 50]

    scores = model(n_jobs=4).fit(rows).transform(one_at_a_time)
    for _ in range(N // 50):
        asked.release()
        assert len(next(scores)) == 50


@pytest.mark.parametrize("source", ["list", "function"])
def test_small_blocks_are_transformed_side_by_side(source, rows):
    """One small block after the other would keep one thread busy, however many there are."""
    working, most = [], 0

    def slow_kernel(X, Y):
        nonlocal most
        if len(X) == 50:
            working.append(1)
            most = max(most, len(working))
            time.sleep(0.02)
            working.pop()
        return gram_of("rbf", X, Y, gamma=0.2)

    options = {"selection": np.arange(7), "n_support": 7}
    fitted = model(kernel=slow_kernel, n_jobs=4, **options).fit(rows[:300])
    blocks = np.split(rows, N // 50)
    values = list(fitted.transform(blocks if source == "list" else lambda: iter(blocks)))
    assert [len(block) for block in values] == [50] * len(blocks)
    assert most == 4
    expected = model(kernel="rbf", gamma=0.2, **options).fit(rows[:300]).transform(rows)
    np.testing.assert_allclose(np.concatenate(values), expected, atol=1e-10)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("bad", ["a gap", "another kind"])
def test_values_of_the_blocks_before_a_bad_one_come_first(bad, n_jobs, rows):
    fitted = model(n_jobs=n_jobs).fit(rows)
    blocks = np.split(rows, 15)
    blocks[9] = blocks[9] * np.nan if bad == "a gap" else blocks[9].astype(np.float32)
    scores = fitted.transform(blocks)
    np.testing.assert_allclose(
        np.concatenate([next(scores) for _ in range(9)]), fitted.transform(rows[:900]), atol=1e-12
    )
    with pytest.raises(ValueError, match="rows 900 to 999"):
        next(scores)


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
