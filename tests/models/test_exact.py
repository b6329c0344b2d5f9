"""KernelPCA: scikit-learn's in everything scikit-learn tests, and an exact kernel expansion besides."""

import inspect
import pickle
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from oracles import assert_same_up_to_sign
from scipy.sparse.linalg._interface import MatrixLinearOperator
from sklearn.base import clone
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.gaussian_process.kernels import RBF as GaussianProcessRBF
from sklearn.metrics.pairwise import chi2_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import CSR_CONTAINERS

import kernelsieve
from kernelsieve import KernelPCA, KernelWarning, SparseKernelPCA
from kernelsieve.kernels import CallableKernel

upstream = pytest.importorskip("sklearn.decomposition.tests.test_kernel_pca")

NAMED = ["linear", "poly", "rbf", "sigmoid", "cosine", "laplacian"]


# --- scikit-learn's own tests, run on ours ---------------------------------------------------------------------


@pytest.fixture(params=[0, 42])
def global_random_seed(request):
    return request.param


@pytest.fixture(autouse=True)
def _ours_in_upstream(monkeypatch):
    monkeypatch.setattr(upstream, "KernelPCA", KernelPCA)


UPSTREAM_TESTS = {name: test for name, test in vars(upstream).items() if name.startswith("test_")}
globals().update({name.replace("test_", "test_sklearn_", 1): test for name, test in UPSTREAM_TESTS.items()})


@contextmanager
def count_products():
    """One entry for every product of ARPACK with a matrix, while the block runs."""
    products, plain = [], MatrixLinearOperator._matmat

    def counted(self, block):
        products.append(block.shape[1])
        return plain(self, block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MatrixLinearOperator, "_matmat", counted)
        yield products


def test_the_whole_upstream_module_runs_on_ours():
    assert len(UPSTREAM_TESTS) >= 22
    assert all(test.__globals__["KernelPCA"] is KernelPCA for test in UPSTREAM_TESTS.values())


# --- the same numbers as scikit-learn's ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 5)), rng.normal(size=(23, 5))


def histogram(x, y):
    return np.minimum(x, y).sum()


def shifted_linear(x, y, shift=0.0):
    return float(x @ y) + shift


def as_kernel_values(kernel, X, Y):
    """(fit argument, transform argument, kernel) for a kernel that may be precomputed."""
    if kernel == "precomputed":
        return rbf_kernel(X, X, gamma=0.1), rbf_kernel(Y, X, gamma=0.1)
    return X, Y


def test_signature_is_theirs_and_center():
    ours, theirs = (inspect.signature(c).parameters for c in (KernelPCA, SklearnKernelPCA))
    assert {k: v.default for k, v in ours.items() if k != "center"} == {k: v.default for k, v in theirs.items()}
    assert [k for k in ours if k != "center"] == list(theirs)
    assert ours["center"].default is True
    assert ours["center"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "precomputed", histogram])
def test_every_attribute_is_theirs_to_the_last_bit(rows, kernel, solver):
    fit, new = as_kernel_values(kernel, *rows)
    params = {"n_components": 4, "kernel": kernel, "eigen_solver": solver, "random_state": 0}
    params["fit_inverse_transform"] = kernel in ("rbf", "linear")
    ours, theirs = KernelPCA(**params), SklearnKernelPCA(**params)
    assert_array_equal(ours.fit_transform(fit), theirs.fit_transform(fit))
    assert_array_equal(ours.transform(new), theirs.transform(new))
    for name, value in vars(theirs).items():
        if name.endswith("_") and not name.startswith("_"):
            if name == "X_fit_" and kernel == "precomputed":  # theirs is left centred
                assert_allclose(ours.X_fit_, fit, rtol=0, atol=1e-14)
            else:
                assert_array_equal(getattr(ours, name), value)
    if ours.fit_inverse_transform:
        scores = theirs.transform(new)
        assert_array_equal(ours.inverse_transform(scores), theirs.inverse_transform(scores))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("n_components", [4, None])
@pytest.mark.parametrize("kernel", [*NAMED, "precomputed", histogram, chi2_kernel])
def test_expansion_is_the_transform(rows, kernel, n_components, center):
    X, Y = rows
    if callable(kernel):
        X, Y = abs(X), abs(Y)
    fit, new = as_kernel_values(kernel, X, Y)
    if kernel == "sigmoid":
        n_components = 2  # further ones have negative eigenvalues
    model = KernelPCA(n_components, kernel=kernel, center=center).fit(fit)
    assert_allclose(model.expansion_.transform(new), model.transform(new), rtol=0, atol=1e-10)
    assert_allclose(model.expansion_.transform(fit), model.fit_transform(fit), rtol=0, atol=1e-6)
    assert model.n_support_ == 60
    assert_array_equal(model.support_, np.arange(60))
    assert_array_equal(model.dual_coef_, model.expansion_.coef)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("container", CSR_CONTAINERS)
@pytest.mark.parametrize("kernel", [*NAMED, lambda x, y: (x @ y.T).toarray()[0, 0]])
def test_expansion_is_the_transform_on_sparse_rows(rows, kernel, container, center):
    X, Y = (np.where(abs(v) < 0.7, 0, v) for v in rows)
    model = KernelPCA(2, kernel=kernel, center=center).fit(container(X))
    assert_allclose(model.expansion_.transform(container(Y)), model.transform(container(Y)), rtol=0, atol=1e-10)
    if not callable(kernel):
        assert_allclose(model.transform(Y), model.transform(container(Y)), rtol=0, atol=1e-10)
        assert_allclose(model.score(Y), model.score(container(Y)))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.float16])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "cosine"])
def test_dtypes(kernel, dtype):
    X = np.random.default_rng(1).integers(0, 200, size=(50, 6)).astype(dtype)
    model = KernelPCA(3, kernel=kernel, gamma=1e-4).fit(X)
    exact = KernelPCA(3, kernel=kernel, gamma=1e-4).fit(X.astype(np.float64))
    rows = X.astype(np.float32 if dtype == np.float32 else np.float64)
    scale = np.abs(exact.transform(X)).max()
    assert_allclose(model.expansion_.transform(rows), exact.transform(X), rtol=0, atol=1e-4 * scale)
    assert_allclose(model.reconstruction_error(X), exact.reconstruction_error(X), rtol=0, atol=1e-3 * scale**2)
    assert model.transform(rows).dtype == model.expansion_.transform(rows).dtype == rows.dtype


def test_points_are_the_training_rows_not_a_copy(rows):
    X, _ = rows
    for fit, kernel in [(X, "rbf"), (X.astype(np.float32), "rbf"), (rbf_kernel(X), "precomputed")]:
        model = KernelPCA(2, kernel=kernel).fit(fit)
        assert np.shares_memory(model.expansion_.points, model.X_fit_)
        assert not np.shares_memory(model.X_fit_, fit)
    assert KernelPCA(2, copy_X=False).fit(X).expansion_.points is X


@pytest.mark.parametrize("copy_X", [True, False])
def test_precomputed_gram_stays_the_gram(rows, copy_X):
    gram = rbf_kernel(rows[0])
    given = gram.copy()
    model = KernelPCA(3, kernel="precomputed", copy_X=copy_X).fit(given)
    assert_allclose(given, gram, rtol=0, atol=1e-14)
    assert_allclose(model.support_vectors_, gram, rtol=0, atol=1e-14)
    whole = KernelPCA(3, kernel="rbf").fit(rows[0])
    cross = rbf_kernel(rows[1], rows[0])
    assert_allclose(model.reconstruction_error(cross, diagonal=np.ones(23)), whole.reconstruction_error(rows[1]))
    integers = np.rint(10 * gram).astype(int)
    assert_array_equal(KernelPCA(3, kernel="precomputed").fit(integers).support_vectors_, integers)


# --- what is added ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "cosine", "laplacian", "precomputed"])
def test_uncentred_is_the_spectrum_of_the_raw_gram(rows, kernel, solver):
    fit, new = as_kernel_values(kernel, *rows)
    model = KernelPCA(3, kernel=kernel, center=False, eigen_solver=solver, random_state=0).fit(fit)
    gram = fit if kernel == "precomputed" else pairwise_kernels(fit, metric=kernel)
    cross = new if kernel == "precomputed" else pairwise_kernels(new, fit, metric=kernel)
    values, vectors = (a[..., ::-1][..., :3] for a in np.linalg.eigh(gram))
    assert_allclose(model.eigenvalues_, values)
    assert_allclose(abs(model.transform(new)), abs(cross @ vectors / np.sqrt(values)), atol=1e-7)
    assert_array_equal(model.offset_, 0)
    assert model.expansion_.mean_coef is None
    assert_allclose(model.explained_variance_ratio_, values / np.trace(gram))


def explicit_features(kernel, X):
    """phi(x) with phi(x)'phi(y) = k(x, y), for gamma = 1 and coef0 = 1."""
    if kernel == "linear":
        return X
    one = np.ones((len(X), 1))
    extended = np.hstack([one, X])  # (x'y + 1)^2 = (extended'extended)^2
    return np.einsum("ni,nj->nij", extended, extended).reshape(len(X), -1)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_error_and_score_against_an_explicit_feature_map(rows, kernel, center):
    X, Y = rows
    model = KernelPCA(2, kernel=kernel, gamma=1.0, degree=2, center=center).fit(X)
    features, new = explicit_features(kernel, X), explicit_features(kernel, Y)
    mean = features.mean(axis=0) if center else np.zeros(features.shape[1])
    _, _, components = np.linalg.svd(features - mean, full_matrices=False)
    captured = (new - mean) @ components[:2].T
    errors = np.sum((new - mean - captured @ components[:2]) ** 2, axis=1)
    assert_allclose(model.reconstruction_error(Y), errors)
    assert_allclose(model.score(Y), np.sum(captured**2) / np.sum((new - mean) ** 2))
    if not center:
        assert model.score(np.zeros((2, X.shape[1]))) == 1.0 or kernel == "poly"  # nothing varies, so nothing is lost
    total = np.sum((features - mean) ** 2) / len(X)
    assert_allclose(model.explained_variance_ratio_, model.explained_variance_ / total)
    assert_allclose(model.explained_variance_ratio_.sum(), model.score(X))


def test_common_attributes(rows):
    X, _ = rows
    model = KernelPCA(3, kernel="rbf").fit(X)
    assert_allclose(model.explained_variance_, np.var(model.transform(X), axis=0))
    assert_allclose(model.eigenvalues_, 60 * model.explained_variance_)
    assert (model.captured_ratio_, model.captured_ratio_kind_, model.captured_ratio_n_samples_) == (1.0, "exact", 60)
    assert model.n_samples_seen_ == 60
    assert model.support_vectors_.shape == (60, 5)
    assert model.offset_.shape == (3,)


def test_dual_coef_is_theirs_with_an_inverse_map_and_ours_without(rows):
    X, _ = rows
    model = KernelPCA(3, kernel="rbf", fit_inverse_transform=True).fit(X)
    assert model.dual_coef_.shape == X.shape
    model.set_params(fit_inverse_transform=False).fit(X)
    assert model.dual_coef_ is model.expansion_.coef


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "sigmoid"])
def test_a_gamma_too_large_for_numbers_is_refused(rows, kernel):
    X, _ = rows
    with pytest.raises(ValueError, match=r"gamma=1e\+308 is too large"):
        KernelPCA(2, kernel=kernel, gamma=1e308).fit(X)


@pytest.mark.filterwarnings("ignore:the kernel is not positive")
@pytest.mark.parametrize("gamma", ["median", "scale"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "sigmoid"])
def test_gamma_rules_are_those_of_the_sparse_estimator(rows, kernel, gamma):
    X, _ = rows
    exact = KernelPCA(2, kernel=kernel, gamma=gamma, random_state=3).fit(X)
    sparse = SparseKernelPCA(2, n_support=10, selection="uniform", kernel=kernel, gamma=gamma, random_state=3).fit(X)
    assert exact.gamma_ == sparse.gamma_
    assert exact.gamma == gamma
    assert_array_equal(exact.transform(X), KernelPCA(2, kernel=kernel, gamma=exact.gamma_).fit(X).transform(X))


def test_a_refit_forgets_the_last_one(rows):
    X, Y = rows
    model = KernelPCA(2, kernel=GaussianProcessRBF(), gamma="median", random_state=0).fit(X)
    model.set_params(kernel="rbf").fit(10 * X)
    fresh = KernelPCA(2, kernel="rbf", gamma="median", random_state=0).fit(10 * X)
    assert_array_equal(model.transform(Y), fresh.transform(Y))
    assert model.gamma_ == fresh.gamma_


def test_a_failed_refit_leaves_the_model_as_it_was(rows):
    X, Y = rows
    model = KernelPCA(2, kernel="rbf", gamma="median").fit(X)
    before = model.transform(Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((5, 5), np.nan))
    assert_array_equal(model.transform(Y), before)


def test_vectorised_callables_are_called_on_blocks(rows):
    X, Y = rows
    shapes = []

    def kernel(A, B, gamma):
        shapes.append((np.ndim(A), np.ndim(B)))
        return rbf_kernel(A, B, gamma=gamma)

    model = KernelPCA(3, kernel=kernel, kernel_params={"gamma": 0.2}).fit(X)
    assert_allclose(model.transform(Y), KernelPCA(3, kernel="rbf", gamma=0.2).fit(X).transform(Y), atol=1e-12)
    assert set(shapes) == {(2, 2)}
    assert_allclose(model.reconstruction_error(Y), KernelPCA(3, kernel="rbf", gamma=0.2).fit(X).reconstruction_error(Y))


def test_memory_that_a_callable_keeps_is_not_written_to(rows):
    X, _ = rows
    gram = rbf_kernel(X)
    kept = gram.copy()
    KernelPCA(2, kernel=lambda A, B: kept[: len(A), : len(B)]).fit(X)
    assert_array_equal(kept, gram)


def test_row_pair_callables_get_their_parameters(rows):
    X, Y = rows
    model = KernelPCA(3, kernel=shifted_linear, kernel_params={"shift": 2.0}, center=False).fit(X)
    expected = KernelPCA(3, kernel="poly", degree=1, gamma=1, coef0=2.0, center=False).fit(X)
    assert_allclose(model.transform(Y), expected.transform(Y), atol=1e-10)
    assert_allclose(model.reconstruction_error(Y), expected.reconstruction_error(Y))


def test_a_failing_callable_shows_its_own_error(rows):
    def kernel(x, y):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        KernelPCA(2, kernel=kernel).fit(rows[0])


# --- as an estimator -------------------------------------------------------------------------------------------


def test_clone_and_params():
    model = KernelPCA(3, kernel="rbf", gamma="scale", center=False)
    assert clone(model).get_params() == model.get_params()
    assert set(model.get_params()) == set(SklearnKernelPCA().get_params()) | {"center"}
    for bad in ({"gamma": "wide"}, {"gamma": -1}, {"center": "yes"}, {"kernel": "gauss"}):
        with pytest.raises(ValueError, match=r"must be|unknown kernel 'gauss'"):
            KernelPCA(**bad).fit(np.eye(3))


@pytest.mark.parametrize("kernel", ["rbf", histogram, GaussianProcessRBF()])
@pytest.mark.parametrize("center", [True, False])
def test_pickle(rows, kernel, center):
    X, Y = rows
    model = KernelPCA(3, kernel=kernel, center=center).fit(X)
    loaded = pickle.loads(pickle.dumps(model))
    assert_array_equal(loaded.transform(Y), model.transform(Y))
    assert_array_equal(loaded.reconstruction_error(Y), model.reconstruction_error(Y))


@pytest.mark.parametrize("center", [True, False])
def test_set_output_pandas(rows, center):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows[0], columns=list("abcde"))
    model = KernelPCA(2, center=center).set_output(transform="pandas")
    scores = model.fit_transform(X)
    assert list(scores.columns) == ["kernelpca0", "kernelpca1"]
    assert_allclose(model.transform(X), scores, atol=1e-10)
    assert model.reconstruction_error(X).shape == (60,)
    with pytest.raises(ValueError, match="feature names"):
        model.score(X[list("edcba")])


def test_score_makes_a_grid_search(rows):
    search = GridSearchCV(KernelPCA(2, kernel="rbf"), {"gamma": [0.01, 10.0]}, cv=3).fit(rows[0])
    assert search.best_params_ == {"gamma": 0.01}


@pytest.mark.parametrize("center", [True, False])
def test_bad_grams(center):
    model = KernelPCA(2, kernel="precomputed", center=center)
    with pytest.raises(ValueError, match="shape"):
        model.fit(np.ones((4, 3)))
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        model.fit(sp.csr_matrix(np.eye(4)))
    model.fit(np.eye(4))
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        model.transform(sp.csr_matrix(np.eye(4)))
    with pytest.raises(ValueError, match="features"):
        model.transform(np.ones((2, 3)))


def test_no_variance():
    with pytest.warns(KernelWarning, match="nearly constant"):
        model = KernelPCA(1, kernel="rbf").fit(np.ones((5, 2)))
    assert_array_equal(model.transform(np.eye(2)), 0)
    assert_array_equal(model.expansion_.transform(np.eye(2)), 0)
    assert_array_equal(model.explained_variance_ratio_, 0)


# Nothing of the user's is changed, nothing is lost


def unsorted_rows():
    """Sparse rows whose entries come in any order, some of them in two parts."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((40, 6)) * (rng.random((40, 6)) < 0.6)
    rows, columns = np.nonzero(dense)
    order = rng.permutation(2 * len(rows))
    rows, columns = np.tile(rows, 2)[order], np.tile(columns, 2)[order]
    by_row = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=40))])
    data = dense[rows, columns][by_row] / 2
    return sp.csr_matrix((data, columns[by_row], indptr), shape=dense.shape), dense


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("kernel", ["laplacian", "rbf", "linear"])
@pytest.mark.parametrize("estimator", [KernelPCA(2), SparseKernelPCA(2, selection=np.arange(40))])
def test_sparse_rows_in_any_order_are_left_alone_and_understood(estimator, kernel, n_jobs):
    sparse, dense = unsorted_rows()
    estimator = clone(estimator).set_params(kernel=kernel, gamma=0.3, n_jobs=n_jobs)
    width = {} if kernel == "linear" else {"gamma": 0.3}
    before = [part.copy() for part in (sparse.data, sparse.indices, sparse.indptr)]
    scores = clone(estimator).fit(sparse).transform(sparse)
    for part, old in zip((sparse.data, sparse.indices, sparse.indptr), before, strict=True):
        np.testing.assert_array_equal(part, old)
    truth = SklearnKernelPCA(2, kernel="precomputed").fit_transform(pairwise_kernels(dense, metric=kernel, **width))
    assert_allclose(np.abs(scores), np.abs(truth), atol=1e-8)
    np.testing.assert_array_equal(clone(estimator).fit(sparse).transform(sparse), scores)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("options", [{}, {"fit_inverse_transform": True}, {"gamma": "median"}, {"center": False}])
def test_a_failed_or_interrupted_refit_leaves_the_model_as_it_was(options, error, monkeypatch):
    rows = np.random.default_rng(0).standard_normal((50, 4))
    model = KernelPCA(2, kernel="rbf", **options).fit(rows)
    before, state = model.transform(rows), dict(vars(model))

    def fail(*_):
        raise error("no more")

    monkeypatch.setattr(KernelPCA, "_store", fail)
    with pytest.raises(error, match="no more"):
        model.fit(rows[:30, :3] + 1)
    assert vars(model) == state
    np.testing.assert_array_equal(model.transform(rows), before)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((9, 3), np.nan))
    assert vars(model) == state
    fresh = KernelPCA(2, kernel="rbf", **options)
    with pytest.raises(error, match="no more"):
        fresh.fit(rows)
    assert vars(fresh) == vars(KernelPCA(2, kernel="rbf", **options))


def test_rows_of_few_kinds_have_the_same_eigenvectors_each_time():
    """There ARPACK's space is exhausted, and it goes on from random numbers: the same ones, not any."""
    kinds = np.repeat(np.random.default_rng(0).standard_normal((4, 3)), 60, axis=0)
    first, *others = [
        KernelPCA(6, kernel="rbf", eigen_solver="arpack", random_state=0).fit(kinds).eigenvectors_ for _ in range(4)
    ]
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("estimator", [KernelPCA, kernelsieve.CompressedKernelPCA])
def test_rows_that_are_all_unlike_each_other_take_no_longer_than_a_dense_decomposition(estimator):
    """Their eigenvalues differ by hardly more than rounding: ARPACK, left alone, made 24,000 products with 300 rows."""
    rows = np.random.default_rng(0).standard_cauchy((300, 40))
    options = {"n_support": 100} if estimator is not KernelPCA else {}
    with count_products() as products:
        model = estimator(4, kernel="rbf", gamma=1.83, random_state=0, **options).fit(rows)
    assert len(products) < 2 * len(rows)
    gram = rbf_kernel(rows, gamma=1.83)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    if estimator is KernelPCA:
        assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(centred)[:-5:-1], rtol=1e-12)
        assert_allclose(model.eigenvectors_.T @ model.eigenvectors_, np.eye(4), atol=1e-12)


def test_a_number_of_restarts_that_the_user_gives_is_kept():
    rows = np.random.default_rng(0).standard_cauchy((300, 40))
    with pytest.raises(ValueError, match="eigen_solver='dense'"):
        KernelPCA(4, kernel="rbf", gamma=1.83, max_iter=25, random_state=0).fit(rows)


def test_a_function_of_two_rows_is_asked_once_for_a_pair():
    rows, asked = np.random.default_rng(0).standard_normal((40, 3)), []

    def kernel(x, y):
        asked.append(1)
        return float(np.exp(-np.sum((x - y) ** 2)))

    model = KernelPCA(2, kernel=kernel).fit(rows)
    assert len(asked) <= 40 * 41 / 2 + 10  # and a few to see what kind of function it is
    truth = SklearnKernelPCA(2, kernel="rbf", gamma=1.0).fit_transform(rows)
    assert_allclose(np.abs(model.transform(rows)), np.abs(truth), atol=1e-9)
    for values in (rows, sp.csr_array(rows).astype(np.float32)):
        pair = CallableKernel(lambda x, y: float((x * y).sum()), vectorized=False)
        assert_allclose(pair(values, values), rows @ rows.T, atol=1e-5)


def test_a_bool_is_no_number():
    with pytest.raises(ValueError, match="'gamma' parameter of KernelPCA must not be a bool"):
        KernelPCA(1, kernel="rbf", gamma=True).fit(np.eye(4))


def test_large_variances_can_be_saved(tmp_path):
    rows = 1e55 * np.random.default_rng(0).standard_normal((30, 3))
    model = KernelPCA(2).fit(rows)
    assert model.eigenvalues_[0] > 1e110
    model.save(tmp_path / "m.ks")
    np.testing.assert_array_equal(kernelsieve.load(tmp_path / "m.ks").transform(rows), model.transform(rows))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine", "sigmoid"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_bits_and_small_integers_are_numbers(kernel, container):
    bits = np.random.default_rng(0).random((50, 4)) < 0.5
    for given in (bits, np.where(bits, np.int8(100), np.int8(-100))):
        ours, theirs = (
            model(2, kernel=kernel, gamma=1e-2).fit_transform(container(given))
            for model in (KernelPCA, SklearnKernelPCA)
        )
        assert_allclose(np.abs(ours), np.abs(theirs), rtol=1e-9, atol=1e-9 * np.abs(theirs).max())


def test_parameters_that_no_kernel_would_read_are_refused():
    """As scikit-learn's they were ignored: gamma .1 was fitted where 50 was asked for."""
    rows = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.raises(ValueError, match=r"kernel_params=\{'gamma': 50.0\} are for a callable kernel"):
        KernelPCA(2, kernel="rbf", gamma=0.1, kernel_params={"gamma": 50.0}).fit(rows)
    ours = KernelPCA(2, kernel=rbf_kernel, kernel_params={"gamma": 0.5}).fit(rows)
    theirs = SklearnKernelPCA(2, kernel="rbf", gamma=0.5).fit(rows)
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", ">f2", ">f4", ">f8", "int8"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
def test_numbers_of_other_types_give_no_warnings(dtype, kernel):
    """Squares of float16 overflow, and limits that float16 does not hold; neither is the user's business."""
    rows = (20 * np.random.default_rng(0).standard_normal((40, 3))).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = KernelPCA(2, kernel=kernel, gamma=1e-3).fit(rows)
        scores = fitted.transform(rows)
    expected = KernelPCA(2, kernel=kernel, gamma=1e-3).fit(rows.astype(np.float64)).transform(rows.astype(np.float64))
    assert_same_up_to_sign(scores, expected, 1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("words", ["zero-size array", "other words"])
def test_eigenvalues_that_lapack_misses_are_found_by_all_of_them(monkeypatch, words):
    """Of a cluster of equal eigenvalues LAPACK may return none; what is said of that is another library's to change."""
    module = "sklearn.decomposition._kernel_pca"

    def refused(eigenvalues, **_):
        raise ValueError(words)

    X = np.eye(6)
    monkeypatch.setattr(f"{module}.eigh", lambda K, **_: (np.zeros(0), np.zeros((len(K), 0))))
    monkeypatch.setattr(f"{module}._check_psd_eigenvalues", refused)
    model = KernelPCA(3, kernel="linear", eigen_solver="dense").fit(X)
    np.testing.assert_allclose(model.eigenvalues_, np.ones(3), rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_a_given_gram_has_its_components_in_any_unit_and_nothing_is_said(unit):
    rows = np.random.default_rng(0).standard_normal((40, 3))
    gram = rows @ rows.T
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelPCA(3, kernel="precomputed").fit(unit * gram)
    centred = rows - rows.mean(axis=0)
    assert_allclose(model.eigenvalues_, unit * np.linalg.svd(centred, compute_uv=False) ** 2, rtol=1e-9)
    assert_allclose(model.explained_variance_ratio_.sum(), 1.0)
