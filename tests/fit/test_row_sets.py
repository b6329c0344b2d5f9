"""Rows under a kernel, and samples of them, against grams that are written out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from oracles import KERNELS, exact_kernel_pca, gram_of

from kernelsieve.fit.captured_ratio import (
    Estimate,
    PointsOnRows,
    _agreed,
    _Squares,
    components_for,
    disagreement,
    error_of_few,
    mean_outside,
    n_real,
)
from kernelsieve.fit.expansion import KernelExpansion
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.problem import span_of
from kernelsieve.fit.rowset import draw
from kernelsieve.fit.sample import Sample
from kernelsieve.fit.span import Points
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.rows import ArrayRows
from kernelsieve.rows.sampling import sample_rows


def made(X, name, *, center, weights=None, n_evaluation=80):
    """(sample, gram of its rows in their order, their weights)."""
    precomputed = name == "precomputed"
    params = KERNELS["poly"] if precomputed else KERNELS[name]
    gram = gram_of("poly" if precomputed else name, X, **params)
    rows = sample_rows(gram if precomputed else X, 10**6, np.random.default_rng(0), weights, merge=False)
    kernel = named_kernel(name, **({} if precomputed else params))
    plan = replace(PLAN, all_evaluated=n_evaluation)
    sample = Sample.of(rows, kernel, 3, center=center, n_evaluation=n_evaluation, plan=plan)
    order = rows.indices
    return sample, gram[np.ix_(order, order)], None if weights is None else weights[order]


@pytest.mark.parametrize("n_evaluation", [80, 50])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("name", ["rbf", "poly", "precomputed"])
def test_what_a_sample_knows_of_its_rows(name, center, weighted, n_evaluation, cloud):
    """Columns of the gram, the targets of greedy rules, scores of exact kernel PCA, by the whole gram."""
    weights = np.random.default_rng(1).uniform(0.2, 3, 80) if weighted else None
    sample, gram, counts = made(cloud, name, center=center, weights=weights, n_evaluation=n_evaluation)
    rows = sample.evaluation
    assert rows.is_all is (n_evaluation == 80)
    np.testing.assert_allclose(sample.diagonal, np.diagonal(gram), rtol=1e-12)
    for j in (0, 40, 79):
        np.testing.assert_allclose(sample.column(j), gram[:, j], rtol=1e-10, atol=1e-12)
    n = rows.size
    assert n == n_evaluation
    shares = np.full(n, 1 / n) if counts is None else counts[:n] / counts[:n].sum()
    assert rows.unit_weights == pytest.approx(shares)
    np.testing.assert_allclose(rows.lengths, np.diagonal(gram)[:n], rtol=1e-12)
    values, components, offset = exact_kernel_pca(gram[:n, :n], 3, center=center, weights=n * shares)
    np.testing.assert_allclose(rows.exact.variances, values / n, rtol=1e-8)
    scores = gram[:, :n] @ components - offset
    np.testing.assert_allclose(rows.exact_squares, (scores[:n] ** 2).sum(axis=1), rtol=1e-6)
    assert shares @ rows.exact_squares == pytest.approx(rows.exact.variances.sum())
    # targets are the scores times the roots of the variances, up to signs and what centring subtracts
    targets = sample.all_targets - center * (shares @ sample.all_targets[:n])
    expected = scores * np.sqrt(values / n)
    np.testing.assert_allclose(np.abs(targets), np.abs(expected), rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("name", ["rbf", "poly"])
@pytest.mark.parametrize("n", [79, 80])
def test_what_components_of_one_half_capture_on_the_other(name, center, weighted, n, cloud):
    """Halves differ by one row at most; each is centred by its own mean."""
    weights = np.random.default_rng(1).uniform(0.2, 3, n) if weighted else None
    sample, gram, counts = made(cloud[:n], name, center=center, weights=weights, n_evaluation=n)
    rows = sample.evaluation
    first, second = (half.places for half in rows.halves)
    np.testing.assert_array_equal(np.concatenate([first, second]), np.arange(n))
    assert abs(len(first) - len(second)) <= 1
    counts = np.ones(n) if counts is None else counts

    def captured(half, other):
        mass = counts[half] / counts[half].mean()
        _, components, _ = exact_kernel_pca(gram[np.ix_(half, half)], 3, center=center, weights=mass)
        scores, share = gram[np.ix_(other, half)] @ components, counts[other] / counts[other].sum()
        return share @ (scores - center * (share @ scores)) ** 2

    own, other = rows.captured_across
    assert own == pytest.approx(captured(first, first).sum(), rel=1e-7)
    assert other == pytest.approx(captured(first, second).sum(), rel=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_of_the_data_and_all_of_it_are_told_apart(weighted, cloud):
    """Rows that all data consist of, and the last rows of a part, with their chances of being among them."""
    weights = np.random.default_rng(1).uniform(0.2, 3, 80) if weighted else None
    sample, gram, counts = made(cloud, "rbf", center=True, weights=weights, n_evaluation=50)
    shares = np.full(80, 1 / 80) if counts is None else counts / counts.sum()
    assert (sample.unit_weights is None) if counts is None else sample.unit_weights == pytest.approx(shares)
    np.testing.assert_allclose(sample.all_rows.gram, gram, rtol=1e-6)
    np.testing.assert_allclose(sample.all_rows.unit_weights, shares)
    assert sample.all_rows.is_all
    np.testing.assert_allclose(sample.other_rows.gram, gram[30:, 30:], rtol=1e-6)
    np.testing.assert_allclose(sample.other_rows.unit_weights, shares[30:] / shares[30:].sum())
    assert sample.other_rows.chance == pytest.approx(5 / 8)
    assert not sample.other_rows.is_all
    part = replace(sample, rows=replace(sample.rows, whole=False), n_population=200)
    assert part.all_rows is None
    assert (part.evaluation.chance, part.other_rows.chance) == pytest.approx((1 / 4, 1 / 4))
    assert not part.evaluation.is_all
    for whole, n_evaluation in ((True, 80), (False, 40)):  # of a part, as many rows are left to guide the search
        rows = replace(sample.rows, whole=whole)
        assert Sample.of(rows, sample.kernel, 3, center=True, n_evaluation=70).n_evaluation == n_evaluation


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_drawn_one_half_evenly_and_one_half_by_what_they_carry(weighted):
    rng = np.random.default_rng(0)
    carried, weights = rng.exponential(size=300), rng.uniform(0.5, 2, 300) if weighted else None
    omega = np.ones(300) if weights is None else weights
    drawn, chance = draw(carried, weights, 40), 20 * omega / omega.sum() + 20 * omega * carried / (omega @ carried)
    assert chance.max() < 1
    assert len(drawn.places) == 40
    np.testing.assert_allclose(drawn.chances, chance[drawn.places])
    np.testing.assert_allclose(drawn.weights, omega[drawn.places] / drawn.chances)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_the_part_of_the_mean_outside_is_that_of_pairs_of_different_rows_or_of_all(whole, weighted, cloud, new_rows):
    """Of 15 rows: sums over pairs, of k(x, y) and of its part within the span, by the gram."""
    weights = np.random.default_rng(1).uniform(0.2, 3, 15) if weighted else None
    sample, gram, counts = made(cloud[:15], "rbf", center=True, weights=weights)
    rows = replace(sample.evaluation, is_all=whole)
    points = new_rows[:3]
    span = span_of(ArrayRows(cloud[:15], weights), Points(sample.kernel, points, None), center=True)
    cross = gram_of("rbf", np.asarray(rows.given), points, **KERNELS["rbf"])
    residual = gram - cross @ np.linalg.solve(gram_of("rbf", points, **KERNELS["rbf"]), cross.T)
    pairs = np.outer(*[np.ones(15) if counts is None else counts] * 2) * (whole or 1 - np.eye(15))
    outside = float(np.sum(pairs * residual) / pairs.sum())
    assert outside > 1e-3
    found = mean_outside(PointsOnRows(sample.kernel, points, rows), span, indefinite=False)
    assert found == pytest.approx(outside, rel=1e-6)
    assert mean_outside(PointsOnRows(sample.kernel, points, rows), span, indefinite=True) == 0.0
    assert mean_outside(PointsOnRows(sample.kernel, points, rows), replace(span, center=False), indefinite=False) == 0.0


@pytest.mark.parametrize("n_population", [120, 150, 300, 10**6])
def test_fewer_rows_explain_more_by_as_many_components(n_population):
    """What n rows explain is too high by a/n - a/N, and a/n is what halves of them explain too much beside them."""
    X = np.random.default_rng(0).standard_normal((120, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2]
    sample, gram, _ = made(X, "rbf", center=True, n_evaluation=120)
    rows = replace(sample.evaluation, is_all=n_population == 120, chance=120 / n_population)

    def explained(some):
        values = exact_kernel_pca(some, len(some))[0]
        return np.append(np.cumsum(values) / values.sum(), np.ones(120 - len(some)))

    first, second = (half.places for half in rows.halves)
    in_halves = (explained(gram[np.ix_(first, first)]) + explained(gram[np.ix_(second, second)])) / 2
    of_all = explained(gram) - (in_halves - explained(gram)) * (1 - 120 / n_population)
    for share in (0.3, 0.5, 0.7, 0.8, 0.9):
        assert components_for(share, rows) == np.flatnonzero(np.maximum.accumulate(of_all) >= share)[0] + 1


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_components_of_any_length_have_an_orthonormal_basis(unit, cloud, new_rows):
    """Of three vectors in two dimensions, in any unit: V = U T, U'K U = 1, and reconstructions are projections."""
    kernel, points = named_kernel("rbf", gamma=0.3), new_rows[:6]
    gram, some = gram_of("rbf", points, gamma=0.3), np.random.default_rng(0).standard_normal((6, 2))
    coef = unit * some @ np.array([[1.0, 0.5, 2.0], [0.0, 1.0, -1.0]])
    expansion = KernelExpansion(kernel, points, coef, np.zeros(3), orthogonal=False)
    basis = expansion.orthonormal
    np.testing.assert_allclose(basis.coef.T @ gram @ basis.coef, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(basis.coef @ (basis.coef.T @ gram @ some), some, atol=1e-9)
    scores, cross = expansion.transform(cloud), gram_of("rbf", cloud, points, gamma=0.3)
    projected = some @ np.linalg.solve(some.T @ gram @ some, some.T @ cross.T)
    np.testing.assert_allclose(coef @ expansion.weights_of(scores).T, projected, atol=1e-8)


@pytest.mark.parametrize("center", [True, False])
def test_one_row_has_no_halves(center, cloud):
    sample, *_ = made(cloud[:1], "rbf", center=center, n_evaluation=1)
    assert sample.evaluation.captured_across == (0.0, 0.0)


@pytest.mark.parametrize(("lowest", "counts"), [(5e-12, False), (2e-11, True)])
def test_negative_eigenvalues_that_are_rounding_beside_the_variance_do_not_count(lowest, counts, cloud):
    """The limit is 1e-11 of the largest, in any unit, for a kernel that is known to be indefinite."""
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((80, 80)))[0]
    values = np.concatenate([[-lowest], np.linspace(1e-3, 1.0, 79)])
    sample, *_ = made(cloud, "sigmoid", center=False)
    for unit in (1e-6, 1.0, 1e6):
        rows = replace(sample.evaluation, known_gram=unit * (vectors * values) @ vectors.T)
        assert rows.indefiniteness == pytest.approx(lowest if counts else 0.0, rel=1e-3)


def test_the_ratio_of_a_sample_under_an_indefinite_kernel_is_at_most_one(cloud):
    sample, *_ = made(cloud, "sigmoid", center=True, n_evaluation=50)
    rows = sample.evaluation
    assert not rows.is_all
    ratio = _agreed(rows, 0.9 * rows.exact.variances)
    assert ratio.interval == (ratio.value, 1.0)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_variances_are_rounding_beside_the_largest_of_them(scale):
    variances = scale * np.array([3.0, 1e-3, 1e-17])
    assert n_real(variances) == 2
    assert n_real(variances[:0]) == 0
    assert n_real(0 * variances) == 0


# How well a ratio is known


def squares_of(n=60, seed=0):
    """Rows with drawing chances and weights, the squared lengths of their scores, and those of exact kernel PCA."""
    rng = np.random.default_rng(seed)
    exact = rng.exponential(1.0, n)
    model = exact * rng.uniform(0.5, 1.0, n)
    rows = SimpleNamespace(unit_weights=rng.dirichlet(np.ones(n)), chances=rng.uniform(0, 1, n), exact_squares=exact)
    return rows, _Squares(rows, model), model


def test_the_error_of_a_ratio_is_that_of_sums_over_drawn_rows():
    """Linearised: sum omega (model - ratio exact) / sum omega exact, each row drawn with its chance."""
    rows, squares, model = squares_of()
    omega, exact = rows.unit_weights, rows.exact_squares
    ratio = (omega @ model) / (omega @ exact)
    assert squares.ratio(omega) == pytest.approx(ratio)
    np.testing.assert_allclose(squares.missed, exact - model / ratio)
    assert omega @ squares.missed == pytest.approx(0, abs=1e-12)  # beyond the average
    each = omega * (model - ratio * exact) / (omega @ exact)
    assert squares.error(squares.missed) == pytest.approx(np.sqrt(np.sum((1 - rows.chances) * each**2)))
    rows.chances[:] = 1.0  # all rows: nothing was left to chance
    assert squares.error(squares.missed) == 0


def test_rows_that_points_started_from_count_less_where_they_are_overrepresented():
    rows, squares, model = squares_of()
    seeds = np.array([3, 7, 11])
    omega = rows.unit_weights.copy()
    omega[seeds] *= rows.chances[seeds]
    owed = squares.ratio(rows.unit_weights) - (omega @ model) / (omega @ rows.exact_squares)
    assert squares.owed_to(seeds) == pytest.approx(owed)
    assert squares.owed_to(seeds[:0]) == 0
    model[seeds] = rows.exact_squares[seeds]  # they keep all of their own
    assert squares.owed_to(seeds) > 0


@pytest.mark.parametrize(
    ("own", "other", "size", "few", "apart"),
    [
        (1.0, 1.0, 100, 0.0, 0.0),
        (1.0, 0.5, 100, 0.5**8, 0.5),
        (1.0, 0.5, 200, 0.5**8, 0.25),  # many rows that disagree are told by their errors
        (1.0, 0.5, 50, 0.5**8, 0.5),
        (0.5, 1.0, 100, 0.0, 0.5),
        (1.0, -0.5, 100, 1.0, 1.0),
        (0.0, 0.0, 100, 1.0, 1.0),
    ],
)
def test_halves_that_disagree_say_how_little_is_known(own, other, size, few, apart):
    rows = SimpleNamespace(captured_across=(own, other), size=size)
    assert error_of_few(rows) == pytest.approx(few)
    assert disagreement(rows) == pytest.approx(apart)


@pytest.mark.parametrize("value", [0.001, 0.3, 0.8, 0.9999, 1.2])
@pytest.mark.parametrize("error", [0.0, 0.0005, 0.02, 0.7])
@pytest.mark.parametrize("step", [-0.1, 0.0, 0.05])
def test_a_ratio_is_reported_with_an_interval_around_it(value, error, step):
    """Within [0, 1], wider with every error, and no wider than errors allow; a small error does not lower the ratio."""

    def reported(value=value, error=error, step=step, doubt=0.01, across=(1.0, 0.9)):
        rows = SimpleNamespace(size=100, captured_across=across)
        estimate = Estimate(SimpleNamespace(rows=rows), None, value, step, doubt, "sample", 3)
        return estimate.reported(value, error)

    found = reported()
    (low, high), known = found.interval, min(value, 1.0)
    assert 0 <= low <= found.value <= high <= 1
    whole = np.hypot(error, 0.01)
    assert found.value == pytest.approx(np.clip(known - 1.5 * max(whole - 0.001, 0), 0, 1))
    around = 1.6 * np.hypot(whole, 0.1**8)
    assert low == pytest.approx(min(np.clip(known - around, 0, 1), found.value))
    assert high == pytest.approx(np.clip(known + around + max(step, 0) + 0.1 * (1 - known), 0, 1))
    agreed = reported(across=(1.0, 1.0), step=0.0, doubt=0.0, error=0.0)
    assert agreed.interval == (known, known) == (agreed.value, agreed.value)
    assert (found.kind, found.n_samples, found.n_real) == ("sample", 100, 3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_rows_that_are_all_rows_correct_nothing(name, center, weighted, cloud, new_rows):
    """What the pass over all rows adds up are means over rows of what each row measures: where these are all rows, the
    correction is none, and the ratio is what the components capture over what exact kernel PCA does."""
    weights = np.random.default_rng(1).uniform(0.2, 3, 80) if weighted else None
    sample, _, _ = made(cloud, name, center=center, weights=weights)
    rows, kernel = sample.evaluation, sample.kernel
    chosen = Points(kernel, new_rows[:6], None)
    span = span_of(ArrayRows(cloud, weights), chosen, center=center)
    found = span.best(3)
    expansion, captured = span.expansion(found), float(found.variances.sum())
    scores = expansion.transform(np.asarray(rows.given))
    np.testing.assert_allclose(rows.unit_weights @ scores**2, found.variances, rtol=1e-8)
    ratio = captured / rows.exact.captured
    squares = _Squares(rows, (scores**2).sum(axis=1))
    seen = PointsOnRows(kernel, chosen.points, rows)
    estimate = Estimate(seen, squares, ratio, 0.0, 0.0, "sample", 3)
    corrected = estimate.corrected(span, expansion, captured)
    assert corrected.value == pytest.approx(ratio, rel=1e-8)
    further = estimate.corrected(span, expansion, 1.01 * captured)  # not what the rows say: others must have more
    assert further.value != pytest.approx(ratio, rel=1e-4)
    inside, rest, outside = estimate._parts(span, expansion)
    np.testing.assert_allclose(inside, squares.model, rtol=1e-7)
    np.testing.assert_allclose(rows.unit_weights @ rest, np.trace(span.covariance) - captured, rtol=1e-6, atol=1e-12)
    assert np.all(outside > -1e-9 * rows.lengths)
