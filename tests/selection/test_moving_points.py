"""What moving the points must not do: throw its own steps away, climb rounding, stick to kinks, lose directions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from oracles import captured_by, exact_kernel_pca, gram_of, value_and_gradient
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.plan import PLAN
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.sampling import sample_rows
from kernelsieve.search.lbfgs import Ascent
from kernelsieve.search.moved import NO_ROWS, Candidate, FreePoints
from kernelsieve.search.objective import CapturedVariance
from kernelsieve.search.subspace import coordinates
from kernelsieve.spectrum.top import exact_components


def training_ratio(model, X, kernel="rbf", exact=None, **params):
    """Captured variance of the best components on the model's points over exact kernel PCA's, both by LAPACK."""
    points, n_components = np.asarray(model.support_vectors_, dtype=float), model.dual_coef_.shape[1]
    captured = captured_by(gram_of(kernel, points, **params), gram_of(kernel, X, points, **params), n_components)
    if exact is None:
        exact = exact_kernel_pca(gram_of(kernel, X, **params), n_components)[0].sum()
    return captured * len(X) / exact


# Moved points are judged after their last step


def test_points_moved_on_a_small_sample_are_kept(digits):
    """Targeted rows lead k-means unmoved here, and moving them halves what is lost."""
    train, _ = digits
    model = SparseKernelPCA(10, n_support=20, gamma=1.0, random_state=0).fit(train)
    assert model.support_ is None
    assert training_ratio(model, train, gamma=1.0) > 0.80  # 0.635 with the rows themselves


def test_points_moved_among_a_hundred_rows_are_kept():
    X = load_iris().data
    lost = [
        1 - training_ratio(SparseKernelPCA(2, n_support=10, gamma=0.1, random_state=s).fit(X), X, gamma=0.1)
        for s in range(5)
    ]
    assert np.mean(lost) < 3e-4


@pytest.mark.parametrize("gamma", [0.02, 0.5, 3.0])
def test_the_default_is_no_worse_than_the_rows_it_could_have_taken(gamma, digits):
    train, _ = digits
    exact = exact_kernel_pca(gram_of("rbf", train, gamma=gamma), 5)[0].sum()
    for seed in range(3):
        ratios = {
            selection: training_ratio(
                SparseKernelPCA(5, n_support=12, selection=selection, gamma=gamma, random_state=seed).fit(train),
                train,
                exact=exact,
                gamma=gamma,
            )
            for selection in ("optimized", "targeted", "kmeans", "rpcholesky", "gain")
        }
        best = max(value for name, value in ratios.items() if name != "optimized")
        assert ratios["optimized"] > best - 1e-3, (seed, ratios)


# float32


@pytest.mark.parametrize("size", [0.3, 0.1])
def test_float32_rows_have_the_value_and_nearly_the_gradient_of_float64_rows(digits, size):
    train, _ = digits
    objective = CapturedVariance(named_kernel("rbf", gamma=1.0), train * size, None, None, 10, True)
    points = (train * size)[:60]
    found, truth = objective.light((train * 0.5)[:60], 1.0).evaluate(points), objective.evaluate(points)
    assert found.reliable
    assert found.value == pytest.approx(truth.value, rel=1e-6)
    assert np.linalg.norm(found.gradient - truth.gradient) < 0.01 * np.linalg.norm(truth.gradient)


def test_float32_rows_hand_over_when_rounding_would_be_climbed(digits):
    """Points near each other: by tr(K_SS^-1) float32's rounding is no longer small in the gradient."""
    train, _ = digits
    objective = CapturedVariance(named_kernel("rbf", gamma=1.0), train * 0.02, None, None, 10, True)
    points = (train * 0.02)[:60]
    light = objective.light((train * 0.5)[:60], 1.0)
    assert light is not None
    assert light.rows.dtype == np.float32
    found, truth = light.evaluate(points), objective.evaluate(points)
    assert not found.reliable
    assert np.linalg.norm(found.gradient - truth.gradient) > 0.01 * np.linalg.norm(truth.gradient)
    ascent = Ascent(light, points).run(3)
    assert ascent.objective is objective
    assert ascent.value == pytest.approx(objective.captured(ascent.points), rel=1e-9)


def test_what_the_search_says_it_captures_is_captured(digits):
    train, _ = digits
    total = exact_kernel_pca(gram_of("rbf", train, gamma=0.02), 10)[0].sum()
    for n_support in (50, 100):
        model = SparseKernelPCA(10, n_support=n_support, gamma=0.02, random_state=0).fit(train)
        says = model.eigenvalues_.sum() / total
        assert says == pytest.approx(training_ratio(model, train, gamma=0.02), abs=1e-5)
        assert says > 0.999


# The Gauss-Newton matrix


@pytest.mark.parametrize("name", ["rbf", "poly", "cosine", "linear"])
def test_tangents_are_inner_products_of_derivatives(name, new_rows):
    """d^2 k(s, t) / ds_a dt_a by central differences, averaged over coordinates, where it is isotropic: at s = t."""
    params = {"rbf": {"gamma": 0.3}, "poly": {"gamma": 0.4, "degree": 3, "coef0": 1.0}}.get(name, {})
    kernel = named_kernel(name, **params)
    points = new_rows[:6]
    found = kernel.tangents(points, kernel(points, points))
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    step = 1e-4
    for i in range(2):
        s = points[i]
        away = np.linalg.qr(np.column_stack([s, np.eye(len(s))]))[0][:, 1]  # poly and cosine bend along s itself
        values = gram_of(name, np.stack([s + step * away, s - step * away]), **params)
        second = (values[0, 0] + values[1, 1] - 2 * values[0, 1]) / (4 * step**2)
        assert found[i, i] == pytest.approx(second, rel=1e-3)


def test_the_metric_saves_steps(monkeypatch, digits):
    train, _ = digits
    objective = CapturedVariance(named_kernel("rbf", gamma=0.05), train, None, None, 10, True)
    with_metric = Ascent(objective, train[:30]).run(6)
    monkeypatch.setattr(CapturedVariance, "_metric", lambda *_: None)
    without = Ascent(objective, train[:30]).run(6)
    exact = exact_kernel_pca(gram_of("rbf", train, gamma=0.05), 10)[0].sum() / len(train)
    assert exact - with_metric.value < 0.8 * (exact - without.value)


# Kinks of the Laplacian kernel


def test_the_slope_on_a_kink_is_the_slope_to_one_side():
    """Rows of whole numbers, points on rows: moving one coordinate to either side, the captured variance changes as
    the gradient says, or falls where the gradient is zero."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (60, 4)).astype(float)
    objective = CapturedVariance(named_kernel("laplacian", gamma=0.4), X, None, None, 2, True)
    points = np.unique(X, axis=0)[:5]
    value, gradient = value_and_gradient(objective, points)
    step = 1e-6
    for i, j in np.ndindex(*points.shape):
        slopes = []
        for sign in (1, -1):
            moved = points.copy()
            moved[i, j] += sign * step
            slopes.append((objective.captured(moved) - value) / step)
        expected = max(max(slopes), 0.0) * (1 if slopes[0] >= slopes[1] else -1)
        assert gradient[i, j] == pytest.approx(expected, abs=1e-4)


def test_laplacian_points_leave_their_rows(digits):
    train, _ = digits
    gamma = 1 / 13
    moved = SparseKernelPCA(10, n_support=20, kernel="laplacian", gamma=gamma, random_state=0).fit(train)
    rows = SparseKernelPCA(10, n_support=20, kernel="laplacian", gamma=gamma, selection="targeted").fit(train)
    captured = [training_ratio(model, train, "laplacian", gamma=gamma) for model in (moved, rows)]
    assert captured[0] > captured[1] + 0.05


# The subspace of wide kernels


@pytest.mark.parametrize("n_components", [5, 20])
def test_wide_kernels_keep_the_directions_of_their_components(n_components):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 120)) * 0.9 ** np.arange(120)
    model = SparseKernelPCA(n_components, n_support=2 * n_components + 5, gamma=1e-4, random_state=0).fit(X)
    assert training_ratio(model, X, gamma=1e-4) > 0.99


# Exact kernel PCA of grams of low rank


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 3, 11, 12, 15, 20])
def test_a_krylov_space_that_is_exhausted_counts_no_variance_twice(rank, dtype):
    X = np.random.default_rng(rank).standard_normal((1000, rank))
    gram = X @ X.T
    for n_components in (1, 2, 5, 10):
        truth = np.maximum(exact_kernel_pca(gram, min(n_components, rank))[0], 0).sum() / len(X)
        found = exact_components(gram.astype(dtype), n_components, center=True)
        assert found.captured == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("unit", [1.0, 1e8])
def test_a_flat_spectrum_is_followed_to_its_end(unit):
    """Every row nearly like no other: the sum of the top eigenvalues grows slowly, block by block."""
    X = np.random.default_rng(82).standard_normal((773, 4)) * 10
    gram = unit * gram_of("rbf", X, gamma=0.125)
    truth = exact_kernel_pca(gram, 5)[0].sum() / len(X)
    assert exact_components(gram, 5, center=True).captured == pytest.approx(truth, rel=1e-4)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n_components", [1, 2, 10])
def test_variance_that_the_first_rows_know_nothing_of_is_found(n_components, center):
    """Rows that are like no other come first, a crowd last: columns of the first would never reach the crowd."""
    rng = np.random.default_rng(7)
    X = np.vstack([1e3 * rng.standard_normal((560, 3)), 5e4 + 0.5 * rng.standard_normal((60, 3))])
    gram = gram_of("rbf", X, gamma=0.05)
    rest = np.eye(len(X)) - (1 / len(X) if center else 0.0)
    truth = np.linalg.eigvalsh(rest @ gram @ rest)[::-1][:n_components].sum() / len(X)
    assert exact_components(gram, n_components, center=center).captured == pytest.approx(truth, rel=1e-4)


def test_rows_of_few_columns_are_kept_whole_by_a_linear_kernel():
    A = np.random.default_rng(0).standard_normal((1000, 12))
    assert SparseKernelPCA(2, kernel="linear", n_support=20, random_state=0).fit(A).captured_ratio_ > 0.999


def test_many_points_see_the_directions_that_few_can_do_without():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 200)) * np.arange(1, 201) ** -0.6
    model = SparseKernelPCA(3, n_support=150, random_state=0).fit(X)
    assert training_ratio(model, X, gamma=model.gamma_) > 0.9993


# Points that have nothing of a component


@pytest.mark.parametrize("far", [1.0, 30.0])
def test_a_component_that_no_point_is_near_is_found(monkeypatch, far):
    """Ten groups of rows, and points at nine of them: no step leads to the tenth, which is a component of its own."""
    rng = np.random.default_rng(0)
    centres = far * np.eye(10)
    X = np.repeat(centres, np.arange(80, 60, -2), axis=0) + 0.05 * far * rng.standard_normal((710, 10))
    gamma = 2.0 / far**2
    rows, kernel = sample_rows(X, 10**6, rng, None, merge=True), named_kernel("rbf", gamma=gamma)
    sample = Sample.of(rows, kernel, 9, center=True, plan=replace(PLAN, any_rule_work=0))
    search = FreePoints(sample, coordinates(sample), 13, 0.0, rng)
    start = search.coordinates.inside(np.concatenate([centres[:9], centres[:5] + 0.05 * far]))
    at_nine = Candidate(start, search.objective.captured(start), None, 0, True, {}, "nine", NO_ROWS)
    monkeypatch.setitem(vars(search), "_raced", lambda n_support: at_nine)
    found = search.search(14)
    exact = exact_kernel_pca(gram_of("rbf", X, gamma=gamma), 9)[0].sum() / len(X)
    assert at_nine.captured < 0.93 * exact
    points = search.points(found.points)
    captured = captured_by(gram_of("rbf", points, gamma=gamma), gram_of("rbf", X, points, gamma=gamma), 9)
    assert captured > 0.99 * exact
    assert found.winner == "exchanged"


# Heavy rows, rows of heavy weight, sparse rows, float32


def beside_centres(X, gamma, n_support, seed, weights):
    """What two components on moved points capture of the weighted rows, over what they do on k-means centres."""
    found = []
    for selection in ("optimized", "kmeans"):
        model = SparseKernelPCA(2, n_support=n_support, gamma=gamma, selection=selection, random_state=seed)
        points = model.fit(X, sample_weight=weights).support_vectors_
        cross = gram_of("rbf", X, points, gamma=gamma)
        about = (cross - weights @ cross / weights.sum()) * np.sqrt(weights * len(X) / weights.sum())[:, None]
        found.append(captured_by(gram_of("rbf", points, gamma=gamma), about, 2, center=False))
    return found[0] / found[1]


@pytest.mark.filterwarnings("ignore")
def test_the_early_steps_see_heavy_rows():
    """Of 3,600 rows they see a thousand, which are not to be those without the heavy ones: 0.997 then."""
    X = np.exp(np.random.default_rng(0).standard_normal((3600, 12)))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    median = np.median(np.linalg.norm(X[:300, None] - X[None, :300], axis=2))
    assert beside_centres(X, 1 / (8 * median**2), 10, 0, np.ones(len(X))) > 1.005


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_heavy_weight_are_heavy_rows(seed):
    """By their lengths alone these tails are light: 0.979 for the second seed then."""
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_normal((4200, 6)), rng.pareto(1.2, 4200) + 0.01
    assert beside_centres(X, 0.02, 8, seed, weights) > 1.005


def documents(n_rows, n_words):
    """Word counts of documents on twenty topics, of length one."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(n_words, 0.01), size=20)
    shares = 0.7 * rng.dirichlet(np.full(20, 0.1), size=n_rows) @ topics + 0.3 / n_words
    counts = np.stack([rng.multinomial(56, share / share.sum()) for share in shares])
    return scipy.sparse.csr_array(counts / np.linalg.norm(counts, axis=1, keepdims=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel", ["rbf", "cosine"])
def test_points_are_moved_in_any_vocabulary_whose_points_fit_in_memory(kernel, monkeypatch):
    """Above 20,000 words they were rows: 50 of them kept .61 of new documents, where moved points keep .99."""
    X = documents(300, 24_000)
    assert SparseKernelPCA(5, n_support=20, kernel=kernel, random_state=0).fit(X).support_ is None
    monkeypatch.setattr(SparseKernelPCA, "_plan", replace(PLAN, most_dense_values=128 * 24_000))
    for n_support, rows in ((20, False), (129, True)):
        model = SparseKernelPCA(5, n_support=n_support, kernel=kernel, random_state=0).fit(X)
        assert (model.support_ is not None) is rows


@pytest.mark.filterwarnings("ignore")
def test_more_points_keep_no_less_of_sparse_rows():
    """On the rows that they were chosen for, rows look better than moved points, and keep 7 % less of new ones."""
    X = documents(900, 6000)
    models = [SparseKernelPCA(20, n_support=m, random_state=0).fit(X[:600]) for m in (200, 400)]
    few, many = (np.var(model.transform(X[600:]), axis=0).sum() for model in models)
    assert many > 0.99 * few


@pytest.mark.parametrize("rule", ["targeted", "gain", "rpcholesky", "residual"])
def test_a_greedy_rule_takes_as_many_rows_as_float64_tells_apart(rule):
    """Under a wide kernel most rows are alike to float32, which ends such a rule after 10 to 40 rows, and not before
    float64 would."""
    X = np.random.default_rng(0).standard_normal((700, 3))
    model = SparseKernelPCA(4, n_support=60, selection=rule, gamma=0.01, random_state=0).fit(X)
    assert model.n_support_ == 60


@pytest.mark.parametrize(("rule", "factor"), [("targeted", 1 / 64), ("gain", 1 / 16)])
def test_greedy_rules_leave_no_component_without_variance_where_others_find_all(rule, factor):
    """They chose 32 rows in which the kernel had 28 and 26 directions, and the fit ended in an error."""
    X = np.random.default_rng(0).standard_normal((600, 3))
    model = SparseKernelPCA(30, n_support=32, selection=rule, gamma=f"{factor} median", random_state=0).fit(X)
    assert model.explained_variance_.shape == (30,)
    assert np.all(model.explained_variance_ > 0)


@pytest.mark.parametrize("max_iter", [10, 40])
def test_all_steps_together_are_no_more_than_were_asked_for(max_iter):
    """Steps in the race, on part of the rows and on all of them; with tol=0 none of them ends early."""
    rows = np.random.default_rng(0).standard_normal((1500, 6))
    model = SparseKernelPCA(4, n_support=15, max_iter=max_iter, tol=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=f"max_iter={max_iter}"):
        assert model.fit(rows).n_iter_ == max_iter
