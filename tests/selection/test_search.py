"""The search for moved points does what its plan says: how many steps, on which rows, from where, and when it ends."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from oracles import KERNELS, captured_by, exact_kernel_pca, gram_of

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.problem import Problem
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.rules.base import Selection
from kernelsieve.search import chooser, moved, subspace
from kernelsieve.search import chooser as choosing
from kernelsieve.search.chooser import Chooser, Effort, everything
from kernelsieve.search.moved import NO_ROWS, Candidate, FreePoints
from kernelsieve.search.subspace import coordinates, movable


def sample_of(X, kernel=None, weights=None, n_components=3, **plan):
    rows = sample_rows(X, 10**6, np.random.default_rng(0), weights, merge=True)
    kernel = kernel or named_kernel("rbf", gamma=0.3)
    return Sample.of(rows, kernel, n_components, center=True, plan=replace(PLAN, **plan))


def search_on(X, max_iter=40, gamma=0.3, weights=None, **plan):
    sample = sample_of(X, named_kernel("rbf", gamma=gamma), weights, **plan)
    return FreePoints(sample, coordinates(sample), max_iter, 0.0, np.random.default_rng(0))


def rows_of(n_rows, heavy=False):
    rng = np.random.default_rng(1)
    return rng.standard_t(2, (n_rows, 3)) * 3 if heavy else rng.uniform(-1, 1, (n_rows, 3))


def candidate(search, points, **fields):
    found = Candidate(points, search.objective.captured(points), None, 0, True, {}, "start", NO_ROWS)
    return replace(found, **fields)


@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_judged_by_what_they_capture_of_rows_as_often_as_they_count(weighted, cloud):
    counts = np.arange(len(cloud)) % 3 + 1 if weighted else np.ones(len(cloud), dtype=int)
    search = search_on(cloud, weights=counts.astype(float) if weighted else None)
    points = cloud[:5] + 0.1
    cross = np.repeat(gram_of("rbf", cloud, points, gamma=0.3), counts, axis=0)
    truth = captured_by(gram_of("rbf", points, gamma=0.3), cross, 3)
    inside = search.coordinates.inside(points)
    assert search.objective.captured(inside) == pytest.approx(truth)
    assert search._evaluation.captured(inside) == pytest.approx(truth)


def test_more_points_are_chosen_from_more_rows_where_there_are_more():
    """The sample of a part of the data grows with the points; what is large enough stays, with all that is known."""
    X = rows_of(600)

    def problem_of(size):
        rows = ArrayRows(X)
        plan = replace(PLAN, search_rows=50, evaluation_rows=40, search_rows_per_point=10, evaluation_rows_per_point=5)
        plan = replace(plan, all_evaluated=1)
        sampled = rows.sample(size, np.random.default_rng(0)).split(size, plan.all_evaluated)
        sample = Sample.of(sampled, named_kernel("rbf", gamma=0.3), 3, center=True, plan=plan, n_evaluation=40)
        return Problem(rows, sample, 0.3, np.random.default_rng(0))

    part, whole = problem_of(100), problem_of(600)
    assert whole.sample.rows.whole
    for problem in (part, whole):
        assert problem.for_points(4) is problem.for_points(6) is problem  # six need 100 rows
    assert whole.for_points(8) is whole
    assert whole.for_points(30).sample.rows is whole.sample.rows  # of which more measure the result
    assert whole.for_points(30).sample.n_evaluation == 150
    grown = part.for_points(10).sample
    assert (grown.size, grown.n_evaluation, grown.rows.whole) == (150, 50, False)
    assert part.for_points(4, 200).sample.size == 200
    assert part.for_points(500).sample.rows.whole


# How long


def test_many_points_take_fewer_steps_by_the_square_and_two_at_least(cloud):
    search = search_on(cloud, max_iter=40)
    assert [search.n_steps(m) for m in (5, 400, 800, 40_000)] == [40, 40, 10, 2]


def test_on_a_device_a_share_of_the_steps_is_enough(cloud, monkeypatch):
    monkeypatch.setattr(moved, "is_accelerated", lambda rows: True)
    search = search_on(cloud, max_iter=40)
    assert search.n_steps(5) == 30
    assert search._coarse(5) == (search.objective, 0)


def test_early_steps_are_taken_on_the_last_rows_where_there_are_twice_as_many():
    search = search_on(rows_of(1000), coarse_rows=500, coarse_rows_per_point=10)
    coarse, n_steps = search._coarse(50)
    assert n_steps == round(0.7 * 40)
    np.testing.assert_array_equal(coarse.rows, search.objective.rows[-500:])
    assert search._coarse(51) == (search.objective, 0)  # 510 rows are more than half of them


def test_early_steps_on_heavy_rows_see_each_by_what_it_carries():
    search = search_on(rows_of(1000, heavy=True), gamma=1e-5, coarse_rows=300)
    coarse, n_steps = search._coarse(5)
    assert n_steps == 28
    assert coarse.weights.sum() == pytest.approx(1)
    assert 280 <= coarse.n_rows <= 320
    seen = {row.tobytes() for row in coarse.rows}
    assert seen <= {row.tobytes() for row in search.objective.rows}
    heaviest = search.objective.rows[np.argmax(np.sum(search.objective.rows**2, axis=1))]
    assert heaviest.tobytes() in seen
    # sums over them stand for those over all rows
    everywhere, drawn = (np.sum(o.rows**2, axis=1) for o in (search.objective, coarse))
    light = everywhere < np.quantile(everywhere, 0.9)
    truth = everywhere[light].sum() / len(everywhere)
    assert coarse.weights @ np.where(drawn < np.quantile(everywhere, 0.9), drawn, 0) == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("slack", [1.01, 0.99])
def test_a_search_has_converged_when_its_last_quarter_gains_less_than_tol(cloud, slack):
    search = search_on(cloud, max_iter=8)
    by_hand = search.start(search.objective, cloud[:4]).run(4, 1e-8)
    before = by_hand.value
    gained = (by_hand.run(2, 1e-8).value - before) / by_hand.value
    search = replace(search, tol=slack * gained)
    runner, converged = search.finish(search.start(search.objective, cloud[:4]), 6)
    assert runner.value == by_hand.value
    assert converged is (slack > 1)


@pytest.mark.parametrize("n_steps", [0, 1])
def test_one_step_on_all_rows_is_taken_in_any_case(cloud, n_steps):
    search = search_on(cloud, max_iter=1)
    runner, converged = search.finish(search.start(search.objective, cloud[:4]), n_steps)
    assert runner.n_steps == 1
    assert not converged


# From where


def test_heavy_tails_add_a_start(cloud):
    assert set(search_on(cloud)._race(6).starts) == {"kmeans", "targeted"}
    assert set(search_on(rows_of(600, heavy=True), gamma=1e-5)._race(6).starts) == {"kmeans", "targeted", "rpcholesky"}


def test_points_that_keep_enough_are_moved_no_further(cloud):
    exact = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3)[0].sum() / len(cloud)
    best, start = search_on(cloud)._raced(5), search_on(cloud, kept_enough=0.0)._raced(5)
    assert start.n_steps == 0
    enough = (start.captured + best.captured) / 2
    found = search_on(cloud, kept_enough=enough / exact)._raced(5)
    assert enough <= found.captured < best.captured
    assert found.n_steps < best.n_steps


def test_of_many_points_a_race_of_every_fourth_decides_which_start_runs(cloud, monkeypatch):
    search = search_on(cloud, max_iter=6, many_points=20)
    races, race = [], search._race
    monkeypatch.setitem(vars(search), "_race", lambda *given: races.append((given, race(*given))) or races[-1][1])
    search._raced(24)
    (few, first), (all_points, second) = races
    assert few == (6,)
    assert all_points[:2] == (24, first.leader)
    assert set(second.starts) == {first.leader}
    races.clear()
    search._raced(20)
    assert [given[:2] for given, _ in races] == [(20, None)]


def test_rows_are_filled_up_with_others(cloud):
    search = search_on(cloud)
    given = np.array([5, 3])
    found = search.filled_up(given, 10)
    assert len(set(found)) == 10
    np.testing.assert_array_equal(found[:2], given)
    np.testing.assert_array_equal(search.filled_up(given, 2), given)


def test_rows_stay_where_moving_them_gains_nothing(cloud, monkeypatch):
    search = search_on(cloud)
    plain = candidate(search, cloud[:5], rows=np.arange(5), n_steps=3)
    better = search.from_rows(plain, "gain")
    assert better.winner == "gain"
    assert better.rows is None
    assert better.captured > plain.captured
    assert better.n_steps > 3
    monkeypatch.setitem(vars(search), "finish", lambda runner, n_steps: (runner, True))  # no step at all
    same = search.from_rows(replace(plain, captured=search.start(search.objective, cloud[:5]).value), "gain")
    assert same.winner == "rows"
    assert same.rows is plain.rows


def test_rows_are_given_up_once_their_last_step_repeated_would_not_get_there(cloud):
    search = search_on(cloud)
    plain = candidate(search, cloud[:5], rows=np.arange(5), n_steps=0)
    whole = search.from_rows(plain, "gain")
    within_reach = search.from_rows(plain, "gain", 0.99 * whole.captured)
    np.testing.assert_array_equal(within_reach.points, whole.points)
    assert within_reach.n_steps == whole.n_steps
    out_of_reach = search.from_rows(plain, "gain", 2 * whole.captured)
    assert 0 < out_of_reach.n_steps < whole.n_steps
    assert plain.captured < out_of_reach.captured < whole.captured


# A second look


def test_a_second_look_is_for_points_that_miss_something(cloud, monkeypatch):
    search = search_on(cloud)
    exact = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3)[0].sum() / len(cloud)
    at = candidate(search, cloud[:5])
    monkeypatch.setitem(vars(search), "_bettered", lambda found, missed: "second")
    for share, looked in ((0.9994, True), (0.9996, False)):
        monkeypatch.setitem(vars(search), "_raced", lambda n, share=share: replace(at, captured=share * exact))
        assert (search.search(5) == "second") is looked


@pytest.mark.parametrize(("missed", "asked"), [(0.51, True), (0.49, False)])
def test_components_are_asked_for_one_by_one_where_half_of_the_last_is_missing(cloud, monkeypatch, missed, asked):
    search = search_on(cloud)
    variances = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3)[0] / len(cloud)
    found = candidate(search, cloud[:5], captured=variances.sum() - missed * variances[-1])
    monkeypatch.setattr(moved, "exchanged", lambda search, found: replace(found, winner="asked"))
    assert (search._bettered(found, missed * variances[-1]).winner == "asked") is asked


def test_the_use_of_a_point_is_what_the_components_lose_without_it(cloud, new_rows):
    """The squared distance of each component from the span of the others, times its variance, by least squares."""
    search = search_on(cloud)
    points = new_rows[:6]
    values, useful = search.usefulness(search.coordinates.inside(points))
    gram, cross = gram_of("rbf", points, gamma=0.3), gram_of("rbf", cloud, points, gamma=0.3)
    centred = cross - cross.mean(axis=0)
    inverse_root = np.linalg.inv(np.linalg.cholesky(gram))
    found, vectors = np.linalg.eigh(inverse_root @ (centred.T @ centred / len(cloud)) @ inverse_root.T)
    coef = (inverse_root.T @ vectors[:, ::-1])[:, :3]
    np.testing.assert_allclose(values, found[::-1][:3], rtol=1e-7)
    for i in range(6):
        others = np.delete(np.arange(6), i)
        inside = np.linalg.solve(gram[np.ix_(others, others)], gram[others] @ coef)
        distance = np.sum(coef * (gram @ coef), axis=0) - np.sum(inside * (gram[others] @ coef), axis=0)
        assert useful[i] == pytest.approx(distance @ values, rel=1e-5)


def test_shares_of_components_are_lengths_of_projections(cloud, new_rows):
    search = search_on(cloud)
    points = search.coordinates.inside(new_rows[:6])
    _, components, _ = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3)
    images = gram_of("rbf", new_rows[:6], cloud, gamma=0.3) @ components
    inside = np.sum(images * np.linalg.solve(gram_of("rbf", new_rows[:6], gamma=0.3), images), axis=0)
    np.testing.assert_allclose(moved._shares_of_components(search, points), inside, rtol=1e-6)
    np.testing.assert_allclose(moved._shares_of_components(search, search.coordinates.rows), 1, rtol=1e-5)


def test_an_exchange_that_promises_little_is_not_made(cloud):
    """The promise is what exact components have that points miss, less what the idlest points are good for."""
    search = search_on(cloud, missed=1.1)
    found = candidate(search, search.coordinates.inside(cloud[:6]))
    share = moved._shares_of_components(search, found.points)
    exact = search.sample.evaluation.exact
    values, useful = search.usefulness(found.points)
    promise = np.sum(exact.variances - np.maximum(share * exact.variances, values[-1])) - np.sort(useful)[:3].sum()
    for slack, made in ((0.99, True), (1.01, False)):
        tried = search_on(cloud, missed=1.1, worth_a_try=slack * promise / exact.captured)
        assert ("exchanged" in moved.exchanged(tried, found).starts) is made
    assert moved.exchanged(search_on(cloud, missed=0.0, worth_a_try=0.0), found) is found


@pytest.mark.parametrize(("work", "asked"), [(80**2 * 5, True), (80**2 * 5 - 1, False)])
def test_every_rule_is_asked_where_rows_are_few(cloud, monkeypatch, work, asked):
    search = search_on(cloud, any_rule_work=work)
    monkeypatch.setattr(moved, "from_any_rule", lambda search, found: replace(found, winner="asked"))
    assert (search._bettered(candidate(search, cloud[:5]), 0.0).winner == "asked") is asked


@pytest.mark.parametrize(("share", "moved_on"), [(0.91, True), (0.89, False)])
def test_rows_of_a_rule_are_moved_where_they_are_close_behind_moved_points(cloud, monkeypatch, share, moved_on):
    search = search_on(cloud, max_iter=3, close_behind=0.9)
    found = candidate(search, search.rows_at(np.arange(5)))
    rows = {"one": np.arange(20, 25), "other": np.arange(7, 12)}
    monkeypatch.setattr(moved, "rows_by_each_rule", lambda *_: rows)
    values = {name: search.captured(search.objective, search.rows_at(places)) for name, places in rows.items()}
    leader = max(values, key=values.get)
    found = replace(found, captured=values[leader] / share)
    better = moved.from_any_rule(search, found)
    assert (better is not found) is moved_on
    if moved_on:
        assert better.captured == max(found.captured, better.starts[leader])
        assert values[leader] < better.starts[leader]
        assert search.captured(search.objective, better.points) == pytest.approx(better.starts[leader])


# Other sizes


def test_fewer_points_start_from_the_most_useful_ones(cloud, monkeypatch):
    search = search_on(cloud, max_iter=3)
    points = search.coordinates.inside(cloud[:8])
    useful = search.usefulness(points)[1]
    begun, start = [], search.start
    monkeypatch.setitem(vars(search), "start", lambda o, points: begun.append(points) or start(o, points))
    found = search.resize(candidate(search, points, seeds=np.array([2])), 5)
    np.testing.assert_array_equal(begun[0], points[np.sort(np.argsort(-useful)[:5])])
    assert found.winner == "resized"
    assert found.starts["resized"] == found.captured
    np.testing.assert_array_equal(found.seeds, [2])
    more = search.resize(candidate(search, points), 11)
    np.testing.assert_array_equal(begun[-1][:8], points)
    assert more.n_support == 11
    assert len(more.seeds) == 3


def test_rows_are_drawn_anew_only_when_points_have_grown_enough(cloud):
    chooser, asked = chooser_on(cloud, max_iter=2), []
    chooser_type = type(chooser)

    class Recording(chooser_type):
        def _problem_for(self, problem, n_support):
            asked.append(n_support)
            return super()._problem_for(problem, n_support)

    at = Recording(chooser.problem, chooser.effort, "optimized")._free_sizes(chooser.problem)
    sizes = [at(m).selection.n_support for m in (10, 15, 16, 9)]
    assert sizes == [10, 15, 16, 9]
    assert asked == [10, 16]


# From the request to points


def chooser_on(X, rule="optimized", max_iter=10, n_components=3, kernel=None, weights=None):
    sample = sample_of(X, kernel, weights, n_components)
    problem = Problem(ArrayRows(X, weights), sample, 0.3, np.random.default_rng(0))
    return Chooser(problem, Effort(None, max_iter, 1e-3), rule)


def test_points_that_lack_components_give_way_to_rows_that_have_them(cloud):
    chooser = chooser_on(cloud)
    alike = Selection(chooser.problem.kernel, cloud[[0, 0, 0, 0, 0, 0]], None, {"winner": "alike"})
    choice = chooser._measured(chooser.problem, alike)
    assert choice.selection.history["winner"] == "rows"
    assert choice.selection.n_support == 6
    assert choice.ratio.n_real == 3
    assert not choice.selection.by_evaluation
    assert len(np.unique(choice.selection.points, axis=0)) == 6


def test_points_that_lack_components_stay_where_rows_have_no_more():
    """Two kinds of rows, centred: one direction, whatever is chosen."""
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 30, axis=0)
    chooser = chooser_on(X, n_components=2)
    given = Selection(chooser.problem.kernel, X[[0, 40]] + 0.1, None, {"winner": "given"})
    choice = chooser._measured(chooser.problem, given)
    assert choice.selection.history["winner"] == "given"


def test_the_target_rises_where_few_rows_carry_the_variance(cloud, monkeypatch):
    sample = sample_of(cloud)
    for n_rows, missing in ((100.0, 0.1 * 0.5**1.5), (1e12, 0.1)):
        monkeypatch.setattr(choosing, "carriers", lambda sample, n=n_rows: n)
        assert choosing._target_on_sample(sample, 0.9) == pytest.approx(1 - missing)


def test_everything_is_all_rows_in_their_order_with_their_weights(cloud):
    weights = np.arange(1.0, 81.0)
    chooser = chooser_on(cloud, weights=weights)
    found = everything(chooser.problem)
    np.testing.assert_array_equal(found.points, cloud)
    np.testing.assert_array_equal(found.indices, np.arange(80))
    np.testing.assert_allclose(found.counts / found.counts.sum(), weights / weights.sum())
    assert found.exhaustive


def test_moved_points_of_float32_rows_are_numbers_that_float32_holds(cloud):
    model = SparseKernelPCA(2, n_support=6, random_state=0, gamma=0.3).fit((cloud + 1e4).astype(np.float32))
    points = np.asarray(model.support_vectors_, dtype=np.float64)
    assert model.support_ is None
    np.testing.assert_array_equal(points, points.astype(np.float32))


@pytest.mark.parametrize("n_support", [20, 60])
def test_principal_points_are_filled_up_with_rows_and_keep_all(cloud, n_support):
    model = SparseKernelPCA(3, n_support=n_support, kernel="linear", random_state=0).fit(cloud)
    variances = np.linalg.eigvalsh(np.cov(cloud.T, ddof=0))[::-1][:3]
    np.testing.assert_allclose(model.explained_variance_, variances, rtol=1e-8)
    assert model.n_support_ == n_support


# Coordinates


def wide_rows(n=300, d=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * 0.8 ** np.arange(d) + 1.0


def test_the_way_into_the_coordinates_and_back():
    sample = sample_of(wide_rows(), named_kernel("rbf", gamma=0.05))
    c = coordinates(sample)
    assert c.basis is not None
    moving = np.random.default_rng(0).standard_normal((4, c.rows.shape[1]))
    np.testing.assert_allclose(c.inside(c.points(moving)), moving, atol=1e-9)


def test_as_few_directions_as_leave_little_outside():
    """By the mean exponent that the rows have outside: one direction less would leave too much."""
    X = wide_rows(1500) * 3
    plan = {"directions_per_component": 0, "extra_directions": 1}
    c = coordinates(sample_of(X, named_kernel("rbf", gamma=0.05), **plan))
    outside = -np.log(c.row_scale)
    assert outside.mean() <= PLAN.max_lost_exponent * 1.0001
    assert outside.mean() + np.mean(c.rows[:, -1] ** 2) > PLAN.max_lost_exponent
    assert coordinates(sample_of(X, named_kernel("rbf", gamma=0.05))).rows.shape[1] == PLAN.least_directions(3) == 14


def test_a_wide_kernel_keeps_nine_tenths_of_the_rows_length():
    X = wide_rows(1500) * 3
    sample = sample_of(X, named_kernel("rbf", gamma=1e-6), directions_per_component=0, extra_directions=1)
    c = coordinates(sample)
    away = X[sample.rows.indices] - sample.origin
    inside = np.sum((away @ c.basis) ** 2)
    assert inside > 0.9 * np.sum(away**2) * 0.999
    assert np.sum((away @ c.basis[:, :-1]) ** 2) < 0.9 * np.sum(away**2) * 1.001


def test_few_rows_of_many_columns_are_seen_in_the_space_they_span():
    X = np.random.default_rng(0).standard_normal((60, 400))
    for kernel in (named_kernel("rbf", gamma=0.05), named_kernel("poly", gamma=0.01, degree=2, coef0=1.0)):
        sample = sample_of(X, kernel)
        c = coordinates(sample)
        assert c.rows.shape[1] <= 60
        rows, name = X[sample.rows.indices], kernel.name
        params = {"gamma": kernel.gamma} | ({} if name == "rbf" else {"degree": 2, "coef0": 1.0})
        seen = c.cross_gram(c.rows[:5], slice(0, 60))
        np.testing.assert_allclose(seen, gram_of(name, rows, c.points(c.rows[:5]), **params), rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("wide", "rbf"), ("sparse", "rbf"), ("sparse", "linear"), ("sparse", "cosine"), ("sparse", "laplacian")],
)
def test_kernel_values_in_the_coordinates_are_those_in_input_space(kind, name):
    """Of all rows at points within the subspace: also of rows of which a part is outside."""
    X = wide_rows() if kind == "wide" else scipy.sparse.random(60, 50, 0.3, format="csr", random_state=0)
    params = KERNELS[name] | ({"gamma": 0.05} if "gamma" in KERNELS[name] else {})
    sample = sample_of(X, named_kernel(name, **params), most_sparse_directions=9)
    c = coordinates(sample)
    assert (c.basis is None) is (name == "laplacian")
    moved = 1.1 * c.rows[:4]
    points, rows = c.points(moved), (X.toarray() if scipy.sparse.issparse(X) else X)[sample.rows.indices]
    assert points.shape == (4, X.shape[1])
    some = slice(10, 40)
    truth = gram_of(name, rows[some], points, **params) * (c.scale**2 if name == "linear" else 1)
    np.testing.assert_allclose(c.cross_gram(moved, some), truth, rtol=1e-6)
    np.testing.assert_allclose(c.inside(points), moved, atol=1e-9)


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d"), [(70, 12), (30, 60)])
@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_directions_of_sparse_rows_are_their_principal_directions_and_their_mean(name, n, d, weighted, center):
    """By LAPACK, on the rows made dense; by ARPACK and where every direction is asked for."""
    rng = np.random.default_rng(0)
    dense_rows = rng.random((n, d)) * (rng.random((n, d)) < 0.4) * 1.5 ** -np.arange(d) + np.eye(n, d)
    weights = rng.uniform(0.2, 3, n) if weighted else None
    rows = sample_rows(scipy.sparse.csr_matrix(dense_rows), 10**6, rng, weights, merge=True)
    kernel = named_kernel(name)
    sample = Sample.of(rows, kernel, 3, center=center, plan=PLAN)
    seen = dense_rows[sample.rows.indices]
    if name == "cosine":
        seen = seen / np.linalg.norm(seen, axis=1)[:, None]
    shares = np.full(n, 1 / n) if weights is None else weights[sample.rows.indices] / weights.sum()
    mean = shares @ seen
    truth = np.linalg.svd(np.sqrt(shares)[:, None] * (seen - mean * center))[2]
    for n_directions in (3, min(n, d)):
        found = subspace.directions_of_sparse(sample.rows.values, kernel, sample, n_directions)
        np.testing.assert_allclose(found @ found.T, np.eye(len(found)), atol=1e-10)
        for direction in [*truth[:n_directions], mean / np.linalg.norm(mean)][: n_directions + center]:
            assert np.linalg.norm(found @ direction) == pytest.approx(1, abs=1e-5)


def test_rows_that_fill_all_their_columns_are_moved_in_all_of_them():
    """No subspace leaves little outside, and the rows are too many to save anything by the space that they span."""
    X = np.random.default_rng(0).standard_normal((400, 200))
    c = coordinates(sample_of(X, named_kernel("rbf", gamma=0.05)))
    assert c.basis is None
    assert c.row_scale is None
    assert c.rows.shape == X.shape


def test_images_of_exact_components_are_their_kernel_values(cloud, new_rows):
    search = search_on(cloud)
    evaluation = search.sample.evaluation
    points = search.coordinates.inside(new_rows[:7])
    images, coef = search.coordinates.images_of_exact(points, evaluation)
    truth = gram_of("rbf", new_rows[:7], np.asarray(evaluation.given), gamma=0.3) @ evaluation.exact.row_coef
    np.testing.assert_allclose(images, truth, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(gram_of("rbf", new_rows[:7], gamma=0.3) @ coef, truth, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["laplacian", "rbf"])
def test_points_of_sparse_rows_are_moved_where_they_are_few_columns_or_keep_enough(name, monkeypatch):
    X = scipy.sparse.random(40, 30, 0.3, format="csr", random_state=0)
    sample = sample_of(X, named_kernel(name, gamma=0.3))

    def can_move():
        return movable(sample, lambda: coordinates(sample))

    assert can_move()
    for limit, moves in ((0, True), (1, False)):
        monkeypatch.setattr(subspace, "MAX_DENSE_VALUES", 40 * 30 - limit)
        sample = sample_of(X, sample.kernel, most_dense_values=128 * 30 - limit)
        assert can_move() is moves


def test_points_of_an_indefinite_kernel_are_not_moved(cloud):
    for kernel, moves in ((named_kernel("sigmoid", gamma=0.1), False), (named_kernel("rbf", gamma=0.3), True)):
        assert movable(sample_of(cloud, kernel), lambda: None) is moves


def test_points_of_sparse_rows_are_not_moved_where_their_directions_lose_too_much():
    X = scipy.sparse.random(60, 50, 0.3, format="csr", random_state=0)
    sample = sample_of(X, named_kernel("rbf", gamma=0.3), most_sparse_directions=5)
    c = coordinates(sample)
    outside = np.sum((X.toarray()[sample.rows.indices] - X.toarray()[sample.rows.indices] @ c.basis @ c.basis.T) ** 2)
    assert c.lost_exponent == pytest.approx(0.3 * outside / 60, rel=1e-6)
    for limit, moves in ((1.001 * c.lost_exponent, True), (0.999 * c.lost_exponent, False)):
        sample = sample_of(X, sample.kernel, max_lost_of_sparse=limit)
        assert movable(sample, lambda: c) is moves


def test_rows_of_few_columns_are_taken_as_they_are():
    X = wide_rows(300, 128)
    assert coordinates(sample_of(X, named_kernel("rbf", gamma=0.05))).basis is None
    assert coordinates(sample_of(X, named_kernel("rbf", gamma=0.05), min_features=127)).basis is not None


def test_a_candidate_that_is_rows_is_chosen_as_rows(cloud):
    chooser = chooser_on(cloud)
    search = chooser._search(chooser.problem)
    rows = np.array([7, 2, 5])
    found = choosing._moved(chooser.problem, search, candidate(search, search.rows_at(rows), rows=rows))
    numbers = chooser.problem.sample.rows.indices[rows]
    np.testing.assert_array_equal(found.indices, numbers)
    np.testing.assert_array_equal(found.points, cloud[numbers])
    assert found.by_evaluation
    moved_on = choosing._moved(chooser.problem, search, candidate(search, search.rows_at(rows)))
    assert moved_on.indices is None
    np.testing.assert_allclose(moved_on.points, cloud[numbers], atol=1e-12)


def test_principal_points_of_another_size_are_found_anew(cloud):
    sample = sample_of(cloud, named_kernel("linear"))
    search = FreePoints(sample, coordinates(sample), 10, 0.0, np.random.default_rng(0))
    found = search.resize(search.search(4), 3)
    assert found.winner == "principal directions"
    values = np.linalg.eigvalsh(np.cov(cloud.T, ddof=0))[-3:]
    assert found.captured == pytest.approx(values.sum() * search.coordinates.scale**2, rel=1e-8)


def test_centres_are_no_points_of_a_precomputed_kernel(cloud):
    kernel = named_kernel("sigmoid", gamma=0.5, coef0=-0.5)
    assert chooser._centres_may_do(sample_of(cloud, kernel))
    gram = gram_of("sigmoid", cloud, gamma=0.5, coef0=-0.5)
    given = SparseKernelPCA(2, n_support=6, kernel="precomputed", random_state=0).fit(gram)
    assert given.support_ is not None
    assert given.selection_report_["winner"] != "kmeans"


def test_many_points_keep_no_less_than_fewer():
    """Steps that gain little each are taken: where they were not, 500 points kept less than 350."""
    rng = np.random.default_rng(0)
    X = 1.5 * rng.standard_normal((40, 30))[rng.integers(0, 40, 4000)] + rng.standard_normal((4000, 30))
    few, many = (SparseKernelPCA(10, n_support=m, random_state=0).fit(X) for m in (350, 500))
    assert many.gamma_ == few.gamma_
    assert many.eigenvalues_.sum() > few.eigenvalues_.sum()


def test_components_that_float32_finds_no_length_of_divide_nothing_by_zero():
    rows = (3e-6 * np.random.default_rng(2).standard_t(1.5, (40, 2))).astype(np.float32)
    model = SparseKernelPCA(n_support=4, gamma=55.4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        model.fit(scipy.sparse.csr_array(rows))
    assert np.all(np.isfinite(model.explained_variance_))
