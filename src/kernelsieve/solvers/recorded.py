"""A line of torch operations that a CUDA device has recorded and plays again: one launch in place of two hundred.

A device is handed its operations one by one, and on a few hundred points it waits for the next longer than it works.
A line of them that is always the same, on arrays of the same shapes, and asks nothing of the device, is recorded (a
CUDA graph) and from then on played.  On other devices, and where CUDA cannot record it, it is simply run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..arrays import Array

AT_ONCE = 10  # times that a line to be repeated is in its recording


class Recorder:
    """Runs one line of operations again and again; what it has recorded goes with it."""

    def __init__(self) -> None:
        self._recordings: dict[Any, Recording | None] = {}

    def run(self, line: Callable[..., tuple[Array, ...]], *given: Array) -> tuple[Array, ...]:
        """line(*given), recorded when arrays of such shapes are given for the second time.

        Not for the first: then libraries make their workspaces.
        """
        if given[0].device.type != "cuda":
            return line(*given)
        shapes = tuple((tuple(array.shape), array.dtype) for array in given)
        if shapes not in self._recordings:
            self._recordings[shapes] = None
            return line(*given)
        recording = self._recordings[shapes]
        if recording is None:
            recording = self._recordings[shapes] = Recording(line, given)
        return recording.play(line, given)


def repeat(line: Callable[[], None], n_times: int, example: Array) -> None:
    """line(), which changes arrays on the device of `example` in place, so many times."""

    def some() -> tuple[Array, ...]:
        for _ in range(AT_ONCE):
            line()
        return ()

    n_left = n_times
    if example.device.type == "cuda" and n_times > 2 * AT_ONCE:
        line()
        recording = Recording(some, (), example.device)
        for _ in range((n_times - 1) // AT_ONCE):
            recording.play(some, ())
        n_left = (n_times - 1) % AT_ONCE
    for _ in range(n_left):
        line()


class Recording:
    """One line of operations on arrays of certain shapes; run as it is where it could not be recorded.

    The line is not kept: what owns the recording may own the line.
    """

    def __init__(self, line: Callable[..., tuple[Array, ...]], given: tuple[Array, ...], device: Any = None) -> None:
        import torch

        self._given = tuple(array.clone() for array in given)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(given[0].device if given else device):
            try:
                self._found = _stage().record(self._graph, lambda: line(*self._given))
            except RuntimeError:  # an operation that this version of CUDA runs, and does not record
                self._graph = None

    def play(self, line: Callable[..., tuple[Array, ...]], given: tuple[Array, ...]) -> tuple[Array, ...]:
        """What the line, which is that of the recording, gives for these arrays."""
        if self._graph is None:
            return line(*given)
        for mine, array in zip(self._given, given, strict=True):
            mine.copy_(array)
        self._graph.replay()
        return tuple(array.clone() for array in self._found)


class _Stage:
    """Where a thread records on a device: a stream, and memory that all its recordings share.

    Each of them is played, and what it found copied, before the next: so they may.
    """

    def __init__(self) -> None:
        import torch

        self._stream, self._memory = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self._empty = torch.cuda.CUDAGraph()  # memory is given up with the last recording in it: this one stays
        self.record(self._empty, lambda: torch.zeros(1, device="cuda"))

    def record(self, graph: Any, line: Callable[[], Any]) -> Any:
        """What line() will have found whenever the graph is played."""
        import torch

        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            graph.capture_begin(pool=self._memory, capture_error_mode="thread_local")  # other threads go on
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

    device, stages = torch.cuda.current_device(), vars(_stages)
    if device not in stages:
        stages[device] = _Stage()
    stage: _Stage = stages[device]
    return stage
