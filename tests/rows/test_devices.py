"""The same fit on every array library and device: numpy's numbers, the library's own arrays out.

array-api-strict runs everywhere; torch, its CUDA device and cupy where they are installed.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve import ElasticNetKernelPCA, LikelihoodKernelPCA, SparseKernelPCA, load
from kernelsieve.rows.rows import BLOCK_HALVINGS, with_smaller_blocks


def _torch(device):
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return lambda values: torch.asarray(np.asarray(values), device=device)


def _cupy():
    cupy = pytest.importorskip("cupy")
    try:
        cupy.zeros(1)
    except Exception as error:
        pytest.skip(f"cupy sees no device: {error}")
    return cupy.asarray


def _strict():
    strict = pytest.importorskip("array_api_strict")
    return lambda values: strict.asarray(np.asarray(values))


LIBRARIES = {
    "strict": _strict,
    "torch": lambda: _torch("cpu"),
    "torch-cuda": lambda: _torch("cuda"),
    "cupy": _cupy,
}


@pytest.fixture(params=LIBRARIES)
def there(request):
    """numpy array -> array of the library."""
    return LIBRARIES[request.param]()


def back(values, like):
    assert type(values) is type(like), f"left the library: {type(values)}"
    if hasattr(values, "get"):
        return values.get()
    return np.asarray(values.cpu() if hasattr(values, "cpu") else values)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((3000, 5)) @ rng.standard_normal((5, 7)) + 0.3 * rng.standard_normal((3000, 7))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "cosine", "laplacian"])
def test_same_support_same_scores(there, rows, kernel, center):
    options = {"selection": np.arange(0, 3000, 150), "kernel": kernel, "gamma": 0.02, "center": center}
    options["random_state"] = 0  # of the sample by which the mean's length is estimated, which `score` goes by
    X = there(rows)
    here, other = SparseKernelPCA(3, **options).fit(rows), SparseKernelPCA(3, **options).fit(X)
    scale = np.abs(here.transform(rows)).max()
    np.testing.assert_allclose(back(other.transform(X), X), here.transform(rows), atol=1e-8 * scale)
    np.testing.assert_allclose(other.explained_variance_, here.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(
        back(other.reconstruction_error(X), X), here.reconstruction_error(rows), atol=1e-7 * scale**2
    )
    assert other.score(X) == pytest.approx(here.score(rows), abs=1e-8)


@pytest.mark.parametrize("selection", ["optimized", "targeted", "kmeans", "rpcholesky", "uniform"])
def test_every_rule(there, rows, selection):
    options = {"n_support": 25, "selection": selection, "gamma": 0.02, "random_state": 0}
    X = there(rows)
    here, other = SparseKernelPCA(3, **options).fit(rows), SparseKernelPCA(3, **options).fit(X)
    assert other.captured_ratio_ == pytest.approx(here.captured_ratio_, abs=2e-3)
    assert other.explained_variance_.sum() == pytest.approx(here.explained_variance_.sum(), rel=2e-3)


def test_auto_and_weights(there, rows):
    weights = np.random.default_rng(1).integers(0, 3, len(rows)).astype(float)
    X = there(rows)
    here = SparseKernelPCA(2, gamma=0.02, random_state=0).fit(rows, sample_weight=weights)
    other = SparseKernelPCA(2, gamma=0.02, random_state=0).fit(X, sample_weight=weights)
    assert abs(other.n_support_ - here.n_support_) <= 2
    assert other.explained_variance_.sum() == pytest.approx(here.explained_variance_.sum(), rel=5e-3)


def test_float32_stays_float32(there, rows):
    X = there(rows.astype(np.float32))
    model = SparseKernelPCA(3, selection=np.arange(0, 3000, 150), gamma=0.02).fit(X)
    scores = model.transform(X)
    truth = SparseKernelPCA(3, selection=np.arange(0, 3000, 150), gamma=0.02).fit(rows).transform(rows)
    assert back(scores, X).dtype == np.float32
    np.testing.assert_allclose(back(scores, X), truth, atol=2e-4)


def test_float32_far_from_the_origin(there, rows):
    """Features whose mean is large against their spread: sums of float32 products about zero would lose them."""
    options = {"selection": np.arange(0, 3000, 150), "gamma": 1e-4}
    model = SparseKernelPCA(2, **options).fit(there(rows.astype(np.float32)))
    truth = SparseKernelPCA(2, **options).fit(rows)
    np.testing.assert_allclose(model.explained_variance_, truth.explained_variance_, rtol=1e-3)


def test_integers_become_floats(there, rows):
    X = there(np.round(rows * 10).astype(np.int64))
    model = SparseKernelPCA(2, selection=np.arange(0, 3000, 150), gamma=2e-4).fit(X)
    assert back(model.transform(X), X).dtype == np.float64


def test_likelihood(there, rows):
    options = {"gamma": 0.02, "n_dictionary": 40, "noise_fraction": 0.25, "random_state": 0}
    X = there(rows)
    here, other = LikelihoodKernelPCA(**options).fit(rows), LikelihoodKernelPCA(**options).fit(X)
    np.testing.assert_allclose(back(other.transform(X), X), here.transform(rows), atol=1e-7)
    np.testing.assert_allclose(back(other.score_samples(X), X), here.score_samples(rows), atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"n_dictionary": 40}, {"n_nonzero": 6, "refit": True}, {"sparsity": "joint", "center": False}]
)
def test_elastic_net(there, rows, options):
    options = {"gamma": 0.02, "random_state": 0, "tol": 1e-10, **options}
    X = there(rows[:600])
    here, other = (ElasticNetKernelPCA(2, **options).fit(x) for x in (rows[:600], X))
    np.testing.assert_array_equal(other.support_, here.support_)
    np.testing.assert_allclose(back(other.transform(X), X), here.transform(rows[:600]), atol=1e-7)
    np.testing.assert_allclose(back(other.reconstruction_error(X), X), here.reconstruction_error(rows[:600]), atol=1e-7)
    assert other.score(X) == pytest.approx(here.score(rows[:600]), abs=1e-8)
    assert other.captured_ratio_ == pytest.approx(here.captured_ratio_, abs=1e-6)


def test_saved_and_loaded_on_the_host(there, rows, tmp_path):
    X = there(rows)
    model = SparseKernelPCA(3, n_support=20, gamma=0.02, random_state=0).fit(X)
    model.save(tmp_path / "model.ks")
    np.testing.assert_allclose(load(tmp_path / "model.ks").transform(rows), back(model.transform(X), X), atol=1e-10)


def test_rows_of_another_library_at_transform(there, rows):
    model = SparseKernelPCA(3, n_support=20, gamma=0.02, random_state=0).fit(rows)
    X = there(rows)
    np.testing.assert_allclose(back(model.transform(X), X), model.transform(rows), atol=1e-10)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_named(there, rows, bad):
    broken = rows.copy()
    broken[1234, 2] = bad
    model = SparseKernelPCA(2, selection=np.arange(0, 1000, 50), gamma=0.02)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.fit(there(broken))
    assert not hasattr(model, "expansion_")


def test_wrong_shapes(there, rows):
    model = SparseKernelPCA(2, n_support=20, gamma=0.02).fit(there(rows))
    with pytest.raises(ValueError, match="features"):
        model.transform(there(rows[:, :3]))
    with pytest.raises(ValueError, match="2D"):
        SparseKernelPCA(2).fit(there(rows[:, 0]))
    with pytest.raises(ValueError, match="square matrix"):
        SparseKernelPCA(2, kernel="precomputed").fit(there(rows[:8]))


def test_a_precomputed_gram_of_another_library(there, rows):
    gram = rbf_kernel(rows[:60], gamma=0.02)
    model = SparseKernelPCA(2, n_support=10, kernel="precomputed", random_state=0)
    ours, theirs = clone(model).fit(gram), clone(model).fit(there(gram))
    np.testing.assert_array_equal(theirs.support_, ours.support_)
    scores = back(theirs.transform(there(gram)), there(gram))
    np.testing.assert_allclose(scores, ours.transform(gram), atol=1e-9)


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    _torch(request.param)
    return request.param


@pytest.mark.parametrize("stream", [False, True])
def test_host_rows_on_a_device(device, rows, stream):
    options = {"selection": np.arange(0, 3000, 150), "gamma": 0.02}
    X = [rows[:1000], rows[1000:]] if stream else rows
    here, other = SparseKernelPCA(3, **options).fit(rows), SparseKernelPCA(3, device=device, **options).fit(X)
    assert isinstance(other.support_vectors_, np.ndarray)
    assert isinstance(other.dual_coef_, np.ndarray)
    np.testing.assert_allclose(other.transform(rows), here.transform(rows), atol=1e-8)
    np.testing.assert_array_equal(other.support_, here.support_)


def test_host_rows_on_a_device_choose_as_on_the_host(device, rows):
    options = {"n_support": 20, "selection": "targeted", "gamma": 0.02, "random_state": 0}
    here, other = SparseKernelPCA(3, **options).fit(rows), SparseKernelPCA(3, device=device, **options).fit(rows)
    np.testing.assert_array_equal(other.support_, here.support_)


def test_sparse_rows_stay_on_the_host(device, rows):
    with pytest.raises(ValueError, match="sparse rows stay on the host"):
        SparseKernelPCA(3, n_support=20, device=device).fit(scipy.sparse.csr_matrix(rows))


def test_a_device_that_is_not_there(rows):
    torch = pytest.importorskip("torch")
    name = "cuda:99" if torch.cuda.is_available() else "cuda"
    with pytest.raises(ValueError, match="cannot be used here"):
        SparseKernelPCA(3, n_support=20, device=name).fit(rows)


class OutOfMemoryError(RuntimeError):
    """As torch's and cupy's are called."""


def test_out_of_memory_makes_smaller_blocks():
    tried = []

    def attempt(halvings):
        tried.append(halvings)
        if halvings < 3:
            raise OutOfMemoryError("CUDA out of memory")
        return "done"

    assert with_smaller_blocks(attempt) == "done"
    assert tried == [0, 1, 2, 3]


def test_out_of_memory_for_good():
    def attempt(halvings):
        raise OutOfMemoryError("CUDA out of memory")

    with pytest.raises(MemoryError, match="fewer support points"):
        with_smaller_blocks(attempt)


def test_other_errors_come_out_as_they_are():
    calls = []

    def attempt(halvings):
        calls.append(halvings)
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        with_smaller_blocks(attempt)
    assert calls == [0]
    assert BLOCK_HALVINGS > 0


def test_weights_of_another_number(there, rows):
    for count in (len(rows) - 1, len(rows) + 1):
        with pytest.raises(ValueError, match=rf"sample_weight has {count} values, X has 3000 rows"):
            SparseKernelPCA(2, n_support=20, gamma=0.02).fit(there(rows), sample_weight=np.ones(count))
