"""Kernels of time series, fingerprints and graphs.

GlobalAlignment    sum over all alignments of two series, weighted by how well they fit (Cuturi 2011)
Fingerprint        bits that two molecules share over the bits that either has (Tanimoto 1958; Ralaivola et al. 2005)
WeisfeilerLehman   nodes of two graphs whose neighbourhoods agree up to some depth (Shervashidze et al. 2011)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import TINY
from .base import check_count, check_positive, check_width
from .objects import UnitObjects
from .strings import by_length, cosines, padded


@dataclass(frozen=True)
class GlobalAlignment(UnitObjects):
    """The sum, over all alignments of two series x and y, of the product of local kernels of aligned steps.

    The sum is normalised so that the kernel of a series with itself is one.  With the local kernel g / (2 - g),
    g = exp(-|x_i - y_j|^2 / (2 width^2)), it is positive semi-definite.  Cuturi (2011), Fast global alignment kernels.
    Normalised values of long series are near zero unless the series are near copies: choose a width of several times
    the median distance between steps of two series.  A pair costs O(|x| |y|).

    Parameters
    ----------
    width : float, default=1.0
        The width of the local kernel, in units of the series.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import GlobalAlignment
    >>> series = [np.sin(np.arange(8 + i % 4) * (0.5 + 0.1 * (i % 3))) for i in range(30)]
    >>> model = SparseKernelPCA(2, n_support=6, kernel=GlobalAlignment(2.0), random_state=0).fit(series)
    >>> model.transform(series[:3]).shape
    (3, 2)
    """

    width: float = 1.0
    name = "global alignment"

    def __post_init__(self) -> None:
        check_positive("GlobalAlignment", "width", self.width)
        check_width("width", self.width)

    def fault(self, one: Any) -> str | None:
        if np.iscomplexobj(one):  # numpy would drop the imaginary part with only a warning
            return "the global alignment kernel needs series of real numbers"
        try:
            series = np.asarray(one, dtype=np.float64)
        except (TypeError, ValueError):
            return "the global alignment kernel needs series of numbers"
        if series.ndim not in (1, 2) or not len(series):
            return "the global alignment kernel needs series of at least one step"
        return None if np.all(np.isfinite(series)) else "the series has steps that are not finite numbers"

    def prepared(self, objects: list[Any]) -> list[tuple[np.ndarray, float]]:
        self.check(objects)
        series = [np.asarray(one, dtype=np.float64).reshape(len(one), -1) for one in objects]
        return [(one, float(self._log_values(one[None], one[None], np.array([len(one)]))[0, 0])) for one in series]

    def between(self, left: list[tuple[np.ndarray, float]], right: list[tuple[np.ndarray, float]]) -> np.ndarray:
        (x, own), (y, others) = zip(*left, strict=True), zip(*right, strict=True)
        widths = sorted({one.shape[1] for one in (*x, *y)})
        if len(widths) > 1:
            raise ValueError(f"series of {widths[0]} and of {widths[1]} columns cannot be aligned")
        lengths = np.array([len(one) for one in y])
        found = by_length(x, padded(y, np.inf), lambda some, all_: self._log_values(some, all_, lengths))
        return np.exp(found - (np.array(own)[:, None] + np.array(others)) / 2)

    def _log_values(self, x: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """log of the sum over alignments, for all pairs of series x (k, a, d) and y (m, b, d).

        The series in x have the length a; those in y have these `lengths` and are padded to the length b.  The
        recursion M_ij = k_ij (M_i-1,j-1 + M_i-1,j + M_i,j-1) goes along the diagonals i + j = n, because the elements
        of a diagonal do not depend on each other.
        """
        (k, a, d), (m, b, _) = x.shape, y.shape
        squares = np.zeros((a, b, k, m))
        with np.errstate(over="ignore"):  # where a square is too large for a number, the steps have nothing in common
            for c in range(d):
                squares += (x[:, :, c].T[:, None, :, None] - y[:, :, c].T[:, None, :]) ** 2
        local = np.exp(squares / (-2 * self.width**2))
        local /= 2.0 - local
        # The last two diagonals, indexed by i.  To avoid underflow they are divided by the largest number at each step;
        # `scale` is the logarithm of all divisors.
        before, last, scale = np.zeros((a + 1, k, m)), np.zeros((a + 1, k, m)), np.zeros((k, m))
        before[0] = 1.0
        found = np.empty((k, m))
        for n in range(2, a + b + 1):
            i = np.arange(max(1, n - b), min(a, n - 1) + 1)
            new = np.zeros_like(last)
            new[i] = local[i - 1, n - i - 1] * (before[i - 1] + last[i - 1] + last[i])
            largest = new.max(axis=0)
            largest[largest < TINY] = 1.0  # dividing by a subnormal number would overflow
            before, last, scale = last / largest, new / largest, scale + np.log(largest)
            ends = lengths == n - a
            with np.errstate(divide="ignore"):  # log 0, for series so far apart that every alignment underflows
                found[:, ends] = np.log(last[a][:, ends]) + scale[:, ends]
        return found


@dataclass(frozen=True)
class Fingerprint(UnitObjects):
    """Tanimoto's similarity of bit vectors: |x and y| / |x or y|; two vectors without bits have similarity one.

    Accepts rdkit's bit vectors, strings of 0 and 1, sequences of 0 and 1, and sets of the bits that are on.  Positive
    semi-definite.  Ralaivola, Swamidass, Saigo & Baldi (2005), Graph kernels for chemical informatics.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.kernels import Fingerprint
    >>> molecules = np.array([["0110"], ["0111"]], dtype=object)
    >>> Fingerprint()(molecules, molecules).round(3)[0].tolist()
    [1.0, 0.667]
    """

    name = "fingerprint"

    def fault(self, one: Any) -> str | None:
        if hasattr(one, "GetOnBits") or isinstance(one, set | frozenset):
            return None
        try:
            bits = set(one) <= {0, 1, "0", "1"}
        except TypeError:
            bits = False
        return None if bits else "a fingerprint is a bit vector of rdkit, a sequence of 0 and 1, or a set of bits"

    def prepared(self, objects: list[Any]) -> list[frozenset[int]]:
        return [_bits_on(one) for one in objects]

    def between(self, left: list[frozenset[int]], right: list[frozenset[int]]) -> np.ndarray:
        numbers = {bit: place for place, bit in enumerate(sorted(set().union(*right)))}
        shared = np.asarray((_bit_matrix(left, numbers) @ _bit_matrix(right, numbers).T).toarray())
        sizes = [np.array([len(one) for one in bits], dtype=np.float64) for bits in (left, right)]
        either = sizes[0][:, None] + sizes[1] - shared
        return np.where(either > 0, shared / np.maximum(either, 1.0), 1.0)


def _bits_on(one: Any) -> frozenset[int]:
    if hasattr(one, "GetOnBits"):
        return frozenset(one.GetOnBits())
    if isinstance(one, set | frozenset):
        return frozenset(one)
    return frozenset(i for i, bit in enumerate(one) if bit not in (0, "0"))


def _bit_matrix(bits: list[frozenset[int]], numbers: dict[int, int]) -> Any:
    columns = [[numbers[bit] for bit in one if bit in numbers] for one in bits]
    ends = np.concatenate([[0], np.cumsum([len(one) for one in columns])])
    flat = np.array([c for one in columns for c in one], dtype=np.intp)
    return scipy.sparse.csr_array((np.ones(len(flat)), flat, ends), shape=(len(bits), len(numbers)))


@dataclass(frozen=True)
class WeisfeilerLehman(UnitObjects):
    """The cosine between the counts of node labels of two graphs, after 0 .. depth rounds of relabelling.

    In every round each node gets a new label, made of its own and the sorted labels of its neighbours.  So two nodes
    have the same label after d rounds if their neighbourhoods agree up to depth d.  Positive semi-definite.
    Shervashidze et al. (2011), Weisfeiler-Lehman graph kernels.  A graph costs O(depth edges).

    Graphs may be networkx graphs, or adjacency lists ``{node: neighbours}``.  A pair ``(adjacency, labels)`` adds
    labels, ``{node: label}``.

    Parameters
    ----------
    depth : int, default=3
        Number of rounds.
    label : str, default="label"
        The attribute of networkx nodes that holds their labels; nodes without it share one label.

    Examples
    --------
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import WeisfeilerLehman
    >>> rings = [{i: [(i - 1) % n, (i + 1) % n] for i in range(n)} for n in range(3, 9)]
    >>> paths = [{i: [j for j in (i - 1, i + 1) if 0 <= j < n] for i in range(n)} for n in range(3, 9)]
    >>> model = SparseKernelPCA(1, n_support=4, kernel=WeisfeilerLehman(2), random_state=0).fit(rings + paths)
    >>> scores = model.transform(rings + paths)[:, 0]
    >>> bool(abs(scores[:6].mean() - scores[6:].mean()) > 0.5)
    True
    """

    depth: int = 3
    label: str = "label"
    name = "weisfeiler-lehman"

    def __post_init__(self) -> None:
        check_count("WeisfeilerLehman", "depth", self.depth, least=0)

    def numbers(self) -> list[Any]:
        return [self.depth]

    def fault(self, one: Any) -> str | None:
        try:
            neighbours, _ = self._graph(one)
        except (TypeError, ValueError, AttributeError):
            return "the weisfeiler-lehman kernel needs networkx graphs or adjacency lists {node: neighbours}"
        return None if neighbours else "the graph has no nodes"

    def _graph(self, one: Any) -> tuple[dict[Any, list[Any]], dict[Any, Any]]:
        if hasattr(one, "adjacency") and hasattr(one, "nodes"):
            return {node: list(others) for node, others in one.adjacency()}, dict(one.nodes(data=self.label))
        adjacency, labels = one if isinstance(one, tuple) else (one, {})
        if not isinstance(adjacency, Mapping):
            raise TypeError("no adjacency list")
        return {node: list(others) for node, others in adjacency.items()}, dict(labels)

    def prepared(self, objects: list[Any]) -> list[Counter[Any]]:
        self.check(objects)
        return [self._counts(*self._graph(one)) for one in objects]

    def _counts(self, neighbours: dict[Any, list[Any]], given: dict[Any, Any]) -> Counter[Any]:
        labels: dict[Any, Hashable] = {node: (given.get(node),) for node in neighbours}
        found = Counter((0, label) for label in labels.values())
        for depth in range(1, self.depth + 1):
            around = {node: sorted(map(repr, (labels.get(n) for n in others))) for node, others in neighbours.items()}
            labels = {node: (labels[node], *around[node]) for node in neighbours}
            found.update((depth, label) for label in labels.values())
        return found

    def between(self, left: list[Counter[Any]], right: list[Counter[Any]]) -> np.ndarray:
        return cosines(left, right)
