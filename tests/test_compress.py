"""compress: the same scores from fewer points, whatever the model, its kernel and the method."""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from oracles import KERNELS, assert_same_up_to_sign, exact_kernel_pca, finite_difference, gram_of
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelsieve import CompressedKernelPCA, KernelPCA, LikelihoodKernelPCA, SparseKernelPCA, compress, load
from kernelsieve.compression.candidates import find_candidates
from kernelsieve.compression.error import FeatureError, LeastSquares, ScoreError, local_source
from kernelsieve.compression.l1 import SHRINK, l1_path
from kernelsieve.compression.methods import fewest
from kernelsieve.compression.moved import coordinates_for, in_coordinates
from kernelsieve.compression.removal import eigen_order, prefix_errors, removal_order

METHODS = ["optimized", "removal", "l1", "eigen-removal"]
CHOICES = ["removal", "l1", "eigen-removal"]

pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


def sklearn_model(name, X, n_components=4, **options):
    params = KERNELS[name] if not options.pop("default_gamma", False) else {}
    return SklearnKernelPCA(n_components, kernel=name, eigen_solver="dense", **params, **options).fit(X)


def score_errors(model, small, rows):
    """|z - z'| / |z - mean z| of each component and of all together, by the two models' own transforms."""
    z, other = model.transform(rows), small.transform(rows)
    squares, variation = np.sum((z - other) ** 2, axis=0), np.sum((z - z.mean(axis=0)) ** 2, axis=0)
    return np.sqrt(squares / variation), np.sqrt(squares.sum() / variation.sum())


def squared_error(columns, target):
    """What least squares on these columns leaves, by numpy."""
    return np.sum((target - columns @ np.linalg.lstsq(columns, target, rcond=None)[0]) ** 2)


@pytest.fixture(scope="module")
def gaussian(cloud):
    return sklearn_model("rbf", cloud)


@pytest.fixture(scope="module")
def digits_model(digits):
    return SklearnKernelPCA(6, kernel="rbf", gamma=0.05, eigen_solver="arpack", random_state=0).fit(digits[0][:600])


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
    start = in_coordinates(points, coordinates)
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
    value, gradient = part(in_coordinates(points, coordinates))
    columns, target = gram_of("rbf", cloud[::3], points, gamma=0.3), gaussian.transform(cloud)
    left = squared_error(columns - columns.mean(axis=0), target[::3] - target[::3].mean(axis=0))
    assert value == pytest.approx(left / np.sum(target**2) * 80 / 27, rel=1e-6)
    differences = finite_difference(lambda p: part(p)[0], in_coordinates(points, coordinates), 1e-6)
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


# How well


def test_methods_compared(digits):
    """From the same candidates: moving the points is far ahead, and every method beats the eigenvector rule."""
    train, test = digits
    model = SklearnKernelPCA(6, kernel="rbf", gamma=0.5, eigen_solver="arpack", random_state=0).fit(train)
    small = {method: compress(model, 30, method=method, random_state=0) for method in METHODS}
    on_train = {method: small[method].compression_["total_error"] for method in METHODS}
    held_out = {method: score_errors(model, small[method], test)[1] for method in METHODS}
    for error in (on_train, held_out):
        assert error["optimized"] < 0.4 * error["removal"]
        assert error["removal"] < error["l1"] < error["eigen-removal"]


def test_moved_points_keep_the_scores_to_a_percent(digits_model, digits):
    small = compress(digits_model, 30, random_state=0)
    assert small.compression_["total_error"] < 0.004
    assert score_errors(digits_model, small, digits[1])[1] < 0.006


def test_regressing_the_scores_beats_projecting(digits_model, digits):
    """On the same points: coefficients by regression on rows against the projection in feature space."""
    train, test = digits[0][:600], digits[1]
    small = compress(digits_model, 30, method="removal", random_state=0)
    gram = gram_of("rbf", small.support_vectors_, gamma=0.05)
    cross = gram_of("rbf", small.support_vectors_, train, gamma=0.05)
    coef = np.linalg.solve(gram, cross @ (digits_model.eigenvectors_ / np.sqrt(digits_model.eigenvalues_)))
    z = digits_model.transform(test)
    projected = gram_of("rbf", test, small.support_vectors_, gamma=0.05) @ coef - cross.mean(axis=1) @ coef
    by_projection = np.linalg.norm(z - projected) / np.linalg.norm(z - z.mean(axis=0))
    assert score_errors(digits_model, small, test)[1] < 0.7 * by_projection


@pytest.mark.parametrize("method", ["optimized", "removal"])
def test_more_points_leave_a_smaller_error(method, gaussian):
    errors = [compress(gaussian, m, method=method, random_state=0).compression_["total_error"] for m in (3, 6, 12, 40)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05 * errors[0]


def test_removal_gives_every_size_for_free(gaussian):
    whole = compress(gaussian, 5, method="removal")
    curve = whole.compression_["curve"]
    for m in (5, 9, 30):
        small = compress(gaussian, m, method="removal")
        assert curve[m] == pytest.approx(small.compression_["total_error"], rel=1e-6)


# The fewest points for a target


@pytest.mark.parametrize("method", METHODS)
def test_target_error_is_met_by_few_points(method, gaussian, cloud):
    small = compress(gaussian, target_error=0.1, method=method, random_state=0)
    assert score_errors(gaussian, small, cloud)[1] <= 0.1 * (1 + 1e-9)
    fewer = compress(gaussian, small.n_support_ - 1, method=method, random_state=0)
    assert fewer.compression_["total_error"] > 0.1


class Steps:
    """A method whose error is given for every size."""

    enough_is_fewest = False

    def __init__(self, errors):
        self.errors, self.tried = errors, []

    def at(self, n_support):
        self.tried.append(n_support)
        support = SimpleNamespace(size=n_support)
        return SimpleNamespace(support=support, refit=SimpleNamespace(total=self.errors[n_support]))

    def enough(self, target):
        return self.at(len(self.errors) - 1)


@pytest.mark.parametrize("size", [1, 2, 7, 30, 63, 64])
def test_the_search_ends_at_the_fewest(size):
    method = Steps([1.0] * size + [0.1] * (65 - size))
    assert fewest(method, 0.1).support.size == size
    assert len(method.tried) <= 9


def test_moved_points_meet_a_target_with_fewer(gaussian):
    sizes = {m: compress(gaussian, target_error=0.1, method=m, random_state=0).n_support_ for m in METHODS}
    assert sizes["optimized"] < sizes["removal"] <= min(sizes["l1"], sizes["eigen-removal"])


@pytest.mark.parametrize("method", METHODS)
def test_a_target_out_of_reach_says_what_is(method, gaussian):
    with pytest.raises(ValueError, match=r"target_error=1e-17 is not reached: \d+ points leave an error of"):
        compress(gaussian, target_error=1e-17, method=method)


# Any model, any kernel


def precomputed_model(cloud, **options):
    gram = gram_of("rbf", cloud, gamma=0.3)
    return SklearnKernelPCA(4, kernel="precomputed", eigen_solver="dense", **options).fit(gram.copy())


@pytest.mark.parametrize("default_gamma", [True, False], ids=["default gamma", "gamma"])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"laplacian"}))
def test_all_points_of_scikit_learns_model_give_its_scores(name, default_gamma, cloud, new_rows):
    model = sklearn_model(name, cloud, default_gamma=default_gamma)
    small = compress(model, 80)
    np.testing.assert_allclose(small.transform(new_rows), model.transform(new_rows), atol=1e-9)
    assert small.compression_["total_error"] == 0
    np.testing.assert_array_equal(small.support_, np.arange(80))
    np.testing.assert_array_equal(small.eigenvalues_, model.eigenvalues_)
    gram = model._get_kernel(cloud)
    total = np.trace(gram) - gram.mean() * 80
    np.testing.assert_allclose(small.explained_variance_ratio_, model.eigenvalues_ / total, rtol=1e-9)
    assert (small.captured_ratio_, small.captured_ratio_kind_) == (1.0, "exact")


@pytest.mark.parametrize("method", ["auto", *CHOICES])
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"laplacian"}))
def test_every_kernel_of_scikit_learn_can_be_compressed(name, method, cloud, new_rows):
    """Better than random rows with the same regression; the published rule is not always."""
    model = sklearn_model(name, cloud)
    small = compress(model, 30, method=method, random_state=0)
    assert small.n_support_ <= 30
    rng, scores, by_chance = np.random.default_rng(0), model.transform(cloud), []
    for _ in range(5):
        columns = gram_of(name, cloud, cloud[rng.choice(80, 30, replace=False)], **KERNELS[name])
        left = squared_error(columns - columns.mean(axis=0), scores - scores.mean(axis=0))
        by_chance.append(np.sqrt(left / np.sum((scores - scores.mean(axis=0)) ** 2)))
    if method != "eigen-removal":
        assert score_errors(model, small, cloud)[1] < max(np.mean(by_chance), 1e-8)
    assert score_errors(model, small, new_rows)[1] < 0.2
    if method == "auto":
        assert small.compression_["method"] == "optimized"
    else:
        np.testing.assert_array_equal(small.support_vectors_, cloud[small.support_])


def test_a_linear_model_needs_no_more_points_than_components(cloud, new_rows):
    """scikit-learn's default kernel: PCA, whose components themselves can be the points."""
    model = SklearnKernelPCA(2).fit(cloud)
    small = compress(model, 2, random_state=0)
    assert score_errors(model, small, new_rows)[1] < 1e-4
    assert_same_up_to_sign(small.transform(new_rows), PCA(2).fit(cloud).transform(new_rows), 1e-3)
    for method in ("removal", "optimized"):
        rows = compress(model, 40, method=method, random_state=0)
        assert rows.n_support_ <= 5
        assert score_errors(model, rows, new_rows)[1] < 1e-6


@pytest.mark.parametrize("copy_X", [True, False])
def test_precomputed(copy_X, cloud, new_rows):
    """scikit-learn keeps the gram centred; the compressed model wants kernel values against its support only."""
    model = precomputed_model(cloud, copy_X=copy_X)
    vectors = sklearn_model("rbf", cloud)
    cross = gram_of("rbf", new_rows, cloud, gamma=0.3)
    for method in ("auto", *CHOICES):
        small = compress(model, 12, method=method)
        same = compress(vectors, 12, method="removal" if method == "auto" else method)
        np.testing.assert_array_equal(small.support_, same.support_)
        np.testing.assert_allclose(small.transform(cross), same.transform(new_rows), atol=1e-7)
        np.testing.assert_array_equal(small.transform(cross[:, small.support_]), small.transform(cross))
        np.testing.assert_allclose(small.explained_variance_ratio_, same.explained_variance_ratio_, rtol=1e-8)
    again = compress(small, 6, method="removal", X=cross)
    assert set(again.support_) <= set(small.support_)
    np.testing.assert_array_equal(again.transform(cross), again.transform(cross[:, again.support_]))
    assert score_errors(small, again, cross)[1] == pytest.approx(again.compression_["total_error"])
    assert compress(small, 6, X=cross[:, small.support_]).n_support_ == 6
    with pytest.raises(ValueError, match=r"points of a precomputed kernel cannot be moved.*method='removal'"):
        compress(model, 12, method="optimized")


def laplacian_of_a_pair(x, y, gamma=0.25):
    return float(np.exp(-gamma * np.abs(x - y).sum()))


def test_callable_kernels(cloud, new_rows):
    model = SklearnKernelPCA(3, kernel=laplacian_of_a_pair, kernel_params={"gamma": 0.2}, eigen_solver="dense")
    small = compress(model.fit(cloud), 25)
    named = compress(KernelPCA(3, kernel="laplacian", gamma=0.2, eigen_solver="dense").fit(cloud), 25, method="removal")
    assert small.compression_["method"] == "removal"
    np.testing.assert_array_equal(small.support_, named.support_)
    assert_same_up_to_sign(small.transform(new_rows), named.transform(new_rows), 1e-8)
    assert small.inverse_transform(small.transform(new_rows)).shape == new_rows.shape
    with pytest.raises(ValueError, match=r"points of a callable kernel cannot be moved.*method='removal'"):
        compress(model, 25, method="optimized")


def test_only_the_support_is_touched(cloud, new_rows):
    seen = []

    def kernel(X, Y):
        seen.append((len(X), len(Y)))
        return gram_of("rbf", X, Y, gamma=0.3)

    small = compress(KernelPCA(3, kernel=kernel).fit(cloud), 7)
    seen.clear()
    small.transform(new_rows)
    assert seen == [(30, 7)]


@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_sparse_rows(container, cloud, new_rows):
    rows, new = container(np.maximum(cloud, 0)), container(np.maximum(new_rows, 0))
    model = sklearn_model("rbf", rows)
    dense = sklearn_model("rbf", rows.toarray())
    for method in ("removal", "optimized"):
        small = compress(model, 20, method=method, random_state=0)
        assert score_errors(model, small, new)[1] < 0.05
        assert small.compression_["measured_on"] == "training rows"
    removal = compress(model, 20, method="removal")
    np.testing.assert_array_equal(removal.support_, compress(dense, 20, method="removal").support_)


def test_float32(digits, digits_model):
    train, test = (part.astype(np.float32) for part in digits)
    model = SklearnKernelPCA(6, kernel="rbf", gamma=0.05, eigen_solver="arpack", random_state=0).fit(train[:600])
    for method in ("optimized", "removal"):
        small = compress(model, 30, method=method, random_state=0)
        assert small.transform(test).dtype == np.float32
        np.testing.assert_allclose(small.transform(test), small.transform(test.astype(np.float64)), atol=2e-5)
        wide = compress(digits_model, 30, method=method, random_state=0)
        assert small.compression_["total_error"] == pytest.approx(wide.compression_["total_error"], rel=0.1)
    assert small.support_vectors_.dtype == np.float32


@pytest.mark.parametrize("solver", ["randomized", "arpack"])
def test_solvers_and_zero_components(solver, cloud, new_rows):
    model = SklearnKernelPCA(4, kernel="rbf", gamma=0.3, eigen_solver=solver, random_state=0).fit(cloud)
    np.testing.assert_allclose(compress(model, 80).transform(new_rows), model.transform(new_rows), atol=1e-9)
    linear = SklearnKernelPCA(8, kernel="linear", eigen_solver="dense").fit(cloud)  # five are there
    small = compress(linear, 20, method="removal")
    assert np.all(small.compression_["error"][:5] < 1e-8)
    assert small.compression_["total_error"] < 1e-8
    assert SklearnKernelPCA(kernel="linear", remove_zero_eig=True).fit(cloud).eigenvalues_.size >= 5


def fitted_models(X):
    return [
        KernelPCA(3, kernel="rbf", gamma=0.3).fit(X),
        KernelPCA(3, kernel="laplacian", gamma=0.2).fit(X),
        SparseKernelPCA(3, n_support=40, gamma=0.3, random_state=0).fit(X),
        SparseKernelPCA(3, n_support=40, gamma=0.3, selection="targeted", kernel="laplacian").fit(X),
        SparseKernelPCA(3, n_support=4, kernel="linear", random_state=0).fit(X),
        LikelihoodKernelPCA(3, gamma=0.3, n_support=30).fit(X),
        CompressedKernelPCA(3, gamma=0.3, n_support=40, random_state=0).fit(X),
    ]


def test_models_of_this_package(cloud, new_rows):
    for model in fitted_models(cloud):
        before = model.transform(new_rows)
        n_support = min(20, model.n_support_ - 1)
        small = compress(model, n_support, random_state=0)
        assert isinstance(small, CompressedKernelPCA)
        assert small.n_support_ == n_support
        exact = isinstance(model, KernelPCA)
        assert small.compression_["measured_on"] == ("training rows" if exact else "feature space")
        with_rows = compress(model, n_support, X=cloud, random_state=0)
        assert with_rows.compression_["measured_on"] == "X"
        assert score_errors(model, small, new_rows)[1] < 0.2
        assert score_errors(model, with_rows, new_rows)[1] < 0.1
        assert hasattr(small, "captured_ratio_") == exact
        assert 0.7 < with_rows.captured_ratio_ <= 1
        np.testing.assert_array_equal(model.transform(new_rows), before)


def test_moved_points_without_rows_lower_the_feature_space_error(cloud):
    model = SparseKernelPCA(3, selection=np.arange(60), gamma=0.3).fit(cloud)
    moved, rows = (compress(model, 12, method=method, random_state=0) for method in ("optimized", "removal"))
    assert moved.compression_["total_error"] < 0.7 * rows.compression_["total_error"]
    # the components' error bounds that of the scores, k(x, x) being one
    difference = model.transform(cloud) + model.offset_ - moved.transform(cloud) - moved.offset_
    assert np.abs(difference).max() <= moved.compression_["error"].max() * (1 + 1e-6)


def test_an_indefinite_kernel_without_rows_is_measured_on_its_points(cloud, new_rows):
    model = SparseKernelPCA(2, selection=np.arange(40), kernel="sigmoid", **KERNELS["sigmoid"]).fit(cloud)
    small = compress(model, 25, method="removal")
    assert small.compression_["measured_on"] == "support points"
    each, _ = score_errors(model, small, model.support_vectors_)
    np.testing.assert_allclose(small.compression_["error"], each, rtol=1e-5)


# What the compressed model does


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_it_is_a_model_like_any_other(name, cloud, new_rows, tmp_path):
    model = KernelPCA(4, kernel=name, **KERNELS[name]).fit(cloud)
    small = compress(model, 30, random_state=0)
    if name != "sigmoid":
        assert small.score(new_rows) == pytest.approx(model.score(new_rows), abs=0.05)
        errors = model.reconstruction_error(new_rows)
        np.testing.assert_allclose(small.reconstruction_error(new_rows), errors, atol=0.1 * errors.max())
    assert small.inverse_transform(small.transform(cloud)).shape == cloud.shape
    assert list(small.get_feature_names_out()) == [f"compressedkernelpca{i}" for i in range(4)]
    path = tmp_path / "small.ks"
    small.save(path)
    loaded = load(path)
    np.testing.assert_array_equal(loaded.transform(new_rows), small.transform(new_rows))
    assert loaded.compression_["total_error"] == small.compression_["total_error"]
    np.testing.assert_array_equal(loaded.compression_["error"], small.compression_["error"])
    assert set(loaded.compression_) == set(small.compression_)


def test_preimages_of_a_gaussian_model(digits, digits_model):
    """Scores go back to pictures, nearly those of exact kernel PCA's own components."""
    small = compress(digits_model, 40, random_state=0)
    test = digits[1][:20]
    back = small.inverse_transform(small.transform(test))
    assert np.mean((back - test) ** 2) < 0.6 * np.mean((test - test.mean(axis=0)) ** 2)


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "sparse"])
def test_captured_ratio(exact, cloud):
    """Variance along the orthonormalised components over exact kernel PCA's, on all rows."""
    if exact:
        small = compress(KernelPCA(3, kernel="rbf", gamma=0.3).fit(cloud), 12, method="removal")
    else:
        small = compress(SparseKernelPCA(3, selection=np.arange(15), gamma=0.3).fit(cloud), 12, X=cloud, random_state=0)
    points = small.support_vectors_
    lengths = small.dual_coef_.T @ gram_of("rbf", points, gamma=0.3) @ small.dual_coef_
    scores = gram_of("rbf", cloud, points, gamma=0.3) @ small.dual_coef_
    captured = np.trace(np.linalg.solve(lengths, np.cov(scores.T, ddof=0)))
    best = exact_kernel_pca(gram_of("rbf", cloud, gamma=0.3), 3)[0].sum() / 80
    assert small.captured_ratio_ == pytest.approx(captured / best, rel=1e-6)
    assert (small.captured_ratio_kind_, small.captured_ratio_n_samples_) == ("all rows", 80)


@pytest.mark.parametrize(("method", "n_support"), [("optimized", 3), ("removal", 8), ("eigen-removal", 8), ("l1", 8)])
def test_score_and_reconstruction_error_are_those_of_the_span_of_the_components(method, n_support):
    """Compressed components are no unit vectors: 3 points keep the scores of wine to 2 %, and 66 % of the variance."""
    rows = load_wine().data
    model = CompressedKernelPCA(2, n_support=n_support, method=method, random_state=0).fit(rows)
    gram = gram_of("rbf", rows, gamma=model.gamma_)
    exact = exact_kernel_pca(gram, 2)[0]
    points = model.support_vectors_
    lengths = model.dual_coef_.T @ gram_of("rbf", points, gamma=model.gamma_) @ model.dual_coef_
    scores = model.transform(rows)
    captured = np.sum(scores * np.linalg.solve(lengths, scores.T).T, axis=1)
    assert model.captured_ratio_ == pytest.approx(captured.sum() / exact.sum(), rel=1e-6)
    distance = model.expansion_.variance_parts(rows)[0]
    np.testing.assert_allclose(model.reconstruction_error(rows), distance - captured, atol=1e-7)
    assert model.score(rows) == pytest.approx(captured.sum() / distance.sum(), rel=1e-6)


def test_the_inverse_map_of_a_model_without_rows_is_its_own(cloud):
    model = SparseKernelPCA(3, n_support=20, kernel="poly", random_state=0, **KERNELS["poly"]).fit(cloud)
    small = compress(model, 12, random_state=0)
    scores = small.transform(cloud)
    np.testing.assert_array_equal(small.inverse_transform(scores), model.inverse_transform(scores))


def test_column_names_are_kept(cloud):
    frame = pd.DataFrame(cloud, columns=list("abcde"))
    small = compress(SklearnKernelPCA(2, kernel="rbf").fit(frame), 10, random_state=0)
    assert list(small.feature_names_in_) == list("abcde")
    assert small.transform(frame).shape == (80, 2)
    with pytest.raises(ValueError, match="feature names"):
        small.transform(frame[list("edcba")])


def test_the_same_random_state_gives_the_same_model(digits_model):
    first, second = (compress(digits_model, 12, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.support_vectors_, second.support_vectors_)
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)


def test_fit_is_exact_kernel_pca_and_compress(cloud):
    fitted = CompressedKernelPCA(3, n_support=10, gamma=0.3, method="removal", random_state=0).fit(cloud)
    by_hand = compress(KernelPCA(3, kernel="rbf", gamma=0.3).fit(cloud), 10, method="removal", random_state=0)
    np.testing.assert_array_equal(fitted.support_, by_hand.support_)
    np.testing.assert_allclose(fitted.transform(cloud), by_hand.transform(cloud), atol=1e-10)
    automatic = CompressedKernelPCA(3, gamma=0.3, target_error=0.2, random_state=0).fit(cloud)
    assert automatic.compression_["total_error"] <= 0.2
    assert by_hand.set_params(n_support=6).fit(cloud).n_support_ == 6


class Renamed(SklearnKernelPCA):
    """A user's own kind of scikit-learn's model, with a parameter more."""

    def __init__(self, label="", n_components=2):
        super().__init__(n_components, kernel="rbf")
        self.label = label


def test_subclasses_of_scikit_learns_model(cloud, new_rows):
    model = Renamed("mine").fit(cloud)
    np.testing.assert_allclose(compress(model, 80).transform(new_rows), model.transform(new_rows), atol=1e-10)


def test_a_compressed_model_can_be_fitted_again(cloud, new_rows):
    """It has the original's kernel and parameters, and fits to other rows as the original would."""
    model = SklearnKernelPCA(3, kernel="poly", degree=2, coef0=0.5, gamma=0.1, eigen_solver="dense").fit(cloud)
    refitted = clone(compress(model, 20, random_state=0)).fit(cloud[::-1][:60])
    again = model.fit(cloud[::-1][:60])
    assert score_errors(again, refitted, new_rows)[1] < 1e-3


@parametrize_with_checks([CompressedKernelPCA()])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_large_models_are_sampled(monkeypatch, digits_model, digits):
    """More rows than are compared, more points than are looked at: a part of each, by random_state."""
    monkeypatch.setattr("kernelsieve.models.compressed.MAX_ROWS", 200)
    monkeypatch.setattr("kernelsieve.models.compressed.ROWS_PER_POINT", 1)
    monkeypatch.setattr("kernelsieve.compression.candidates.MAX_POOL", 100)
    small = compress(digits_model, 20, random_state=0)
    assert (small.compression_["n_rows"], small.captured_ratio_kind_) == (200, "training rows")
    assert score_errors(digits_model, small, digits[1])[1] < 0.1


# Bad input


def test_how_far_must_be_said_once(gaussian):
    with pytest.raises(ValueError, match=r"give n_support.*or target_error"):
        compress(gaussian)
    with pytest.raises(ValueError, match="and not both"):
        compress(gaussian, 10, target_error=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"n_support": 0},
        {"n_support": -3},
        {"n_support": 2.5},
        {"target_error": 0.0},
        {"target_error": 1.5},
        {"target_error": np.nan},
        {"n_support": 5, "method": "magic"},
        {"n_support": 5, "max_iter": 0},
        {"n_support": 5, "random_state": "no"},
    ],
    ids=str,
)
def test_values_out_of_range(options, gaussian):
    name = list(options)[-1]
    with pytest.raises(ValueError, match=f"The '{name}' parameter of compress must be"):
        compress(gaussian, **options)


def test_more_points_than_there_are(gaussian, new_rows):
    with pytest.warns(UserWarning, match=r"has 80 points, no more than n_support=100: it is returned as it is"):
        small = compress(gaussian, 100)
    np.testing.assert_allclose(small.transform(new_rows), gaussian.transform(new_rows), atol=1e-10)
    assert small.compression_["method"] == "none"


def test_what_is_no_fitted_kernel_pca(cloud):
    with pytest.raises(NotFittedError):
        compress(SklearnKernelPCA(2), 5)
    with pytest.raises(NotFittedError):
        compress(SparseKernelPCA(2), 5)
    with pytest.raises(TypeError, match="scikit-learn's KernelPCA, not PCA"):
        compress(PCA(2).fit(cloud), 5)
    pipeline = make_pipeline(StandardScaler(), SklearnKernelPCA(2, kernel="rbf")).fit(cloud)
    with pytest.raises(TypeError, match=r"its last step, pipeline\[-1\]"):
        compress(pipeline, 5)
    assert compress(pipeline[-1], 5, random_state=0).n_support_ == 5


def test_rows_that_do_not_fit(gaussian, cloud, new_rows):
    with pytest.raises(ValueError, match="3 features"):
        compress(gaussian, 5, X=new_rows[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        compress(gaussian, 5, X=np.where(new_rows > 1, np.nan, new_rows))
    with pytest.raises(ValueError, match="scores of 4 rows of X do not settle the coefficients of 5 points"):
        compress(gaussian, 5, X=new_rows[:4])
    sparse = SparseKernelPCA(2, n_support=10, gamma=0.3, random_state=0).fit(cloud)
    for n_support in (5, 10):
        with pytest.raises(ValueError, match="NaN"):
            compress(sparse, n_support, X=np.where(new_rows > 1, np.nan, new_rows))


def test_a_model_without_variance_says_so(cloud):
    flat = SklearnKernelPCA(2, kernel="rbf", gamma=0.0, eigen_solver="dense").fit(cloud)
    with pytest.raises(ValueError, match="nothing to compress"):
        compress(flat, 5)


def test_too_few_steps_are_told(digits_model):
    with pytest.warns(ConvergenceWarning, match="had not converged after max_iter=4 steps"):
        small = compress(digits_model, 10, max_iter=4, random_state=0)
    assert (small.converged_, small.n_iter_ <= 4) == (False, True)


def test_candidates_leave_copies_out(cloud):
    """Every row twice: the second copies are never candidates, and the scores are kept all the same."""
    twice = np.vstack([cloud, cloud])
    model = sklearn_model("rbf", twice)
    small = compress(model, 120, method="removal")
    assert small.n_support_ <= 80
    assert small.compression_["total_error"] < 1e-6
