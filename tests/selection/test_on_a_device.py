"""Points chosen on a device, in a line of operations that nobody waits for; on the host, where no GPU is."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest
from oracles import KERNELS, captured_by, gram_of, value_and_gradient
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import named_kernel, width
from kernelsieve.rules.targeted import targeted_choice, targeted_on_device
from kernelsieve.search import moved as free
from kernelsieve.search.lbfgs import Ascent
from kernelsieve.search.objective import CapturedVariance
from kernelsieve.search.objective_cuda import CapturedOnDevice, PaddedMemory
from kernelsieve.solvers.greedy import StoredGram
from kernelsieve.spectrum import top
from kernelsieve.spectrum.top import exact_components

torch = pytest.importorskip("torch", reason="torch is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DIFFERENTIABLE = [name for name in KERNELS if named_kernel(name).differentiable]


def there(values):
    return None if values is None else torch.asarray(values, device=DEVICE)


@pytest.fixture
def accelerated(monkeypatch):
    """The host's tensors are taken for those of a device of its own."""
    for module in (free, top, width):
        monkeypatch.setattr(module, "is_accelerated", lambda x: isinstance(x, torch.Tensor))
    monkeypatch.setattr(top, "SOLVED_ON_DEVICE", 10)


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_captured_variance_is_that_of_the_host(name, center, weighted, cloud, new_rows):
    points = new_rows[: 4 if name in ("linear", "cosine", "sigmoid") else 6]
    weights = np.random.default_rng(2).dirichlet(np.ones(50)) if weighted else None
    kernel = named_kernel(name, **KERNELS[name])
    value, gradient = value_and_gradient(CapturedVariance(kernel, cloud[:50], None, weights, 2, center), points)
    objective = CapturedOnDevice(kernel, there(cloud[:50]), None, there(weights), 2, center)
    basis = objective.evaluate(there(points)).basis  # none is known yet: eigenvectors
    for _ in range(3):  # towards the components, from those that it found
        found = objective.evaluate(there(points), basis)
        assert found.value == pytest.approx(value, rel=1e-7)
        np.testing.assert_allclose(found.gradient.cpu(), gradient, atol=1e-7 * np.abs(gradient).max())
    if not weighted and kernel.definite:
        cross, gram = (gram_of(name, rows, points, **KERNELS[name]) for rows in (cloud[:50], points))
        assert found.value == pytest.approx(captured_by(gram, cross, 2, center=center), rel=1e-7)


def test_many_points_from_the_components_near_by(cloud, new_rows):
    kernel = named_kernel("rbf", gamma=0.5)
    points = np.concatenate([cloud[:40], new_rows[:10]])
    moved = points + 0.02 * np.random.default_rng(0).standard_normal(points.shape)
    objective = CapturedOnDevice(kernel, there(cloud), None, None, 2, True)
    start = objective.evaluate(there(points))
    found = objective.evaluate(there(moved), start.basis)
    value, gradient = value_and_gradient(CapturedVariance(kernel, cloud, None, None, 2, True), moved)
    assert value * (1 - 1e-5) <= found.value <= value * (1 + 1e-9)  # what a span captures is never too much
    np.testing.assert_allclose(found.gradient.cpu(), gradient, atol=0.02 * np.abs(gradient).max())
    moved[1] = moved[0]  # a point that is there twice
    first = objective.evaluate(there(moved), start.basis)
    again = objective.evaluate(there(moved), first.basis)
    truth = captured_by(rbf_kernel(moved, gamma=0.5), rbf_kernel(cloud, moved, gamma=0.5), 2)
    assert first.value < again.value <= truth * (1 + 1e-9)
    assert again.value >= truth * (1 - 1e-4)


def test_points_do_not_go_where_the_kernel_overflows(cloud):
    kernel = named_kernel("poly", gamma=1.0, degree=3, coef0=1.0)
    objective = CapturedOnDevice(kernel, there(cloud), None, None, 2, True)
    assert objective.evaluate(there(cloud[:6] * 1e120), there(np.eye(6))).value == -np.inf


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_steps_in_one_line_are_those_of_the_plain_ascent(name, weighted, cloud, new_rows):
    points = there(new_rows[: 4 if name in ("linear", "cosine", "sigmoid") else 12])
    weights = np.random.default_rng(2).dirichlet(np.ones(len(cloud))) if weighted else None
    objective = CapturedOnDevice(named_kernel(name, **KERNELS[name]), there(cloud), None, there(weights), 2, True)
    basis = objective.evaluate(points).basis
    plain, in_line = Ascent(objective, points, basis), objective.ascent(points, basis)
    for n_steps in (1, 1, 1, 9):  # more than are remembered
        plain.run(n_steps)
        in_line.run(n_steps)
        assert in_line.value == pytest.approx(plain.value, rel=1e-9)
        np.testing.assert_allclose(in_line.points.cpu(), plain.points.cpu(), rtol=1e-5, atol=1e-5)
    assert (in_line.n_steps, in_line.n_evaluations) == (plain.n_steps, plain.n_evaluations)


def test_a_step_that_is_too_long_is_shortened_and_remembered(cloud, new_rows):
    """Ascents that take every step shortened: what the line looked at ahead counts for nothing."""
    objective = CapturedOnDevice(named_kernel("rbf", gamma=0.5), there(cloud), None, None, 2, True)
    points = there(new_rows[:8])
    basis = objective.evaluate(points).basis
    plain, in_line = Ascent(objective, points, basis), objective.ascent(points, basis)
    for runner in (plain, in_line):
        runner.SUFFICIENT = 0.9  # of the slope: few steps gain so much of what they promise at their full length
        runner.run(6)
    assert in_line.n_evaluations == plain.n_evaluations > in_line.n_steps + 1
    np.testing.assert_allclose(in_line.points.cpu(), plain.points.cpu(), rtol=1e-6, atol=1e-6)


def test_steps_are_recorded_where_a_line_can_hold_them(cloud, new_rows):
    """Once there is a basis to start from; not under kernels so narrow that rounding could hide distances."""
    points = there(new_rows[:8])
    for gamma, recorded in ((0.5, True), (1e9, False)):
        objective = CapturedOnDevice(named_kernel("rbf", gamma=gamma), there(cloud), None, None, 2, True)
        at = objective.evaluate(points)
        ahead = objective.ahead(points, at, PaddedMemory.of(4, points))
        assert (ahead is not None) is recorded
        assert objective.ahead(points, replace(at, basis=None), PaddedMemory.of(4, points)) is None


@pytest.mark.parametrize("gamma", [0.02, 1.0])
def test_rows_are_chosen_as_on_the_host(cloud, gamma):
    gram = rbf_kernel(cloud, gamma=gamma)
    targets = gram @ exact_components(gram, 4, center=True).row_coef
    here = targeted_choice(StoredGram(gram), targets, 30).chosen
    np.testing.assert_array_equal(targeted_on_device(there(gram), there(targets), 30), here)


@pytest.mark.parametrize("gamma", [0.003, 0.02, 0.1])
def test_blocks_of_rows_capture_what_rows_one_by_one_do(digits, gamma):
    """More rows than there are candidates for a block: the choice is another, what it captures is not."""
    gram = rbf_kernel(16 * digits[0][:500], gamma=gamma / 16)
    targets = gram @ exact_components(gram, 8, center=True).row_coef
    captured = []
    for chosen in (targeted_on_device(there(gram), there(targets), 90), np.asarray(plainly(gram, targets, 90))):
        assert len(np.unique(chosen)) == 90
        captured.append(captured_by(gram[np.ix_(chosen, chosen)], gram[:, chosen], 8))
    assert captured[0] >= 0.998 * captured[1]


def plainly(gram, targets, n_rows):
    """argmax |T_i|^2 / R_ii, with everything computed anew for each row."""
    chosen = []
    for _ in range(n_rows):
        among = gram[np.ix_(chosen, chosen)]
        weights = np.linalg.solve(among, gram[chosen])
        left, diagonal = targets - weights.T @ targets[chosen], np.diagonal(gram - gram[:, chosen] @ weights)
        scores = np.where(diagonal > 1e-10, np.sum(left**2, axis=1) / np.maximum(diagonal, 1e-10), -1)
        scores[chosen] = -1
        chosen.append(int(scores.argmax()))
    return chosen


def test_no_more_rows_are_chosen_than_there_are(cloud):
    """Ten different rows, each of them often."""
    gram = rbf_kernel(np.tile(cloud[:10], (8, 1)), gamma=0.5)
    targets = gram @ exact_components(gram, 3, center=True).row_coef
    chosen = targeted_on_device(there(gram), there(targets), 40)
    assert len(chosen) == len(np.unique(chosen % 10)) == 10


@pytest.mark.parametrize("n_support", [20, 90])
def test_fits_on_a_device_capture_what_those_of_the_host_do(accelerated, n_support):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 4)) @ rng.standard_normal((4, 9)) + 0.1 * rng.standard_normal((6000, 9))
    model = SparseKernelPCA(6, n_support=n_support, random_state=0)
    here = model.fit(X)
    captured_here, ratio_here, gamma_here = here.explained_variance_.sum(), here.captured_ratio_, here.gamma_
    model.fit(there(X))
    assert model.gamma_ == pytest.approx(gamma_here, rel=1e-5)
    assert model.explained_variance_.sum() >= captured_here * (1 - 1e-3)
    assert model.captured_ratio_ == pytest.approx(ratio_here, abs=3e-3)


def test_the_median_distance_of_pairs_that_are_apart():
    for n in (1, 7, 8):
        found = np.random.default_rng(n).random((n, n))
        apart = found > 0.2
        expected = np.median(found[apart]) if apart.any() else 0.0
        assert width._median_on_device(there(found), there(apart)) == pytest.approx(expected)


def test_rows_are_let_go_after_a_fit():
    """At once, not when garbage is next looked for: a device has no memory to spare."""
    rows = there(np.random.default_rng(0).standard_normal((8000, 5)))
    seen = weakref.ref(rows)
    gc.disable()
    try:
        SparseKernelPCA(3, n_support=20, random_state=0).fit(rows)
        del rows
        assert seen() is None
    finally:
        gc.enable()
