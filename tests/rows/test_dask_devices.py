"""Dask rows on the workers' devices: the fit that the host gives, on threads and in worker processes.

What a GPU is asked for is asked of torch's "cpu" device too, by the same code; where there is a GPU, of it.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from kernelsieve import RobustSparseKernelPCA, SparseKernelPCA

torch = pytest.importorskip("torch")
dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

N, D = 1500, 4
OPTIONS = {"n_support": 12, "n_optimization_samples": 400, "random_state": 0}
HAS_CUDA = torch.cuda.is_available()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    return 2 * rng.standard_normal((6, D))[rng.integers(6, size=N)] + 0.6 * rng.standard_normal((N, D))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device"))])
def device(request):
    return request.param


def chunked(rows):
    return da.from_array(rows, chunks=(400, D))


def on_device(rows, device):
    """A dask array whose chunks are torch tensors on a device: made there, and nowhere else."""
    make = dask.delayed(lambda part: torch.tensor(part, device=device), pure=True)
    parts = [rows[start : start + 400] for start in range(0, len(rows), 400)]
    return da.concatenate([da.from_delayed(make(part), part.shape, part.dtype) for part in parts])


def assert_same(found, expected, tolerance=1e-8):
    for name in ("support_vectors_", "dual_coef_", "offset_", "eigenvalues_", "explained_variance_ratio_"):
        mine, theirs = getattr(found, name), getattr(expected, name)
        assert type(mine) is np.ndarray, name
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * np.abs(theirs).max(), err_msg=name)


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
@pytest.mark.parametrize("selection", ["optimized", "targeted", "rpcholesky"])
def test_chunks_are_summed_up_on_a_device(device, scheduler, selection, rows):
    options = OPTIONS | {"selection": selection}
    expected = SparseKernelPCA(3, device=device, **options).fit(rows)
    with dask.config.set(scheduler=scheduler):
        found = SparseKernelPCA(3, device=device, **options).fit(chunked(rows))
        assert_same(found, expected)
        scores = found.transform(chunked(rows))
        assert isinstance(scores, da.Array)
        assert scores.chunks[0] == (400, 400, 400, 300)
        np.testing.assert_allclose(scores.compute(), expected.transform(rows), atol=1e-10)


@pytest.mark.parametrize("named", [False, True])
def test_chunks_that_are_on_a_device_stay_there(device, named, rows):
    """With device= and without: the rows are where they are."""
    X = on_device(rows, device)
    expected = SparseKernelPCA(3, **OPTIONS).fit(rows)
    found = SparseKernelPCA(3, device=device if named else None, **OPTIONS).fit(X)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-3)
    scores = found.transform(X).compute()
    assert type(scores) is np.ndarray
    np.testing.assert_allclose(scores, found.transform(rows), atol=1e-10)
    exact = found.transform(rows).var(axis=0).sum()
    np.testing.assert_allclose(exact, expected.transform(rows).var(axis=0).sum(), rtol=1e-3)


def test_weights_float32_and_robust_weights(device, rows):
    weights = np.random.default_rng(4).integers(0, 4, N).astype(float)
    assert_same(
        SparseKernelPCA(3, device=device, **OPTIONS).fit(chunked(rows), sample_weight=weights),
        SparseKernelPCA(3, device=device, **OPTIONS).fit(rows, sample_weight=weights),
    )
    single = rows.astype(np.float32)
    model = SparseKernelPCA(3, device=device, **OPTIONS).fit(chunked(single))
    assert model.transform(chunked(single)).compute().dtype == np.float32
    expected = SparseKernelPCA(3, device=device, **OPTIONS).fit(single)
    np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, rtol=1e-4)
    settings = {"n_dictionary": 40, "device": device, "random_state": 0}
    assert_same(RobustSparseKernelPCA(2, **settings).fit(chunked(rows)), RobustSparseKernelPCA(2, **settings).fit(rows))


def test_worker_processes_sum_up_on_their_devices(cluster, device, rows):
    expected = SparseKernelPCA(3, device=device, **OPTIONS).fit(rows)
    found = SparseKernelPCA(3, device=device, **OPTIONS).fit(chunked(rows))
    assert_same(found, expected)
    np.testing.assert_allclose(found.transform(chunked(rows)).compute(), expected.transform(rows), atol=1e-10)
    there = SparseKernelPCA(3, **OPTIONS).fit(on_device(rows, device))
    np.testing.assert_allclose(there.eigenvalues_, SparseKernelPCA(3, **OPTIONS).fit(rows).eigenvalues_, rtol=1e-6)


def test_a_client_without_the_device_chooses_on_its_cores(monkeypatch, rows):
    """Only the workers are asked whether they have it."""

    def missing(name):
        raise ValueError(f"device={name!r} cannot be used here")

    monkeypatch.setattr("kernelsieve.rows.dask.checked_device", missing)
    found = SparseKernelPCA(3, device="cpu", **OPTIONS).fit(chunked(rows))
    assert_same(found, SparseKernelPCA(3, **OPTIONS).fit(rows))


@pytest.mark.skipif(HAS_CUDA, reason="every worker has a CUDA device here")
def test_a_worker_without_the_device_is_named(cluster, rows):
    model = SparseKernelPCA(3, **OPTIONS).fit(rows)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=r"the dask worker tcp://.*CUDA_VISIBLE_DEVICES.*device='cuda' cannot be used"):
        model.set_params(device="cuda").fit(chunked(rows))
    assert vars(model) == before | {"device": "cuda"}
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(ValueError, match="the process that works on the dask"),
    ):
        model.fit(chunked(rows))


def test_an_unknown_device_is_refused_before_a_chunk_is_read(rows):
    read = []

    def notes(block):
        read.append(len(block))
        return block

    X = chunked(rows).map_blocks(notes, meta=np.empty((0, 0)))
    here = dask.config.set(scheduler="synchronous")
    with here, pytest.raises(ValueError, match="device='gpu' cannot be used here"):
        SparseKernelPCA(3, device="gpu", **OPTIONS).fit(X)
    fitted = SparseKernelPCA(3, **OPTIONS).fit(rows).set_params(device="gpu")
    with pytest.raises(ValueError, match="device='gpu' cannot be used here"):
        fitted.transform(X)
    assert not read


def test_bad_rows_on_a_device_are_named(device, rows):
    bad = rows.copy()
    bad[900, 1] = np.nan
    with pytest.raises(ValueError, match="rows 800 to 1199: Input X contains NaN"):
        SparseKernelPCA(3, device=device, **OPTIONS).fit(chunked(bad))
    calls = []

    def drifts(block):
        calls.append(None)
        return block + (len(calls) > 4) * 1e-3  # from the second pass on

    here = dask.config.set(scheduler="synchronous")
    with here, pytest.raises(ValueError, match="changed between two passes"):
        SparseKernelPCA(3, device=device, **OPTIONS).fit(chunked(rows).map_blocks(drifts, meta=np.empty((0, 0))))


def test_read_only_chunks_are_no_matter(rows):
    frozen = rows.copy()
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SparseKernelPCA(3, device="cpu", **OPTIONS).fit(chunked(frozen))
    writable = SparseKernelPCA(3, device="cpu", **OPTIONS).fit(chunked(rows))
    np.testing.assert_allclose(model.eigenvalues_, writable.eigenvalues_, rtol=1e-12)
