"""Times and memory, measured alike for everyone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


def race(contestants: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Best time of each, taken in turns, so that a slow spell of the machine meets them all."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(repeats):
        for name, function in contestants.items():
            start = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def in_new_process(code: str) -> str:
    """What a fresh Python prints when it runs `code`."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def best_in_new_process(code: str, repeats: int) -> float:
    """The smallest number that `repeats` fresh Pythons print."""
    return min(float(in_new_process(code)) for _ in range(repeats))
