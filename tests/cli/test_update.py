"""`kernelsieve update`: a model goes on with the rows of another file."""

import json

import numpy as np
import polars as pl
import pytest
from calling import assert_fails, core, run

import kernelsieve


@pytest.fixture
def days(folder, tmp_path):
    """A table in two files, with a weight for every row, and a model of the first that can go on."""
    frame = pl.read_csv(folder / "rows.csv").with_columns(w=pl.col("id") % 3 + 1)
    frame[:100].write_csv(tmp_path / "first.csv")
    frame[100:].write_csv(tmp_path / "second.csv")
    frame.write_csv(tmp_path / "both.csv")
    options = ["-x", "id", "--weights", "w", "-c", 2, "-s", 8, "--gamma", 0.2]
    assert run("fit", tmp_path / "first.csv", *options, "--keep-stream", "-o", tmp_path / "m.ks").exit_code == 0
    return tmp_path


def test_new_rows_are_added_to_the_model_in_its_place(days):
    before = core(days / "m.ks").explained_variance_
    result = run("update", days / "m.ks", days / "second.csv", "--weights", "w")
    assert result.exit_code == 0, result.output
    assert "50 rows added, 150 in all" in result.output
    updated = kernelsieve.load(days / "m.ks")
    assert updated[-1].n_samples_seen_ == 150
    assert not np.array_equal(updated[-1].explained_variance_, before)
    table = kernelsieve.read_table(days / "both.csv", exclude=["id", "w"])
    by_hand = updated[-1].__class__(
        2, selection=updated[-1].support_vectors_, gamma=float(updated[-1].gamma_), random_state=0
    )
    weights = kernelsieve.read_table(days / "both.csv")["w"].to_numpy()
    by_hand.fit(updated[0].transform(table), sample_weight=weights)
    np.testing.assert_allclose(updated[-1].explained_variance_, by_hand.explained_variance_, rtol=1e-8)


def test_blocks_other_files_and_facts(days):
    options = ["--weights", "w", "--batch-size", 7, "--json", "-o", days / "other.ks"]
    result = run("update", days / "m.ks", days / "second.csv", *options)
    facts = json.loads(result.output)
    assert (facts["rows_added"], facts["n_samples_seen"], facts["points_chosen_again"]) == (50, 150, False)
    assert core(days / "m.ks").n_samples_seen_ == 100
    run("update", days / "m.ks", days / "second.csv", "--weights", "w")
    np.testing.assert_allclose(core(days / "other.ks").dual_coef_, core(days / "m.ks").dual_coef_, atol=1e-10)


def test_drift_ends_with_a_status_and_refresh_chooses_again(days):
    shifted = pl.read_csv(days / "second.csv").with_columns(a=-pl.col("a"), b=pl.col("b") + 2)
    shifted.write_csv(days / "shifted.csv")
    assert run("update", days / "m.ks", days / "second.csv", "--max-drift", 90).exit_code == 0
    result = run("update", days / "m.ks", days / "shifted.csv", "--max-drift", 0.1, "--refresh")
    assert result.exit_code == 3
    assert "the support points were chosen again" in result.output
    assert core(days / "m.ks").chosen_at_ == core(days / "m.ks").n_samples_seen_ == 200


def test_what_cannot_be_updated_is_left_as_it_was(days, folder):
    bytes_before = (days / "m.ks").read_bytes()
    pl.read_csv(days / "second.csv").with_columns(a=pl.lit("text")).write_csv(days / "text.csv")
    assert_fails(run("update", days / "m.ks", days / "text.csv"), "text.csv", "'a'")
    pl.read_csv(days / "second.csv").drop("b").write_csv(days / "short.csv")
    assert_fails(run("update", days / "m.ks", days / "short.csv"), "no column 'b'")
    pl.read_csv(days / "second.csv").with_columns(w=-pl.col("w")).write_csv(days / "below.csv")
    assert_fails(run("update", days / "m.ks", days / "below.csv", "--weights", "w"), "--weights w is -", "in row 1")
    assert (days / "m.ks").read_bytes() == bytes_before
    assert_fails(run("update", folder / "model.ks", days / "second.csv"), "fit it with --keep-stream")
    exact = days / "exact.ks"
    assert run("fit", days / "first.csv", "-x", "id,w", "--method", "exact", "-o", exact).exit_code == 0
    assert_fails(run("update", exact, days / "second.csv"), "KernelPCA, which cannot take new rows")
    assert run("fit", days / "first.csv", "--method", "exact", "--keep-stream", "-o", exact).exit_code == 2


def test_drift_is_seen_where_so_many_rows_come_that_points_are_chosen_again(days):
    few = pl.read_csv(days / "second.csv").with_columns(a=-3 * pl.col("a"), b=pl.col("b") * 0.1 + 4)
    pl.concat([few] * 6).write_csv(days / "many.csv")
    arguments = ["--weights", "w", "--max-drift", 30, "--batch-size", 45, "--json", "-o", days / "other.ks"]
    result = run("update", days / "m.ks", days / "many.csv", *arguments)
    facts = json.loads(result.output)
    assert facts["points_chosen_again"]
    assert facts["drift_degrees"] > 30
    assert result.exit_code == 3
