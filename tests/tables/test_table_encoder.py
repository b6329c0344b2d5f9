"""TableEncoder: every kind of column, every kind of frame, whole and in blocks, there and back."""

import datetime as dt
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler

from kernelsieve import ElasticNetPCA, KernelPCA, SparseKernelPCA, TableEncoder, read_table
from kernelsieve.errors import ColumnError
from kernelsieve.tables import plan as summaries

N = 200


def people(n=N, seed=0):
    """A table as people have it."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "size": rng.standard_normal(n) * 3 + 10,
            "cut": rng.choice(["fair", "good", "ideal"], n, p=[0.1, 0.3, 0.6]),
            "flag": rng.random(n) < 0.3,
            "when": pd.date_range("2020-01-01", periods=n, freq="h"),
            "same": np.ones(n),
            "name": [f"person {i}" for i in range(n)],
            "money": np.exp(3 * rng.standard_normal(n)),
        }
    )
    frame.loc[5, "size"] = np.nan
    frame.loc[7, "cut"] = None
    frame.loc[9, "when"] = pd.NaT
    return frame


FRAMES = {
    "pandas": lambda frame: frame,
    "pandas nullable": lambda frame: frame.convert_dtypes(),
    "pandas categories": lambda frame: frame.astype({"cut": "category"}),
    "pandas objects": lambda frame: frame.astype({"cut": object, "flag": object, "id": object}),
    "polars": pl.from_pandas,
    "polars lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "polars categories": lambda frame: pl.from_pandas(frame).with_columns(pl.col("cut").cast(pl.Categorical)),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "arrow batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
}
NAMES = ["size", "size_missing", "cut=fair", "cut=good", "cut=ideal", "cut_missing"]
NAMES += ["flag", "when", "when_weekday_sin", "when_weekday_cos", "when_hour_sin", "when_hour_cos", "when_missing"]
NAMES += ["money"]


@pytest.mark.parametrize("kind", sorted(FRAMES))
def test_every_kind_of_frame_gives_the_same_numbers(kind):
    expected = TableEncoder().fit(people())
    frame = FRAMES[kind](people())
    encoder = TableEncoder().fit(frame)
    assert encoder.get_feature_names_out().tolist() == NAMES
    assert_allclose(encoder.transform(frame), expected.transform(people()), atol=1e-12)
    assert encoder.describe() == expected.describe()


def test_numbers_are_scaled_as_scikit_learn_scales_them():
    frame = people()[["money", "size"]].dropna()
    assert_allclose(TableEncoder().fit_transform(frame), StandardScaler().fit_transform(frame), atol=1e-12)
    assert_allclose(TableEncoder("none").fit_transform(frame), frame.to_numpy())
    z = RobustScaler().fit_transform(frame)
    assert_allclose(TableEncoder("robust").fit_transform(frame), z / np.sqrt(1 + (z / 3) ** 2), atol=1e-12)


def test_the_robust_scale_is_that_of_skrubs_squashing_scaler():
    squashing = pytest.importorskip("skrub").SquashingScaler()
    rng = np.random.default_rng(0)
    rows = np.stack([rng.standard_cauchy(500), np.exp(4 * rng.standard_normal(500)), rng.random(500) < 0.1], axis=1)
    assert_allclose(TableEncoder("robust").fit_transform(rows), squashing.fit_transform(rows), atol=1e-9)


@pytest.mark.parametrize("n_labels", [2, 5, 30])
def test_a_category_counts_as_one_column_however_many_labels_it_has(n_labels):
    """Two rows at random are as far apart in it, on average, as in a standardised number: E |x - y|^2 = 2."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(n_labels))
    frame = pd.DataFrame({"label": rng.choice([f"l{i}" for i in range(n_labels)], 3000, p=shares)})
    encoded = TableEncoder().fit_transform(frame)
    assert_allclose(encoded.var(axis=0).sum(), 1.0, rtol=1e-9)


def test_without_scaling_different_labels_are_at_distance_one():
    encoded = TableEncoder("none").fit_transform(pd.DataFrame({"label": ["a", "b", "c", "a"]}))
    assert_allclose(np.linalg.norm(encoded[0] - encoded[1]), 1.0)
    assert_allclose(np.linalg.norm(encoded[0] - encoded[3]), 0.0)


def test_rare_labels_share_one_indicator():
    frame = pd.DataFrame({"label": [f"l{i % 20}" for i in range(400)] + ["rare", "odd", "l0"]})
    encoder = TableEncoder(max_categories=5).fit(frame)
    names = encoder.get_feature_names_out().tolist()
    assert len(names) == 5
    assert names[-1] == "label=other values"
    encoded = encoder.transform(frame)
    assert (np.count_nonzero(encoded, axis=1) == 1).all()
    assert encoder.transform(pd.DataFrame({"label": ["never seen"]}))[0, -1] > 0
    back = encoder.inverse_transform(encoded)  # a table that is encoded as the first one was
    assert back["label"].iloc[[0, -3, -2, -1]].tolist() == ["l0", "other values", "other values", "l0"]
    assert_array_equal(encoder.transform(back), encoded)


@pytest.mark.parametrize(
    ("column", "word", "row"),
    [("size", "old", 4), ("when", "soon", 3)],
)
def test_the_first_cell_that_does_not_fit_a_column_is_named(column, word, row):
    frame = pd.DataFrame({"size": [57.0, 61.5, 80.0, 44.0] * 5, "when": pd.date_range("2024-01-01", periods=20)})
    encoder = TableEncoder().fit(frame)
    frame[column] = frame[column].astype(str)
    frame.loc[row - 1, column] = word
    with pytest.raises(
        ColumnError, match=rf"column '{column}' is not numeric \(first '{word}' in row {row}\)"
    ) as caught:
        encoder.transform(frame)
    assert caught.value.row == row - 1


def test_labels_that_were_not_there_are_told():
    encoder = TableEncoder().fit(people())
    new = people(20)
    new.loc[3, "cut"] = "marvellous"
    with pytest.warns(UserWarning, match=r"column 'cut' holds values in 1 row that.*'marvellous'"):
        encoded = encoder.transform(new)
    assert_array_equal(encoded[3, 2:6], 0)


# --- what is left out --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (np.arange(50), "identifier-like: a different whole number"),
        (np.random.default_rng(0).permutation(50) + 1, "identifier-like: a different whole number"),
        ([f"k{i}" for i in range(50)], "identifier-like: a different text"),
        ([f"k{i % 40}" for i in range(50)], "text with 40 different values in 50 rows"),
        (np.full(50, 3.5), r"the same in every row \(3.5\)"),
        (["x"] * 50, r"the same in every row \('x'\)"),
        ([True] * 50, r"the same in every row \(true\)"),
        ([dt.date(2024, 1, 31)] * 50, r"the same in every row \(2024-01-31\)"),
        ([None] * 50, "empty"),
        ([[1, 2]] * 50, "neither numbers nor text"),
    ],
)
def test_columns_that_say_nothing_are_left_out_and_named(column, reason):
    frame = pl.DataFrame({"good": np.random.default_rng(1).random(50), "odd": column}, strict=False)
    encoder = TableEncoder().fit(frame)
    assert encoder.kinds_.tolist() == ["number", "left out"]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(encoder.reasons_[1])
    assert "odd (" in dict(encoder.describe())["left out"]


@pytest.mark.parametrize("column", [np.arange(1900, 1950), np.arange(50) * 0.5, np.arange(50) % 25])
def test_numbers_that_only_resemble_identifiers_are_kept(column):
    assert TableEncoder().fit(pl.DataFrame({"year": column})).kinds_.tolist() == ["number"]


def test_whole_numbers_that_are_called_identifiers_are_left_out():
    frame = pd.DataFrame({"customer_id": np.arange(50) * 17 + 4001, "width": np.arange(50) * 17 + 4001})
    assert TableEncoder().fit(frame).kinds_.tolist() == ["left out", "number"]


def test_row_numbers_with_gaps_are_left_out_and_years_that_name_rows_are_not(tmp_path):
    """R writes row numbers and other row names into a column without a name."""
    for first, kind in ((1, "left out"), (1947, "number")):
        rows = "\n".join(f"{first + i},{i * i},{first + i}" for i in range(40) if i % 7)
        (tmp_path / "rows.csv").write_text(f",size,when\n{rows}\n")
        encoder = TableEncoder().fit(read_table(tmp_path / "rows.csv"))
        assert encoder.kinds_.tolist() == [kind, "number", "number"]
    (tmp_path / "rows.csv").write_text("\n".join(f"{i},{i * i}" for i in range(40) if i % 7))
    assert TableEncoder().fit(read_table(tmp_path / "rows.csv", header=False)).kinds_.tolist() == ["number"] * 2


def test_columns_can_be_kept_whatever_they_look_like():
    encoder = TableEncoder(keep=["id", "name"]).fit(people(20))
    assert dict(zip(people().columns, encoder.kinds_, strict=True))["id"] == "number"
    assert dict(zip(people().columns, encoder.kinds_, strict=True))["name"] == "category"


def test_a_table_of_which_nothing_is_left_says_why():
    with pytest.raises(ValueError, match=r"no column .* 'a' is the same in every row \(1\); 'b' is empty"):
        TableEncoder().fit(pd.DataFrame({"a": [1, 1, 1], "b": [None, None, None]}))


# --- gaps ---------------------------------------------------------------------------------------------------------


def test_gaps_are_named_by_column_and_row():
    strict = TableEncoder(missing="error")
    with pytest.raises(ValueError, match=r"column 'size' is missing .* row 6"):
        strict.fit(people())
    whole = people().dropna()
    strict.fit(whole)
    gap = whole.copy()
    gap.iloc[3, gap.columns.get_loc("cut")] = None
    with pytest.raises(ValueError, match=r"column 'cut' is missing .* row 4"):
        strict.transform(gap)


def test_gaps_become_the_median_and_an_indicator():
    encoder = TableEncoder().fit(people())
    encoded = encoder.transform(people())
    names = encoder.get_feature_names_out().tolist()
    size = people()["size"]
    assert_allclose(encoded[5, names.index("size")], (size.median() - size.mean()) / size.std(ddof=0))
    assert encoded[:, names.index("size_missing")].nonzero()[0].tolist() == [5]
    assert encoded[:, names.index("cut_missing")].nonzero()[0].tolist() == [7]


def test_infinite_values_are_errors():
    for rows in (np.array([[1.0], [np.inf], [2.0]]), pd.DataFrame({"x0": [1.0, -np.inf, 2.0]})):
        with pytest.raises(ValueError, match="column 'x0' is infinite in row 2"):
            TableEncoder().fit(rows)
    with pytest.raises(ValueError, match="column 'x0' is infinite in row 1"):
        TableEncoder().fit(np.arange(9.0)[:, None] ** 2).transform([[np.inf]])


# --- blocks, and the way back --------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, N - 1), max_size=6))
@settings(max_examples=20, deadline=None)
def test_a_table_in_blocks_is_encoded_as_it_would_be_whole(cuts):
    frame = pl.from_pandas(people())
    edges = sorted({0, N, *cuts})
    blocks = [frame[start:stop] for start, stop in pairwise(edges)]
    whole, parts = TableEncoder("robust").fit(frame), TableEncoder("robust").fit_blocks(iter(blocks))
    assert whole.describe() == parts.describe()
    assert_allclose(parts.transform(frame), whole.transform(frame), atol=1e-12)


def test_long_tables_take_the_same_sample_however_they_are_cut(monkeypatch):
    monkeypatch.setattr(summaries, "SAMPLE_ROWS", 50)
    rows = np.random.default_rng(0).standard_normal((1000, 3))
    whole = TableEncoder("robust").fit(rows)
    parts = TableEncoder("robust").fit_blocks([rows[:10], rows[10:333], rows[333:]])
    assert_array_equal(whole.center_, parts.center_)
    assert np.abs(whole.center_).max() < 0.6  # a median of 50 rows, and not of the first 50 of a sorted table
    trend = TableEncoder("robust").fit(np.arange(10_000.0)[:, None] ** 1.0 + 0.5)
    assert 2500 < trend.center_[0] < 7500


def test_blocks_with_other_columns_are_an_error():
    with pytest.raises(ValueError, match="same columns"):
        TableEncoder().fit_blocks([pd.DataFrame({"a": [1.0, 2.0]}), pd.DataFrame({"b": [1.0]})])
    with pytest.raises(ValueError, match="no block"):
        TableEncoder().fit_blocks([])


@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_the_way_back_gives_the_table(scale, kind):
    frame = FRAMES[kind](people())
    encoder = TableEncoder(scale).fit(frame)
    back = encoder.inverse_transform(encoder.transform(frame))
    assert type(back) is type(frame)
    found = back if kind == "pandas" else back.to_pandas()
    table = people()[["size", "cut", "flag", "when", "money"]]
    assert list(found.columns) == list(table.columns)
    for name in ("size", "money"):
        assert_allclose(found[name], table[name])
    assert found["cut"].fillna("-").tolist() == table["cut"].fillna("-").tolist()
    assert found["flag"].tolist() == table["flag"].tolist()
    assert (abs(found["when"] - table["when"]).dropna() < pd.Timedelta("1s")).all()
    assert found["when"].isna().tolist() == table["when"].isna().tolist()


def test_float32_stays_float32_and_arrays_come_back_as_arrays():
    rows = np.random.default_rng(0).random((40, 3)).astype(np.float32)
    encoder = TableEncoder().fit(rows)
    assert encoder.transform(rows).dtype == np.float32
    assert encoder.transform(rows.astype(np.float64)).dtype == np.float64
    assert_allclose(encoder.inverse_transform(encoder.transform(rows)), rows, rtol=1e-5)


# --- in the company of others --------------------------------------------------------------------------------------


def test_it_composes_with_pipelines_searches_and_column_transformers():
    frame, labels = people(), np.arange(N) % 2
    pipeline = make_pipeline(TableEncoder(), SparseKernelPCA(3, n_support=10, random_state=0), LogisticRegression())
    assert len(cross_val_score(pipeline, frame, labels, cv=3, error_score="raise")) == 3
    columns = ColumnTransformer([("table", clone(TableEncoder("robust")), ["size", "cut"])], remainder="drop")
    assert columns.fit_transform(frame).shape == (N, 6)
    output = TableEncoder().set_output(transform="pandas").fit_transform(frame)
    assert list(output.columns) == NAMES


def test_what_no_table_can_be_is_refused():
    with pytest.raises(TypeError, match="sparse matrix"):
        TableEncoder().fit(sp.eye(3, format="csr"))
    with pytest.raises(ValueError, match="scale"):
        TableEncoder("some").fit(people())
    encoder = TableEncoder().fit(people())
    text = people()
    text["size"] = "large"
    with pytest.raises(ValueError, match=r"column 'size' is not numeric \(first 'large' in row 1\)"):
        encoder.transform(text)
    with pytest.raises(ValueError, match="too large or too small to be scaled"):
        TableEncoder().fit(np.array([[1e300], [-1e300], [1e299]]))


def test_a_failed_fit_changes_nothing():
    encoder = TableEncoder().fit(people())
    before = encoder.describe()
    with pytest.raises(ValueError, match="no column"):
        encoder.fit(pd.DataFrame({"a": [1.0, 1.0]}))
    assert encoder.describe() == before
    assert_array_equal(encoder.feature_names_in_, people().columns)


@pytest.mark.parametrize("estimator", [SparseKernelPCA(2, n_support=5), KernelPCA(2), ElasticNetPCA(2)])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_estimators_name_the_text_column_that_they_cannot_use(estimator, kind):
    frame = FRAMES[kind](people()[["money", "cut"]].dropna())
    with pytest.raises(ValueError, match=r"column 'cut' holds text \(first '\w+'\).*TableEncoder"):
        clone(estimator).fit(frame)
    model = clone(estimator).fit(people()[["money", "flag"]])
    with pytest.raises(ValueError, match="column 'flag' holds text"):
        model.transform(people()[["money", "flag"]].assign(flag="yes"))


@pytest.mark.parametrize("names", [[0, 1, 2], [0, "a", 2.5], [("a", 1), ("a", 2), ("b", 1)]])
def test_columns_may_be_named_by_anything_and_are_known_by_its_text(names):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    frame = pd.DataFrame(rows, columns=pd.Index(names, tupleize_cols=False))
    encoder = TableEncoder().fit(frame)
    assert encoder.get_feature_names_out().tolist() == [str(name) for name in names]
    assert_allclose(encoder.transform(frame), StandardScaler().fit_transform(rows))
    assert_allclose(encoder.inverse_transform(encoder.transform(frame)), rows)
    assert frame.columns.tolist() == names  # the caller's own stays as it is
    blocks = TableEncoder().fit_blocks([frame[:20], frame[20:]])
    assert_allclose(blocks.transform(frame), encoder.transform(frame))
    counted = TableEncoder(keep=[3]).fit(frame.assign(**{"3": np.arange(60)}).rename(columns={"3": 3}))
    assert counted.kinds_[3] == "number"


def test_names_that_occur_twice_are_told():
    columns = [np.zeros(4)] * 5
    table = pa.Table.from_arrays([pa.array(column) for column in columns], names=["a", "a", "1", "1", "b"])
    for frame in (pd.DataFrame(np.stack(columns, axis=1), columns=["a", "a", 1, "1", "b"]), table):
        with pytest.raises(ValueError, match=r"2 column name\(s\) occur more than once: '1', 'a'; .* rename or drop"):
            TableEncoder().fit(frame)


@pytest.mark.parametrize("as_frame", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_dates_with_a_zone_come_back_with_one(as_frame):
    days = pd.date_range("2020", periods=40).tz_localize("US/Eastern")
    table = as_frame(pd.DataFrame({"a": np.random.default_rng(0).random(40), "d": days}))
    encoder = TableEncoder().fit(table)
    rows = encoder.transform(table)
    again = encoder.transform(encoder.inverse_transform(rows))
    np.testing.assert_allclose(np.asarray(again, dtype=float), np.asarray(rows, dtype=float), atol=1e-9)


@pytest.mark.parametrize("cell", [{}, [1], {1, 2}, np.arange(2)], ids=["dict", "list", "set", "array"])
def test_cells_that_are_no_labels_are_refused_in_words(cell):

    def table(values):
        return pd.DataFrame({"a": np.arange(len(values)) * 1.0, "c": values})

    with pytest.raises(ValueError, match="give text, a number or a date"):
        TableEncoder().fit(table(["a", "b"] * 4 + [cell]))
    encoder = TableEncoder().fit(table(["a", "b"] * 4))
    with pytest.raises(ValueError, match=r"column 'c'|give text, a number or a date"):
        encoder.transform(table([cell, cell]))


def test_heavy_tails_are_found_in_columns_that_are_mostly_zero():
    """A hundred rows of ten thousand make most of the variance of a column; a rare yes among noes is no tail."""
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(10_000) < 0.08, rng.exponential(3000, 10_000), 0.0)
    gain[:50] = 99_999
    columns = {
        "gain": gain,
        "even": rng.standard_normal(10_000),
        "counts": rng.poisson(2, 10_000),
        "rare": (rng.random(10_000) < 0.004).astype(int),
        "skewed": np.exp(3 * rng.standard_normal(10_000)),
    }
    assert TableEncoder().fit(pd.DataFrame(columns)).heavy_tails_ == ["gain", "skewed"]


@pytest.mark.parametrize(("first", "n_rows", "left_out"), [(1_000_000, 400, True), (1, 40, True), (1951, 70, False)])
def test_numbers_that_count_rows_are_left_out_wherever_they_begin(first, n_rows, left_out):
    frame = pd.DataFrame({"order": first + np.arange(n_rows), "size": np.random.default_rng(0).normal(size=n_rows)})
    assert (TableEncoder().fit(frame).kinds_[0] == "left out") is left_out


@pytest.mark.parametrize("gaps", [False, True])
def test_a_counter_that_has_gone_on_is_warned_of(gaps):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"order": np.cumsum(rng.integers(1, 9, 200)), "size": rng.normal(size=200)})
    if gaps:
        frame.loc[5, "size"] = np.nan
    encoder = TableEncoder().fit(frame)
    encoder.transform(frame)
    with pytest.warns(UserWarning, match="column 'order' lies more than 10 standard deviations"):
        encoder.transform(frame.assign(order=frame["order"] + 100_000))
