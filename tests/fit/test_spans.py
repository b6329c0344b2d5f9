"""Spans, expansions and moments that outlive their points, against matrices that are written out."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from oracles import KERNELS, exact_kernel_pca, gram_of

from kernelsieve import KernelWarning, SparseKernelPCA
from kernelsieve.errors import PoorComponentsWarning
from kernelsieve.fit import expansion as expansions
from kernelsieve.fit import indefinite, problem
from kernelsieve.fit import moments as moment_sums
from kernelsieve.fit.expansion import KernelExpansion
from kernelsieve.fit.interpret import learn_ridge_map, learned_preimage
from kernelsieve.fit.moments import Moments, MomentSum
from kernelsieve.fit.problem import span_of
from kernelsieve.fit.sample import Sample
from kernelsieve.fit.span import AllRowsSpan, Points, orthonormal_in_order
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.spectrum.whitening import whiten

KERNEL = named_kernel("rbf", gamma=0.3)


def spans(cloud, new_rows, center, weighted):
    """The span of eight points and that of all rows, each with its points and the weights of the rows."""
    weights = np.random.default_rng(0).uniform(0.2, 2, 80) if weighted else None
    few = span_of(ArrayRows(cloud, weights), Points(KERNEL, new_rows[:8], None), center=center)
    everything = Points(KERNEL, cloud, np.arange(80), exhaustive=True, counts=weights)
    every = AllRowsSpan.of(everything, center)
    return [(few, new_rows[:8], weights), (every, cloud, weights)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [True, False])
def test_what_a_span_says_of_components_is_what_their_scores_are(cloud, new_rows, center, weighted):
    rng = np.random.default_rng(1)
    for span, points, weights in spans(cloud, new_rows, center, weighted):
        omega = np.full(80, 1 / 80) if weights is None else weights / weights.sum()
        gram, cross = gram_of("rbf", points, gamma=0.3), gram_of("rbf", cloud, points, gamma=0.3)
        mean = omega @ cross
        centred = cross - mean if center else cross
        second = centred.T @ (omega[:, None] * centred)
        places = np.array([1, 3, 4, 6])
        coef = rng.standard_normal((4, 3))
        inner, outer = gram[np.ix_(places, places)], second[np.ix_(places, places)]
        np.testing.assert_allclose(span.variances(coef, places), np.diagonal(coef.T @ outer @ coef), rtol=1e-8)
        # orthonormal in order, by Gram and Schmidt in the metric of the gram
        ortho = coef @ np.linalg.inv(np.linalg.cholesky(coef.T @ inner @ coef)).T
        in_order = np.diagonal(ortho.T @ outer @ ortho)
        np.testing.assert_allclose(span.variances_in_order(coef, places), in_order, rtol=1e-7)
        assert span.captured(coef, places) == pytest.approx(in_order.sum(), rel=1e-8)
        assert span.captured(np.hstack([coef, coef[:, :1]]), places) == pytest.approx(in_order.sum(), rel=1e-8)
        best = span.best_at(places, 2)
        values = np.linalg.eigvals(np.linalg.solve(inner, outer)).real
        assert span.captured(best, places) == pytest.approx(np.sort(values)[-2:].sum(), rel=1e-8)
        np.testing.assert_allclose(best.T @ inner @ best, np.eye(2), atol=1e-8)
        assert np.all(best[np.argmax(np.abs(best), axis=0), [0, 1]] > 0)
        assert span.best_at(places, 6).shape == (4, 6)
        np.testing.assert_allclose(span.best_at(places, 6)[:, 4:], 0)
        assert span.weight == pytest.approx(80 if weights is None else weights.sum())
        # what is in the span, and what is not
        total = 1 - (mean @ np.linalg.pinv(gram, rcond=1e-12) @ mean if center else 0)
        assert span.total_variance == pytest.approx(total, rel=1e-6)
        assert span.spread == pytest.approx(total, rel=1e-6)
        np.testing.assert_allclose(span.mean_cross_gram, mean, rtol=1e-7)
        np.testing.assert_allclose(span.features @ span.features.T, second * span.weight, atol=1e-7)
        model = span.expansion_at(places, best)
        rows = gram_of("rbf", cloud, points[places], gamma=0.3)
        scores = rows @ best - (mean[places] @ best if center else 0)
        np.testing.assert_allclose(model.transform(cloud), scores, atol=1e-9)
        if center:
            np.testing.assert_allclose(inner @ model.mean_coef, mean[places], rtol=1e-6)
            kept = mean[places] @ np.linalg.solve(inner, mean[places])
            assert span.mean_beyond(model) == pytest.approx(span.mean_square - kept, rel=1e-6)
        else:
            assert span.mean_beyond(model) == 0


def test_a_bound_on_what_exact_kernel_pca_captures(cloud, new_rows):
    """Captured over captured and all that lies outside the span; nothing is sure of an indefinite kernel."""
    span = spans(cloud, new_rows, True, False)[0][0]
    captured = span.best(3).variances.sum()
    outside = span.total_variance - np.trace(span.covariance)
    assert span.surely_captured(captured) == pytest.approx(captured / (captured + outside))
    exact = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3)[0].sum() / 80
    assert span.surely_captured(captured) <= captured / exact
    assert span.surely_captured(0.0) == 0
    kernel = named_kernel("sigmoid", **KERNELS["sigmoid"])
    rows = ArrayRows(cloud, None)
    assert span_of(rows, Points(kernel, new_rows[:4], None), center=True).surely_captured(0.5) == 0


def test_a_kernel_that_is_positive_on_the_points_has_no_signature(cloud, new_rows):
    kernel = named_kernel("sigmoid", gamma=0.05, coef0=0.2)
    few = span_of(ArrayRows(cloud, None), Points(kernel, new_rows[:3], None), center=True, keep_negative=True)
    assert np.linalg.eigvalsh(gram_of("sigmoid", new_rows[:3], gamma=0.05, coef0=0.2))[0] > 0
    assert few.signs is None
    many = span_of(ArrayRows(cloud, None), Points(kernel, new_rows[:9], None), center=True, keep_negative=True)
    assert set(many.signs) == {-1.0, 1.0}
    assert spans(cloud, new_rows, True, False)[0][0].signs is None


def test_dependent_components_are_nothing_in_an_orthonormal_basis():
    inside = np.random.default_rng(0).standard_normal((4, 2))
    both = np.column_stack([inside, inside @ [1.0, 2.0], np.ones(4)])
    basis = orthonormal_in_order(both)
    np.testing.assert_allclose(basis.T @ basis, np.diag([1.0, 1.0, 0.0, 1.0]), atol=1e-12)
    more = orthonormal_in_order(np.random.default_rng(1).standard_normal((2, 5)))
    assert more.shape == (2, 5)
    np.testing.assert_allclose(more.T @ more, np.diag([1.0, 1.0, 0, 0, 0]), atol=1e-12)


# Indefinite kernels


@pytest.mark.parametrize("center", [True, False])
def test_the_positive_variance_of_an_indefinite_kernel(cloud, center):
    weights = np.random.default_rng(0).uniform(0.1, 1, 80)
    params = {"gamma": 0.5, "coef0": -0.5}
    rows = sample_rows(cloud, 100, np.random.default_rng(0), weights, merge=True)
    seen = Sample.of(rows, named_kernel("sigmoid", **params), 2, center=center).evaluation
    omega = seen.unit_weights
    gram = gram_of("sigmoid", np.asarray(seen.given), **params)
    centring = np.eye(80) - (np.ones((80, 1)) @ omega[None] if center else 0)
    values = np.linalg.eigvalsh(np.sqrt(omega)[:, None] * (centring @ gram @ centring.T) * np.sqrt(omega))
    assert values[0] < -1e-3
    assert indefinite.positive_variance(seen) == pytest.approx(values[values > 0].sum(), rel=1e-8)
    variances = seen.exact.variances
    assert indefinite.agreement(variances, seen) == pytest.approx(1)
    assert indefinite.agreement(variances * 1.1, seen) == pytest.approx(0.9)
    assert indefinite.agreement(variances[:1], seen) == pytest.approx(variances[0] / variances.sum())
    assert indefinite.is_indefinite(named_kernel("sigmoid", **params), gram)
    assert not indefinite.is_indefinite(KERNEL, gram)


# Expansions


def test_float64_is_needed_where_coefficients_are_large():
    """Half a unit in float32's last place, times the length of a feature and of the coefficients, against 1e-4."""
    points, limit = np.array([[0.0], [2.0]]), 1e-4 / 2**-24
    for factor, needed in ((0.999, False), (1.001, True)):
        coef = np.array([[0.6, 0.0], [0.8, 0.1]]) * factor * limit
        assert KernelExpansion(KERNEL, points, coef, np.zeros(2)).in_float64 is needed
        half = KernelExpansion(named_kernel("linear"), np.array([[2.0], [2.0]]), coef / 2, np.zeros(2))
        assert half.in_float64 is needed
    assert not KernelExpansion(KERNEL, points, np.zeros((2, 2)), np.zeros(2)).in_float64
    assert KernelExpansion(KERNEL, points, np.full((2, 2), 1e300), np.zeros(2)).in_float64


def test_scores_of_float32_rows_keep_their_digits_and_their_type(cloud):
    coef = np.random.default_rng(0).standard_normal((6, 2)) * 1e5
    model = KernelExpansion(KERNEL, cloud[:6], coef, np.array([1.0, -1.0]))
    rows = cloud[10:20].astype(np.float32)
    truth = gram_of("rbf", rows.astype(float), cloud[:6], gamma=0.3) @ coef - [1.0, -1.0]
    found = model.transform(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, truth, rtol=1e-6, atol=1e-2)


def test_the_bound_kernel_is_kept_for_few_rows_and_points(cloud, monkeypatch):
    for n_rows, kept in ((128, True), (129, False)):
        model = KernelExpansion(KERNEL, cloud[:6], np.ones((6, 1)), np.zeros(1))
        model.transform(np.tile(cloud, (2, 1))[:n_rows])
        assert bool(model._bound) is kept
    for limit, kept in ((30, True), (29, False)):
        monkeypatch.setattr(expansions, "MAX_BOUND", limit)
        model = KernelExpansion(KERNEL, cloud[:6], np.ones((6, 1)), np.zeros(1))
        model.transform(cloud)
        assert bool(model._bound) is kept


def test_a_file_whose_kernel_gives_no_numbers_is_damaged(cloud):
    fine = KernelExpansion(KERNEL, cloud[:3], np.ones((3, 1)), np.zeros(1))
    fine.check_loaded(ValueError)
    for kernel in (named_kernel("poly", gamma=1.0, degree=400, coef0=1.0), named_kernel("poly", gamma=1.0, degree=3)):
        points = cloud[:3] * (1.0 if kernel.degree == 400 else 1e80)
        with pytest.raises(ValueError, match="no numbers for its own points"):
            KernelExpansion(kernel, points * 10, np.ones((3, 1)), np.zeros(1)).check_loaded(ValueError)
    precomputed = SparseKernelPCA(2, kernel="precomputed", selection=[0, 1, 2]).fit(gram_of("rbf", cloud, gamma=0.3))
    precomputed.expansion_.check_loaded(ValueError)


def test_the_map_back_is_a_ridge_regression(cloud):
    """Weighted normal equations over (1, z, k(z, Z_S)), all but the constant penalised, solved by numpy."""
    kernel = named_kernel("poly", gamma=0.4, degree=3, coef0=1.0)
    model = KernelExpansion(
        kernel, cloud[:6], np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0], np.zeros(2)
    )
    weights = np.random.default_rng(1).uniform(0.5, 2, 80)
    found = learn_ridge_map(model, cloud, weights)
    scores, centers = (gram_of("poly", rows, cloud[:6], **KERNELS["poly"]) @ model.coef for rows in (cloud, cloud[:6]))
    gamma = 1 / (2 * scores.var(axis=0).sum())
    features = np.hstack([np.ones((80, 1)), scores, gram_of("rbf", scores, centers, gamma=gamma)])
    normal = features.T @ (weights[:, None] * features)
    ridge = 1e-3 * np.trace(normal) / len(normal) * np.diag([0.0] + [1.0] * 8)
    coef = np.linalg.solve(normal + ridge, features.T @ (weights[:, None] * cloud))
    assert found.gamma == pytest.approx(gamma)
    np.testing.assert_allclose(found(scores), features @ coef, rtol=1e-4, atol=1e-6)


def test_a_map_back_is_learned_where_it_is_needed_and_not_too_large(cloud, monkeypatch):
    def learned(kernel):
        return learned_preimage(KernelExpansion(kernel, cloud[:6], np.ones((6, 1)), np.zeros(1)), cloud, None)

    poly = named_kernel("poly", gamma=0.4)
    assert learned(KERNEL) is None
    monkeypatch.setattr("kernelsieve.fit.interpret.MAX_INVERSE_MAP", 30)
    assert learned(poly) is not None
    monkeypatch.setattr("kernelsieve.fit.interpret.MAX_INVERSE_MAP", 29)
    assert learned(poly) is None


# Moments that outlive their points


def moments(points, X, weights=None):
    whitening = whiten(gram_of("rbf", points, gamma=0.3)).matrix
    return MomentSum(KERNEL, points, whitening).over(X, weights, 1)


def test_moments_go_to_other_points_of_the_same_span(cloud, new_rows):
    """Old and new points span the same: what the kept rows miss is restored to the last digit."""
    old, new = new_rows[:6], new_rows[:6][::-1]
    everything, before, now = moments(old, cloud), moments(old, cloud[:20]), moments(new, cloud[:20])
    basis = moment_sums.overlap(KERNEL, (new, now.whitening), (old, before.whitening))
    found, truth = moment_sums.transferred(everything, before, now, basis), moments(new, cloud)
    np.testing.assert_allclose(found.mean, truth.mean, atol=1e-8)
    np.testing.assert_allclose(found.scatter, truth.scatter, atol=1e-6)
    assert (found.weight, found.trace) == (80, pytest.approx(80))


def test_moments_that_are_transferred_have_no_negative_variance():
    whitening = np.eye(2)
    kept = Moments(whitening, 4.0, np.zeros(2), 4 * np.diag([1.0, 2.0]), 8.0)
    all_rows = Moments(whitening, 10.0, np.zeros(2), 10 * np.diag([3.0, 0.5]), 40.0)
    now = Moments(whitening, 4.0, np.zeros(2), 4 * np.diag([1.0, 1.0]), 8.0)
    found = moment_sums.transferred(all_rows, kept, now, np.eye(2))
    np.testing.assert_allclose(found.covariance(True), np.diag([3.0, 0.0]), atol=1e-12)


def test_what_rows_weigh_by_their_age():
    np.testing.assert_allclose(moment_sums.ages(3, 0.5), np.exp([-1.0, -0.5, 0.0]))
    assert moment_sums.ages(3, 0.0) is None
    weights = np.array([1.0, 2.0, 4.0])
    assert moment_sums.faded(10.0, weights, 0.0) == 17
    assert moment_sums.faded(10.0, weights, 0.5) == pytest.approx(10 * math.exp(-1.5) + weights @ np.exp([-1, -0.5, 0]))
    found = moment_sums.weighing(Moments(np.eye(1), 4.0, np.ones(1), np.full((1, 1), 2.0), 8.0), 2.0)
    assert (found.weight, found.scatter[0, 0], found.trace, found.mean[0]) == (2.0, 1.0, 4.0, 1.0)


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_time_to_choose_again_when_new_rows_weigh_half(rate, weighted):
    """One row after the other, by the definition."""
    weights = np.random.default_rng(0).uniform(0.5, 2, 300) if weighted else np.ones(300)
    since, weight, due = 3.0, 60.0, None
    for place, one in enumerate(weights):
        weight = weight * math.exp(-rate) + one
        since += one
        if since >= weight / 2:
            due = place + 1
            break
    assert moment_sums.rows_until_choice(3.0, 60.0, weights, rate) == due
    assert moment_sums.rows_until_choice(0.0, 1e9, weights[:2], rate) is None


def test_the_angle_between_subspaces():
    for angle in (0.0, 1e-9, 0.3, 1.5):
        now = np.array([[1.0, 0.0], [0.0, math.cos(angle)], [0.0, math.sin(angle)]])
        assert moment_sums.turned(np.eye(3)[:, :2], now) == pytest.approx(angle, rel=1e-6, abs=1e-15)


# Warnings


@pytest.mark.parametrize(("ratio", "warned"), [(99.0, False), (101.0, True)])
def test_wild_scales_are_told_by_the_lower_quartile(ratio, warned, recwarn):
    signs = np.resize([-1.0, 1.0], (1000, 1))
    rows = signs * [1.0, 2.0, 3.0, ratio, 0.0]
    rows[500:, 3] *= 1e6  # of many rows the first are looked at
    problem.warn_about_scales(rows)
    assert len(recwarn) == warned
    problem.warn_about_scales(rows[:, 3:])  # one column that varies
    problem.warn_about_scales(scipy.sparse.csr_matrix(rows))  # whose columns are words, say, and in one unit
    problem.warn_about_scales(rows[:, :1])
    assert len(recwarn) == warned


@pytest.mark.parametrize(
    ("explained", "spread", "seen", "kind", "words"),
    [
        (0.5, 0.9e-3, 1.0, KernelWarning, "nearly constant"),
        (0.049, 0.5, 1.0, PoorComponentsWarning, "like no other"),
        (0.051, 0.5, 2.01, PoorComponentsWarning, "2.0 times as much"),
        (0.051, 1.1e-3, 1.99, None, ""),
    ],
)
def test_what_is_said_of_a_kernel(explained, spread, seen, kind, words, recwarn):
    problem.warn_about_kernel(explained, explained, spread, (seen, 1.0), problem.GammaAdvice(0.5, True))
    assert [type(one.message) for one in recwarn] == ([] if kind is None else [kind])
    if kind is not None:
        text = str(recwarn[0].message)
        assert words in text
        assert f"{'larger' if spread < 1e-3 else 'smaller'} gamma than 0.5, or gamma='median'" in text


@pytest.mark.parametrize(("n_half", "compared"), [(49, False), (50, True)])
def test_halves_are_compared_where_they_are_large_enough(n_half, compared):
    rows = SimpleNamespace(
        n_components=2,
        size=100,
        is_all=True,
        share_of_own=0.16,
        halves=[SimpleNamespace(places=np.arange(n_half))],
        captured_across=(3.0, 1.0),
    )
    assert problem.split_captured(rows) == ((3.0, 1.0) if compared else (1.0, 1.0))
    rows.n_components = 6
    assert problem.split_captured(rows) == (1.0, 1.0)
    rows.n_components, rows.share_of_own = 2, 0.14
    assert problem.split_captured(rows) == (1.0, 1.0)
    rows.share_of_own, rows.captured_across = 0.16, (0.0, 1.0)
    assert problem.split_captured(rows) == (1.0, 1.0)


def test_what_components_owe_to_the_row_itself_is_lost_when_it_is_left_out(cloud):
    """About as much: the share is of first order."""

    def share(X, gamma):
        rows = sample_rows(X, 100, np.random.default_rng(0), None, merge=True)
        return Sample.of(rows, named_kernel("rbf", gamma=gamma), 3, center=True).evaluation.share_of_own

    gram, own, other = gram_of("rbf", cloud, gamma=0.3), 0.0, 0.0
    for i in range(len(cloud)):
        others = np.delete(np.arange(len(cloud)), i)
        _, components, offset = exact_kernel_pca(gram[np.ix_(others, others)], 3)
        other += ((gram[i, others] @ components - offset) ** 2).sum()
    own = exact_kernel_pca(gram, 3)[0].sum()
    assert share(cloud, 0.3) == pytest.approx(1 - other / own, rel=0.3)
    assert share(cloud, 1e4) > 0.9


def test_rows_that_products_cannot_tell_apart_are_said_to_be_too_far_out(cloud):
    def said(X, kernel):
        rows = sample_rows(X, 100, np.random.default_rng(0), None, merge=True)
        return problem.nothing_to_explain(Sample.of(rows, kernel, 1, center=True).evaluation)

    poly = named_kernel("poly", gamma=1.0)
    assert said(cloud + 1e6, poly) == problem.LOST_IN_LENGTH
    assert said(cloud + 10, poly) == problem.NOTHING_TO_EXPLAIN
    assert said(cloud + 1e6, KERNEL) == problem.NOTHING_TO_EXPLAIN


def test_all_rows_with_other_weights(cloud):
    counts = np.random.default_rng(0).uniform(0.5, 2, 80)
    span = AllRowsSpan(KERNEL, cloud, np.arange(80), True, None)
    found, truth = span.reweighted(counts), AllRowsSpan(KERNEL, cloud, np.arange(80), True, counts)
    np.testing.assert_allclose(found.covariance, truth.covariance, rtol=1e-12)
    values = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3, weights=counts)[0] / counts.sum()
    np.testing.assert_allclose(found.best(3).variances, values, rtol=1e-8)
