"""What is odd: rows with one cause share a card, and nothing that most rows have is a cause."""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import kernelsieve
from kernelsieve import SparseKernelPCA, TableEncoder
from kernelsieve.report.contents import summary
from kernelsieve.report.outliers import ranges_of

N = 2000


@pytest.fixture(scope="module")
def gains():
    """A census table: a gain that is mostly zero and 99,999 for ten rows, and ten consecutive hours of a storm."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, N).round(),
            "hours": rng.normal(38, 5, N).round(),
            "gain": np.where(rng.random(N) < 0.05, rng.integers(1, 40, N) * 100.0, 0.0),
            "wind": rng.normal(10, 2, N),
            "kind": rng.choice(["a", "b"], N, p=[0.97, 0.03]),
        }
    )
    table.loc[rng.choice(np.arange(200, N), 10, replace=False), "gain"] = 99_999.0
    table.loc[100:109, "wind"] = 60.0 + np.arange(10)
    return table


@pytest.fixture(scope="module")
def odd(gains):
    model = make_pipeline(TableEncoder(), SparseKernelPCA(3, random_state=0)).fit(gains)
    return kernelsieve.report(model, gains).contents["odd"]


def card_of(odd, name):
    return next(card for card in odd["cards"] if card["columns"] and card["columns"][0]["name"] == name)


def test_rows_with_one_value_share_a_card(odd, gains):
    card = card_of(odd, "gain")
    assert card["n_rows"] == 10
    assert (card["columns"][0]["value"], card["columns"][0]["value_to"]) == (99_999, 99_999)
    rows = [row for first, last in card["ranges"] for row in range(first, last + 1)]
    assert len(rows) + card["n_more"] == 10
    assert (gains["gain"].iloc[rows] == 99_999).all()
    assert len(card["shown"]) == 10


def test_consecutive_rows_are_joined(odd):
    card = card_of(odd, "wind")
    assert [100, 109] in card["ranges"]
    assert card["columns"][0]["value_to"] == 69
    assert ranges_of([9, 4, 6, 5]) == [[4, 6], [9, 9]]


def test_the_limit_and_the_number_of_odd_rows_are_those_of_tukey(odd, gains):
    model = make_pipeline(TableEncoder(), SparseKernelPCA(3, random_state=0)).fit(gains)
    errors = model[-1].reconstruction_error(model[0].transform(gains))
    low, high = np.quantile(errors, [0.25, 0.75])
    assert odd["limit"] == pytest.approx(high + 1.5 * (high - low), rel=1e-5)
    assert odd["n_odd"] == np.sum(errors > high + 1.5 * (high - low)) >= 20


def test_no_reason_is_a_value_that_most_rows_have(odd, gains):
    reasons = [reason for card in odd["cards"] for reason in card["columns"] if card["n_rows"] == 1]
    for reason in reasons:
        assert (gains[reason["name"]] == reason["value"]).mean() <= 0.55


def test_the_scale_is_advised_where_a_heavy_tail_is_the_cause(odd, gains):
    assert odd["advice"]["columns"] == ["gain", "wind"]
    robust = make_pipeline(TableEncoder("robust"), SparseKernelPCA(3, random_state=0)).fit(gains)
    assert kernelsieve.report(robust, gains).contents["odd"]["advice"] is None


def test_the_summary_names_no_column_twice():
    walks = [{"columns": [{"name": name, "moved": 1.0} for name in names]} for names in ("ab", "bac", "ab")]
    assert summary({"walks": walks}, {"n_odd": 0}, 10) == "The rows differ most in a and b, then in c."
    assert summary({"walks": walks[::2]}, {"n_odd": 0}, 10) == "The rows differ most in a and b."


def test_the_summary_counts_the_odd_rows_of_a_column_over_all_cards():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"hours": rng.uniform(size=N), "age": rng.uniform(size=N), "gain": np.zeros(N)})
    table.loc[:9, "gain"], table.loc[10:14, "gain"] = 99_999.0, 41_000.0 + np.arange(5)
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, random_state=0)).fit(table)
    found = kernelsieve.report(model, table).contents
    age = [card["n_rows"] for card in found["odd"]["cards"] if card["columns"][0]["name"] == "age"]
    assert len(age) == 2  # too young, too old
    assert f"{sum(age)} of them because of age" in found["summary"]
    assert found["odd"]["advice"] == {"columns": ["gain"], "n_rows": 15}


def test_rows_on_cards_that_are_not_odd_are_not_counted():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(size=40), "wind": rng.uniform(size=40)})
    table.loc[[7, 9], "wind"] = 30.0
    model = make_pipeline(TableEncoder(), SparseKernelPCA(2, random_state=0)).fit(table)
    found = kernelsieve.report(model, table).contents
    assert found["odd"]["n_odd"] == 4 < sum(card["n_rows"] for card in found["odd"]["cards"])
    assert "4 of 40 rows are odd, 2 of them because of wind" in found["summary"]


def test_reasons_are_counted_among_the_rows_whose_reasons_are_known():
    odd = {"n_odd": 3452, "n_explained": 500, "most": ["depth", 258]}
    assert summary({"walks": []}, odd, 50_000) == (
        "3,452 of 50,000 rows are odd, 258 of the 500 worst because of depth."
    )
