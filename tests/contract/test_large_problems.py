"""Many rows, many threads, many points: what is done in groups, in blocks or by iteration is what is done at once."""

import numpy as np
import pytest
import scipy.linalg
from oracles import captured_by, exact_kernel_pca, gram_of
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import SparseKernelPCA, threads
from kernelsieve.fit.captured_ratio import captured_on
from kernelsieve.fit.moments import MomentSum
from kernelsieve.fit.sample import Sample
from kernelsieve.fit.span import Points
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.rules import targeted as starts
from kernelsieve.rules.distances import kmeans_centers
from kernelsieve.rules.targeted import targeted_choice
from kernelsieve.search.lbfgs import Ascent
from kernelsieve.search.objective import CapturedVariance
from kernelsieve.solvers.greedy import StoredGram, best_for_targets, eliminate
from kernelsieve.spectrum import top as solvers
from kernelsieve.spectrum.top import refined
from kernelsieve.spectrum.whitening import triangular_whitening, whiten

THREADS = (2, 3, 5, 8, 16)


@pytest.fixture
def many_rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((3000, 4)) @ rng.standard_normal((4, 9)) / 4 + 0.1 * rng.standard_normal((3000, 9))


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that a few thousand rows make hundreds of them, in groups of several."""
    monkeypatch.setattr(threads, "CACHE_BYTES", 0)
    monkeypatch.setattr(threads, "MIN_BLOCK_ROWS", 16)


# Passes over rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_have_the_same_bits_for_any_number_of_threads(many_rows, small_blocks, dtype, weighted):
    kernel, S = named_kernel("rbf", gamma=0.5), many_rows[:40]
    W = whiten(kernel(S, S), 1e-6).matrix
    weights = np.random.default_rng(1).random(len(many_rows)) if weighted else None
    alone = MomentSum(kernel, S, W).over(many_rows.astype(dtype), weights, 1)
    for n in THREADS:
        other = MomentSum(kernel, S, W).over(many_rows.astype(dtype), weights, n)
        assert (other.scatter == alone.scatter).all()
        assert (other.mean == alone.mean).all()
        assert (other.weight, other.trace) == (alone.weight, alone.trace)


def test_fit_and_transform_have_the_same_bits_for_any_number_of_threads(many_rows, small_blocks):
    alone = SparseKernelPCA(3, n_support=20, random_state=0, n_jobs=1).fit(many_rows)
    for n in THREADS:
        other = SparseKernelPCA(3, n_support=20, random_state=0, n_jobs=n).fit(many_rows)
        assert (other.transform(many_rows) == alone.transform(many_rows)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_done_side_by_side_has_the_same_bits_for_any_number_of_threads(dtype):
    """More rows than are looked at, of more columns than points are moved in: all that can be side by side is."""
    rng = np.random.default_rng(0)
    rows = np.maximum(rng.standard_normal((6500, 12)) @ rng.standard_normal((12, 90)), 0.0).astype(dtype)

    def told(n_jobs):
        model = SparseKernelPCA(4, n_support=24, random_state=0, n_jobs=n_jobs).fit(rows)
        assert model.captured_ratio_kind_ == "sample, extrapolated"
        found = model.expansion_.points, model.expansion_.coef, model.explained_variance_, model.transform(rows)
        return [model.captured_ratio_, *model.captured_ratio_interval_, *(part.tobytes() for part in found)]

    alone = told(1)
    for n in (2, 4, 16):
        assert told(n) == alone


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_in_groups_are_the_moments_of_all_rows(many_rows, small_blocks, weighted):
    """Against the plain sums, on rows so far from the origin that one sum of squares would lose all digits."""
    kernel, S = named_kernel("linear"), np.eye(9)
    X = many_rows + 1e6
    weights = np.random.default_rng(1).random(len(X)) if weighted else None
    found = MomentSum(kernel, S, np.eye(9)).over(X, weights, 4)
    covariance = np.cov(many_rows.T, aweights=weights, bias=True)
    np.testing.assert_allclose(found.covariance(center=True), covariance, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.mean, np.average(X, axis=0, weights=weights), rtol=1e-12)


def test_a_pass_leaves_few_results_to_add(many_rows, small_blocks):
    sizes = [len(ranges) for ranges in threads.map_row_groups(list, many_rows, 30, 2)]
    assert len(sizes) <= threads.GROUPS
    assert sum(sizes) == len(many_rows) // 16 + 1


def test_groups_are_of_one_length_where_there_is_hardly_more_than_a_block_for_each(many_rows, monkeypatch):
    """Sixteen threads that take groups of one block and of two would wait for the last of these."""
    monkeypatch.setattr(threads, "MAX_BLOCK_ROWS", 36)  # 84 blocks
    monkeypatch.setattr(threads, "MIN_BLOCK_ROWS", 36)
    lengths = [sum(r.stop - r.start for r in ranges) for ranges in threads.map_row_groups(list, many_rows, 30, 2)]
    assert len(lengths) == threads.GROUPS
    assert sum(lengths) == len(many_rows)
    assert max(lengths) - min(lengths) <= 2


# Many points


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1800, 450, 450), (999, 1001, 503), (3001, 777, 31)])
def test_a_product_over_threads_has_the_bits_of_the_whole(shape, dtype):
    (n, k, p), rng = shape, np.random.default_rng(0)
    a, b = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((k, p)).astype(dtype)
    with threads.one_blas_thread():
        for left in (a, np.asfortranarray(a)):
            whole = left @ b
            for n_threads in THREADS:
                assert (threads.matmul(left, b, n_threads) == whole).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_with_many_points_has_the_same_bits_for_any_number_of_threads(many_rows, dtype):
    """Starts run side by side, factors and the spectrum are found beside passes, and products are cut up."""
    X = np.concatenate([many_rows, many_rows[::-1] + 0.01, many_rows * 0.9]).astype(dtype)

    def fit(n_jobs):
        return SparseKernelPCA(4, n_support=450, gamma=1.0, random_state=0, n_jobs=n_jobs, max_iter=8).fit(X)

    alone = fit(1)
    for n in (2, 5, 16):
        other = fit(n)
        assert (other.support_vectors_ == alone.support_vectors_).all()
        assert (other.dual_coef_ == alone.dual_coef_).all()
        assert other.captured_ratio_interval_ == alone.captured_ratio_interval_
        assert (other.explained_variance_ratio_ == alone.explained_variance_ratio_).all()


@pytest.mark.parametrize("gamma", [4.0, 0.5, 0.02])
def test_variances_on_many_points_are_those_of_the_generalised_eigenproblem(many_rows, gamma):
    """By a triangular whitening where the points' gram shows its rank by itself (the first two widths), and by its
    eigenvectors where it does not, against scipy.
    """
    kernel, S = named_kernel("rbf", gamma=gamma), np.random.default_rng(1).permutation(many_rows)[:420]
    sampled = sample_rows(many_rows, 3000, np.random.default_rng(0), None, merge=False)
    rows = Sample.of(sampled, kernel, 5, center=True).evaluation
    chosen = Points(kernel, S, None)
    gram, cross = rbf_kernel(S, gamma=gamma), rbf_kernel(rows.given, S, gamma=gamma)
    assert (triangular_whitening(chosen.gram) is None) == (gamma == 0.02)
    assert captured_on(rows, chosen) == pytest.approx(captured_by(gram, cross, 5, center=True), rel=1e-6)


def test_refined_vectors_are_the_top_of_the_spectrum():
    """From a guess that is off by a twentieth, two applications, squared twice, against scipy's dense solver."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    A = (basis * 0.7 ** np.arange(60)) @ basis.T
    root = rng.standard_normal((60, 80))
    K = root @ root.T / 80 + 0.1 * np.eye(60)
    values, vectors = scipy.linalg.eigh(A, K)
    top = vectors[:, ::-1][:, :10]
    guess = top + 0.05 * rng.standard_normal(top.shape) * np.abs(top).mean()
    found, coef = refined(lambda y: A @ y, K, np.linalg.cholesky(K), guess, 5)
    np.testing.assert_allclose(found, values[::-1][:5], rtol=1e-5)
    np.testing.assert_allclose(coef.T @ K @ coef, np.eye(5), atol=1e-9)
    assert (found <= values[::-1][:5] * (1 + 1e-12)).all()  # Rayleigh-Ritz never promises too much


def test_refining_what_is_exact_adds_nothing():
    """A remainder of rounding is no direction: brought to unit length its variance would be counted twice."""
    rng = np.random.default_rng(0)
    A = np.diag(np.r_[np.ones(4), np.zeros(16)])
    found, _ = refined(lambda y: A @ y, np.eye(20), np.eye(20), np.eye(20)[:, :6] @ rng.standard_normal((6, 6)), 6)
    np.testing.assert_allclose(found, [1, 1, 1, 1, 0, 0], atol=1e-12)


@pytest.mark.parametrize("center", [True, False])
def test_many_points_climb_as_few_do(many_rows, center, monkeypatch):
    kernel = named_kernel("rbf", gamma=0.5)
    objective = CapturedVariance(kernel, many_rows, None, None, 3, center)
    plain = Ascent(objective, many_rows[:80]).run(6)
    assert plain.at.basis is None
    monkeypatch.setattr(solvers, "LARGE", 80)
    iterated = Ascent(objective, many_rows[:80]).run(6)
    assert iterated.at.basis is not None
    cross, gram = rbf_kernel(many_rows, iterated.points, gamma=0.5), rbf_kernel(iterated.points, gamma=0.5)
    truth = captured_by(gram, cross, 3, center=center)
    assert truth * (1 - 1e-4) <= iterated.value <= truth * (1 + 1e-9)
    assert iterated.value >= plain.value * (1 - 2e-4)


def test_many_points_on_another_array_library(many_rows):
    """There the iteration starts from fewer points."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    there = SparseKernelPCA(4, n_support=120, random_state=0).fit(torch.from_numpy(many_rows))
    here = SparseKernelPCA(4, n_support=120, random_state=0).fit(many_rows)
    assert there.explained_variance_.sum() == pytest.approx(here.explained_variance_.sum(), rel=1e-4)


def test_a_fit_with_many_points_captures_what_its_scores_say(many_rows):
    model = SparseKernelPCA(5, n_support=450, gamma=2.0, random_state=0).fit(many_rows)
    exact = exact_kernel_pca(gram_of("rbf", many_rows, gamma=2.0), 5)[0].sum()
    assert model.captured_ratio_ == pytest.approx(model.eigenvalues_.sum() / exact, abs=1e-3)
    assert model.captured_ratio_ > 0.99


# Targeted rows in blocks


def test_targeted_rows_in_blocks_explain_as_much_as_one_by_one(many_rows, monkeypatch):
    X = many_rows[:700]
    K = rbf_kernel(X, gamma=1.0)
    _, vectors = np.linalg.eigh(K)
    targets = K @ vectors[:, -6:]
    one_by_one = eliminate(lambda j: K[:, j], np.diagonal(K), 90, best_for_targets, targets=targets)
    monkeypatch.setattr(starts, "ONE_BY_ONE", 20)
    state = targeted_choice(StoredGram(K, 2), targets, 90)
    assert state.chosen[:20] == one_by_one.chosen[:20]
    assert len(set(state.chosen)) == 90
    # the factor is that of the chosen rows, and targets are split into what they explain and what is left
    chosen, F = state.chosen, state.filled
    np.testing.assert_allclose(F[chosen] @ F[chosen].T, K[np.ix_(chosen, chosen)], atol=1e-10)
    np.testing.assert_allclose(state.targets + F @ state.target_coef, targets, atol=1e-10)
    left, best = (np.sum(s.targets**2) for s in (state, one_by_one))
    assert left <= 1.1 * best


def test_a_targeted_choice_in_blocks_is_a_prefix_of_a_larger_one(many_rows, monkeypatch):
    monkeypatch.setattr(starts, "ONE_BY_ONE", 10)
    K = rbf_kernel(many_rows[:400], gamma=1.0)
    targets = K @ np.linalg.eigh(K)[1][:, -4:]
    few, many = (targeted_choice(StoredGram(K), targets, n).chosen for n in (26, 58))
    assert many[: len(few)] == few


def test_a_targeted_choice_ends_where_the_rank_does(monkeypatch):
    monkeypatch.setattr(starts, "ONE_BY_ONE", 3)
    X = np.random.default_rng(0).standard_normal((200, 12))
    K = X @ X.T
    state = targeted_choice(StoredGram(K), K @ np.linalg.eigh(K)[1][:, -4:], 50)
    assert len(state.chosen) == 12


# k-means


def test_kmeans_settles_where_scikit_learn_does(many_rows):
    """From the same start, also for rows far from the origin and of tiny scale, where float32 alone would fail."""
    for shift, scale in ((0.0, 1.0), (1e7, 1.0), (0.0, 1e-30)):
        X = many_rows * scale + shift
        ours = kmeans_centers(X, 12, 300, np.random.default_rng(3), n_threads=2)
        start = X[np.random.default_rng(3).choice(len(X), 12, replace=False, p=None)]
        theirs = KMeans(12, init=start, n_init=1, max_iter=300, tol=0.0).fit(X).cluster_centers_
        np.testing.assert_allclose(ours, theirs, atol=1e-2 * scale, rtol=0)


# Some rows, or all of them


def test_an_interval_says_how_doubtful_a_ratio_is():
    """A few rows carry the variance; points that start from rows are measured on rows that they did not start from."""
    rng = np.random.default_rng(1)
    X = rng.standard_t(2, (2600, 4)) @ rng.standard_normal((4, 12)) + 0.3 * rng.standard_t(2, (2600, 12))
    gamma = 16 * 0.5 / np.median(np.sum((X[:500] - X[500:1000]) ** 2, axis=1))
    model = SparseKernelPCA(2, n_support=5, gamma=gamma, random_state=0).fit(X)
    exact = exact_kernel_pca(gram_of("rbf", X, gamma=gamma), 2)[0].sum()
    low, high = model.captured_ratio_interval_
    assert model.captured_ratio_n_samples_ == 1000
    assert low <= model.eigenvalues_.sum() / exact <= high < low + 0.03
    assert low <= model.captured_ratio_ <= high


def test_a_ratio_known_well_costs_no_gram_of_all_rows(many_rows):
    model = SparseKernelPCA(3, n_support=40, selection="kmeans", random_state=0).fit(many_rows)
    assert model.captured_ratio_kind_.startswith("sample")
