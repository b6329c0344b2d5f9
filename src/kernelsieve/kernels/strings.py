"""Kernels of strings, and of any sequences of hashable tokens.

    Spectrum         inner product of the counts of k-mers (Leslie, Eskin & Noble 2002)
    Subsequence      common subsequences of k letters, which need not be neighbours, each weighted by decay^(length that
                     it spans) in both strings (Lodhi et al. 2002)
    Levenshtein      exp(-edits / width), where edits is the smallest number of insertions, deletions and substitutions;
                     not positive semi-definite

The first two are normalised so that k(x, x) = 1.  Otherwise long strings would be similar to all others merely because
they are long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from .base import check_count, check_positive, check_width
from .objects import UnitObjects

NO_TOKEN = -1  # the code that shorter sequences are padded with
STEPS_AT_ONCE = 2**18  # number of table entries (pairs of tokens or of steps) filled together: 2 MB in float64


class SequenceKernel(UnitObjects):
    """A kernel of strings, bytes and other sequences of tokens, with k(x, x) = 1."""

    least_length = 1  # length of the shortest sequence that is accepted

    def fault(self, one: Any) -> str | None:
        if not isinstance(one, Sequence | np.ndarray):
            return f"the {self.name} kernel needs strings or sequences of tokens"
        if len(one) < self.least_length:
            return f"the {self.name} kernel needs at least {self.least_length} letters: leave out shorter rows"
        try:
            set(one)
        except TypeError:
            return f"the {self.name} kernel needs tokens that are hashable, such as strings, numbers or tuples"
        return None


@dataclass(frozen=True)
class Spectrum(SequenceKernel):
    """sum_w c_w(x) c_w(y) / (|c(x)| |c(y)|), where c_w(x) counts how often a run w of `k` letters occurs in x.

    Positive semi-definite.  Leslie, Eskin & Noble (2002), The spectrum kernel.  A pair costs O(|x| + |y|); a block of
    pairs is one product of sparse matrices of counts.

    Parameters
    ----------
    k : int, default=3
        Number of letters, or tokens, in a run.

    Examples
    --------
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.kernels import Spectrum
    >>> words = ["banana", "bandana", "cabana", "ananas", "stone", "stones", "tone", "atone"]
    >>> model = SparseKernelPCA(2, n_support=4, kernel=Spectrum(2), random_state=0).fit(words)
    >>> model.transform(["savanna"]).shape
    (1, 2)
    """

    k: int = 3
    name = "spectrum"

    def __post_init__(self) -> None:
        check_count("Spectrum", "k", self.k)

    @property
    def least_length(self) -> int:  # type: ignore[override]
        return self.k

    def prepared(self, objects: list[Any]) -> list[Counter[Any]]:
        self.check(objects)
        k = self.k
        return [Counter(_run(one, i, k) for i in range(len(one) - k + 1)) for one in objects]

    def between(self, left: list[Counter[Any]], right: list[Counter[Any]]) -> np.ndarray:
        return cosines(left, right)


def cosines(left: list[Counter[Any]], right: list[Counter[Any]]) -> np.ndarray:
    """The cosines between vectors of counts, for all pairs."""
    numbers: dict[Any, int] = {}
    for counts in right:
        for one in counts:
            numbers.setdefault(one, len(numbers))
    return np.asarray((_unit_counts(left, numbers) @ _unit_counts(right, numbers).T).toarray())


def _run(one: Any, start: int, k: int) -> Any:
    return one[start : start + k] if isinstance(one, str | bytes) else tuple(one[start : start + k])


def _unit_counts(counts: list[Counter[Any]], numbers: dict[Any, int]) -> scipy.sparse.csr_array:
    """Counts of the runs that are in `numbers`, divided by the length of the vector of all counts."""
    columns, values, ends = [], [], [0]
    for one in counts:
        scale = sum(n * n for n in one.values()) ** -0.5
        for run, n in one.items():
            if run in numbers:
                columns.append(numbers[run])
                values.append(n * scale)
        ends.append(len(columns))
    shape = (len(counts), len(numbers))
    return scipy.sparse.csr_array((np.array(values), np.array(columns, dtype=np.intp), np.array(ends)), shape=shape)


@dataclass(frozen=True)
class Subsequence(SequenceKernel):
    """The sum of decay^(span in x + span in y) over common subsequences of `k` letters, normalised to k(x, x) = 1.

    Subsequences may have gaps.  Positive semi-definite.  Lodhi, Saunders, Shawe-Taylor, Cristianini & Watkins (2002),
    Text classification using string kernels.  A pair costs O(k |x| |y|).

    Parameters
    ----------
    k : int, default=3
        Number of letters, or tokens, in a subsequence.
    decay : float, default=0.5
        Factor for every letter that a subsequence spans, including gaps; above 0 and at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.kernels import Subsequence
    >>> words = np.array([["cat"], ["cart"], ["dog"]], dtype=object)
    >>> Subsequence(k=2, decay=0.5)(words, words).round(2)[0].tolist()
    [1.0, 0.57, 0.0]
    """

    k: int = 3
    decay: float = 0.5
    name = "subsequence"

    def __post_init__(self) -> None:
        check_count("Subsequence", "k", self.k)
        check_positive("Subsequence", "decay", self.decay, 1.0)

    @property
    def least_length(self) -> int:  # type: ignore[override]
        return self.k

    def prepared(self, objects: list[Any]) -> list[tuple[Any, float]]:
        self.check(objects)
        tokens = [_tokens(one) for one in objects]
        (codes,) = _codes(tokens)
        lengths = (float(self._values(code[None], code[None])[0, 0]) for code in codes)
        return [(one, length**-0.5) for one, length in zip(tokens, lengths, strict=True)]

    def between(self, left: list[tuple[Any, float]], right: list[tuple[Any, float]]) -> np.ndarray:
        (of_left, scales), (of_right, others) = zip(*left, strict=True), zip(*right, strict=True)
        x, y = _codes(of_left, of_right)
        values = by_length(x, padded(y, NO_TOKEN), self._values)
        return values * np.array(scales)[:, None] * np.array(others)

    def _values(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Lodhi et al.'s recursion for all pairs of rows of x (k, a) and y (m, b); filters replace its inner loops."""
        equal = (x[:, None, :, None] == y[:, None, :]).astype(np.float64)  # (k, m, a, b)
        # ends[..., i, j] is the weighted number of common subsequences that end at x_i and y_j.
        ends = self.decay**2 * equal
        for _ in range(self.k - 1):
            before = _decayed_sums(_decayed_sums(ends, self.decay, 2), self.decay, 3)
            ends = np.zeros_like(ends)
            ends[..., 1:, 1:] = self.decay**2 * equal[..., 1:, 1:] * before[..., :-1, :-1]
        return np.asarray(ends.sum(axis=(2, 3)))


def _decayed_sums(values: np.ndarray, decay: float, axis: int) -> np.ndarray:
    """sum_{i' <= i} decay^(i - i') values_i' along an axis."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], [1.0, -decay], values, axis=axis))


def _tokens(one: Any) -> np.ndarray | tuple[Any, ...]:
    """The letters of a string, or bytes, as numbers; other tokens as they are."""
    if isinstance(one, str):
        return np.frombuffer(one.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.int64)
    return np.frombuffer(one, dtype=np.uint8).astype(np.int64) if isinstance(one, bytes) else tuple(one)


def _codes(*groups: Sequence[Any]) -> list[list[np.ndarray]]:
    """The tokens of all sequences in the groups as numbers; equal tokens have equal numbers.

    Hashes would not do: hash(-1) is hash(-2).
    """
    numbers: dict[Any, int] = {}

    def of(one: Any) -> np.ndarray:
        if isinstance(one, np.ndarray):
            return one
        return np.array([numbers.setdefault(token, len(numbers)) for token in one], dtype=np.int64)

    return [[of(one) for one in group] for group in groups]


@dataclass(frozen=True)
class Levenshtein(SequenceKernel):
    """exp(-edits / width), where edits is the Levenshtein distance of two strings.

    The distance is the smallest number of insertions, deletions and substitutions that turn one string into the other
    (Levenshtein 1966).  The kernel is not positive semi-definite: a fit keeps the positive part and says so.  A pair
    costs O(|x| |y|).  For long strings, or very many, rapidfuzz is several times faster:
    ``of_objects(lambda a, b: np.exp(cdist(a, b, scorer=Levenshtein.distance) / -width), blocks=True)``.

    Parameters
    ----------
    width : float, default=3.0
        Number of edits at which the similarity of two strings has fallen to exp(-1).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelsieve.kernels import Levenshtein
    >>> words = np.array([["kitten"], ["sitting"]], dtype=object)
    >>> Levenshtein(width=3.0)(words, words).round(3).tolist()
    [[1.0, 0.368], [0.368, 1.0]]
    """

    width: float = 3.0
    name = "levenshtein"
    definite = False
    least_length = 0

    def __post_init__(self) -> None:
        check_positive("Levenshtein", "width", self.width)
        check_width("width", self.width)

    def prepared(self, objects: list[Any]) -> list[Any]:
        self.check(objects)
        return [_tokens(one) for one in objects]

    def between(self, left: list[Any], right: list[Any]) -> np.ndarray:
        return np.exp(edit_distances(left, right) / -self.width)


@dataclass(frozen=True)
class Edits(SequenceKernel):
    """The Levenshtein distance itself, of which `from_distance("levenshtein")` makes a kernel."""

    name = "edits"
    definite = None
    least_length = 0

    def prepared(self, objects: list[Any]) -> list[Any]:
        self.check(objects)
        return [_tokens(one) for one in objects]

    def between(self, left: list[Any], right: list[Any]) -> np.ndarray:
        return edit_distances(left, right)


def edit_distances(left: list[Any], right: list[Any]) -> np.ndarray:
    """Levenshtein distances of all pairs of sequences of tokens, (n, m)."""
    lengths = np.array([len(one) for one in right])
    x, y = _codes(left, right)
    return by_length(x, padded(y, NO_TOKEN), lambda x, y: _edits(x, y, lengths))


def _edits(x: np.ndarray, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Levenshtein distances of all rows of x (k, a) to all rows of y (m, b); `lengths` are those of y without padding.

    In a row of Wagner & Fischer's (1974) table, an insertion is one place to the right and costs one.  So the row minus
    its places is a running minimum, which needs no loop.
    """
    places = np.arange(y.shape[1] + 1)
    row = np.broadcast_to(places, (x.shape[0], y.shape[0], len(places)))
    for i in range(x.shape[1]):
        change = np.empty_like(row)
        change[..., 0] = i + 1
        change[..., 1:] = np.minimum(row[..., :-1] + (y != x[:, i, None, None]), row[..., 1:] + 1)
        row = np.minimum.accumulate(change - places, axis=-1) + places
    return row[:, np.arange(len(lengths)), lengths]


def padded(sequences: Sequence[np.ndarray], value: float) -> np.ndarray:
    """Sequences of different lengths as rows of one array, padded with a value that matches nothing."""
    longest = max(map(len, sequences))
    out = np.full((len(sequences), longest, *sequences[0].shape[1:]), value, dtype=sequences[0].dtype)
    for row, one in zip(out, sequences, strict=True):
        row[: len(one)] = one
    return out


def by_length(
    left: Sequence[np.ndarray], right: np.ndarray, function: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """function(x (k, a), y (m, b)) -> (k, m) for all pairs; each call gets only x of equal length.

    The function fills a table of a x b entries for every pair.  The number of x in a call is limited so that the tables
    have about STEPS_AT_ONCE entries together.
    """
    out = np.empty((len(left), right.shape[0]))
    lengths = np.array([len(one) for one in left])
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        at_once = max(1, STEPS_AT_ONCE // max(1, length * right.shape[0] * right.shape[1]))
        for start in range(0, len(alike), at_once):
            some = alike[start : start + at_once]
            out[some] = function(np.stack([left[i] for i in some]), right)
    return out
