"""A wider unit of work under one release of the interpreter lock: does it pay?

A moments pass makes some twelve calls of numpy a block of rows, and between two of them threads wait for the
interpreter.  Here a whole group of blocks (distances, exponential, whitening, sums, products) is one call, in float32:

    numpy          what the library does
    TorchScript    torch's host kernels, the loop over blocks compiled by torch
    C              a function of twenty lines with the products of numpy's own OpenBLAS, compiled here by `cc`

python -m benchmarks.one_call [rows]      the question is about 16 cores; 1, 2, 4, ... threads as far as there are cores
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from kernelsieve.threads import one_blas_thread, ordered_map, row_groups

from .report import Report
from .scaling import FEATURES, fit, moment_sum, rows, threads
from .timing import race

CACHED = 1000  # rows of a block of the compiled function, whose kernel values stay in a core's own cache
SOURCE = """
#include <math.h>
typedef long I;
typedef void (*gemm_t)(int, int, int, I, I, I, float, const float *, I, const float *, I, float, float *, I);
typedef void (*syrk_t)(int, int, int, I, I, float, const float *, I, float, float *, I);
void group(const float *X, I n, I d, const float *P, const float *p, float g, I m, const float *W, I q, float *K,
           float *F, const float *shift, float *total, float *products, I rows, gemm_t gemm, syrk_t syrk) {
  for (I s = 0; s < n; s += rows) {
    I b = n - s < rows ? n - s : rows;
    const float *B = X + s * d;
    gemm(101, 111, 111, b, m, d, 1.f, B, d, P, m, 0.f, K, m);
    for (I i = 0; i < b; i++) {
      float length = 0;
      for (I j = 0; j < d; j++) length += B[i * d + j] * B[i * d + j];
      for (I j = 0; j < m; j++) K[i * m + j] = expf(K[i * m + j] + p[j] - g * length);
    }
    gemm(101, 111, 111, b, q, m, 1.f, K, m, W, q, 0.f, F, q);
    for (I i = 0; i < b; i++)
      for (I j = 0; j < q; j++) total[j] += F[i * q + j] -= shift[j];
    syrk(101, 121, 112, q, b, 1.f, F, q, 1.f, products, q);
  }
}
"""

Group = Callable[[np.ndarray, np.ndarray, np.ndarray], None]  # rows in, total and products added to


def in_c(P: np.ndarray, p: np.ndarray, g: float, W: np.ndarray, shift: np.ndarray) -> Group:
    """A group of blocks by the function above."""
    blas = ctypes.CDLL(next(x["filepath"] for x in threadpool_info() if "numpy.libs" in x["filepath"]))
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "group.c"), Path(folder, "group.so")
        source.write_text(SOURCE)
        command = ["cc", "-O3", "-march=native", "-ffast-math", "-fPIC", "-shared", source, "-o", library, "-lm"]
        subprocess.run(command, check=True)
        function = ctypes.CDLL(str(library)).group
    (m, q), memory = W.shape, threading.local()

    def group(X: np.ndarray, total: np.ndarray, products: np.ndarray) -> None:
        if not hasattr(memory, "K"):
            memory.K, memory.F = np.empty((CACHED, m), np.float32), np.empty((CACHED, q), np.float32)
        arrays = (X, P, p, W, memory.K, memory.F, shift, total, products)
        x, s, c, w, k, f, at, t, c2 = (a.ctypes.data_as(ctypes.c_void_p) for a in arrays)
        n, d, m_, q_, size = (ctypes.c_long(value) for value in (*X.shape, m, q, CACHED))
        products_of = blas.scipy_cblas_sgemm64_, blas.scipy_cblas_ssyrk64_
        function(x, n, d, s, c, ctypes.c_float(g), m_, w, q_, k, f, at, t, c2, size, *products_of)

    return group


def in_torch(P: np.ndarray, p: np.ndarray, g: float, W: np.ndarray, shift: np.ndarray) -> Group:
    """A group of blocks by TorchScript, which leaves the interpreter alone until it has ended."""
    import torch

    torch.set_num_threads(1)
    script = torch.jit.CompilationUnit(
        """
        def group(X: Tensor, size: int, P: Tensor, p: Tensor, g: float, W: Tensor, shift: Tensor, total: Tensor,
                  products: Tensor):
            for B in X.split(size):
                K = torch.addmm(p, B, P)
                K.sub_(g * (B * B).sum(1, keepdim=True)).exp_()
                F = torch.mm(K, W).sub_(shift)
                total.add_(F.sum(0))
                products.addmm_(F.t(), F)
        """
    )
    P, p, W, shift = (torch.from_numpy(a) for a in (P, p, W, shift))

    def group(X: np.ndarray, total: np.ndarray, products: np.ndarray) -> None:
        script.group(
            torch.from_numpy(X), CACHED, P, p, g, W, shift, torch.from_numpy(total), torch.from_numpy(products)
        )

    return group


def compare(report: Report, n_rows: int, m: int) -> None:
    report.section(f"{m} points", f"Moments pass of {n_rows:,} x {FEATURES} float32, best of 4, in turns.")
    X = rows(n_rows)
    work = moment_sum(fit(X[:50_000], m, 1))
    points, g = work.points.astype(np.float32), float(work.kernel.gamma)
    W = np.ascontiguousarray(work.whitening, dtype=np.float32)
    shift = work.kernel(X[:1000], points).astype(np.float32).mean(0) @ W
    known = np.ascontiguousarray(2 * g * points.T), -g * (points * points).sum(1), g, W, shift
    contenders: dict[str, Group] = {"TorchScript": in_torch(*known), "C": in_c(*known)}

    def over(group: Group, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
        def one(ranges: list[slice]) -> tuple[np.ndarray, np.ndarray]:
            total, products = np.zeros(len(shift), np.float32), np.zeros((len(shift), len(shift)), np.float32)
            group(X[ranges[0].start : ranges[-1].stop], total, products)
            return total, products

        with one_blas_thread():
            parts = list(ordered_map(one, row_groups(X, work.width), n_threads))
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    scatter = work.over(X, None, 1).scatter
    for name, group in contenders.items():
        total, products = over(group, 1)
        found = np.triu(products) - np.triu(np.outer(total, total)) / n_rows
        off = float(np.abs(found - np.triu(scatter)).max() / np.abs(scatter).max())
        report.at_most(f"{name}: scatter off by", off, 1e-4, "{:.0e}")
    for n in threads():
        calls: dict[str, Callable[[], Any]] = {"numpy": lambda n=n: work.over(X, None, n)}
        calls |= {name: lambda group=group, n=n: over(group, n) for name, group in contenders.items()}
        seconds = race(calls, 4)
        for name in contenders:
            note = f" ({seconds['numpy']:.3f} s; {seconds[name]:.3f} s)"
            ratio = seconds["numpy"] / seconds[name]
            report.at_least(f"numpy / {name}, {n} threads", ratio, 1.5, "{:.2f}x", note)


def main() -> None:
    warnings.simplefilter("ignore")
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    for m in (50, 200):
        compare(Report(), n_rows, m)


if __name__ == "__main__":
    main()
