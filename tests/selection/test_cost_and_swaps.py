"""What a choice of rows costs in kernel values, and swaps that better it."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import gram_of
from selection_cases import Counter, schur

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import RBF, CallableKernel, Hamming, named_kernel
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.rules import targeted
from kernelsieve.rules.base import KernelGram
from kernelsieve.rules.distances import far_rows
from kernelsieve.rules.residual import SampledGain, randomly_pivoted_cholesky
from kernelsieve.solvers.greedy import StoredGram, best_for_targets, eliminate, greedy, swap, worst_explained


@pytest.mark.parametrize("rule", ["residual", "targeted", "rpcholesky", "dissimilar", "candidates", "swaps"])
def test_a_row_chosen_costs_one_kernel_column(rule):
    n, m = 3000, 40
    X, counter = np.random.default_rng(0).standard_normal((n, 4)), Counter()
    gram = KernelGram(CallableKernel(counter), X)
    allowed = n * m
    if rule == "residual":
        greedy(gram.column, gram.diagonal, m, worst_explained)
    elif rule in ("targeted", "swaps"):
        targets = np.random.default_rng(1).standard_normal((n, 3))
        state = eliminate(gram.column, gram.diagonal, m, best_for_targets, targets=targets)
        if rule == "swaps":
            allowed += n * swap(state, gram.column, 7)
            assert allowed == n * (m + 7)
    elif rule == "rpcholesky":
        rounds = len(randomly_pivoted_cholesky(gram, m, np.random.default_rng(0)).chosen)
        assert rounds == m
        assert counter.count <= allowed + 5 * 128**2  # and the proposals among each other
        return
    elif rule == "dissimilar":
        far_rows(gram.column, gram.diagonal, np.ones(n), m, np.add)
        allowed -= n  # what the last row chosen is far from does not matter
    else:
        greedy(gram.column, gram.diagonal, m, SampledGain(gram, 59, np.random.default_rng(0)))
        allowed += 59 * n * m
    assert counter.count == allowed


def test_columns_of_a_gram_are_scikit_learns(cloud):
    gram, chosen = gram_of("rbf", cloud, gamma=0.3), np.array([5, 2, 2, 70])
    for view in (StoredGram(gram), KernelGram(CallableKernel(Counter()), cloud, 2)):
        np.testing.assert_allclose(view.columns(chosen), gram[:, chosen], atol=1e-12)
        np.testing.assert_allclose(view.among(chosen), gram[np.ix_(chosen, chosen)], atol=1e-12)
        np.testing.assert_allclose(view.column(3), gram[:, 3], atol=1e-12)
        np.testing.assert_allclose(view.diagonal, 1)


# Swaps


def explained_targets(gram, targets, chosen):
    """|projection of the targets on the span of the chosen rows|^2."""
    return np.sum(targets[chosen] * np.linalg.solve(gram[np.ix_(chosen, chosen)], targets[chosen]))


def test_each_swap_is_the_best_of_all_pairs():
    rng = np.random.default_rng(5)
    gram = gram_of("rbf", rng.standard_normal((25, 2)), gamma=0.8)
    targets = gram @ rng.standard_normal((25, 3))
    state = eliminate(lambda j: gram[:, j], np.diagonal(gram), 6, lambda s, e: int(e[0]), targets=targets)
    n_swaps = 0
    while True:
        before = list(state.chosen)
        best = max(
            explained_targets(gram, targets, [*(i for i in before if i != out), new])
            for out in before
            for new in set(range(25)) - set(before)
        )
        now = explained_targets(gram, targets, before)
        if not swap(state, lambda j: gram[:, j], 1):
            break
        n_swaps += 1
        assert explained_targets(gram, targets, state.chosen) == pytest.approx(best, rel=1e-8)
    assert best <= now * (1 + 1e-8)
    assert n_swaps >= 3
    left = schur(gram, state.chosen)
    others = np.setdiff1d(np.arange(25), state.chosen)
    np.testing.assert_allclose(state.diagonal[others], np.diagonal(left)[others], atol=1e-9)


def test_swaps_capture_more(digits):
    train, _ = digits
    plain, swapped = (SparseKernelPCA(10, n_support=20, selection="targeted", n_swaps=n).fit(train) for n in (0, 100))
    assert swapped.eigenvalues_.sum() > plain.eigenvalues_.sum() * 1.005
    assert 1 <= swapped.selection_report_["swaps"] <= 100
    assert len(set(swapped.support_)) == 20


def test_swaps_may_be_asked_for_where_points_turn_out_to_be_rows(cloud):
    """The kernel decides whether the default moves points, which ignores swaps, or chooses rows."""
    model = SparseKernelPCA(2, n_support=8, n_swaps=2, kernel=Hamming(width=1.0), random_state=0).fit(np.round(cloud))
    assert model.support_ is not None
    for options in ({"kernel": RBF()}, {"kernel": Hamming(width=1.0), "selection": "uniform"}):
        with pytest.raises(ValueError, match="n_swaps=2 means nothing"):
            SparseKernelPCA(2, n_support=8, n_swaps=2, **options).fit(np.round(cloud))


@pytest.mark.parametrize(("n_rows", "n_swaps"), [(1, 10), (22, 10), (23, 9), (70, 1), (71, 0)])
def test_swaps_after_targeted_rows_are_as_many_as_cost_little(n_rows, n_swaps, monkeypatch):
    """O(n m^2) each: at most ten, and their number times the square of the number of rows is at most 4,900."""
    asked = []
    monkeypatch.setattr(targeted, "swap", lambda state, column, n: asked.append(n))
    X = np.random.default_rng(0).standard_normal((90, 6))
    sample = Sample.of(
        sample_rows(X, 90, np.random.default_rng(0), None, merge=True), named_kernel("rbf", gamma=0.5), 2, center=True
    )
    assert len(targeted.targeted_rows(sample.evaluation, n_rows)) == n_rows
    assert asked == [n_swaps]
