"""Bad input: a clear error that says what to do, and nothing half-done; warnings where a fit says little."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from oracles import gram_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from kernelsieve import (
    CompressedKernelPCA,
    DissimilarityKernelPCA,
    ElasticNetKernelPCA,
    ImprovedKernelPCA,
    KernelFeatureAnalysis,
    KernelPCA,
    KernelWarning,
    LikelihoodKernelPCA,
    RobustSparseKernelPCA,
    SparseKernelPCA,
)
from kernelsieve.rows.checks import asymmetry

N = 60


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((N, 4))


def spoiled(rows, value, n_repeats=1):
    bad = np.tile(rows, (n_repeats, 1))
    bad[-3, 2] = value
    return bad


# Values


@pytest.mark.parametrize("n_repeats", [1, 150], ids=["small", "larger than any sample"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(value, n_repeats, rows):
    """Also in a row that no sample would see."""
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        SparseKernelPCA(2, n_support=8).fit(spoiled(rows, value, n_repeats))
    model = SparseKernelPCA(2, n_support=8).fit(rows)
    for method in (model.transform, model.reconstruction_error, model.score):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            method(spoiled(rows, value))
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.inverse_transform(np.full((2, 2), value))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_in_sparse_rows(value, rows):
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        SparseKernelPCA(2, n_support=8).fit(scipy.sparse.csr_matrix(spoiled(rows, value)))
    model = SparseKernelPCA(2, n_support=8).fit(rows)
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.transform(scipy.sparse.csr_matrix(spoiled(rows, value)))


def test_nan_in_a_precomputed_gram(rows):
    gram = gram_of("rbf", rows)
    gram[3, 5] = gram[5, 3] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        SparseKernelPCA(2, kernel="precomputed").fit(gram)


def test_strings_complex_numbers_and_objects(rows):
    with pytest.raises(ValueError, match="could not convert string to float"):
        SparseKernelPCA().fit([["a", "b"], ["c", "d"], ["e", "f"]])
    with pytest.raises(ValueError, match="Complex data not supported"):
        SparseKernelPCA().fit(rows + 1j)
    with pytest.raises((ValueError, TypeError), match="float"):
        SparseKernelPCA().fit([[{}, 1], [2, 3]])


@pytest.mark.parametrize("kind", ["U", "S"])
@pytest.mark.parametrize("estimator", [KernelPCA(2), SparseKernelPCA(2)])
def test_an_array_of_text_is_told_to_be_text(estimator, kind, rows):
    text = rows.astype(kind)
    text[3, 2] = "no"
    with pytest.raises(ValueError, match=r"strings|could not convert string") as told:
        estimator.fit(text)
    assert told.traceback[-1].path.name != "checks.py"  # and not by a failure of the search for gaps


def test_empty_one_row_and_one_dimension(rows):
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        SparseKernelPCA().fit(np.empty((0, 3)))
    with pytest.raises(ValueError, match="Found array with 0 feature"):
        SparseKernelPCA().fit(np.empty((5, 0)))
    with pytest.raises(ValueError, match=r"1 sample.*minimum of 2 is required"):
        SparseKernelPCA().fit(rows[:1])
    with pytest.raises(ValueError, match="Reshape your data"):
        SparseKernelPCA().fit(rows[:, 0])
    with pytest.raises(ValueError, match="Reshape your data"):
        SparseKernelPCA(2, n_support=8).fit(rows).transform(rows[0])


@pytest.mark.parametrize("n", [20, 9000], ids=["small", "larger than any sample"])
@pytest.mark.parametrize("n_support", ["auto", 5])
@pytest.mark.parametrize("value", [0.0, 3.5])
def test_constant_rows(value, n_support, n):
    with pytest.raises(ValueError, match=r"different rows|all the same"):
        SparseKernelPCA(2, n_support=n_support, random_state=0).fit(np.full((n, 3), value))


@pytest.mark.parametrize("kernel", ["poly", "linear", "cosine", "laplacian", "sigmoid"])
def test_constant_rows_under_other_kernels(kernel):
    with pytest.raises(ValueError, match=r"different rows|all the same|no positive part"):
        SparseKernelPCA(2, kernel=kernel, random_state=0).fit(np.ones((9000, 3)))


def test_too_few_different_rows(rows):
    """Copies are one row: 60 rows of 3 kinds have 2 directions of variance."""
    copies = np.repeat(rows[:3], 20, axis=0)
    with pytest.raises(ValueError, match="n_components=3 needs at least 4 different rows with centring: X has 3"):
        SparseKernelPCA(3).fit(copies)
    model = SparseKernelPCA(2).fit(copies)
    assert model.n_support_ == 3
    assert model.captured_ratio_ == pytest.approx(1)


@pytest.mark.parametrize("selection", ["optimized", "targeted", "kmeans", "rpcholesky", "uniform"])
def test_duplicate_rows_are_no_trouble(selection, rows):
    copies = np.concatenate([np.repeat(rows[:1], 40, axis=0), rows, rows[:20]])
    model = SparseKernelPCA(2, n_support=8, selection=selection, random_state=0).fit(copies)
    assert np.all(np.isfinite(model.transform(rows)))
    if model.support_ is not None:
        assert len(np.unique(model.support_vectors_, axis=0)) == 8


# Numbers that do not fit together


@pytest.mark.parametrize("n_support", ["auto", 20])
@pytest.mark.parametrize("selection", ["optimized", "targeted", "kmeans", "rpcholesky", "uniform"])
def test_more_components_than_the_rank(selection, n_support, rows):
    options = {"kernel": "linear", "selection": selection, "n_support": n_support, "random_state": 0}
    with pytest.raises(ValueError, match=r"n_components=7 .*(rank allows|4 directions)"):
        SparseKernelPCA(7, **options).fit(rows)


def test_more_components_than_rows(rows):
    with pytest.raises(ValueError, match="n_components=9 needs at least 10 different rows with centring: X has 6"):
        SparseKernelPCA(9).fit(rows[:6])
    with pytest.raises(ValueError, match="n_components=6 needs at least 7 different rows"):
        SparseKernelPCA(6).fit(rows[:6])
    assert SparseKernelPCA(6, center=False, gamma=1.0).fit(rows[:6]).n_support_ == 6


def test_too_few_support_points(rows):
    with pytest.raises(ValueError, match=r"n_support=5 .*too few for n_components=5 with centring: give at least 6"):
        SparseKernelPCA(5, n_support=5).fit(rows)
    with pytest.raises(ValueError, match=r"n_support=0.05 \(3 points\) is too few .*at least 6"):
        SparseKernelPCA(5, n_support=0.05).fit(rows)
    assert SparseKernelPCA(5, n_support=5, center=False).fit(rows).n_support_ == 5
    with pytest.raises(ValueError, match="selection gives 3 points, at least 6 are needed"):
        SparseKernelPCA(5, selection=[1, 2, 3]).fit(rows)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_components", 0),
        ("n_components", 2.5),
        ("n_support", 0),
        ("n_support", 1.5),
        ("n_support", "all"),
        ("selection", "best"),
        ("variance", 1.0),
        ("variance", -0.1),
        ("kernel", "gauss"),
        ("gamma", -1.0),
        ("gamma", "wide"),
        ("degree", -1),
        ("kernel_params", 3),
        ("center", "yes"),
        ("max_iter", 0),
        ("tol", -1.0),
        ("n_optimization_samples", 1),
        ("random_state", "zero"),
        ("n_jobs", 1.5),
    ],
)
def test_parameters_out_of_range(name, value, rows):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of SparseKernelPCA must be"):
        SparseKernelPCA(**{name: value}).fit(rows)


def test_no_threads_at_all(rows):
    with pytest.raises(ValueError, match="n_jobs=0 has no meaning: give None"):
        SparseKernelPCA(2, n_support=8, n_jobs=0).fit(rows)


# Features


def test_wrong_number_of_features(rows):
    model = SparseKernelPCA(2, n_support=8).fit(rows)
    for method in (model.transform, model.reconstruction_error, model.score):
        with pytest.raises(ValueError, match="X has 3 features, but SparseKernelPCA is expecting 4 features"):
            method(rows[:, :3])
    with pytest.raises(ValueError, match="scores have 3 columns, the model has 2 components"):
        model.inverse_transform(np.zeros((5, 3)))


def test_not_fitted(rows):
    for method in ("transform", "reconstruction_error", "score", "inverse_transform", "get_feature_names_out"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(SparseKernelPCA(), method)(rows)


# Precomputed


def test_precomputed_shapes(rows):
    gram = gram_of("rbf", rows)
    with pytest.raises(ValueError, match=r"must be a square matrix.*60x59"):
        SparseKernelPCA(2, kernel="precomputed").fit(gram[:, :-1])
    model = SparseKernelPCA(2, n_support=8, kernel="precomputed").fit(gram)
    with pytest.raises(ValueError, match=r"X has 9 features.*expecting 60 features.*8.*support_"):
        model.transform(gram[:, :9])
    with pytest.raises(ValueError, match="diagonal="):
        model.reconstruction_error(gram)
    with pytest.raises(ValueError, match=r"diagonal has shape \(4,\), expected \(60,\)"):
        model.reconstruction_error(gram, diagonal=np.ones(4))
    with pytest.raises(ValueError, match="no rows to go back to"):
        model.inverse_transform(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="must be row numbers with a precomputed kernel"):
        SparseKernelPCA(2, kernel="precomputed", selection=gram[:8]).fit(gram)


GRAM_ESTIMATORS = [
    SparseKernelPCA(2, n_support=8),
    ElasticNetKernelPCA(2),
    LikelihoodKernelPCA(2),
    DissimilarityKernelPCA(2, n_nodes=8),
    ImprovedKernelPCA(2, n_nodes=8),
    KernelFeatureAnalysis(2),
    RobustSparseKernelPCA(2),
    CompressedKernelPCA(2, n_support=8),
]


@pytest.mark.parametrize("estimator", GRAM_ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_gram_that_is_not_symmetric_is_refused_by_a_pair_of_entries(estimator, rows):
    gram = gram_of("rbf", rows)
    forms = [np.asarray, lambda values: values.astype(np.float32)]
    if not isinstance(estimator, CompressedKernelPCA):
        forms.append(scipy.sparse.csr_array)
    for form in forms:
        model = clone(estimator).set_params(kernel="precomputed", random_state=0)
        spoiled_gram = gram.copy()
        spoiled_gram[7, 50] += 0.01
        for bad in (np.triu(gram), spoiled_gram):
            with pytest.raises(ValueError, match=r"must be symmetric: K\[\d+, \d+\] is .* and K\[\d+, \d+\] is"):
                model.fit(form(bad))
        with pytest.raises(ValueError, match=r"K\[7, 50\] is .* and K\[50, 7\] is"):
            model.fit(form(spoiled_gram))
        noise = 1e-8 * np.random.default_rng(0).standard_normal(gram.shape)  # as a product of rows in any order leaves
        model.fit(form(gram + noise))


def test_tensors_of_kernel_values_must_be_symmetric_too(rows):
    torch = pytest.importorskip("torch")
    gram, model = gram_of("rbf", rows), SparseKernelPCA(2, n_support=8, kernel="precomputed", random_state=0)
    with pytest.raises(ValueError, match="must be symmetric"):
        model.fit(torch.as_tensor(np.tril(gram)))
    model.fit(torch.as_tensor(gram))


def test_scikit_learns_kernel_pca_takes_such_a_gram_with_a_warning(rows):
    with pytest.warns(KernelWarning, match="must be symmetric"):
        KernelPCA(2, kernel="precomputed").fit(np.triu(gram_of("rbf", rows)))


def test_precomputed_gram_cannot_have_centres(rows):
    with pytest.raises(ValueError, match=r"kmeans.*precomputed|precomputed.*kmeans"):
        SparseKernelPCA(2, n_support=8, kernel="precomputed", selection="kmeans").fit(gram_of("rbf", rows))


def test_a_sparse_gram_without_values_is_symmetric():
    assert asymmetry(scipy.sparse.csr_matrix((4, 4))) is None
    one = scipy.sparse.csr_matrix(([1.0], ([2], [1])), shape=(4, 4))
    assert "K[1, 2] is 0 and K[2, 1] is 1" in asymmetry(one)


# Callables


def test_callables_of_neither_form(rows):
    with pytest.raises(
        ValueError, match=r"neither vectorised.*shape \(2, 2\), not \(2, 3\); .*shape \(\d+, 2\), not a number$"
    ):
        SparseKernelPCA(2, kernel=lambda X, Y: np.ones((len(X), 2))).fit(rows)

    def broken(x, y):
        raise RuntimeError("no such thing")

    with pytest.raises(ValueError, match=r"neither vectorised.*RuntimeError: no such thing"):
        SparseKernelPCA(2, kernel=broken).fit(rows)


def test_callable_that_returns_another_shape_later(rows):
    def kernel(X, Y):
        block = gram_of("rbf", X, Y)
        return block if len(X) < 5 else block.T

    with pytest.raises(ValueError, match=r"the kernel callable returned shape \(\d+, \d+\), expected \(\d+, \d+\)"):
        SparseKernelPCA(2, n_support=8, kernel=kernel).fit(rows)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("pairs", [False, True], ids=["vectorised", "pairs"])
def test_callable_that_returns_nan(pairs, value, rows):
    def block(X, Y):
        return np.where(gram_of("rbf", X, Y) > 0.9999, value, 0.5)

    def pair(x, y):
        return value if np.allclose(x, y) else 0.5

    with pytest.raises(ValueError, match=r"the kernel callable returned (nan|-?inf) for the pair"):
        SparseKernelPCA(2, n_support=8, kernel=pair if pairs else block).fit(rows)


def test_kernel_parameters_the_callable_does_not_know(rows):
    with pytest.raises(ValueError, match="unexpected keyword argument 'width'"):
        SparseKernelPCA(2, kernel=lambda X, Y: X @ Y.T, kernel_params={"width": 2}).fit(rows)


def test_indefinite_kernel_is_said_to_be(rows):
    with pytest.warns(UserWarning, match=r"not positive semi-definite.*\d% of its spectrum is negative"):
        SparseKernelPCA(2, kernel="sigmoid", gamma=0.5, coef0=0, selection=np.arange(N)).fit(rows)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        SparseKernelPCA(2, kernel="precomputed", selection=np.arange(N)).fit(-0.1 * np.eye(N) + gram_of("rbf", rows))


def test_kernel_without_positive_part(rows):
    with pytest.raises(ValueError, match=r"no positive part|all the same"):
        SparseKernelPCA(2, n_support=8, kernel="precomputed").fit(-np.eye(N))


@pytest.mark.parametrize("params", [{"degree": 2.5, "coef0": 0}, {"degree": 400, "gamma": 100.0}])
def test_polynomials_that_overflow_or_have_no_value(params, rows):
    """A fractional power of a negative number, or a power past the largest float, is no kernel value."""
    with pytest.raises(ValueError, match=r"NaN or infinity"), np.errstate(all="ignore"):
        SparseKernelPCA(2, n_support=8, kernel="poly", **params).fit(rows)


# Own points


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ([0, 1, 2, 60], r"must lie in \[0, 60\)"),
        ([0, 1, 2, 2], "names a row more than once"),
        ([0, 1, 2, -60], "names a row more than once"),
        ([0.5, 1.5, 2.5, 3.5], "must be integers, got dtype float64"),
        (np.zeros((5, 3)), r"selection has shape \(5, 3\): give row numbers \(m,\), or points \(m, 4\)"),
        (np.full((5, 4), np.nan), "NaN or infinity"),
        (np.zeros((2, 2, 2)), "give row numbers"),
        (np.array([["a"] * 4] * 5), "must be numbers"),
        (np.zeros(N, dtype=bool), r"must lie in|selection gives 0|at least"),
        (lambda X, n, **_: None, "selection"),
    ],
)
def test_points_that_are_none(selection, message, rows):
    with pytest.raises(ValueError, match=message):
        SparseKernelPCA(2, selection=selection).fit(rows)


# Weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(N - 1), "shape"),
        (np.full(N, np.nan), "NaN"),
        (-np.ones(N), "[Nn]egative"),
        (np.zeros(N), "at least two rows must have a positive sample_weight|zero"),
        (np.eye(N)[0], "at least two rows must have a positive sample_weight"),
        (np.ones((N, 2)), "1D"),
    ],
)
def test_weights_that_are_none(weights, message, rows):
    with pytest.raises(ValueError, match=message):
        SparseKernelPCA(2).fit(rows, sample_weight=weights)


# Nothing half-done


@pytest.mark.parametrize(
    "spoil",
    [
        lambda rows: spoiled(rows, np.nan),
        lambda rows: np.ones((30, 4)),
        lambda rows: np.ones((30, 3)),
        lambda rows: spoiled(rows, np.nan)[:, :3],
        lambda rows: rows[:2, :3],
        lambda rows: np.array([["a", "b"]] * 9),
    ],
)
def test_a_failed_refit_leaves_the_model_as_it_was(spoil, rows):
    model = SparseKernelPCA(3, n_support=8, random_state=0).fit(rows)
    before, attributes = model.transform(rows), set(vars(model))
    with pytest.raises(ValueError, match=r"."):
        model.fit(spoil(rows))
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.transform(rows), before)
    assert set(vars(model)) == attributes


def test_a_failed_refit_keeps_the_names(rows):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=list("abcd"))
    model = SparseKernelPCA(3, n_support=8, random_state=0).fit(frame)
    with pytest.raises(ValueError, match="different rows"):
        model.fit(pandas.DataFrame(np.ones((20, 4)), columns=list("wxyz")))
    assert list(model.feature_names_in_) == list("abcd")
    model.transform(frame)


def test_a_failed_first_fit_leaves_it_unfitted(rows):
    model = SparseKernelPCA(3)
    with pytest.raises(ValueError, match="different rows"):
        model.fit(np.ones((20, 4)))
    with pytest.raises(NotFittedError):
        model.transform(rows)


def test_nothing_of_the_users_is_changed(rows):
    keywords, points, weights, mine = {"gamma": 0.5}, rows[:8].copy(), np.ones(N), rows.copy()
    model = SparseKernelPCA(
        2, kernel=lambda X, Y, gamma: gram_of("rbf", X, Y, gamma=gamma), kernel_params=keywords, selection=points
    )
    parameters = model.get_params()
    model.fit(mine, sample_weight=weights).transform(mine)
    assert keywords == {"gamma": 0.5}
    np.testing.assert_array_equal(points, rows[:8])
    np.testing.assert_array_equal(weights, 1)
    np.testing.assert_array_equal(mine, rows)
    assert model.get_params() == parameters
    clone(model).fit(mine)


def test_a_model_does_not_change_with_the_rows_it_was_fitted_on(rows):
    mine = rows.copy()
    model = SparseKernelPCA(2, selection=np.arange(10)).fit(mine)
    gram_model = SparseKernelPCA(2, selection=mine[:10]).fit(mine)
    before = model.transform(rows), gram_model.transform(rows)
    mine[:] = 0
    np.testing.assert_array_equal(model.transform(rows), before[0])
    np.testing.assert_array_equal(gram_model.transform(rows), before[1])


# Warnings: kernels that say little


def test_no_warning_on_ordinary_data(digits):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for options in (
            {},
            {"n_support": 20},
            {"selection": "targeted"},
            {"kernel": "laplacian", "n_support": 60},
            {"kernel": "cosine"},
        ):
            SparseKernelPCA(10, random_state=0, **options).fit(digits[0])
    assert [str(warning.message) for warning in caught] == []


def test_kernel_that_is_nearly_the_identity(digits):
    with pytest.warns(KernelWarning, match=r"every row is like no other.*smaller gamma than 50, or gamma='median'"):
        SparseKernelPCA(10, n_support=20, gamma=50.0, random_state=0).fit(digits[0])


def test_kernel_that_sees_only_its_own_rows(digits):
    with pytest.warns(KernelWarning, match=r"times as much variance on the rows they were found on.*smaller gamma"):
        SparseKernelPCA(5, n_support=20, gamma=2.0, random_state=0).fit(digits[0][:120])


def test_no_talk_of_gamma_where_there_is_none(cloud):
    """A linear kernel far from the origin is nearly constant; a width would not help."""
    with pytest.warns(KernelWarning, match="nearly constant") as caught:
        SparseKernelPCA(2, n_support=5, kernel="linear", random_state=0).fit(cloud + 1e3)
    assert "gamma" not in str(caught[0].message)


def test_kernel_that_is_nearly_constant(digits):
    with pytest.warns(KernelWarning, match=r"nearly constant.*larger gamma than 1e-06"):
        SparseKernelPCA(4, n_support=20, gamma=1e-6, random_state=0).fit(digits[0])


def test_wild_scales(rows):
    wild = rows * [1, 1, 1, 1e4]
    with pytest.warns(KernelWarning, match=r"scales differ wildly.*Standardise.*StandardScaler"):
        SparseKernelPCA(2, n_support=8, random_state=0).fit(wild)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SparseKernelPCA(2, n_support=8, random_state=0).fit(rows * [1, 2, 3, 20])
        SparseKernelPCA(2, n_support=8, random_state=0).fit(np.hstack([rows, np.zeros((N, 1))]))


def test_warnings_point_at_the_users_line(rows):
    with pytest.warns(KernelWarning) as caught:
        SparseKernelPCA(2, n_support=8, random_state=0).fit(rows * [1, 1, 1, 1e4])
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(UserWarning, match="more than the") as caught:
        SparseKernelPCA(2, n_support=N + 1, random_state=0).fit(rows)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_first_row_and_column_that_is_not_finite_is_named(value):
    """In a large array, of which a sample is looked at first; in frames and sparse rows; in new rows and later ones."""
    X = np.random.default_rng(0).standard_normal((7000, 3))
    holey = X.copy()
    holey[6543:, 2] = value
    what = "NaN" if np.isnan(value) else "infinity"
    model = SparseKernelPCA(2, n_support=8, random_state=0)
    numbered, named = (rf"contains {what}.* in column {name} of row 6543" for name in ("2", "'c'"))
    with pytest.raises(ValueError, match=numbered):
        model.fit(holey)
    with pytest.raises(ValueError, match=numbered):
        model.fit(scipy.sparse.csr_matrix(holey))
    with pytest.raises(ValueError, match=numbered):
        model.fit(X).transform(holey)
    with pytest.raises(ValueError, match=numbered):
        SparseKernelPCA(2, n_support=8).partial_fit(holey)
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=named):
        SparseKernelPCA(2, n_support=8).fit(pd.DataFrame(holey, columns=list("abc")))
    fitted = SparseKernelPCA(2, n_support=8).fit(pd.DataFrame(X, columns=list("abc")))
    with pytest.raises(ValueError, match=named):
        fitted.transform(pd.DataFrame(holey, columns=list("abc")))
