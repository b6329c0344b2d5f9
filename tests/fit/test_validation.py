"""Arguments of functions: what is taken, what is refused, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsieve.fit import parameters as validation


@pytest.mark.parametrize("value", [1, np.int8(1), 2**31 - 1])
def test_whole_numbers_are_ints(value):
    found = validation.whole_number("n", value)
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (True, TypeError), (np.True_, TypeError), (1.0, TypeError), ("1", TypeError)]
)
def test_what_is_no_whole_number_from_one_is_refused(value, error):
    with pytest.raises(error, match=r"must be a whole number from 1$"):
        validation.whole_number("n", value)


def test_an_upper_limit_is_named():
    assert validation.whole_number("n", 7, 5, 7) == 7
    for value in (4, 8):
        with pytest.raises(ValueError, match=f"n={value} must be a whole number from 5 to 7"):
            validation.whole_number("n", value, 5, 7)


@pytest.mark.parametrize("value", [1e-300, 5, np.float32(0.5)])
def test_positive_numbers_are_floats(value):
    assert validation.positive_number("x", value) == float(value)


@pytest.mark.parametrize(
    ("value", "error"),
    [(0, ValueError), (-1.0, ValueError), (np.inf, ValueError), (np.nan, ValueError), (True, TypeError)],
)
def test_what_is_no_positive_number_is_refused(value, error):
    with pytest.raises(error, match="finite number above 0"):
        validation.positive_number("x", value)


@pytest.mark.parametrize("value", [(0, 3), [0, 3], np.array([0, 3])])
def test_two_whole_numbers(value):
    assert validation.two_whole_numbers("pair", value) == (0, 3)


@pytest.mark.parametrize(
    ("value", "error"), [("03", TypeError), ((1, 2, 3), ValueError), (3, TypeError), ((-1, 2), ValueError)]
)
def test_what_is_not_two_whole_numbers_is_refused(value, error):
    with pytest.raises(error, match="pair="):
        validation.two_whole_numbers("pair", value)


def test_components_are_numbered_from_zero():
    assert [validation.check_component(k, 2) for k in (0, np.int64(1))] == [0, 1]
    for value in (-1, 2):
        with pytest.raises(ValueError, match="has 2, numbered from 0"):
            validation.check_component(value, 2)
    for value in (True, 1.0, "0"):
        with pytest.raises(TypeError, match="must be a whole number"):
            validation.check_component(value, 2)


def test_some_numbers():
    np.testing.assert_array_equal(validation.some_numbers("grid", (1, 2), "some"), [1.0, 2.0])
    for value, error in (([], ValueError), ([[1.0]], ValueError), (["a"], TypeError)):
        with pytest.raises(error, match="must be some"):
            validation.some_numbers("grid", value, "some")


def test_scores_have_a_column_for_each_component():
    assert validation.checked_scores(np.zeros((3, 2)), 2).shape == (3, 2)
    with pytest.raises(ValueError, match="scores have 2 columns, the model has 3"):
        validation.checked_scores(np.zeros((3, 2)), 3)


def test_classes_are_not_taken_for_their_instances():
    validation.instance_of("model", 1, (int, str))
    for value, words in ((int, "an instance of int or str, not the class int"), (1.0, "of int or str, not a float")):
        with pytest.raises(TypeError, match=words):
            validation.instance_of("model", value, (int, str))


@pytest.mark.parametrize(("length", "shown"), [(58, 60), (59, 60)])
def test_long_values_are_shown_by_their_beginning(length, shown):
    """A value whose repr has up to 60 characters is shown whole."""
    with pytest.raises(TypeError) as caught:
        validation.whole_number("n", "a" * length)
    text = str(caught.value).removeprefix("n=").partition(" must")[0]
    assert len(text) == shown
    assert text.endswith("..." if length == 59 else "a'")


@pytest.mark.parametrize(
    ("value", "share", "inner"),
    [(0, False, False), (1e-9, True, True), (0.5, True, True), (1, True, False), (1.0, True, False)]
    + [(value, False, False) for value in (1.001, 2, -0.1, "0.5", None)],
)
def test_shares_lie_between_nothing_and_all(value, share, inner):
    assert validation.SHARE.is_satisfied_by(value) is share
    assert validation.INNER_SHARE.is_satisfied_by(value) is inner
