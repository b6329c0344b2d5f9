"""make reproduce: every experiment; its page with tables and pictures, and the index of all verdicts, in a folder.

python -m experiments [--data FOLDER] [--out FOLDER] [--jobs N] [--quick] [--record] [name ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from .report import read_page, write_index
from .running import EXPERIMENTS, run_all

OUTPUT = Path(__file__).with_name("output")
RECORDED = Path(__file__).with_name("results")  # of a whole run with all data; the site takes its numbers from here


def main() -> int:
    parser = argparse.ArgumentParser(description="Reproduce the papers' experiments.")
    parser.add_argument("names", nargs="*", help=f"which to run: {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--data", help="folder with the data files (default: KERNELSIEVE_DATA)")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder for pages and pictures")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="experiments at a time")
    parser.add_argument("--quick", action="store_true", help="the shortened form: fewer seeds, sizes and rows")
    parser.add_argument(
        "--record", action="store_true", help="keep the results in experiments/results, which the site quotes"
    )
    arguments = parser.parse_args()
    if arguments.record and arguments.quick:
        parser.error("--record keeps the results of whole runs: leave --quick out")
    unknown = set(arguments.names) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}: choose from {', '.join(EXPERIMENTS)}")
    if arguments.data:
        os.environ["KERNELSIEVE_DATA"] = arguments.data
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    names = arguments.names or list(EXPERIMENTS)
    jobs = min(max(1, arguments.jobs), len(names))
    failed, processor = run_all(names, arguments.out, quick=arguments.quick, jobs=jobs)
    index = write_index(arguments.out, EXPERIMENTS, RECORDED, arguments.quick)
    skipped = {name: page["skipped"] for name in names if (page := read_page(arguments.out, name)) is not None}
    for name, gaps in skipped.items():
        for what, needs in gaps:
            print(f"left out of {name}: {what}, which needs {needs}")
    if arguments.record:
        RECORDED.mkdir(exist_ok=True)
        for name, gaps in skipped.items():
            if not gaps and name not in failed:
                shutil.copy(arguments.out / f"{name}.json", RECORDED)
    print(f"written: {index}; {time.perf_counter() - start:.0f} s, {processor:.0f} s of processor time")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
