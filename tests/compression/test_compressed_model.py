"""What a compressed model does, and what compress refuses."""

import warnings

import numpy as np
import pandas as pd
import pytest
from compression_cases import score_errors, sklearn_model
from oracles import KERNELS, exact_kernel_pca, gram_of
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelsieve import CompressedKernelPCA, KernelPCA, SparseKernelPCA, compress, load
from kernelsieve.compression.methods import Moving
from kernelsieve.errors import CompressionWarning

pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


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


def test_large_models_are_sampled(monkeypatch, digits_model, digits):
    """More rows than are compared, more points than are looked at: a part of each, by random_state."""
    monkeypatch.setattr("kernelsieve.models.compressed.COMPARED_ROWS", 200)
    monkeypatch.setattr("kernelsieve.models.compressed.COMPARED_ROWS_PER_POINT", 1)
    monkeypatch.setattr("kernelsieve.compression.methods.MAX_POOL", 100)
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


@pytest.mark.parametrize("max_iter", [1, 2, 4])
def test_too_few_steps_are_told(digits_model, max_iter):
    with pytest.warns(ConvergenceWarning, match=f"had not converged after max_iter={max_iter} step"):
        small = compress(digits_model, 10, max_iter=max_iter, random_state=0)
    assert (small.converged_, small.n_iter_ <= max_iter) == (False, True)


def test_candidates_leave_copies_out(cloud):
    """Every row twice: the second copies are never candidates, and the scores are kept all the same."""
    twice = np.vstack([cloud, cloud])
    model = sklearn_model("rbf", twice)
    small = compress(model, 120, method="removal")
    assert small.n_support_ <= 80
    assert small.compression_["total_error"] < 1e-6


def test_rows_that_gain_nothing_by_moving_are_not_moved_again_and_again(monkeypatch):
    """Of rows that are all unlike each other hundreds are needed, and a try of so many takes seconds: 12 were made."""
    rows = np.random.default_rng(0).standard_cauchy((400, 30))
    tried = []
    at = Moving.at
    monkeypatch.setattr(Moving, "at", lambda self, n_support: tried.append(n_support) or at(self, n_support))
    moved = CompressedKernelPCA(2, kernel="rbf", gamma=2.5, random_state=0).fit(rows)
    kept = CompressedKernelPCA(2, kernel="rbf", gamma=2.5, random_state=0, method="removal").fit(rows)
    assert moved.n_support_ == kept.n_support_ > 100
    assert len(tried) == 1


@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.filterwarnings("ignore")
def test_rows_that_are_all_the_same_leave_nothing_to_compress(n_components):
    with pytest.raises(ValueError, match="nothing to compress"):
        CompressedKernelPCA(n_components).fit(np.ones((30, 2)))


# --- what was lost is said ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_rows", [True, False])
def test_what_each_score_has_lost_is_measured_and_warned_about(on_rows):
    """R^2 by regression on the rows; in feature space by the lengths of projections; six components on four points."""
    X = np.random.default_rng(0).standard_normal((400, 5))
    model = SparseKernelPCA(6, n_support=30, random_state=0).fit(X)
    with pytest.warns(
        CompressionWarning, match=r"4 points keep little of components .*6 \(0\.\d\d\).*fewer points than"
    ):
        small = compress(model, 4, X=X if on_rows else None, random_state=0)
    said = small.compression_
    before, after = model.transform(X), small.transform(X)
    if on_rows:
        left = np.sum((before - after) ** 2, axis=0) / np.sum((before - before.mean(axis=0)) ** 2, axis=0)
        np.testing.assert_allclose(said["r2"], np.maximum(1 - left, 0), atol=1e-8)
    else:
        kernel, points = small.expansion_.kernel, small.support_vectors_
        inner = kernel(points, model.support_vectors_) @ model.dual_coef_
        lengths = np.einsum("ij,ij->j", inner, np.linalg.pinv(kernel(points, points)) @ inner)
        np.testing.assert_allclose(said["r2"], lengths, atol=1e-6)
        # the components in the span of four points capture at least what is promised
        gram, cross = kernel(points, points), kernel(X, points)
        values, vectors = np.linalg.eigh(gram)
        features = cross @ (vectors / np.sqrt(values))
        captured = np.sum(np.var(features, axis=0)) / (1 - np.mean(kernel(X, X)))
        assert said["explained"] <= captured
    assert said["explained"] == pytest.approx(said["r2"] @ model.explained_variance_ratio_)
    assert said["explained"] < said["explained_before"] == pytest.approx(model.explained_variance_ratio_.sum())


def test_a_model_that_keeps_its_scores_does_not_warn():
    X = np.random.default_rng(0).standard_normal((400, 3))
    model = SparseKernelPCA(3, n_support=30, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CompressionWarning)
        small = compress(model, 15, X=X, random_state=0)
    assert small.compression_["r2"].min() > 0.95
