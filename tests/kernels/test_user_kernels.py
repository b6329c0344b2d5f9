"""Kernels that are functions of the user's, and kernels of distances."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from oracles import exact_kernel_pca, finite_difference
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics.pairwise import additive_chi2_kernel

import kernelsieve
from kernelsieve import (
    ElasticNetKernelPCA,
    ImprovedKernelPCA,
    KernelMonitor,
    KernelPCA,
    LikelihoodKernelPCA,
    OnlineKernelPCA,
    SparseKernelPCA,
)
from kernelsieve.kernels import RBF, bind_callable, from_distance, gram_by_number, of_objects
from kernelsieve.kernels.width import KernelRows

RNG = np.random.default_rng(0)
ROWS, POINTS = RNG.random((60, 4)), RNG.random((6, 4))


def gaussian(X, Y):
    return np.exp(-cdist(X, Y, "sqeuclidean"))


def wide(X, Y):
    return np.exp(-0.05 * cdist(X, Y, "sqeuclidean"))


DISTANCES = {
    "euclidean": (from_distance("euclidean"), cdist),
    "its root": (from_distance("euclidean", power=0.5), lambda X, Y: cdist(X, Y) ** 0.5),
    "its square": (from_distance("euclidean", power=2), lambda X, Y: cdist(X, Y, "sqeuclidean")),
    "manhattan": (from_distance("manhattan"), lambda X, Y: cdist(X, Y, "cityblock")),
    "chi2": (from_distance("chi2"), lambda X, Y: -additive_chi2_kernel(X, Y)),
    "a function": (from_distance(lambda X, Y: cdist(X, Y, "chebyshev")), lambda X, Y: cdist(X, Y, "chebyshev")),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_centred_kernel_pca_of_a_distance_is_classical_scaling(name, tmp_path):
    kernel, distance = DISTANCES[name]
    values, _, _ = exact_kernel_pca(-distance(ROWS, ROWS) / 2, 3)
    model = SparseKernelPCA(3, n_support=len(ROWS), selection="uniform", kernel=kernel).fit(ROWS)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    settled = kernel.settled(KernelRows(ROWS))
    gram = settled(ROWS, ROWS)
    np.testing.assert_allclose(settled.diagonal(ROWS), np.diagonal(gram), atol=1e-12)
    assert settled.definite is None or np.linalg.eigvalsh(gram)[0] > -1e-9
    assert (settled.definite is None) == (name == "a function")
    if name == "a function":
        with pytest.raises(TypeError, match="holds no code"):
            model.save(tmp_path / "m.ks")
        return
    assert eval(repr(kernel), vars(kernelsieve.kernels)) == kernel
    model.save(tmp_path / "m.ks")
    np.testing.assert_array_equal(kernelsieve.load(tmp_path / "m.ks").transform(POINTS), model.transform(POINTS))


@pytest.mark.parametrize("name", ["euclidean", "its root", "its square"])
def test_points_of_a_distance_move(name):
    kernel, distance = DISTANCES[name]
    settled, weights = kernel.settled(KernelRows(ROWS)), RNG.standard_normal((len(ROWS), len(POINTS)))
    pulled = settled.pullback(ROWS, POINTS, settled(ROWS, POINTS), weights)
    truth = finite_difference(lambda s: float(np.sum(weights * settled(ROWS, s))), POINTS)
    np.testing.assert_allclose(pulled, truth, atol=1e-6 * np.abs(truth).max())
    truth = finite_difference(lambda s: float(settled.diagonal(s).sum()), POINTS)
    np.testing.assert_allclose(settled.diagonal_gradient(POINTS), truth, atol=1e-6)
    rows = SparseKernelPCA(2, n_support=8, kernel=kernel, selection="targeted", random_state=0).fit(ROWS)
    moved = SparseKernelPCA(2, n_support=8, kernel=kernel, random_state=0).fit(ROWS)
    assert moved.captured_ratio_ >= rows.captured_ratio_ - 1e-9
    assert distance is not None


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_rows_that_a_point_all_but_meets_do_not_pull_it(power):
    """The distance to such a row has a kink there; the other rows pull as they do elsewhere."""
    settled, weights = from_distance("euclidean", power=power).settled(KernelRows(ROWS)), np.ones((len(ROWS), 6))
    pulled = settled.pullback(ROWS, ROWS[:6] * (1 + 1e-9), settled(ROWS, ROWS[:6]), weights)
    apart = weights - np.eye(len(ROWS), 6)

    def of_others(points):
        from_origin = cdist(np.array([settled.origin]), points) ** power
        return float((weights * from_origin - apart * cdist(ROWS, points) ** power).sum() / 2)

    truth = finite_difference(of_others, ROWS[:6])
    np.testing.assert_allclose(pulled, truth, atol=1e-6 * np.abs(truth).max())


SETS = [frozenset(np.flatnonzero(bits).tolist()) for bits in np.random.default_rng(1).random((70, 9)) < 0.4]
WORDS = ["".join(np.random.default_rng(i).choice(list("acgt"), 3 + i % 7)) for i in range(90)]


def differences(a, b):
    """The number of elements that are in one set alone, which is a distance of negative type."""
    return float(len(a ^ b))


def edits(a, b):
    """The Levenshtein distance by its definition."""
    if not a or not b:
        return len(a) + len(b)
    return min(edits(a[1:], b) + 1, edits(a, b[1:]) + 1, edits(a[1:], b[1:]) + (a[0] != b[0]))


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_centred_kernel_pca_of_a_distance_of_objects_is_classical_scaling(power):
    kernel = from_distance(of_objects(differences, definite=True), power=power)
    truth = np.array([[differences(a, b) for b in SETS] for a in SETS]) ** power
    values, _, _ = exact_kernel_pca(-truth / 2, 3)
    model = SparseKernelPCA(3, n_support=1.0, kernel=kernel).fit(SETS)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    rows = np.array([[one] for one in SETS[:5]], dtype=object)
    settled = kernel.settled(KernelRows(rows))
    np.testing.assert_allclose(settled.diagonal(rows), np.diagonal(settled(rows, rows)), atol=1e-12)
    assert settled.definite


@pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore:component")
def test_edit_distances_of_strings_are_a_kernel_that_files_hold(tmp_path):
    kernel = from_distance("levenshtein")
    assert eval(repr(kernel), vars(kernelsieve.kernels)) == kernel
    few = np.array([["cat"], ["cart"], ["a"], ["tact"]], dtype=object)
    settled = kernel.settled(KernelRows(few))
    distances = np.array([[edits(a, b) for b in few[:, 0]] for a in few[:, 0]])
    from_origin = distances[:, few[:, 0].tolist().index(settled.origin)]
    np.testing.assert_allclose(settled(few, few), (from_origin[:, None] + from_origin - distances) / 2)
    model = SparseKernelPCA(2, n_support=12, kernel=kernel, random_state=0).fit(WORDS)
    assert model.captured_ratio_ > 0.7
    model.save(tmp_path / "m.ks")
    loaded = kernelsieve.load(tmp_path / "m.ks")
    np.testing.assert_array_equal(loaded.transform(["gattaca"]), model.transform(["gattaca"]))
    assert loaded.kernel == kernel


def test_all_values_of_a_distance_of_objects_are_counted_and_kept_to():
    asked = []

    def counted(a, b):
        asked.append(1)
        return differences(a, b)

    sets = [SETS[i % 70] | {10 + i} for i in range(400)]
    for budget in (1.6, 3.0):
        asked.clear()
        kernel = from_distance(of_objects(counted, definite=True))
        model = SparseKernelPCA(2, n_support=10, kernel=kernel, max_evaluations=budget, random_state=0).fit(sets)
        assert len(asked) <= budget * 400 * 10 + 100  # the choice of the row x0, and what is tried on a few rows
        assert abs(model.n_evaluations_ - len(asked)) <= 100
    with pytest.raises(ValueError, match=r"need at least ([\d,]+)") as caught:
        clone(model).set_params(max_evaluations=1.0).fit(sets)
    least = int(str(caught.value).split("at least ")[1].split(" ")[0].replace(",", ""))
    assert clone(model).set_params(max_evaluations=least).fit(sets).n_evaluations_ <= least + 100
    whole = clone(model).set_params(max_evaluations=2**31).fit(sets)
    assert whole.captured_ratio_kind_ == "all rows"
    asked.clear()
    model.transform(sets[:7])
    assert len(asked) == 7 * 10 + 7 + 10  # the last for k(S, x0), once a batch


def test_distances_of_objects_that_are_none_are_refused():
    for function, words in (
        (lambda a, b: -1.0, "distance of .* is -1"),
        (lambda a, b: len(a) - len(b) + 50.0, "not symmetric"),
        (lambda a, b: 1.0, "from itself is 1, and not zero"),
        (lambda a, b: float("nan"), "returned nan for the pair"),
    ):
        with pytest.raises(ValueError, match=words):
            SparseKernelPCA(2, n_support=5, kernel=from_distance(of_objects(function))).fit(SETS)
    with pytest.raises(TypeError, match="holds no code"):
        SparseKernelPCA(2, n_support=9, kernel=from_distance(of_objects(differences))).fit(SETS).save("m.ks")


def test_distances_that_are_none_are_refused():
    for make in (lambda: from_distance("edit"), lambda: from_distance("euclidean", power=0)):
        with pytest.raises(ValueError, match="must be"):
            make()
    for function, words in (
        (lambda X, Y: np.zeros(3), "the distance returned shape"),
        (lambda X, Y: -cdist(X, Y) - 1, "negative number"),
        (lambda X, Y: cdist(X, Y) * np.nan, "NaN"),
        (lambda X, Y: cdist(X, Y) * (1 + X[:, :1] ** 2), "not symmetric: d"),
        (lambda X, Y: 1 + cdist(X, Y), "from itself is 1, and not zero"),
    ):
        with pytest.raises(ValueError, match=words):
            SparseKernelPCA(2, kernel=from_distance(function)).fit(ROWS)


def test_a_function_without_a_derivative_says_so_once_and_in_the_report():
    with pytest.warns(UserWarning, match="moves no points of this kernel") as told:
        model = SparseKernelPCA(2, n_support=8, kernel=gaussian, random_state=0).fit(ROWS)
    assert len([one for one in told if "moves no points" in str(one.message)]) == 1
    assert model.selection_report_["derivative"].startswith("none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseKernelPCA(2, n_support=8, kernel=gaussian, selection="targeted", random_state=0).fit(ROWS)


@pytest.mark.filterwarnings("ignore:selection='optimized'")
def test_centres_are_tried_for_vectors_and_never_for_numbers_of_objects(digits):
    seen = []

    def counted(X, Y):
        seen.extend(np.concatenate([X, Y]).ravel())
        return np.exp(-((ROWS[X.astype(int)[:, 0]][:, None] - ROWS[Y.astype(int)[:, 0]]) ** 2).sum(2))

    SparseKernelPCA(2, n_support=8, kernel=counted, random_state=0).fit(np.arange(60.0)[:, None])
    assert all(value == int(value) for value in seen)
    images = digits[0][:400]
    model = SparseKernelPCA(3, n_support=8, kernel=wide, random_state=0).fit(images)
    rows = SparseKernelPCA(3, n_support=8, kernel=wide, selection="targeted", random_state=0).fit(images)
    assert model.support_ is None
    assert model.captured_ratio_ > rows.captured_ratio_


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda X, Y: X @ Y.T + np.arange(len(X))[:, None] * 0 + X[:, :1], "not symmetric"),
        (lambda X, Y: gaussian(X, Y) * np.nan, "returned nan for the pair"),
        (lambda X, Y: gaussian(X, Y)[:1], "neither vectorised"),
        (lambda X, Y: gaussian(X, Y)[:5], r"callable returned shape \(5, \d+\), expected"),
        (lambda X, Y: gaussian(X, Y) * (1 + 1j), "complex numbers"),
        (lambda x, y: float(np.sum(x)) if np.ndim(x) == 1 else "no", "not symmetric"),
    ],
)
def test_functions_that_are_no_kernels_are_refused(function, words):
    model = SparseKernelPCA(2, n_support=8, random_state=0).fit(ROWS)
    before = model.transform(ROWS)
    with pytest.raises(ValueError, match=words):
        model.set_params(kernel=function).fit(ROWS)
    np.testing.assert_array_equal(model.transform(ROWS), before)


def test_a_function_of_tensors_has_its_derivative_by_torch():
    torch = pytest.importorskip("torch")

    def rbf(X, Y):
        return torch.exp(-2.0 * ((X[:, None, :] - Y[None, :, :]) ** 2).sum(-1))

    rows, points = torch.tensor(ROWS), torch.tensor(POINTS)
    kernel, named = bind_callable(rbf, None, rows), RBF(gamma=2.0)
    weights = RNG.standard_normal((len(ROWS), len(POINTS)))
    pulled = kernel.pullback(rows, points, None, torch.tensor(weights))
    truth = named.pullback(ROWS, POINTS, named(ROWS, POINTS), weights)
    np.testing.assert_allclose(pulled.numpy(), truth, atol=1e-10)
    by_torch = SparseKernelPCA(2, n_support=6, kernel=rbf, random_state=0).fit(rows)
    analytic = SparseKernelPCA(2, n_support=6, kernel=named, random_state=0).fit(rows)
    on_rows = SparseKernelPCA(2, n_support=6, kernel=named, selection="targeted", random_state=0).fit(rows)
    assert by_torch.selection_report_["derivative"] == "of the kernel by torch"
    assert by_torch.support_ is None
    lost = analytic.captured_ratio_ - by_torch.captured_ratio_
    assert lost < 0.2 * (analytic.captured_ratio_ - on_rows.captured_ratio_)
    with pytest.warns(UserWarning, match="moves no points"):  # which leaves torch on its way
        SparseKernelPCA(2, n_support=6, kernel=lambda X, Y: rbf(X.detach(), Y.detach()), random_state=0).fit(rows)


def test_blocks_of_values_may_be_sparse():
    rows = np.random.default_rng(0).random((30, 3))
    gram = rows @ rows.T
    model = SparseKernelPCA(2, n_support=30, selection="uniform")
    truth = np.abs(model.set_params(kernel="linear").fit_transform(rows))
    numbers = np.arange(30)
    for kernel, given in (
        (lambda X, Y: scipy.sparse.csr_array(X @ Y.T), rows),
        (of_objects(lambda i, j: scipy.sparse.csr_array(gram[np.ix_(i, j)]), blocks=True), numbers),
        (gram_by_number(scipy.sparse.csr_array(gram)), numbers),
        (gram_by_number(lambda i, j: scipy.sparse.csr_array(gram[np.ix_(i, j)])), numbers),
    ):
        np.testing.assert_allclose(np.abs(model.set_params(kernel=kernel).fit_transform(given)), truth, atol=1e-9)


def test_values_that_are_no_numbers_name_their_pair():
    def without_a_number(x, y):
        return np.where((x[:, :1] > 0.9) & (y[:, 0] > 0.9), np.nan, x @ y.T)

    rows = np.eye(8)[:, [3, 4]]
    with pytest.raises(ValueError, match=r"returned nan for the pair \[1.0, 0.0\], \[1.0, 0.0\]"):
        SparseKernelPCA(1, n_support=3, kernel=without_a_number).fit(rows)


def test_a_function_that_is_negative_where_rows_are_alike_is_told_so():
    with pytest.raises(ValueError, match="below zero for all rows"):
        SparseKernelPCA(1, n_support=3, kernel=lambda x, y: -np.exp(-cdist(x, y))).fit(ROWS)


@pytest.mark.parametrize("in_pairs", [False, True])
@pytest.mark.parametrize(
    "estimator",
    [
        KernelPCA(2),
        ElasticNetKernelPCA(2),
        ImprovedKernelPCA(2),
        LikelihoodKernelPCA(),
        OnlineKernelPCA(2),
        SparseKernelPCA(2, n_support=6),
        KernelMonitor(2, 8),
    ],
)
def test_a_kernel_that_depends_on_the_order_of_a_pair_is_refused_and_the_pair_named(estimator, in_pairs):
    def skewed(X, Y):
        block = gaussian(np.atleast_2d(X), np.atleast_2d(Y)) + 0.3 * np.atleast_2d(X)[:, :1]
        if not in_pairs:
            return block
        return float(block[0, 0]) if X.ndim == 1 else None

    model = clone(estimator).set_params(kernel="rbf").fit(ROWS)
    before = vars(model).copy()
    with pytest.raises(ValueError, match=r"not symmetric: k\(\[-?\d.+\], \[-?\d.+\]\) is"):
        model.set_params(kernel=skewed).fit(ROWS)
    assert {name for name in vars(model) if vars(model)[name] is not before.get(name)} == {"kernel"}


@pytest.mark.parametrize("selection", ["optimized", "targeted"])
def test_an_asymmetric_kernel_of_a_stream_is_refused(selection):
    stream = SparseKernelPCA(2, n_support=6, selection=selection, kernel=lambda X, Y: gaussian(X, Y) + X[:, :1])
    with pytest.raises(ValueError, match="not symmetric"):
        stream.partial_fit(ROWS)


def test_derivatives_of_the_diagonal_by_torch_are_those_of_every_row():
    """Taken sixteen rows at a time."""
    torch = pytest.importorskip("torch")
    rows = torch.tensor(np.random.default_rng(0).standard_normal((37, 3)))
    kernel = bind_callable(lambda X, Y: (X @ Y.T + 1) ** 3, None, rows)
    lengths = (rows**2).sum(1, keepdim=True)
    expected = 6 * (lengths + 1) ** 2 * rows
    torch.testing.assert_close(kernel.diagonal_gradient(rows), expected)
