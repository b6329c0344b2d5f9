"""Streams that end, change, break or hold what cannot be read: named, and nothing is left behind."""

from __future__ import annotations

import _thread
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import gram_of
from sklearn.exceptions import NotFittedError
from stream_cases import SAMPLE, N, Passes, arrow_table, assert_same_fit, model, readers
from test_threads import interrupted_at

from kernelsieve import SparseKernelPCA
from kernelsieve.rows.sources import Stream
from kernelsieve.rows.streams import StreamRows, fingerprint

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


@pytest.mark.parametrize("change", ["value", "order", "missing"])
@pytest.mark.parametrize("library", ["numpy", "torch", "device"])
def test_rows_that_change_are_named_as_far_as_the_cut_tells(change, library, rows):
    """Blocks of 250 rows in the first pass and of 500 in the second: they have every second bound in common."""
    if library != "numpy":
        pytest.importorskip("torch")
        from stand_in import on_device, torch
    count = 0
    there = {"numpy": lambda X: X, "torch": lambda X: torch.as_tensor(X), "device": lambda X: on_device(X)}[library]

    def blocks():
        nonlocal count
        count += 1
        X = rows.copy()
        if count == 2 and change == "value":
            X[777, 1] += 1e-3
        if count == 2 and change == "order":
            X[[600, 900]] = X[[900, 600]]
        if count == 2 and change == "missing":
            X = np.vstack([X[:777], X[778:], X[:1]])
        yield from (there(part) for part in np.array_split(X, 6 if count == 1 else 3))

    with pytest.raises(ValueError, match=r"^rows 500 to 999, or their order, changed between two passes"):
        model(**SAMPLE).fit(Stream(blocks))  # of a function small blocks are joined


@pytest.mark.parametrize("on_pass", [1, 2])
def test_errors_while_a_block_is_read_say_where(on_pass, rows):
    count = 0

    def blocks(last):
        nonlocal count
        count += 1
        yield rows[:500]
        if count == on_pass:
            yield last()
        yield rows[500:]

    def fails():
        raise Broken("disk on fire")

    for last in (fails, lambda: rows[0], lambda: np.array([["a"] * 4]), lambda: rows[:5] * 1j):
        count = 0
        with pytest.raises((Broken, ValueError)) as caught:
            model(**SAMPLE).fit(lambda last=last: blocks(last))
        assert "the block that begins with row 500" in caught.value.__notes__[-1]


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


@pytest.mark.parametrize("n_rows", [1, 1000, 4096, 65_536, 65_537, 70_000])
def test_blocks_that_change_places_have_another_fingerprint(n_rows):
    X = np.random.default_rng(0).standard_normal((3 * n_rows, 2))
    exchanged = np.concatenate([X[2 * n_rows :], X[n_rows : 2 * n_rows], X[:n_rows]])
    assert not fingerprint(exchanged, 0).matches(fingerprint(X, 0))


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
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            fitted.fit(blocks)
    finally:
        signal.signal(signal.SIGINT, handler)
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
    """1,000,000 x 20 of float64 (160 MB) fit within a fifth of that.

    A fit takes 16 to 22 MB of this, however long the file is; what varies is the memory that Arrow's pools hold on to.
    """
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X = np.random.default_rng(0).standard_normal((1_000_000, 20))
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
