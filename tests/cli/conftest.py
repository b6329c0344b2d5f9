"""The same rows in every format, and a model of them."""

import numpy as np
import polars as pl
import pytest
from calling import COLUMNS, run


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centers = 2 * rng.standard_normal((5, 4))
    return centers[rng.integers(5, size=150)] + 0.5 * rng.standard_normal((150, 4))


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """The same rows in every format, tables with an id and a label beside them, and a model of them."""
    path = tmp_path_factory.mktemp("data")
    frame = pl.DataFrame(rows, schema=COLUMNS).with_columns(
        id=pl.int_range(pl.len()), label=pl.Series(["red", "blue", "green"] * 50)
    )
    frame.write_csv(path / "rows.csv")
    frame.write_csv(path / "rows.tsv", separator="\t")
    frame.write_parquet(path / "rows.parquet")
    np.save(path / "rows.npy", rows)
    np.savez(path / "rows.npz", X=rows, label=np.arange(150))
    assert run("fit", path / "rows.csv", "-x", "id,label", "-c", 3, "-s", 12, "-o", path / "model.ks").exit_code == 0
    return path
