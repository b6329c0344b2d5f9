"""The one model: a kernel expansion over support points.

    transform(x) = k(x, S) A - b

A transform takes m kernel evaluations per row.  The components v_k = sum_i A_ik phi(s_i) are unit vectors of feature
space.  Of the mean of the training features, the model keeps the projection on the span of the support points,
sum_i c_i phi(s_i).  So the reconstruction of a row, mean + sum_k z_k v_k, and its error need no other points:

    |phi(x) - mean - V z|^2 = k(x, x) - 2 k(x, S) c + c' K_SS c - |z|^2

Components that are not orthogonal (an elastic net's) are orthogonalised before anything is projected on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import scipy.sparse

from ..arrays import (
    Array,
    as_float64,
    float64_like,
    is_numpy,
    itemsize,
    like,
    namespace,
    number_dtype,
    on_host,
    to_numpy,
    top_eigh,
)
from ..kernels import CrossGram, Kernel, overwritten_blocks
from ..rows.checks import finite
from ..rows.rows import in_one_array, map_row_blocks
from ..spectrum.whitening import RANK_TOLERANCE
from ..threads import cached_property
from .moments import gram_of, points_like

# The bound kernel is kept between transforms of at most BOUND_FOR_ROWS rows, if the points have at most MAX_BOUND
# numbers (8 MB).
BOUND_FOR_ROWS, MAX_BOUND = 128, 2**20
# The largest rounding error of scores that float32 may cause, as a share of the length of phi(x).
MAX_SCORE_ROUNDING = 1e-4


@dataclass(frozen=True)
class KernelExpansion:
    """Support points, coefficients and offset: a fitted model."""

    kernel: Kernel
    points: Annotated[Array, "rows[m, p]"]  # (m, d)
    coef: Annotated[Array, "float[m, M]"]  # (m, M)
    offset: Annotated[Array, "float[M]"]  # (M,)
    mean_coef: Annotated[Array | None, "float[m]?"] = None  # (m,), None when not centred
    orthogonal: Annotated[bool, "bool"] = True  # whether the components, of unit length, are orthogonal

    _file_sizes = ("m", "p", "M")

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` if the kernel read from a file cannot be evaluated on its own points."""
        if isinstance(self.kernel, Kernel) and self.kernel.of_objects != (self.points.dtype == object):
            raise error("damaged model file: points that are objects need a kernel of objects, and others another")
        if isinstance(self.kernel, Kernel) and not self.kernel.precomputed:
            if not self.kernel.is_settled:
                raise error("damaged model file: the widths and columns of the kernel are not numbers")
            try:
                with np.errstate(all="ignore"):
                    values = self.kernel.diagonal(as_float64(self.points))
            except (IndexError, TypeError, ValueError) as problem:
                raise error("damaged model file: the kernel does not fit its own points") from problem
            if not np.all(np.isfinite(values)):
                raise error("damaged model file: the kernel gives no numbers for its own points")

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        points: Array,
        coef: np.ndarray,
        offset: np.ndarray,
        mean_coef: np.ndarray | None,
        *,
        orthogonal: bool = True,
    ) -> KernelExpansion:
        """An expansion from coefficients on the host, which are moved to the device of the points."""
        mean_coef = None if mean_coef is None else float64_like(mean_coef, points)
        return cls(kernel, points, float64_like(coef, points), float64_like(offset, points), mean_coef, orthogonal)

    @property
    def orthonormal(self) -> KernelExpansion:
        """An expansion whose components are orthonormal and span what these span."""
        return self if self.orthogonal else self._orthonormal

    @cached_property
    def _orthonormal(self) -> KernelExpansion:
        mixing = self._mixing
        return replace(self, coef=self.coef @ mixing, offset=self.offset @ mixing, orthogonal=True)

    def weights_of(self, scores: Array) -> Array:
        """(n, M) weights of the components in a row's reconstruction; the scores, if the components are orthogonal."""
        return scores if self.orthogonal else scores @ like(self._mixing @ self._mixing.T, scores)

    @cached_property
    def _mixing(self) -> Array:
        """The matrix T, (M, rank), that makes the components orthonormal: (A T)' K_SS (A T) = I."""
        metric = self.coef.T @ (gram_of(self.kernel, self.points) @ self.coef)
        values, vectors = top_eigh((metric + metric.T) / 2)
        xp = namespace(metric)
        floor = RANK_TOLERANCE * max(float(values[0]), 0.0)
        rank = int(xp.sum(xp.astype(values > floor, xp.int64)))
        return vectors[:, :rank] / xp.sqrt(values[:rank])

    @property
    def n_support(self) -> int:
        return int(self.points.shape[0])

    @property
    def n_components(self) -> int:
        return int(self.coef.shape[1])

    @cached_property
    def in_float64(self) -> bool:
        """Whether float32 kernel values times coefficients of this size would leave too few correct digits in the
        scores."""
        xp = namespace(self.coef)
        if self.kernel.precomputed:
            squares = xp.linalg.diagonal(gram_of(self.kernel, self.points))
        else:
            squares = self.kernel.diagonal(as_float64(self.points))
        length, largest = float(xp.mean(xp.abs(squares))) ** 0.5, float(xp.max(xp.abs(self.coef)))
        if largest == 0:
            return False
        # Coefficients are scaled before they are squared, because squares may overflow.
        norm = largest * float(xp.max(xp.sum((self.coef / largest) ** 2, axis=0))) ** 0.5
        return float(np.finfo(np.float32).eps) / 2 * length * norm > MAX_SCORE_ROUNDING

    def _block(self, rows: Array) -> Array:
        return as_float64(rows) if itemsize(rows) < 8 and self.in_float64 else rows

    def transform(self, X: Array, n_threads: int = 1) -> Array:
        """Scores of the rows of X, by n m kernel evaluations; memory is O(m) for each row of the current blocks."""
        cross_gram, coef, offset = self._bound_like(X)

        def scores(rows: slice) -> Array:
            with overwritten_blocks():
                block = cross_gram(self._block(finite(X[rows, :])))
                with np.errstate(invalid="ignore"):  # BLAS may set this flag for finite numbers, too
                    scores = block @ coef
            scores -= offset
            return like(scores, X)

        return self._concat(X, self.n_components, scores, n_threads)

    def _bound_like(self, X: Array) -> tuple[CrossGram, Array, Array]:
        """The kernel bound to the points, the coefficients and the offset, in the dtype and on the device of X.

        Binding takes longer than scoring one row, so the bound kernel is kept for later calls.  But it holds a copy of
        the points, so it is not kept if there are many points, or if X has many rows.
        """
        key = (type(X), X.dtype)
        if key in self._bound:
            return self._bound[key]
        example = self._block(X[:1, :])
        bound = self.kernel.bind(self.points_like(example)), like(self.coef, example), like(self.offset, example)
        if is_numpy(X) and X.shape[0] <= BOUND_FOR_ROWS and self.points.shape[0] * self.points.shape[1] <= MAX_BOUND:
            self._bound[key] = bound
        return bound

    @cached_property
    def _bound(self) -> dict[Any, tuple[CrossGram, Array, Array]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_bound"}  # functions are not pickled

    def reconstruction_error(self, X: Array, diagonal: Array | None = None, n_threads: int = 1) -> Array:
        """Squared feature-space distance of each row to its reconstruction."""
        rows = X if self.kernel.bounded else as_float64(X)  # in float32 squares may overflow
        distance, captured = self.orthonormal.variance_parts(rows, diagonal, n_threads)
        xp = namespace(distance)
        return like(xp.maximum(distance - captured, xp.zeros_like(distance)), X)

    def variance_parts(self, X: Array, diagonal: Array | None = None, n_threads: int = 1) -> tuple[Array, Array]:
        """For each row, the squared distance to the mean in feature space, and the squared length of the scores.

        If the components are orthonormal, the squared length of the scores is the part of the distance that they
        capture.
        """
        mean_coef = self.mean_coef
        extended = self.coef
        xp = namespace(self.coef)
        if mean_coef is not None:
            extended = xp.concat([self.coef, mean_coef[:, None]], axis=1)
        cross_gram = self.kernel.bind(self.points_like(X))
        extended, offset = like(extended, X), like(self.offset, X)
        mean_square = self._mean_square

        def parts(rows: slice) -> Array:
            block = cross_gram(finite(X[rows, :])) @ extended
            scores = block[:, : self.n_components] - offset
            length = self.kernel.diagonal(X[rows, :]) if diagonal is None else like(diagonal[rows], block)
            if mean_coef is not None:
                length = length - 2 * block[:, self.n_components] + mean_square
            bp = namespace(block)
            return bp.stack([length, bp.vecdot(scores, scores)], axis=1)

        both = self._concat(X, 2, parts, n_threads)
        return both[:, 0], both[:, 1]

    @cached_property
    def _mean_square(self) -> float:
        """The squared length of the mean feature's projection on the span; it takes the m x m gram of the points."""
        if self.mean_coef is None:
            return 0.0
        return float(self.mean_coef @ (gram_of(self.kernel, self.points) @ self.mean_coef))

    def on_host(self) -> KernelExpansion:
        """This expansion in numpy arrays; sparse points stay sparse."""
        mean_coef = None if self.mean_coef is None else to_numpy(self.mean_coef)
        return replace(
            self,
            points=on_host(self.points),
            coef=to_numpy(self.coef),
            offset=to_numpy(self.offset),
            mean_coef=mean_coef,
        )

    def points_like(self, X: Array) -> Array:
        """The support points in the dtype and on the device of X; sparse points stay sparse."""
        return points_like(self.points, X)

    def _concat(self, X: Array, width: int, function: Callable[[slice], Array], n_threads: int) -> Array:
        """The results of `function` on the blocks of X, as one array with `width` columns."""
        if not is_numpy(X) and not scipy.sparse.issparse(X):
            return namespace(X).concat(list(map_row_blocks(function, X, self.n_support, n_threads)), axis=0)
        return in_one_array(function, X, width, self.n_support, n_threads, number_dtype(X))
