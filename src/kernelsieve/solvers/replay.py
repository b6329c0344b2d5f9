"""A line of operations on a device, recorded once and then put in line as one.

Small operations are over sooner than the next can be asked for.  A CUDA graph keeps a whole line of them, on arrays
that stay in their places: new numbers are copied there, and the line is played again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import Array

_STREAMS: dict[Any, Any] = {}  # a stream for each device to record on: libraries keep memory for every stream they see


class Replayed:
    """A function of torch tensors that are always of the same shapes, of which nothing is looked at on the way.

    The first call is an ordinary one, in which libraries make what they need; the second is recorded.  On the host, and
    where recording fails, all calls are ordinary ones.
    """

    def __init__(self, function: Callable[..., tuple[Array | None, ...]], example: Array) -> None:
        self._function = function
        self._example = example  # a tensor where the function's are
        self._graph: Any = None
        self._n_ordinary = 0
        self._inputs: tuple[Array, ...] = ()
        self._outputs: tuple[Array | None, ...] = ()

    def __call__(self, *inputs: Array) -> tuple[Array | None, ...]:
        import torch

        if not self._example.is_cuda or torch.cuda.current_device() != self._example.get_device():
            return self._function(*inputs)
        if self._graph is None and self._n_ordinary == 1:
            self._record(inputs)
        if self._graph is None:
            self._n_ordinary += 1
            return self._copied(self._beside(lambda: self._function(*inputs)))
        for place, given in zip(self._inputs, inputs, strict=True):
            place.copy_(given)
        self._graph.replay()
        return self._copied(self._outputs)

    @staticmethod
    def _copied(outputs: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        return tuple(None if output is None else output.clone() for output in outputs)

    @staticmethod
    def _beside(function: Callable[[], Any]) -> Any:
        """What the function returns, computed on the stream for recording."""
        import torch

        current = torch.cuda.current_stream()
        stream = _STREAMS.setdefault(current.device, torch.cuda.Stream())
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            result = function()
        current.wait_stream(stream)
        return result

    def _record(self, inputs: tuple[Array, ...]) -> None:
        import torch

        graph = torch.cuda.CUDAGraph()
        places = tuple(given.clone() for given in inputs)

        def recorded() -> Any:
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                return self._function(*places)
            finally:
                graph.capture_end()

        try:
            self._outputs = self._beside(recorded)
        except RuntimeError:  # a library that waits for the device where this one need not
            torch.cuda.synchronize()
            return
        self._graph, self._inputs = graph, places
