"""to_torch: a model as an nn.Module, whose forward is `transform`.

    z = k(front(x), S) A - b

Every number is a tensor of the module: buffers, or parameters where they are to be trained further.  Gradients flow to
the rows, and to points and coefficients; `torch.export` takes it with any number of rows.
"""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from ..io.atomic import replacing
from ..kernels import RBF, Cosine, Laplacian, Polynomial, Sigmoid
from .cores import KernelCore
from .forms import Form, form_of
from .precision import single_is_enough
from .rounding import warn_of_rounding
from .steps import GAP, SQUASH_FROM, VALUE, Affine, Clip, ExportError, Fill, Spread, Squash, split

try:
    import torch
except ImportError as error:
    raise ImportError("to_torch needs the torch package: pip install 'kernelsieve[torch]'") from error


def to_torch(model: Any, trainable: bool = False, dtype: Any = None) -> ExpansionModule:
    """A fitted model, or scalers and a model, as a torch module whose forward is `transform`.

    Parameters
    ----------
    model : fitted estimator of kernelsieve, or Pipeline of scalers, or a TableEncoder, that ends in one
    trainable : bool, default=False
        Make points, coefficients and offset parameters, which an optimiser may move by a loss of your own; the kernel
        and the scalers stay.  What comes out is then no longer kernel PCA, but features that began as such.
    dtype : torch.dtype, optional
        Of the module's numbers, and of the rows it takes: torch.float32 by default, or torch.float64.

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
    return ExpansionModule(form.centered(np.float32 if dtype == torch.float32 else np.float64), trainable, dtype)


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


class _InDouble(torch.nn.Module):
    """float32 rows in, float32 scores out, and double between."""

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
        self._dtype, core = dtype, form.core
        self.kernel: Any = core.kernel if isinstance(core, KernelCore) else None
        self._front = [self._keep_step(number, step) for number, step in enumerate(form.front)]
        self._limit = form.limit
        if isinstance(core, KernelCore):
            self._hold("points", core.points, trainable)
            self._hold("coef", core.coef, trainable)
            self._hold("offset", core.offset, trainable)
            self._hold("mean_coef", np.zeros(len(core.points)) if core.mean_coef is None else core.mean_coef)
            self.mean_square = core.mean_square
        else:
            self._hold("coef", core.weights, trainable)
            self._hold("offset", -core.constant, trainable)
        self._hold("mixing", np.eye(form.n_components) if core.mixing is None else core.mixing)

    def _hold(self, name: str, values: np.ndarray, trainable: bool = False) -> None:
        tensor = torch.tensor(np.asarray(values), dtype=self._dtype)
        if not bool(torch.isfinite(tensor).all()):
            raise ExportError(f"{name} of this model does not fit into float32: give dtype=torch.float64")
        if trainable:
            setattr(self, name, torch.nn.Parameter(tensor))
        else:
            self.register_buffer(name, tensor)

    def _keep_step(self, number: int, step: Any) -> tuple[str, Any]:
        if isinstance(step, Clip):
            return "clip", (step.lower, step.upper)
        if isinstance(step, Affine):
            high, low = split(step.shift) if self._dtype == torch.float32 else (step.shift, np.zeros_like(step.shift))
            self._hold(f"shift_{number}", high)
            self._hold(f"shift_low_{number}", low)
            self._hold(f"factor_{number}", step.factor)
            return "affine", number
        if isinstance(step, Fill):
            self._hold(f"fill_{number}", step.values)
            return "fill", number
        if isinstance(step, Spread):
            self.register_buffer(f"source_{number}", torch.tensor(step.source))
            self.register_buffer(f"test_{number}", torch.tensor(step.test))
            return "spread", number
        if isinstance(step, Squash):
            self.register_buffer(f"squashed_{number}", torch.tensor(step.where))
            return "squash", (number, step.bound)
        self._hold(f"mix_{number}", step.matrix)
        return "mix", number

    def prepared(self, x: Any) -> Any:
        """Rows as the kernel sees them."""
        for kind, what in self._front:
            if kind == "clip":
                x = torch.clamp(x, *what)
            elif kind == "affine":
                x = (x - getattr(self, f"shift_{what}")) - getattr(self, f"shift_low_{what}")
                x = x * getattr(self, f"factor_{what}")
            elif kind == "fill":
                x = torch.where(torch.isnan(x), getattr(self, f"fill_{what}"), x)
            elif kind == "spread":
                x = _spread(x, getattr(self, f"source_{what}"), getattr(self, f"test_{what}"))
            elif kind == "squash":
                x = torch.where(getattr(self, f"squashed_{what[0]}"), _squashed(x, what[1]), x)
            else:
                x = x @ getattr(self, f"mix_{what}")
        return x

    def forward(self, x: Any) -> Any:
        """The scores of rows x, (n, M)."""
        u = self.prepared(x)
        return (u if self.kernel is None else self._cross_gram(u)) @ self.coef - self.offset

    def error(self, x: Any) -> Any:
        """Squared feature-space distance of each row to its reconstruction, (n,)."""
        u = self.prepared(x)
        if self.kernel is None:
            length, gram = torch.sum(u * u, dim=1), u
        else:
            gram = self._cross_gram(u)
            length = self._diagonal(u) - 2 * (gram @ self.mean_coef) + self.mean_square
        along = (gram @ self.coef - self.offset) @ self.mixing
        captured = torch.clamp(torch.sum(along * along, dim=1), max=torch.finfo(along.dtype).max / 2)
        return torch.clamp(length - captured, min=0)

    def decision(self, x: Any) -> Any:
        """A monitor's decision, negative where a row is not normal, (n,)."""
        if self._limit is None:
            raise ExportError("this model decides nothing on a single row: only a monitor without smoothing does")
        return self._limit - self.error(x)

    def _cross_gram(self, u: Any) -> Any:
        kernel, points = self.kernel, self.points
        if isinstance(kernel, RBF):
            scaled, centers = u * kernel.gamma**0.5, points * kernel.gamma**0.5
            products = 2 * scaled @ centers.T - torch.sum(centers * centers, dim=1)
            exponent = products - torch.sum(scaled * scaled, dim=1, keepdim=True)
            # infinity minus infinity is a row too far to have a distance, not one without: NaN rows stay NaN
            far = torch.isinf(torch.sum(scaled * scaled, dim=1, keepdim=True))
            exponent = torch.where(far, torch.full_like(exponent, -torch.inf), exponent)
            return torch.exp(torch.clamp(exponent, max=0))
        if isinstance(kernel, Laplacian):
            return torch.exp(-kernel.gamma * torch.cdist(u, points, p=1))
        if isinstance(kernel, Cosine):
            return _unit_rows(u) @ _unit_rows(points).T
        assert isinstance(kernel, Polynomial | Sigmoid)
        return self._of_product(kernel.gamma * (u @ points.T) + kernel.coef0)

    def _of_product(self, t: Any) -> Any:
        if isinstance(self.kernel, Sigmoid):
            return torch.tanh(t)
        degree = self.kernel.degree
        return torch.pow(t, int(degree)) if degree == int(degree) else torch.pow(t, degree)

    def _diagonal(self, u: Any) -> Any:
        if isinstance(self.kernel, RBF | Laplacian):
            return torch.ones_like(u[:, 0])
        if isinstance(self.kernel, Cosine):
            return (torch.amax(torch.abs(u), dim=1) > 0).to(u.dtype)
        return self._of_product(self.kernel.gamma * torch.sum(u * u, dim=1) + self.kernel.coef0)


def _spread(x: Any, source: Any, test: Any) -> Any:
    taken = x[:, source]
    found = torch.where(test == GAP, torch.isnan(taken), taken == test)
    return torch.where(test == VALUE, taken, found.to(x.dtype))


def _squashed(x: Any, bound: float) -> Any:
    near = torch.clamp(x, -SQUASH_FROM, SQUASH_FROM)
    return near / torch.sqrt(1 + torch.square(near / bound))


def _unit_rows(x: Any) -> Any:
    """Rows over their length, zero where they are zero; first over their largest value, so that no square overflows."""
    largest = torch.amax(torch.abs(x), dim=1, keepdim=True)
    x = x / torch.where(largest > 0, largest, torch.ones_like(largest))
    length = torch.sqrt(torch.sum(x * x, dim=1, keepdim=True))
    return x / torch.where(length > 0, length, torch.ones_like(length))
