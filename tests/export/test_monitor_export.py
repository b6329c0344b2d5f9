"""A monitor leaves Python: SPE, and its decision, on rows and on windows of rows."""

import numpy as np
import pytest
from export_oracles import compiled, run_onnx

import kernelsieve
from kernelsieve.export import ExportError, register_onnx_converters, to_c, to_onnx

KernelMonitor = getattr(kernelsieve, "KernelMonitor", None)
pytestmark = [
    pytest.mark.skipif(KernelMonitor is None, reason="KernelMonitor is not part of this copy"),
    pytest.mark.filterwarnings("error", "ignore::UserWarning"),
]
pytest.importorskip("onnx", reason="onnx is not installed")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((400, 2)) @ rng.standard_normal((2, 6)) + 0.2 * rng.standard_normal((400, 6))
    return (normal * [1, 10, 0.1, 1, 1, 5] + [0, 1000, 0, 3, 0, -50]).astype(np.float32)


def _faulty(rows):
    faulty = rows[:60].copy()
    faulty[30:, 3] += 4
    return faulty


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("lags", [0, 2])
def test_decisions_are_the_monitors_own(rows, whiten, lags, tmp_path):
    monitor = KernelMonitor(5, 20, whiten=whiten, lags=lags, random_state=0).fit(rows.astype(np.float64))
    x = _faulty(rows)
    windows = np.concatenate([x[lags - lag : len(x) - lag] for lag in range(lags + 1)], axis=1)
    truth = monitor.decision_function(x.astype(np.float64))[lags:]
    assert (truth < 0).any()
    assert (truth > 0).any()
    for dtype, limit in (("float32", 6e-6), ("float64", 3e-13)):
        spe, decision = run_onnx(to_onnx(monitor, dtype, ("error", "decision")), windows, dtype)
        assert np.abs(decision - truth).max() <= limit
        assert np.abs(spe + monitor.score_samples(x.astype(np.float64))[lags:]).max() <= limit
        run = compiled(to_c(monitor, name=f"m_{dtype}", dtype=dtype), tmp_path, f"m_{dtype}", decision=True)
        assert np.abs(run(windows)[2] - truth).max() <= 3 * limit


def test_skl2onnx_gives_labels_and_decisions(rows):
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    monitor = KernelMonitor(5, 20, random_state=0).fit(rows.astype(np.float64))
    register_onnx_converters()
    x = _faulty(rows)
    label, decision = run_onnx(skl2onnx.to_onnx(monitor, x[:1]), x)
    assert np.array_equal(label.ravel(), monitor.predict(x.astype(np.float64)))
    assert np.abs(decision.ravel() - monitor.decision_function(x.astype(np.float64))).max() <= 6e-6


def test_a_torch_module_decides_too(rows):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from kernelsieve.export import to_torch

    monitor = KernelMonitor(5, 20, whiten=True, random_state=0).fit(rows.astype(np.float64))
    x = _faulty(rows).astype(np.float64)
    found = to_torch(monitor, dtype=torch.float64).decision(torch.tensor(x)).numpy()
    assert np.abs(found - monitor.decision_function(x)).max() <= 1e-12


def test_a_smoothed_monitor_gives_its_error_and_no_decision(rows):
    monitor = KernelMonitor(5, 20, smoothing=0.3, random_state=0).fit(rows.astype(np.float64))
    assert [value.name for value in to_onnx(monitor, outputs=("error",)).graph.output] == ["error"]
    with pytest.raises(ExportError, match="a monitor without smoothing"):
        to_onnx(monitor, outputs=("decision",))
