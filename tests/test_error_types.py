"""Errors and warnings are told apart by their class, and keep what they know of."""

import pickle
import warnings

import numpy as np
import pytest

from kernelsieve import KernelMonitor, SparseKernelPCA
from kernelsieve.errors import (
    ColumnError,
    KernelWarning,
    ParameterError,
    PoorComponentsWarning,
    TableError,
    TooFewPoints,
    TooFewRows,
    TooManyComponents,
)

ERRORS = [
    ParameterError("gamma", 0.5, "is too large", "give less"),
    TooFewPoints("n_support", 3, "is too few for n_components=5", "give at least 6"),
    TooManyComponents(7, 3, "is more than the rank allows", "there are 3 directions"),
    ColumnError("b", 4, "column 'b' is infinite in row 5"),
    TableError("rows.csv has no rows"),
    TooFewRows(4, 5, 15, " of 3 consecutive rows"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_are_value_errors_that_travel_between_processes(error):
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(error, ValueError)
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_an_error_says_what_was_asked_and_what_there_is():
    rows = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(TooManyComponents) as caught:
        SparseKernelPCA(5, kernel="linear", n_support=10).fit(rows)
    assert (caught.value.asked, caught.value.rank) == (5, 2)
    with pytest.raises(TooFewPoints) as few:
        SparseKernelPCA(5, n_support=3).fit(rows)
    assert (few.value.name, few.value.value) == ("n_support", 3)


def test_a_monitor_asks_for_fewer_components_whatever_the_error_says(monkeypatch):
    """Whoever rewords the message does not change the fit."""
    rows = np.random.default_rng(0).standard_normal((60, 3))
    monkeypatch.setattr(TooManyComponents, "__str__", lambda self: "in other words")
    monitor = KernelMonitor(10, n_support=20, kernel="linear").fit(rows)
    assert monitor.n_components_ < 4


def test_a_monitor_keeps_quiet_about_components_by_class():
    rows = np.random.default_rng(0).standard_normal((80, 5))
    with pytest.warns(PoorComponentsWarning):
        SparseKernelPCA(2, n_support=10, gamma=50.0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PoorComponentsWarning)
        KernelMonitor(2, n_support=10, gamma=50.0).fit(rows)
    assert issubclass(PoorComponentsWarning, KernelWarning)
