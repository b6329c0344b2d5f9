"""Kernels as objects: every one against its formula, its derivative by differences, in an estimator and in a file."""

from __future__ import annotations

import itertools
import operator
import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from oracles import exact_kernel_pca, finite_difference
from scipy.spatial.distance import cdist
from scipy.special import gamma as gamma_function
from scipy.special import jv
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics import pairwise
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stand_in import on_device

import kernelsieve
from kernelsieve import KernelMonitor, KernelPCA, SparseKernelPCA
from kernelsieve.kernels import (
    ANOVA,
    RBF,
    Bessel,
    Cauchy,
    Chi2,
    Constant,
    Cosine,
    Epanechnikov,
    GlobalAlignment,
    Hamming,
    HistogramIntersection,
    Jaccard,
    Laplacian,
    Levenshtein,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    Spline,
    Tanimoto,
    from_distance,
    kernel_object,
    normalized,
)
from kernelsieve.kernels.columnwise import Columnwise
from kernelsieve.kernels.width import KernelRows

RNG = np.random.default_rng(0)
ROWS, POINTS = RNG.random((40, 4)), RNG.random((6, 4))
WIDTHS = np.array([0.5, 1.0, 2.0, 0.7])


def _spline(X, Y):
    x, y = X[:, None], Y[None]
    least = np.minimum(x, y)
    return np.prod(1 + x * y + x * y * least - (x + y) / 2 * least**2 + least**3 / 3, axis=2)


def _bessel(X, Y):
    r = np.maximum(cdist(X, Y) / 0.3, 1e-9)
    return (gamma_function(2) * 2 * jv(1, r) / r) ** 2


def _min_max(X, Y):
    return np.minimum(X[:, None], Y).sum(2) / np.maximum(X[:, None], Y).sum(2)


def _rbf(X, Y, width=1.0):
    return np.exp(-cdist(X, Y, "sqeuclidean") / (2 * width**2))


CASES = {
    "rbf": (RBF(width=0.6), lambda X, Y: _rbf(X, Y, 0.6)),
    "rbf by gamma": (RBF(gamma=0.6), lambda X, Y: pairwise.rbf_kernel(X, Y, gamma=0.6)),
    "rbf by column": (RBF(width=WIDTHS), lambda X, Y: gp.RBF(WIDTHS)(X, Y)),
    "matern 1/2": (Matern(nu=0.5, width=0.6), lambda X, Y: gp.Matern(0.6, nu=0.5)(X, Y)),
    "matern 3/2": (Matern(width=0.6), lambda X, Y: gp.Matern(0.6, nu=1.5)(X, Y)),
    "matern 5/2": (Matern(nu=2.5, width=WIDTHS), lambda X, Y: gp.Matern(WIDTHS, nu=2.5)(X, Y)),
    "rational quadratic": (
        RationalQuadratic(alpha=0.7, width=0.6),
        lambda X, Y: gp.RationalQuadratic(0.6, alpha=0.7)(X, Y),
    ),
    "cauchy": (Cauchy(width=0.6), lambda X, Y: 1 / (1 + cdist(X, Y, "sqeuclidean") / 0.36)),
    "epanechnikov": (Epanechnikov(width=0.6), lambda X, Y: np.maximum(0, 1 - cdist(X, Y, "sqeuclidean") / 0.36)),
    "laplacian": (Laplacian(width=2.0), lambda X, Y: pairwise.laplacian_kernel(X, Y, gamma=0.5)),
    "laplacian by column": (Laplacian(width=WIDTHS), lambda X, Y: np.exp(-cdist(X / WIDTHS, Y / WIDTHS, "cityblock"))),
    "periodic": (
        Periodic(period=0.7, width=0.9),
        lambda X, Y: np.prod([gp.ExpSineSquared(0.9, 0.7)(X[:, [j]], Y[:, [j]]) for j in range(X.shape[1])], axis=0),
    ),
    "polynomial": (
        Polynomial(gamma=0.5, degree=3, coef0=0.5),
        lambda X, Y: pairwise.polynomial_kernel(X, Y, gamma=0.5, degree=3, coef0=0.5),
    ),
    "linear": (Linear(), pairwise.linear_kernel),
    "cosine": (Cosine(), pairwise.cosine_similarity),
    "sigmoid": (Sigmoid(gamma=0.2, coef0=0.1), lambda X, Y: pairwise.sigmoid_kernel(X, Y, gamma=0.2, coef0=0.1)),
    "chi2": (Chi2(gamma=0.8), lambda X, Y: pairwise.chi2_kernel(X, Y, gamma=0.8)),
    "histogram": (HistogramIntersection(), lambda X, Y: np.minimum(X[:, None], Y).sum(2)),
    "tanimoto": (Tanimoto(), lambda X, Y: X @ Y.T / ((X**2).sum(1)[:, None] + (Y**2).sum(1) - X @ Y.T)),
    "jaccard": (Jaccard(), _min_max),
    "anova": (
        ANOVA(degree=2, gamma=1.5),
        lambda X, Y: np.exp(-1.5 * (X[:, None] - Y) ** 2).sum(2) ** 2,
    ),
    "spline": (Spline(), _spline),
    "bessel": (Bessel(order=1, degree=2, width=0.3), _bessel),
    "sum": (RBF(width=0.6) + Linear(), lambda X, Y: _rbf(X, Y, 0.6) + X @ Y.T),
    "product": (RBF(width=0.6) * Cosine(), lambda X, Y: _rbf(X, Y, 0.6) * pairwise.cosine_similarity(X, Y)),
    "constants": (2.0 * RBF(width=0.6) + 0.5, lambda X, Y: 2 * _rbf(X, Y, 0.6) + 0.5),
    "columns": (RBF(width=0.6).on([2, 0]), lambda X, Y: _rbf(X[:, [2, 0]], Y[:, [2, 0]], 0.6)),
    "a column twice": (Linear().on([1, 1]), lambda X, Y: 2 * X[:, [1]] @ Y[:, [1]].T),
    "a slice": (
        Laplacian(gamma=0.5).on(slice(1, 3)) * RBF(width=WIDTHS[:2]).on([0, 3]),
        lambda X, Y: (
            pairwise.laplacian_kernel(X[:, 1:3], Y[:, 1:3], gamma=0.5) * gp.RBF(WIDTHS[:2])(X[:, [0, 3]], Y[:, [0, 3]])
        ),
    ),
    "normalized": (
        normalized(Polynomial(gamma=1.0, degree=2)),
        lambda X, Y: (1 + X @ Y.T) ** 2 / np.sqrt(np.outer((1 + (X**2).sum(1)) ** 2, (1 + (Y**2).sum(1)) ** 2)),
    ),
    "normalized histogram": (
        normalized(HistogramIntersection()),
        lambda X, Y: np.minimum(X[:, None], Y).sum(2) / np.sqrt(np.outer(X.sum(1), Y.sum(1))),
    ),
    "hamming": (Hamming(width=2.0).on([3]) * Cauchy(width=1.0).on([0, 1]), None),
}
WITH_TRUTH = [name for name, (_, truth) in CASES.items() if truth is not None]
SMOOTH = [name for name in WITH_TRUTH if CASES[name][0].differentiable]


def settled(kernel, rows=ROWS):
    return kernel.settled(KernelRows(rows))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", WITH_TRUTH)
def test_values_are_those_of_the_formula(name, dtype):
    kernel, truth = CASES[name]
    kernel = settled(kernel)
    block, tolerance = kernel(ROWS.astype(dtype), POINTS.astype(dtype)), 1e-12 if dtype == np.float64 else 3e-5
    expected = truth(ROWS, POINTS)
    assert block.dtype == dtype
    np.testing.assert_allclose(block, expected, atol=tolerance * np.abs(expected).max())
    own = kernel.diagonal(ROWS.astype(dtype))
    np.testing.assert_allclose(own, np.diagonal(truth(ROWS, ROWS)), rtol=max(tolerance, 1e-9))
    if kernel.unit_length:
        np.testing.assert_allclose(np.diagonal(truth(ROWS, ROWS)), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_sparse_rows_and_points_have_the_values_of_dense_ones(name):
    kernel, rows, points = settled(CASES[name][0]), np.where(ROWS > 0.5, ROWS, 0), np.where(POINTS > 0.5, POINTS, 0)
    truth = kernel(rows, points)
    for left, right in [(scipy.sparse.csr_matrix(rows), points), (scipy.sparse.csr_array(rows), None)]:
        right = scipy.sparse.csr_array(points) if right is None else right
        np.testing.assert_allclose(kernel(left, right), truth, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF, Matern, Laplacian])
def test_sparse_rows_with_a_width_for_every_column_are_fitted_as_dense_ones(kernel):
    kernel = kernel(width=[1.0, 4.0, 0.25, 2.0])
    rows = np.random.default_rng(1).random((200, 4)) * [1.0, 5.0, 0.2, 3.0]
    captured = [
        SparseKernelPCA(2, n_support=12, kernel=kernel, random_state=0).fit(given).explained_variance_.sum()
        for given in (rows, scipy.sparse.csr_array(rows))
    ]
    assert captured[1] == pytest.approx(captured[0], rel=0.01)


@pytest.mark.parametrize("name", SMOOTH)
def test_pullbacks_and_gradients_of_the_diagonal_are_derivatives(name):
    kernel, truth = CASES[name]
    kernel = settled(kernel)
    weights = RNG.standard_normal((len(ROWS), len(POINTS)))
    pulled = kernel.pullback(ROWS, POINTS, kernel(ROWS, POINTS), weights)
    expected = finite_difference(lambda s: float(np.sum(weights * truth(ROWS, s))), POINTS)
    np.testing.assert_allclose(pulled, expected, atol=1e-6 * np.abs(expected).max())
    own = kernel.diagonal_gradient(POINTS)
    expected = finite_difference(lambda s: float(np.trace(truth(s, s))), POINTS)
    np.testing.assert_allclose(0.0 if own is None else own, expected, atol=1e-5 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", ["chi2", "anova", "spline", "laplacian", "histogram", "jaccard"])
def test_rows_that_do_not_fit_into_the_cache_at_once_have_the_values_and_slopes_of_single_rows(name):
    kernel, truth = settled(CASES[name][0]), CASES[name][1]
    rows, points = RNG.random((1500, 4)), RNG.random((15, 4))
    weights = RNG.standard_normal((1500, 15))
    values = kernel(rows, points)
    np.testing.assert_allclose(values, truth(rows, points), rtol=1e-12)
    one_by_one = [kernel.pullback(rows[[i]], points, values[[i]], weights[[i]]) for i in range(len(rows))]
    np.testing.assert_allclose(kernel.pullback(rows, points, values, weights), np.sum(one_by_one, axis=0), atol=1e-9)


@pytest.mark.parametrize("kernel", [Chi2(gamma=1.0), Spline(), Laplacian(gamma=1.0)])
def test_numpy_has_its_own_buffer_again_after_a_block(kernel):
    before = np.getbufsize()
    kernel.pullback(ROWS, POINTS, kernel(ROWS, POINTS), np.ones((len(ROWS), len(POINTS))))
    assert np.getbufsize() == before


@pytest.mark.parametrize("kernel", [HistogramIntersection(), Jaccard()])
def test_points_moved_below_zero_count_as_zero_among_themselves(kernel):
    moved = POINTS - 0.5
    inside = np.maximum(moved, 0)
    np.testing.assert_allclose(kernel(moved, moved), kernel(inside, inside), atol=1e-15)


def test_small_negative_numbers_keep_their_digits_on_a_circle():
    rows = (1e-8 * np.random.default_rng(0).integers(-3, 4, (20, 2))).astype(np.float32)
    gamma = 1e14
    angles = np.pi / 3.0 * (rows[:, None].astype(np.float64) - rows)
    truth = np.exp(-4 * gamma * np.sin(angles) ** 2).prod(axis=2)
    np.testing.assert_allclose(Periodic(period=3.0, gamma=gamma)(rows, rows), truth, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_periodic_kernel_takes_off_whole_periods_without_rounding(dtype):
    rows = np.linspace(0, 3, 16, endpoint=False)[:, None].astype(dtype)  # multiples of 3/16: sums below are exact
    kernel = Periodic(period=0.75, gamma=0.8)
    moved = rows + dtype(0.75 * 2**16)
    np.testing.assert_allclose(kernel(moved, rows), kernel(rows, rows), rtol=2e-6 if dtype == np.float32 else 1e-14)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_bessel_kernels_of_every_order_near_and_far(order):
    r = np.array([1e-12, 1e-6, 1e-3, 0.3, 0.9, 1.1, 4.0, 60.0])
    expected = gamma_function(order + 1) * 2**order * jv(order, r) / r**order
    found = Bessel(order=order, width=1.0)(np.zeros((1, 1)), r[:, None])[0]
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_gram_of_points_is_moved_as_they_are(name):
    """sum_ij W_ij k(s_i, s_j) for symmetric W: by twice the derivative in the second argument."""
    kernel, truth = CASES[name]
    kernel = settled(kernel)
    weights = RNG.standard_normal((len(POINTS), len(POINTS)))
    weights = weights + weights.T
    pulled, _ = kernel.slopes(POINTS, POINTS, kernel(POINTS, POINTS), 2 * weights)
    if name == "normalized histogram":
        return  # whose part takes half of its own kink, and the other half by the diagonal: held by the test above
    expected = finite_difference(lambda s: float(np.sum(weights * truth(s, s))), POINTS)
    np.testing.assert_allclose(pulled, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", SMOOTH)
def test_in_units_of_its_width_it_is_the_same_kernel(name):
    kernel = settled(CASES[name][0])
    scale, unit = kernel.unit(ROWS)
    values, expected = unit(ROWS * scale, POINTS * scale), kernel(ROWS, POINTS)
    largest = np.unravel_index(np.argmax(np.abs(expected)), expected.shape)
    np.testing.assert_allclose(values, expected * (values[largest] / expected[largest]), rtol=1e-8)


@pytest.mark.parametrize("factors", [(1.0,) * 4, (0.5,) * 4, (0.5, 2.0, 1.0, 3.0)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_a_stretched_kernel_is_that_of_stretched_rows(name, factors):
    kernel, by = settled(CASES[name][0]), np.array(factors)
    found = kernel.stretched(factors)
    np.testing.assert_allclose(found(ROWS, POINTS), kernel(ROWS * by, POINTS * by), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.diagonal(ROWS), kernel.diagonal(ROWS * by), rtol=1e-9)
    if kernel.differentiable:
        weights = RNG.standard_normal((len(ROWS), len(POINTS)))
        pulled = found.pullback(ROWS, POINTS, found(ROWS, POINTS), weights)
        of_stretched = kernel.pullback(ROWS * by, POINTS * by, kernel(ROWS * by, POINTS * by), weights)
        np.testing.assert_allclose(pulled, of_stretched * by, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_repr_reads_back_and_pickles_and_clones_are_equal(name):
    kernel = CASES[name][0]
    for one in (kernel, settled(kernel)):
        assert eval(repr(one), vars(kernelsieve.kernels)) == one
        assert pickle.loads(pickle.dumps(one)) == one
        assert clone(one) == one
        assert hash(settled(one)) == hash(settled(one))


@pytest.mark.parametrize("left", [operator.add, operator.mul])
@pytest.mark.parametrize("right", [operator.add, operator.mul])
def test_repr_groups_parts_as_they_are(left, right):
    k1, k2, k3 = RBF(width=0.6), Linear(), Cosine()
    for one in (left(k1, right(k2, k3)), left(right(k1, k2), k3)):
        assert eval(repr(one), vars(kernelsieve.kernels)) == one


@pytest.mark.parametrize("kernel", [RBF(width=0.6), Laplacian(width=2.0), Linear(), Hamming()])
def test_numbers_change_no_property_and_a_normalized_kernel_is_bounded(kernel):
    for fact in ("differentiable", "stationary", "isotropic", "bounded"):
        assert getattr(2.0 * kernel, fact) == getattr(kernel, fact) == getattr(kernel + 0.5, fact)
    assert normalized(kernel).bounded  # |k(x, y)|^2 <= k(x, x) k(y, y)


@pytest.mark.parametrize("join", [operator.add, operator.mul])
def test_a_sum_has_a_property_that_both_parts_have_and_takes_the_distance_that_one_of_them_takes(join):
    smooth, steps, inner, odd = RBF(width=0.6), Hamming(width=1.0), Linear(), Sigmoid()
    kinds = (smooth, Laplacian(width=2.0), steps, inner, odd, Matern(width=1.0))
    for one, other in itertools.product(kinds, repeat=2):
        both = join(one, other)
        for fact in ("differentiable", "stationary", "isotropic", "bounded"):
            assert getattr(both, fact) == (getattr(one, fact) and getattr(other, fact))
        manhattan = {one.metric, other.metric} != {"euclidean"}
        assert both.metric == ("manhattan" if manhattan else "euclidean")
        signs = {one.definite, other.definite}
        assert both.definite is (False if False in signs else None if None in signs else True)


@pytest.mark.parametrize("name", CASES)
def test_exponents_of_far_rows_are_logarithms_of_the_values(name):
    """Near enough for the values to be numbers; kernels that fall off by distance have them."""
    kernel = settled(CASES[name][0])
    found = kernel.far_exponents(ROWS, POINTS)
    assert found is not None or not isinstance(kernel, RBF | Matern | Cauchy | RationalQuadratic | Laplacian | Hamming)
    if found is not None:
        np.testing.assert_allclose(found, np.log(kernel(ROWS, POINTS)), rtol=1e-9, atol=1e-12)
        other = RBF(gamma=0.5)
        for both in (kernel + 0.5, 3.0 * kernel, kernel + other, kernel * other):
            np.testing.assert_allclose(
                both.far_exponents(ROWS, POINTS), np.log(both(ROWS, POINTS)), rtol=1e-9, atol=1e-12
            )
    assert (kernel + Linear()).far_exponents(ROWS, POINTS) is None
    assert (Linear() * kernel).far_exponents(ROWS, POINTS) is None


def test_parameters_of_kernels_may_be_at_their_limits():
    x = np.abs(ROWS[:5])
    for kernel in (
        Polynomial(0),
        Polynomial(0.5, gamma=1.0),
        ANOVA(1, width=1.0),
        Bessel(order=0, degree=1, width=1.0),
    ):
        assert np.isfinite(settled(kernel)(x, x)).all()
    np.testing.assert_allclose(settled(Polynomial(0))(x, x), 1.0)


@pytest.mark.parametrize("near", [1e3, 3e4])
def test_tensors_far_from_the_origin_keep_the_digits_of_their_differences(near):
    """Of rows beside points at the origin and far from it, against differences in float64."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.standard_normal((4, 3)), near + rng.standard_normal((4, 3))]).astype(np.float32)
    rows = np.concatenate([points[:6] + 0.5, points[2:] - 0.25]).astype(np.float32)
    expected = np.exp(-0.5 * cdist(rows.astype(float), points.astype(float), "sqeuclidean"))
    found = RBF(gamma=0.5)(torch.tensor(rows), torch.tensor(points)).numpy()
    np.testing.assert_allclose(found, expected, atol=3e-6)


@pytest.mark.parametrize("name", CASES)
def test_grams_of_kernels_that_are_called_definite_are(name):
    kernel = settled(CASES[name][0])
    lowest = np.linalg.eigvalsh(kernel(ROWS, ROWS))[0]
    assert kernel.definite is not True or lowest > -1e-10
    assert (kernel.definite is False) == (name in ("sigmoid", "epanechnikov"))


@pytest.mark.parametrize("estimator", [KernelPCA, SparseKernelPCA])
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("sigmoid", "a column twice")])
def test_on_all_rows_it_is_kernel_pca_of_the_gram_and_the_file_has_it(name, estimator, tmp_path):
    kernel = CASES[name][0]
    gram = settled(kernel)(ROWS, ROWS)
    values, _, _ = exact_kernel_pca(gram, 2)
    more = {} if estimator is KernelPCA else {"n_support": len(ROWS), "selection": "uniform"}
    model = estimator(2, kernel=kernel, **more).fit(ROWS)
    np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-6)
    model.save(tmp_path / "m.ks")
    again = kernelsieve.load(tmp_path / "m.ks")
    assert again.kernel == kernel
    assert again.expansion_.kernel == settled(kernel)
    np.testing.assert_array_equal(again.transform(POINTS), model.transform(POINTS))


def test_widths_that_rows_settle():
    rows = RNG.standard_normal((200, 3)) * [1.0, 10.0, 0.1]
    upper = np.triu_indices(len(rows), 1)
    euclidean = np.median(cdist(rows, rows)[upper])
    assert RBF().settled(KernelRows(rows)).gamma == pytest.approx(1 / (2 * euclidean**2), rel=1e-4)
    assert Cauchy(width="median").settled(KernelRows(rows)).gamma == pytest.approx(1 / (2 * euclidean**2), rel=1e-4)
    assert RBF(gamma="scale").settled(KernelRows(rows)).gamma == pytest.approx(1 / (3 * rows.var()))
    categories = RNG.integers(0, 3, (100, 4)).astype(float)
    differ = cdist(categories, categories, "hamming")[np.triu_indices(100, 1)] * 4
    assert Hamming().settled(KernelRows(categories)).gamma == pytest.approx(1 / np.median(differ[differ > 0]))
    positive = np.abs(rows)
    chi2 = -pairwise.additive_chi2_kernel(positive)[upper]
    assert Chi2().settled(KernelRows(positive)).gamma == pytest.approx(1 / np.median(chi2), rel=1e-4)
    assert RBF(gamma=0).settled(KernelRows(rows)).gamma == 0.0  # a number, not the absence of one
    per_column = RBF(width="median per column").settled(KernelRows(rows))
    scaled = rows / [np.median(cdist(rows[:, [j]], rows[:, [j]])[upper]) for j in range(3)]
    truth = _rbf(scaled, scaled, np.median(cdist(scaled, scaled)[upper]))
    np.testing.assert_allclose(per_column(rows, rows), truth, rtol=1e-4)


def test_parameters_are_reached_through_estimators_pipelines_and_searches():
    kernel = RBF(width=1.0).on([0, 1]) + 0.5 * Matern()
    model = SparseKernelPCA(2, n_support=8, kernel=kernel, random_state=0)
    assert model.get_params()["kernel__k1__kernel__width"] == 1.0
    other = clone(model).set_params(kernel__k1__kernel__width=3.0, kernel__k2__k1__value=2.0, n_support=9)
    assert other.kernel == RBF(width=3.0).on([0, 1]) + 2.0 * Matern()
    assert other.n_support == 9
    assert model.kernel == kernel
    with pytest.raises(ValueError, match="Invalid parameter 'k3__width'"):
        model.set_params(kernel__k3__width=1.0)
    for name in ("k1", "k2", "k1__kernel", "k2__k2"):
        for value in (0.3, "rbf", None):
            with pytest.raises(ValueError, match=f"{name.rpartition('__')[2]}={value!r} of a kernel"):
                model.set_params(**{f"kernel__{name}": value})
    assert model.kernel == kernel
    pipeline = make_pipeline(StandardScaler(), SparseKernelPCA(2, n_support=8, kernel=RBF(), random_state=0))
    search = GridSearchCV(pipeline, {"sparsekernelpca__kernel__width": [0.5, 1.0, "median"]}, cv=2, error_score="raise")
    assert search.fit(ROWS).best_params_["sparsekernelpca__kernel__width"] in (0.5, 1.0, "median")


def test_names_of_columns_are_those_of_the_frame(tmp_path):
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c", "d"])
    model = SparseKernelPCA(2, n_support=8, kernel=RBF(width=0.5).on(["c", "a"]), random_state=0).fit(frame)
    assert model.expansion_.kernel == RBF(gamma=2.0).on([2, 0])
    by_number = SparseKernelPCA(2, n_support=8, kernel=RBF(width=0.5).on([2, 0]), random_state=0).fit(ROWS)
    np.testing.assert_allclose(model.transform(frame), by_number.transform(ROWS))
    before = model.transform(frame)
    with pytest.raises(ValueError, match="names column 'z', and the rows have 'a', 'b', 'c', 'd'"):
        model.set_params(kernel=RBF().on(["a", "z"])).fit(frame)
    np.testing.assert_array_equal(model.transform(frame), before)
    with pytest.raises(ValueError, match="names column 'a', and the rows have no names"):
        SparseKernelPCA(2, kernel=RBF().on("a")).fit(ROWS)
    with pytest.raises(ValueError, match="names column 4, and the rows have 4 columns"):
        SparseKernelPCA(2, kernel=RBF().on(4)).fit(ROWS)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF(width=0), "above zero"),
        (lambda: RBF(width=10**400), "must be a positive number"),
        (lambda: GlobalAlignment(1e200), "must lie between 1e-150 and 1e"),
        (lambda: Levenshtein(1e-200), "must lie between 1e-150 and 1e"),
        (lambda: Periodic(10**400), "of Periodic must be a positive number"),
        (lambda: RBF(gamma=-1.0), "must be a positive number, or 'median' or 'scale'"),
        (lambda: RBF(width="mean"), "must be a positive number, or 'median' or 'median per column'"),
        (lambda: RBF(width=1.0, gamma=1.0), "not both"),
        (lambda: RBF(width=[1.0, np.nan]), "must be a positive number"),
        (lambda: Matern(nu=1.0), "one of 0.5, 1.5, 2.5"),
        (lambda: RationalQuadratic(alpha=0), "alpha=0"),
        (lambda: Periodic(period=-1), "period=-1"),
        (lambda: Bessel(order=0.5), "whole number"),
        (lambda: ANOVA(degree=0), "whole number"),
        (lambda: Hamming(width=[1.0, 2.0]), "one width for all columns"),
        (lambda: RBF().on([]), "numbers or names of columns"),
        (lambda: RBF().on([1.5]), "numbers or names of columns"),
        (lambda: RBF().on(None), "numbers or names of columns"),
        (lambda: RBF().on(np.array(1.0)), "numbers or names of columns"),
        (lambda: RBF().on(slice("a")), "numbers or names of columns"),
        (lambda: RBF().on(slice(None, None, 0)), "numbers or names of columns"),
        (lambda: -1.0 * RBF(), "a positive number"),
        (lambda: Constant(0.0), "a positive number"),
        (lambda: RBF(width=1e-300), "width=1e-300 of a kernel must lie between 1e-150 and"),
        (lambda: RBF(width=[1.0, 1e300]), "must lie between"),
        (lambda: Polynomial("a"), "degree='a' of Polynomial must be a number"),
        (lambda: Polynomial(-1), "degree=-1 of Polynomial must be a number, at least 0"),
        (lambda: Polynomial(coef0="b"), "coef0='b' of Polynomial must be a number"),
        (lambda: Sigmoid(coef0=np.nan), "coef0=nan of Sigmoid must be a number"),
    ],
)
def test_nonsense_is_refused_when_it_is_written(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("given", ["rbf", 1.0, RBF])
def test_only_a_kernel_is_normalized(given):
    with pytest.raises(TypeError, match=r"normalized\(\) needs a kernel of kernelsieve.kernels, as in"):
        normalized(given)


NUMBERS = [
    (kind, field.name)
    for kind in (getattr(kernelsieve.kernels, name) for name in kernelsieve.kernels.__all__)
    if isinstance(kind, type) and is_dataclass(kind)
    for field in fields(kind)
    if field.name in ("width", "gamma", "period", "alpha", "coef0", "degree", "order", "power", "decay", "value")
]


@pytest.mark.parametrize(("kind", "name"), NUMBERS)
def test_a_parameter_that_is_no_number_is_refused_in_words(kind, name):
    for value in ({}, [[1.0]], 2 + 1j, "3", np.array(["a"]), np.nan):
        with pytest.raises(ValueError, match=r"must be|is multiplied by|inhomogeneous|could not convert|has one width"):
            kind(**{name: value})


def test_a_number_of_numpy_is_written_as_a_number():
    assert repr(RBF() * np.float32(2.0)) == "RBF() * 2.0"


def test_what_does_not_combine_is_refused():
    with pytest.raises(TypeError, match="unsupported operand"):
        RBF() + "linear"
    with pytest.raises(ValueError, match="width has 2 numbers for 4 columns"):
        SparseKernelPCA(2, kernel=RBF(width=[1.0, 2.0])).fit(ROWS)


@pytest.mark.parametrize(
    "kernel",
    [Chi2(), HistogramIntersection(), Jaccard(), Spline(), 2.0 * Chi2().on([1, 2]), RBF() + from_distance("chi2")],
)
def test_negative_numbers_are_refused_where_a_kernel_has_none(kernel):
    model = SparseKernelPCA(2, n_support=8, kernel=kernel, random_state=0).fit(ROWS)
    before, rows = model.transform(ROWS), ROWS.copy()
    rows[-1, 2] = -0.25
    for call in (model.fit, model.transform):
        with pytest.raises(ValueError, match=r"column 2 has -0.25, and .+ is a kernel of rows without"):
            call(rows)
        with pytest.raises(ValueError, match=r"column 2 has -0.25, and .+ is a kernel of rows without"):
            call(scipy.sparse.csr_array(rows))
    np.testing.assert_array_equal(model.transform(ROWS), before)
    assert model.support_vectors_[:, [1, 2]].min() >= 0
    frame = pd.DataFrame(rows, columns=["a", "b", "c", "d"])
    with pytest.raises(ValueError, match="column 'c' has"):
        clone(model).fit(frame)


@pytest.mark.parametrize("kernel", [Tanimoto(), Jaccard()])
@pytest.mark.parametrize("sparse", [False, True])
def test_sets_counts_and_empty_rows(kernel, sparse):
    bits = (RNG.random((60, 12)) < 0.3).astype(float)
    bits[:3] = 0
    sets = [set(np.flatnonzero(row)) for row in bits]
    truth = np.array([[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets])
    rows = scipy.sparse.csr_matrix(bits) if sparse else bits
    np.testing.assert_allclose(kernel(rows, rows), truth, atol=1e-12)
    model = SparseKernelPCA(3, n_support=12, kernel=kernel, random_state=0).fit(rows)
    assert np.isfinite(model.transform(rows)).all()
    assert model.captured_ratio_ > 0.8


def test_a_kernel_can_be_called_on_rows_which_then_settle_it():
    np.testing.assert_allclose(RBF(width=0.5)(ROWS, POINTS), _rbf(ROWS, POINTS, 0.5))
    np.testing.assert_allclose(RBF()(ROWS), settled(RBF())(ROWS, ROWS))
    np.testing.assert_allclose((2.0 * RBF())(ROWS), 2.0 * RBF()(ROWS))  # the number needs no rows, the other part does


@pytest.mark.parametrize("estimator", [SparseKernelPCA(2), KernelPCA(2), KernelMonitor(2, 8)])
def test_a_class_in_place_of_a_kernel_is_refused(estimator):
    with pytest.raises(TypeError, match=r"kernel=Matern is a class: give an instance, Matern\(\.\.\.\)"):
        clone(estimator).set_params(kernel=Matern).fit(ROWS)


def test_a_gamma_that_would_be_ignored_is_refused():
    for given in ({"gamma": 0.3}, {"degree": 2}, {"coef0": 0.5}):
        with pytest.raises(ValueError, match=f"{next(iter(given))}=.* would be ignored: say it in kernel=RBF"):
            SparseKernelPCA(2, kernel=RBF(), **given).fit(ROWS)
    with pytest.raises(ValueError, match="would be ignored"):
        KernelPCA(2, kernel=RBF(), gamma=1.0).fit(ROWS)
    with pytest.raises(ValueError, match="kernel_params"):
        SparseKernelPCA(2, kernel=RBF(), kernel_params={"a": 1}).fit(ROWS)


def test_a_name_and_its_object_are_the_same_kernel():
    for name, kernel in (("rbf", RBF()), ("matern", Matern()), ("laplacian", Laplacian()), ("poly", Polynomial())):
        by_name = SparseKernelPCA(2, n_support=8, kernel=name, random_state=0).fit(ROWS)
        by_object = SparseKernelPCA(2, n_support=8, kernel=kernel, random_state=0).fit(ROWS)
        assert by_name.expansion_.kernel == by_object.expansion_.kernel
        assert by_name.gamma_ == by_object.gamma_
        np.testing.assert_array_equal(by_name.transform(ROWS), by_object.transform(ROWS))


def test_a_monitor_names_the_column_behind_an_alarm_of_a_composed_kernel():
    normal = RNG.standard_normal((300, 4))
    kernel = RBF().on([0, 1]) * Matern().on([2, 3])
    monitor = KernelMonitor(n_components=8, n_support=40, kernel=kernel, random_state=0).fit(normal)
    odd = np.zeros((3, 4))
    odd[np.arange(3), [0, 2, 3]] = [7.0, -9.0, 40.0]
    assert (monitor.predict(odd) == -1).all()
    assert np.argmax(monitor.contributions(odd), axis=1).tolist() == [0, 2, 3]


def test_a_monitor_that_mixes_columns_refuses_a_kernel_that_names_them():
    frame = pd.DataFrame(RNG.standard_normal((60, 3)), columns=list("abc"))
    kernel = 0.5 * (RBF().on(["a"]) + RBF().on([1]))
    with pytest.raises(ValueError, match=r"whiten=True mixes all columns, and .*on\(\['a'\]\).* names some"):
        KernelMonitor(1, kernel=kernel, whiten=True).fit(frame)
    KernelMonitor(1, kernel=kernel, lags=1).fit(frame)


@pytest.mark.parametrize(
    "kernel", [Chi2(), Jaccard(), Spline(), RBF().on([0]) * HistogramIntersection().on([1, 2]), from_distance("chi2")]
)
@pytest.mark.parametrize("given", [False, True])
def test_a_monitor_keeps_rows_without_negative_numbers_so(kernel, given):
    counts = np.random.default_rng(0).poisson([2.0, 5.0, 9.0], size=(200, 3)).astype(float)
    monitor = KernelMonitor(4, 20, kernel=kernel, random_state=0)
    if given:
        monitor = KernelMonitor(estimator=SparseKernelPCA(4, n_support=20, kernel=kernel, random_state=0))
    monitor.fit(counts)
    assert np.mean(monitor.predict(counts) == 1) > 0.9
    np.testing.assert_allclose(monitor.input_map_(counts), counts / counts.std(axis=0))


def test_the_table_of_the_site_says_what_each_kernel_can_do():
    page = Path(__file__).parents[2] / "docs" / "kernels.md"
    lines = [line.split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    told = {cells[0].strip("| `"): (cells[-2], cells[-1].strip(" |")) for cells in lines if len(cells) == 6}
    public = {name: getattr(kernelsieve.kernels, name) for name in kernelsieve.kernels.PUBLIC}
    for name, kind in public.items():
        if name in ("Kernel", "Constant") or not isinstance(kind, type) or kind.of_objects:
            continue
        kernel = kind()
        moves = kernel.differentiable and kernel.moves and kernel.definite is not False
        assert told[name] == ("yes" if moves else "no", "no" if kernel.not_exported else "yes"), name


# scikit-learn's Gaussian-process kernels

GP = {
    "rbf": gp.RBF(0.6),
    "anisotropic": gp.RBF(WIDTHS),
    "matern": gp.Matern(0.6, nu=2.5),
    "infinite matern": gp.Matern(0.6, nu=np.inf),
    "rational": gp.RationalQuadratic(0.6, alpha=0.3),
    "dot": gp.DotProduct(sigma_0=0.5),
    "polynomial": gp.DotProduct(sigma_0=0.5) ** 3,
    "power": gp.Matern(0.6, nu=1.5) ** 2,
    "power of a Gaussian": (2.0 * gp.RBF(WIDTHS)) ** 3,
    "pairwise": gp.PairwiseKernel(gamma=0.3, metric="laplacian"),
    "pairwise polynomial": gp.PairwiseKernel(gamma=0.3, metric="poly"),
    "algebra": 2.0 * gp.RBF(0.6) + gp.Matern(0.5, nu=1.5) * gp.DotProduct(0.3),
}


@pytest.mark.parametrize("name", GP)
def test_gaussian_process_kernels_are_ours(name, tmp_path):
    given = GP[name]
    kernel = settled(kernel_object(given))
    np.testing.assert_allclose(kernel(ROWS, POINTS), given(ROWS, POINTS), rtol=1e-9)
    model = SparseKernelPCA(2, n_support=8, kernel=given, random_state=0).fit(ROWS)
    assert model.support_ is None
    assert model.kernel is given
    model.save(tmp_path / "m.ks")
    np.testing.assert_array_equal(kernelsieve.load(tmp_path / "m.ks").transform(ROWS), model.transform(ROWS))


def test_gaussian_process_kernels_combine_with_ours():
    truth = gp.RBF(0.6) + gp.Matern(0.7) * gp.DotProduct(0.3)
    ours = Matern(width=0.7)
    for given in (gp.RBF(0.6) + ours * gp.DotProduct(0.3), gp.DotProduct(0.3) * ours + gp.RBF(0.6)):
        np.testing.assert_allclose(settled(kernel_object(given))(ROWS, POINTS), truth(ROWS, POINTS), rtol=1e-9)


@pytest.mark.parametrize("given", [gp.RBF() + gp.WhiteKernel(0.1), gp.ExpSineSquared(), gp.Matern(nu=0.7)])
def test_gaussian_process_kernels_that_are_not_ours_are_called(given):
    assert kernel_object(given) is None
    model = KernelPCA(2, kernel=given).fit(ROWS)
    np.testing.assert_allclose(model.eigenvalues_, exact_kernel_pca(given(ROWS, ROWS), 2)[0], rtol=1e-7)
    with pytest.raises(TypeError, match="cannot be saved"):
        kernelsieve.save(model, "never.ks")


@pytest.mark.parametrize("estimator", [SparseKernelPCA(2, n_support=8, random_state=0), KernelPCA(2)])
def test_noise_of_a_gaussian_process_kernel_is_said_once_to_be_in_no_component(estimator):
    noisy = clone(estimator).set_params(kernel=2.0 * (gp.RBF() + gp.WhiteKernel(0.1)))
    with pytest.warns(UserWarning, match="WhiteKernel adds noise to k\\(x, x\\) alone") as said:
        noisy.fit(ROWS).transform(ROWS)
    assert sum("WhiteKernel" in str(one.message) for one in said) == 1


@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "a column twice"])
def test_tensors_have_the_values_and_the_fits_of_arrays(name):
    torch = pytest.importorskip("torch")
    kernel = settled(CASES[name][0])
    rows, points, weights = torch.tensor(ROWS), torch.tensor(POINTS), RNG.standard_normal((len(ROWS), len(POINTS)))
    np.testing.assert_allclose(kernel(rows, points).numpy(), kernel(ROWS, POINTS), atol=1e-10)
    pulled = kernel.pullback(rows, points, kernel(rows, points), torch.tensor(weights))
    np.testing.assert_allclose(
        pulled.numpy(), kernel.pullback(ROWS, POINTS, kernel(ROWS, POINTS), weights), rtol=1e-6, atol=1e-8
    )
    on_device = SparseKernelPCA(2, n_support=8, kernel=kernel, random_state=0).fit(rows)
    on_rows = SparseKernelPCA(2, n_support=8, kernel=kernel, selection="targeted", random_state=0).fit(ROWS)
    assert on_device.captured_ratio_ > on_rows.captured_ratio_ - 0.002


COLUMNWISE = [name for name in SMOOTH if isinstance(settled(CASES[name][0]), Columnwise)]


@pytest.mark.parametrize("name", COLUMNWISE)
def test_what_a_column_adds_has_its_slope_in_the_point(name):
    """By central differences, away from kinks, up to a constant that the kernel multiplies sums by."""
    kernel, x, s = settled(CASES[name][0]), ROWS[:, :1], POINTS[:, 0]
    step, apart = 1e-6, np.abs(x - s) > 1e-3
    found = kernel.slope(np, x, s)
    expected = (kernel.term(np, x, s + step) - kernel.term(np, x, s - step)) / (2 * step)
    found, expected = np.broadcast_to(found, expected.shape)[apart], expected[apart]
    constant = (found @ expected) / (found @ found)
    assert constant > 0
    np.testing.assert_allclose(constant * found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_logarithms_of_matern_kernels_are_those_of_their_values(nu):
    kernel, t = Matern(nu=nu, gamma=1.0), np.array([0.0, 1e-12, 0.1, 1.0, 50.0])
    np.testing.assert_allclose(kernel.log_of_square(t), np.log(kernel.of_square(np, t)), rtol=1e-9, atol=1e-15)


def test_points_of_stretched_kernels_are_brought_back_to_where_the_kernel_is_defined():
    """Only what lies outside is changed, and not by as much as a bit anywhere else."""
    kernel = Chi2(gamma=0.8).stretched((2.0, 0.3, 1.7, 1.0))
    points = POINTS.copy()
    points[1, 2] = points[3, 0] = -0.2
    np.testing.assert_array_equal(kernel.within(points), np.maximum(points, 0))
    np.testing.assert_array_equal(kernel.within(POINTS), POINTS)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name in CASES if name != "a column twice"])
def test_tensors_on_a_device_are_never_read_where_they_are(name):
    torch = pytest.importorskip("torch")
    ordinary, elsewhere = (
        SparseKernelPCA(2, n_support=8, kernel=CASES[name][0], random_state=0).fit(make(ROWS)).transform(make(POINTS))
        for make in (torch.as_tensor, on_device)
    )
    np.testing.assert_allclose(abs(elsewhere.cpu().numpy()), abs(ordinary.numpy()), atol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "kernel",
    [
        RBF(width="median per column") + 0.1 * Linear(),
        RBF().on([0, 1]) * Hamming().on([3]) + HistogramIntersection().on(2),
        normalized(Matern(nu=2.5) * Cosine()),
        from_distance("manhattan"),
    ],
    ids=repr,
)
def test_composed_kernels_on_dask_rows_give_the_fit_of_the_rows_in_memory(kernel):
    da = pytest.importorskip("dask.array")
    rows = np.random.default_rng(2).random((900, 4))
    rows[:, 3] = np.round(3 * rows[:, 3])
    model = SparseKernelPCA(2, n_support=10, kernel=kernel, n_optimization_samples=300, random_state=0)
    in_memory = clone(model).fit(rows)
    cut = clone(model).fit(da.from_array(rows, chunks=(170, 4)))
    np.testing.assert_allclose(cut.support_vectors_, in_memory.support_vectors_, rtol=1e-9)
    np.testing.assert_allclose(cut.explained_variance_, in_memory.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(cut.transform(rows), in_memory.transform(rows), atol=1e-9)
