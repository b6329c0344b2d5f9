"""Rules that choose rows, by name."""

from __future__ import annotations

ROW_RULES = [
    "targeted",
    "gain",
    "improved",
    "skfa",
    "residual",
    "rpcholesky",
    "leverage",
    "dissimilar",
    "farthest",
    "uniform",
]
