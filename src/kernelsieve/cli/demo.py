"""The demonstration: scikit-learn's digits, 20 support points, one page of pictures.

Two thirds of the digits are fitted, the rest are held out.  Exact kernel PCA compares every new digit with all
1,198 it was fitted to; the model here compares it with 20, and this measures what is lost, what Nystroem + PCA
loses with as many points, and how many points that needs to lose as little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..threads import one_blas_thread
from .comparison import (
    Result,
    Setting,
    captured_variance,
    comparison_table,
    exact,
    measure,
    nystroem,
    ours,
    total_variance,
)
from .writing import check_output

N_COMPONENTS, N_SUPPORT = 10, 20
CURVE_SIZES = (11, 15, 20, 30, 50, 75, 100, 150, 200, 300, 400)
MAX_OWN_SIZE = 200  # ours has long reached exact kernel PCA there
CURVE_SEEDS = 5  # runs that a point of Nystroem's curve is the mean of
MATCH_STEP, MAX_MATCH = 20, 1000  # sizes at which Nystroem is tried until it matches ours
TIMING_REPEATS = 5


@dataclass(frozen=True)
class Digits:
    """Images as rows of 64 numbers between 0 and 1, and the digits they show."""

    train: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True)
class Demo:
    """Everything that the page shows."""

    digits: Digits
    model: Any
    results: list[Result]  # exact, ours, Nystroem with as many points, Nystroem that matches
    total: float  # variance of the held-out digits
    sizes: tuple[int, ...]  # numbers of points along the curves
    curves: dict[str, list[float]]  # shares of exact kernel PCA's captured variance at those

    def of_exact(self, place: int) -> float:
        """The share of exact kernel PCA's captured variance that a result reached."""
        return self.results[place].captured / self.results[0].captured

    @property
    def speedup(self) -> float:
        """How many times faster a digit is transformed than by exact kernel PCA."""
        return self.results[0].transform_seconds / self.results[1].transform_seconds


def run_demo(out_path: str | Path, console: Any) -> None:
    """Fit, compare, print the table and write the page.

    Parameters
    ----------
    out_path : the HTML file to write; its folder is made where there is none, and it needs nothing beside it
    console : rich Console for the table
    """
    if find_spec("vl_convert") is None:
        raise ImportError("the demo's page needs vl-convert-python: pip install 'kernelsieve[cli,report]'")
    from .demo_page import page

    path = Path(out_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    check_output(path)
    with console.status("measuring") as status:
        demo = measure_demo(status.update)
        status.update("drawing")
        report = page(demo)
    title = f"Handwritten digits: {len(demo.digits.train):,} to fit, {len(demo.digits.test)} held out"
    n_test = len(demo.digits.test)
    console.print(comparison_table(demo.results, demo.total, n_test, title, points="kernel values\na row"))
    console.print(summary(demo), highlight=False)
    report.save(path)
    console.print(f"page with pictures: {path}", highlight=False, soft_wrap=True)


def summary(demo: Demo) -> str:
    """What the table says, in two sentences."""
    own, matching = demo.results[1], demo.results[3]
    return (
        f"{own.n_points} points keep {100 * demo.of_exact(1):.1f} % of what exact kernel PCA captures on digits it has "
        f"not seen, and transform {demo.speedup:.0f} times faster. Nystroem + PCA keeps {100 * demo.of_exact(2):.1f} % "
        f"with as many points and needs {matching.n_points} to match."
    )


def load_digits() -> Digits:
    """scikit-learn's 8 x 8 digits, two thirds to fit and one third held out."""
    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    rows, labels = datasets.load_digits(return_X_y=True)
    train, test, _, test_labels = train_test_split(rows / 16, labels, test_size=1 / 3, random_state=0)
    return Digits(train, test, test_labels)


def measure_demo(tell: Callable[[str], Any]) -> Demo:
    """Fit and time everything; `tell` hears what is being done."""
    digits = load_digits()
    train, test = digits.train, digits.test
    setting = Setting(N_COMPONENTS, "rbf", "median")
    model = ours(setting, N_SUPPORT).make().fit(train)
    setting = replace(setting, gamma=float(model.gamma_))
    reference = captured_variance(exact(setting, len(train)).make().fit(train), test)
    tell("captured variance against number of points")
    with one_blas_thread():  # these matrices are too small to share, and on a busy machine sharing costs tenfold
        curves = _curves(setting, digits, reference)
        sizes = [N_SUPPORT, _matching_size(setting, digits, captured_variance(model, test))]
    tell("timing")
    methods = [exact(setting, len(train)), ours(setting, N_SUPPORT), *(nystroem(setting, size) for size in sizes)]
    results = measure(methods, train, test, TIMING_REPEATS)
    # one draw of Nystroem's points is luck: what it captures is the mean over draws, as in its curve
    for place, size in enumerate(sizes, start=2):
        results[place] = replace(results[place], captured=_nystroem_captured(setting, digits, size))
    return Demo(digits, model, results, total_variance(setting, test), CURVE_SIZES, curves)


def _curves(setting: Setting, digits: Digits, reference: float) -> dict[str, list[float]]:
    own = [
        captured_variance(ours(setting, size).make().fit(digits.train), digits.test) / reference
        if size <= MAX_OWN_SIZE
        else float("nan")
        for size in CURVE_SIZES
    ]
    sampled = [_nystroem_captured(setting, digits, size) / reference for size in CURVE_SIZES]
    return {"kernelsieve": own, "Nystroem + PCA": sampled}


def _nystroem_captured(setting: Setting, digits: Digits, size: int) -> float:
    """Held-out captured variance of Nystroem + PCA, mean over several draws of its points."""
    models = (nystroem(replace(setting, seed=seed), size).make().fit(digits.train) for seed in range(CURVE_SEEDS))
    return float(np.mean([captured_variance(model, digits.test) for model in models]))


def _matching_size(setting: Setting, digits: Digits, captured: float) -> int:
    """The fewest points, in steps, with which Nystroem + PCA captures as much."""
    for size in range(N_SUPPORT + MATCH_STEP, MAX_MATCH, MATCH_STEP):
        if _nystroem_captured(setting, digits, size) >= captured:
            return size
    return MAX_MATCH
