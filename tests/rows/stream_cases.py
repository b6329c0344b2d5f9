"""Rows by every kind of storage, for the tests of streams."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from kernelsieve import SparseKernelPCA

N = 1500


NAMES = ["a", "b", "c", "d"]


SAMPLE = {"n_optimization_samples": 400}  # fewer than the rows, so that they are sampled


def store(rows, kind, folder):
    if kind == "memmap":
        np.save(folder / "rows.npy", rows)
        return np.load(folder / "rows.npy", mmap_mode="r")
    if kind == "list":
        return np.split(rows, [1, 2, 700, 700, 1400])
    if kind == "zarr":
        zarr = pytest.importorskip("zarr")
        array = zarr.create_array(store=str(folder / "rows.zarr"), shape=rows.shape, chunks=(400, 3), dtype=rows.dtype)
        array[:] = rows
        return array
    ds = pytest.importorskip("pyarrow.dataset")
    table = arrow_table(rows)
    if kind == "parquet":  # two files of several row groups
        from pyarrow import parquet

        (folder / "files").mkdir()
        parquet.write_table(table[:600], folder / "files" / "1.parquet", row_group_size=250)
        parquet.write_table(table[600:], folder / "files" / "2.parquet", row_group_size=1000)
        return ds.dataset(folder / "files")
    from pyarrow import csv

    csv.write_csv(table, folder / "rows.csv")
    return ds.dataset(folder / "rows.csv", format="csv")


def arrow_table(rows):
    pa = pytest.importorskip("pyarrow")
    return pa.table({name: np.ascontiguousarray(column) for name, column in zip(NAMES, rows.T, strict=True)})


def model(**options):
    return SparseKernelPCA(**{"n_components": 3, "n_support": 10, "random_state": 0, "batch_size": 333, **options})


class Passes:
    """A function that gives the blocks of X and counts its calls."""

    def __init__(self, X, cuts=(500, 1000)):
        self.blocks, self.count = np.split(X, cuts), 0

    def __call__(self):
        self.count += 1
        yield from self.blocks


def assert_same_fit(found, expected, tolerance=1e-8):
    """Equal in all that a fit leaves, relative to the size of it."""
    for name in ("support_vectors_", "dual_coef_", "offset_", "eigenvalues_", "explained_variance_ratio_", "gamma_"):
        theirs = getattr(expected, name)
        size = np.abs(theirs).max()
        np.testing.assert_allclose(getattr(found, name), theirs, rtol=0, atol=tolerance * size, err_msg=name)
    if expected.support_ is None:
        assert found.support_ is None
    else:
        np.testing.assert_array_equal(found.support_, expected.support_)
    assert found.captured_ratio_ == pytest.approx(expected.captured_ratio_, abs=1e-6)
    assert found.captured_ratio_kind_ == expected.captured_ratio_kind_
    assert found.n_samples_seen_ == expected.n_samples_seen_
    assert found.n_features_in_ == expected.n_features_in_


def readers():
    """Threads that read blocks, by what they are doing."""
    return [frame for frame in sys._current_frames().values() if reads_blocks(frame)]


def reads_blocks(frame):
    while frame is not None and frame.f_code.co_name != "read_blocks":
        frame = frame.f_back
    return frame is not None
