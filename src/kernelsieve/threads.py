"""Thread policy: either many workers with one BLAS thread each, or one worker with BLAS as it is.

numpy's exp uses one thread, so blocks of rows are spread over worker threads; a BLAS that starts its
own threads under each of them costs far more than it gains, and so does one that wakes a second
thread for a 50 x 50 matrix.  `one_blas_thread` therefore wraps every pass over blocks and every small
dense solver.  It counts its users, so that fits running side by side restore the user's own setting
exactly once, when the last of them leaves.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .arrays import Array, is_numpy

Item = TypeVar("Item")
Result = TypeVar("Result")

# Multiplications below which handing a product to threads costs more than it saves.
MIN_THREADED_WORK = 2**26

_lock = threading.Lock()
_users = 0
_before: list[tuple[Any, int]] = []  # each BLAS with the number of threads it had


@cache
def _libraries() -> list[Any]:
    """The process's BLAS libraries, as threadpoolctl controls them."""
    import scipy.linalg  # noqa: F401  scipy brings a BLAS of its own: load it before looking

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS at one thread, for all threads of the process, until the last user leaves."""
    global _users, _before
    with _lock:
        if _users == 0:
            _before = [(library, library.num_threads) for library in _libraries()]
            _set_threads([(library, 1) for library in _libraries()])
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _set_threads(_before)


def _set_threads(numbers: list[tuple[Any, int]]) -> None:
    for library, n_threads in numbers:
        # threadpoolctl 3.8 lets one thread at a time set OpenBLAS and ignores the others; here the first user's
        # thread sets and the last user's restores, so the right to do so is given up around each call
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(n_threads)
        release(force=True)


def _blas_threads() -> int:
    return max((library.num_threads for library in _libraries()), default=1)


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def effective_n_threads(n_jobs: int | None) -> int:
    """Worker threads for `n_jobs`: None = as many as BLAS may use now, -1 = all cores, -2 = all but one.

    Taking BLAS's own setting for None means that OMP_NUM_THREADS, joblib's nested limits and the
    user's threadpoolctl contexts are all respected.
    """
    cores = _available_cores()
    if n_jobs is None:
        with _lock:
            allowed = max((n for _, n in _before), default=1) if _users else _blas_threads()
        return max(1, min(cores, allowed))
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning: give None, a positive number, or -1 for all cores")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="kernelsieve", initializer=_limit_this_thread)


def _limit_this_thread() -> None:
    """Where BLAS runs on OpenMP its limit is each thread's own, and workers do not inherit it."""
    for library in _libraries():
        if getattr(library, "threading_layer", None) == "openmp":
            library.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # a forked child has the pool's queue but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def ordered_map(function: Callable[[Item], Result], items: Sequence[Item], n_threads: int) -> Iterator[Result]:
    """`map` over worker threads, results in the order of `items`, at most 2 n_threads of them waiting.

    The order makes sums independent of the number of threads, to the last bit.
    """
    if n_threads == 1 or len(items) == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(_pool(n_threads).submit(function, item))
            if len(waiting) >= 2 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def row_ranges(n_rows: int, size: int) -> list[slice]:
    """[0, n_rows) cut into slices of nearly equal length, none longer than `size`."""
    count = max(1, -(-n_rows // size))
    bounds = [n_rows * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]


def matmul(a: Array, b: Array, n_threads: int) -> Array:
    """a @ b, the rows of a spread over threads."""
    work = a.shape[0] * a.shape[1] * b.shape[1]
    if n_threads == 1 or not is_numpy(a) or work < MIN_THREADED_WORK:
        return a @ b
    out = np.empty((a.shape[0], b.shape[1]), dtype=np.result_type(a, b))
    parts = row_ranges(a.shape[0], -(-a.shape[0] // n_threads))
    with one_blas_thread():
        list(ordered_map(lambda rows: np.matmul(a[rows], b, out=out[rows]), parts, n_threads))
    return out
