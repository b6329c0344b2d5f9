"""One text for every array library: array-api-strict, which has nothing that the standard has not, gives numpy's
numbers."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from oracles import KERNELS, gram_of, value_and_gradient

from kernelsieve import arrays
from kernelsieve.fit.moments import MomentSum
from kernelsieve.fit.moments import gram_of as gram_of_points
from kernelsieve.fit.span import AllRowsSpan, PointSpan
from kernelsieve.kernels import named_kernel
from kernelsieve.rules.distances import kmeans_centers
from kernelsieve.search.lbfgs import Ascent
from kernelsieve.search.objective import CapturedVariance
from kernelsieve.spectrum import cuda_graphs
from kernelsieve.spectrum.top import exact_components
from kernelsieve.spectrum.whitening import whiten

strict = pytest.importorskip("array_api_strict")
ATOL = 1e-10


def there(values):
    return strict.asarray(np.asarray(values))


def back(array):
    assert type(array).__module__.startswith("array_api_strict"), f"left the namespace: {type(array)}"
    return np.asarray(array)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name, cloud, new_rows):
    kernel = named_kernel(name, **KERNELS[name])
    block = back(kernel(there(cloud), there(new_rows)))
    np.testing.assert_allclose(block, gram_of(name, cloud, new_rows, **KERNELS[name]), atol=ATOL)
    np.testing.assert_allclose(back(kernel.diagonal(there(cloud))), kernel.diagonal(cloud), atol=ATOL)
    scale, unit = kernel.unit(there(cloud))
    assert scale == pytest.approx(kernel.unit(cloud)[0])
    assert unit.name == name


@pytest.mark.parametrize("name", KERNELS)
def test_pullbacks(name, cloud, new_rows):
    kernel, weights = named_kernel(name, **KERNELS[name]), np.random.default_rng(0).standard_normal((80, 30))
    cross = kernel(cloud, new_rows)
    pulled = kernel.pullback(there(cloud), there(new_rows), there(cross), there(weights))
    np.testing.assert_allclose(back(pulled), kernel.pullback(cloud, new_rows, cross, weights), atol=ATOL)


def test_far_from_the_origin(cloud, new_rows):
    block = named_kernel("rbf", gamma=0.3)(there(cloud + 1e4), there(new_rows + 1e4))
    np.testing.assert_allclose(back(block), gram_of("rbf", cloud, new_rows, gamma=0.3), atol=1e-8)


def moments_both_ways(name, cloud, new_rows, weights=None):
    kernel, points = named_kernel(name, **KERNELS[name]), new_rows[:8]
    whitening = whiten(gram_of_points(kernel, points)).matrix
    here = MomentSum(kernel, points, whitening).over(cloud, weights, 1)
    other = MomentSum(kernel, there(points), there(whitening)).over(
        there(cloud), None if weights is None else there(weights), 1
    )
    return (kernel, points, here), (kernel, there(points), other)


def best(kernel, points, moments, *, center):
    span = PointSpan(kernel, points, None, center, moments)
    found = span.best(3)
    return span.expansion(found), found.variances


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_moments(name, weighted, cloud, new_rows):
    weights = np.random.default_rng(0).uniform(0, 2, 80) if weighted else None
    (kernel, points, here), (*_, other) = moments_both_ways(name, cloud, new_rows, weights)
    scale = np.abs(here.scatter).max()
    np.testing.assert_allclose(back(other.scatter), here.scatter, atol=ATOL * scale)
    np.testing.assert_allclose(back(other.mean), here.mean, atol=ATOL * np.sqrt(scale))
    assert other.weight == pytest.approx(here.weight)
    assert other.trace == pytest.approx(here.trace)
    both = other + other
    np.testing.assert_allclose(back(both.covariance(True)), here.covariance(True), atol=ATOL * scale)
    twice = replace(both, whitening=here.whitening, mean=back(both.mean), scatter=back(both.scatter))
    both_span, span = (PointSpan(kernel, points, None, True, moments) for moments in (twice, here))
    assert both_span.total_variance == pytest.approx(span.total_variance)


def test_whitening(cloud):
    gram = gram_of("rbf", cloud[:10], gamma=0.3)
    matrix = back(whiten(there(gram)).matrix)
    np.testing.assert_allclose(matrix.T @ gram @ matrix, np.eye(10), atol=1e-8)


@pytest.mark.parametrize("center", [True, False])
def test_components_and_transform(center, cloud, new_rows):
    here, other = moments_both_ways("rbf", cloud, new_rows)
    (ours, variances), (theirs, their_variances) = (best(*which, center=center) for which in (here, other))
    np.testing.assert_allclose(their_variances, variances, atol=ATOL)
    np.testing.assert_allclose(back(theirs.coef), ours.coef, atol=1e-9)
    np.testing.assert_allclose(back(theirs.transform(there(cloud))), ours.transform(cloud), atol=ATOL)
    error = back(theirs.reconstruction_error(there(cloud)))
    np.testing.assert_allclose(error, ours.reconstruction_error(cloud), atol=ATOL)


def test_a_numpy_model_takes_rows_of_another_library(cloud, new_rows):
    here, _ = moments_both_ways("rbf", cloud, new_rows)
    expansion, _ = best(*here, center=True)
    np.testing.assert_allclose(back(expansion.transform(there(cloud))), expansion.transform(cloud), atol=ATOL)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_rows_as_support(center, weighted, cloud):
    kernel, weights = named_kernel("rbf", gamma=0.3), np.linspace(0.5, 2, 80) if weighted else None
    spans = [AllRowsSpan(kernel, rows, None, center, weights) for rows in (cloud, there(cloud))]
    ours, theirs = (span.best(3) for span in spans)
    np.testing.assert_allclose(theirs.variances, ours.variances, atol=ATOL)
    scores, their_scores = spans[0].expansion(ours).transform(cloud), spans[1].expansion(theirs).transform(there(cloud))
    np.testing.assert_allclose(back(their_scores), scores, atol=1e-9)


@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weights and row_scale"])
@pytest.mark.parametrize("name", [name for name in KERNELS if named_kernel(name).differentiable])
def test_captured_variance(name, extras, cloud, new_rows):
    rng = np.random.default_rng(0)
    scale, weights = (rng.uniform(0.5, 1, 80), np.full(80, 1 / 80)) if extras else (None, None)
    kernel, points = named_kernel(name, **KERNELS[name]), new_rows[:4]
    value, gradient = value_and_gradient(CapturedVariance(kernel, cloud, scale, weights, 2, True), points)
    other = CapturedVariance(
        kernel, there(cloud), *(None if v is None else there(v) for v in (scale, weights)), n_components=2, center=True
    )
    their_value, their_gradient = value_and_gradient(other, there(points))
    assert their_value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(back(their_gradient), gradient, atol=ATOL * max(1, np.abs(gradient).max()))


def test_ascent(cloud, new_rows):
    kernel = named_kernel("rbf", gamma=0.3)
    ours = Ascent(CapturedVariance(kernel, cloud, None, None, 2, True), new_rows[:4]).run(5)
    theirs = Ascent(CapturedVariance(kernel, there(cloud), None, None, 2, True), there(new_rows[:4])).run(5)
    assert theirs.value == pytest.approx(ours.value, rel=1e-9)
    np.testing.assert_allclose(back(theirs.points), ours.points, atol=1e-8)


@pytest.mark.parametrize("n", [80, 600], ids=["dense", "Krylov"])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_components(n, weighted):
    rng = np.random.default_rng(0)
    gram = gram_of("rbf", rng.standard_normal((n, 3)), gamma=0.3)
    weights = rng.uniform(0, 2, n) if weighted else None
    ours = exact_components(gram, 4, center=True, weights=weights)
    theirs = exact_components(there(gram), 4, center=True, weights=None if weights is None else there(weights))
    np.testing.assert_allclose(theirs.variances, ours.variances, atol=ATOL)
    signs = np.sign(np.sum(back(theirs.row_coef) * ours.row_coef, axis=0))
    np.testing.assert_allclose(back(theirs.row_coef) * signs, ours.row_coef, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_kmeans(weighted, cloud):
    weights = np.random.default_rng(1).uniform(0.1, 2, 80) if weighted else None
    ours = kmeans_centers(cloud, 6, 10, np.random.default_rng(0), weights)
    theirs = kmeans_centers(there(cloud), 6, 10, np.random.default_rng(0), None if weights is None else there(weights))
    np.testing.assert_allclose(back(theirs), ours, atol=ATOL)


@pytest.mark.parametrize(("capability", "fast"), [((9, 0), True), ((8, 6), False), ((5, 0), False), ((12, 0), False)])
def test_devices_for_data_centres_have_fast_float64(capability, fast, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(arrays, "is_torch", lambda x: True)
    assert arrays.has_fast_float64(SimpleNamespace(device=SimpleNamespace(type="cuda"))) is fast
    assert not arrays.has_fast_float64(SimpleNamespace(device=SimpleNamespace(type="cpu")))


@pytest.fixture
def no_device(monkeypatch):
    """torch's streams on a machine without a device: they only count who waits for whom."""
    torch = pytest.importorskip("torch")
    waits = []
    stream = SimpleNamespace(wait_stream=waits.append)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(cuda_graphs, "_stage", lambda: SimpleNamespace(first=stream))
    return waits


def test_two_parts_run_side_by_side_on_a_device_and_gradients_stay_off(no_device):
    import torch

    begun = threading.Event()

    def short():
        assert begun.wait(10)
        return threading.get_ident()

    def long():
        begun.set()
        return threading.get_ident(), torch.is_grad_enabled()

    with torch.no_grad():
        here, (there, gradients) = cuda_graphs.side_by_side_on("cuda", short, long)
    assert here == threading.get_ident() != there
    assert not gradients
    assert len(no_device) == 2


@pytest.mark.parametrize("which", ["short", "long"])
def test_an_error_in_either_part_is_raised_when_both_have_ended(which, no_device):
    ended = []

    def part(name):
        def run():
            ended.append(name)
            if name == which:
                raise RuntimeError(name)

        return run

    with pytest.raises(RuntimeError, match=which):
        cuda_graphs.side_by_side_on("cuda", part("short"), part("long"))
    assert sorted(ended) == ["long", "short"]
    assert len(no_device) == 2
