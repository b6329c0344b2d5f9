"""A gram that stays where it is, or is computed by index: rows are the numbers 0 .. N-1.

`kernel="precomputed"` needs all N x N values in memory.  Here a row is its number, and only the values that a fit
needs are read or computed: those among the rows that it looks at, and N x m for its pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from .objects import ObjectKernel


@dataclass(frozen=True)
class GramByNumber(ObjectKernel):
    """Values of rows identified by their numbers; made by `gram_by_number`."""

    source: Any
    definite: bool | None = None
    name = "gram by number"

    def fault(self, one: Any) -> str | None:
        if isinstance(one, bool) or not isinstance(one, Integral) or one < 0:
            return "a gram by number needs whole numbers of rows, from 0 on"
        n_rows = None if callable(self.source) else self.source.shape[0]
        return None if n_rows is None or one < n_rows else f"the gram has {n_rows} rows"

    def prepared(self, objects: list[Any]) -> np.ndarray:
        return np.array([int(one) for one in objects], dtype=np.intp)

    def between(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if callable(self.source):
            return np.asarray(self.source(left, right), dtype=np.float64)
        if hasattr(self.source, "oindex"):  # zarr reads only the chunks with these rows and columns
            return np.asarray(self.source.oindex[left, right], dtype=np.float64)
        return np.asarray(self.source[left][:, right], dtype=np.float64)

    def lengths(self, objects: list[Any]) -> np.ndarray:
        numbers = self.prepared(objects)
        if callable(self.source) or hasattr(self.source, "oindex"):
            return super().lengths(objects)
        return np.asarray(self.source[numbers, numbers], dtype=np.float64)

    def params(self) -> dict[str, Any]:
        raise TypeError("a gram by number has no parameters that a file could hold")


def gram_by_number(source: Any, *, definite: bool | None = None) -> GramByNumber:
    """A kernel of rows that are numbers 0 .. N-1, whose values are read from an array or computed by a function.

    Parameters
    ----------
    source : array of shape (N, N), or callable
        A memory map, a zarr array or any array with rows and columns, of which only what is asked for is read; or a
        function ``f(numbers, numbers) -> (n, m)`` of two arrays of row numbers.
    definite : bool, optional
        Whether the gram is known to be positive semi-definite.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import gram_by_number
    >>> angles = np.linspace(0, 6, 300)
    >>> kernel = gram_by_number(lambda i, j: np.exp(np.cos(angles[i][:, None] - angles[j]) - 1))
    >>> model = SparseKernelPCA(2, n_support=6, kernel=kernel, random_state=0).fit(np.arange(300))
    >>> model.transform([0, 299]).shape
    (2, 2)
    """
    if not callable(source) and len(getattr(source, "shape", ())) != 2:
        raise TypeError("gram_by_number needs an array of two dimensions or a function of two arrays of row numbers")
    if not callable(source) and source.shape[0] != source.shape[1]:
        raise ValueError(f"a gram must be square, and this one has shape {tuple(source.shape)}")
    return GramByNumber(source, definite)
