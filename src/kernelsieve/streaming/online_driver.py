"""OnlineDriver: passes rows one by one to an online rule, stores the points it keeps, and counts kernel values."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import Array, as_float64, take_rows, to_numpy
from ..fit.expansion import KernelExpansion
from ..fit.moments import gram_of
from ..kernels import Kernel
from ..rows.reservoir import stacked
from ..rules.base import Selection
from ..spectrum.top import component_signs
from .online_rules import RULES, Independent, OnlineChooser, Rule, Settings

FACTOR_OFF = (
    1e-3  # largest difference between the gram of the points and a rule's factor of it, as a share of max k(s, s)
)

# The entries of each rule in a model file, in the notation of io/layout.py.
_SANGER = {"coef": "float[m, M]", "mean_coef": "float[m]", "mean_scores": "float[M]", "mean_square": "float"}
_SANGER |= {"weight": "positive", "n_steps": "count"}
_IN_COORDINATES = {"lower": "float[m, m]", "mean": "float[m]", "weight": "positive"}
RULE_LAYOUTS = {
    "coherence": {"lower": "float[m, m]", **_SANGER},
    "hebbian": {"lower": "float[M, M]", "gram": "float[m, m] | float[0, 0]", **_SANGER},
    "subset": {**_IN_COORDINATES, "scatter": "float[m, m]"},
    "incremental": {**_IN_COORDINATES, "basis": "float[m, r]", "values": "positive[r]"},
}


INDEPENDENT_LAYOUT = {"lower": "float[m, m]", "signs": "float[m]"}


def driver_layout(rule: str, state: Any) -> dict[str, Any]:
    """The file layout of `OnlineDriver.state` for this rule, or for `Independent` if that replaces the rule."""
    layout = INDEPENDENT_LAYOUT if _only_chooses(state) else RULE_LAYOUTS[rule]
    return {"points": "rows[m, d]", "numbers": "int[m]", "n_evaluations": "count", "rule": layout}


def _only_chooses(state: Any) -> bool:
    rule = state.get("rule") if isinstance(state, dict) else None
    return isinstance(rule, dict) and "signs" in rule


class OnlineDriver:
    """An online rule and its points; under an indefinite kernel, `Independent` replaces the rule."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        settings: Settings,
        state: dict[str, Any] | None = None,
        *,
        indefinite: bool = False,
    ) -> None:
        self.kernel, self.name = kernel, name
        only_chooses = indefinite if state is None else _only_chooses(state)
        kind: type[OnlineChooser] = Independent if only_chooses else RULES[name]
        self.rule = kind(settings, **({} if state is None else state["rule"]))
        self.points = _Buffer(None if state is None else state["points"])
        self.numbers: list[int] = [] if state is None else [int(n) for n in state["numbers"]]
        self.n_evaluations = 0 if state is None else int(state["n_evaluations"])

    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which the driver can be rebuilt."""
        return {
            "rule": self.rule.state(),
            "points": self.points.rows,
            "numbers": np.array(self.numbers, dtype=np.int64),
            "n_evaluations": self.n_evaluations,
        }

    @property
    def whole(self) -> bool:
        """Whether the rule can continue: it is ready, and its factor reproduces the gram of its points."""
        rule: Any = self.rule
        if not rule.ready or (isinstance(rule, Independent) and not np.all(np.abs(rule.signs) == 1)):
            return False
        with np.errstate(all="ignore"):
            gram = np.asarray(to_numpy(gram_of(self.kernel, self.points.rows)))
            carried = rule.gram if hasattr(rule, "gram") else rule.lower @ rule.lower.T
            if self.name != "hebbian" and (np.triu(rule.lower, 1).any() or not np.all(np.diagonal(rule.lower) > 0)):
                return False
            if rule.settings.budget is None and self.name == "hebbian":
                return carried.shape == (0, 0)
            near = np.abs(carried - gram) <= FACTOR_OFF * np.abs(np.diagonal(gram)).max()
        return carried.shape == gram.shape and bool(near.all())

    def feed(self, X: Array, weights: np.ndarray | None, first: int) -> None:
        """Process rows in their order; `first` is the number of the first one in the stream."""
        rows = X.astype(np.float64) if scipy.sparse.issparse(X) else np.asarray(to_numpy(as_float64(X)))
        lengths = to_numpy(self.kernel.diagonal(rows))
        self.points.start(rows)
        for i in range(rows.shape[0]):
            weight = 1.0 if weights is None else float(weights[i])
            something = lengths[i] > 0 or isinstance(self.rule, Independent)
            if weight == 0 or not something:  # skip a row without weight, or with k(x, x) = 0
                continue
            row, cross = rows[i : i + 1, :], np.zeros(0)
            if self.numbers:
                cross = np.asarray(self.kernel(row, self.points.rows), dtype=np.float64)[0]
            self.n_evaluations += len(cross) + 1
            change = self.rule.step(cross, float(lengths[i]), weight)
            if change.enters:
                self.points.append(row)
                self.numbers.append(first + i)
            if change.leaves:
                places = np.delete(np.arange(len(self.numbers)), change.leaves)
                self.points.keep(places)
                self.numbers = [self.numbers[place] for place in places]

    def selection(self) -> Selection:
        """The current points as a Selection, with their row numbers in the stream."""
        numbers = np.array(self.numbers, dtype=np.intp)
        return Selection(self.kernel, self.points.rows.copy(), numbers, {"rule": self.name})

    def expansion(self, gram: np.ndarray) -> KernelExpansion:
        """The current model of the rule; `gram` is the gram of its points."""
        assert isinstance(self.rule, Rule)
        solution = self.rule.solution()
        coef = solution.coef * component_signs(solution.coef)
        if not solution.orthogonal:  # components of the gradient rules have unit length only after convergence
            lengths = np.sqrt(np.maximum(np.sum(coef * (gram @ coef), axis=0), 0.0))
            coef = coef / np.where(lengths > 0, lengths, 1.0)
        points, mean = self.points.rows.copy(), solution.mean_coef
        offset = np.zeros(coef.shape[1])
        if mean is not None:
            offset = mean @ gram @ coef
        return KernelExpansion.of(self.kernel, points, coef, offset, mean, orthogonal=solution.orthogonal)


class _Buffer:
    """An array that grows by rows; its space is doubled when full, so that appending rarely copies the other rows."""

    def __init__(self, rows: Array | None) -> None:
        self._space: Any = rows
        self._used = 0 if rows is None else int(rows.shape[0])

    @property
    def rows(self) -> Any:
        return self._space[: self._used]

    def start(self, like: Array) -> None:
        """Set the number of columns and the dtype from `like`, before the first row is appended."""
        if self._space is None:
            self._space = like[:0]

    def append(self, row: Array) -> None:
        if not self._used:
            self._space = row
        elif scipy.sparse.issparse(row):
            self._space = stacked([self.rows, row])
        else:
            if self._used == len(self._space):
                grown = np.empty((2 * self._used, row.shape[1]))
                grown[: self._used] = self._space
                self._space = grown
            self._space[self._used] = row[0]
        self._used += 1

    def keep(self, places: np.ndarray) -> None:
        self._space = take_rows(self._space, places)
        self._used = len(places)
