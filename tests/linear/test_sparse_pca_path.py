"""The path of sparse PCA, and what is no path."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from linear_cases import sparse_signals
from sklearn.decomposition import PCA

from kernelsieve import ElasticNetPCA, sparse_pca_path

# The path


@pytest.mark.parametrize("name", ["tall", "wide"])
@pytest.mark.parametrize("options", [{}, {"l2": 1.0}, {"mode": "sequential", "refit": True}])
def test_the_path_is_a_fit_for_every_alpha(name, options):
    X = sparse_signals(*{"tall": (200, 14), "wide": (80, 100)}[name], deviations=(4.0, 2.0))[0]
    alphas = [0.7, 0.3, 0.1] if "l2" not in options else [0.3, 0.05, 0.02]
    path = sparse_pca_path(X, 2, alphas=alphas, **options)
    assert path.alphas.tolist() == alphas
    for i, alpha in enumerate(alphas):
        model = ElasticNetPCA(2, alpha=alpha, **options).fit(X)
        np.testing.assert_allclose(path.components[i], model.components_, atol=1e-4)
        np.testing.assert_array_equal(path.n_nonzero[i], model.n_nonzero_)
        np.testing.assert_allclose(path.explained_variance_ratio[i], model.explained_variance_ratio_, rtol=1e-3)
    assert path.converged.all()


def test_the_path_runs_from_empty_to_dense(tall):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = sparse_pca_path(tall, 2, alphas=12)
    assert path.alphas[0] == 1.0
    assert np.all(np.diff(path.alphas) < 0)
    assert path.n_nonzero[0].tolist() == [0, 0]
    assert path.n_nonzero[-1].min() > 8
    assert path.components.shape == (12, 2, 14)
    total = path.explained_variance_ratio.sum(axis=1)
    assert total[-1] == pytest.approx(PCA(2).fit(tall).explained_variance_ratio_.sum(), rel=1e-3)
    covariance = sparse_pca_path(np.cov(tall.T), 2, alphas=12, covariance=True)
    np.testing.assert_allclose(covariance.components, path.components, atol=1e-5)
    counts = np.random.default_rng(0).integers(0, 4, 90)
    weighted = sparse_pca_path(tall, 2, alphas=12, sample_weight=counts)
    repeated = sparse_pca_path(np.repeat(tall, counts, axis=0), 2, alphas=12)
    np.testing.assert_allclose(weighted.components, repeated.components, atol=1e-5)


def test_each_start_of_the_path_is_the_last_end(tall):
    alphas = np.linspace(0.6, 0.2, 60)
    path = sparse_pca_path(tall, 3, alphas=alphas)
    cold = [ElasticNetPCA(3, alpha=alpha).fit(tall).n_iter_ for alpha in alphas]
    assert path.n_iter.sum() < 0.75 * sum(cold)


def test_wrong_paths_are_named(tall):
    for alphas, message in ((0, "whole number"), ([], "sequence"), ([0.5, -1], "negative"), ([np.nan], "finite")):
        with pytest.raises(ValueError, match=message):
            sparse_pca_path(tall, alphas=alphas)
    with pytest.raises(ValueError, match="needs the alphas themselves"):
        sparse_pca_path(tall, alphas=5, alpha_scale="absolute")
    with pytest.raises(ValueError, match="a covariance has its weights in it"):
        sparse_pca_path(np.cov(tall.T), covariance=True, sample_weight=np.ones(14))
    with pytest.raises(ValueError, match="'mode' parameter"):
        sparse_pca_path(tall, mode="both")


def test_a_picture_of_the_path(tall):
    plots = pytest.importorskip("kernelsieve.plots")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    path = sparse_pca_path(tall, 2, alphas=8)
    names = [f"x{i}" for i in range(14)]
    figure, ax = plt.subplots()
    assert plots.loading_path(path, 1, names, ax=ax) is ax
    figure.canvas.draw()
    largest = np.argmax(np.abs(path.components[-1, 1]))
    assert names[largest] in {text.get_text() for text in ax.texts}
    drawn = {tuple(line.get_ydata()) for line in ax.lines}
    assert tuple(path.components[:, 1, largest]) in drawn
    assert ax.get_xlabel() == "alpha"
    with pytest.raises(ValueError, match="component=2 does not exist: the path has 2"):
        plots.loading_path(path, 2)
    with pytest.raises(ValueError, match="3 feature_names for 14 features"):
        plots.loading_path(path, 0, ["a", "b", "c"])
    plots.loading_path(path).figure.canvas.draw()
    plt.close("all")
