"""Exports give the scores of the model: every kernel, both precisions, ordinary and extreme rows.

Truth is scikit-learn's kernels in float64 with the model's own points and coefficients.
"""

import numpy as np
import pytest
from export_oracles import KERNELS, compiled, extreme, run_onnx, truth, worst, worst_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.export import to_c, to_onnx

pytest.importorskip("onnx", reason="onnx is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # few rows, heavy tails, sigmoid kernels: on purpose


def _gaussian(rng):
    return rng.standard_normal((120, 6)) * [1.0, 0.8, 1.2, 0.5, 1.5, 1.0] + 0.3


def _heavy(rng):
    return rng.standard_t(2, (120, 6))


def _offset(rng):
    return rng.standard_normal((120, 6)) * 0.7 + [0, 1e3, -1e4, 50, 1e5, 1]


def _digits(rng):
    from sklearn.datasets import load_digits

    return rng.permutation(load_digits().data / 4)[:300]


DATA = {"gaussian": _gaussian, "heavy": _heavy, "offset": _offset, "digits": _digits}
GAMMA = {"digits": 0.02}


def _fitted(name, kernel, seed=0, **more):
    rng = np.random.default_rng(seed)
    rows = DATA[name](rng).astype(np.float32).astype(np.float64)
    params = dict(KERNELS[kernel])
    if name in GAMMA and "gamma" in params:
        params["gamma"] = GAMMA[name] * params["gamma"] / KERNELS["rbf"]["gamma"]
    n_components = 2 if kernel == "sigmoid" else 4  # heavy tails leave it no more
    model = SparseKernelPCA(n_components, n_support=15, kernel=kernel, random_state=seed, **params, **more).fit(
        rows[:80]
    )
    return model, rows[80:], params


# inner products of rows far from the origin leave no digits for differences, in the model as in any library
CASES = [(d, k) for d in DATA for k in KERNELS if d != "offset" or k in ("rbf", "laplacian", "matern")]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("data", "kernel"), CASES)
def test_onnx_gives_the_scores_and_errors_of_the_model(data, kernel, seed):
    model, rows, params = _fitted(data, kernel, seed)
    for dtype, limit in (("float32", 2e-6), ("float64", 1e-13)):
        x = extreme(rows, kernel, dtype)
        scores, errors, lengths = truth(model, x, kernel, params)
        found, error = run_onnx(to_onnx(model, dtype, ("scores", "error")), x, dtype)
        assert found.dtype == error.dtype == dtype
        assert worst(found, scores, len(rows)) <= limit
        n = len(rows) if kernel in ("poly", "linear") else len(x)  # squares of huge scores do not fit into float32
        assert worst_error(error[:n], errors[:n], lengths[:n]) <= 3 * limit


@pytest.mark.parametrize(("data", "kernel"), CASES)
def test_c_gives_the_scores_and_errors_of_the_model(data, kernel, tmp_path):
    model, rows, params = _fitted(data, kernel)
    for dtype, limit in (("float32", 5e-6), ("float64", 1e-13)):
        x = extreme(rows, kernel, dtype)
        scores, errors, lengths = truth(model, x, kernel, params)
        found, error = compiled(to_c(model, name=f"m_{dtype}", dtype=dtype), tmp_path, f"m_{dtype}")(x)
        assert worst(found, scores, len(rows)) <= limit
        n = len(rows) if kernel in ("poly", "linear") else len(x)
        assert worst_error(error[:n], errors[:n], lengths[:n]) <= 3 * limit


@pytest.mark.parametrize(("data", "kernel"), CASES)
def test_points_of_one_byte_keep_the_scores_within_one_percent_of_their_spread(data, kernel, tmp_path):
    model, rows, params = _fitted(data, kernel)
    scores, _, _ = truth(model, rows, kernel, params)
    text = to_c(model, name="m", dtype="int8")
    found, _ = compiled(text, tmp_path, "m")(rows)
    assert np.sqrt(np.mean((found - scores) ** 2)) <= 0.01 * np.sqrt(np.mean(np.var(scores, axis=0)))
    # a column whose largest value is a hundred times the usual has few bytes for the usual, and a sigmoid sees only it
    if (data, kernel) != ("heavy", "sigmoid"):
        assert np.abs(found - scores).max() <= 0.01 * np.ptp(scores, axis=0).max()
    assert "static const signed char m_" in text
    assert "% of the scores' standard deviation" in text


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(clip=True), RobustScaler(), MaxAbsScaler()])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_scalers_become_part_of_the_exported_function(scaler, kernel, tmp_path):
    rng = np.random.default_rng(0)
    rows = (_gaussian(rng) * [1, 10, 0.01, 1e3, 1e-4, 5] + [0, 300, 2, -1e5, 0, 7]).astype(np.float32)
    pipeline = make_pipeline(scaler, SparseKernelPCA(3, n_support=12, kernel=kernel, random_state=0, **KERNELS[kernel]))
    pipeline.fit(rows[:80].astype(np.float64))
    scores, _, _ = truth(pipeline, rows, kernel, KERNELS[kernel])
    (found,) = run_onnx(to_onnx(pipeline), rows)
    assert worst(found, scores, len(rows)) <= 2e-6
    (found,) = run_onnx(to_onnx(pipeline, "float64"), rows, "float64")
    assert worst(found, scores, len(rows)) <= 1e-13
    found, _ = compiled(to_c(pipeline, name="m"), tmp_path, "m")(rows)
    assert worst(found, scores, len(rows)) <= 5e-6
    found, _ = compiled(to_c(pipeline, name="b", dtype="int8"), tmp_path, "b")(rows)
    assert np.abs(found - scores).max() <= 0.01 * np.ptp(scores, axis=0).max()


@pytest.mark.parametrize("width", [1e-3, 0.03, 1.0, 30.0])
@pytest.mark.parametrize("n_support", [12, 40])
def test_wide_and_narrow_kernels_keep_the_promise_by_computing_in_double_where_float32_is_too_short(
    width, n_support, tmp_path
):
    rng = np.random.default_rng(1)
    rows = _gaussian(rng).astype(np.float32)
    gamma = 0.15 * width
    model = SparseKernelPCA(5, n_support=n_support, gamma=gamma, random_state=0).fit(rows[:80].astype(np.float64))
    scores, _, _ = truth(model, rows, "rbf", {"gamma": gamma})
    proto = to_onnx(model)
    (found,) = run_onnx(proto, rows)
    assert worst(found, scores, len(rows)) <= 2e-6
    arithmetic = {entry.key: entry.value for entry in proto.metadata_props}["arithmetic"]
    assert arithmetic == ("float64" if width < 0.01 else arithmetic)
    found, _ = compiled(to_c(model, name="m"), tmp_path, "m")(rows)
    assert worst(found, scores, len(rows)) <= 5e-6


@pytest.mark.parametrize("degree", [1, 2, 5, 7, 2.5])
def test_polynomials_of_any_degree(degree, tmp_path):
    rows = np.abs(_gaussian(np.random.default_rng(2))).astype(np.float32)
    params = {"gamma": 0.1, "degree": degree, "coef0": 0.5}
    model = SparseKernelPCA(2, n_support=10, kernel="poly", random_state=0, **params).fit(rows[:80].astype(np.float64))
    scores, _, _ = truth(model, rows, "poly", params)
    (found,) = run_onnx(to_onnx(model), rows)
    assert worst(found, scores, len(rows)) <= 2e-6
    found, _ = compiled(to_c(model, name="m", dtype="float64"), tmp_path, "m")(rows)
    assert worst(found, scores, len(rows)) <= 1e-13


def test_scores_beyond_float32_are_no_numbers_there_and_right_in_float64():
    rows, params = _gaussian(np.random.default_rng(2))[:80], {"gamma": 0.1, "degree": 2, "coef0": 0.5}
    model = SparseKernelPCA(2, n_support=10, kernel="poly", random_state=0, **params).fit(rows)
    far = 1e30 * rows[:5]
    assert not np.isfinite(run_onnx(to_onnx(model), far)[0]).any()
    (found,) = run_onnx(to_onnx(model, "float64"), far, "float64")
    assert worst(found, truth(model, far, "poly", params)[0], 5) <= 1e-13


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_one_column_one_component_few_points(kernel, tmp_path):
    rng = np.random.default_rng(3)
    rows = (rng.standard_normal((40, 1)) + 0.5).astype(np.float32)
    params = dict(KERNELS[kernel])
    model = SparseKernelPCA(
        1, n_support=1, center=False, kernel=kernel, selection="uniform", random_state=0, **params
    ).fit(rows.astype(np.float64))
    scores, _, _ = truth(model, rows, kernel, params)
    (found,) = run_onnx(to_onnx(model), rows)
    assert found.shape == (40, 1)
    assert worst(found, scores, 40) <= 2e-6
    for dtype, limit in (("float32", 5e-6), ("int8", 0.01)):
        found, _ = compiled(to_c(model, name=f"m_{dtype}", dtype=dtype), tmp_path, f"m_{dtype}")(rows)
        assert worst(found, scores, 40) <= limit
    (found,) = run_onnx(to_onnx(model), rows[:1])
    assert found.shape == (1, 1)
    (found,) = run_onnx(to_onnx(model), rows[:0])
    assert found.shape == (0, 1)


def test_nan_in_a_row_is_nan_in_its_scores_and_no_other():
    for kernel in KERNELS:
        model, rows, _ = _fitted("gaussian", kernel)
        rows = rows[:3].astype(np.float32)
        rows[1, 2] = np.nan
        found, error = run_onnx(to_onnx(model, outputs=("scores", "error")), rows)
        assert np.isnan(found[1]).all()
        assert np.isnan(error[1])
        assert np.isfinite(found[[0, 2]]).all()
