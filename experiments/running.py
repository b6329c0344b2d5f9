"""Which experiments there are, and how they are run side by side.

Apart from the command itself: a process that is started afresh can import this module, but not the command.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from threadpoolctl import threadpool_limits

from .datasets import MissingData
from .report import Report

PAPERS = (
    "wang_tanaka_2016",
    "tipping_2000",
    "wang_cheng_2012",
    "kernel_pca_lecture",
    "xu_2011",
    "vollgraf_obermayer_2006",
    "zou_2006",
)
EXPERIMENTS = (*PAPERS, "tennessee_eastman", "novelty", "online")
# Those that take longest begin first, so that no process is left alone with one of them at the end.
LONGEST_FIRST = ("wang_cheng_2012", "novelty", "xu_2011", "online", "wang_tanaka_2016", "tipping_2000")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run_one(name: str, folder: Path, quick: bool, echo: bool) -> tuple[str, float]:
    """One experiment: the text of its page, and the processor seconds it took, which do not depend on other work."""
    start = time.process_time()
    report = Report(name, folder, quick=quick, echo=echo)
    try:
        # small problems everywhere: threads of BLAS and of k-means only wait for each other
        with threadpool_limits(1):
            importlib.import_module(f"experiments.{name}").run(report)
    except MissingData as missing:
        report.skip("the rest of the page", missing)
    return report.write().read_text(encoding="utf-8"), time.process_time() - start


def run_all(names: list[str], folder: Path, *, quick: bool, jobs: int) -> tuple[list[str], float]:
    """Experiments side by side, each in a process of its own with one BLAS thread.

    Returns the names of those that failed, and the processor seconds of all others.
    """
    total = 0.0
    if jobs == 1:
        for name in names:
            _, seconds = run_one(name, folder, quick, echo=True)
            total += seconds
            print(f"\nwritten: {folder / name}.md ({seconds:.0f} s of processor time)")
        return [], total
    os.environ.update(ONE_THREAD)  # before a process loads BLAS
    ordered = sorted(names, key=lambda name: LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(names))
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {name: pool.submit(run_one, name, folder, quick, False) for name in ordered}
        failed = []
        for name in names:
            try:
                text, seconds = running[name].result()
                total += seconds
                print(f"{text}\nwritten: {folder / name}.md ({seconds:.0f} s of processor time)\n", flush=True)
            except Exception:  # the others are worth their time all the same
                failed.append(name)
                traceback.print_exc()
    return failed, total
