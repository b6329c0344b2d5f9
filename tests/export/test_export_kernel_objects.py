"""Kernels made of others, and those without a name, leave Python: the same scores and errors in ONNX, torch and C.

Truth is what the model itself computes, whose kernels are held to their formulas in tests/kernels.
"""

from __future__ import annotations

import numpy as np
import pytest
from export_oracles import compiled, run_onnx
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.export import ExportError, to_c, to_onnx
from kernelsieve.kernels import (
    ANOVA,
    RBF,
    Bessel,
    Cauchy,
    Chi2,
    Cosine,
    Epanechnikov,
    Hamming,
    HistogramIntersection,
    Jaccard,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Spline,
    Tanimoto,
    normalized,
)

pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")
KERNELS = [
    RBF(width=[0.5, 1.0, 2.0, 0.7]),
    Matern(nu=0.5),
    Matern(nu=2.5),
    RationalQuadratic(alpha=0.7),
    Cauchy(),
    Epanechnikov(),
    Periodic(period=0.7),
    Chi2(),
    HistogramIntersection(),
    Tanimoto(),
    Jaccard(),
    ANOVA(degree=2),
    Spline(),
    normalized(Polynomial(gamma=1.0)),
    normalized(HistogramIntersection()),
    2.0 * RBF().on([0, 1]) * Hamming(width=1.0).on([3]) + 0.5 * Linear().on([2, 0]),
    Laplacian().on(slice(1, 3)) + Matern(width=[1.0, 2.0]).on([0, 1]),
    Cosine().on([0, 1]) + Cosine().on([2, 1]),
    RBF() + 0.1 * Linear(),  # a factor that float32 rounds, of a matrix product
    0.3 * Cosine() + 0.7 * Polynomial(degree=1, gamma=1.0, coef0=0.0),
]
NAMES = [repr(kernel) for kernel in KERNELS]


@pytest.fixture(scope="module")
def rows():
    found = np.random.default_rng(0).random((80, 4)).astype(np.float32).astype(np.float64)
    found[:, 3] = np.round(4 * found[:, 3])
    found[0] = 0.0
    return found


def fitted(kernel, rows):
    return SparseKernelPCA(2, n_support=10, kernel=kernel, selection="targeted", random_state=0).fit(rows)


def same(found, model, rows, tolerance):
    scores, errors = found
    if model.kernel == Matern(nu=0.5):  # a row on a point is 1e-8 away from it where distances are made of products
        tolerance = max(tolerance, 2e-8)
    truth = model.transform(rows)
    np.testing.assert_allclose(scores, truth, rtol=0, atol=tolerance * np.abs(truth).max())
    truth = model.reconstruction_error(rows)
    length = float(model.expansion_.kernel.diagonal(rows).max())
    np.testing.assert_allclose(np.ravel(errors), truth, rtol=0, atol=3 * tolerance * length)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_onnx(kernel, rows):
    pytest.importorskip("onnx")
    model = fitted(kernel, rows)
    for dtype, tolerance in (("float32", 2e-5), ("float64", 1e-9)):
        same(run_onnx(to_onnx(model, outputs=("scores", "error"), dtype=dtype), rows, dtype), model, rows, tolerance)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_torch(kernel, rows):
    torch = pytest.importorskip("torch")
    from kernelsieve.export import to_torch

    model = fitted(kernel, rows)
    module, x = to_torch(model, dtype=torch.float64), torch.tensor(rows, requires_grad=True)
    same((module(x).detach().numpy(), module.error(x).detach().numpy()), model, rows, 1e-10)
    module(x)[5:].sum().backward()
    expected = model.input_gradient(rows[5:]).sum(axis=1)
    if all(name not in repr(kernel) for name in ("Laplacian", "Jaccard", "Histogram")):  # which have kinks
        apart = ~np.isin(np.arange(5, len(rows)), model.support_)  # some have a top without a derivative
        apart = apart[:, None] & (rows[5:] > 0)  # and one an end, at zero
        np.testing.assert_allclose(x.grad.numpy()[5:][apart], expected[apart], atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_c(kernel, rows, tmp_path):
    model = fitted(kernel, rows)
    for dtype, tolerance in (("float32", 2e-5), ("float64", 1e-9)):
        folder = tmp_path / dtype
        folder.mkdir()
        same(compiled(to_c(model, name="model", dtype=dtype), folder)(rows), model, rows, tolerance)


def test_a_scaler_before_a_composed_kernel(rows, tmp_path):
    kernel = RBF().on([0, 1]) * Matern().on([2]) + 0.5
    pipeline = make_pipeline(MinMaxScaler(), SparseKernelPCA(2, n_support=10, kernel=kernel, random_state=0)).fit(rows)
    truth = pipeline.transform(rows)
    scores, _ = compiled(to_c(pipeline, name="model"), tmp_path)(rows)
    np.testing.assert_allclose(scores, truth, atol=2e-5 * np.abs(truth).max())
    scores = run_onnx(to_onnx(pipeline, outputs=("scores",)), rows)[0]
    np.testing.assert_allclose(scores, truth, atol=2e-5 * np.abs(truth).max())


def test_a_part_that_cannot_leave_is_named(rows):
    with pytest.raises(ExportError, match="Bessel"):
        to_c(fitted(2.0 * Bessel() + Linear(), rows))
