"""Parameters: numbers of any type mean what Python's do, and what was given is returned."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kernelsieve as ks
from kernelsieve.fit.parameters import plain

ROWS = np.random.default_rng(0).standard_normal((300, 4))
Number = Callable[[Any], Any]

# Each is fitted with numbers of few bits, and with Python's.
CASES: dict[str, Callable[[Number], Any]] = {
    "KernelFeatureAnalysis": lambda n: ks.KernelFeatureAnalysis(n(np.int8(3)), random_state=0),
    "OnlineKernelPCA": lambda n: ks.OnlineKernelPCA(n(np.int8(3)), budget=n(np.int8(100)), random_state=0),
    "SparseKernelPCA": lambda n: ks.SparseKernelPCA(
        2, n_support=n(np.int8(10)), n_optimization_samples=n(np.uint8(200)), max_iter=n(np.uint8(13)), random_state=0
    ),
    "poly": lambda n: ks.SparseKernelPCA(
        2, n_support=20, kernel="poly", coef0=n(np.float32(0.5)), degree=n(np.int8(2)), random_state=0
    ),
    "longdouble": lambda n: ks.SparseKernelPCA(2, n_support=10, gamma=n(np.longdouble(0.5)), random_state=0),
    "LikelihoodKernelPCA": lambda n: ks.LikelihoodKernelPCA(2, n_support=n(np.int8(100)), random_state=0),
    "KernelPCA": lambda n: ks.KernelPCA(2, kernel="rbf", gamma=n(np.uint8(5)), random_state=n(np.uint8(0))),
    "ElasticNetKernelPCA": lambda n: ks.ElasticNetKernelPCA(2, l2=n(np.float16(1e4)), random_state=0),
    "RobustSparseKernelPCA": lambda n: ks.RobustSparseKernelPCA(
        n(np.int8(2)), n_directions=n(np.uint8(200)), random_state=0
    ),
    "DissimilarityKernelPCA": lambda n: ks.DissimilarityKernelPCA(2, n_nodes=n(np.int8(100)), random_state=0),
    "ImprovedKernelPCA": lambda n: ks.ImprovedKernelPCA(2, n_nodes=n(np.int8(100)), random_state=0),
    "ElasticNetPCA": lambda n: ks.ElasticNetPCA(n(np.int8(2)), n_nonzero=[n(np.uint8(3)), n(np.uint8(2))]),
    "KernelMonitor": lambda n: ks.KernelMonitor(
        3, n(np.uint8(20)), lags=n(np.uint8(2)), alarm_rule=(n(np.uint8(2)), n(np.uint8(3))), random_state=0
    ),
}


def python_number(value: Any) -> Any:
    return int(value) if isinstance(value, np.integer) else float(value)


def answer_of(model: Any) -> list[Any]:
    if isinstance(model, ks.KernelMonitor):
        return [(record.spe, record.alarm) for record in model.update(ROWS[:20] * 3)[2:]]
    return np.asarray(model.transform(ROWS[:20])).tolist()


@pytest.mark.parametrize("case", CASES)
def test_numbers_of_few_bits_are_the_numbers_they_stand_for(case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = CASES[case](lambda number: number).fit(ROWS)
        expected = CASES[case](python_number).fit(ROWS)
        assert answer_of(found) == answer_of(expected)


def test_compress_takes_a_number_of_points_of_few_bits() -> None:
    model = ks.KernelPCA(3, kernel="rbf", random_state=0).fit(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        small = ks.compress(model, np.int8(50), random_state=0)
    assert answer_of(small) == answer_of(ks.compress(model, 50, random_state=0))


def test_what_was_given_is_returned_by_get_params_and_given_to_a_clone() -> None:
    gamma, rule = np.float32(0.1), (np.int8(1), np.int8(2))
    monitor = ks.KernelMonitor(gamma=gamma, alarm_rule=rule)
    for model in (monitor, clone(monitor)):
        assert type(model.get_params()["gamma"]) is np.float32
        assert type(model.gamma) is float
        assert [type(k) for k in model.alarm_rule] == [int, int]
    assert monitor.get_params()["gamma"] is gamma
    assert monitor.get_params()["alarm_rule"] is rule
    monitor.set_params(gamma=0.5)
    assert monitor.get_params()["gamma"] == monitor.gamma == 0.5


def test_a_file_holds_the_number_that_was_given(tmp_path: Any) -> None:
    model = ks.SparseKernelPCA(2, n_support=np.int8(10), gamma=np.float32(0.1), random_state=0).fit(ROWS)
    model.save(tmp_path / "model.ks")
    loaded = ks.load(tmp_path / "model.ks")
    assert type(loaded.get_params()["n_support"]) is np.int8
    assert type(loaded.n_support) is int
    assert answer_of(loaded) == answer_of(model)


def test_a_sum_of_streams_has_the_parameters_of_the_left_one() -> None:
    streams = [ks.SparseKernelPCA(2, n_support=size, gamma=0.1, random_state=0) for size in (np.int8(8), 8)]
    left, right = (stream.partial_fit(part) for stream, part in zip(streams, (ROWS[:150], ROWS[150:]), strict=True))
    assert type((left + right).get_params()["n_support"]) is np.int8
    assert type((right + left).get_params()["n_support"]) is int


@pytest.mark.parametrize(
    ("given", "meant"),
    [(np.str_("rbf"), "rbf"), (np.bool_(True), True), (Fraction(1, 4), 0.25), ([np.int8(2), 3], [2, 3])],
)
def test_words_truth_values_and_fractions_become_pythons_own(given: Any, meant: Any) -> None:
    assert plain(given) == meant
    assert type(plain(given)) is type(meant)


@pytest.mark.parametrize("value", [3, 0.5, "auto", None, True, np.arange(3), {"a": np.int8(1)}, ["a"], (1, 2)])
def test_anything_else_stays_the_object_that_it_is(value: Any) -> None:
    assert plain(value) is value
