"""make reproduce: every experiment, its tables on the screen, its pictures and report in a folder.

python -m experiments [--data FOLDER] [--out FOLDER] [name ...]
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from .datasets import MissingData
from .report import Report

EXPERIMENTS = (
    "kernel_pca_lecture",
    "tipping_2000",
    "wang_tanaka_2016",
    "xu_2011",
    "wang_cheng_2012",
    "zou_2006",
    "tennessee_eastman",
    "novelty",
    "online",
)
OUTPUT = Path(__file__).with_name("output")


def main() -> int:
    parser = argparse.ArgumentParser(description="Reproduce the papers' experiments.")
    parser.add_argument("names", nargs="*", help=f"which to run: {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--data", help="folder with the data files (default: KERNELSIEVE_DATA)")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder for pictures and reports")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"unknown experiment {', '.join(sorted(unknown))}: choose from {', '.join(EXPERIMENTS)}")
    if arguments.data:
        os.environ["KERNELSIEVE_DATA"] = arguments.data
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or EXPERIMENTS:
        report = Report(name, arguments.out)
        try:
            importlib.import_module(f"experiments.{name}").run(report)
        except MissingData as missing:
            report.text(f"Skipped: needs {missing}.")
        print(f"\nwritten: {report.write()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
