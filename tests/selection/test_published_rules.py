"""Choosing rows: every rule against brute force or its paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import KERNELS, exact_kernel_pca, gram_of
from scipy.linalg import lapack
from scipy.stats import chisquare
from selection_cases import GREEDY_RULES, ROW_RULES, schur

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.rules import targeted
from kernelsieve.rules.base import KernelGram
from kernelsieve.rules.distances import central_of_gram, central_row, dissimilar_nodes
from kernelsieve.rules.registry import UNSWAPPED, rows_by_each_rule
from kernelsieve.rules.residual import LargestGain, SampledGain
from kernelsieve.solvers.greedy import StoredGram, best_for_targets, greedy, worst_explained


def targeted_by_brute_force(gram, n_components, n_rows):
    """METHODS section 3 on the explicit residual kernel: targets T = K U, U the eigenvectors of the centred gram
    (times sqrt(lambda), so that T is what the components' scores are made of), pivot argmax |T_i|^2 / R_ii."""
    values, components, _ = exact_kernel_pca(gram, n_components)
    residual, targets, chosen = gram.copy(), gram @ components * np.sqrt(values / len(gram)), []
    for _ in range(n_rows):
        diagonal = np.diagonal(residual).copy()
        score = np.where(diagonal > 1e-9, np.sum(targets**2, axis=1) / np.where(diagonal > 1e-9, diagonal, 1), -1)
        score[chosen] = -1
        i = int(np.argmax(score))
        targets = targets - np.outer(residual[:, i], targets[i]) / residual[i, i]
        residual = residual - np.outer(residual[:, i], residual[i]) / residual[i, i]
        chosen.append(i)
    return chosen


# Targeted rows


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "cosine", "linear"])
def test_targeted_picks_are_those_of_brute_force(name, cloud):
    n_rows = 4 if name in ("linear", "cosine") else 10  # the last of five directions is a tie between all rows
    options = {"kernel": name, "selection": "targeted", "n_support": n_rows, **KERNELS[name]}
    model = SparseKernelPCA(3, **options).fit(cloud)
    truth = targeted_by_brute_force(gram_of(name, cloud, **KERNELS[name]), 3, n_rows)
    np.testing.assert_array_equal(model.support_, truth)


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_targeted_picks_in_blocks_are_those_of_brute_force_in_any_unit(unit, cloud, monkeypatch):
    """All rows are candidates, so a block holds what would be chosen one by one."""
    monkeypatch.setattr(targeted, "ONE_BY_ONE", 2)
    gram = unit * gram_of("rbf", cloud, **KERNELS["rbf"])
    values, components, _ = exact_kernel_pca(gram, 3)
    found = targeted.targeted_choice(StoredGram(gram), gram @ components * np.sqrt(values / len(gram)), 10).chosen
    assert found == targeted_by_brute_force(gram, 3, 10)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_targeted_picks_on_any_rows(seed):
    X = np.random.default_rng(seed).standard_normal((40, 3))
    gram = gram_of("rbf", X, gamma=0.5)
    values, components, _ = exact_kernel_pca(gram, 2)
    targets = gram @ components * np.sqrt(values / len(gram))
    picks = greedy(lambda j: gram[:, j], np.diagonal(gram), 8, best_for_targets, targets=targets)
    np.testing.assert_array_equal(picks, targeted_by_brute_force(gram, 2, 8))


# Published rules, against what their papers say, word for word


def largest_of(score, n_rows, n_chosen, first=()):
    """Row by row, the row of largest score(chosen, i)."""
    chosen = list(first)
    while len(chosen) < n_chosen:
        chosen.append(max((i for i in range(n_rows) if i not in chosen), key=lambda i: score(chosen, i)))
    return chosen


def published_picks(rule, gram, X, n_chosen, first):
    n = len(gram)
    distances = np.diagonal(gram)[:, None] + np.diagonal(gram) - 2 * gram
    nearest = [int(np.argmin(np.linalg.norm(X - X.mean(axis=0), axis=1)))]
    if rule == "gain":
        return largest_of(lambda S, i: -np.trace(schur(gram, [*S, i])), n, n_chosen)
    if rule == "improved":  # all eigenvalues of (K_SS + 0.001 I)^-1 K_SN K_NS
        return largest_of(lambda S, i: np.trace(gram - schur(gram, [*S, i], 1e-3)), n, n_chosen)
    if rule == "skfa":
        return largest_of(lambda S, i: np.sum(schur(gram, S)[:, i] ** 2), n, n_chosen)
    if rule == "residual":
        return largest_of(lambda S, i: schur(gram, S)[i, i], n, n_chosen, first)
    if rule == "dissimilar":
        return largest_of(lambda S, i: distances[i, S].sum(), n, n_chosen, nearest)
    return largest_of(lambda S, i: distances[i, S].min(), n, n_chosen, nearest)


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
@pytest.mark.parametrize("rule", ["gain", "improved", "skfa", "residual", "dissimilar", "farthest"])
def test_published_rules_pick_what_their_papers_say(rule, name, cloud):
    X = cloud[:40]
    model = SparseKernelPCA(2, kernel=name, n_support=10, selection=rule, **KERNELS[name]).fit(X)
    gram = gram_of(name, X, **KERNELS[name])
    first = model.support_[:1] if np.ptp(np.diagonal(gram)) == 0 else ()  # all rows are equally long: any may be first
    truth = published_picks(rule, gram, X, 10, first)
    np.testing.assert_array_equal(model.support_, truth)


def test_rules_that_start_a_search_pick_what_they_pick_alone(cloud):
    sample = Sample.of(
        sample_rows(cloud[:40], 40, np.random.default_rng(0), None, merge=True),
        named_kernel("poly", **KERNELS["poly"]),
        3,
        center=True,
    )
    X = cloud[sample.rows.indices]
    gram = gram_of("poly", X, **KERNELS["poly"])
    found = rows_by_each_rule(sample, 8, np.random.default_rng(0))
    np.testing.assert_array_equal(found[UNSWAPPED], targeted_by_brute_force(gram, 3, 8))
    for rule in ("gain", "residual", "dissimilar", "farthest"):
        np.testing.assert_array_equal(found[rule], published_picks(rule, gram, X, 8, ()), err_msg=rule)
    for rows in found.values():
        assert len(set(rows.tolist())) == len(rows) <= 8


@pytest.mark.parametrize("weighted", [False, True])
def test_the_central_row_is_the_nearest_to_the_mean_however_rows_are_given(weighted):
    """By brute force, on rows whose lengths alone, or distances to the origin, would give another."""
    rng = np.random.default_rng(0)
    for seed in range(5):
        X = np.random.default_rng(seed).random((40, 6)) * (rng.random((40, 6)) < 0.6) + 0.5 * (np.arange(6) < 2)
        weights = rng.integers(0, 4, 40).astype(float) if weighted else None
        counts = np.ones(40) if weights is None else weights
        away = np.sum((X - counts @ X / counts.sum()) ** 2, axis=1)
        truth = int(np.argmin(np.where(counts > 0, away, np.inf)))
        assert central_row(X, weights) == truth
        assert central_row(scipy.sparse.csr_matrix(X), weights) == truth
        assert central_of_gram(X @ X.T, weights) == truth


@pytest.mark.parametrize("name", ["rbf", "poly"])
@pytest.mark.parametrize("mean", [True, False], ids=["mean", "row"])
def test_dissimilar_nodes_of_sparse_rows_are_those_of_dense_ones(mean, name, cloud):
    """With the mean of the rows as the first node, or the row nearest to it: sums of distances by brute force."""
    X = np.where(cloud[:40] > 0.2, cloud[:40], 0)
    kernel = named_kernel(name, **KERNELS[name])
    dense, sparse = (
        dissimilar_nodes(KernelGram(kernel, given), 6, None, mean=mean) for given in (X, scipy.sparse.csr_matrix(X))
    )
    np.testing.assert_allclose(sparse.points.toarray(), dense.points)
    nodes = X[dense.indices] if dense.indices is not None else dense.points
    first = X.mean(axis=0) if mean else X[central_row(X, None)]
    np.testing.assert_allclose(nodes[0], first)
    own = np.diagonal(gram_of(name, X, **KERNELS[name]))
    for k in range(1, 6):
        others = np.diagonal(gram_of(name, nodes[:k], **KERNELS[name]))
        far = (own[:, None] + others - 2 * gram_of(name, X, nodes[:k], **KERNELS[name])).sum(axis=1)
        far[[np.flatnonzero((node == X).all(axis=1))[0] for node in nodes[(1 if mean else 0) : k]]] = 0
        assert far[np.flatnonzero((nodes[k] == X).all(axis=1))[0]] == pytest.approx(far.max())


@pytest.mark.parametrize("rule", ["gain", "improved", "skfa"])
def test_norms_followed_over_many_steps_are_those_of_the_residual(rule):
    """Squared norms that fall by twenty orders keep enough digits to choose by; weights count as repeated rows."""
    rng = np.random.default_rng(2)
    X, weights = rng.standard_normal((60, 2)), rng.integers(1, 4, 60).astype(float)
    gram, ridge = gram_of("rbf", X, gamma=0.02), 1e-3 if rule == "improved" else 0.0
    score = LargestGain(gram, weights, ridge, rule != "skfa")
    picks = greedy(lambda j: gram[:, j], np.diagonal(gram), 24, score, ridge=ridge)
    left = gram.copy()
    for m, i in enumerate(picks):
        diagonal = np.diagonal(left)
        others = np.setdiff1d(np.flatnonzero(diagonal > 1e-11), picks[:m])
        scores = (weights @ left**2)[others] / (1 if rule == "skfa" else diagonal[others] + ridge)
        assert scores[others == i][0] > (1 - 1e-3) * scores.max()
        left = left - np.outer(left[:, i], left[i]) / (left[i, i] + ridge)


def test_residual_is_lapacks_pivoted_cholesky(digits):
    gram = gram_of("rbf", digits[0][:400], gamma=0.05)
    _, pivots, rank, _ = lapack.dpstrf(gram, lower=1, tol=1e-9)
    picks = greedy(lambda j: gram[:, j], np.diagonal(gram), 150, worst_explained)
    np.testing.assert_array_equal(picks, pivots[:150] - 1)
    factor = np.random.default_rng(0).standard_normal((200, 30))
    _, pivots, rank, _ = lapack.dpstrf(factor @ factor.T, lower=1)
    low_rank = factor @ factor.T
    picks = greedy(lambda j: low_rank[:, j], np.diagonal(low_rank), 200, worst_explained)
    assert len(picks) == rank == 30
    np.testing.assert_array_equal(picks, pivots[:30] - 1)


@pytest.mark.parametrize("share", [0.3, 0.1, 1e-3])
@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
def test_residual_ends_where_franc_and_hlavac_end(share, center, cloud):
    """Their algorithm by brute force: points until max_i k(x_i, x_i) - k_i' K_SS^-1 k_i <= eps."""
    gram, chosen = gram_of("poly", cloud, **KERNELS["poly"]), []
    left = np.diagonal(gram)
    eps = share * left.max()
    while left.max() > eps:
        chosen.append(int(left.argmax()))
        left = np.diagonal(gram - gram[:, chosen] @ np.linalg.solve(gram[np.ix_(chosen, chosen)], gram[chosen]))
    options = {"kernel": "poly", "selection": "residual", "max_residual": eps, "center": center, **KERNELS["poly"]}
    model = SparseKernelPCA(2, **options).fit(cloud)
    np.testing.assert_array_equal(model.support_, chosen)
    assert model.selection_report_["largest_residual"] == pytest.approx(left.max(), rel=1e-6)
    fewer = SparseKernelPCA(2, n_support=4, **options).fit(cloud)
    np.testing.assert_array_equal(fewer.support_, chosen[:4])
    more = SparseKernelPCA(2, n_support=len(cloud), **options).fit(cloud)
    np.testing.assert_array_equal(more.support_, chosen)


def test_a_residual_that_few_points_or_no_number_of_them_reaches_is_named(cloud, digits, monkeypatch):
    with pytest.raises(ValueError, match=r"max_residual=0.999\d* is reached by .* points, at least 6 are needed"):
        SparseKernelPCA(5, gamma=1e-4, selection="residual", max_residual=0.999).fit(cloud)
    monkeypatch.setattr(SparseKernelPCA, "_plan", replace(PLAN, max_auto_support=30))
    with pytest.warns(UserWarning, match="max_residual=1e-06 was not reached by 30 points"):
        model = SparseKernelPCA(2, selection="residual", max_residual=1e-6).fit(digits[0])
    assert model.n_support_ == 30


@pytest.mark.parametrize("alias", ["sgma", "matching-pursuit", "akfa"])
def test_three_published_names_of_one_rule(alias, cloud):
    supports = [SparseKernelPCA(3, n_support=12, selection=name).fit(cloud).support_ for name in ("gain", alias)]
    np.testing.assert_array_equal(*supports)
    assert SparseKernelPCA(3, n_support=12, selection=alias).fit(cloud).selection_report_["rule"] == "gain"


@pytest.mark.parametrize("rule", ["gain", "improved", "skfa"])
def test_all_rows_as_candidates_are_the_rule_itself(rule, cloud):
    options = {"n_support": 10, "selection": rule, "gamma": 0.3}
    whole, sampled = (SparseKernelPCA(2, n_candidates=n, **options).fit(cloud).support_ for n in (None, 80))
    np.testing.assert_array_equal(sampled, whole)


def test_a_few_candidates_are_drawn_evenly_and_the_best_of_them_taken(cloud):
    """One candidate: any row alike.  Two: a row comes first with the probability that the other has a smaller gain."""
    gram, rng, n = gram_of("rbf", cloud[:8], gamma=0.3), np.random.default_rng(0), 4000
    ranks = np.argsort(np.argsort(np.sum(gram**2, axis=0)))
    for n_candidates, expected in ((1, np.full(8, 1 / 8)), (2, 2 * ranks / (8 * 7))):
        rule = SampledGain(StoredGram(gram), n_candidates, rng)
        first = [greedy(lambda j: gram[:, j], np.diagonal(gram), 1, rule)[0] for _ in range(n)]
        counts = np.bincount(first, minlength=8)
        possible = expected > 0
        assert counts[~possible].sum() == 0
        assert chisquare(counts[possible], n * expected[possible]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection": "targeted", "n_candidates": 59}, "n_candidates=59 means nothing to selection='targeted'"),
        ({"selection": "gain", "n_swaps": 3}, "n_swaps=3 means nothing to selection='gain': it is for 'targeted'"),
        ({"n_swaps": 3}, "n_swaps=3 means nothing to selection='optimized'"),
        ({"max_residual": 0.1}, "max_residual=0.1 means nothing to selection='optimized': it is for 'residual'"),
        ({"selection": np.arange(9), "n_candidates": 5}, "n_candidates=5 means nothing to selection='given'"),
    ],
)
def test_options_of_another_rule_are_refused(options, message, cloud):
    with pytest.raises(ValueError, match=message):
        SparseKernelPCA(2, n_support=9, **options).fit(cloud)


@pytest.mark.parametrize("rule", [rule for rule in ROW_RULES if rule != "uniform"])
@pytest.mark.parametrize("precomputed", [False, True], ids=["rows", "precomputed"])
def test_copies_are_chosen_once(rule, precomputed, cloud):
    """Thirty different rows, each three times: no rule takes two copies, and none finds more than thirty."""
    X = np.repeat(cloud[:30], 3, axis=0)[np.random.default_rng(0).permutation(90)]
    options = {"n_support": 30, "selection": rule, "random_state": 0}
    if precomputed:
        model = SparseKernelPCA(2, kernel="precomputed", **options).fit(gram_of("rbf", X, gamma=0.3))
    else:
        model = SparseKernelPCA(2, gamma=0.3, **options).fit(X)
    n_different = len(np.unique(X[model.support_], axis=0))
    assert n_different == model.n_support_ == 30 or (rule == "leverage" and precomputed)


@pytest.mark.parametrize("rule", ROW_RULES)
def test_ties_are_broken_somehow(rule):
    """The corners of a cube are all alike: any will do, but eight of them, and the same on every run."""
    X = np.array(list(np.ndindex(2, 2, 2)), dtype=float)
    supports = [
        SparseKernelPCA(2, n_support=6, selection=rule, gamma=0.5, random_state=3).fit(X).support_ for _ in range(2)
    ]
    assert len(set(supports[0])) == 6
    np.testing.assert_array_equal(*supports)


@pytest.mark.parametrize("rule", [rule for rule in GREEDY_RULES if rule != "improved"])
def test_what_is_unexplained_is_the_schur_complements_trace(rule, cloud):
    gram = gram_of("rbf", cloud, gamma=0.3)
    model = SparseKernelPCA(2, n_support=15, selection=rule, gamma=0.3, random_state=0).fit(cloud)
    left = model.selection_report_["unexplained"]
    truth = [np.trace(schur(gram, model.support_[: m + 1])) / 80 for m in range(15)]
    np.testing.assert_allclose(left, truth, atol=1e-10)
    assert np.all(np.diff(left) < 0)


def test_rules_on_a_sample_choose_what_they_choose_on_all(digits):
    """With more rows than are looked at, norms count the reference rows, and the choice loses little by it."""
    train = digits[0]
    ratios = [
        SparseKernelPCA(5, n_support=20, gamma=0.05, selection="gain", n_optimization_samples=n, random_state=0)
        .fit(train)
        .eigenvalues_.sum()
        for n in (600, len(train))
    ]
    assert ratios[0] > 0.97 * ratios[1]
