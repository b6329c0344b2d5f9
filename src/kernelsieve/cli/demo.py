"""`kernelsieve demo`: scikit-learn's digits, 20 support points, one page of pictures.

Two thirds of the digits are fitted, the rest are held out.  Exact kernel PCA compares every new digit with all
1,198 it was fitted to; the model here compares it with 20.  The demo measures what that loses, what Nystroem + PCA
loses with as many points, and how many points Nystroem + PCA needs to lose no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from . import options
from .compare import (
    Result,
    Setting,
    captured_variance,
    comparison_table,
    exact,
    measured,
    nystroem,
    ours,
    result_cells,
    total_variance,
)
from .outputs import check_output

EXAMPLE = """\
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from kernelsieve import SparseKernelPCA

X, y = load_digits(return_X_y=True)
train, test = train_test_split(X / 16, test_size=1/3, random_state=0)

model = SparseKernelPCA(n_components=10, n_support=20, random_state=0)
scores = model.fit(train).transform(test)
print(model.captured_ratio_)   # share of what exact kernel PCA captures
model.save("digits.ks")        # a few kilobytes, no pickle"""


@dataclass(frozen=True)
class DemoPlan:
    """The sizes and repetitions of the demo's measurements."""

    n_components: int = 10
    n_support: int = 20
    sizes: tuple[int, ...] = (11, 15, 20, 30, 50, 75, 100, 150, 200, 300, 400)  # numbers of points along the curves
    max_own_size: int = 200  # no larger SparseKernelPCA is fitted: long before, it matches exact kernel PCA
    n_draws: int = 5  # every figure of Nystroem is the mean over this many draws of its points
    match_step: int = 20  # Nystroem is tried with this many more points each time, until it matches
    max_match: int = 1000
    n_timings: int = 5


DEMO = DemoPlan()


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write.")] = Path(
        "kernelsieve-demo.html"
    ),
    force: options.Force = False,
) -> None:
    """Fit handwritten digits, print a comparison and write a page with pictures.

    \b
    Example
      kernelsieve demo --out demo.html
    """
    if out.parent.is_dir():
        check_output(out, kind="page", force=force)
    if find_spec("vl_convert") is None:
        raise ImportError("the demo's page needs vl-convert-python: pip install vl-convert-python")
    out.parent.mkdir(parents=True, exist_ok=True)
    check_output(out)
    console = Console()
    with console.status("measuring") as status:
        found = measure_demo(status.update)
        status.update("drawing")
        report = page(found)
    title = f"Handwritten digits: {len(found.train):,} to fit, {len(found.test)} held out"
    console.print(comparison_table(found.results, found.total, len(found.test), title, points="kernel values\na row"))
    own, matching = found.results[1], found.results[3]
    console.print(
        f"{own.n_points} points keep {100 * found.of_exact(1):.1f} % of what exact kernel PCA captures on digits it "
        f"has not seen, and transform {found.speedup:.0f} times faster. Nystroem + PCA keeps "
        f"{100 * found.of_exact(2):.1f} % with as many points and needs {matching.n_points} to match.",
        highlight=False,
    )
    report.save(out)
    console.print(f"page with pictures: {out}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Demo:
    """Everything that the page shows."""

    train: np.ndarray  # digits as rows of 64 numbers between 0 and 1
    test: np.ndarray
    test_labels: np.ndarray
    model: Any
    results: list[Result]  # exact, ours, Nystroem with as many points, Nystroem that matches
    total: float  # variance of the held-out digits
    curves: dict[str, list[tuple[int, float]]]  # number of points, share of exact kernel PCA's captured variance

    def of_exact(self, place: int) -> float:
        """The share of exact kernel PCA's captured variance that a result reached."""
        return self.results[place].captured / self.results[0].captured

    @property
    def speedup(self) -> float:
        """How many times faster a digit is transformed than by exact kernel PCA."""
        return self.results[0].transform_seconds / self.results[1].transform_seconds


def measure_demo(tell: Callable[[str], Any]) -> Demo:
    """Fit and time everything; `tell` is called with the name of each stage."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from ..threads import one_blas_thread

    rows, labels = load_digits(return_X_y=True)
    train, test, _, test_labels = train_test_split(rows / 16, labels, test_size=1 / 3, random_state=0)
    setting = Setting(DEMO.n_components, "rbf", "median")
    model = ours(setting, DEMO.n_support).make().fit(train)
    setting = replace(setting, gamma=float(model.gamma_))
    reference = captured_variance(exact(setting, train).make().fit(train), test)

    def sampled(size: int) -> float:
        """Held-out captured variance of Nystroem + PCA, mean over several draws of its points."""
        models = (nystroem(replace(setting, seed=seed), size).make().fit(train) for seed in range(DEMO.n_draws))
        return float(np.mean([captured_variance(one, test) for one in models]))

    tell("captured variance against number of points")
    # these matrices are too small for several BLAS threads, which would take ten times as long on a busy machine
    with one_blas_thread():
        own = [
            captured_variance(ours(setting, m).make().fit(train), test) for m in DEMO.sizes if m <= DEMO.max_own_size
        ]
        shares = {"kernelsieve": own, "Nystroem + PCA": [sampled(size) for size in DEMO.sizes]}
        curves = {name: [(m, c / reference) for m, c in zip(DEMO.sizes, found)] for name, found in shares.items()}  # noqa: B905
        tried = range(DEMO.n_support + DEMO.match_step, DEMO.max_match, DEMO.match_step)
        matching = next((m for m in tried if sampled(m) >= captured_variance(model, test)), DEMO.max_match)
    tell("timing")
    methods = [
        exact(setting, train),
        ours(setting, DEMO.n_support),
        *(nystroem(setting, m) for m in (DEMO.n_support, matching)),
    ]
    results = [measured(method, train, test, DEMO.n_timings)[0] for method in methods]
    # what one draw of Nystroem's points captures is a matter of luck, so the mean over draws is shown, as in its curve
    results[2:] = [replace(result, captured=sampled(result.n_points)) for result in results[2:]]
    return Demo(train, test, test_labels, model, results, total_variance(setting, test), curves)


def page(found: Demo) -> Any:
    """The report on the held-out digits, with the comparison to other methods."""
    from ..report.contents import contents_of
    from ..report.page import Report
    from ..report.page_data import Options

    n_train, n_test, n_points = len(found.train), len(found.test), found.results[1].n_points
    options = Options(
        title=f"Kernel PCA on {n_points} points instead of {n_train:,}",
        lead=(
            "Kernel PCA compares every new row with all the rows it was fitted to. kernelsieve keeps the few points "
            f"that carry the result and forgets the rest. Here it is on scikit-learn's handwritten digits: {n_train:,} "
            f"to fit, the {n_test} on this page held out. {n_points} points keep {100 * found.of_exact(1):.1f} % of "
            "the variance that exact kernel PCA captures on them, and transform "
            f"{found.speedup:.0f} times faster."
        ),
        image_shape=(8, 8),
        tables=(_comparison(found),),
        curves={
            name: {"sizes": [size for size, _ in curve], "shares": [share for _, share in curve]}
            for name, curve in found.curves.items()
        },
        code=EXAMPLE,
    )
    labels = {"digit": found.test_labels.astype(str)}
    return Report(contents_of(found.model, found.test, labels, options, seed=0))


def _comparison(found: Demo) -> dict[str, Any]:
    """The table that compares the methods; the line of this library is marked."""
    from sklearn import __version__ as sklearn_version

    from .. import __version__

    transform = f"transform\n{len(found.test)} rows"
    reference = found.results[0].captured
    return {
        "title": "Against other methods",
        "head": ["", "kernel values\na row", "captured\nheld out", "of exact", "fit", transform],
        "rows": [result_cells(result, found.total, reference) for result in found.results],
        "strong": 1,
        "note": (
            "Captured: variance of the held-out digits along the ten components, as a share of their variance in "
            "feature space; Nystroem takes rows at random, and its figures are means of five draws. Same Gaussian "
            "kernel for all; exact is scikit-learn's KernelPCA with its arpack solver. Times are the best of five on "
            f"the machine that wrote this page (kernelsieve {__version__}, scikit-learn {sklearn_version})."
        ),
    }
