"""A line of operations on a device, recorded once and then put in line as one.

Small operations are over sooner than the next can be asked for.  A CUDA graph keeps a whole line of them, on arrays
that stay in their places: new numbers are copied there, and the line is played again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from ..arrays import Array

_STREAMS: dict[Any, Any] = {}  # a stream for each device to record on: libraries keep memory for every stream they see

Outputs = tuple[Array | None, ...]


class Replayed:
    """One function of torch tensors, always of the same shapes, of which nothing is looked at on the way.

    The first call is an ordinary one, in which libraries make what they need; the second is recorded.  On the host, and
    where recording fails, all calls are ordinary ones.  The function is handed over with every call: kept here, it and
    what it belongs to would keep each other, and what they have on the device, alive.
    """

    def __init__(self, example: Array) -> None:
        self._on_device = bool(example.is_cuda)
        self._n_ordinary = 0
        self._graph: Any = None
        self._inputs: tuple[Array, ...] = ()
        self._outputs: Outputs = ()

    def __call__(self, function: Callable[..., Outputs], *inputs: Array) -> Outputs:
        """function(*inputs), in memory of its own."""
        if not self._on_device:
            return function(*inputs)
        if self._n_ordinary == 1 and self._graph is None:
            self._record(function, inputs)
        if self._graph is None:
            self._n_ordinary += 1
            return _copied(_beside(lambda: function(*inputs)))
        for place, given in zip(self._inputs, inputs, strict=True):
            place.copy_(given)
        self._graph.replay()
        return _copied(self._outputs)

    def _record(self, function: Callable[..., Outputs], inputs: tuple[Array, ...]) -> None:
        import torch

        graph = torch.cuda.CUDAGraph()
        places = tuple(given.clone() for given in inputs)

        def recorded() -> Outputs:
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                return function(*places)
            finally:
                graph.capture_end()

        collecting = gc.isenabled()
        gc.disable()  # graphs that are no longer needed must not be given back while one is recorded
        try:
            self._outputs = _beside(recorded)
        except RuntimeError:  # something waits for the device
            torch.cuda.synchronize()
        else:
            self._graph, self._inputs = graph, places
        finally:
            if collecting:
                gc.enable()


def _copied(outputs: Outputs) -> Outputs:
    return tuple(None if output is None else output.clone() for output in outputs)


def _beside(function: Callable[[], Outputs]) -> Outputs:
    """What the function returns, computed on the stream for recording."""
    import torch

    current = torch.cuda.current_stream()
    stream = _STREAMS.setdefault(current.device, torch.cuda.Stream(current.device))
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        result = function()
    current.wait_stream(stream)
    return result
