"""What leaves Python: its time a row, its size, and how close it stays."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import validate_data

from experiments.datasets import mnist
from kernelsieve import SparseKernelPCA
from kernelsieve.export import to_c, to_onnx

from .report import Report
from .timing import race

# Calls in a turn: about 2 ms for each contestant, so that all have warm caches, and a busy machine does not cut in.
CALLS = {"onnx": 200, "transform": 25, "checked": 10}
C_FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]


def often(function: Callable[[], Any], n_calls: int) -> Callable[[], None]:
    """The function many times: one row is too quick for a clock."""

    def repeated() -> None:
        for _ in range(n_calls):
            function()

    return repeated


def deployed(report: Report) -> None:
    onnx_rows(report)
    c_sizes(report)
    letters(report)


def onnx_rows(report: Report) -> None:
    """One row, and 2000, of MNIST on 50 points."""
    import onnxruntime

    report.section(
        "Export: MNIST, 50 points, onnxruntime against `transform`",
        "One row: float32, in turns. The checked transform is the one before plain rows took the short way: "
        "scikit-learn's validation, and the kernel bound to the points anew.",
    )
    data = mnist(4000)
    model = SparseKernelPCA(10, n_support=50, random_state=0).fit(data.train)
    content = to_onnx(model).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # as one row at a time is served: a second thread would only spin beside BLAS's
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    row = data.test[:1].astype(np.float32)

    def checked() -> np.ndarray:
        rows = validate_data(model, row, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        return replace(model.expansion_).transform(rows)

    run = partial(session.run, None, {"X": row})
    one = {"onnx": run, "transform": partial(model.transform, row), "checked": checked}
    taken = race({name: often(function, CALLS[name]) for name, function in one.items()}, 200)
    times = {name: 1e6 * seconds / CALLS[name] for name, seconds in taken.items()}
    note = f" ({times['onnx']:.1f} us against {times['checked']:.0f} us)"
    report.at_least(
        "one row: faster than the checked transform", times["checked"] / times["onnx"], 20.0, "{:.0f}x", note
    )
    note = f" ({times['transform']:.0f} us)"
    report.at_least(
        "one row: `transform` faster than checked", times["checked"] / times["transform"], 2.0, "{:.1f}x", note
    )
    report.line(
        "one row: onnxruntime faster than `transform` as it is now",
        "",
        f"{times['transform'] / times['onnx']:.1f}x",
        None,
    )
    rows = data.test[:2000].astype(np.float32)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    many = race({"onnx": partial(session.run, None, {"X": rows}), "transform": partial(model.transform, rows)}, 30)
    note = f" ({1e3 * many['onnx']:.1f} ms against {1e3 * many['transform']:.1f} ms)"
    report.at_least("2000 rows: as fast as `transform`", many["transform"] / many["onnx"], 1.0, "{:.2f}x", note)
    truth = model.transform(rows.astype(np.float64))
    for dtype, limit in (("float32", 2e-6), ("float64", 1e-13)):
        session = onnxruntime.InferenceSession(to_onnx(model, dtype).SerializeToString())
        (scores,) = session.run(None, {"X": rows.astype(dtype)})
        error = np.abs(scores - truth).max() / np.abs(truth).max()
        report.at_most(f"{dtype}: largest error of a score, of the largest score", error, limit, "{:.1e}")


def c_sizes(report: Report) -> None:
    """Bytes of code and data, and errors, of 52 variables on 20 points."""
    report.section(
        "Export: C, 52 variables, 20 points, 10 components",
        "Code and data at -Os of an object file with both functions. Errors on 500 rows that were not fitted to.",
    )
    if shutil.which("gcc") is None:
        report.skip("C", "gcc is not installed")
        return
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((1000, 6))
    rows = np.tanh(latent @ rng.standard_normal((6, 52))) + 0.2 * rng.standard_normal((1000, 52))
    rows = rows.astype(np.float32).astype(np.float64)
    model = SparseKernelPCA(10, n_support=20, random_state=0).fit(rows[:500])
    truth = model.transform(rows[500:])
    targets = {"float32": (6000, 5e-6), "float64": (None, 1e-13), "int8": (None, 1e-2)}
    for dtype, (size, limit) in targets.items():
        with tempfile.TemporaryDirectory() as folder:
            n_bytes, scores = _compiled(to_c(model, name="model", dtype=dtype), Path(folder), rows[500:])
        scale = np.ptp(truth, axis=0).max() if dtype == "int8" else np.abs(truth).max()
        error = np.abs(scores - truth).max() / scale
        if size is None:
            report.line(f"{dtype}: bytes", "", f"{n_bytes:,}", None)
        else:
            report.at_most(f"{dtype}: bytes", n_bytes, size, "{:,.0f}")
        report.at_most(f"{dtype}: largest error", error, limit, "{:.1e}")


def _compiled(text: str, folder: Path, rows: np.ndarray) -> tuple[int, np.ndarray]:
    """The size of the object file, and the scores that its code gives."""
    real = "double" if "model_scores(const double" in text else "float"
    (folder / "model.h").write_text(text)
    (folder / "model.c").write_text(
        f'#include "model.h"\nvoid scores(const {real} *x, {real} *z);\n{real} error(const {real} *x);\n'
        f"void scores(const {real} *x, {real} *z) {{ model_scores(x, z); }}\n"
        f"{real} error(const {real} *x) {{ return model_error(x); }}\n"
    )
    source, made, library = folder / "model.c", folder / "model.o", folder / "model.so"
    subprocess.run(["gcc", *C_FLAGS, "-Os", "-c", str(source), "-o", str(made)], check=True)
    printed = subprocess.run(["size", str(made)], check=True, capture_output=True, text=True).stdout
    subprocess.run(["gcc", *C_FLAGS, "-Os", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).scores
    rows = np.ascontiguousarray(rows, dtype=np.float64 if real == "double" else np.float32)
    scores = np.empty((len(rows), 10), dtype=rows.dtype)
    for x, z in zip(rows, scores, strict=True):
        function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(z.ctypes.data))
    return sum(map(int, printed.splitlines()[1].split()[:3])), scores


def letters(report: Report) -> None:
    """Labels of a pipeline on rows like the letters of UCI: 20,000 x 16 whole numbers, 26 classes."""
    import onnxruntime

    report.section("Export: StandardScaler -> SparseKernelPCA -> LogisticRegression, 20,000 x 16, 26 classes, float32")
    rng = np.random.default_rng(0)
    labels = rng.integers(26, size=20000)
    centers = rng.normal(7, 2, (26, 3, 16))
    rows = centers[labels, rng.integers(3, size=20000)] + rng.normal(0, 1.3, (20000, 16))
    rows = np.clip(np.rint(rows), 0, 15)
    pipeline = make_pipeline(
        StandardScaler(), SparseKernelPCA(30, n_support=100, random_state=0), LogisticRegression(max_iter=300)
    ).fit(rows[:10000], labels[:10000])
    session = onnxruntime.InferenceSession(to_onnx(pipeline).SerializeToString())
    found = session.run(None, {"X": rows.astype(np.float32)})[0]
    report.at_least("labels equal", float(np.mean(found == pipeline.predict(rows))), 1.0, "{:.6f}")
