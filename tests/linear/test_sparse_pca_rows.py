"""ElasticNetPCA on rows of all kinds, and what follows a fit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from linear_cases import sparse_signals
from oracles import run_python

import kernelsieve
from kernelsieve import ElasticNetPCA
from kernelsieve.linear.scatter import row_mean, scatter_of

# Rows of all kinds


@pytest.mark.parametrize("name", ["tall", "wide"])
@pytest.mark.parametrize("options", [{"alpha": 0.2}, {"alpha": 0.05, "l2": 1.0}, {"n_nonzero": 4, "l2": 0.1}])
def test_sparse_rows_are_the_same_rows(name, options, request):
    X = request.getfixturevalue(name).copy()
    X[np.abs(X) < 0.3] = 0
    dense = ElasticNetPCA(2, refit=True, **options).fit(X)
    for container in (scipy.sparse.csr_matrix, scipy.sparse.csc_array):
        model = ElasticNetPCA(2, refit=True, **options).fit(container(X))
        np.testing.assert_allclose(model.components_, dense.components_, atol=1e-6)
        np.testing.assert_allclose(model.explained_variance_, dense.explained_variance_, rtol=1e-7)
        np.testing.assert_allclose(model.explained_variance_ratio_, dense.explained_variance_ratio_, rtol=1e-7)
        np.testing.assert_allclose(model.transform(container(X)), dense.transform(X), atol=1e-5)
        np.testing.assert_allclose(model.reconstruction_error(container(X)), dense.reconstruction_error(X), atol=1e-5)
        assert model.score(container(X)) == pytest.approx(dense.score(X))


@pytest.mark.parametrize("shape", [(40, 12), (15, 40)])
@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("options", [{"alpha": 0.2}, {"alpha": 0.1, "l2": 1.0}])
def test_weights_are_repetitions(shape, container, options):
    X = sparse_signals(*shape)[0]
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = ElasticNetPCA(2, **options).fit(container(X), sample_weight=counts)
    repeated = ElasticNetPCA(2, **options).fit(np.repeat(X, counts, axis=0))
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-6)
    np.testing.assert_allclose(weighted.mean_, repeated.mean_)
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(weighted.alpha_, repeated.alpha_)


@pytest.mark.parametrize("name", ["tall", "wide"])
def test_float32(name, request):
    X = request.getfixturevalue(name)
    full, light = ElasticNetPCA(2).fit(X), ElasticNetPCA(2).fit(X.astype(np.float32))
    scores = light.transform(X.astype(np.float32))
    assert scores.dtype == np.float32
    assert light.inverse_transform(scores).dtype == np.float32
    np.testing.assert_allclose(scores, full.transform(X), atol=1e-4)
    np.testing.assert_allclose(light.components_, full.components_, atol=1e-5)


def test_far_from_the_origin(tall):
    near, far = ElasticNetPCA(2).fit(tall), ElasticNetPCA(2).fit(tall + 1e6)
    np.testing.assert_allclose(far.components_, near.components_, atol=1e-5)
    np.testing.assert_allclose(far.transform(tall + 1e6), near.transform(tall), atol=1e-4)


def test_a_covariance_is_all_it_needs(tall):
    rows = ElasticNetPCA(3, alpha=0.2, refit=True).fit(tall)
    covariance = ElasticNetPCA(3, alpha=0.2, refit=True).fit_covariance(np.cov(tall.T, ddof=0))
    np.testing.assert_allclose(covariance.components_, rows.components_, atol=1e-8)
    np.testing.assert_allclose(covariance.explained_variance_, rows.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(covariance.explained_variance_ratio_, rows.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_array_equal(covariance.mean_, np.zeros(14))
    np.testing.assert_allclose(covariance.transform(tall - rows.mean_), rows.transform(tall), atol=1e-8)


def test_many_rows_are_taken_in_parts():
    X = sparse_signals(5000, 8, size=3)[0]
    centred = X - X.mean(axis=0)
    scatter = scatter_of(X, None, row_mean(X, None))
    np.testing.assert_allclose(scatter.gram, centred.T @ centred, rtol=1e-10)


def test_nothing_of_size_p_by_p_for_p_above_n():
    """p x p numbers would be 1.2 GB."""
    out = run_python("""
        import tracemalloc, warnings
        import numpy as np
        from kernelsieve import ElasticNetPCA
        warnings.simplefilter("ignore")
        X = np.random.default_rng(0).standard_normal((40, 12_000))
        for options in ({}, {"l2": 1.0, "alpha": 0.5}, {"l2": 1.0, "n_nonzero": 20, "refit": True}):
            model = ElasticNetPCA(2, max_iter=3, **options)
            model.fit(X[:, :50])  # imports are no cost of a fit
            tracemalloc.start()
            model.fit(X)
            print(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    """)
    assert max(int(line) for line in out.split()) < 5 * 40 * 12_000 * 8


# After the fit


@pytest.mark.parametrize("name", ["tall", "wide"])
def test_scores_and_rows_back(name, request):
    X = request.getfixturevalue(name)
    new = X[::-1] + 0.1
    least, plain = (ElasticNetPCA(3, n_nonzero=6, transform_method=m).fit(X) for m in ("least-squares", "projection"))
    V, centred = least.components_, new - X.mean(axis=0)
    by_hand = np.linalg.lstsq(V.T, centred.T, rcond=None)[0].T
    np.testing.assert_allclose(least.transform(new), by_hand, atol=1e-8)
    np.testing.assert_allclose(plain.transform(new), centred @ V.T, atol=1e-10)
    rebuilt = by_hand @ V + X.mean(axis=0)
    for model in (least, plain):
        np.testing.assert_allclose(model.inverse_transform(model.transform(new)), rebuilt, atol=1e-8)
        np.testing.assert_allclose(model.reconstruction_error(new), ((new - rebuilt) ** 2).sum(axis=1), rtol=1e-7)
        assert model.score(new) == pytest.approx(1 - ((new - rebuilt) ** 2).sum() / (centred**2).sum())


def test_names_and_frames(tall):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(tall, columns=[f"x{i}" for i in range(14)])
    model = ElasticNetPCA(2).set_output(transform="pandas").fit(frame)
    assert list(model.transform(frame).columns) == ["elasticnetpca0", "elasticnetpca1"]
    assert list(model.feature_names_in_) == list(frame.columns)
    assert list(ElasticNetPCA(2).fit_covariance(frame.cov()).feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize("options", [{}, {"alpha": [0.1, 0.3], "l2": 0.5}, {"n_nonzero": np.array([3, 4])}])
def test_save_and_load(options, tall, tmp_path):
    model = ElasticNetPCA(2, **options).fit(tall)
    model.save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks")
    assert isinstance(loaded, ElasticNetPCA)
    np.testing.assert_array_equal(loaded.transform(tall), model.transform(tall))
    np.testing.assert_array_equal(loaded.inverse_transform(np.ones((3, 2))), model.inverse_transform(np.ones((3, 2))))
    for name, value in vars(model).items():
        np.testing.assert_array_equal(getattr(loaded, name), value)


def test_the_same_fit_twice_is_the_same(wide):
    models = [ElasticNetPCA(3, alpha=0.1, l2=0.5).fit(wide) for _ in range(2)]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
