"""Tables of every library say the same of their columns."""

import datetime

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from kernelsieve.rows.frames import Frame, as_column


@pytest.mark.parametrize(
    ("table", "said"),
    [(np.zeros(3), r"an array of shape \(3,\) was given"), (["a"], r"of shape \(1,\)"), (3.0, "float was")],
)
def test_only_rows_by_columns_are_a_table(table, said):
    with pytest.raises(ValueError, match=f"rows by columns: .*{said}"):
        Frame(table)


def pandas_table():
    return pd.DataFrame(
        {
            "number": [1.5, np.nan, 3.0, 4.0],
            "text": ["b", None, "a", "b"],
            "flag": [True, False, True, True],
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2021-01-01"]),
            "whole": pd.array([1, None, 3, 4], dtype="Int64"),
            "category": pd.Categorical(["u", "v", "u", None]),
        }
    )


def tables():
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame = pandas_table()
    return [frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame)]


def test_every_library_gives_the_same_columns():
    rows = np.array([0, 1, 3])
    for table in tables():
        frame = Frame(table)
        columns = [frame.column(place, rows) for place in range(frame.n_columns)]
        assert [column.name for column in columns] == ["number", "text", "flag", "day", "whole", "category"]
        assert [column.kind for column in columns] == ["number", "class", "class", "date", "number", "class"]
        np.testing.assert_array_equal(columns[0].values, [1.5, np.nan, 4.0])
        assert columns[1].values.tolist() == ["b", None, "b"]
        assert columns[2].values.tolist() == ["True", "False", "True"]
        np.testing.assert_array_equal(columns[3].values, [18262, np.nan, 18628])
        np.testing.assert_array_equal(columns[4].values, [1, np.nan, 4])
        assert columns[5].values.tolist() == ["u", "v", None]
        assert [column.missing.sum() for column in columns] == [1, 1, 0, 1, 1, 1]


def test_gather_takes_every_value_from_the_row_asked_for():
    lines = np.array([[0, 1, 2, 3, 0, 1], [3, 2, 1, 0, 3, 2]])
    for table in tables():
        frame = Frame(table)
        gathered = Frame(frame.gather(lines))
        for place in range(6):
            expected = frame.column(place, lines[:, place])
            found = gathered.column(place, np.arange(2))
            assert found.kind == expected.kind
            assert list(map(str, found.values)) == list(map(str, expected.values))


def test_arrays_and_sparse_matrices():
    X = np.arange(12.0).reshape(4, 3)
    for table in (X, scipy.sparse.csr_matrix(X), scipy.sparse.csc_array(X), X.tolist()):
        frame = Frame(table)
        assert frame.names == ["feature 0", "feature 1", "feature 2"]
        np.testing.assert_array_equal(frame.column(1, np.array([3, 0])).values, [10, 1])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5, None], "number"),
        ([datetime.date(2020, 1, 1), None], "date"),
        ([datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)], "date"),
        ([True, None, False], "class"),
        ([b"bytes", "text", 3], "class"),
        ([None, None], "class"),
        (np.array([1, 2], dtype="m8[D]"), "number"),
    ],
)
def test_values_of_mixed_types(values, kind):
    array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    assert as_column("name", array).kind == kind


def test_few_levels_are_in_their_own_order_and_many_by_frequency():
    assert as_column("x", np.array(["10", "9", "1", "b2", "b10"])).levels == ["1", "9", "10", "b2", "b10"]
    many = np.array([f"level {i}" for i in range(20)] + ["level 7"] * 3)
    assert as_column("x", many).levels[0] == "level 7"


@pytest.mark.parametrize("wrong", [np.arange(3), 5, "text", {"a": [1]}])
def test_what_is_no_table_is_named(wrong):
    with pytest.raises(ValueError, match="rows by columns"):
        Frame(wrong)
