"""Truth for exports, from scikit-learn's kernels in float64; compiled C; one measure of error for all."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from oracles import gram_of
from scipy.spatial.distance import cdist
from sklearn.pipeline import Pipeline

C_FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
KERNELS = {
    "rbf": {"gamma": 0.15},
    "laplacian": {"gamma": 0.2},
    "matern": {"gamma": 0.15},
    "poly": {"gamma": 0.3, "degree": 3, "coef0": 1.0},
    "linear": {},
    "sigmoid": {"gamma": 0.05, "coef0": 0.2},
    "cosine": {},
}
# What a row may be multiplied by such that its scores, cubes among them, still fit into float32.
HUGE = {"poly": 1e8, "linear": 1e15, "rbf": 1e30, "matern": 1e30, "laplacian": 1e30, "sigmoid": 1e30, "cosine": 1e30}


def gram(name, X, Y, **params):
    """k(X, Y) by scikit-learn, but where that loses digits: far from the origin, and for tiny rows."""
    if name == "rbf":
        return np.exp(-params["gamma"] * cdist(X, Y, "sqeuclidean"))
    if name == "matern":
        r = np.sqrt(6 * params["gamma"]) * cdist(X, Y)
        return (1 + np.minimum(r, 1e300)) * np.exp(-r)
    if name == "cosine":
        X, Y = (Z / np.maximum(np.abs(Z).max(axis=1, keepdims=True), 1e-300) for Z in (X, Y))
    return gram_of(name, X, Y, **params)


def truth(model, rows, kernel, params):
    """(scores, errors, squared distances to the mean) of a fitted model, or scalers and a model, in float64."""
    rows = np.asarray(rows, dtype=np.float64)
    if isinstance(model, Pipeline):
        rows = model[:-1].transform(rows)
        model = model[-1]
    expansion = model.expansion_
    points = np.asarray(expansion.points, dtype=np.float64)
    inner = gram(kernel, points, points, **params)
    cross = gram(kernel, rows, points, **params)
    scores = cross @ expansion.coef - expansion.offset
    own = np.array([gram(kernel, row[None], row[None], **params)[0, 0] for row in rows])
    if expansion.mean_coef is not None:
        own = own - 2 * cross @ expansion.mean_coef + expansion.mean_coef @ inner @ expansion.mean_coef
    metric = expansion.coef.T @ inner @ expansion.coef  # of components that need not be orthonormal
    captured = np.einsum("nk,kl,nl->n", scores, np.linalg.pinv(metric, rcond=1e-9, hermitian=True), scores)
    return scores, np.maximum(own - captured, 0), own


def extreme(rows, kernel, dtype):
    """Ordinary rows, then zero, far, huge and tiny ones, all exact in `dtype`."""
    first = rows[:4]
    parts = [rows, 0 * first, 30 * first, -1e4 * first, HUGE[kernel] * first, -HUGE[kernel] * first, 1e-25 * first]
    return np.concatenate(parts).astype(dtype)


def worst(found, scores, n_ordinary):
    """The largest error of any score, relative to its row's largest or to the largest of ordinary rows."""
    assert found.shape == scores.shape
    assert not np.isnan(found).any()
    usual = np.abs(scores[:n_ordinary]).max()
    return float((np.abs(found - scores) / np.maximum(np.abs(scores).max(axis=1), usual)[:, None]).max())


def worst_error(found, errors, lengths):
    """The same for reconstruction errors, relative to the squared distances that they are differences of."""
    return float((np.abs(found - errors) / np.maximum(np.abs(lengths), 1e-30)).max())


def run_onnx(proto, rows, dtype="float32", **inputs):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs or {"X": np.asarray(rows, dtype=dtype)})


def compiler():
    found = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if found is None:
        pytest.skip("no C compiler (gcc, cc or clang) is installed")
    return found


def compiled(text, folder: Path, name="model", *, decision=False):
    """The functions of a header, as one Python function of rows -> (scores, errors[, decisions])."""
    real = "double" if f"{name}_scores(const double" in text else "float"
    n_features, n_components = (_macro(text, name, what) for what in ("N_FEATURES", "N_COMPONENTS"))
    (folder / f"{name}.h").write_text(text, encoding="utf-8")
    last = f"d[i] = {name}_decision(x + i * {n_features});" if decision else "d[i] = 0;"
    program = f"""#include "{name}.h"
void run(const {real} *x, long n, {real} *z, {real} *e, {real} *d);
void run(const {real} *x, long n, {real} *z, {real} *e, {real} *d) {{
    long i;
    for (i = 0; i < n; i++) {{
        {name}_scores(x + i * {n_features}, z + i * {n_components});
        e[i] = {name}_error(x + i * {n_features});
        {last}
    }}
}}
"""
    (folder / f"{name}.c").write_text(program)
    library = folder / f"{name}.so"
    command = [compiler(), *C_FLAGS, "-O1", "-shared", "-fPIC", str(folder / f"{name}.c"), "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    function = ctypes.CDLL(str(library)).run

    def call(rows):
        rows = np.ascontiguousarray(rows, dtype=np.float64 if real == "double" else np.float32)
        outputs = [np.empty((len(rows), n_components), rows.dtype), *(np.empty(len(rows), rows.dtype) for _ in "ed")]
        pointers = [ctypes.c_void_p(values.ctypes.data) for values in outputs]
        function(ctypes.c_void_p(rows.ctypes.data), ctypes.c_long(len(rows)), *pointers)
        return outputs[0], outputs[1], *(outputs[2:] if decision else ())

    return call


def _macro(text, name, what):
    return int(text.split(f"#define {name.upper()}_{what} ")[1].split()[0])
