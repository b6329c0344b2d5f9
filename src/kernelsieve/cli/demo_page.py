"""The demonstration's page: the report of a model of handwritten digits, with a comparison beside it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..report.contents import contents_of
from ..report.material import Options
from ..report.page import Report
from .comparison import Result
from .wording import duration

if TYPE_CHECKING:
    from .demo import Demo

IMAGE_SHAPE = (8, 8)
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


def page(demo: Demo) -> Report:
    """The report of the held-out digits, with what was measured against other methods."""
    n_train, n_test = len(demo.digits.train), len(demo.digits.test)
    options = Options(
        title=f"Kernel PCA on {demo.results[1].n_points} points instead of {n_train:,}",
        lead=(
            "Kernel PCA compares every new row with all the rows it was fitted to. kernelsieve keeps the few points "
            f"that carry the result and forgets the rest. Here it is on scikit-learn's handwritten digits: {n_train:,} "
            f"to fit, the {n_test} on this page held out. {demo.results[1].n_points} points keep "
            f"{100 * demo.of_exact(1):.1f} % of the variance that exact kernel PCA captures on them, and transform "
            f"{demo.speedup:.0f} times faster."
        ),
        image_shape=IMAGE_SHAPE,
        tables=(_comparison(demo, n_test),),
        curves={name: _curve(demo, shares) for name, shares in demo.curves.items()},
        code=EXAMPLE,
    )
    labels = {"digit": demo.digits.test_labels.astype(str)}
    return Report(contents_of(demo.model, demo.digits.test, labels, options, seed=0))


def _curve(demo: Demo, shares: list[float]) -> dict[str, Any]:
    measured = [(size, share) for size, share in zip(demo.sizes, shares, strict=True) if not math.isnan(share)]
    return {"sizes": [size for size, _ in measured], "shares": [share for _, share in measured]}


def _comparison(demo: Demo, n_test: int) -> dict[str, Any]:
    """The table of methods, our own line marked."""
    from sklearn import __version__ as sklearn_version

    from .. import __version__

    return {
        "title": "Against other methods",
        "head": ["", "kernel values\na row", "captured\nheld out", "of exact", "fit", f"transform\n{n_test} rows"],
        "rows": [_line(demo, place, result) for place, result in enumerate(demo.results)],
        "strong": 1,
        "note": (
            "Captured: variance of the held-out digits along the ten components, as a share of their variance in "
            "feature space; Nystroem takes rows at random, and its figures are means of five draws. Same Gaussian "
            "kernel for all; exact is scikit-learn's KernelPCA with its arpack solver. Times are the best of five on "
            f"the machine that wrote this page (kernelsieve {__version__}, scikit-learn {sklearn_version})."
        ),
    }


def _line(demo: Demo, place: int, result: Result) -> list[str]:
    return [
        result.name,
        f"{result.n_points:,}",
        f"{100 * result.captured / demo.total:.1f} %",
        f"{100 * demo.of_exact(place):.1f} %",
        duration(result.fit_seconds),
        duration(result.transform_seconds),
    ]
