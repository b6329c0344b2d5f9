"""Rows in blocks against the same rows in one array: on the host, on a GPU, generated, and on a dask cluster.

python -m benchmarks.flow [--small] [section ...]     each section in a process of its own, with a limit of time

Sections: cuda generated memory exact host cores wide threads feed dask many.  --small: a hundredth of the rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from kernelsieve import KernelPCA, SparseKernelPCA

from .report import Report
from .timing import race

FEATURES, COMPONENTS, POINTS = 64, 20, 200
# Seconds that a section may take.
LIMITS = {
    "cuda": 75,
    "generated": 60,
    "memory": 60,
    "exact": 40,
    "host": 90,
    "cores": 75,
    "wide": 40,
    "threads": 90,
    "feed": 60,
    "dask": 120,
    "many": 90,
}


def fit(X: Any, **options: Any) -> SparseKernelPCA:
    return SparseKernelPCA(COMPONENTS, **{"n_support": POINTS, "random_state": 0, **options}).fit(X)


def host_rows(n_rows: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Rows near an eight-dimensional subspace."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((8, FEATURES)).astype(np.float32)
    block = rng.standard_normal((min(n_rows, 10**6), 8), dtype=np.float32) @ mixing
    block += 0.3 * rng.standard_normal(block.shape, dtype=np.float32)
    out = np.empty((n_rows, FEATURES), dtype=dtype)
    for number, start in enumerate(range(0, n_rows, len(block))):  # the same million again, each time a little larger
        part = out[start : start + len(block)]
        np.multiply(block[: len(part)], 1 + 1e-3 * number, out=part)
    return out


def cut(X: Any, n_rows: int) -> list[Any]:
    return [X[start : start + n_rows] for start in range(0, len(X), n_rows)]


def used_up(found: Any) -> None:
    """All blocks, where they are made as they are asked for."""
    if isinstance(found, Iterator):
        for _ in found:
            pass


def block_line(report: Report, what: str, times: dict[str, float], target: float = 1.15) -> None:
    for name, seconds in list(times.items())[1:]:
        note = f" ({seconds:.3f} s; one {times['one']:.3f} s)"
        report.at_most(f"{what}, {name} / one", seconds / times["one"], target, "{:.2f}x", note)


def blocks_on_the_host(report: Report, n_rows: int, repeats: int) -> None:
    import torch

    cores = len(os.sched_getaffinity(0))
    report.section(
        "Blocks on the host",
        f"{n_rows:,} x {FEATURES} float32, m = {POINTS}, blocks of {n_rows // 20:,} rows, {cores} cores; best of "
        f"{repeats}, in turns.",
    )
    X = host_rows(n_rows)
    blocks = cut(X, n_rows // 20)
    tensors = [torch.as_tensor(block) for block in blocks]
    sources = {
        "one": X,
        "list": blocks,
        "function": lambda: iter(blocks),
        "list of tensors": tensors,
        "loader of tensors": torch.utils.data.DataLoader(tensors, batch_size=None),
    }
    model = fit(X[: n_rows // 10])
    times = race({name: lambda rows=rows: fit(rows) for name, rows in sources.items()}, repeats)
    block_line(report, "fit", times)
    ratio = times["loader of tensors"] / times["list of tensors"]
    report.at_most("fit, loader of ready tensors / the list of them", ratio, 1.2, "{:.2f}x")
    slow_reader(report, blocks, times["list"])
    times = race({name: lambda rows=rows: used_up(model.transform(rows)) for name, rows in sources.items()}, repeats)
    block_line(report, "transform", times)
    small = cut(X, 10_000)
    small_times = race({"list of 10,000 rows": lambda: used_up(model.transform(small))}, repeats)
    block_line(report, "transform", {"one": times["one"], **small_times})


def slow_reader(report: Report, blocks: list[Any], seconds: float) -> None:
    """A reader that takes as long for a block as the work on it: a fit takes as long as two readings and the points."""
    choosing = race({"": lambda: fit(blocks[0])}, 2)[""]
    pause = max(seconds - choosing, 0.0) / len(blocks)

    def blocks_slowly() -> Iterator[Any]:
        for block in blocks:
            time.sleep(pause)
            yield block

    ideal = 2 * pause * len(blocks) + choosing
    found = race({"": lambda: fit(blocks_slowly)}, 1)[""]
    note = f" ({found:.2f} s; {ideal:.2f} s)"
    report.at_most("fit, slow reader / two readings and choosing points", found / ideal, 1.15, "{:.2f}x", note)


def host(report: Report, small: int) -> None:
    blocks_on_the_host(report, 10**7 // small, 2)


def cores(report: Report, small: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    blocks_on_the_host(report, 2 * 10**6 // small, 2)


def best(function: Callable[[], Any], repeats: int = 3) -> float:
    """Best time of several, the GPU's work included."""
    import torch

    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def seconds_to_copy(report: Report, X: np.ndarray) -> float:
    """The time that rows take from pinned memory to the GPU."""
    import torch

    pinned = torch.empty(X.shape, dtype=torch.float32, pin_memory=True)
    target = torch.empty(X.shape, dtype=torch.float32, device="cuda")
    copy = best(lambda: target.copy_(pinned, non_blocking=True))
    plain = best(lambda: target.copy_(torch.from_numpy(X)))
    report.line("copy from pinned memory; from plain memory", "", f"{copy:.3f} s; {plain:.3f} s", None)
    return copy


def cuda(report: Report, small: int) -> None:
    import torch

    n_rows = 2 * 10**7 // small
    report.section(
        "Blocks and a GPU",
        f"{n_rows:,} x {FEATURES} float32, m = {POINTS}, blocks of {n_rows // 20:,} rows; best of 3.",
    )
    X = host_rows(n_rows)
    there = torch.as_tensor(X).cuda()
    copy = seconds_to_copy(report, X)
    blocks, parts = cut(X, n_rows // 20), cut(there, n_rows // 20)
    fit(X[:100_000], device="cuda")
    for name, rows in (("one array", X), ("list", blocks), ("function", lambda: iter(blocks))):
        seconds = best(lambda rows=rows: fit(rows, device="cuda"))
        note = f" ({seconds:.3f} s)"
        report.at_most(f'fit, device="cuda", {name} on the host / pinned copy', seconds / copy, 1.3, "{:.2f}x", note)
    choosing = best(lambda: fit(X[:100_000], device="cuda"))
    report.line("choosing points takes", "", f"{choosing:.3f} s of these", None)
    model = fit(there)
    loader = torch.utils.data.DataLoader(parts, batch_size=None)
    sources = {"one": there, "list": parts, "function": lambda: iter(parts), "loader": loader}
    block_line(report, "fit, CUDA", {name: best(lambda r=r: fit(r)) for name, r in sources.items()}, 1.1)
    small_ones = cut(there[: n_rows // 10], 1000)
    tenth = {"one": best(lambda: fit(there[: n_rows // 10])), "list of 1,000 rows": best(lambda: fit(small_ones))}
    block_line(report, "fit of a tenth, CUDA", tenth, 1.1)
    times = {name: best(lambda r=r: used_up(model.transform(r))) for name, r in sources.items()}
    block_line(report, "transform, CUDA", times, 1.1)
    on_host = fit(X[:100_000], device="cuda")
    times = {name: best(lambda r=r: used_up(on_host.transform(r))) for name, r in (("one", X), ("list", blocks))}
    block_line(report, 'transform, device="cuda", host', times)
    same_answers(report, there, parts)


def same_answers(report: Report, there: Any, parts: list[Any]) -> None:
    """What blocks on the GPU give, against one tensor; what is refused; and what an interrupt leaves behind."""
    import threading

    import torch

    from kernelsieve import compress

    one, blocks = fit(there), fit(parts)
    off = float(np.abs(blocks.eigenvalues_ / one.eigenvalues_ - 1).max())
    report.at_most("eigenvalues, CUDA blocks and one tensor, off by", off, 1e-5, "{:.0e}")
    report.at_most("score, off by", abs(blocks.score(parts[:2]) - one.score(torch.cat(parts[:2]))), 1e-5, "{:.0e}")
    bad = parts[1].clone()
    bad[7, 3] = torch.nan
    try:
        fit([parts[0], bad])
        said = "nothing"
    except ValueError as error:
        said = str(error)
    wanted = f"row {len(parts[0]) + 7}"
    report.at_most(f"a gap names {wanted} ({said[-60:]})", float(not said.endswith(wanted)), 0.0, "{:.0f} failures")
    weights = np.random.default_rng(0).integers(1, 3, 200_000).astype(float)
    some, few = there[:200_000], {"selection": np.arange(0, 2000, 20)}
    weighted = SparseKernelPCA(COMPONENTS, **few).fit(cut(some, 50_000), sample_weight=weights)
    here = SparseKernelPCA(COMPONENTS, gamma=weighted.gamma_, **few).fit(some.cpu().numpy(), sample_weight=weights)
    off = float(np.abs(weighted.eigenvalues_ / here.eigenvalues_ - 1).max())
    report.at_most("weighted eigenvalues, GPU blocks and host, off by", off, 1e-3, "{:.0e}")
    stream = SparseKernelPCA(COMPONENTS, n_support=50, random_state=0).partial_fit(some[:20_000])
    back = one.inverse_transform(one.transform(some[:100]))
    report.line("partial_fit, inverse_transform of CUDA tensors", "", f"{stream.n_samples_seen_}, {back.shape}", None)
    squeezed = compress(one, 50, X=some[:5000], random_state=0)
    report.line("compress with CUDA rows", "", f"{squeezed.n_support_} points", None)
    host_blocks = cut(some.cpu().numpy(), 10_000)
    fit(host_blocks, n_support=50, device="cuda")
    before, n_threads = held(), threading.active_count()
    passes = 0

    def interrupted() -> Iterator[Any]:
        nonlocal passes
        passes += 1
        yield from host_blocks[:8]
        if passes % 2 == 0:
            raise KeyboardInterrupt
        yield from host_blocks[8:]

    for source in (interrupted, lambda: (block.cuda() for block in map(torch.as_tensor, interrupted()))):
        with suppress(KeyboardInterrupt):
            fit(source, n_support=50, device="cuda")
    assert passes == 4
    note = f" ({threading.active_count() - n_threads} threads)"
    report.at_most("an interrupt leaves on the GPU and pinned", (held() - before) / 1e6, 1.0, "{:.1f} MB", note)


def held() -> float:
    """Bytes in use on the GPU, and those of pinned memory (torch's count of pinned bytes in use never falls)."""
    import gc

    import torch

    gc.collect()
    torch.cuda.synchronize()
    pinned = getattr(torch.cuda, "host_memory_stats", dict)().get("allocated_bytes.current", 0)
    return float(torch.cuda.memory_allocated() + pinned)


def generated(report: Report, small: int) -> None:
    import torch

    n_rows, block_rows = 10**9 // small, 5 * 10**6 // small
    report.section("Generated on the GPU", f"{n_rows:,} x {FEATURES} float32, blocks of {block_rows:,} rows, one fit.")
    mixing = torch.randn(8, FEATURES, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    memory = torch.empty(block_rows, FEATURES, device="cuda")

    def blocks() -> Iterator[Any]:
        generator = torch.Generator("cuda").manual_seed(0)
        for _ in range(n_rows // block_rows):
            torch.randn(memory.shape, out=memory, generator=generator)
            memory.mul_(0.3).addmm_(torch.randn(block_rows, 8, device="cuda", generator=generator), mixing)
            yield memory

    first = next(blocks())
    fit(first[:100_000].clone())
    bare = 2 * best(lambda: used_up(blocks()), 1)
    torch.cuda.reset_peak_memory_stats()
    found = []
    seconds = best(lambda: found.append(fit(blocks)), 1)
    note = f" ({seconds:.1f} s; two bare generations {bare:.1f} s; captured ratio {found[0].captured_ratio_:.4f})"
    report.at_most("fit / (two bare generations + 10 s)", seconds / (bare + 10), 1.0, "{:.2f}x", note)
    peak = torch.cuda.max_memory_allocated() / 1e9
    report.at_most("memory on the GPU, a block included", peak, 8.0, "{:.1f} GB")


def memory(report: Report, small: int) -> None:
    import torch

    report.section("In the GPU's memory", f"float64, {FEATURES} columns, m = {POINTS}, whole fit, warm; best of 5.")
    generator = torch.Generator("cuda").manual_seed(0)
    options: dict[str, Any] = {"generator": generator, "dtype": torch.float64, "device": "cuda"}
    mixing = torch.randn(8, FEATURES, **options)
    for n_rows, target in ((10**6, 0.06), (10**7, 0.12), (10**8, 0.75)):
        X = torch.empty(n_rows // small, FEATURES, dtype=torch.float64, device="cuda")
        for part in cut(X, 10**6):
            part.copy_(torch.randn(len(part), 8, **options) @ mixing)
            part.add_(torch.randn(part.shape, **options), alpha=0.3)
        fit(X[:100_000])
        report.at_most(f"{n_rows // small:,} rows", best(lambda X=X: fit(X), 5), target, "{:.3f} s")
        del X


def exact(report: Report, small: int) -> None:
    import torch

    n_rows = 30_000 // (10 if small > 1 else 1)
    report.section("Exact kernel PCA on the GPU", f"{n_rows:,} x {FEATURES} float64, M = {COMPONENTS}; best of 3.")
    X = torch.as_tensor(host_rows(n_rows, np.float64), device="cuda")
    gamma = fit(X).gamma_

    def gram() -> Any:
        K = torch.exp(-gamma * torch.cdist(X, X) ** 2)
        mean = K.mean(0)
        return K - mean - mean[:, None] + mean.mean()

    def by_lobpcg() -> Any:
        return torch.lobpcg(gram(), COMPONENTS, niter=100, tol=1e-10)

    models, hand = [], []
    options = {"n_components": COMPONENTS, "kernel": "rbf", "gamma": gamma}
    by_lobpcg()
    theirs = best(lambda: hand.append(by_lobpcg()[0]))
    ours = best(lambda: models.append(KernelPCA(**options).fit(X)))
    quick = best(lambda: torch.lobpcg(gram(), COMPONENTS, niter=30, tol=1e-4))
    note = f" ({ours:.3f} s; {theirs:.3f} s; to 1e-4 {quick:.3f} s)"
    report.at_most("KernelPCA / torch.lobpcg to 1e-10 by hand", ours / theirs, 1.2, "{:.2f}x", note)
    vectors = torch.as_tensor(models[-1].eigenvectors_, device="cuda")
    values = torch.as_tensor(models[-1].eigenvalues_, device="cuda")
    off = float((gram() @ vectors - vectors * values).norm(dim=0).max() / values[0])
    report.at_most("|K v - lambda v| / lambda_1", off, 1e-9, "{:.0e}")
    dense = best(lambda: torch.linalg.eigh(gram()[:10_000, :10_000]), 1)
    report.line("torch.linalg.eigh of a third of it", "", f"{dense:.2f} s", None)
    try:
        KernelPCA(2, kernel="rbf").fit(torch.zeros(400_000, 2, device="cuda").normal_())
    except MemoryError as error:
        report.line("400,000 rows", "", str(error)[:90], None)


def wide(report: Report, small: int) -> None:
    from .scaling import peers

    peers(report, 60_000 // small)


def threads(report: Report, small: int) -> None:
    from .scaling import moment_sum, of_processes, over_threads, report_line

    most, n_rows = len(os.sched_getaffinity(0)), 10**7 // small
    report.section("Threads", f"{n_rows:,} x {FEATURES} float32, m = {POINTS}; best of 2, of the whole fit one.")
    alone, together = (of_processes(n, n_rows // 80) for n in (1, most))
    report.line(f"{most} processes that share nothing / 1", "", f"{most * alone / together:.1f}x", None)
    X = host_rows(n_rows)
    work, fifth = moment_sum(fit(X[: n_rows // 10])), X[: n_rows // 5]
    report_line(report, "moments pass of a fifth", over_threads(lambda n: work.over(fifth, None, n), 1), 10)
    report_line(report, "whole fit", {n: race({"": lambda n=n: fit(X, n_jobs=n)}, 1)[""] for n in (1, most)}, 9)


def dask(report: Report, small: int) -> None:
    from .dask_chunks import against_threads

    against_threads(report, 10**7 // small)


def feed(report: Report, small: int) -> None:
    from .feed import feed

    for n_blocks in (20, 400):
        feed(report, 4 * 10**6 // small, n_blocks)


def many(report: Report, small: int) -> None:
    n_rows, block_rows = 10**8 // small, 10**6 // small
    report.section("Generated on the host", f"{n_rows:,} x {FEATURES} float32, blocks of {block_rows:,} rows, one fit.")
    block = host_rows(block_rows)
    room = np.empty_like(block)

    def blocks() -> Iterator[np.ndarray]:
        for number in range(n_rows // block_rows):
            yield np.multiply(block, 1 + 1e-3 * number, out=room)

    fit(block)
    before = resident()
    bare = race({"": lambda: used_up(blocks())}, 1)[""]
    start = time.perf_counter()
    model = fit(blocks)
    seconds = time.perf_counter() - start
    note = f"{seconds:.1f} s, two bare generations {2 * bare:.1f} s; captured ratio {model.captured_ratio_:.4f}"
    report.line("fit", "", note, None)
    report.line("memory at most, beyond the block", "", f"{resident() - before:.2f} GB", None)


def resident() -> float:
    """The largest resident memory so far, in GB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


SECTIONS = {f.__name__: f for f in (cuda, generated, memory, exact, host, cores, wide, threads, feed, dask, many)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a hundredth of the rows")
    parser.add_argument("--here", action="store_true", help="in this process")
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS])
    asked = parser.parse_args()
    if asked.here:
        warnings.simplefilter("ignore")
        for name in asked.sections:
            SECTIONS[name](Report(), 100 if asked.small else 1)
        return
    for name in asked.sections or SECTIONS:
        command = [sys.executable, "-m", "benchmarks.flow", "--here", *(["--small"] * asked.small), name]
        start = time.perf_counter()
        try:
            code = subprocess.run(command, timeout=LIMITS[name], check=False).returncode
        except subprocess.TimeoutExpired:
            code = "beyond its limit"
        print(f"[{name}: {time.perf_counter() - start:.0f} s, {code}]", flush=True)


if __name__ == "__main__":
    main()
