"""Published rules of online kernel PCA, which process one row at a time by its kernel values with the points so far.

A rule receives k(D, x) and k(x, x), says how the points change, and gives coefficients over the points on request:

    step(cross, length, weight) -> Change       whether the row becomes a point, and which points are then removed
    solution() -> RuleSolution                  coefficients (m, M) of the components and (m,) of the mean

It never sees the rows themselves.  A rule can be rebuilt from its `state`, a few arrays and numbers.  The points are
called the dictionary D.  All rules represent it by the Cholesky factor L of its gram,

    K_DD = L L',      f(x) = L^-1 k(D, x)

where f(x) are the orthonormal coordinates of phi(x) projected on span(phi(D)).  A new point adds a coordinate that is
zero for the projections of all earlier rows, so the moments of earlier rows stay valid.  For kernels that are not
positive semi-definite, `Independent` only chooses points and leaves the components to the caller.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from ..arrays import solve_lower, top_eigh
from ..numerics import DEPENDENT, ROUNDING

Order = Callable[[np.ndarray, np.ndarray], np.ndarray]
SLACK = 0.2  # share of the budget removed at a time, so that a new reduced set is not needed for every row


class Change(NamedTuple):
    """How a row changes the points: if `enters`, it becomes the last one; then those at places `leaves` are removed."""

    enters: bool = False
    leaves: tuple[int, ...] = ()


class RuleSolution(NamedTuple):
    """Components over the points, and the mean of the features."""

    coef: np.ndarray  # (m, M)
    mean_coef: np.ndarray | None  # (m,), None when not centred
    orthogonal: bool  # whether the components are orthonormal in feature space


@dataclass(frozen=True)
class Settings:
    """The options of an online rule."""

    n_components: int
    center: bool
    budget: int | None = None
    coherence: float = 0.5
    learning_rate: float = 0.5
    learning_decay: float = 1000.0
    rank: int = 0
    rate: float = 0.0  # rate of forgetting, ln 2 / half_life
    order: Order | None = None  # orders candidates (columns) by how much a target loses without them

    @property
    def kept_share(self) -> float:
        """The factor by which the weights of earlier rows shrink when one more row arrives."""
        return math.exp(-self.rate)


@dataclass
class OnlineChooser(ABC):
    """Chooses points one row at a time; its fields other than `settings` are its state."""

    settings: Settings

    @abstractmethod
    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        """Process a row, given its kernel values with the points, k(x, x), and its weight."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether enough rows have arrived for the number of components."""

    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which the rule can be rebuilt."""
        return {field.name: getattr(self, field.name) for field in fields(self)[1:]}


@dataclass
class Rule(OnlineChooser):
    """A published rule, which chooses points and also has components."""

    @abstractmethod
    def solution(self) -> RuleSolution:
        """The current components."""


def entered(lower: np.ndarray, inside: np.ndarray, length: float) -> np.ndarray | None:
    """L extended by a point with coordinates `inside` and k(x, x) = `length`; None if it depends on the others."""
    rest = length - float(inside @ inside)
    if not rest > DEPENDENT * length:
        return None
    m = len(lower)
    grown = np.zeros((m + 1, m + 1))
    grown[:m, :m] = lower
    grown[m, :m] = inside
    grown[m, m] = math.sqrt(rest)
    return grown


def kept(lower: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L for some of the points, and T = L_new^-1 L[places], which projects old coordinates on the new span."""
    rows = lower[places]
    smaller = np.linalg.cholesky(rows @ rows.T)
    return smaller, solve_lower(smaller, rows)


def coherence_with(cross: np.ndarray, length: float, lower: np.ndarray) -> float:
    """The coherence max_d |k(x, d)| / sqrt(k(x, x) k(d, d)); 1 if k(x, x) = 0, because such a row adds nothing."""
    if not len(lower):
        return 0.0
    squares = length * np.einsum("ij,ij->i", lower, lower)
    real = squares > 0
    return float(np.max(np.abs(cross[real]) / np.sqrt(squares[real]), initial=0.0 if length > 0 else 1.0))


@dataclass
class Independent(OnlineChooser):
    """Chooses points under a kernel that is not positive semi-definite: rows linearly independent of earlier points.

    Such a kernel is an indefinite inner product.  The gram has a factorisation with signs J, from which a row has
    coordinates:

        K_DD = L J L',      f(x) = J L^-1 k(D, x),      rest = k(x, x) - f'J f

    If the rest is not zero, whatever its sign, the row has a part outside the span of the points.  The published rules
    require a positive rest, and a coherence |k(x, d)| / sqrt(k(x, x) k(d, d)) of at most one.  Under such kernels they
    would keep a few points, whose best components would be wrong by up to twelve times the variance.  So this rule only
    chooses points.  If the budget is reached and the stream forgets, the oldest point is removed for each new one.
    """

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # L
    signs: np.ndarray = field(default_factory=lambda: np.zeros(0))  # the diagonal of J

    @property
    def ready(self) -> bool:
        return len(self.signs) >= self.settings.n_components

    @property
    def gram(self) -> np.ndarray:
        """The gram K_DD of the points."""
        return (self.lower * self.signs) @ self.lower.T

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        budget = self.settings.budget
        full = budget is not None and len(self.signs) >= budget
        if (full and self.settings.rate == 0) or not self._enter(cross, length):
            return Change()
        return Change(enters=True, leaves=self._without_oldest() if full else ())

    def _enter(self, cross: np.ndarray, length: float) -> bool:
        """Make the row a point if it is linearly independent of the points; return whether it is."""
        m = len(self.signs)
        inside = self.signs * solve_lower(self.lower, cross) if m else cross
        rest = length - float(inside @ (self.signs * inside))
        if not abs(rest) > DEPENDENT * max(abs(length), float(inside @ inside)):
            return False
        grown = np.zeros((m + 1, m + 1))
        grown[:m, :m], grown[m, :m], grown[m, m] = self.lower, inside, math.sqrt(abs(rest))
        self.lower, self.signs = grown, np.append(self.signs, math.copysign(1.0, rest))
        return True

    def _without_oldest(self) -> tuple[int, ...]:
        """Remove the oldest point, and points that become linearly dependent without it; return their places."""
        gram = self.gram
        self.lower, self.signs = np.zeros((0, 0)), np.zeros(0)
        kept: list[int] = []
        for place in range(1, len(gram)):
            if self._enter(gram[place, kept], float(gram[place, place])):
                kept.append(place)
        return tuple(int(i) for i in np.setdiff1d(np.arange(len(gram)), kept))


@dataclass
class Sanger(Rule):
    """Sanger's rule in feature space, starting from the span of the first linearly independent rows.

    With components psi_k = sum_i a_ik phi(s_i), scores y = psi' (phi(x) - mean) and step eta_t = eta_0 / (1 + t / t_0),
    the update is

        psi_k += eta y_k (phi(x) - mean - sum_{l <= k} y_l psi_l)
        A     += eta ((b - c) y' - A UT[y y'])

    where b and c are the coefficients of phi(x) and of the mean over the points, and UT[] is the upper triangle.  The
    mean is that of the rows so far; <psi, mean> and |mean|^2 are updated as well, so that no gram is needed.  Steps are
    at most 1 / |y|^2 long, because the rule diverges with longer ones.
    """

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # L of the first rows, or of the dictionary
    coef: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # A
    mean_coef: np.ndarray = field(default_factory=lambda: np.zeros(0))  # c
    mean_scores: np.ndarray = field(default_factory=lambda: np.zeros(0))  # <psi, mean>
    mean_square: float = 0.0  # |mean|^2
    weight: float = 0.0
    n_steps: int = 0

    @property
    def ready(self) -> bool:
        return self.coef.shape[1] == self.settings.n_components

    def solution(self) -> RuleSolution:
        return RuleSolution(self.coef, self.mean_coef if self.settings.center else None, False)

    def start(self, inside: np.ndarray, length: float, weight: float) -> bool:
        """Add a row to the first independent rows, of which there is one for each component.

        When the last of them arrives, the components are initialised.  Return whether the row was independent.
        """
        lower = entered(self.lower, inside, length)
        if lower is None:
            return False
        self.lower, m = lower, len(lower)
        self.weight += weight
        self.mean_coef = np.append(self.mean_coef * (1 - weight / self.weight), weight / self.weight)
        if m == self.settings.n_components:
            self.coef = solve_lower(lower, np.eye(m), transpose=True)
            mean = lower.T @ self.mean_coef
            self.mean_scores, self.mean_square = mean.copy(), float(mean @ mean)
        return True

    def learn_new_point(self, cross: np.ndarray, length: float, weight: float) -> None:
        """Take one step of the rule for a row that has become a point; `cross` are its values with earlier points."""
        self.coef = np.vstack([self.coef, np.zeros(self.settings.n_components)])
        self.mean_coef = np.append(self.mean_coef, 0.0)
        row = np.zeros(len(cross) + 1)
        row[-1] = 1.0
        self.learn(row, np.append(cross, length), length, weight)

    def learn(self, row: np.ndarray, cross: np.ndarray, length: float, weight: float) -> None:
        """Take one step of the rule.

        `row` are the coefficients b of the row over the points, `cross` its kernel values with the points, and `length`
        is the squared length of its feature.
        """
        s = self.settings
        self.n_steps += 1
        scores, with_mean = cross @ self.coef, float(cross @ self.mean_coef)
        if s.center:
            self.weight = self.weight * s.kept_share + weight
            step = weight / self.weight
            self.mean_coef = (1 - step) * self.mean_coef + step * row
            self.mean_scores = (1 - step) * self.mean_scores + step * scores
            self.mean_square = (1 - step) ** 2 * self.mean_square + 2 * step * (1 - step) * with_mean + step**2 * length
            scores = scores - self.mean_scores
            with_mean = (1 - step) * with_mean + step * length
        rate = weight * s.learning_rate / (1 + self.n_steps / s.learning_decay)
        rate = min(rate, 1.0 / max(float(scores @ scores), 1e-300))  # a longer step would overshoot and diverge
        mixing = rate * np.triu(np.outer(scores, scores))
        change = row - self.mean_coef if s.center else row
        self.coef = self.coef + rate * np.outer(change, scores) - self.coef @ mixing
        if s.center:
            along = rate * scores * (with_mean - self.mean_square)
            self.mean_scores = self.mean_scores + along - self.mean_scores @ mixing


@dataclass
class Hebbian(Sanger):
    """The kernel Hebbian algorithm (Kim, Franz & Schoelkopf 2005): Sanger's rule with every row as a point.

    The coefficients b of a row are then a unit vector.  With a budget, the point that contributes least to the
    components is removed.
    """

    gram: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # gram of the points, if there is a budget

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        if not self.ready:
            started = self.start(solve_lower(self.lower, cross) if len(cross) else cross, length, weight)
            if started and self.settings.budget is not None:
                self.gram = _grown(self.gram, cross, length)
            return Change(enters=started)
        self.learn_new_point(cross, length, weight)
        if self.settings.budget is None:
            return Change(enters=True)
        self.gram = _grown(self.gram, cross, length)
        if len(self.gram) <= self.settings.budget:
            return Change(enters=True)
        return Change(enters=True, leaves=(self._leave(),))

    def _leave(self) -> int:
        """Remove the point that contributes least to the components."""
        place = int(np.argmin(np.einsum("ij,ij->i", self.coef, self.coef) * np.diagonal(self.gram)))
        self.gram = np.delete(np.delete(self.gram, place, axis=0), place, axis=1)
        self.coef, self.mean_coef = np.delete(self.coef, place, axis=0), np.delete(self.mean_coef, place)
        total = self.mean_coef.sum()
        if total > 0:
            self.mean_coef = self.mean_coef / total
        products = self.gram @ self.mean_coef
        self.mean_scores, self.mean_square = products @ self.coef, float(products @ self.mean_coef)
        return place


def _grown(gram: np.ndarray, cross: np.ndarray, length: float) -> np.ndarray:
    return np.block([[gram, cross[:, None]], [cross, np.array([length])]]) if len(cross) else np.array([[length]])


@dataclass
class Coherence(Sanger):
    """Sanger's rule over a dictionary of mutually dissimilar rows (Honeine 2012).

    A row becomes a point if it is similar to none of the points,

        max_d |k(x, d)| / sqrt(k(x, x) k(d, d)) <= mu_0

    which makes the dictionary finite on a compact set.  Otherwise the row is replaced by its projection on the span of
    the points, b = K_DD^-1 k(D, x).  The first independent rows, one for each component, always become points.
    """

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        inside = solve_lower(self.lower, cross) if len(cross) else cross
        room = self.settings.budget is None or len(cross) < self.settings.budget
        if not self.ready:
            return Change(enters=self.start(inside, length, weight))
        unlike = room and coherence_with(cross, length, self.lower) <= self.settings.coherence
        lower = entered(self.lower, inside, length) if unlike else None
        if lower is None:
            row = solve_lower(self.lower, inside, transpose=True)
            self.learn(row, cross, float(inside @ inside), weight)
            return Change()
        self.lower = lower
        self.learn_new_point(cross, length, weight)
        return Change(enters=True)


@dataclass
class Subset(Rule):
    """Adaptive subset kernel PCA (Washizawa 2009, 2012; Tanaka 2015), from the moments of all rows over a dictionary.

    With f(x) = L^-1 k(D, x), the best components in span(phi(D)) are the leading eigenvectors V of the covariance C of
    f, with coefficients A = L^-T V.  They are doubly orthogonal: orthonormal in feature space, A' K_DD A = I, and with
    uncorrelated scores, V' C V diagonal.  Mean and covariance are updated row by row, with forgetting.  As in
    `Coherence`, a row becomes a point if it is dissimilar to all points; the first rows, which the components need,
    always become points.  If the dictionary is full and the stream forgets, such a row replaces the point i whose
    removal loses least,

        min_i sum_k lambda_k a_ik^2 / (K_DD^-1)_ii

    On a fixed dictionary, this is subset kernel PCA of all rows.
    """

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    scatter: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    weight: float = 0.0

    @property
    def ready(self) -> bool:
        n_points, n_components = len(self.lower), self.settings.n_components
        if n_points != n_components or not self.settings.center:
            return n_points >= n_components
        # With centring, the first M rows have only M - 1 directions of variance. If the M points span all features,
        # later rows that are not points can add the missing direction.
        values, _ = self._components()
        return bool(values[-1] > DEPENDENT * values[0])

    @property
    def _filling(self) -> bool:
        """Whether every independent row becomes a point, as the first M do, and with centring the first M + 1."""
        return len(self.lower) < self.settings.n_components + int(self.settings.center)

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        inside = solve_lower(self.lower, cross) if len(cross) else cross
        change = self._admit(cross, inside, length)
        if change.enters:
            inside = self.lower[-1]
            if change.leaves:
                inside = self._leave(change.leaves[0])
        self._follow(inside, weight)
        return change

    def solution(self) -> RuleSolution:
        _, vectors = self._components()
        coef = solve_lower(self.lower, vectors, transpose=True)
        mean = solve_lower(self.lower, self.mean, transpose=True) if self.settings.center else None
        return RuleSolution(coef, mean, True)

    def _components(self) -> tuple[np.ndarray, np.ndarray]:
        covariance = self.scatter / self.weight
        if not self.settings.center:
            covariance = covariance + np.outer(self.mean, self.mean)
        values, vectors = top_eigh(covariance, self.settings.n_components)
        return np.maximum(values, 0.0), vectors

    def _admit(self, cross: np.ndarray, inside: np.ndarray, length: float) -> Change:
        """Add the row to the dictionary, with a new coordinate, if it qualifies; say which point is removed for it."""
        s = self.settings
        full = s.budget is not None and len(cross) >= s.budget
        if full and s.rate == 0:
            return Change()
        if not self._filling and coherence_with(cross, length, self.lower) > s.coherence:
            return Change()
        lower = entered(self.lower, inside, length)
        if lower is None:
            return Change()
        leaves = (self._least_missed(),) if full else ()
        self.lower = lower
        self.mean, self.scatter = np.append(self.mean, 0.0), np.pad(self.scatter, (0, 1))
        return Change(enters=True, leaves=leaves)

    def _least_missed(self) -> int:
        values, vectors = self._components()
        inverse = solve_lower(self.lower, np.eye(len(self.lower)))
        coef = inverse.T @ vectors
        return int(np.argmin((coef**2 @ values) / np.einsum("ij,ij->j", inverse, inverse)))

    def _leave(self, place: int) -> np.ndarray:
        """Remove a point and project the moments on the span of the others; return the newest point's coordinates."""
        places = np.delete(np.arange(len(self.lower)), place)
        self.lower, projection = kept(self.lower, places)
        self.mean = projection @ self.mean
        self.scatter = projection @ self.scatter @ projection.T
        return self.lower[-1]

    def _follow(self, inside: np.ndarray, weight: float) -> None:
        before = self.weight * self.settings.kept_share
        self.weight = before + weight
        if self.weight == 0:
            return
        step = inside - self.mean
        self.mean = self.mean + (weight / self.weight) * step
        self.scatter = self.settings.kept_share * self.scatter + (before * weight / self.weight) * np.outer(step, step)


@dataclass
class Incremental(Rule):
    """Incremental kernel PCA (Chin & Suter 2007), which merges rows one by one into an eigenspace with a mean.

    Let U be an orthonormal basis of the eigenspace, lambda the eigenvalues kept, m the mean and n the weight so far.
    For a row f of weight w, with d = f - m:

        p = U'd,   rho = |d - U p|
        the scatter in [U, (d - U p)/rho] is   diag(lambda, 0) + n w/(n + w) [p; rho][p; rho]'

    Its leading `rank` eigenpairs are the new ones, and m += w/(n + w) d.  If no eigenpair is cut off, this is exact
    kernel PCA.  Every independent row becomes a point.  When there are more points than the budget allows, those whose
    removal changes eigenspace and mean least are removed (a reduced set), a fifth of the budget at a time.
    """

    lower: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    basis: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (m, r), orthonormal columns
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (r,) eigenvalues of the scatter, descending
    weight: float = 0.0

    @property
    def ready(self) -> bool:
        return len(self.values) >= self.settings.n_components

    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        inside = solve_lower(self.lower, cross) if len(cross) else cross
        lower = entered(self.lower, inside, length)
        if lower is not None:
            self.lower, inside = lower, lower[-1]
            self.mean = np.append(self.mean, 0.0)
            self.basis = np.pad(self.basis, ((0, 1), (0, 0)))
        self._merge(inside, weight)
        return Change(enters=lower is not None, leaves=self._reduce())

    def solution(self) -> RuleSolution:
        basis, mean = self.basis[:, : self.settings.n_components], None
        if self.settings.center:
            mean = solve_lower(self.lower, self.mean, transpose=True)
        return RuleSolution(solve_lower(self.lower, basis, transpose=True), mean, True)

    def _merge(self, inside: np.ndarray, weight: float) -> None:
        before = self.weight * self.settings.kept_share
        self.values = self.values * self.settings.kept_share
        self.weight = before + weight
        if weight == 0:
            return
        step, share = inside, weight
        if self.settings.center:
            step, share = inside - self.mean, before * weight / self.weight
            self.mean = self.mean + (weight / self.weight) * step
        if share == 0:
            return
        along = self.basis.T @ step
        outside = step - self.basis @ along
        # A second orthogonalisation keeps the basis orthonormal over very many rows.
        correction = self.basis.T @ outside
        along, outside = along + correction, outside - self.basis @ correction
        distance = float(np.linalg.norm(outside))
        basis, values = self.basis, self.values
        if distance > ROUNDING[8] * max(float(np.linalg.norm(inside)), math.ulp(1.0)):
            basis = np.column_stack([basis, outside / distance])
            values, along = np.append(values, 0.0), np.append(along, distance)
        found, rotation = top_eigh(np.diag(values) + share * np.outer(along, along), self.settings.rank)
        self.basis, self.values = basis @ rotation, np.maximum(found, 0.0)

    def _reduce(self) -> tuple[int, ...]:
        """Remove points if the budget is exceeded; return the places of the removed points."""
        s, m = self.settings, len(self.lower)
        if s.budget is None or m <= s.budget:
            return ()
        assert s.order is not None
        n_left = max(s.budget - int(SLACK * s.budget), min(s.budget, s.n_components + 1))
        target = np.column_stack([self.basis * np.sqrt(self.values), np.sqrt(self.weight) * self.mean])
        places = np.sort(s.order(self.lower.T, target)[:n_left])
        self.lower, projection = kept(self.lower, places)
        self.mean = projection @ self.mean
        left, lengths, _ = np.linalg.svd(projection @ (self.basis * np.sqrt(self.values)), full_matrices=False)
        self.basis, self.values = left, lengths**2
        return tuple(int(i) for i in np.setdiff1d(np.arange(m), places))


RULES: dict[str, type[Rule]] = {
    "coherence": Coherence,
    "hebbian": Hebbian,
    "subset": Subset,
    "incremental": Incremental,
}
