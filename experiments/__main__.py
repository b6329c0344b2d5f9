"""make reproduce: every experiment; its page with tables and pictures, and the index of all verdicts, in a folder.

python -m experiments [--data FOLDER] [--out FOLDER] [--jobs N] [--quick] [name ...]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from .report import write_index
from .running import EXPERIMENTS, run_all

OUTPUT = Path(__file__).with_name("output")


def main() -> int:
    parser = argparse.ArgumentParser(description="Reproduce the papers' experiments.")
    parser.add_argument("names", nargs="*", help=f"which to run: {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--data", help="folder with the data files (default: KERNELSIEVE_DATA)")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder for pages and pictures")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="experiments at a time")
    parser.add_argument("--quick", action="store_true", help="the shortened form: fewer seeds, sizes and rows")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}: choose from {', '.join(EXPERIMENTS)}")
    if arguments.data:
        os.environ["KERNELSIEVE_DATA"] = arguments.data
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    names = arguments.names or list(EXPERIMENTS)
    failed = run_all(names, arguments.out, quick=arguments.quick, jobs=min(max(1, arguments.jobs), len(names)))
    index = write_index(arguments.out, EXPERIMENTS)
    print(f"written: {index}; {time.perf_counter() - start:.0f} s in all")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
