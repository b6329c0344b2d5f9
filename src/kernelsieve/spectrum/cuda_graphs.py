"""Recorded sequences of torch operations, which a CUDA device replays: one launch instead of two hundred.

A device receives its operations one by one.  With a few hundred points it spends more time waiting for the next
operation than working.  Here, a `line` is a function that runs a sequence of operations which is always the same for
arrays of the same shapes, and which reads no value back from the device.  A line is recorded as a CUDA graph when it is
first used, and replayed from then on, in this fit and in later ones.  On other devices, and if CUDA cannot record it,
it is simply run.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any

from ..arrays import Array
from ..threads import start_new_thread

LINE_REPEATS = 10  # how often a line that is to be repeated is run in one recording
KEPT = 16  # recordings that a thread keeps on a device; a new one then replaces the least recently used one

Line = Callable[..., tuple[Array, ...]]


def recorded(key: Hashable, line: Line, *given: Array) -> tuple[Array, ...]:
    """line(*given), replayed if it has been recorded.

    The key and the arrays' shapes must determine what the line does.  Anything else that it uses keeps, in replays, the
    value that it had during the recording.
    """
    if given[0].device.type != "cuda":
        return line(*given)
    import torch

    with torch.cuda.device(given[0].device):
        recording = _stage().recording(key, line, given)
        recording.set(given)
        return recording.found() if recording.play() else line(*given)


def repeat(key: Hashable, line: Callable[..., None], n_times: int, *state: Array) -> None:
    """Call line(*state) `n_times` times, which changes these arrays in place; `key` as in `recorded`."""
    n_left = n_times
    if state[0].device.type == "cuda" and n_times >= LINE_REPEATS:
        import torch

        def some(*arrays: Array) -> tuple[Array, ...]:
            for _ in range(LINE_REPEATS):
                line(*arrays)
            return arrays

        with torch.cuda.device(state[0].device):
            recording = _stage().recording(key, some, state)
            recording.set(state)
            while n_left >= LINE_REPEATS and recording.play():
                n_left -= LINE_REPEATS
            recording.copy_to(state)
    for _ in range(n_left):
        line(*state)


class Recording:
    """A line recorded for arrays of certain shapes, or nothing if CUDA could not record it.

    The line itself is not kept, because it may hold arrays of a single fit.
    """

    def __init__(self, line: Line, given: tuple[Array, ...], stage: _Stage) -> None:
        import torch

        self._given = tuple(array.clone(memory_format=torch.contiguous_format) for array in given)
        self._graph = torch.cuda.CUDAGraph()
        try:
            line(*self._given)  # a first run outside the recording, in which libraries allocate their workspaces
            self._found = stage.record(self._graph, lambda: line(*self._given))
        except RuntimeError:  # an operation that this version of CUDA can run but not record
            self._graph = None

    def set(self, given: tuple[Array, ...]) -> None:
        """Use these arrays in the next replay."""
        _copy(given, self._given)

    def play(self) -> bool:
        """Replay the line; False if it could not be recorded."""
        if self._graph is not None:
            self._graph.replay()
        return self._graph is not None

    def found(self) -> tuple[Array, ...]:
        """Copies of the results of the last replay."""
        import torch

        copies = tuple(torch.empty_like(array) for array in self._found)
        _copy(self._found, copies)
        return copies

    def copy_to(self, state: tuple[Array, ...]) -> None:
        """Copy the arrays that replays have changed in place to `state`."""
        _copy(self._given, state)


def side_by_side_on(device: Any, short: Callable[[], Any], long: Callable[[], Any]) -> tuple[Any, Any]:
    """short() and long(), computed at the same time on a CUDA device, with what both use computed before.

    long() takes few operations, which a thread launches; short() takes many small ones, which go first on the device.
    """
    import torch

    found: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    with torch.cuda.device(device):
        current, first, with_gradients = torch.cuda.current_stream(), _stage().first, torch.is_grad_enabled()
        first.wait_stream(current)

        def beside() -> None:
            try:
                with torch.cuda.stream(current), torch.set_grad_enabled(with_gradients):
                    found.put((long(), None))
            except BaseException as error:  # raised again by the thread that waits
                found.put((None, error))

        start_new_thread(beside, ())
        try:
            with torch.cuda.stream(first):
                soon = short()
        finally:  # after an error, too, nothing may use the memory while either is still at work
            current.wait_stream(first)
            late, error = found.get()
        if error is not None:
            raise error
        return soon, late


def _copy(sources: tuple[Array, ...], targets: tuple[Array, ...]) -> None:
    """Copy each source into its target, in one launch."""
    import torch

    torch._foreach_copy_(list(targets), list(sources))


class _Stage:
    """A thread's recordings on a device, with the stream that they are made on and the memory that they share.

    Recordings can share memory, because the results of a replay are copied before the next one is replayed.
    """

    def __init__(self) -> None:
        import torch

        self._recordings: dict[Hashable, Recording] = {}
        # A stream for operations that go first.  It is kept, because cuBLAS keeps 32 MB for every stream that it meets.
        self.first = torch.cuda.Stream(priority=-1)
        self._stream, self._memory = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self._empty = torch.cuda.CUDAGraph()  # keeps the memory pool, which would be freed with its last recording
        self.record(self._empty, lambda: torch.zeros(1, device="cuda"))

    def recording(self, key: Hashable, line: Line, given: tuple[Array, ...]) -> Recording:
        """The recording of this line for arrays of these shapes; it is made if there is none yet."""
        key = key, tuple((array.shape, array.dtype) for array in given)
        found = self._recordings.pop(key, None)
        if found is None:
            found = Recording(line, given, self)
            while len(self._recordings) >= KEPT:
                del self._recordings[next(iter(self._recordings))]
        self._recordings[key] = found  # at the end of the dictionary, as the most recently used
        return found

    def record(self, graph: Any, line: Callable[[], Any]) -> Any:
        """Record line() in the graph; return the arrays that hold its results after every replay."""
        import torch

        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            # "thread_local": other threads may use CUDA during the recording
            graph.capture_begin(pool=self._memory, capture_error_mode="thread_local")
            try:
                found = line()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(self._stream)
        return found


_stages = threading.local()


def _stage() -> _Stage:
    """This thread's stage on the current device."""
    import torch

    if not hasattr(_stages, "by_device"):
        _stages.by_device = defaultdict(_Stage)
    stage: _Stage = _stages.by_device[torch.cuda.current_device()]
    return stage
