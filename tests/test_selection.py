"""Choosing points: every rule against brute force, and every way to say which points and how many."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import KERNELS, captured_by, exact_kernel_pca, gram_of, held_out_ratio
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from threadpoolctl import threadpool_limits

from kernelsieve import SparseKernelPCA
from kernelsieve.selection.greedy import best_for_targets, greedy, random_by_residual
from kernelsieve.selection.kmeans import kmeans_centers

ROW_RULES = ["targeted", "rpcholesky", "uniform"]


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


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_targeted_picks_on_any_rows(seed):
    X = np.random.default_rng(seed).standard_normal((40, 3))
    gram = gram_of("rbf", X, gamma=0.5)
    values, components, _ = exact_kernel_pca(gram, 2)
    targets = gram @ components * np.sqrt(values / len(gram))
    picks = greedy(lambda j: gram[:, j], np.diagonal(gram), 8, best_for_targets, targets=targets)
    np.testing.assert_array_equal(picks, targeted_by_brute_force(gram, 2, 8))


# Rows at random


def test_rpcholesky_draws_by_the_residual():
    """The first pick follows k(x, x), the second the diagonal of the residual after it: two chi-square tests."""
    X = np.random.default_rng(0).standard_normal((6, 2)) * np.arange(1, 7)[:, None]
    gram = gram_of("linear", X) + 0.5 * np.eye(6)
    rng, n_draws = np.random.default_rng(1), 4000
    rule = random_by_residual(rng)
    picks = np.array([greedy(lambda j: gram[:, j], np.diagonal(gram), 2, rule) for _ in range(n_draws)])
    first = np.bincount(picks[:, 0], minlength=6)
    assert chisquare(first, n_draws * np.diagonal(gram) / np.trace(gram)).pvalue > 1e-3
    given = int(np.argmax(first))
    residual = np.diagonal(gram - np.outer(gram[given], gram[given]) / gram[given, given]).copy()
    others = np.arange(6) != given
    second = np.bincount(picks[picks[:, 0] == given, 1], minlength=6)
    assert second[given] == 0
    expected = residual[others] / residual[others].sum() * second.sum()
    assert chisquare(second[others], expected).pvalue > 1e-3


def test_rpcholesky_with_weights_draws_by_both():
    gram, weights = np.diag([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 3.0, 2.0, 1.0])
    rule = random_by_residual(np.random.default_rng(0), weights)
    first = [greedy(lambda j: gram[:, j], np.diagonal(gram), 1, rule)[0] for _ in range(4000)]
    mass = np.diagonal(gram) * weights
    assert chisquare(np.bincount(first, minlength=4), 4000 * mass / mass.sum()).pvalue > 1e-3


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n_rows=st.integers(2, 25))
def test_residual_stays_positive_and_picks_distinct(seed, n_rows):
    """tr R falls with every pick and equals the Schur complement's trace; R stays positive semi-definite."""
    rng = np.random.default_rng(seed)
    gram = gram_of("rbf", rng.standard_normal((25, 2)), gamma=0.7)
    picks = greedy(lambda j: gram[:, j], np.diagonal(gram), n_rows, random_by_residual(rng))
    assert len(set(picks)) == len(picks)
    traces = [np.trace(gram)]
    for m in range(1, len(picks) + 1):
        chosen = picks[:m]
        schur = gram - gram[:, chosen] @ np.linalg.pinv(gram[np.ix_(chosen, chosen)], hermitian=True) @ gram[chosen]
        assert np.linalg.eigvalsh(schur)[0] > -1e-7
        traces.append(np.trace(schur))
    assert np.all(np.diff(traces) < 1e-9)


def test_greedy_stops_at_the_rank():
    factor = np.random.default_rng(0).standard_normal((30, 4))
    gram = factor @ factor.T
    for rule in (random_by_residual(np.random.default_rng(0)), lambda state, eligible: int(eligible[0])):
        assert len(greedy(lambda j: gram[:, j], np.diagonal(gram), 20, rule)) == 4


@pytest.mark.parametrize("rule", ["uniform", "rpcholesky"])
def test_random_rows_are_rows_and_depend_on_the_seed(rule, cloud):
    supports = [
        SparseKernelPCA(2, n_support=10, selection=rule, random_state=seed).fit(cloud).support_ for seed in range(4)
    ]
    for support in supports:
        assert len(set(support)) == 10
        assert min(support) >= 0
        assert max(support) < 80
    assert len({tuple(sorted(support)) for support in supports}) == 4


def test_uniform_is_uniform(cloud):
    counts = np.zeros(20)
    for seed in range(400):
        model = SparseKernelPCA(1, n_support=4, selection="uniform", gamma=0.3, random_state=seed).fit(cloud[:20])
        counts[model.support_] += 1
    assert chisquare(counts).pvalue > 1e-3


# k-means centres


def test_kmeans_step_is_lloyds(cloud):
    """One more step from converged centres moves nothing, and each centre is the mean of the rows nearest to it."""
    centers = kmeans_centers(cloud, 5, 200, np.random.default_rng(0))
    nearest = np.argmin(pairwise_distances(cloud, centers), axis=1)
    means = np.stack([cloud[nearest == j].mean(axis=0) for j in range(5)])
    np.testing.assert_allclose(centers, means, atol=1e-10)


def test_kmeans_with_weights_is_that_of_repeated_rows(cloud):
    counts = np.random.default_rng(3).integers(1, 4, 80)
    centers = kmeans_centers(cloud, 4, 200, np.random.default_rng(0), counts.astype(float))
    nearest = np.argmin(pairwise_distances(cloud, centers), axis=1)
    means = [np.average(cloud[nearest == j], axis=0, weights=counts[nearest == j]) for j in range(4)]
    np.testing.assert_allclose(centers, means, atol=1e-10)


def test_kmeans_selection_gives_points_that_are_no_rows(blobs):
    train, _ = blobs
    model = SparseKernelPCA(3, n_support=12, selection="kmeans", random_state=0).fit(train)
    assert model.support_ is None
    assert model.support_vectors_.shape == (12, 6)
    assert pairwise_distances(train, model.support_vectors_).min(axis=1).mean() < 6


# Nested rules rise with m, and none rises above exact


@pytest.mark.parametrize("rule", ROW_RULES)
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_captured_variance_rises_with_nested_support(name, rule, cloud):
    exact = exact_kernel_pca(gram_of(name, cloud, **KERNELS[name]), 3)[0].sum()
    previous, support = 0.0, np.array([], dtype=int)
    for m in (4, 8, 16, 32, 50):
        options = {"kernel": name, "n_support": m, "selection": rule, "random_state": 0}
        model = SparseKernelPCA(3, **options, **KERNELS[name]).fit(cloud)
        np.testing.assert_array_equal(model.support_[: len(support)], support)
        support, captured = model.support_, model.eigenvalues_.sum()
        assert previous * (1 - 1e-10) <= captured <= exact * (1 + 1e-10)
        previous = captured


def test_free_points_beat_rows(digits):
    """What the frontier table says: moved points capture more, in and out of sample, than the same number of rows."""
    train, test = digits
    gram, cross = gram_of("rbf", train, gamma=0.05), gram_of("rbf", test, train, gamma=0.05)
    ratios = []
    for rule in ("uniform", "targeted", "optimized"):
        model = SparseKernelPCA(10, n_support=20, gamma=0.05, selection=rule, random_state=0).fit(train)
        assert model.captured_ratio_ <= 1
        ratios.append(held_out_ratio(model, gram, cross, model.transform(test)))
    assert ratios[0] < ratios[1] < ratios[2]
    assert ratios[2] > 0.98


@pytest.mark.parametrize("name", ["poly", "laplacian", "cosine", "linear"])
def test_free_points_under_other_kernels(name, cloud):
    """Moved points capture at least what targeted rows do."""
    options = {"n_support": 5, "kernel": name, "random_state": 0, **KERNELS[name]}
    moved = SparseKernelPCA(2, **options).fit(cloud)
    rows = SparseKernelPCA(2, selection="targeted", **options).fit(cloud)
    assert moved.eigenvalues_.sum() >= rows.eigenvalues_.sum() * (1 - 1e-3)
    assert moved.selection_report_["rule"] == "optimized"


@pytest.mark.filterwarnings("ignore:.*positive semi-definite")
@pytest.mark.parametrize("selection", ["optimized", "targeted", "rpcholesky", "uniform"])
@pytest.mark.parametrize("n_support", [5, 20])
def test_an_indefinite_kernel_stays_within_reason(n_support, selection, digits):
    """Nothing bounds the captured variance of an indefinite kernel; what is captured must still be near that of its
    positive part, for small positive eigenvalues of K_SS would otherwise blow it up without limit."""
    train = digits[0][:400]
    options = {"kernel": "sigmoid", "gamma": 0.05, "coef0": 0.2}
    model = SparseKernelPCA(2, n_support=n_support, selection=selection, random_state=0, **options).fit(train)
    with threadpool_limits(1):
        values, vectors = np.linalg.eigh(gram_of("sigmoid", train, gamma=0.05, coef0=0.2))
    positive = values > 0
    exact = exact_kernel_pca((vectors[:, positive] * values[positive]) @ vectors[:, positive].T, 2)[0].sum()
    assert 0.5 < model.eigenvalues_.sum() / exact < 1.5
    assert 0.5 < model.captured_ratio_ <= 1


@pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")
def test_narrow_kernel_keeps_the_better_start(cloud):
    """Where k-means centres fall between the rows, the race falls to the targeted start."""
    model = SparseKernelPCA(3, n_support=6, gamma=20.0, random_state=0).fit(cloud)
    targeted = SparseKernelPCA(3, n_support=6, gamma=20.0, selection="targeted").fit(cloud)
    assert model.eigenvalues_.sum() >= targeted.eigenvalues_.sum() * (1 - 1e-6)
    assert set(model.selection_report_["starts"]) == {"kmeans", "targeted"}


# Points by the user


def test_rows_a_mask_points_and_a_callable_are_the_same(cloud, new_rows):
    rows = np.array([3, 9, 27, 41, 60])
    mask = np.zeros(80, dtype=bool)
    mask[rows] = True
    seen = {}

    def choose(X, n_support, *, kernel, rng):
        seen.update(shape=X.shape, n_support=n_support, value=float(kernel(X[:1], X[:1])[0, 0]), rng=rng)
        return rows

    by_rows = SparseKernelPCA(3, selection=rows, gamma=0.3).fit(cloud)
    for selection in (mask, cloud[rows], choose, list(rows), lambda X, n_support, **_: X[rows], rows - 80):
        model = SparseKernelPCA(3, selection=selection, n_support=5, gamma=0.3).fit(cloud)
        np.testing.assert_allclose(model.transform(new_rows), by_rows.transform(new_rows), atol=1e-10)
        if getattr(selection, "ndim", 0) == 2:
            assert model.support_ is None
    np.testing.assert_array_equal(by_rows.support_, rows)
    assert seen["shape"] == (80, 5)
    assert seen["n_support"] == 5
    assert seen["value"] == 1
    assert isinstance(seen["rng"], np.random.Generator)
    gram, cross = gram_of("rbf", cloud[rows], gamma=0.3), gram_of("rbf", cloud, cloud[rows], gamma=0.3)
    assert by_rows.explained_variance_.sum() == pytest.approx(captured_by(gram, cross, 3), rel=1e-9)


def test_own_points_need_not_be_rows(cloud, new_rows):
    model = SparseKernelPCA(3, selection=new_rows[:8], gamma=0.3).fit(cloud)
    assert model.support_ is None
    np.testing.assert_array_equal(model.support_vectors_, new_rows[:8])


# How many


@pytest.mark.parametrize(("n_support", "expected"), [(7, 7), (0.1, 8), (0.101, 9), (0.5, 40)])
def test_a_number_and_a_fraction_of_the_rows(n_support, expected, cloud):
    for selection in ("targeted", "optimized"):
        model = SparseKernelPCA(2, n_support=n_support, selection=selection, random_state=0).fit(cloud)
        assert model.n_support_ == expected
        assert model.support_vectors_.shape == (expected, 5)
        assert model.dual_coef_.shape == (expected, 2)


@pytest.mark.parametrize("variance", [0.9, 0.99])
@pytest.mark.parametrize("selection", ["optimized", "targeted"])
@pytest.mark.parametrize("data", ["digits", "blobs"])
def test_auto_keeps_what_it_promises(data, selection, variance, request):
    """On rows never seen, at least `variance` - 0.005 of what exact kernel PCA captures there; and not with far more
    points than needed: the size that failed on the way is close below."""
    train, test = request.getfixturevalue(data)
    model = SparseKernelPCA(6, selection=selection, variance=variance, random_state=0).fit(train)
    gram, cross = gram_of("rbf", train, gamma=model.gamma_), gram_of("rbf", test, train, gamma=model.gamma_)
    assert held_out_ratio(model, gram, cross, model.transform(test)) >= variance - 0.005
    curve = model.selection_report_["curve"]
    sizes = [m for m, _ in curve]
    assert model.n_support_ in sizes
    assert all(0 < ratio <= 1 for _, ratio in curve)
    assert dict(curve)[model.n_support_] >= variance
    failed = [m for m, ratio in curve if ratio < variance]
    assert not failed or model.n_support_ <= 1.3 * max(failed) + 1


@pytest.mark.parametrize("selection", ["rpcholesky", "uniform", "kmeans"])
def test_auto_with_every_rule(selection, digits):
    train, _ = digits
    model = SparseKernelPCA(4, selection=selection, variance=0.95, random_state=0).fit(train)
    assert model.captured_ratio_ >= 0.945
    assert model.n_support_ < 300


def test_auto_on_few_rows(cloud):
    """Where all rows are hardly more than the first size tried, all rows it is."""
    model = SparseKernelPCA(2, random_state=0).fit(cloud[:9])
    assert model.n_support_ == 9
    assert model.captured_ratio_ == pytest.approx(1)


@pytest.mark.parametrize("selection", ["optimized", "targeted"])
@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_auto_ends_at_the_rank(name, selection, cloud):
    """Five features have five directions: no more points than that are of use."""
    model = SparseKernelPCA(2, kernel=name, selection=selection, random_state=0).fit(cloud)
    assert 3 <= model.n_support_ <= 6
    assert model.captured_ratio_ >= 0.99


def test_auto_has_a_ceiling(monkeypatch, digits):
    """A kernel too narrow for few points must not end in a gram of all rows: it stops, and says what was reached."""
    monkeypatch.setattr("kernelsieve.selection.choose.MAX_AUTO_SUPPORT", 40)
    monkeypatch.setattr("kernelsieve.selection.choose.MAX_AUTO_EXACT", 100)
    with pytest.warns(UserWarning, match=r"stopped at 40 points, which keep .*% .*smaller gamma") as caught:
        model = SparseKernelPCA(5, gamma=0.5, random_state=0).fit(digits[0][:500])
    assert model.n_support_ == 40
    assert model.captured_ratio_ < 0.99
    assert __file__ in {warning.filename for warning in caught}


def test_auto_with_given_points_takes_them_all(cloud):
    assert SparseKernelPCA(2, selection=np.arange(6)).fit(cloud).n_support_ == 6


# What was reached


@pytest.mark.parametrize("n_support", [12, 40])
@pytest.mark.parametrize("selection", ["optimized", "targeted", "uniform"])
def test_captured_ratio_is_the_truth_on_small_data(selection, n_support, digits):
    train, _ = digits
    model = SparseKernelPCA(10, n_support=n_support, selection=selection, random_state=0).fit(train)
    exact = exact_kernel_pca(gram_of("rbf", train, gamma=model.gamma_), 10)[0].sum()
    assert model.captured_ratio_kind_ == "all rows"
    assert model.captured_ratio_n_samples_ == len(train)
    assert model.captured_ratio_ == pytest.approx(model.eigenvalues_.sum() / exact, abs=1e-3)


@pytest.fixture(scope="module")
def many_rows():
    """(5000 rows, {gamma: what exact kernel PCA with 8 components captures of all of them})."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5000, 8)) @ rng.standard_normal((8, 20)) + 0.3 * rng.standard_normal((5000, 20))
    exact = {}
    for gamma in (0.0018, 0.008):  # the median width, and half of it
        model = KernelPCA(8, kernel="rbf", gamma=gamma, eigen_solver="randomized", random_state=0).fit(X)
        exact[gamma] = model.eigenvalues_.sum()
    return X, exact


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_support", [15, 60])
@pytest.mark.parametrize(
    ("selection", "gamma", "atol"),
    [("optimized", 0.0018, 0.005), ("targeted", 0.0018, 0.005), ("optimized", 0.008, 0.01), ("targeted", 0.008, 0.01)],
)
def test_captured_ratio_is_near_the_truth_on_a_sample(selection, gamma, atol, n_support, many_rows):
    """Half a point at the median width; a point at half of it, where plain ratios on so few rows are off by two."""
    X, exact = many_rows
    model = SparseKernelPCA(8, n_support=n_support, gamma=gamma, selection=selection, random_state=0).fit(X)
    assert model.captured_ratio_kind_.startswith("sample")
    assert model.captured_ratio_n_samples_ < 5000
    assert model.captured_ratio_ == pytest.approx(model.eigenvalues_.sum() / exact[gamma], abs=atol)


def test_convergence_is_reported(digits):
    train, _ = digits
    with pytest.warns(ConvergenceWarning, match="max_iter=2 steps"):
        model = SparseKernelPCA(8, n_support=15, max_iter=2, tol=1e-6, random_state=0).fit(train)
    assert not model.converged_
    assert 1 <= model.n_iter_ <= 2
    assert SparseKernelPCA(8, n_support=15, random_state=0).fit(train).converged_


def test_more_effort_captures_more(digits):
    train, _ = digits
    few, many = (
        SparseKernelPCA(8, n_support=15, max_iter=n, tol=1, random_state=0).fit(train).eigenvalues_.sum()
        for n in (4, 60)
    )
    assert many > few


# Few rows to look at


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_rows", [40, 300, 1000, 1999])
@pytest.mark.parametrize("selection", ["optimized", "targeted", "kmeans", "rpcholesky", "uniform"])
def test_small_samples_are_enough_to_choose_from(selection, n_rows):
    """However few rows are looked at, some measure and some steer, and the fit is on all of them."""
    X = np.random.default_rng(0).standard_normal((3000, 5))
    model = SparseKernelPCA(
        2, n_support=20, n_optimization_samples=n_rows, selection=selection, random_state=0, gamma=0.05
    ).fit(X)
    assert model.n_support_ == 20
    exact = KernelPCA(2, kernel="rbf", gamma=0.05, eigen_solver="randomized", random_state=0).fit(X)
    assert 0.8 < model.eigenvalues_.sum() / exact.eigenvalues_.sum() < 1 + 1e-9


def test_too_small_a_sample_is_refused():
    X = np.random.default_rng(0).standard_normal((3000, 5))
    with pytest.raises(ValueError, match=r"n_optimization_samples=100 rows are too few .* 60 points .* at least 120"):
        SparseKernelPCA(2, n_support=60, n_optimization_samples=100).fit(X)
    assert SparseKernelPCA(2, n_optimization_samples=100, variance=0.999, random_state=0).fit(X).n_support_ <= 50
