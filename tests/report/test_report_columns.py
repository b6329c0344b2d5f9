"""Which encoded columns a raw column becomes, and the way back."""

import numpy as np
import pandas as pd
import pytest
from report_tables import encoder, sales
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kernelsieve import SparseKernelPCA, TableEncoder, report
from kernelsieve.report.model_view import ModelView, reader_of
from kernelsieve.report.outliers import _Reasons, explained_rows
from kernelsieve.report.page_data import Options, PageData


def test_groups_are_what_the_encoder_says(subject, reader):
    names = subject.encoded_names
    found = {name: [names[place] for place in group] for name, group in zip(reader.names, reader.groups, strict=True)}
    assert found == {
        "id": [],
        "price": ["pipeline__price"],
        "weight": ["pipeline__weight", "pipeline__missingindicator_weight"],
        "cut": ["onehotencoder__cut_fancy", "onehotencoder__cut_plain"],
        "size": ["onehotencoder__size_large", "onehotencoder__size_small"],
        "sold": [],
    }


def test_encoded_rows_are_read_back_as_they_were(table, subject, reader):
    rows = np.array([0, 1, 2, 50, 299])
    read = dict(zip(reader.names, reader.read(subject.encoded_rows(rows)), strict=True))
    np.testing.assert_allclose(read["price"], table["price"].iloc[rows])
    np.testing.assert_allclose(read["weight"], table["weight"].iloc[rows])
    assert read["cut"].tolist() == table["cut"].iloc[rows].tolist()
    assert read["size"].tolist() == table["size"].iloc[rows].tolist()
    assert np.isnan(read["id"]).all()


def test_every_library_is_read_alike(pipeline, reader):
    pl = pytest.importorskip("polars")
    frame = sales().drop(columns=["sold"])
    encoding = encoder().set_output(transform="default")
    model = make_pipeline(encoding, SparseKernelPCA(2, n_support=10, random_state=0)).fit(pl.from_pandas(frame))
    found = reader_of(ModelView.of(model, pl.from_pandas(frame), 0))
    assert [len(group) for group in found.groups] == [0, 1, 2, 2, 2]


def test_squares_are_summed_over_the_columns_of_a_class(reader):
    squares = np.arange(7.0)
    np.testing.assert_array_equal(reader.by_column(squares), [0, 0, 1 + 2, 3 + 4, 5 + 6, 0])


def test_columns_that_a_step_mixes_are_shown_as_the_model_sees_them(clusters):
    X, _ = clusters
    model = make_pipeline(StandardScaler(), PCA(3), SparseKernelPCA(2, n_support=8, random_state=0)).fit(X)
    found = reader_of(ModelView.of(model, X, 0))
    assert not found.raw
    assert found.names == ["pca0", "pca1", "pca2"]
    np.testing.assert_allclose(np.transpose(found.read(model[:-1].transform(X[:4]))), model[:-1].transform(X[:4]))


def test_many_levels_are_all_found():
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(600), "town": [f"t{i % 150}" for i in range(600)]})
    encoding = make_column_transformer((StandardScaler(), ["x"]), (OneHotEncoder(sparse_output=False), ["town"]))
    model = make_pipeline(encoding, SparseKernelPCA(2, n_support=8, random_state=0)).fit(frame)
    found = reader_of(ModelView.of(model, frame, 0))
    assert [len(group) for group in found.groups] == [1, 150]
    assert found.read(encoding.transform(frame))[1].tolist() == frame["town"].tolist()


@pytest.mark.parametrize(
    "front",
    [
        TableEncoder(max_categories=4),
        make_column_transformer(
            (OneHotEncoder(max_categories=4, sparse_output=False), ["team"]), (StandardScaler(), ["goals"])
        ),
    ],
)
def test_labels_that_share_an_indicator_are_shown_as_other_values(front):
    """Of twelve teams, the three most frequent have an indicator each; the model does not tell the others apart."""
    rng = np.random.default_rng(0)
    frequent = ["team 0", "team 1", "team 2"]
    teams = rng.choice([f"team {i}" for i in range(12)], 600, p=[0.2, 0.18, 0.17, *[0.05] * 9])
    table = pd.DataFrame({"team": teams, "goals": rng.standard_t(2, 600)})
    model = make_pipeline(front, SparseKernelPCA(2, n_support=20, random_state=0)).fit(table)
    view = ModelView.of(model, table, 0)
    read = reader_of(view).read(view.encoded_rows(np.arange(600)))[0]
    assert read.tolist() == [team if team in frequent else "other values" for team in teams]
    page = report(model, table).contents
    assert set(page["points"]["values"][0]) == {*frequent, "other values"}
    every, data = np.arange(600), PageData(view, reader_of(view), None, [], Options())
    found = _Reasons(data).of(explained_rows(view, data.reader, every)).values()
    why = [(one["value"], one["expected"]) for reasons in found for one in reasons if one["name"] == "team"]
    rare = [expected for value, expected in why if value not in frequent]
    assert rare
    assert "other values" not in rare
