"""Thread policy: either many workers with one BLAS thread each, or one worker with BLAS as the user set it.

numpy's exp uses one thread, so blocks of rows are spread over worker threads.  A BLAS that starts its own threads under
each of them costs far more than it gains, and so does a BLAS that wakes a second thread for a 50 x 50 matrix.
`one_blas_thread` therefore wraps every pass over blocks and every small dense solver.  It counts its users, so that
fits running side by side restore the user's own setting exactly once, when the last of them leaves.

A pass over N rows is a list of row ranges, small enough for the cache.  A thread takes a group of neighbouring ranges
at a time and adds up its results in memory of its own, so that few results are left to be combined.  The ranges and
groups depend on the shapes alone, never on the number of threads, and results come back in order: the same data give
the same bits with any number of cores.

All maps share one pool of workers.  A thread is started when there is work for one more, up to the largest `n_threads`
that a map asked for (limited by the number of cores, or `ALWAYS_ALLOWED`), and ends after a second without work.

An interrupt (Ctrl-C) can come between any two steps of the interpreter.  `threading`'s conditions, the queues and
futures built on them, and `Thread.start` are written in Python: if one of them is cut short, it can leave a lock that
is never released.  So everything here waits on locks and queues of the interpreter itself (`RLock`, `SimpleQueue`), and
whatever an interrupted call leaves undone is put right when its frame ends, or at the latest by the next call.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import weakref
from _thread import start_new_thread as start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .arrays import Array, is_numpy, itemsize

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:
        """A property that is computed once and then kept.

        Before Python 3.12, functools' version holds one lock for all objects of a class: a child forked while another
        thread computes such a property waits for ever, because that thread does not exist in the child.
        """

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value


Item = TypeVar("Item")
Result = TypeVar("Result")

# A matrix product is cut into parts of at least this many multiplications.  Handing a smaller part to a thread costs
# more than it saves, and some BLAS compute very small products by another routine, whose last bits differ.
MIN_PART_WORK = 2**23
# BLAS computes 4, 8, 16 or 24 rows of a product together, and treats the rows left over at the end differently.  A
# product that is cut at multiples of 48 rows therefore has the same bits as the whole.
ROWS_TOGETHER = 48
# The kernel values of a block take at most this many bytes, and its rows half as many.  So they stay in the cache that
# cores share while they are read several times (product, norms, exponential, whitening).  With smaller blocks, threads
# would mostly wait for work and for the interpreter.
CACHE_BYTES = 2**23
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 128, 16384
CACHED_ROWS = 250  # this many rows, even of many columns, stay in a core's own cache between two operations on them
GROUPS = 64  # groups of blocks in a pass: at least four for each of up to 16 threads, so that none waits long
SPARE_THREADS = 4  # with at least this many threads, lending one to other work barely slows a pass over all rows
# More threads than cores help only a kernel that waits, for example for another machine.  This many threads are allowed
# whatever the number of cores.
ALWAYS_ALLOWED = 8
IDLE_SECONDS = 1.0  # a worker ends after this time without work; starting another takes less than a millisecond

_lock = threading.RLock()
_claims: list[weakref.ref[_Claim]] = []  # one for each caller inside `one_blas_thread`
_before: list[tuple[Any, int]] | None = None  # each BLAS with the user's number of threads; None while that is in force
_limited = False  # whether each BLAS has been set to one thread


class _Claim:
    """One caller's claim that BLAS use one thread; it ends with `_release`, or when this object is collected."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


@cache
def _libraries() -> list[Any]:
    """The process's BLAS libraries, as threadpoolctl controls them."""
    import scipy.linalg  # noqa: F401  scipy brings a BLAS of its own: load it before looking

    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS at one thread, for all threads of the process, until the last caller leaves the context."""
    # A worker needs no claim, because the thread that waits for its results has one.  Nor may it wait for the lock,
    # which an interrupt may have left with that thread.
    if _worker.batch is not None:
        yield
        return
    while _lock._is_owned():  # type: ignore[attr-defined]  # an interrupt left it locked, others would wait for ever
        _lock.release()
    claim = _Claim()
    reference = weakref.ref(claim, _release)  # also called if an interrupt keeps `finally` from being reached
    try:
        _limit(reference)
        yield
    finally:
        _release(reference)
        del reference  # so that `_release` is not called again when the claim is collected


def _limit(reference: weakref.ref[_Claim]) -> None:
    global _before, _limited
    with _lock:
        _claims.append(reference)  # comes first: from here on, the end of the claim restores the user's setting
        if _before is None:
            _before = [(library, library.num_threads) for library in _libraries()]
        if not _limited:
            _set_threads([(library, 1) for library, _ in _before])
            _limited = True


def _release(reference: weakref.ref[_Claim]) -> None:
    with _lock:
        others = [other for other in _claims if other is not reference and other() is not None]
        if not others:
            _restore()
        _claims[:] = others  # comes last: after an interrupt before this line, the end of the claim does it all again


def _restore() -> None:
    global _before, _limited
    if _before is not None:
        _limited = False
        _set_threads(_before)
        _before = None


def _set_threads(numbers: list[tuple[Any, int]]) -> None:
    for library, n_threads in numbers:
        # threadpoolctl 3.8 lets one thread at a time control OpenBLAS and ignores the others.  Here the first caller's
        # thread sets the number and the last caller's restores it, so control is released around each call.
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(n_threads)
        release(force=True)


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def effective_n_threads(n_jobs: int | None) -> int:
    """Worker threads for `n_jobs`: None = as many as BLAS may use now, -1 = all cores, -2 = all but one.

    With None, OMP_NUM_THREADS, joblib's nested limits and the user's threadpoolctl contexts are all respected.
    """
    cores = _available_cores()
    if n_jobs is None:
        with _lock:
            now = _before or [(library, library.num_threads) for library in _libraries()]
            allowed = max((n for _, n in now), default=1)
        return max(1, min(cores, allowed))
    if n_jobs == 0:
        raise ValueError("n_jobs=0 has no meaning: give None, a positive number, or -1 for all cores")
    return min(n_jobs, max(cores, ALWAYS_ALLOWED)) if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def _limit_this_thread() -> None:
    """Limit a BLAS that runs on OpenMP: its limit belongs to each thread, and workers do not inherit it."""
    for library in _libraries():
        if getattr(library, "threading_layer", None) == "openmp":
            library.set_num_threads(1)


class _Batch:
    """The items of one `ordered_map` that wait for a worker, each with a queue that its result will be put into."""

    stopped = False

    def __init__(self, function: Callable[[Any], Any], n_items: int, n_threads: int, within: _Batch | None) -> None:
        self.function = function
        self.n_items = n_items
        self.within = within  # the batch whose item asked for this one
        self.waiting: deque[tuple[Any, SimpleQueue[Any]]] = deque()
        self.permits = deque(range(n_threads))  # one for each item that may be computed at the same time

    @property
    def wanted(self) -> bool:
        return not self.stopped and (self.within is None or self.within.wanted)

    def work_on_next(self) -> bool:
        """Compute the next waiting item and put the result in its place; False if none was waiting."""
        try:
            item, place = self.waiting.popleft()
        except IndexError:
            return False
        if not self.wanted:
            place.put((None, _Unwanted()))
            return True
        before, _worker.batch = _worker.batch, self
        try:
            place.put((self.function(item), None))
        except BaseException as error:  # raised again where the result is waited for
            place.put((None, error))
        finally:
            _worker.batch = before
        return True

    def result(self, place: SimpleQueue[tuple[Any, BaseException | None]]) -> Any:
        """Wait for the result of one item.

        A worker that waits here computes items that nobody has begun: otherwise all workers could wait for each other.
        """
        while self.within is not None and place.empty() and self.work_on_next():
            pass
        result, error = place.get()
        if error is not None:
            raise error
        return result


class _Worker(threading.local):
    """The batch that this thread is working on; None if it is not a worker."""

    batch: _Batch | None = None


_worker = _Worker()


class _Unwanted(BaseException):
    """Ends an item of a batch whose results are no longer needed."""


class _Pool:
    """Worker threads, and a queue from which they take batches; each entry asks for one item of its batch."""

    def __init__(self) -> None:
        self.batches: SimpleQueue[_Batch] = SimpleQueue()
        self.workers: set[int] = set()  # the identifiers of the threads

    def hand_out(self, batch: _Batch, n_threads: int) -> None:
        """Queue the batch, so that a worker computes its next item; start workers until there are `n_threads`."""
        # The batch is queued before workers are counted: a worker that is about to end takes itself off the count and
        # then looks at the queue once more.
        self.batches.put(batch)
        while len(self.workers) < n_threads:
            begun: SimpleQueue[None] = SimpleQueue()
            try:
                start_new_thread(self._work, (begun,))
            except RuntimeError:  # the system gives no more threads
                if self.workers:
                    return
                raise
            begun.get()

    def _work(self, begun: SimpleQueue[None]) -> None:
        me = threading.get_ident()
        self.workers.add(me)
        begun.put(None)
        _limit_this_thread()
        try:
            while True:
                try:
                    batch = self.batches.get(timeout=IDLE_SECONDS)
                except Empty:
                    self.workers.discard(me)
                    batch = self.batches.get_nowait()
                    self.workers.add(me)
                self._work_on(batch)
                del batch  # so that its memory is not held until the next one comes
        except Empty:
            pass
        finally:
            self.workers.discard(me)

    def _work_on(self, batch: _Batch) -> None:
        """Compute one item of a batch, unless as many of its items are being computed as its threads allow."""
        try:
            permit = batch.permits.pop()
        except IndexError:  # a thread that has computed an item queues the batch again
            return
        batch.work_on_next()
        batch.permits.append(permit)
        if batch.waiting:
            self.batches.put(batch)


_pool = _Pool()


def _after_fork() -> None:
    """In a forked child only the forking thread exists: drop the locks, workers and claims of all others."""
    global _lock, _pool
    _lock, _pool = threading.RLock(), _Pool()
    _claims[:] = [r for r in _claims if (claim := r()) is not None and claim.thread == threading.get_ident()]
    if not _claims:
        _restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> Iterator[Result]:
    """`map` on worker threads, with the results in the order of `items`.

    Items are taken from an iterator as they are needed, at most 2 n_threads ahead of the result that is due next.

    Because of the order, sums do not depend on the number of threads, to the last bit.  The function may itself call
    `ordered_map`, which then uses the threads that the outer items leave free.
    """
    within = _worker.batch
    if within is not None and not within.wanted:
        raise _Unwanted
    n_items = len(items) if isinstance(items, Sized) else n_threads
    busy = within is not None and (within.within is not None or 2 * within.n_items > n_threads)
    if n_threads == 1 or n_items == 1 or busy:
        for item in items:  # not map: a StopIteration raised by the function would end it silently
            yield function(item)
        return
    n_threads = min(n_threads, max(_available_cores(), ALWAYS_ALLOWED))
    batch, places = _Batch(function, n_items, n_threads, within), deque[SimpleQueue[Any]]()
    try:
        for item in items:
            places.append(SimpleQueue())
            batch.waiting.append((item, places[-1]))
            _pool.hand_out(batch, n_threads)
            if len(places) >= 2 * n_threads:
                yield batch.result(places.popleft())
        while places:
            yield batch.result(places.popleft())
    finally:
        batch.stopped = True


def side_by_side(functions: Sequence[Callable[[], Any]], n_threads: int) -> list[Any]:
    """The results of all functions, computed at the same time if there are threads for it."""
    with one_blas_thread():
        return list(ordered_map(operator.call, functions, n_threads))


def row_ranges(n_rows: int, size: int) -> list[slice]:
    """The range [0, n_rows) cut into slices of nearly equal length, none longer than `size`."""
    return _cut(n_rows, max(1, -(-n_rows // size)))


def _cut(n_rows: int, count: int) -> list[slice]:
    bounds = [n_rows * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(bounds)]


def block_rows(n_columns: int, n_features: int, itemsize: int) -> int:
    """How many rows of `n_features` numbers, with `n_columns` kernel values each, make a block on the host."""
    cached = CACHE_BYTES // max(1, n_columns * itemsize, 2 * n_features * itemsize)
    return min(MAX_BLOCK_ROWS, max(MIN_BLOCK_ROWS, cached))


def row_groups(X: Array, n_columns: int, least: int = 1) -> list[list[slice]]:
    """Blocks of host rows X, adjacent ones joined in groups, which are one task each; at least `least` if possible."""
    blocks = row_ranges(X.shape[0], block_rows(n_columns, X.shape[1], itemsize(X)))
    if GROUPS < len(blocks) < 2 * GROUPS:
        # cut anew into two blocks a group: if some groups had one block and others two, threads would wait
        blocks = _cut(X.shape[0], 2 * GROUPS)
    return [blocks[part] for part in row_ranges(len(blocks), max(least, -(-len(blocks) // GROUPS)))]


def map_row_groups(
    function: Callable[[list[slice]], Result], X: Array, n_columns: int, n_threads: int
) -> Iterator[Result]:
    """function(ranges) for every group of neighbouring blocks of host rows X, in order, over `n_threads` threads."""
    with one_blas_thread():
        yield from ordered_map(function, row_groups(X, n_columns), n_threads)


def matmul(a: Array, b: Array, n_threads: int) -> Array:
    """a @ b, with the rows of a spread over threads; spurious "invalid value" flags that BLAS raises are silenced."""
    n, n_parts = a.shape[0], min(n_threads, a.shape[0] * a.shape[1] * b.shape[1] // MIN_PART_WORK)
    # numpy computes a @ a.T by another routine of BLAS, so that parts of it would differ in the last bits
    alike = is_numpy(a) and np.may_share_memory(a, b)
    if n_parts <= 1 or not is_numpy(a) or alike:
        with np.errstate(invalid="ignore"):
            return a @ b
    out = np.empty((n, b.shape[1]), dtype=np.result_type(a, b))
    size = -(-n // (n_parts * ROWS_TOGETHER)) * ROWS_TOGETHER
    bounds = [*range(0, max(1, n - size // 2), size), n]  # the last part has at least half the size of the others

    @np.errstate(invalid="ignore")
    def fill(rows: slice) -> None:
        np.matmul(a[rows], b, out=out[rows])

    with one_blas_thread():
        list(ordered_map(fill, [slice(*ends) for ends in pairwise(bounds)], n_threads))
    return out
