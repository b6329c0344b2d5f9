"""to_torch: a model as an nn.Module, whose forward is `transform`.

    z = k(front(x), S) A - b

Every number is a tensor of the module: a buffer, or a parameter if it is to be trained further.  Gradients flow to the
rows, and to points and coefficients.  `torch.export` accepts the module, for any number of rows.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..io.container import replacing
from .float32 import single_is_enough, warn_of_rounding
from .model import Form, form_of
from .ops import Ops
from .preprocessing import ExportError, arrays_of

try:
    import torch
except ImportError as error:
    raise ImportError("to_torch needs the torch package: pip install torch") from error


def to_torch(model: Any, trainable: bool = False, dtype: Any = None) -> ExpansionModule:
    """A fitted model, or scalers and a model, as a torch module whose forward is `transform`.

    Parameters
    ----------
    model : fitted estimator of kernelsieve, or Pipeline of scalers, or a TableEncoder, that ends in one
    trainable : bool, default=False
        Make points, coefficients and offset parameters, which an optimiser can train on a loss of your own; the kernel
        and the scalers stay fixed.  After training, the outputs are no longer scores of kernel PCA, but features that
        started from them.
    dtype : torch.dtype, optional
        The dtype of the module's numbers and of the rows it takes: torch.float32 by default, or torch.float64.

    Returns
    -------
    torch.nn.Module
        ``module(x)`` are the scores, (n, M); ``module.error(x)`` the reconstruction error, (n,), of a model that was
        not trained further; ``module.decision(x)``, of a monitor, is negative where a row is not normal.

    Examples
    --------
    A linear classifier on 20 scores, and the points trained together with it:

    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.export import to_torch
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SparseKernelPCA(20, n_support=30, random_state=0).fit(X)
    >>> rows, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y)
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch...>
    >>> network = torch.nn.Sequential(to_torch(model, trainable=True), torch.nn.Linear(20, 10))
    >>> optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    >>> losses = []
    >>> for step in range(60):
    ...     loss = torch.nn.functional.cross_entropy(network(rows), labels)
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    ...     losses.append(float(loss))
    >>> losses[-1] < losses[0] / 2
    True
    """
    dtype = torch.float32 if dtype is None else dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype={dtype!r} is neither torch.float32 nor torch.float64")
    form = form_of(model)
    if dtype == torch.float32:
        warn_of_rounding(form)
    return _module(form, trainable, dtype)


def _module(form: Form, trainable: bool, dtype: Any) -> ExpansionModule:
    single = dtype == torch.float32
    form = form.centered(np.float32 if single else np.float64)
    return ExpansionModule(form.in_float32() if single else form, trainable, dtype)


def save_torch(model: Any, path: str | os.PathLike[str], dtype: str = "float32") -> None:
    """Write a model as a torch.export program, which `torch.export.load` reads without this package.

    ``torch.export.load(path).module()(x)`` are the scores of rows x in `dtype`, any number of them.  Where float32
    arithmetic would cost more than 2e-6 of the scores, a program for float32 rows computes in double inside.
    """
    form, rows = form_of(model), torch.float32 if dtype == "float32" else torch.float64
    if rows == torch.float32:
        warn_of_rounding(form)
    inside = torch.float32 if rows == torch.float32 and single_is_enough(form.centered()) else torch.float64
    module = _module(form, False, inside)
    example = torch.zeros((2, module.n_features), dtype=rows)
    program = torch.export.export(
        module if inside == rows else _InDouble(module), (example,), dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={"kernelsieve.txt": module.facts})
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getvalue())


class TorchOps(Ops):
    """Operations on tensors, through which gradients flow."""

    library = torch

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.largest, self.smallest = torch.finfo(dtype).max, torch.finfo(dtype).tiny

    def minimum(self, x: Any, number: float) -> Any:
        return torch.clamp(x, max=number)

    def maximum(self, x: Any, number: float) -> Any:
        return torch.clamp(x, min=number)

    def number(self, condition: Any) -> Any:
        return condition.to(self.dtype)

    def sum(self, x: Any, keep: bool) -> Any:
        return torch.sum(x, dim=1, keepdim=keep)

    def max(self, x: Any, keep: bool) -> Any:
        return torch.amax(x, dim=1, keepdim=keep)

    def transpose(self, x: Any) -> Any:
        return x.T

    def constant(self, values: Any) -> Any:
        return torch.tensor(values, dtype=self.dtype)

    def column_sums(self, term: Any, rows: Any, points: Any) -> Any:
        if points is None:
            return torch.sum(term(self, rows, rows), dim=1)
        return torch.sum(term(self, rows[:, None, :], points), dim=2)

    def absolute_distances(self, rows: Any, points: Any) -> Any:
        return torch.cdist(rows, points, p=1)


class _InDouble(torch.nn.Module):
    """A module that takes and returns float32, and computes in double."""

    def __init__(self, module: ExpansionModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        """The scores of rows x."""
        return self.module(x.to(torch.float64)).to(torch.float32)


class ExpansionModule(torch.nn.Module):
    """``forward(x) = k(front(x), S) A - b``; for a linear kernel ``(front(x) - mean) W + constant``."""

    def __init__(self, form: Form, trainable: bool, dtype: Any) -> None:
        super().__init__()
        self.n_features, self.n_components = form.n_features, form.n_components
        told = {f"column {column.name}": column.words(texts=False) for column in form.columns}
        facts = {**form.facts, "columns": ", ".join(form.input_names or ()), **told}
        self.facts = "\n".join(f"{name}: {value}" for name, value in facts.items() if value)
        self._form, self._ops = form, TorchOps(dtype)
        for number, step in enumerate(form.front):
            self._hold(step, f"_{number}")
        self._hold(form.core, trained=("points", "coef", "offset") if trainable else ())

    def _hold(self, part: Any, suffix: str = "", trained: Sequence[str] = ()) -> None:
        """Make the arrays of a step, or of the core, tensors of the module."""
        for name, value in arrays_of(part).items():
            tensor = torch.tensor(value, dtype=self._ops.dtype if value.dtype.kind == "f" else None)
            if not bool(torch.isfinite(tensor).all()):
                raise ExportError(f"{name} of this model does not fit into float32: give dtype=torch.float64")
            if name in trained:
                setattr(self, name, torch.nn.Parameter(tensor))
            else:
                self.register_buffer(name + suffix, tensor)

    def _held(self, part: Any, suffix: str = "") -> Any:
        """A step, or the core, with the module's tensors in place of its arrays."""
        return replace(part, **{name: getattr(self, name + suffix) for name in arrays_of(part)})

    def _forward(self, x: Any, output: str) -> Any:
        front = tuple(self._held(step, f"_{number}") for number, step in enumerate(self._form.front))
        form = replace(self._form, front=front, core=self._held(self._form.core))
        return form.forward(self._ops, x, (output,))[output]

    def forward(self, x: Any) -> Any:
        """The scores of rows x, (n, M)."""
        return self._forward(x, "scores")

    def error(self, x: Any) -> Any:
        """Squared feature-space distance of each row to its reconstruction, (n,)."""
        return self._forward(x, "error")

    def decision(self, x: Any) -> Any:
        """A monitor's decision, negative where a row is not normal, (n,)."""
        if self._form.limit is None:
            raise ExportError("this model decides nothing on a single row: only a monitor without smoothing does")
        return self._forward(x, "decision")
