"""A budget of kernel values: how many rows a fit may look at before its pass over all rows.

The pass takes N m values for m points and N for k(x, x).  What is left is spent on the whole gram of n rows, from which
points are chosen, and on that of n/2 other rows, on which they are measured:

    n (n + 1) / 2  +  n (n + 2) / 8  -  n m        (the pass need not compute the n m values of these rows again)

The whole gram of few rows is worth more than part of the gram of many: with the same number of values, targeted rows
of 500 keep .97 of what exact kernel PCA captures on DNA-like strings, and randomly pivoted Cholesky over all rows .94.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral

from .plan import SearchPlan

FRESH_SHARE = 0.5  # rows to measure on, for each row that points are chosen from
# Without a limit from the user, a costly kernel may take this many values beyond the pass: the gram of a thousand
# rows. Fewer would save little compared with the pass over many rows, and more gain little.
DEFAULT_VALUES = 500_000
DEFAULT_SHARE = 0.5  # or this share of the pass


@dataclass(frozen=True)
class Budget:
    """The number of kernel values that a fit may use, beyond those of the pass over all rows."""

    n_values: float

    @classmethod
    def of(cls, asked: float | str, n_rows: int, n_support: int | None) -> Budget:
        """What `max_evaluations` leaves after the pass over all rows; raises if it is not enough for that pass."""
        if isinstance(asked, str):
            return cls(max(DEFAULT_VALUES, DEFAULT_SHARE * n_rows * (n_support or 0)))
        if n_support is None:
            raise ValueError(
                f"max_evaluations={asked!r} needs n_support as a number: how many values a pass over the rows takes "
                "depends on it"
            )
        most = n_rows * (n_rows + n_support + 1)  # the whole gram and the pass: no fit asks for more
        allowed = min(asked if isinstance(asked, Integral) else asked * n_rows * n_support, most)
        budget = cls(allowed - n_rows * (n_support + 1))
        least = 2 * n_support
        if budget.n_chosen_from(n_support) < min(least, n_rows):
            needed = n_rows * (n_support + 1) + math.ceil(_cost(least, n_support))
            raise ValueError(
                f"max_evaluations={asked!r} is {math.floor(allowed):,} kernel values, and {n_support} points of "
                f"{n_rows:,} rows need at least {needed:,} ({needed / n_rows / n_support:.2f} N m): give more, or "
                "fewer points or rows"
            )
        return budget

    def n_chosen_from(self, n_support: int) -> int:
        """Rows that points are chosen from, the n of the module's formula."""
        if self.n_values + _slack(n_support) < 0:
            return 0
        quadratic, linear = (1 + FRESH_SHARE**2) / 2, (1 + FRESH_SHARE) / 2 - n_support
        root = linear**2 + 4 * quadratic * self.n_values
        return int((math.sqrt(root) - linear) / (2 * quadratic)) if root >= 0 else 0

    def covers_all(self, n_rows: int, n_support: int) -> bool:
        """Whether the gram of all rows fits the budget."""
        return n_rows * (n_rows + 1) / 2 - n_rows * n_support <= self.n_values

    def plan(self, plan: SearchPlan, n_rows: int, n_support: int) -> SearchPlan:
        """The plan of a search within the budget: the whole gram of every row that is looked at."""
        if self.covers_all(n_rows, n_support):
            return replace(plan, all_evaluated=max(plan.all_evaluated, n_rows), all_evaluate=True)
        fresh = math.ceil(FRESH_SHARE * self.n_chosen_from(n_support))
        return replace(plan, all_evaluated=0, all_evaluate=True, fresh_rows=fresh, fresh_rows_of_callable=fresh)


def _cost(n: int, n_support: int) -> float:
    """Values among n rows to choose from and the rows to measure on, beyond those that the pass takes anyway."""
    fresh = FRESH_SHARE * n
    return n * (n + 1) / 2 + fresh * (fresh + 1) / 2 - n * n_support


def _slack(n_support: int) -> float:
    """The most values that the pass can take over from the search."""
    return n_support**2 / (2 * (1 + FRESH_SHARE**2))
