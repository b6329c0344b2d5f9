"""Thread policy: one BLAS thread inside, the user's own setting after; and progress through callbacks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from kernelsieve import SparseKernelPCA, threads
from kernelsieve.threads import effective_n_threads, one_blas_thread, ordered_map, side_by_side


def blas_threads():
    return [library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def several_blas_threads():
    """BLAS at three threads, whatever the machine has, so that one is a difference."""
    with threadpool_limits(3, user_api="blas"):
        if blas_threads() != [3] * len(blas_threads()):
            pytest.skip("this BLAS does not take a number of threads")
        yield


def test_one_thread_inside_and_the_users_own_after():
    before = blas_threads()
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_an_exception_restores_it():
    before = blas_threads()
    with pytest.raises(RuntimeError, match="inside"), one_blas_thread():
        raise RuntimeError("inside")
    assert blas_threads() == before


@pytest.mark.parametrize("first_to_leave", ["first", "second"])
def test_overlapping_users_restore_it_once(first_to_leave):
    """Two threads inside at once, leaving in either order: one BLAS thread until the last has left."""
    before, inside, leave = blas_threads(), [threading.Event() for _ in range(2)], [threading.Event() for _ in range(2)]

    def user(i):
        with one_blas_thread():
            inside[i].set()
            leave[i].wait(10)

    users = [threading.Thread(target=user, args=(i,)) for i in range(2)]
    for i in range(2):
        users[i].start()
        assert inside[i].wait(10)
    order = (0, 1) if first_to_leave == "first" else (1, 0)
    leave[order[0]].set()
    users[order[0]].join(10)
    assert set(blas_threads()) == {1}
    leave[order[1]].set()
    users[order[1]].join(10)
    assert blas_threads() == before


def test_many_users_at_once():
    before = blas_threads()

    def user(_):
        for _ in range(50):
            with one_blas_thread():
                assert effective_n_threads(None) == min(3, effective_n_threads(-1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(user, range(8)))
    assert blas_threads() == before


def test_a_fit_and_a_failed_fit_restore_it(cloud):
    before = blas_threads()
    SparseKernelPCA(2, n_support=8, random_state=0).fit(cloud).transform(cloud)
    assert blas_threads() == before

    def breaks(X, Y):
        if len(X) > 5:
            raise RuntimeError("kernel broke")
        return X @ Y.T

    with pytest.raises(RuntimeError, match="kernel broke"):
        SparseKernelPCA(2, n_support=8, kernel=breaks).fit(cloud)
    assert blas_threads() == before


def test_models_fit_side_by_side(cloud):
    """Fits in several threads of one process give what they give alone."""
    alone = [SparseKernelPCA(2, n_support=8, random_state=seed, n_jobs=2).fit(cloud).eigenvalues_ for seed in range(6)]
    with ThreadPoolExecutor(3) as pool:
        together = list(
            pool.map(
                lambda seed: SparseKernelPCA(2, n_support=8, random_state=seed, n_jobs=2).fit(cloud).eigenvalues_,
                range(6),
            )
        )
    np.testing.assert_allclose(together, alone, rtol=1e-10)


def test_a_fit_in_another_thread_does_not_take_the_limit_from_its_owner(cloud):
    """The user's limit in the main thread holds before, during and after fits elsewhere, and ends where it ends."""
    outside = blas_threads()
    with threadpool_limits(2, user_api="blas"):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: SparseKernelPCA(2, n_support=8, random_state=0).fit(cloud)).result()
            assert set(blas_threads()) == {2}
        assert set(blas_threads()) == {2}
    assert blas_threads() == outside


# Interrupts


def interrupted_at(step, call, module):
    """Raise KeyboardInterrupt at that step of the interpreter in the module; whether the call came so far."""
    n_steps = 0

    def trace(frame, event, _):
        nonlocal n_steps
        if not frame.f_code.co_filename.endswith(module):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            n_steps += 1
            if n_steps == step:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces steps only if a frame asked for it before settrace
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return n_steps >= step


def test_an_interrupt_anywhere_leaves_blas_as_it_was():
    """Ctrl-C between any two steps of entering and leaving; a step or two later at the latest, all is as it was."""
    before = blas_threads()

    def use():
        with one_blas_thread(), one_blas_thread():
            pass

    step = 1
    while interrupted_at(step, use, "threads.py"):
        assert [library.num_threads for library in threads._libraries()] == before, step
        assert effective_n_threads(None) == min(before[0], effective_n_threads(-1))
        step += 1
    assert step > 50


def test_an_interrupt_anywhere_leaves_the_workers_at_work():
    step = 1
    while interrupted_at(step, lambda: list(ordered_map(abs, range(5), 2)), "threads.py"):
        assert list(ordered_map(abs, range(-3, 3), 2)) == [3, 2, 1, 0, 1, 2], step
        step += 1
    assert step > 50


def test_an_interrupt_anywhere_leaves_the_workers_of_maps_within_maps_at_work():
    step = 1
    while interrupted_at(step, lambda: nested_sum((2, 3), 4), "threads.py"):
        assert in_time(lambda: nested_sum((2, 3), 4)) == 6, step
        step += 1
    assert step > 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_child_forked_while_another_thread_fits_can_fit():
    """Whatever lock the other thread holds at that moment, the child does not wait for it."""
    code = """
        import os, signal, threading, time, warnings
        import numpy as np
        from kernelsieve import SparseKernelPCA, threads
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).standard_normal((400, 4))
        inside, go_on = threading.Event(), threading.Event()

        def slow(A, B):
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                go_on.wait(60)
            return np.exp(-((A[:, None] - B) ** 2).sum(axis=2))

        def fit():
            return SparseKernelPCA(2, n_support=8, selection="targeted", kernel=slow, random_state=0, n_jobs=2).fit(X)

        for seconds in (0, 0.01, 0.05):  # at the first kernel values, and later
            inside.clear(), go_on.clear()
            other = threading.Thread(target=fit)
            other.start()
            inside.wait()
            if seconds:
                go_on.set()
                time.sleep(seconds)
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                go_on.set()
                fit()
                os._exit(0)
            _, status = os.waitpid(child, 0)
            go_on.set()
            other.join()
            assert status == 0, (seconds, status)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr


# How many threads


def test_effective_n_threads():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert effective_n_threads(1) == 1
    assert effective_n_threads(7) == 7
    assert effective_n_threads(-1) == cores
    assert effective_n_threads(-2) == max(1, cores - 1)
    assert effective_n_threads(-1000) == 1
    with pytest.raises(ValueError, match="n_jobs=0 has no meaning"):
        effective_n_threads(0)


def test_none_is_what_blas_may_use():
    cores = effective_n_threads(-1)
    assert effective_n_threads(None) == min(3, cores)
    with one_blas_thread():  # our own limit is not the user's
        assert effective_n_threads(None) == min(3, cores)
    with threadpool_limits(1, user_api="blas"):
        assert effective_n_threads(None) == 1


# The pool


def test_results_come_in_order_whatever_finishes_first():
    pauses = [0.03, 0.0, 0.02, 0.0, 0.01] * 4

    def work(i):
        threading.Event().wait(pauses[i])
        return i

    assert list(ordered_map(work, range(20), 4)) == list(range(20))
    assert list(ordered_map(work, range(5), 1)) == list(range(5))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts the system's threads")
def test_workers_are_as_many_as_the_largest_number_asked_for_and_end_when_idle():
    def count():
        return len(os.listdir("/proc/self/task"))

    def wait_until(condition):
        end = time.monotonic() + 20
        while not condition() and time.monotonic() < end:
            time.sleep(0.05)
        return condition()

    assert wait_until(lambda: not threads._pool.workers)
    before, most = count(), max(effective_n_threads(-1), threads.ALWAYS_ALLOWED)
    for n_jobs in (*range(2, 25), 1000):
        n_threads = effective_n_threads(n_jobs)
        assert sum(ordered_map(abs, range(50), n_threads)) == 1225
        assert nested_sum((2, 5), n_threads) == 10
        assert count() - before <= min(n_threads, most)
    assert wait_until(lambda: count() <= before)
    assert list(ordered_map(abs, range(5), 3)) == [0, 1, 2, 3, 4]  # by new ones


def test_a_map_has_no_more_items_at_work_than_it_may():
    """However many workers there are: a pool that has grown does not make n_jobs=2 use more than two."""
    at_work, most, lock = 0, 0, threading.Lock()

    def work(_):
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.002)
        with lock:
            at_work -= 1

    list(ordered_map(abs, range(50), 8))
    for n_threads in (2, 3):
        most = 0
        list(ordered_map(work, range(40), n_threads))
        assert most == n_threads


def test_a_long_map_does_not_keep_workers_from_another():
    """Items are taken in turn from all maps under way."""
    done = []
    long = ordered_map(lambda _: done.append(time.sleep(0.003)), range(400), 2)
    next(long)
    other = threading.Thread(target=lambda: list(long), daemon=True)
    other.start()
    assert len(list(ordered_map(lambda _: time.sleep(0.003), range(20), 2))) == 20
    assert len(done) < 200
    other.join(20)
    assert len(done) == 400


def test_workers_that_end_while_work_arrives_lose_none_of_it(monkeypatch):
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.0005)
    for pause in np.linspace(0, 0.002, 400):
        assert in_time(lambda: list(ordered_map(abs, range(-2, 2), 2))) == [2, 1, 0, 1]
        time.sleep(pause)


def test_a_system_without_threads_to_give_is_done_with_by_those_there_are(monkeypatch):
    start, left = threads.start_new_thread, [1]

    def refuses(function, args):
        if not left:
            raise RuntimeError("can't start new thread")
        left.clear()
        return start(function, args)

    monkeypatch.setattr(threads, "_pool", threads._Pool())
    monkeypatch.setattr(threads, "start_new_thread", refuses)
    assert in_time(lambda: list(ordered_map(abs, range(-2, 2), 4))) == [2, 1, 0, 1]
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    with pytest.raises(RuntimeError, match="new thread"):
        list(ordered_map(abs, range(-2, 2), 4))


def test_an_error_in_a_worker_is_raised():
    def work(i):
        if i == 3:
            raise KeyError("three")
        return i

    with pytest.raises(KeyError, match="three"):
        list(ordered_map(work, range(10), 4))
    assert list(ordered_map(lambda i: i, range(10), 4)) == list(range(10))  # and the pool still works


def test_few_results_wait():
    """A slow consumer holds the workers back: memory is for a few blocks, never for all."""
    started = []

    def work(i):
        started.append(i)
        return i

    results = ordered_map(work, range(1000), 3)
    next(results)
    threading.Event().wait(0.05)
    assert len(started) <= 8
    results.close()


def in_time(function, seconds=20):
    """The function's result, in a thread that is not waited for any longer than that."""
    found = []
    worker = threading.Thread(target=lambda: found.append(function()), daemon=True)
    worker.start()
    worker.join(seconds)
    assert found, "still waiting"
    return found[0]


def nested_sum(sizes, n_threads):
    """sum over i < sizes[0] of the sum over j < sizes[1] of ... 1, each by a map of its own."""
    if not sizes:
        return 1
    return sum(ordered_map(lambda _: nested_sum(sizes[1:], n_threads), range(sizes[0]), n_threads))


@pytest.mark.parametrize("n_threads", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("sizes", [(2, 3), (2, 40), (16, 5), (40, 2), (3, 4, 5), (2, 2, 2, 2)])
def test_maps_within_maps_come_to_an_end(sizes, n_threads):
    """Workers that wait for workers: never for one that waits for them."""
    assert in_time(lambda: nested_sum(sizes, n_threads)) == np.prod(sizes)


def test_maps_within_maps_of_many_users_at_once_come_to_an_end():
    def together():
        with ThreadPoolExecutor(6) as users:
            return list(users.map(lambda _: nested_sum((2, 6, 3), 4), range(24)))

    assert in_time(together) == [36] * 24


def test_a_map_within_a_map_uses_threads_that_have_no_work():
    """Two items for eight threads: what each of them asks for is done by several at once."""
    meeting = threading.Barrier(6, timeout=10)

    def item(_):
        return list(ordered_map(lambda _: meeting.wait() >= 0, range(3), 8))

    assert in_time(lambda: list(ordered_map(item, range(2), 8))) == [[True] * 3] * 2


@pytest.mark.parametrize("n_threads", [2, 8])
def test_an_error_in_a_map_within_a_map_is_raised(n_threads):
    def work(i):
        if i == 13:
            raise KeyError("thirteen")
        return i

    with pytest.raises(KeyError, match="thirteen"):
        list(ordered_map(lambda k: list(ordered_map(work, range(10 * k, 10 * k + 10), n_threads)), range(2), n_threads))
    assert nested_sum((2, 5), n_threads) == 10  # and the pools still work


@pytest.mark.parametrize("n_threads", [2, 8])
def test_who_stops_asking_stops_what_is_done_for_it(n_threads):
    """A map that is given up, as by Ctrl-C, ends the maps within it: nothing runs on for nobody."""
    done, first = [], threading.Event()

    def step(i):
        done.append(i)
        threading.Event().wait(0.01)

    def item(k):
        for _ in range(500 if k else 0):
            list(ordered_map(step, range(2), n_threads))
            first.set()
        return k

    results = ordered_map(item, range(2), n_threads)
    assert next(results) == 0
    assert first.wait(10)
    results.close()
    threading.Event().wait(0.2)
    so_far = len(done)
    threading.Event().wait(0.1)
    assert len(done) == so_far < 500
    assert nested_sum((2, 5), n_threads) == 10


def test_nobody_waits_for_a_lock_that_an_interrupt_has_left():
    rows = np.random.default_rng(0).standard_normal((9000, 4))

    def fit():
        return SparseKernelPCA(2, n_support=8, random_state=0, n_jobs=4).fit(rows).eigenvalues_

    alone = fit()
    threads._lock.acquire()
    assert (fit() == alone).all()
    assert (in_time(fit) == alone).all()


def test_functions_side_by_side_meet():
    meeting = threading.Barrier(3, timeout=10)
    assert sorted(in_time(lambda: side_by_side([meeting.wait] * 3, 3))) == [0, 1, 2]
    assert side_by_side([lambda: "a", lambda: 2], 1) == ["a", 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_can_fit():
    """A fork copies the pool's queue but none of its threads: the child must not wait for them."""
    code = """
        import multiprocessing, warnings
        import numpy as np
        from kernelsieve import SparseKernelPCA, threads
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).standard_normal((9000, 4))

        def fit(_=None):
            return SparseKernelPCA(2, n_support=8, selection="uniform", random_state=0, n_jobs=2).fit(X).eigenvalues_

        here = fit()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            there = pool.apply_async(fit).get(timeout=60)
        assert np.allclose(here, there)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n_rows", "n_columns"), [(1000, 17), (1300, 10), (3000, 58)])
def test_a_product_has_the_same_bits_for_any_number_of_threads(n_rows, n_columns, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((n_rows, n_rows)).astype(dtype), rng.standard_normal((n_rows, n_columns)).astype(dtype)
    with one_blas_thread():
        alone = a @ b
    for n_threads in (2, 3, 5, 16, 100):
        assert (threads.matmul(a, b, n_threads) == alone).all()


# Progress


class Recorder:
    """A scikit-learn callback that writes down what it is told."""

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))


@pytest.fixture
def recorder():
    pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")
    return Recorder()


@pytest.mark.parametrize("options", [{"n_support": 8}, {}, {"selection": [1, 2, 3, 4]}])
def test_callbacks_see_every_stage(options, recorder, cloud):
    SparseKernelPCA(2, random_state=0, **options).set_callbacks(recorder).fit(cloud)
    assert recorder.events[0] == ("setup", "fit")
    assert recorder.events[1] == ("begin", "fit")
    assert recorder.events[-2:] == [("end", "fit"), ("teardown", "fit")]
    stages = recorder.events[2:-2]
    assert [kind for kind, _ in stages] == ["begin", "end"] * (len(stages) // 2)
    assert [name for _, name in stages[::2]] == [name for _, name in stages[1::2]]
    assert len(stages) >= 4


def test_callbacks_are_torn_down_when_a_fit_fails(recorder):
    with pytest.raises(ValueError, match=r"different rows|the same"):
        SparseKernelPCA(2, n_support=5, random_state=0).set_callbacks(recorder).fit(np.ones((5000, 3)))
    assert recorder.events[-1] == ("teardown", "fit")


def test_a_progress_bar_runs(cloud, capsys):
    callback = pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")
    pytest.importorskip("rich")
    SparseKernelPCA(2, n_support=8, random_state=0).set_callbacks(callback.ProgressBar()).fit(cloud)
    assert "SparseKernelPCA" in capsys.readouterr().out


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_function_that_stops_an_iteration_ends_the_map_with_an_error(n_threads):
    """A bare next() in a user's kernel: what comes after it was left out without a word."""

    def function(item):
        return next(iter(())) if item == 2 else item

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(threads.ordered_map(function, range(5), n_threads))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_rows_with_themselves_have_the_same_bits_for_any_number_of_threads(dtype):
    for n_rows in (300, 431, 700):
        rows = np.random.default_rng(n_rows).standard_normal((n_rows, 801)).astype(dtype)
        for n_threads in (2, 4, 16):
            assert np.array_equal(threads.matmul(rows, rows.T, n_threads), threads.matmul(rows, rows.T, 1))
