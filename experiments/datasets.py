"""Data sets of the experiments and benchmarks.

scikit-learn's own sets need no file.  The others are looked for in the folder that `--data` or the environment
variable KERNELSIEVE_DATA names; DATA.md says where each comes from and in which form it is wanted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


class MissingData(Exception):
    """A file that is not there, by name."""


@dataclass(frozen=True)
class Split:
    """Training and held-out rows."""

    name: str
    train: np.ndarray
    test: np.ndarray


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


IDA_NAMES = ("image", "breast_cancer", "heart", "banana", "german")


def ida(name: str) -> Realisations:
    """The first ten realisations of a set of the IDA benchmark (Raetsch, Onoda & Mueller 2001)."""
    data = load_file(f"ida_{name}")
    return Realisations(name, data["x"], data["t"], data["train"].astype(np.intp), data["test"].astype(np.intp))


def thyroid() -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of the benchmark's thyroid set, of which no realisations are to be had."""
    data = load_file("ida_thyroid_nosplits")
    return data["x"], data["t"]


def median_gamma(rows: np.ndarray, seed: int = 0) -> float:
    """1 / (2 median^2) over the pairs of 1500 random rows."""
    from scipy.spatial.distance import pdist

    chosen = np.random.default_rng(seed).choice(len(rows), min(len(rows), 1500), replace=False)
    return float(1 / (2 * np.median(pdist(rows[chosen])) ** 2))
