"""What every public estimator promises, whatever its method.

A fit is steady (a batch is its rows; the same seed, the same model), sober (only its support is touched; a failed fit
changes nothing), lasting (a file gives the same bytes back), and the same for the same rows, however they are given:
float32, weighted, in blocks, in dask.  What an estimator does not take it refuses by name.
"""

import inspect

import numpy as np
import pytest
from oracles import CountingKernel, state_of
from sklearn.base import BaseEstimator, clone

import kernelsieve as ks

da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings(
    "error",
    "ignore::UserWarning",
    "ignore:The `numpy.may_share_memory` function:FutureWarning",  # scikit-learn's on dask
)

GAUSSIAN = {"kernel": "rbf", "gamma": 0.3}
EVERY = {
    "sparse": ks.SparseKernelPCA(3, n_support=7, random_state=0, **GAUSSIAN),
    "sparse, of rows": ks.SparseKernelPCA(3, n_support=7, selection="targeted", random_state=0, **GAUSSIAN),
    "exact": ks.KernelPCA(3, eigen_solver="dense", **GAUSSIAN),
    "elastic net": ks.ElasticNetKernelPCA(3, n_nonzero=7, sparsity="joint", random_state=0, **GAUSSIAN),
    "robust": ks.RobustSparseKernelPCA(3, n_nonzero=7, sparsity="joint", random_state=0, **GAUSSIAN),
    "likelihood": ks.LikelihoodKernelPCA(3, noise_fraction=0.1, random_state=0, **GAUSSIAN),
    "dissimilarity": ks.DissimilarityKernelPCA(3, n_nodes=10, random_state=0, **GAUSSIAN),
    "improved": ks.ImprovedKernelPCA(3, n_nodes=10, random_state=0, **GAUSSIAN),
    "feature analysis": ks.KernelFeatureAnalysis(3, random_state=0, **GAUSSIAN),
    "compressed": ks.CompressedKernelPCA(3, n_support=10, random_state=0, **GAUSSIAN),
    "online": ks.OnlineKernelPCA(3, budget=20, random_state=0, **GAUSSIAN),
    "monitor": ks.KernelMonitor(3, 10, cv=2, random_state=0, **GAUSSIAN),
    "sparse PCA": ks.ElasticNetPCA(2, alpha=0.1),
    "robust sparse PCA": ks.RobustElasticNetPCA(2, alpha=0.1, random_state=0),
    "table": ks.TableEncoder(),
}
KERNEL = [name for name, model in EVERY.items() if hasattr(model, "kernel") and name != "monitor"]
WEIGHTED = [name for name, model in EVERY.items() if "sample_weight" in inspect.signature(model.fit).parameters]
# What looks at all rows again and again has them in memory; a table has blocks of its own, `fit_blocks`.
IN_MEMORY = ["exact", "dissimilarity", "compressed", "sparse PCA", "robust sparse PCA", "table"]
REFUSED = {"blocks": IN_MEMORY, "dask": ["dissimilarity", "compressed"]}  # others bring an array of dask into memory

every = pytest.mark.parametrize("name", EVERY)


def made(name, **options):
    return clone(EVERY[name]).set_params(**options)


def outputs(model, rows):
    """All that a fitted model says of rows, a row each."""
    uses = ("transform", "reconstruction_error", "score_samples")
    return [np.asarray(getattr(model, use)(rows)) for use in uses if hasattr(model, use)]


def test_every_public_estimator_is_under_the_contract():
    public = (getattr(ks, name) for name in ks.__all__)
    estimators = {cls for cls in public if isinstance(cls, type) and issubclass(cls, BaseEstimator)}
    assert {type(model) for model in EVERY.values()} == estimators


@every
def test_a_batch_is_its_rows(name, cloud, new_rows):
    model = made(name).fit(cloud)
    for batch, *alone in zip(outputs(model, new_rows), *(outputs(model, row[None]) for row in new_rows), strict=True):
        np.testing.assert_allclose(batch, np.concatenate(alone), rtol=0, atol=1e-12 * max(1, np.abs(batch).max()))


@every
def test_the_same_seed_gives_the_same_model(name, cloud):
    np.testing.assert_equal(state_of(made(name).fit(cloud)), state_of(made(name).fit(cloud)))


@every
def test_a_failed_fit_changes_nothing(name, cloud):
    model, spoilt = made(name).fit(cloud), np.where(np.arange(80)[:, None] == 7, np.inf, cloud)
    before = state_of(made(name).fit(cloud))
    with pytest.raises(ValueError, match=r"infinit|inf|NaN"):
        model.fit(spoilt)
    np.testing.assert_equal(state_of(model), before)


@every
def test_a_file_gives_the_same_bytes_back(name, cloud, new_rows, tmp_path):
    model = made(name).fit(cloud)
    ks.save(model, tmp_path / "model.ks")
    loaded = ks.load(tmp_path / "model.ks")
    assert type(loaded) is type(model)
    assert [out.tobytes() for out in outputs(loaded, new_rows)] == [out.tobytes() for out in outputs(model, new_rows)]


@every
def test_float32_in_float32_out(name, cloud, new_rows):
    full = made(name).fit(cloud)
    light = made(name).fit(cloud.astype(np.float32))
    if hasattr(light, "transform"):
        assert light.transform(new_rows.astype(np.float32)).dtype == np.float32
    for truth, found in zip(outputs(full, new_rows), outputs(light, new_rows.astype(np.float32)), strict=True):
        np.testing.assert_allclose(np.abs(found), np.abs(truth), rtol=0, atol=5e-3 * np.abs(truth).max())


@pytest.mark.parametrize("name", KERNEL)
def test_only_the_support_is_touched(name, cloud, new_rows):
    kernel = CountingKernel()
    model = made(name, kernel=kernel).fit(cloud)
    kernel.points = []
    model.transform(new_rows)
    assert sum(len(points) for points in kernel.points) == model.n_support_
    support = np.asarray(model.support_vectors_)
    for points in kernel.points:
        assert np.all(np.abs(points[:, None] - support[None]).sum(axis=-1).min(axis=1) == 0)


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weight_is_a_number_of_copies(name, cloud, new_rows):
    counts = np.random.default_rng(0).integers(1, 4, 80)
    weighted = made(name).fit(cloud, sample_weight=counts)
    repeated = made(name).fit(np.repeat(cloud, counts, axis=0))
    for one, other in zip(outputs(weighted, new_rows), outputs(repeated, new_rows), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(other).max())


@pytest.mark.parametrize("form", ["blocks", "dask"])
@every
def test_rows_in_blocks_are_the_same_rows_or_refused_by_name(name, form, cloud, new_rows):
    rows = [cloud[:30], cloud[30:]] if form == "blocks" else da.from_array(cloud, chunks=(30, -1))
    model = made(name)
    if name in REFUSED[form]:
        with pytest.raises((TypeError, ValueError), match=r"array|in memory"):
            model.fit(rows)
        assert not [attribute for attribute in vars(model) if attribute.endswith("_")]
        return
    model.fit(rows)
    for found, truth in zip(outputs(model, new_rows), outputs(made(name).fit(cloud), new_rows), strict=True):
        np.testing.assert_allclose(found, truth, rtol=0, atol=1e-6 * np.abs(truth).max())
