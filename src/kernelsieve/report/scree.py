"""How many components stand out from chance, and how many points they need.

Both are measured on a sample of the rows with the model's own kernel, so that they cost little beside the fit:

    scree       shares of variance of exact kernel PCA on n rows, and on the same rows with every column shuffled
                independently: components above that band show structure between columns
    captured    share of exact kernel PCA's variance that m points keep, for several m
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import is_function
from ..threads import one_blas_thread
from .limits import PAGE
from .model_view import ColumnReader, ModelView, quietly


@dataclass(frozen=True)
class Scree:
    """Shares of variance, component by component."""

    shares: np.ndarray  # (K,) of exact kernel PCA on the sample
    low: np.ndarray  # (K,) of shuffled columns
    high: np.ndarray
    n_rows: int

    @property
    def n_above(self) -> int:
        """How many leading components lie above the band."""
        below = np.flatnonzero(self.shares <= self.high)
        return int(below[0]) if len(below) else len(self.shares)


def scree(view: ModelView, reader: ColumnReader) -> Scree | None:
    """Spectrum of a sample, and of the sample with its columns shuffled independently.

    None for fewer than 4 rows, and for objects, which have no columns.
    """
    if view.of_objects:
        return None
    rows = view.sample[:: max(1, len(view.sample) // PAGE.scree_rows)][: PAGE.scree_rows]
    if len(rows) < 4:
        return None
    count = min(max(PAGE.min_scree, view.n_components + 4), PAGE.max_scree, len(rows) - 1)
    count = max(count, min(view.n_components, len(rows) - 1))
    rng = np.random.default_rng(view.seed)
    with one_blas_thread():
        shares = _spectrum(view, rows)[:count]
        shuffled = np.array([_spectrum(view, _shuffled(rows, reader, rng))[:count] for _ in range(PAGE.n_shuffles)])
    low, high = np.quantile(shuffled, PAGE.shuffled_band, axis=0)
    return Scree(shares, low, high, len(rows))


def _shuffled(rows: np.ndarray, reader: ColumnReader, rng: np.random.Generator) -> np.ndarray:
    """Shuffle every column independently; the encoded columns of one raw column stay together."""
    if all(len(group) == 1 for group in reader.groups):
        return rng.permuted(rows, axis=0)
    mixed = rows.copy()
    for group in reader.groups:
        if len(group):
            mixed[:, group] = rows[np.ix_(rng.permutation(len(rows)), group)]
    return mixed


def _spectrum(view: ModelView, rows: np.ndarray) -> np.ndarray:
    """Eigenvalues of the (centred) gram as shares of its trace, the largest first."""
    expansion = view.model.expansion_
    gram = np.asarray(expansion.kernel(rows, rows), dtype=np.float64)
    if expansion.mean_coef is not None:
        mean = gram.mean(axis=0)
        gram = gram - mean - mean[:, None] + mean.mean()
    total = float(np.trace(gram))
    values = np.maximum(np.linalg.eigvalsh((gram + gram.T) / 2)[::-1], 0.0)
    return values / total if total > 0 else np.zeros_like(values)


def small_fit(view: ModelView, n_support: int) -> Any:
    """SparseKernelPCA with this model's kernel on the sample; None if that has too few directions."""
    from .. import SparseKernelPCA

    model = view.model
    given = getattr(model, "kernel", "rbf")
    estimator = SparseKernelPCA(
        view.n_components,
        n_support=n_support,
        kernel=given if is_function(given) else model.expansion_.kernel,
        kernel_params=getattr(model, "kernel_params", None) if is_function(given) else None,
        center=model.expansion_.mean_coef is not None,
        random_state=view.seed,
    )
    with quietly():
        try:
            return estimator.fit(view.sample)
        except (ValueError, np.linalg.LinAlgError):
            return None


@dataclass(frozen=True)
class Captured:
    """Share of exact kernel PCA's variance against the number of points."""

    sizes: list[int]
    shares: list[float]


def captured(view: ModelView) -> Captured:
    """Captured share around the model's own number of points, with the values that `fit` measured."""
    model = view.model
    chosen = int(model.n_support_)
    fewest = view.n_components + 1
    most = min(PAGE.max_tried_points, len(view.sample) // 2)
    report = getattr(model, "selection_report_", None) or {}
    known = {int(size): float(share) for size, share in report.get("curve", [])}
    factors = PAGE.more_sizes if len(known) > 1 else PAGE.sizes
    ratio = getattr(model, "captured_ratio_", None)
    if ratio is not None:
        known[chosen] = float(ratio)
    curve = dict(known)
    fewest_too = [] if factors is PAGE.more_sizes else [fewest]
    sizes = set() if view.of_objects else {*fewest_too, *(round(chosen * factor) for factor in factors)}
    for size in sizes - set(known):  # of objects, whose kernel values are dear, no further fits
        found = small_fit(view, size) if fewest <= size <= most else None
        if found is not None:
            curve[size] = float(found.captured_ratio_)
    return Captured(sorted(curve), [curve[size] for size in sorted(curve)])
