"""Lines of a benchmark: what was asked, what was measured, whether it was reached."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy
import scipy
import sklearn

import kernelsieve


@dataclass
class Report:
    """A table that grows, is printed as it grows, and is written at the end."""

    sections: list[str] = field(default_factory=list)
    missed: int = 0

    def section(self, title: str, text: str = "") -> None:
        self._add(
            f"\n## {title}\n" + (f"\n{text}\n" if text else "") + "\n| what | target | measured | |\n|---|---|---|---|"
        )

    def line(self, what: str, target: str, measured: str, reached: bool | None) -> None:
        self.missed += reached is False
        self._add(
            f"| {what} | {target} | {measured} | {'' if reached is None else 'ok' if reached else '**missed**'} |"
        )

    def skip(self, what: str, why: str) -> None:
        self._add(f"| {what} | | skipped: {why} | |")

    def at_least(self, what: str, value: float, target: float, form: str = "{:.4f}", note: str = "") -> None:
        self.line(what, ">= " + form.format(target), form.format(value) + note, value >= target)

    def at_most(self, what: str, value: float, target: float, form: str = "{:.2f}", note: str = "") -> None:
        self.line(what, "<= " + form.format(target), form.format(value) + note, value <= target)

    def _add(self, text: str) -> None:
        self.sections.append(text)
        print(text, flush=True)

    def write(self, path: Path) -> None:
        """The whole report as Markdown."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        head = (
            f"# Benchmark results\n\nWritten by `make bench` on {date.today()}: {platform.machine()}, {cores} cores, "
            f"Python {platform.python_version()}, numpy {numpy.__version__}, scipy {scipy.__version__}, "
            f"scikit-learn {sklearn.__version__}, kernelsieve {kernelsieve.__version__}.\n\n"
            "Both sides of every ratio are timed in this one run, in turns, best of several. KernelPCA is "
            'scikit-learn\'s with `eigen_solver="arpack"`, its fastest here; M = 10, Gaussian kernel of median '
            "width, centred.\n"
        )
        path.write_text(head + "\n".join(self.sections) + "\n", encoding="utf-8")
