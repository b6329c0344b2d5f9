"""Shared by the online rules: a dictionary of points, represented by the Cholesky factor of its gram.

    K_DD = L L',      f(x) = L^-1 k(D, x)

are orthonormal coordinates of phi(x) projected on span(phi(D)).  A point that enters adds a coordinate that is zero
for all earlier rows' projections, so that the moments of earlier rows stay valid.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from ...arrays import solve_lower
from ...numerics import DEPENDENT

Order = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Change(NamedTuple):
    """How a row changes the points: it may enter, as the last; then those at the places in `leaves` are removed."""

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
    rate: float = 0.0  # of forgetting, ln 2 / half_life
    order: Order | None = None  # orders candidates, given as columns, by the target's loss without them

    @property
    def kept_share(self) -> float:
        """The factor by which weights shrink when one more row comes."""
        return math.exp(-self.rate)


@dataclass
class OnlineChooser(ABC):
    """Chooses points one row at a time; the fields after the settings are its state."""

    settings: Settings

    @abstractmethod
    def step(self, cross: np.ndarray, length: float, weight: float) -> Change:
        """Take in a row by its kernel values with the points, its own, and its weight."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether enough rows have come for the number of components."""

    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which the rule can be rebuilt."""
        return {field.name: getattr(self, field.name) for field in fields(self)[1:]}


@dataclass
class Rule(OnlineChooser):
    """A published rule, which also has components."""

    @abstractmethod
    def solution(self) -> RuleSolution:
        """The current components."""


def entered(lower: np.ndarray, inside: np.ndarray, length: float) -> np.ndarray | None:
    """L with one more point, of coordinates `inside` and k(x, x) = `length`; None if it depends on the others."""
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
    """L of some of the points, and T = L_new^-1 L[places], which projects old coordinates to the new ones."""
    rows = lower[places]
    smaller = np.linalg.cholesky(rows @ rows.T)
    return smaller, solve_lower(smaller, rows)


def coherence_with(cross: np.ndarray, length: float, lower: np.ndarray) -> float:
    """max_d |k(x, d)| / sqrt(k(x, x) k(d, d)); 1 for a row with k(x, x) = 0, which adds nothing."""
    if not len(lower):
        return 0.0
    squares = length * np.einsum("ij,ij->i", lower, lower)
    real = squares > 0
    return float(np.max(np.abs(cross[real]) / np.sqrt(squares[real]), initial=0.0 if length > 0 else 1.0))
