"""Streams of the online experiments and benchmarks: shuffled, sorted by class, and turning while they run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import rotate

from kernelsieve import KernelPCA

from .datasets import Split, load_file, median_gamma, mnist, usps

SIDE = 16  # of a digit of USPS, in pixels
DEGREES = 120.0  # by which digits have turned when the stream ends
CHECKPOINTS = 7
CONCEPT_ROWS = 2000  # training and 1000 held-out digits, turned as far as the stream has, are the concept of a moment


@dataclass(frozen=True)
class Turning:
    """A stream of digits that turn, and at each checkpoint what exact kernel PCA of that moment captures."""

    rows: np.ndarray
    gamma: float
    places: tuple[int, ...]
    held_out: tuple[np.ndarray, ...]
    exact: tuple[float, ...]


def labelled(name: str) -> tuple[Split, np.ndarray]:
    """USPS, or the first 7000 digits of MNIST, and their classes."""
    data = usps() if name == "USPS" else mnist(7000)
    arrays = load_file("usps" if name == "USPS" else "mnist")
    return data, np.ravel(arrays["y_train"])[: len(data.train)]


def in_both_orders(data: Split, labels: np.ndarray) -> dict[str, np.ndarray]:
    """The training rows in random order, and sorted by class."""
    shuffled = np.random.default_rng(0).permutation(len(data.train))
    return {"shuffled": data.train[shuffled], "sorted": data.train[np.argsort(labels, kind="stable")]}


def turning_usps(n_components: int) -> Turning:
    """USPS in random order, each digit turned further than the one before, from 0 to 120 degrees."""
    data = usps()
    rows = data.train[np.random.default_rng(0).permutation(len(data.train))]
    n, gamma = len(rows), median_gamma(rows)
    places = tuple(n * (k + 1) // CHECKPOINTS for k in range(CHECKPOINTS))
    stream = turned(rows, np.linspace(0, DEGREES, n))
    held_out, exact = [], []
    for place in places:
        angle = DEGREES * place / n
        concept, test = (turned(some, np.full(len(some), angle)) for some in (rows[:CONCEPT_ROWS], data.test[:1000]))
        model = KernelPCA(n_components, kernel="rbf", gamma=gamma, eigen_solver="arpack").fit(concept)
        held_out.append(test)
        exact.append(captured(model, test))
    return Turning(stream, gamma, places, tuple(held_out), tuple(exact))


def turned(rows: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Digits turned by so many degrees each, the background filled in."""
    images = rows.reshape(-1, SIDE, SIDE)
    turns = [rotate(image, angle, reshape=False, order=1) for image, angle in zip(images, degrees, strict=True)]
    return np.array(turns).reshape(len(rows), -1)


def captured(model: object, rows: np.ndarray) -> float:
    """Variance of the rows along the model's components, made orthonormal."""
    expansion = model.expansion_.orthonormal  # type: ignore[attr-defined]
    return float(np.asarray(expansion.transform(rows)).var(axis=0).sum())
