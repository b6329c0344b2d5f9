"""Parameters: numbers of any type mean what Python's do, and what was given is returned."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, InvalidParameterError, validate_parameter_constraints

import kernelsieve as ks
from kernelsieve.fit.parameters import plain, whole_number

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


# Of the parameters of these names, or of one class, numbers that are allowed and numbers beyond the limit.
LIMITS: dict[str, tuple[list[float], list[float]]] = {
    "n_components n_support n_nodes n_dictionary n_candidates n_directions n_nonzero max_evaluations": ([1], [0, -1]),
    "batch_size budget rank max_iter admm_max_iter admm_outer_max_iter": ([1], [0, -1]),
    "n_optimization_samples max_categories cv KernelMonitor.n_support": ([2], [1]),
    "n_swaps lags iterated_power": ([0], [-1]),
    "tol alpha l2 l2_alpha gamma2 prune_tol eps_abs eps_rel outer_tol KernelPCA.gamma": ([0, 1e-300], [-1e-300]),
    "gamma degree coherence learning_rate learning_decay half_life": ([1e-300, 1e9], [0, -1.0]),
    "max_residual noise_variance ridge penalty c": ([1e-300, 1e9], [0, -1.0]),
    "ElasticNetKernelPCA.tol ElasticNetKernelPCA.alpha RobustSparseKernelPCA.tol": ([1e-300], [0]),
    "RobustSparseKernelPCA.alpha": ([1e-300], [0]),
    "variance agreement target_error noise_fraction false_alarm_rate": ([1e-9, 1 - 1e-9], [0, 1, 1.5]),
    "tau SparseKernelPCA.n_support DissimilarityKernelPCA.n_nodes ImprovedKernelPCA.n_nodes": ([1e-9, 1], [0, 1.5]),
    "SparseKernelPCA.n_components": ([1e-9, 1], [0, -1, 1.5]),
    "SparseKernelPCA.max_evaluations": ([1e-9, 1], [0, -1]),
    "KernelPCA.degree": ([0, 1e9], [-1]),
    "smoothing": ([0.001, 1], [0, 1.5]),
    "coef0": ([-1e300, 0, 1e300], [np.inf]),
}
LIMIT_OF = {name: limits for names, limits in LIMITS.items() for name in names.split()}


def test_a_count_may_be_as_large_as_32_bits_hold() -> None:
    assert whole_number("n", 2**31) == 2**31
    with pytest.raises(ValueError, match="whole number from 1"):
        whole_number("n", 2**31 + 1)


@pytest.mark.parametrize("name", [name for name in ks.__all__ if hasattr(getattr(ks, name), "_parameter_constraints")])
def test_a_parameter_may_be_any_number_up_to_its_limit_and_none_beyond(name: str) -> None:
    constraints = getattr(ks, name)._parameter_constraints
    for parameter, kinds in constraints.items():
        if any(isinstance(kind, Interval) for kind in kinds):
            allowed, refused = LIMIT_OF.get(f"{name}.{parameter}") or LIMIT_OF[parameter]
            for value in allowed:
                validate_parameter_constraints({parameter: kinds}, {parameter: value}, name)
            for value in refused:
                with pytest.raises(InvalidParameterError):
                    validate_parameter_constraints({parameter: kinds}, {parameter: value}, name)
