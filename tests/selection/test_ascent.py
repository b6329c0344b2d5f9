"""The climb and what it climbs: L-BFGS against dense matrices, float32, parts of the rows, many points, the metric."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import KERNELS, captured_by, finite_difference, gram_of, value_and_gradient

from kernelsieve.kernels import named_kernel
from kernelsieve.search import objective as objectives
from kernelsieve.search.lbfgs import Ascent, Evaluation, Memory
from kernelsieve.search.objective import CapturedVariance, Factored
from kernelsieve.spectrum import top


class Parabola:
    """-curvature |x - centre|^2 / 2, which one parabola through two values and a slope finds the top of."""

    def __init__(self, curvature, centre=0.0, metric=None):
        self.curvature, self.centre, self.metric = curvature, centre, metric
        self.seen = []

    def evaluate(self, points, basis=None):
        self.seen.append(points)
        away = points - self.centre
        return Evaluation(-0.5 * self.curvature * float(np.sum(away**2)), -self.curvature * away, self.metric)

    @property
    def exact(self):
        return self


def test_a_step_that_is_too_long_ends_at_the_top_of_the_parabola():
    """From .05 off the top the first move, .2, goes three times as far beyond it: a fourth of it is right."""
    ascent = Ascent(Parabola(4.0), np.full((1, 1), 0.05))
    ascent.run(1)
    assert ascent.points[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert ascent.n_evaluations == 3


@pytest.mark.parametrize(("start", "shortened"), [(0.009, 0.1), (0.15, 0.5)])
def test_a_step_is_shortened_to_a_tenth_at_least_and_a_half_at_most(start, shortened):
    objective = Parabola(4.0)
    ascent = Ascent(objective, np.full((1, 1), start))
    ascent.SUFFICIENT = 1.2 if shortened == 0.5 else 1e-4  # hardly any step gains so much of what it promises
    ascent.run(1)
    assert objective.seen[2][0, 0] == pytest.approx(start - shortened * 0.2)


def test_a_step_that_gains_nothing_is_none():
    """From .1 off the top the first move, .2, ends as far beyond it: half of it is right."""
    ascent = Ascent(Parabola(4.0), np.full((1, 1), 0.1)).run(1)
    assert ascent.points[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_an_ascent_ends_where_no_step_leads_up():
    ascent = Ascent(Parabola(1.0), np.zeros((2, 3))).run(5)
    assert ascent.converged
    assert ascent.n_steps == 0


def test_no_point_moves_far_at_once():
    """Two kernel widths times its length at most; in a first step by a metric four tenths of one."""
    points = np.array([[3.0, 4.0], [3.0, 4.0]])
    ascent = Ascent(Parabola(1.0, centre=1e6), points)
    ascent.run(1)
    first = np.sqrt(np.mean(np.sum((ascent.points - points) ** 2, axis=1)))
    assert first == pytest.approx(0.2)
    before = ascent.points
    ascent.run(1)
    length = np.sqrt(np.mean(np.sum(before**2, axis=1)))
    assert np.linalg.norm(ascent.points - before, axis=1).max() == pytest.approx(2 * (1 + length))
    by_metric = Ascent(Parabola(1.0, centre=1e6, metric=np.eye(2)), points).run(1)
    assert np.linalg.norm(by_metric.points - points, axis=1).max() == pytest.approx(0.4)


@pytest.mark.parametrize("n_pairs", [1, 3, 6])
def test_a_memory_is_the_inverse_of_bfgs(n_pairs):
    """H <- (I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y from H_0 = (s'y / y'B^-1 y) B^-1 of the last; four pairs."""
    rng = np.random.default_rng(0)
    m, r = 3, 2
    root = rng.standard_normal((6, 6))
    curvature = root @ root.T + np.eye(6)
    metric = np.diag([1.0, 2.0, 3.0])
    memory = Memory(4)
    assert not memory
    pairs = [(s, curvature @ s) for s in rng.standard_normal((n_pairs, 6))]
    for s, y in pairs:
        memory.add(s.reshape(m, r), y.reshape(m, r))
    memory.add(pairs[0][0].reshape(m, r), -pairs[0][1].reshape(m, r))  # bends the other way: not remembered
    first = np.kron(np.linalg.inv(metric), np.eye(r))
    s, y = pairs[-1]
    inverse = s @ y / (y @ first @ y) * first
    for s, y in pairs[-4:]:
        left = np.eye(6) - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    gradient = rng.standard_normal((m, r))
    found = memory.direction(gradient, lambda g: np.linalg.solve(metric, g))
    np.testing.assert_allclose(found.ravel(), inverse @ gradient.ravel(), rtol=1e-9)


# What is climbed


def test_the_metric_is_the_gauss_newton_matrix_and_a_ridge(cloud, new_rows):
    """2 sum_k mu_k g_ik g_jk <dphi(s_i), dphi(s_j)>, the last by finite differences of the kernel."""
    points = new_rows[:4]
    kernel = named_kernel("rbf", gamma=0.3)
    objective = CapturedVariance(kernel, cloud, None, None, 2, True)
    values, coef = objective.components(points)
    found = objective.evaluate(points)
    metric = found.metric @ found.metric.T
    tangents = kernel.tangents(points, kernel(points, points))
    step = 1e-4 * np.eye(5)[0]
    own = (gram_of("rbf", np.stack([points[0] + step, points[0] - step]), gamma=0.3))[0]
    assert tangents[0, 0] == pytest.approx((2 * own[0] - 2 * own[1]) / 4e-8, rel=1e-4)
    coupling = 2 * (coef * values) @ coef.T * tangents
    np.testing.assert_allclose(metric, coupling + 0.05 * np.mean(np.diagonal(coupling)) * np.eye(4), rtol=1e-8)
    gradient = np.linalg.solve(metric, found.gradient)
    np.testing.assert_allclose(found.by_metric(found.gradient), gradient, rtol=1e-6)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_part_of_the_rows_is_an_objective_of_its_own(cloud, new_rows, weighted, scaled):
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(80)) if weighted else None
    scale = rng.uniform(0.5, 1, 80) if scaled else None
    whole = CapturedVariance(named_kernel("rbf", gamma=0.3), cloud, scale, weights, 2, True)
    some = slice(10, 50)
    cross = gram_of("rbf", cloud[some], new_rows[:5], gamma=0.3) * (1 if scale is None else scale[some][:, None])
    gram = gram_of("rbf", new_rows[:5], gamma=0.3)
    for part, counted in (
        (whole.part(some), None if weights is None else weights[some]),
        (whole.drawn(np.arange(10, 50), np.arange(1.0, 41.0)), np.arange(1.0, 41.0)),
    ):
        omega = np.full(40, 1 / 40) if counted is None else counted / counted.sum()
        about = (cross - omega @ cross) * np.sqrt(omega * 40)[:, None]
        assert part.n_rows == 40
        assert part.captured(new_rows[:5]) == pytest.approx(captured_by(gram, about, 2, center=False), rel=1e-7)


def test_float32_is_allowed_while_pivots_are_large_beside_what_is_captured():
    """sum 1 / pivot^2 by numpy's Cholesky factor."""
    points = np.array([[0.0], [0.1], [2.0]])
    kernel = named_kernel("rbf", gamma=0.5)
    at = Factored.of(kernel, points)
    pivots = np.diagonal(np.linalg.cholesky(gram_of("rbf", points, gamma=0.5))) ** 2
    limit = 1e-5 * np.sum(1 / pivots)
    assert at.allows_float32(1.001 * limit, 1.0)
    assert not at.allows_float32(0.999 * limit, 1.0)
    assert not Factored(at.gram, None).allows_float32(1.0, 1.0)
    tripled = Factored(3 * at.gram, np.sqrt(3) * at.factor)  # as much for a kernel of three times the size
    assert tripled.allows_float32(3 * 1.001 * limit, 3.0)
    assert not tripled.allows_float32(3 * 0.999 * limit, 3.0)


def test_rows_become_float32_where_kernel_rows_and_points_allow_it(cloud):
    kernel = named_kernel("rbf", gamma=0.3)
    weights = np.full(80, 1 / 80)
    objective = CapturedVariance(kernel, cloud, np.ones(80), weights, 2, True)
    light = objective.light(cloud[:4], 0.5)
    assert {part.dtype for part in (light.rows, light.row_scale, light.weights)} == {np.dtype(np.float32)}
    assert light.exact is objective
    assert objective.exact is objective
    assert objective.light(cloud[:4], 1e-9) is objective
    far = CapturedVariance(kernel, cloud + 1e13, None, None, 2, True)
    assert far.light(cloud[:4], 0.5) is far
    unbounded = CapturedVariance(named_kernel("poly", gamma=0.3), cloud, None, None, 2, True)
    assert unbounded.light(cloud[:4], 0.5) is unbounded


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_threads", [1, 4])
def test_many_points_are_evaluated_from_components_near_by(cloud, monkeypatch, weighted, n_threads):
    """The table of solvers is told that seventy points are many: from a basis near by the same value and gradient."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(80)) if weighted else None
    points = cloud[:70] + 0.1 * rng.standard_normal((70, 5))
    kernel = named_kernel("rbf", gamma=1.0)
    truth = value_and_gradient(CapturedVariance(kernel, cloud, None, weights, 3, True), points)
    monkeypatch.setattr(top, "LARGE", 70)
    objective = CapturedVariance(kernel, cloud, None, weights, 3, True, n_threads)
    assert objective.has_many(points)
    assert not objective.has_many(points[:69])
    near = objective.evaluate(points + 0.01 * rng.standard_normal(points.shape)).basis
    assert near.shape == (70, 3 + objectives.EXTRA_VECTORS)
    found = objective.evaluate(points, near)
    assert found.value == pytest.approx(truth[0], rel=1e-4)
    found = objective.evaluate(points, found.basis)
    assert found.value == pytest.approx(truth[0], rel=1e-6)
    np.testing.assert_allclose(found.gradient, truth[1], atol=1e-3 * np.abs(truth[1]).max())
    assert objective.captured(points, found.basis) == pytest.approx(truth[0], rel=1e-6)


def test_many_points_far_off_have_no_value(cloud):
    objective = CapturedVariance(named_kernel("poly", **KERNELS["poly"]), cloud, None, None, 2, True)
    found = objective.evaluate(cloud[:6] * 1e120)
    assert found.value == -np.inf
    np.testing.assert_array_equal(found.gradient, 0)


def test_rows_of_no_weight_change_nothing(cloud, new_rows, monkeypatch):
    """Not even where they are a block of their own."""
    monkeypatch.setattr(objectives, "VALUES_AT_ONCE", 1)
    monkeypatch.setattr(objectives, "LEAST_ROWS_AT_ONCE", 10)
    kernel, points = named_kernel("rbf", gamma=0.3), new_rows[:5]
    weights = np.concatenate([np.zeros(20), np.full(60, 1 / 60)])
    found = value_and_gradient(CapturedVariance(kernel, cloud, None, weights, 2, True), points)
    truth = value_and_gradient(CapturedVariance(kernel, cloud[20:], None, None, 2, True), points)
    assert found[0] == pytest.approx(truth[0], rel=1e-10)
    np.testing.assert_allclose(found[1], truth[1], atol=1e-10)
    slopes = finite_difference(CapturedVariance(kernel, cloud, None, weights, 2, True).captured, points)
    np.testing.assert_allclose(found[1], slopes, atol=1e-6)


def test_float32_is_allowed_to_a_multiple_of_a_kernel_where_it_is_to_the_kernel(cloud):
    points = cloud[:12]
    plain = CapturedVariance(named_kernel("rbf", gamma=0.3), cloud, None, None, 3, True)
    large = CapturedVariance(1e4 * named_kernel("rbf", gamma=0.3), cloud, None, None, 3, True)
    captured = plain.captured(points)
    for share in (1e-5, 1.0):  # of the variance: of a hundred-thousandth, rounding is a part that matters
        light = [o.light(points, share * c) is not o for o, c in ((plain, captured), (large, 1e4 * captured))]
        assert light[0] == light[1] == (share == 1)
