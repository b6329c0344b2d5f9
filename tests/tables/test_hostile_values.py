"""Tables that hold what nobody expects: each is encoded as it should be, or refused in words."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kernelsieve as ks
from kernelsieve import TableEncoder
from kernelsieve.tables.csv import open_csv


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=20, freq="7h")
    return pd.DataFrame(
        {"size": rng.standard_normal(20), "cut": ["a", "b"] * 10, "sold": rng.random(20) < 0.5, "day": days}
    )


@pytest.mark.parametrize("keep", [["nope"], ["size", "nope"], ("Size",)])
def test_columns_to_keep_that_are_not_there_are_named(keep: Any) -> None:
    with pytest.raises(
        ValueError, match=r"keep names '(nope|Size)', which the table does not have: it has 'size', 'cut'"
    ):
        TableEncoder(keep=keep).fit(table())


def test_a_column_to_keep_is_kept() -> None:
    frame = table().assign(id=np.arange(20))
    assert "id" not in TableEncoder().fit(frame).get_feature_names_out()
    assert "id" in TableEncoder(keep=["id"]).fit(frame).get_feature_names_out()
    assert TableEncoder(keep=["x1"]).fit(frame[["size", "id"]].to_numpy()).kinds_.tolist() == ["number", "number"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_no_numbers_stand_for_no_table(value: float) -> None:
    encoder = TableEncoder().fit(table())
    rows = encoder.transform(table())
    for column in range(rows.shape[1]):
        wrong = rows.copy()
        wrong[3, column] = value
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
                encoder.inverse_transform(wrong)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("fitted", ["Europe/Berlin", None])
def test_dates_with_a_zone_and_without_are_not_mixed(library: str, fitted: str | None) -> None:
    def dated(zone: str | None) -> Any:
        frame = table()[["size", "day"]]
        frame = frame.assign(day=frame["day"] if zone is None else frame["day"].dt.tz_localize(zone))
        return pl.from_pandas(frame) if library == "polars" else frame

    encoder = TableEncoder().fit(dated(fitted))
    expected = encoder.transform(dated(fitted))
    other = None if fitted else "Asia/Tokyo"
    with pytest.raises(ValueError, match=r"the dates of column 'day' have (a|no) time zone, and had (one|none)"):
        encoder.transform(dated(other))
    with pytest.raises(ValueError, match=r"the dates of column 'day' have (a|no) time zone"):
        TableEncoder().fit_blocks([dated(fitted), dated(other)])
    if fitted and library == "pandas":  # an instant is the same in every zone
        elsewhere = dated(fitted).assign(day=dated(fitted)["day"].dt.tz_convert("Asia/Tokyo"))
        np.testing.assert_array_equal(encoder.transform(elsewhere), expected)


def test_zones_are_kept_in_a_file_and_older_files_do_not_tell(tmp_path: Any) -> None:
    frame = table()[["size", "day"]]
    aware = frame.assign(day=frame["day"].dt.tz_localize("UTC"))
    encoder = TableEncoder().fit(frame)
    ks.save(_pipeline(encoder, frame), tmp_path / "model.ks")
    with pytest.raises(ValueError, match="have a time zone"):
        ks.load(tmp_path / "model.ks").transform(aware)
    del encoder.zoned_, encoder.calendar_, encoder.joined_
    assert encoder.transform(aware).shape == (20, 2)


def _pipeline(encoder: Any, frame: Any) -> Any:
    from sklearn.pipeline import Pipeline

    model = ks.SparseKernelPCA(2, n_support=5, random_state=0).fit(encoder.transform(frame))
    return Pipeline([("table", encoder), ("model", model)])


@pytest.mark.parametrize("library", ["pandas", "numpy"])
def test_half_of_a_surrogate_pair_is_spelled_out(library: str) -> None:
    texts = pd.Series(["x", "y\ud800", "x", "y\udfff"] * 5, dtype=object)
    frame: Any = pd.DataFrame({"a": texts, "b": np.arange(20.0) ** 2})
    X = frame if library == "pandas" else frame.to_numpy(dtype=object)
    encoder = TableEncoder().fit(X)
    assert encoder.categories_[0].tolist() == ["x", "y\\ud800", "y\\udfff"]
    back = encoder.inverse_transform(encoder.transform(X))
    labels = back["a"].tolist() if library == "pandas" else back[:, 0].tolist()
    assert labels == ["x", "y\\ud800", "x", "y\\udfff"] * 5


def test_a_column_of_lists_is_left_out_in_words() -> None:
    frame = pd.DataFrame({"a": [[1], [2], [3]], "b": [1, 1, 1]})
    with pytest.raises(ValueError, match="'a' is made of list, neither numbers nor text; 'b' is the same"):
        TableEncoder().fit(frame)


def test_columns_of_a_file_that_share_a_name_are_told(tmp_path: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b,a, a ,,\n1,2,3,4,5,6\n2,3,4,5,6,7\n")
    with pytest.warns(UserWarning, match=r"names columns more than once: .* called 'a_duplicated_0', 'a_duplicated_1'"):
        file, frame = open_csv(path, header=True)
    assert file.names == ("a", "b", "a_duplicated_0", "a_duplicated_1", "column_5", "column_6")
    assert frame["a_duplicated_0"].to_list() == [3, 4]


def test_columns_of_a_file_that_are_called_like_copies_are_not(tmp_path: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,a_duplicated_0,a_\n1,2,3\n2,3,4\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_csv(path, header=True)[0].names == ("a", "a_duplicated_0", "a_")
    path.write_text("a,a_duplicated_0,a\n1,2,3\n2,3,4\n")
    with pytest.warns(UserWarning, match="called 'a_duplicated_1' here"):
        assert open_csv(path, header=True)[0].names == ("a", "a_duplicated_0", "a_duplicated_1")
