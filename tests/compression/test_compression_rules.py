"""The rules of compress against brute force, and the refit on what they leave."""

import itertools

import numpy as np
import pytest
from compression_cases import METHODS, score_errors, squared_error
from oracles import KERNELS, finite_difference, gram_of

from kernelsieve import KernelPCA, SparseKernelPCA, compress
from kernelsieve.compression.error import FeatureError, LeastSquares, ScoreError, local_source
from kernelsieve.compression.methods import (
    SHRINK,
    coordinates_for,
    eigen_order,
    find_candidates,
    l1_path,
    prefix_errors,
    removal_order,
)

pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


# The rules, against brute force


@pytest.fixture(scope="module")
def small_problem():
    rng = np.random.default_rng(3)
    return LeastSquares(rng.standard_normal((20, 9)), rng.standard_normal((20, 3)), 0.0, 1.0)


def removed_one_by_one(columns, target):
    """Backward elimination by trying every point at every step."""
    left, gone = list(range(columns.shape[1])), []
    while len(left) > 1:
        costs = [squared_error(columns[:, [j for j in left if j != i]], target) for i in left]
        gone.append(left.pop(int(np.argmin(costs))))
    return [*left, *reversed(gone)]


def test_removal_is_brute_force_backward_elimination(small_problem):
    order = removal_order(small_problem)
    np.testing.assert_array_equal(order, removed_one_by_one(small_problem.columns, small_problem.target))


@pytest.mark.parametrize("on_rows", [True, False], ids=["scores", "feature space"])
def test_removal_of_a_models_points_is_brute_force(on_rows, gaussian, cloud, new_rows):
    """From all 12 points of a kernelsieve model down to 5, by the error that each choice really has."""
    model = SparseKernelPCA(3, selection=np.arange(12), gamma=0.3).fit(cloud)
    gram = gram_of("rbf", model.support_vectors_, gamma=0.3)
    if on_rows:
        columns = gram_of("rbf", new_rows, model.support_vectors_, gamma=0.3)
        columns = columns - columns.mean(axis=0)
    else:
        columns = np.linalg.cholesky(gram).T
    order = removed_one_by_one(columns, columns @ model.dual_coef_)
    small = compress(model, 5, method="removal", X=new_rows if on_rows else None)
    np.testing.assert_array_equal(small.support_, np.sort(order[:5]))
    assert small.compression_["measured_on"] == ("X" if on_rows else "feature space")


def test_removal_survives_near_copies():
    """Three points that are copies to nine digits go first; what is said of the others afterwards is still exact."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((60, 20))
    columns = np.hstack([points, points[:, :3] + 1e-9 * rng.standard_normal((60, 3))])
    problem = LeastSquares(columns, points @ rng.standard_normal((20, 2)), 0.0, 1.0)
    order, brute = removal_order(problem), np.asarray(removed_one_by_one(columns, problem.target))
    assert sorted(order) == list(range(23))
    np.testing.assert_allclose(prefix_errors(problem, order)[:21], prefix_errors(problem, brute)[:21], atol=1e-6)


def test_the_curve_is_the_error_of_every_prefix(small_problem):
    order = np.random.default_rng(1).permutation(9)
    curve = prefix_errors(small_problem, order)
    assert curve[0] == pytest.approx(np.linalg.norm(small_problem.target))
    for m in range(1, 10):
        direct = squared_error(small_problem.columns[:, order[:m]], small_problem.target)
        assert curve[m] == pytest.approx(np.sqrt(direct), rel=1e-9)


@pytest.mark.parametrize("name", ["rbf", "sigmoid"])
def test_eigen_removal_is_the_published_rule(name, cloud):
    """Eigenvector of smallest |eigenvalue|; the point where |a_i / beta_i| is smallest goes, into the others."""
    gram = gram_of(name, cloud[:10], **KERNELS[name])
    coef = np.random.default_rng(0).standard_normal((10, 2))
    order = eigen_order(gram, coef, 4)
    left, a = list(range(10)), coef.copy()
    for place in range(9, 3, -1):
        values, vectors = np.linalg.eigh(gram[np.ix_(left, left)])
        smallest = np.argmin(np.abs(values))
        beta = vectors[:, smallest]
        ratios = [np.sqrt(a[i] @ a[i]) / abs(beta[i]) for i in range(len(left))]
        i = int(np.argmin(ratios))
        changed = a - np.outer(beta, a[i]) / beta[i]
        # what the paper says the removal costs
        change = changed - a
        cost = np.trace(change.T @ gram[np.ix_(left, left)] @ change)
        assert cost == pytest.approx(ratios[i] ** 2 * values[smallest], rel=1e-6)
        assert order[place] == left.pop(i)
        a = np.delete(changed, i, axis=0)
    np.testing.assert_array_equal(np.sort(order[:4]), left)


def group_lasso(columns, target, alpha, n_steps=2000):
    """|target - columns B|^2 / 2n + alpha sum |b_i|, by proximal gradient."""
    coef = np.zeros((columns.shape[1], target.shape[1]))
    step = len(columns) / np.linalg.norm(columns, 2) ** 2
    for _ in range(n_steps):
        coef = coef + step * columns.T @ (target - columns @ coef) / len(columns)
        lengths = np.linalg.norm(coef, axis=1, keepdims=True)
        coef *= np.maximum(1 - step * alpha / np.maximum(lengths, 1e-300), 0)
    return coef


def test_l1_takes_the_group_lassos_points(small_problem):
    columns = small_problem.columns / np.linalg.norm(small_problem.columns, axis=0)
    largest = np.linalg.norm(columns.T @ small_problem.target, axis=1).max() / len(columns)
    expected, longest = [], 0
    for i in range(1, 12):
        weight = np.linalg.norm(group_lasso(columns, small_problem.target, largest * SHRINK**i), axis=1)
        if np.count_nonzero(weight) > longest:
            longest = np.count_nonzero(weight)
            expected.append(np.argsort(-weight)[:longest])
    found = list(itertools.islice(l1_path(small_problem), len(expected)))
    assert [set(choice) for choice in found] == [set(choice) for choice in expected]
    assert found[0][0] == expected[0][0]


@pytest.mark.parametrize("on_rows", [True, False], ids=["scores", "feature space"])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"sigmoid"}))
def test_the_gradient_is_that_of_the_error(name, on_rows, cloud, new_rows):
    """The objective is the refit's squared error, and its gradient agrees with finite differences."""
    params = KERNELS[name]
    model = SparseKernelPCA(3, selection=np.arange(20), kernel=name, **params).fit(cloud)
    source = local_source(model.expansion_)
    error = ScoreError(source, new_rows, "X") if on_rows else FeatureError(source)
    coordinates = coordinates_for(error)
    objective = error.objective(coordinates)
    points = new_rows[3:7] if name != "linear" else new_rows[3:5]
    start = coordinates.inside(points)
    value, gradient = objective(start)
    np.testing.assert_allclose(coordinates.points(start), points, atol=1e-12)
    columns = gram_of(name, new_rows, points, **params)
    if on_rows:
        columns = columns - columns.mean(axis=0)
        target = model.transform(new_rows)
        target = target - target.mean(axis=0)
        expected = squared_error(columns, target) / np.sum(target**2)
    else:
        whole = gram_of(name, np.vstack([points, model.support_vectors_]), **params)
        gram, cross, old = whole[: len(points), : len(points)], whole[: len(points)][:, len(points) :], model.dual_coef_
        inner = cross @ old
        length = np.trace(old.T @ gram_of(name, model.support_vectors_, **params) @ old)
        expected = 1 - np.trace(inner.T @ np.linalg.pinv(gram) @ inner) / length
    assert value == pytest.approx(expected, rel=1e-6)
    differences = finite_difference(lambda p: objective(p)[0], start, 1e-6)
    np.testing.assert_allclose(gradient, differences, atol=2e-6 * max(1, np.abs(gradient).max()))


def test_a_part_of_the_rows_is_an_error_of_its_own(gaussian, cloud):
    """The race of the starts sees every third row, centred by itself."""
    error = ScoreError(local_source(compress(gaussian, 80).expansion_), cloud, "X")
    coordinates = coordinates_for(error)
    points = cloud[:6] + 0.1
    part = error.objective(coordinates).part(27)
    value, gradient = part(coordinates.inside(points))
    columns, target = gram_of("rbf", cloud[::3], points, gamma=0.3), gaussian.transform(cloud)
    left = squared_error(columns - columns.mean(axis=0), target[::3] - target[::3].mean(axis=0))
    assert value == pytest.approx(left / np.sum(target**2) * 80 / 27, rel=1e-6)
    differences = finite_difference(lambda p: part(p)[0], coordinates.inside(points), 1e-6)
    np.testing.assert_allclose(gradient, differences, atol=1e-6)


def test_candidates_are_chosen_for_the_components(gaussian, cloud):
    """Each next candidate explains most of the components (uncentred) per unit of its own residual."""
    error = ScoreError(local_source(compress(gaussian, 80).expansion_), cloud, "X")
    found = find_candidates(error, 6, np.random.default_rng(0)).support.indices
    gram = gram_of("rbf", cloud, gamma=0.3)
    centred = np.eye(80) - 1 / 80
    values = gram @ centred @ (gaussian.eigenvectors_ / np.sqrt(gaussian.eigenvalues_))
    chosen_rows = []
    for _ in range(6):
        s = chosen_rows
        inverse = np.linalg.inv(gram[np.ix_(s, s)])
        residual = gram - gram[:, s] @ inverse @ gram[s]
        left = values - gram[:, s] @ inverse @ values[s]
        gain = np.sum(left**2, axis=1) / np.maximum(np.diag(residual), 1e-12)
        gain[s] = 0
        chosen_rows.append(int(np.argmax(gain)))
    np.testing.assert_array_equal(found, chosen_rows)


# The refit


def test_refit_in_feature_space_is_the_pseudo_inverse(cloud):
    model = SparseKernelPCA(3, selection=np.arange(30), gamma=0.3).fit(cloud)
    small = compress(model, 12, method="removal")
    gram = gram_of("rbf", cloud[small.support_], gamma=0.3)
    cross = gram_of("rbf", cloud[small.support_], model.support_vectors_, gamma=0.3)
    np.testing.assert_allclose(small.dual_coef_, np.linalg.pinv(gram) @ cross @ model.dual_coef_, atol=1e-8)
    old = gram_of("rbf", model.support_vectors_, gamma=0.3)
    lost = (
        np.diag(model.dual_coef_.T @ old @ model.dual_coef_)
        - 2 * np.diag(small.dual_coef_.T @ cross @ model.dual_coef_)
        + np.diag(small.dual_coef_.T @ gram @ small.dual_coef_)
    )
    np.testing.assert_allclose(small.compression_["error"], np.sqrt(lost), rtol=1e-5)
    assert small.compression_["total_error"] == pytest.approx(np.sqrt(lost.sum() / 3), rel=1e-5)
    # centred as the original: the mean score of what the mean is known by stays where it was
    mean = model.expansion_.mean_coef @ cross.T
    np.testing.assert_allclose(mean @ small.dual_coef_ - small.offset_, 0, atol=1e-9)


def test_refit_on_rows_is_regression_with_an_intercept(gaussian, cloud, new_rows):
    for rows in (None, new_rows):
        small = compress(gaussian, 10, method="removal", X=rows)
        on = cloud if rows is None else rows
        design = np.column_stack([gram_of("rbf", on, cloud[small.support_], gamma=0.3), -np.ones(len(on))])
        solution = np.linalg.lstsq(design, gaussian.transform(on), rcond=None)[0]
        np.testing.assert_allclose(small.dual_coef_, solution[:-1], atol=1e-8)
        np.testing.assert_allclose(small.offset_, solution[-1], atol=1e-8)


def test_an_uncentred_model_stays_without_offset(cloud):
    model = KernelPCA(3, kernel="rbf", gamma=0.3, center=False).fit(cloud)
    small = compress(model, 10, method="removal")
    np.testing.assert_array_equal(small.offset_, 0)
    assert small.expansion_.mean_coef is None
    design = gram_of("rbf", cloud, cloud[small.support_], gamma=0.3)
    solution = np.linalg.lstsq(design, model.transform(cloud), rcond=None)[0]
    np.testing.assert_allclose(small.dual_coef_, solution, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_errors_are_what_the_two_models_say(method, gaussian, cloud, new_rows):
    for rows, kind in ((None, "training rows"), (new_rows, "X")):
        small = compress(gaussian, 8, method=method, X=rows, random_state=0)
        on = cloud if rows is None else rows
        each, total = score_errors(gaussian, small, on)
        np.testing.assert_allclose(small.compression_["error"], each, rtol=1e-6)
        assert small.compression_["total_error"] == pytest.approx(total, rel=1e-6)
        assert (small.compression_["measured_on"], small.compression_["n_rows"]) == (kind, len(on))
        assert (small.compression_["n_support_before"], small.compression_["n_support_after"]) == (80, 8)
        assert (small.compression_["method"], small.n_support_) == (method, 8)
