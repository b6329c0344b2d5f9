"""The quadratic of the elastic-net problem, and the duality gap that bounds the distance from its minimum.

Candidate rows have coordinates G (n x q), K = G G'.  M (q x q) is the scatter of the training rows in the same
coordinates (G'G, or G'HG if centred, or that of other rows or weights), and u = G'b, |u| = 1, is the component to be
imitated.  In feature space, v = sum_i a_i phi(x_i) has the coordinates G'a, and Wang & Tanaka's criterion for a is

    J(a) = 1/2 (u - G'a)' M (u - G'a) + (l2/2) |G'a|^2 + alpha sum_i w_i |a_i|

This is a lasso, 1/2 |y - X a|^2 + alpha sum w_i |a_i|, with

    X'X = H = G (M + l2 I) G',    X'y = G M u  (`linear`),    y'y = u'M u  (`target_square`)

For several components with one support, the vector a becomes a matrix A, and the penalty is sum_i w_i |A_i.|.  Solvers
need only the three quantities on the last line, and neither X nor y.  With c = X'(y - X a) and
s = min(1, alpha / max_i |c_i|/w_i), the point s (y - X a) is feasible for the dual problem.  This bounds how far J(a)
can be above the minimum:

    gap(a) = (1-s)^2/2 |y - X a|^2 + alpha sum w_i |a_i| - s a'c
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Quadratic(Protocol):
    """1/2 tr A'HA - tr A'linear + target_square/2, where H is given by its blocks and its products with sparse A."""

    @property
    def linear(self) -> np.ndarray: ...  # (n,) or (n, n_components)

    @property
    def target_square(self) -> float: ...

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """H over the given rows and columns."""

    def dot(self, active: np.ndarray, values: np.ndarray) -> np.ndarray:
        """H[:, active] @ values, for all n rows."""


@dataclass(frozen=True)
class FactorQuadratic:
    """H = G C G' from coordinates: an element of a block costs O(q), a product O(n q); no n x n matrix is formed."""

    coordinates: np.ndarray  # (n, q): G
    curvature: np.ndarray  # (q, q): C = M + l2 I
    linear: np.ndarray
    target_square: float

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """H over the given rows and columns."""
        return (self.coordinates[rows] @ self.curvature) @ self.coordinates[columns].T

    def dot(self, active: np.ndarray, values: np.ndarray) -> np.ndarray:
        """H[:, active] @ values, for all n rows."""
        return self.coordinates @ (self.curvature @ (self.coordinates[active].T @ values))


@dataclass(frozen=True)
class HessianQuadratic:
    """H given as a matrix."""

    hessian: np.ndarray  # (n, n), symmetric
    linear: np.ndarray
    target_square: float

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """H over the given rows and columns."""
        return self.hessian[rows[:, None], columns]

    def dot(self, active: np.ndarray, values: np.ndarray) -> np.ndarray:
        """H[:, active] @ values, for all n rows."""
        return self.hessian[active].T @ values


def elastic_net_quadratic(
    coordinates: np.ndarray, moment: np.ndarray, direction: np.ndarray, l2: float
) -> FactorQuadratic:
    """The quadratic of the a-step at u = `direction` (q,), or at several directions together (q, n_components).

    Examples
    --------
    >>> import numpy as np
    >>> G = np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 2.0]])
    >>> problem = elastic_net_quadratic(G, G.T @ G, np.array([0.0, 1.0]), l2=0.1)
    >>> gram = G @ G.T
    >>> rows = np.arange(3)
    >>> bool(np.allclose(problem.block(rows, rows), gram @ gram + 0.1 * gram))
    True
    """
    image = moment @ direction
    curvature = moment + l2 * np.eye(len(moment))
    return FactorQuadratic(coordinates, curvature, coordinates @ image, float(np.vdot(direction, image)))


def row_norms(x: np.ndarray) -> np.ndarray:
    """|x_i| for every element of a vector or every row of a matrix, even if the squares of its values overflow."""
    if x.ndim == 1:
        return np.abs(x)
    unit = np.ldexp(1.0, int(np.frexp(np.abs(x).max(initial=0.0))[1]) - 1)  # multiplying by a power of two is exact
    x = x / unit
    return unit * np.sqrt(np.einsum("ij,ij->i", x, x))


def checked_weights(weights: np.ndarray | None, n: int) -> np.ndarray:
    """The penalty weights after a check, or ones if there are none; an infinite weight bars a candidate."""
    if weights is None:
        return np.ones(n)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,) or not np.all(weights > 0):
        raise ValueError(
            f"penalty weights must be {n} positive numbers, one for each candidate (infinity bars one): got shape "
            f"{weights.shape}" + (f", smallest {weights.min()}" if weights.size else "")
        )
    return weights


def checked_penalty(alpha: float, weights: np.ndarray | None, n: int) -> np.ndarray:
    """The penalty weights, after a check that alpha is positive and finite."""
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ValueError(f"alpha={alpha} must be a positive number")
    return checked_weights(weights, n)


def largest_alpha(quadratic: Quadratic, weights: np.ndarray | None = None) -> float:
    """alpha_max = max_i |linear_i| / w_i, the smallest alpha for which zero is the minimiser."""
    linear = quadratic.linear
    return float(np.max(row_norms(linear) / checked_weights(weights, len(linear)), initial=0.0))


@dataclass(frozen=True)
class Certificate:
    """The objective at some coefficients, and a bound on how far it is above the minimum."""

    objective: float
    gap: float

    def within(self, tol: float) -> bool:
        """Whether the gap is at most `tol` times the objective."""
        return self.gap <= tol * self.objective


def certify(
    quadratic: Quadratic,
    alpha: float,
    weights: np.ndarray,
    active: np.ndarray,
    values: np.ndarray,
    gradient: np.ndarray,
    steepest: float | None = None,
) -> Certificate:
    """The objective and duality gap of coefficients that are `values` on the rows `active` and zero elsewhere.

    `gradient` is c, and `steepest` is max_i |c_i|/w_i if the caller has computed it already.
    """
    inner = float(np.vdot(values, gradient[active]))
    residual_square = max(quadratic.target_square - float(np.vdot(values, quadratic.linear[active])) - inner, 0.0)
    cost = alpha * float(weights[active] @ row_norms(values))
    if steepest is None:
        steepest = float((row_norms(gradient) / weights).max())
    shrink = 1.0 if steepest <= alpha else alpha / steepest
    gap = 0.5 * (1 - shrink) ** 2 * residual_square + cost - shrink * inner
    return Certificate(0.5 * residual_square + cost, max(gap, 0.0))
