"""What components mean, what is odd, and points that can be read: planted answers are found."""

import numpy as np
import pytest
from report_tables import needs_interpretation
from sklearn.metrics import pairwise_distances

from kernelsieve import SparseKernelPCA
from kernelsieve.report import contents, outliers, sensitivity
from kernelsieve.report.limits import PAGE
from kernelsieve.report.model_view import ModelView, reader_of


@needs_interpretation
def test_a_component_listens_to_the_columns_that_make_it(clusters, model):
    subject = ModelView.of(model, clusters[0], 0)
    found = sensitivity.sensitivity(subject, reader_of(subject))
    assert found.shape == (2, 5)
    assert set(np.argsort(-found.max(axis=0))[:2]) == {0, 1}  # the groups differ in these
    assert np.all(found[:, 4] == 0)  # a constant


@needs_interpretation
def test_sensitivity_is_the_difference_quotient_of_the_scores(clusters, model):
    subject = ModelView.of(model, clusters[0], 0)
    found = sensitivity.sensitivity(subject, reader_of(subject))
    rows = subject.encoded_rows(subject.some_rows(PAGE.gradient_rows))
    for column in range(4):
        step = np.zeros(5)
        step[column] = 1e-5
        slope = (model.transform(rows + step) - model.transform(rows - step)) / 2e-5
        expected = np.sqrt(np.mean(slope**2, axis=0)) * rows[:, column].std()
        np.testing.assert_allclose(found[:, column], expected, rtol=1e-4)


@needs_interpretation
def test_classes_count_as_one_column(subject, reader):
    encoded = subject.model.sensitivity(subject.encoded_rows(subject.some_rows(PAGE.gradient_rows)))
    found = sensitivity.sensitivity(subject, reader)
    place = reader.names.index("size")
    np.testing.assert_allclose(found[:, place], np.sqrt((encoded[:, reader.groups[place]] ** 2).sum(axis=1)))
    assert np.all(found[:, reader.names.index("id")] == 0)


@needs_interpretation
def test_walks_are_read_in_the_units_of_the_table(subject, reader, table):
    walk = sensitivity.walks(subject, reader)[0]
    size, price = reader.names.index("size"), reader.names.index("price")
    ends = {walk.values[size][0]: walk.values[price][0], walk.values[size][-1]: walk.values[price][-1]}
    assert set(ends) == {"large", "small"}  # the first component separates them
    assert ends["large"] > 80
    assert ends["small"] < 40
    assert walk.moved[price] > walk.moved[reader.names.index("cut")]
    assert walk.moved[reader.names.index("id")] == 0


@needs_interpretation
def test_walks_stay_where_the_others_scores_are_zero(subject, reader):
    walk = sensitivity.walks(subject, reader)[1]
    assert np.all(np.diff(walk.positions) > 0)
    assert walk.positions[3] == pytest.approx(0, abs=1e-12)


def test_a_callable_kernel_means_nothing_here(clusters):
    X = clusters[0][:100]
    model = SparseKernelPCA(2, kernel=lambda A, B: A @ B.T, n_support=8, random_state=0).fit(X)
    subject = ModelView.of(model, X, 0)
    assert sensitivity.sensitivity(subject, reader_of(subject)) is None


def test_the_planted_row_is_the_oddest_for_the_planted_column(subject, reader):
    worst = outliers.worst_rows(subject)
    assert worst[0] == 7
    errors = subject.model.reconstruction_error(subject.encoded)
    low, high = np.quantile(errors, [0.25, 0.75])
    n_odd = int(np.sum(errors > high + 1.5 * (high - low)))
    np.testing.assert_array_equal(worst, np.argsort(-errors, kind="stable")[: max(12, n_odd)])
    found = outliers.explained_rows(subject, reader, worst)[0]
    assert reader.names[int(np.argmax(found.shares))] == "price"
    assert found.expected[reader.names.index("price")] < 200


def test_shares_of_an_odd_row_are_those_of_its_squared_distance(subject, reader):
    worst = outliers.worst_rows(subject)
    expected = subject.model.inverse_transform(subject.scores[worst])
    squares = (subject.encoded[worst] - expected) ** 2
    for place, found in enumerate(outliers.explained_rows(subject, reader, worst)):
        assert found.shares.sum() == pytest.approx(1.0)
        assert found.shares[reader.names.index("price")] == pytest.approx(squares[place, 0] / squares[place].sum())


def test_support_points_are_read_back_and_stand_for_the_rows_near_them(subject, reader):
    found = contents.support_points(subject, reader)
    assert found.n_all == 10
    assert found.shares.sum() == pytest.approx(1.0)
    assert np.all(np.diff(found.shares) <= 0)
    nearest = pairwise_distances(subject.sample, found.encoded).argmin(axis=1)
    np.testing.assert_allclose(found.shares, np.bincount(nearest, minlength=10) / len(nearest))
    assert set(found.values[reader.names.index("size")]) == {"large", "small"}


def test_points_that_are_rows_have_their_numbers(clusters):
    X = clusters[0]
    model = SparseKernelPCA(2, n_support=6, selection="targeted", random_state=0).fit(X)
    subject = ModelView.of(model, X, 0)
    found = contents.support_points(subject, reader_of(subject))
    np.testing.assert_allclose(found.encoded, X[found.rows])
    part = ModelView.of(model, X[:100], 0)
    assert contents.support_points(part, reader_of(part)).rows is None  # of other rows the numbers would be wrong
