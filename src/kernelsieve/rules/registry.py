"""Selection rules by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse

from ..arrays import as_float64, like
from ..fit.sample import Sample
from ..kernels import Kernel
from ..solvers.greedy import Residual, Rule, StoredGram, best_for_targets, eliminate, greedy, swap, worst_explained
from .base import Selection, Selector, gram_of_sample, select_rows
from .distances import Combine, as_rows_in, kmeans_centers, spread_rows
from .residual import LargestGain, SampledGain, draw_without_replacement, randomly_pivoted_cholesky
from .targeted import targeted_choice

KMEANS_SELECTION_STEPS = 20
IMPROVED_RIDGE = 1e-3  # the published ridge of improved KPCA
UNSWAPPED = "unswapped"  # the name of the targeted rule without swaps; "targeted" is the rule with swaps


def uniform(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """Rows at random: the Nystroem method's choice.

    The sample is already in random order, unless the evaluation rows were drawn by the variance that they carry.
    """
    places = np.arange(sample.size) if sample.drawn is None else rng.permutation(sample.size)
    return select_rows(sample, places[:n_support], nested=True)


def targeted(sample: Sample, n_support: int, rng: np.random.Generator, *, n_swaps: int = 0) -> Selection:
    """Rows that best explain the targets, argmax |T_i|^2 / R_ii each, followed by up to `n_swaps` swaps.

    Under an indefinite kernel residuals may become negative, which ends the choice early.  If the whole gram is known,
    rows are then chosen by its positive part.
    """
    count, column = min(n_support, sample.size), sample.column
    state = targeted_choice(gram_of_sample(sample), sample.all_targets, count, sample.indefiniteness)
    if len(state.chosen) < count and sample.indefiniteness and sample.n_evaluation == sample.size:
        gram = StoredGram(sample.evaluation.positive_gram, sample.n_threads)
        state, column = targeted_choice(gram, sample.all_targets, count), gram.column
    swapped = swap(state, column, n_swaps) if n_swaps else 0
    return _selected(state, n_support, sample, rng, nested=not swapped, swaps=swapped)


def residual(
    sample: Sample, n_support: int, rng: np.random.Generator, *, max_residual: float | None = None
) -> Selection:
    """Rows that are worst explained by those before, argmax R_ii each: Franc & Hlavac's greedy kernel PCA.

    Their stopping rule, max R_ii <= `max_residual`, may end the choice before there are `n_support` rows.
    """
    count, noise = min(n_support, sample.size), sample.indefiniteness
    if max_residual is not None:
        noise = max(noise, max_residual / float(sample.diagonal.max()))
    state = eliminate(sample.column, sample.diagonal, count, worst_explained, noise=noise)
    if max_residual is None:
        return _selected(state, n_support, sample, rng)
    left = {"unexplained": [float(u) for u in state.unexplained], "largest_residual": float(state.diagonal.max())}
    return select_rows(sample, np.asarray(state.chosen), nested=True, by_evaluation=True, history=left)


def rpcholesky(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """Rows drawn with probability proportional to their residuals (Chen et al. 2024), in blocks."""
    state = randomly_pivoted_cholesky(
        gram_of_sample(sample),
        min(n_support, sample.size),
        rng,
        weights=sample.rows.weights,
        noise=sample.indefiniteness,
    )
    return _selected(state, n_support, sample, rng)


def gain(
    sample: Sample,
    n_support: int,
    rng: np.random.Generator,
    *,
    n_candidates: int | None = None,
    ridge: float = 0.0,
    divided: bool = True,
) -> Selection:
    """Rows that lower the residual trace most, argmax |R_.i|^2 / (R_ii + ridge), among all rows or random candidates.

    If all rows are candidates, the norm |R_.i| runs over the evaluation rows, which are all rows of a small data set.
    Without `divided`, the score is |R_.i|^2 alone.
    """
    rule: Rule
    weights = sample.rows.weights
    if n_candidates is None:
        counted = sample.evaluation.weights
        columns = gram_of_sample(sample).columns(np.arange(sample.n_evaluation))
        rule = LargestGain(as_float64(columns), counted, ridge, divided)
    else:
        rule = SampledGain(gram_of_sample(sample), n_candidates, rng, weights, ridge, divided)
    count = min(n_support, sample.size)
    state = eliminate(sample.column, sample.diagonal, count, rule, noise=sample.indefiniteness, ridge=ridge)
    return _selected(state, n_support, sample, rng)


def spread(sample: Sample, n_support: int, rng: np.random.Generator, *, combine: Combine) -> Selection:
    """First the row nearest to the mean, then rows that are far from those before them."""
    chosen = spread_rows(sample, min(n_support, sample.size), combine)
    return select_rows(sample, chosen, nested=True, by_evaluation=True)


def leverage(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """Rows drawn without replacement by their ridge leverage scores (Alaoui & Mahoney 2015)."""
    drawn = draw_without_replacement(sample.ridge_leverage, rng)
    return select_rows(sample, drawn[:n_support], nested=True, by_evaluation=True)


def kmeans(sample: Sample, n_support: int, rng: np.random.Generator) -> Selection:
    """k-means centres, which are points and not rows; sparse rows are made dense for it."""
    if sample.kernel.rows_only:
        raise ValueError(
            f"selection='kmeans' gives points that are not rows, for which a kernel of {_rows_of(sample.kernel)} has "
            "no values: give 'targeted', 'rpcholesky' or 'uniform'"
        )
    values = sample.rows.values
    values = as_float64(values.toarray() if scipy.sparse.issparse(values) else values)
    count, weights = min(n_support, sample.size), sample.rows.weights
    weights = None if weights is None else like(weights, values)
    centers = kmeans_centers(values, count, KMEANS_SELECTION_STEPS, rng, weights, sample.n_threads)
    return Selection(sample.kernel, as_rows_in(centers, values, sample.held_columns), None)


def _rows_of(kernel: Kernel) -> str:
    return "precomputed values" if kernel.precomputed else "objects"


def _selected(
    state: Residual, n_support: int, sample: Sample, rng: np.random.Generator, *, nested: bool = True, swaps: int = 0
) -> Selection:
    """The selection of a greedy loop; if the loop ended early because of an indefinite kernel, filled up at random."""
    chosen, count = np.asarray(state.chosen, dtype=np.intp), min(n_support, sample.size)
    if len(chosen) < count and sample.indefiniteness:
        others = np.setdiff1d(np.arange(sample.size), chosen)
        chosen = np.concatenate([chosen, rng.permutation(others)[: count - len(chosen)]])
    history: dict[str, Any] = {"swaps": swaps} if swaps else {"unexplained": [float(u) for u in state.unexplained]}
    return select_rows(sample, chosen, nested=nested, by_evaluation=True, history=history)


def rows_by_each_rule(sample: Sample, n_rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """For each rule, the places of the rows that it chooses in a sample that consists of evaluation rows only."""
    choose = partial(greedy, sample.column, sample.diagonal, n_rows, noise=sample.evaluation.rounding)
    drawn = randomly_pivoted_cholesky(gram_of_sample(sample), n_rows, rng, weights=sample.rows.weights)
    return {
        UNSWAPPED: choose(best_for_targets, targets=sample.all_targets),
        "gain": choose(LargestGain(as_float64(sample.evaluation.gram_on_host), sample.evaluation.weights)),
        "residual": choose(worst_explained),
        "rpcholesky": np.asarray(drawn.chosen, dtype=np.intp),
        "farthest": spread_rows(sample, n_rows, np.minimum),
        "dissimilar": spread_rows(sample, n_rows, np.add),
    }


# Every rule takes (sample, n_support, rng); some also take options, which `selector` passes on.
SELECTORS: dict[str, Callable[..., Selection]] = {
    "targeted": targeted,
    "gain": gain,
    "improved": partial(gain, ridge=IMPROVED_RIDGE),
    "skfa": partial(gain, divided=False),
    "residual": residual,
    "rpcholesky": rpcholesky,
    "leverage": leverage,
    "dissimilar": partial(spread, combine=np.add),
    "farthest": partial(spread, combine=np.minimum),
    "kmeans": kmeans,
    "uniform": uniform,
}

# Several publications describe the same rule under different names.
ALIASES = {"sgma": "gain", "matching-pursuit": "gain", "akfa": "gain"}
SELECTORS |= {alias: SELECTORS[name] for alias, name in ALIASES.items()}

# Parameters of `SparseKernelPCA` that are passed to the rules that accept them; the default means "not given".
RULE_OPTIONS: dict[str, Any] = {"max_residual": None, "n_candidates": None, "n_swaps": 0}


def takers(option: str) -> list[str]:
    """The names of the rules that accept an option."""
    return [name for name, rule in SELECTORS.items() if option in signature(rule).parameters]


def selector(name: str, **options: Any) -> Selector:
    """The named rule with the options that are given."""
    return partial(SELECTORS[name], **{key: value for key, value in options.items() if value != RULE_OPTIONS[key]})
