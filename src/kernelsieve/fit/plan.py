"""SearchPlan: the numbers that steer the search for support points, with reasons; Budget: a limit on kernel values.

None of the numbers changes what a result means: components are the best on whatever points were found, and the
variance they capture is measured.  The numbers decide how many rows are sampled, how long points are moved, and when
the search stops.  A sample carries its plan, so a test or an experiment passes another plan instead of changing the
library:

    Sample.of(..., plan=replace(PLAN, race_share=0.0))

`benchmarks/ABLATION.md` shows the effect of each number, on held-out rows and on time.  If kernel values are costly, a
`Budget` determines how many rows a fit may sample, and the plan that fits them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral


@dataclass(frozen=True)
class SearchPlan:
    """The numbers that steer the search for points."""

    # Columns in which moved points keep the values of the rows at which they start.
    frozen_columns: tuple[int, ...] = ()

    # The smallest numbers of sampled rows.  Evaluation rows measure the result, search rows guide the search.
    search_rows: int = 4000
    search_rows_per_point: int = 50
    evaluation_rows: int = 1000
    evaluation_rows_per_point: int = 4
    # A step costs m^2 per row, so each point beyond this number adds only `rows_per_further_point` search rows.
    full_price_points: int = 200
    rows_per_further_point: int = 4
    # In a data set of at most this many rows, all rows are evaluation rows.
    all_evaluated: int = 2000
    # If the sample is not the whole data and its tails are uneven, evaluation rows are drawn from a pool that has this
    # many rows for each of them.
    pool_per_evaluation_row: int = 2
    # Tails are measured by n sum (w b)^2 / (sum w b)^2 (fit/rowset.py): 1 if all rows carry the same variance, 2 if it
    # is distributed exponentially.  Above `uneven_tails`, evaluation rows are drawn by the variance they carry; above
    # `heavy_tails`, rows chosen by randomly pivoted Cholesky are one of the starts.
    uneven_tails: float = 1.6
    heavy_tails: float = 3.0
    # Rows set aside to measure the result, which neither choose nor move points.  There are fewer for a user's kernel,
    # whose values may be costly.
    fresh_rows: int = 1000
    fresh_rows_of_callable: int = 500
    # Whether all rows of the sample are evaluation rows, which also guide the search.  If kernel values are costly, the
    # whole gram of few rows is worth more than part of the gram of many.
    all_evaluate: bool = False
    # Points are chosen from at least this many rows per point.
    rows_to_choose_from: int = 2

    # Points that capture this share of exact kernel PCA's variance are neither moved further nor exchanged, because too
    # little is left to gain.
    kept_enough: float = 0.9995

    # In a race, several starts take their first steps; then the start that captures most goes on alone.
    kmeans_steps: int = 3  # steps of Lloyd's iteration that compute the k-means centres
    race_share: float = 0.15  # share of all steps that every start takes in the race
    # For more than `many_points` points, fewer steps are taken, and the race is run with a quarter of the points: which
    # start leads hardly depends on their number.
    many_points: int = 400
    raced_fraction: int = 4
    # The share `coarse_share` of the steps is taken on a part of the rows, until one gains less than coarse_gain tol^2;
    # the others are taken on all rows, until one gains less than least_gain tol^2.
    coarse_share: float = 0.7
    coarse_gain: float = 1.2
    least_gain: float = 0.1  # with the default tol that is 2.5e-6; 3e-5 ended the search of 500 points early
    coarse_rows: int = 1000
    coarse_rows_per_point: int = 10
    # On a device all steps are taken on all rows, and this share of the steps is enough.
    device_share: float = 0.75

    # The least useful points may be exchanged for rows at the end of a search.  This is tried if the points miss at
    # least `least_missed` of the last component's variance.  Components of which less than `missed` lies in the span
    # then get rows of their own, if the expected gain is at least `worth_a_try` of exact kernel PCA's variance.
    least_missed: float = 0.5
    missed: float = 0.75
    worth_a_try: float = 0.003
    exchange_share: float = 0.5  # share of the steps that move the points after the exchange
    # The rows at which a start began are compared with the moved points at the end if they capture this share of what
    # the leader captures after the race.
    close_behind: float = 0.985
    # If n^2 m is at most this number, the choice of every rule is a start, because for few rows the rules take less
    # time than moving the points.
    any_rule_work: float = 3e6
    # Points that were moved in too few directions are replaced by rows only if these capture this many times as much.
    # A smaller lead proves nothing: rows that led by 4 % on the rows they were chosen from captured 7 % less on new
    # documents.
    rows_lead: float = 1.2

    # With more than `min_features` columns, points are moved in a subspace.  Of the rows, a part e(x) may lie outside
    # it, with a mean exponent gamma |e(x)|^2 of at most `max_lost_exponent`.
    min_features: int = 128
    max_lost_exponent: float = 0.1
    # If `max_lost_exponent` exceeds `wide_kernel` times the mean gamma |x|^2 of the rows, the kernel is so wide that
    # the components are nearly those of linear PCA.  Then only `lost_of_wide` times that mean may lie outside.
    wide_kernel: float = 0.5
    lost_of_wide: float = 0.1
    # `first_directions` directions are tried first, and twice as many whenever they are too few.  If points may leave
    # the subspace at the end, `rows_per_direction` rows are used to estimate each direction.  That last step is judged
    # on `trial_rows` to 2 `trial_rows` rows.
    first_directions: int = 32
    rows_per_direction: int = 16
    trial_rows: int = 1000
    # Sparse rows are projected on at most `most_sparse_directions` directions.  Directions and moved points are dense,
    # so points are not moved if these would have more than `most_dense_values` values (256 MB).  Points are not moved
    # either if the mean exponent outside the directions exceeds `max_lost_of_sparse`, because then rows are better.
    most_sparse_directions: int = 128
    most_dense_values: int = 2**25
    max_lost_of_sparse: float = 1.0
    # At least directions_per_component * M + extra_directions directions are kept.
    directions_per_component: int = 2
    extra_directions: int = 8

    # If the kernel has no gradient, the best choice of several rules is taken.  No others are tried if the best of the
    # first few rules keeps `nearly_all_kept` of exact kernel PCA's variance; random rules may be tried `tries` times.
    # Targeted rows are swapped at most `default_swaps` times.
    nearly_all_kept: float = 0.998
    tries: int = 5
    default_swaps: int = 5

    # Some methods find their support among candidate rows.  These are all distinct rows if there are at most
    # `whole_dictionary`, otherwise `dictionary_size` rows, chosen from a sample by randomly pivoted Cholesky.
    whole_dictionary: int = 2000
    dictionary_size: int = 512
    sample_of_dictionary: int = 5000
    sample_per_candidate: int = 20

    # n_support="auto" first tries n_components + first_extra_points points, and at most `max_auto_support`.
    first_extra_points: int = 8
    max_auto_support: int = 1000
    # If `max_auto_support` points are not enough and there are at most `max_auto_exact` rows, all rows are taken.
    max_auto_exact: int = 2000
    # They are taken without a search if `hopeless` times the first number of points are expected to miss the target.
    # For sparse rows it is enough that they are expected to miss `missed_by_sparse` of what the target allows.
    hopeless: int = 4
    missed_by_sparse: float = 0.5
    # A sample of sparse rows with many columns says little about the others.  With n_support="auto", all of at most
    # this many are evaluation rows, so that the search costs about as much as exact kernel PCA.
    sparse_evaluated: int = 6000
    # The share that points miss is (1 + many_carriers/n)^few_carriers times as large on new rows as on the n effective
    # rows that they were chosen for.  This is an empirical rule, from 645 fits.
    many_carriers: float = 100.0
    few_carriers: float = 1.5
    # The missing share falls like m^-exponent for m points.  Beyond the sizes tried, `growing_exponent` is added.
    first_exponent: float = 1.5  # assumed before two sizes are known
    exponents: tuple[float, float] = (0.2, 5.0)  # estimated exponents are clipped to this range
    growing_exponent: float = 0.25
    # A search that narrowly misses the target is wasted, so sizes aim at a missing share this many times smaller.
    aim_low: float = 1.05
    max_sizes: int = 5  # at most this many sizes are tried, unless none of them meets the target
    growth: tuple[float, float] = (1.12, 3.5)  # bounds on the ratio of successive sizes, until one meets the target
    # A size is accepted when a size smaller by at most this factor misses the target, or is expected to.
    close_enough: float = 1.16
    # All rows of a small data set are taken as soon as two sizes predict that more than this many times the largest
    # size would be needed.
    far_beyond: float = 2.0
    # New rows are sampled when the number of points exceeds this many times the number that the sample was drawn for.
    grows_enough: float = 1.5

    def evaluation_rows_for(self, n_support: int) -> int:
        """Number of evaluation rows for `n_support` points."""
        return max(self.evaluation_rows, self.evaluation_rows_per_point * n_support)

    def sample_size(self, n_support: int) -> int:
        """Number of rows to sample for choosing `n_support` points."""
        further = max(n_support - self.full_price_points, 0)
        search = self.search_rows_per_point * (n_support - further) + self.rows_per_further_point * further
        return max(self.search_rows, search) + self.evaluation_rows_for(n_support)

    def rows_for_dictionary(self, n_dictionary: int | None) -> int:
        """Number of rows to sample for choosing a dictionary of `n_dictionary` rows."""
        return max(self.sample_of_dictionary, self.sample_per_candidate * (n_dictionary or self.dictionary_size))

    def fresh_pool(self, *, dear: bool) -> int:
        """Number of fresh rows drawn in addition to a sample, from which the rows to measure on are drawn."""
        return self.fresh_rows_of_callable if dear else self.pool_per_evaluation_row * self.fresh_rows

    def for_sparse(self) -> SearchPlan:
        """This plan, with all of at most `sparse_evaluated` rows as evaluation rows."""
        return replace(self, all_evaluated=self.sparse_evaluated, max_auto_exact=self.sparse_evaluated)

    def with_frozen(self, columns: tuple[int, ...], n_columns: int) -> SearchPlan:
        """This plan, for points that keep the values of rows in some of the columns."""
        if len(set(columns)) == n_columns:
            raise ValueError("frozen_columns leaves no column to move points in: give selection='targeted' for rows")
        return replace(self, frozen_columns=columns)

    def least_directions(self, n_components: int) -> int:
        """The least number of directions that the search subspace has for `n_components`."""
        return self.directions_per_component * n_components + self.extra_directions


PLAN = SearchPlan()


FRESH_SHARE = 0.5  # number of rows to measure on / number of rows to choose points from
# Without a limit from the user, a fit may compute this many values of a costly kernel in addition to those of the pass
# over all rows. It is the size of the gram of a thousand rows, each pair once. More values gain little.
DEFAULT_VALUES = 500_000
# If this share of the pass is more, it is the limit instead: fewer values would save little compared with the pass.
DEFAULT_SHARE = 0.5


@dataclass(frozen=True)
class Budget:
    """The number of kernel values that a fit may use, in addition to those of its pass over all rows.

    The pass takes N m values for m points and N for k(x, x).  The remaining values are spent on the whole gram of n
    rows, from which points are chosen, and on that of n/2 other rows, on which the points are measured:

        n (n + 1) / 2  +  n (n + 2) / 8  -  n m     (the pass need not compute the n m values of these rows again)

    The whole gram of few rows is worth more than part of the gram of many.  On DNA-like strings, for instance, targeted
    rows chosen from 500 rows keep .97 of what exact kernel PCA captures; randomly pivoted Cholesky over all rows keeps
    .94 with as many kernel values.
    """

    n_values: float

    @classmethod
    def of(cls, asked: float | str, n_rows: int, n_support: int | None, row_values: int = 0) -> Budget:
        """The budget that `max_evaluations` leaves after the pass over all rows; raise if it is too small for a fit.

        `row_values` is what each row of a block of kernel values takes in addition to its pairs.
        """
        if isinstance(asked, str):
            return cls(max(DEFAULT_VALUES, DEFAULT_SHARE * n_rows * (n_support or 0)))
        if n_support is None:
            raise ValueError(
                f"max_evaluations={asked!r} needs n_support as a number: how many values a pass over the rows takes "
                "depends on it"
            )

        def of_blocks(n: int) -> int:
            """The `row_values` of the pass, and of the blocks in which the gram of n rows is computed."""
            return row_values * (n_rows + 2 * n * math.ceil(math.log2(n + 1)))

        # The whole gram and the pass: no fit asks for more.
        most = n_rows * (n_rows + n_support + 1) + of_blocks(n_rows)
        allowed = min(asked if isinstance(asked, Integral) else asked * n_rows * n_support, most)
        budget = cls(allowed - n_rows * (n_support + 1))
        n = min(budget.n_chosen_from(n_support), n_rows)
        while row_values and n and _cost(n, n_support) + of_blocks(n) > budget.n_values:
            n -= 1
        budget = cls(budget.n_values - of_blocks(n))
        least = PLAN.rows_to_choose_from * n_support
        if budget.n_chosen_from(n_support) < min(least, n_rows):
            needed = n_rows * (n_support + 1) + math.ceil(_cost(least, n_support)) + of_blocks(least)
            raise ValueError(
                f"max_evaluations={asked!r} is {math.floor(allowed):,} kernel values, and {n_support} points of "
                f"{n_rows:,} rows need at least {needed:,} ({needed / n_rows / n_support:.2f} N m): give more, or "
                "fewer points or rows"
            )
        return budget

    def n_chosen_from(self, n_support: int) -> int:
        """Number of rows from which points are chosen: n in the formula of the class."""
        if self.n_values + _slack(n_support) < 0:
            return 0
        quadratic, linear = (1 + FRESH_SHARE**2) / 2, (1 + FRESH_SHARE) / 2 - n_support
        root = linear**2 + 4 * quadratic * self.n_values
        return int((math.sqrt(root) - linear) / (2 * quadratic)) if root >= 0 else 0

    def covers_all(self, n_rows: int, n_support: int) -> bool:
        """Whether the gram of all rows fits the budget."""
        return n_rows * (n_rows + 1) / 2 - n_rows * n_support <= self.n_values

    def plan(self, plan: SearchPlan, n_rows: int, n_support: int) -> SearchPlan:
        """`plan` changed to stay within the budget, with the whole gram of the sampled rows."""
        if self.covers_all(n_rows, n_support):
            return replace(plan, all_evaluated=max(plan.all_evaluated, n_rows), all_evaluate=True)
        fresh = math.ceil(FRESH_SHARE * self.n_chosen_from(n_support))
        return replace(plan, all_evaluated=0, all_evaluate=True, fresh_rows=fresh, fresh_rows_of_callable=fresh)


def _cost(n: int, n_support: int) -> float:
    """Kernel values needed to choose points from n rows and to measure them, in addition to those of the pass."""
    fresh = FRESH_SHARE * n
    return n * (n + 1) / 2 + fresh * (fresh + 1) / 2 - n * n_support


def _slack(n_support: int) -> float:
    """The largest number of values that the pass need not compute because the search has computed them."""
    return n_support**2 / (2 * (1 + FRESH_SHARE**2))
