"""Solvers: captured variance and its gradient, the ascent on it, and exact kernel PCA of a gram."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from oracles import KERNELS, captured_by, exact_kernel_pca, finite_difference, gram_of, value_and_gradient

from kernelsieve.arrays import top_eigh
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.search.lbfgs import Ascent
from kernelsieve.search.objective import CapturedVariance
from kernelsieve.search.subspace import coordinates, lifted
from kernelsieve.spectrum.top import Operator, exact_components, top

DIFFERENTIABLE = [name for name in KERNELS if named_kernel(name).differentiable]


def brute_force_captured(name, rows, points, n_components, *, center, weights=None, row_scale=None):
    """Sum of the top generalised eigenvalues, everything dense and written out."""
    cross, gram = gram_of(name, rows, points, **KERNELS[name]), gram_of(name, points, **KERNELS[name])
    if row_scale is not None:
        cross = cross * row_scale[:, None]
    omega = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    centred = cross - omega @ cross if center else cross
    second = centred.T @ (omega[:, None] * centred)
    values, vectors = np.linalg.eigh(gram)
    keep = values > 1e-12 * values[-1]  # the sigmoid's negative part is dropped
    root = vectors[:, keep] / np.sqrt(values[keep])
    return np.linalg.eigvalsh(root.T @ second @ root)[-n_components:].sum()


@pytest.mark.parametrize("scaled", [False, True], ids=["", "row_scale"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weights"])
@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_captured_variance_and_its_gradient(name, center, weighted, scaled, cloud, new_rows):
    rng = np.random.default_rng(2)
    # no more points than features where the gram would be singular (linear, cosine) or indefinite (sigmoid)
    rows, points = cloud[:50], new_rows[: 4 if name in ("linear", "cosine", "sigmoid") else 6]
    weights = rng.uniform(0.1, 1, 50) if weighted else None
    weights = weights / weights.sum() if weighted else None
    row_scale = rng.uniform(0.5, 1, 50) if scaled else None
    objective = CapturedVariance(named_kernel(name, **KERNELS[name]), rows, row_scale, weights, 2, center)
    value, gradient = value_and_gradient(objective, points)

    def truth(moved):
        return brute_force_captured(name, rows, moved, 2, center=center, weights=weights, row_scale=row_scale)

    assert value == pytest.approx(truth(points), rel=1e-7)
    assert objective.captured(points) == pytest.approx(value, rel=1e-12)
    slopes = finite_difference(truth, points)
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=1e-5 * max(np.abs(slopes).max(), 1e-3))


def test_gradient_of_an_indefinite_kernel_points_uphill(cloud, new_rows):
    """With the negative part of K_SS dropped the gradient leaves out how that part turns: close, not exact."""
    objective = CapturedVariance(named_kernel("sigmoid", **KERNELS["sigmoid"]), cloud, None, None, 2, True)
    points = new_rows[:7]
    assert np.linalg.eigvalsh(gram_of("sigmoid", points, **KERNELS["sigmoid"]))[0] < -1e-6
    value, gradient = value_and_gradient(objective, points)
    assert value == pytest.approx(brute_force_captured("sigmoid", cloud, points, 2, center=True), rel=1e-6)
    slopes = finite_difference(lambda s: brute_force_captured("sigmoid", cloud, s, 2, center=True), points)
    cosine = np.vdot(gradient, slopes) / np.linalg.norm(gradient) / np.linalg.norm(slopes)
    assert cosine > 0.9


@pytest.mark.parametrize("n_threads", [1, 3])
def test_many_blocks_of_rows_make_no_difference(n_threads, monkeypatch, cloud, new_rows):
    kernel, points = named_kernel("rbf", gamma=0.3), new_rows[:6]
    value, gradient = value_and_gradient(CapturedVariance(kernel, cloud, None, None, 3, True), points)
    monkeypatch.setattr("kernelsieve.search.objective.VALUES_AT_ONCE", 42)  # seven rows of six points
    monkeypatch.setattr("kernelsieve.search.objective.LEAST_ROWS_AT_ONCE", 1)
    in_blocks = value_and_gradient(CapturedVariance(kernel, cloud, None, None, 3, True, n_threads), points)
    assert in_blocks[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(in_blocks[1], gradient, atol=1e-12)


def test_whole_weights_are_repetitions(cloud, new_rows):
    counts = np.random.default_rng(0).integers(0, 3, len(cloud))
    kernel, points = named_kernel("rbf", gamma=0.3), new_rows[:5]
    weighted = value_and_gradient(CapturedVariance(kernel, cloud, None, counts / counts.sum(), 2, True), points)
    repeated = value_and_gradient(
        CapturedVariance(kernel, np.repeat(cloud, counts, axis=0), None, None, 2, True), points
    )
    assert weighted[0] == pytest.approx(repeated[0], rel=1e-11)
    np.testing.assert_allclose(weighted[1], repeated[1], atol=1e-11)


def test_points_that_coincide_do_not_stop_the_search(cloud):
    points = cloud[[0, 1, 2, 2, 3, 3]]
    ascent = Ascent(CapturedVariance(named_kernel("rbf", gamma=0.3), cloud, None, None, 2, True), points)
    start = ascent.value
    assert np.isfinite(start)
    assert np.all(np.isfinite(ascent.run(10).points))
    assert ascent.value >= start


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "cosine"])
def test_ascent_climbs_and_can_be_paused(name, cloud, new_rows):
    objective = CapturedVariance(named_kernel(name, **KERNELS[name]), cloud, None, None, 2, True)
    ascent = Ascent(objective, new_rows[:4])
    values = [ascent.value]
    for _ in range(6):
        values.append(ascent.run(2).value)
    assert np.all(np.diff(values) >= 0)
    assert values[-1] > values[0]
    truth = brute_force_captured(name, cloud, ascent.points, 2, center=True)
    assert ascent.value == pytest.approx(truth, rel=1e-6)
    in_one = Ascent(objective, new_rows[:4]).run(12)
    np.testing.assert_allclose(in_one.points, ascent.points, atol=1e-12)


def test_ascent_ends_where_scipy_finds_nothing_better(cloud, new_rows):
    """At the end the gradient is zero, and SciPy's L-BFGS from there gains nothing."""
    objective = CapturedVariance(named_kernel("rbf", gamma=0.3), cloud, None, None, 2, True)
    ascent = Ascent(objective, new_rows[:4]).run(500)
    assert ascent.converged
    shape = ascent.points.shape

    def negative(flat):
        return -brute_force_captured("rbf", cloud, flat.reshape(shape), 2, center=True)

    better = scipy.optimize.minimize(negative, ascent.points.ravel(), method="L-BFGS-B", options={"maxiter": 30})
    assert -better.fun <= ascent.value * (1 + 1e-6)


def test_captured_never_exceeds_exact(cloud, new_rows):
    objective = CapturedVariance(named_kernel("rbf", gamma=0.3), cloud, None, None, 3, True)
    exact = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3)[0].sum() / len(cloud)
    assert Ascent(objective, new_rows[:10]).run(60).value <= exact * (1 + 1e-12)


# A few principal coordinates


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ["rbf", "cosine", "poly", "linear"])
def test_points_moved_in_a_few_coordinates_have_their_true_kernel_values(name, sparse):
    """k(x, s) for s in the subspace, from the coordinates of x in it and one number for the rest of x."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6)) @ rng.standard_normal((6, 150)) + 0.2 * rng.standard_normal((300, 150)) + 0.1
    X *= rng.uniform(size=X.shape) < 0.3 if sparse else 1.0
    kernel = named_kernel(name, gamma=0.002, degree=3, coef0=1.0)
    rows = sample_rows(scipy.sparse.csr_matrix(X) if sparse else X, 1000, rng, None, merge=True)
    c = coordinates(Sample.of(rows, kernel, 3, center=True))
    moved = c.rows[:5] + 0.1 * rng.standard_normal((5, c.rows.shape[1]))
    seen = c.kernel(c.rows, moved) * (1.0 if c.row_scale is None else np.asarray(c.row_scale)[:, None])
    params = {"rbf": {"gamma": 0.002}, "poly": {"gamma": 0.002, "degree": 3, "coef0": 1.0}}.get(name, {})
    truth = gram_of(name, X[rows.indices], c.points(moved), **params)
    factor = np.vdot(seen, truth) / np.vdot(seen, seen)  # `unit` promises k up to a factor
    np.testing.assert_allclose(seen * factor, truth, atol=1e-5 * np.abs(truth).max())
    if name != "linear":
        assert factor == pytest.approx(1, abs=1e-5)
    if name == "rbf":
        assert c.rows.shape[1] < 150
        assert c.row_scale.min() < 0.99


def wide_sample(n=1500, seed=0, **plan):
    """Rows of 120 columns on a curved sheet, with noise in all of them."""
    rng = np.random.default_rng(seed)
    sheet = np.sin(rng.uniform(0, 3, (n, 4)) @ rng.standard_normal((4, 30)))
    X = sheet @ rng.standard_normal((30, 120)) / 5 + 0.2 * rng.standard_normal((n, 120))
    rows = sample_rows(X, 1000, rng, None, merge=True)
    plan = replace(PLAN, min_features=64, **plan)
    return Sample.of(rows, named_kernel("rbf", gamma=0.01), 3, center=True, n_population=n, plan=plan), X


def test_rows_that_are_asked_for_in_parts_are_those_of_the_whole():
    sample, X = wide_sample()
    parts = [sample.values(slice(0, 130)), sample.values(slice(130, sample.size))]
    np.testing.assert_array_equal(np.concatenate(parts), sample.all_values)
    away = X[sample.rows.indices] - sample.origin
    np.testing.assert_allclose(sample.all_values, away, atol=1e-6)


@pytest.mark.parametrize("away", [0.0, 1e4])
def test_coordinates_of_sparse_rows_are_along_orthonormal_directions(away):
    """With a mean of exactly zero, which has no direction, and with one that is longer than all else."""
    half = np.sign(np.random.default_rng(0).standard_normal((128, 12)))
    X = np.vstack([half, -half]) + away
    rows = sample_rows(scipy.sparse.csr_matrix(X), 256, np.random.default_rng(0), None, merge=False)
    sample = Sample.of(rows, named_kernel("rbf", gamma=0.0625), 3, center=True, n_evaluation=256)
    c = coordinates(sample)
    np.testing.assert_allclose(c.basis.T @ c.basis, np.eye(c.basis.shape[1]), atol=1e-12)
    lengths = c.scale**2 * (X[sample.rows.indices] ** 2).sum(axis=1)
    assert np.all((c.rows**2).sum(axis=1) <= lengths * (1 + 1e-12))


def test_the_gradient_beyond_the_coordinates_is_that_of_input_space():
    """By finite differences of the captured variance as brute force has it."""
    sample, X = wide_sample(max_lost_exponent=0.3)
    c = coordinates(sample)
    assert c.basis.shape[1] < 60
    moved = c.rows[:5] + 0.1
    found = CapturedVariance(c.kernel, c.rows, c.row_scale, None, 3, True).beyond(moved, sample.values)
    rows, points = X[sample.rows.indices], c.points(moved)
    outside = np.random.default_rng(1).standard_normal(points.shape)
    outside -= (outside @ c.basis) @ c.basis.T

    def captured(length):
        gone = points + length * outside
        return captured_by(gram_of("rbf", gone, gamma=0.01), gram_of("rbf", rows, gone, gamma=0.01), 3)

    assert found.value == pytest.approx(captured(0.0), rel=1e-5)
    slope = (captured(1e-3) - captured(-1e-3)) / 2e-3
    assert 0.01 * np.vdot(found.gradient, outside) == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("max_lost", [0.1, 0.2])
def test_points_moved_on_in_all_directions_capture_more(max_lost):
    sample, X = wide_sample(max_lost_exponent=max_lost)
    c = coordinates(sample)
    objective = CapturedVariance(c.kernel, c.rows, c.row_scale, None, 3, True).part(sample.search)
    moved = Ascent(objective, c.rows[100:110]).run(20).points
    before, after = (
        captured_by(gram_of("rbf", points, gamma=0.01), gram_of("rbf", X, points, gamma=0.01), 3)
        for points in (c.points(moved), lifted(sample, c, objective, moved))
    )
    truth = exact_kernel_pca(gram_of("rbf", X, gamma=0.01), 3)[0].sum() / len(X)
    assert truth - after < 0.9 * (truth - before)


# Exact kernel PCA of a gram


@pytest.mark.parametrize("n", [60, 900], ids=["dense", "Krylov"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_components_against_eigh(n, center, weighted):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 4))
    weights = rng.uniform(0, 2, n) if weighted else None
    gram = gram_of("rbf", X, gamma=0.05)
    found = exact_components(gram, 6, center=center, weights=weights)
    w = np.ones(n) if weights is None else weights
    values, components, _ = exact_kernel_pca(gram, 6, center=center, weights=weights)
    variances = values / w.sum()
    # the block Krylov space stops when the sum is known to five digits: it measures, it does not fit
    assert found.captured == pytest.approx(variances.sum(), rel=1e-10 if n < 400 else 1e-5)
    np.testing.assert_allclose(found.variances, variances, rtol=1e-9 if n < 400 else 1e-3)
    unit = found.row_coef / np.sqrt(found.variances)
    np.testing.assert_allclose(unit.T @ gram @ unit, np.eye(6), atol=1e-8 if n < 400 else 1e-3)
    overlaps = np.abs(np.diagonal(unit.T @ gram @ components))
    np.testing.assert_allclose(overlaps[:3], 1, atol=1e-8 if n < 400 else 1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_krylov_on_the_digits(dtype, digits):
    train, _ = digits
    gram = gram_of("rbf", train, gamma=0.05)
    truth = exact_kernel_pca(gram, 10)[0].sum() / len(train)
    found = exact_components(gram.astype(dtype), 10, center=True, n_threads=2).captured
    assert found == pytest.approx(truth, rel=1e-4)


def test_negative_eigenvalues_count_as_zero():
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    gram = rotation * [2.0, 1.0, -1.0, -2.0, -3.0] @ rotation.T
    found = exact_components(gram, 4, center=False)
    np.testing.assert_allclose(found.variances, [0.4, 0.2, 0, 0], atol=1e-12)


def test_more_components_than_rows():
    gram = gram_of("rbf", np.eye(4))
    assert exact_components(gram, 10, center=True).variances.shape == (4,)


def test_refit_is_the_objective(cloud, new_rows):
    """The variance that free points are moved for is the variance that the final refit reaches."""
    objective = CapturedVariance(named_kernel("rbf", gamma=0.3), cloud, None, None, 3, True)
    gram, cross = gram_of("rbf", new_rows, gamma=0.3), gram_of("rbf", cloud, new_rows, gamma=0.3)
    assert objective.captured(new_rows) == pytest.approx(captured_by(gram, cross, 3), rel=1e-7)


@pytest.mark.parametrize("equal", [1, 3, 9, 12])
def test_equal_eigenvalues_of_a_large_matrix_are_all_found(equal):
    """ARPACK misses one of twelve."""
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((1100, 40)))
    matrix = (basis * np.r_[np.ones(equal), np.full(40 - equal, 0.5)]) @ basis.T
    values, vectors = top(Operator.of(matrix), 10, precise=True)
    np.testing.assert_allclose(values, np.r_[np.ones(equal), np.full(10, 0.5)][:10], rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-12)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-12)


def test_equal_eigenvalues_are_all_found():
    """LAPACK's subset solvers return fewer than asked for when eigenvalues coincide."""
    centering = np.eye(500) - 1 / 500
    values, vectors = top_eigh(centering, 10)
    np.testing.assert_allclose(values, np.ones(10), rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-12)
