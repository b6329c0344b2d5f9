"""SearchPlan: every number that steers the search for support points, each with its reason; Budget: of kernel values.

None of the numbers changes what a result means: components are the best on whatever points were found, and the
variance they capture is measured.  They decide how many rows are looked at, how long points are moved, and when the
search stops.  A sample carries its plan, so a test or an experiment passes another plan instead of changing the
library:

    Sample.of(..., plan=replace(PLAN, race_share=0.0))

`benchmarks/ABLATION.md` shows the effect of each number, on held-out rows and on time.  If kernel values are costly, a
`Budget` says how many rows a fit may look at, and gives the plan for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral


@dataclass(frozen=True)
class SearchPlan:
    """How points are looked for."""

    # Columns in which points keep the values of the rows that they start from.
    frozen_columns: tuple[int, ...] = ()

    # Rows to look at.  The first rows of a sample measure the result, the others guide the search.
    search_rows: int = 4000
    search_rows_per_point: int = 50
    evaluation_rows: int = 1000
    evaluation_rows_per_point: int = 4
    # A step costs m^2 a row: above this number of points, each further point reduces the number of rows.
    full_price_points: int = 200
    rows_per_further_point: int = 4
    # A data set of at most this many rows is evaluated on all of them.
    all_evaluated: int = 2000
    # Each evaluation row is drawn from this many, if the sample is not all the data and its tails are uneven.
    pool_per_evaluation_row: int = 2
    # Tails are n sum (w b)^2 / (sum w b)^2 (fit/rowset.py): 1 where all rows carry the same, 2 for an exponential
    # distribution.  At `uneven_tails` and above, evaluation rows are drawn by the variance they carry; at `heavy_tails`
    # and above, randomly pivoted Cholesky is one of the starts.
    uneven_tails: float = 1.6
    heavy_tails: float = 3.0
    # Rows that neither choose nor move points, kept to measure the result on; fewer for a user's kernel, whose values
    # may be costly.
    fresh_rows: int = 1000
    fresh_rows_of_callable: int = 500
    # Every row of the sample is an evaluation row, and none only guides the search: if kernel values are costly, the
    # whole gram of few rows is worth more than part of the gram of many.
    all_evaluate: bool = False
    # Points are chosen from at least this many rows for each point.
    rows_to_choose_from: int = 2

    # Points that capture this share of exact kernel PCA's variance are neither moved further nor exchanged: too little
    # is left to gain.
    kept_enough: float = 0.9995

    # The race of the starts.
    kmeans_steps: int = 3  # steps of Lloyd's iteration before the centres start
    race_share: float = 0.15  # share of the steps that every start takes
    # Beyond this many points fewer steps are taken, and a race with every fourth point decides which start runs: which
    # one leads hardly depends on the number of points.
    many_points: int = 400
    raced_fraction: int = 4
    # Most steps are taken on a part of the rows, the last on all, until one gains less than least_gain tol^2.
    coarse_share: float = 0.7
    least_gain: float = 1.2  # 3e-5 with the default tol
    coarse_rows: int = 1000
    coarse_rows_per_point: int = 10
    # On a device all steps are taken on all rows, and this share of them is enough.
    device_share: float = 0.75

    # Idle points are exchanged at the end of a search.  Each component is examined only if the points miss at least
    # this share of the last component's variance.  Components of which less than `missed` lies in the span get rows of
    # their own, if that promises `worth_a_try` of exact kernel PCA's variance.
    least_missed: float = 0.5
    missed: float = 0.75
    worth_a_try: float = 0.003
    exchange_share: float = 0.5  # share of the steps that move the points after the exchange
    # Unmoved rows are compared at the end if they capture this share of the variance of moved points.
    close_behind: float = 0.985
    # For few rows, n^2 m up to this number, the choice of every rule is a start: rules choose faster than points move.
    any_rule_work: float = 3e6
    # Rows replace points that were moved in too few directions only if they capture this many times as much: on the
    # rows that they were chosen from, rows led by 4 % that kept 7 % less of new documents.
    rows_lead: float = 1.2

    # The subspace in which points are moved, for more columns than `min_features`: the mean exponent gamma |e(x)|^2
    # that may lie outside it.
    min_features: int = 128
    max_lost_exponent: float = 0.1
    # If the kernel is so wide that this exponent exceeds half of the rows' mean squared length, the components are
    # nearly those of the rows themselves: then a tenth of that length may be left outside.
    wide_kernel: float = 0.5
    lost_of_wide: float = 0.1
    # Directions tried first, twice as many if they are too few, and the rows that estimate each of them if points may
    # leave the subspace at the end.  At least `trial_rows` rows (at most twice as many) judge that last step.
    first_directions: int = 32
    rows_per_direction: int = 16
    trial_rows: int = 1000
    # Sparse rows are projected on at most this many directions.  Directions and moved points are dense: with more
    # values than this (256 MB), points are not moved.  Nor are they if the directions leave a larger mean exponent
    # outside, because rows are better points then.
    most_sparse_directions: int = 128
    most_dense_values: int = 2**25
    max_lost_of_sparse: float = 1.0
    # At least this many directions are kept: directions_per_component * M + extra_directions.
    directions_per_component: int = 2
    extra_directions: int = 8

    # Points that cannot be moved are the best of several rules' choices.  If the first few rules keep this share, no
    # others are tried; those that draw at random are tried several times.  Targeted rows are swapped this often.
    nearly_all_kept: float = 0.998
    tries: int = 5
    default_swaps: int = 5

    # Candidates of methods that find their support among some rows: all distinct rows if there are at most
    # `whole_dictionary`, otherwise `dictionary_size` of them, chosen from a sample by randomly pivoted Cholesky.
    whole_dictionary: int = 2000
    dictionary_size: int = 512
    sample_of_dictionary: int = 5000
    sample_per_candidate: int = 20

    # How many points: "auto" begins at n_components + first_extra_points and stops at the largest number.
    first_extra_points: int = 8
    max_auto_support: int = 1000
    # If there are at most `max_auto_exact` rows and fewer points will not do, all rows are taken.
    max_auto_exact: int = 2000
    # Empirical: points lose (1 + seen_rows/n)^few_carriers times as much variance on new rows as on the n effective
    # rows that they were chosen for (645 fits of the frontier).
    seen_rows: float = 100.0
    few_carriers: float = 1.5
    # The missing share falls like m^-exponent, and a little faster beyond the sizes tried.
    first_exponent: float = 1.5  # assumed before two sizes are known
    exponents: tuple[float, float] = (0.2, 5.0)  # range of exponents that are believed
    growing_exponent: float = 0.25
    # A size that narrowly misses the target is a wasted search: aim at a missing share this many times smaller.
    aim_low: float = 1.05
    max_sizes: int = 5  # at most this many are tried, unless none of them is enough
    growth: tuple[float, float] = (1.12, 3.5)  # least and most, from one size to the next, while none is enough
    # A number is found when one smaller by this factor fails, or is expected to.
    close_enough: float = 1.16
    # All rows of a small data set are taken as soon as two sizes predict that this many times as many would not do.
    far_beyond: float = 2.0
    # A search keeps its rows until the points are this many times the number that the rows were drawn for.
    grows_enough: float = 1.5

    def evaluation_rows_for(self, n_support: int) -> int:
        """Number of evaluation rows for `n_support` points."""
        return max(self.evaluation_rows, self.evaluation_rows_per_point * n_support)

    def sample_size(self, n_support: int) -> int:
        """Rows to look at when choosing `n_support` points."""
        further = max(n_support - self.full_price_points, 0)
        search = self.search_rows_per_point * (n_support - further) + self.rows_per_further_point * further
        return max(self.search_rows, search) + self.evaluation_rows_for(n_support)

    def rows_for_dictionary(self, n_dictionary: int | None) -> int:
        """Rows that a dictionary of `n_dictionary` rows is chosen from."""
        return max(self.sample_of_dictionary, self.sample_per_candidate * (n_dictionary or self.dictionary_size))

    def fresh_pool(self, *, dear: bool) -> int:
        """Number of rows drawn beside a sample; those that results are measured on are drawn from them."""
        return self.fresh_rows_of_callable if dear else self.pool_per_evaluation_row * self.fresh_rows

    def with_frozen(self, columns: tuple[int, ...], n_columns: int) -> SearchPlan:
        """This plan with points that keep their values in some of the columns."""
        if len(set(columns)) == n_columns:
            raise ValueError("frozen_columns leaves no column to move points in: give selection='targeted' for rows")
        return replace(self, frozen_columns=columns)

    def least_directions(self, n_components: int) -> int:
        """The least number of directions in the search subspace for `n_components`."""
        return self.directions_per_component * n_components + self.extra_directions


PLAN = SearchPlan()


FRESH_SHARE = 0.5  # rows to measure on, for each row that points are chosen from
# Without a limit from the user, a costly kernel may take this many values beyond the pass: the gram of a thousand
# rows. Fewer would save little compared with the pass over many rows, and more gain little.
DEFAULT_VALUES = 500_000
DEFAULT_SHARE = 0.5  # or this share of the pass


@dataclass(frozen=True)
class Budget:
    """The number of kernel values that a fit may use, beyond those of its pass over all rows.

    The pass takes N m values for m points and N for k(x, x).  What is left is spent on the whole gram of n rows, from
    which points are chosen, and on that of n/2 other rows, on which they are measured:

        n (n + 1) / 2  +  n (n + 2) / 8  -  n m     (the pass need not compute the n m values of these rows again)

    The whole gram of few rows is worth more than part of the gram of many: with the same number of values, targeted
    rows of 500 keep .97 of what exact kernel PCA captures on DNA-like strings, and randomly pivoted Cholesky over all
    rows .94.
    """

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
        least = PLAN.rows_to_choose_from * n_support
        if budget.n_chosen_from(n_support) < min(least, n_rows):
            needed = n_rows * (n_support + 1) + math.ceil(_cost(least, n_support))
            raise ValueError(
                f"max_evaluations={asked!r} is {math.floor(allowed):,} kernel values, and {n_support} points of "
                f"{n_rows:,} rows need at least {needed:,} ({needed / n_rows / n_support:.2f} N m): give more, or "
                "fewer points or rows"
            )
        return budget

    def n_chosen_from(self, n_support: int) -> int:
        """Rows that points are chosen from, the n of the formula above."""
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
