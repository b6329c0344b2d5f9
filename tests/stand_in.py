"""Tensors that cannot be read as numpy arrays where they are, as CUDA's cannot, on any machine.

A subclass of torch's whose `numpy()` raises what CUDA's raises, until it has been copied to the host by `cpu()`.
Whatever is computed from a stand-in is one.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


class OnDevice(torch.Tensor):
    """A tensor that numpy cannot read."""

    def numpy(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host")

    def __array__(self, *args, **kwargs):
        return self.numpy()

    def __dlpack__(self, *args, **kwargs):
        raise BufferError("Can't export tensors on cuda:0 to numpy")

    def cpu(self, *args, **kwargs):
        return self.as_subclass(torch.Tensor)

    def to(self, *args, **kwargs):
        moved = super().to(*args, **kwargs)
        return moved.cpu() if args and str(args[0]) == "cpu" else moved


def on_device(values):
    return torch.as_tensor(values).as_subclass(OnDevice)
