"""SparseKernelPCA on a GPU, measured against hand-written torch.

python -m benchmarks.gpu        needs torch and a CUDA device; d = 64, M = 20
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.moments import MomentSum, gram_of
from kernelsieve.spectrum.whitening import whiten

from .report import Report

FEATURES, COMPONENTS = 64, 20


def rows(n_rows: int, seed: int = 0) -> torch.Tensor:
    """Rows near an eight-dimensional subspace, on the GPU."""
    generator = torch.Generator("cuda").manual_seed(seed)
    options: dict[str, Any] = {"generator": generator, "dtype": torch.float64, "device": "cuda"}
    inner = torch.randn(n_rows, 8, **options) @ torch.randn(8, FEATURES, **options)
    return inner.add_(torch.randn(n_rows, FEATURES, **options), alpha=0.3)


def best(function: Callable[[], Any], repeats: int = 5) -> float:
    """Best time of several, the GPU's work included."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def fit(X: Any, n_support: int = 200, **options: Any) -> SparseKernelPCA:
    return SparseKernelPCA(COMPONENTS, n_support=n_support, random_state=0, **options).fit(X)


def by_hand(X: torch.Tensor, S: torch.Tensor, W: torch.Tensor, gamma: float, block_rows: int) -> torch.Tensor:
    """The bare moments pass: distances, exponential, whitening, products."""
    norms, products = (S * S).sum(1), torch.zeros_like(W.T @ W)
    for start in range(0, len(X), block_rows):
        block = X[start : start + block_rows]
        K = torch.addmm(norms, block, S.T, alpha=-2).add_((block * block).sum(1)[:, None]).mul_(-gamma).exp_()
        F = K @ W
        products.addmm_(F.T, F)
    return products


def speed(report: Report) -> None:
    report.section("Fit on the GPU", "Rows on the device, float64, d = 64, M = 20, warm, best of 5.")
    for n_rows, n_support, target in ((10**6, 200, 0.06), (10**7, 200, 0.17), (10**6, 1000, 0.35), (10**7, 1000, None)):
        X = rows(n_rows)
        fit(X[:100_000], n_support)
        seconds = best(lambda X=X, m=n_support: fit(X, m))
        what = f"whole fit, {n_rows:,} rows, m = {n_support}"
        if target is None:
            report.line(what, "", f"{seconds:.3f} s", None)
        else:
            report.at_most(what, seconds, target, "{:.3f} s")
        del X
    X = rows(10**7)
    model = fit(X)
    report.at_most("transform of 10,000,000 rows, m = 200", best(lambda: model.transform(X)), 0.1, "{:.3f} s")
    kernel, S = model.expansion_.kernel, model.expansion_.points
    W = whiten(gram_of(kernel, S)).matrix
    ours = best(lambda: MomentSum(kernel, S, W).over(X, None, 1))
    hand = min(best(lambda size=size: by_hand(X, S, W, model.gamma_, size)) for size in (2**17, 2**18, 2**19))
    note = f" ({ours * 1e3:.0f} ms; by hand {hand * 1e3:.0f} ms)"
    report.at_most("moments pass / hand-written torch", ours / hand, 1.3, "{:.2f}x", note)


def many_rows(report: Report) -> None:
    report.section("A hundred million rows", "10^8 x 64, m = 200, float32 and float64; best of 3.")
    for dtype, target in ((torch.float32, 0.9), (torch.float64, None)):
        X = torch.cat([rows(10**7, seed).to(dtype) for seed in range(10)])
        model = fit(X[:100_000])
        name = str(dtype).removeprefix("torch.")
        seconds = best(lambda X=X: fit(X), 3)
        if target is None:
            report.line(f"whole fit, {name}", "", f"{seconds:.2f} s", None)
        else:
            report.at_most(f"whole fit, {name}", seconds, target, "{:.2f} s")
        kernel, S = model.expansion_.kernel, model.expansion_.points
        W = whiten(gram_of(kernel, S), 1e-6).matrix
        ours = best(lambda X=X, k=kernel, S=S, W=W: MomentSum(k, S, W).over(X, None, 1), 3)
        bare = partial(by_hand, X, S.to(dtype), W.to(dtype), model.gamma_)
        hand = min(best(partial(bare, size), 2) for size in (2**18, 2**19))
        note = f" ({ours * 1e3:.0f} ms; by hand {hand * 1e3:.0f} ms)"
        report.at_most(f"moments pass / hand-written torch, {name}", ours / hand, 1.5, "{:.2f}x", note)
        if dtype == torch.float32:
            tensor_cores(report, X[: 10**7], model)
        del X


def tensor_cores(report: Report, X: torch.Tensor, model: SparseKernelPCA) -> None:
    """What float32 products on tensor cores (TF32) save and cost: the user's own switch, off by default."""
    exact = model.transform(X[:10_000].double())
    for allowed in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        off = float((model.transform(X[:10_000]).double() - exact).abs().max() / exact.abs().max())
        seconds = best(lambda: model.transform(X), 3)
        name = "TF32" if allowed else "float32"
        report.line(
            f"transform of 10^7 rows, {name} products", "", f"{seconds * 1e3:.0f} ms, scores off by {off:.0e}", None
        )
    torch.backends.cuda.matmul.allow_tf32 = False


def exact_on_the_device(report: Report) -> None:
    report.section(
        "Against exact kernel PCA on the device", "30,000 x 64 float64, torch.lobpcg on the gram; best of 3."
    )
    X = rows(30_000)
    model = fit(X)

    def exact() -> torch.Tensor:
        gram = torch.exp(-model.gamma_ * torch.cdist(X, X) ** 2)
        mean = gram.mean(0)
        gram = gram - mean - mean[:, None] + mean.mean()
        return torch.lobpcg(gram, COMPONENTS, niter=30, tol=1e-4)[0]

    ours, theirs = best(lambda: fit(X), 3), best(exact, 3)
    note = f" ({ours:.3f} s; {theirs:.3f} s)"
    report.at_least("whole fit, times faster", theirs / ours, 4.0, "{:.1f}x", note)


def from_the_host(report: Report) -> None:
    report.section("From host memory", 'device="cuda", 10,000,000 x 64 float64 in host memory; best of 3.')
    X = rows(10**7).cpu().numpy()
    copy = best(lambda: torch.from_numpy(X).to("cuda"), 3)
    fit(X, device="cuda")
    seconds = best(lambda: fit(X, device="cuda"), 3)
    choosing = best(lambda: fit(X[:100_000], device="cuda"), 3)
    note = f" (fit {seconds:.2f} s, of which choosing points {choosing:.2f} s; one plain copy {copy:.2f} s)"
    report.at_most("pass from the host / plain copy to the device", (seconds - choosing) / copy, 1.2, "{:.2f}x", note)


def same_answer(report: Report) -> None:
    report.section("The same answer")
    X = rows(10**5)
    host = X.cpu().numpy()
    gamma = 1.0 / float(2 * X.var(0).sum() * 2)
    numbers = np.arange(0, 200_00, 100)
    there = SparseKernelPCA(COMPONENTS, selection=numbers, gamma=gamma).fit(X)
    here = SparseKernelPCA(COMPONENTS, selection=numbers, gamma=gamma).fit(host)
    off = np.abs(there.transform(X).cpu().numpy() - here.transform(host)).max()
    report.at_most("scores on the GPU and on the CPU, same support, largest difference", float(off), 1e-8, "{:.1e}")


def main() -> None:
    warnings.simplefilter("ignore")
    report = Report()
    print(torch.__version__, torch.cuda.get_device_name())
    speed(report)
    many_rows(report)
    exact_on_the_device(report)
    from_the_host(report)
    same_answer(report)
    print(f"\n{report.missed} line(s) missed" if report.missed else "\nall lines reached")


if __name__ == "__main__":
    main()
