"""Models that version 0.1.0 saved still load, and answer as they did."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import kernelsieve

FOLDER = Path(__file__).parent / "saved_by_0_1_0"
FILES = sorted(path.stem for path in FOLDER.glob("*.ks"))


def rows_of(name, kept):
    return {
        "precomputed": lambda: kept["gram"],
        "sparse_rows": lambda: sp.csr_matrix(kept["sparse_rows_dense"]),
        "sparse_names": lambda: pd.DataFrame(kept["rows"], columns=list("abc")),
        "sparse_float32": lambda: kept["rows"].astype(np.float32),
    }.get(name, lambda: kept["rows"])()


@pytest.mark.parametrize("name", FILES)
def test_a_model_of_0_1_0_gives_the_scores_that_it_gave_then(name, tmp_path):
    kept = np.load(FOLDER / "expected.npz")
    model = kernelsieve.load(FOLDER / f"{name}.ks")
    rows = rows_of(name, kept)
    tolerance = 1e-6 if name == "sparse_float32" else 1e-12
    assert_allclose(model.transform(rows), kept[f"scores_{name}"], rtol=tolerance, atol=tolerance)
    kernelsieve.save(model, tmp_path / "again.ks")
    assert_allclose(kernelsieve.load(tmp_path / "again.ks").transform(rows), model.transform(rows), rtol=1e-12)


def test_a_stream_of_0_1_0_goes_on():
    kept = np.load(FOLDER / "expected.npz")
    model = kernelsieve.load(FOLDER / "sparse_stream.ks")
    seen = model.n_samples_seen_
    model.partial_fit(kept["rows"])
    assert model.n_samples_seen_ == seen + len(kept["rows"])


def test_there_are_files_of_every_kind():
    assert len(FILES) == 20


def test_a_likelihood_of_0_1_0_says_that_it_cannot_judge_rows():
    kept = np.load(FOLDER / "expected.npz")
    with pytest.raises(ValueError, match="had no threshold_: fit it again"):
        kernelsieve.load(FOLDER / "likelihood.ks").predict(kept["rows"])
