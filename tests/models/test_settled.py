"""Parameters changed under a model: a stream refuses them, and a fitted model answers as it was fitted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import kernelsieve as ks

RNG = np.random.default_rng(0)
ROWS, MORE = RNG.standard_normal((600, 3)), RNG.standard_normal((300, 3))
CHANGES: list[dict[str, Any]] = [
    {"kernel": "poly", "gamma": 5.0},
    {"gamma": 5.0},
    {"gamma": "median"},
    {"center": False},
    {"n_components": 3},
    {"half_life": 50.0},
]
NOT_OF_THE_STREAM: list[dict[str, Any]] = [{"n_jobs": 1}, {"batch_size": 10}, {"random_state": 3}]


def streams() -> list[Any]:
    return [
        ks.SparseKernelPCA(2, n_support=15, gamma=0.1, random_state=0),
        ks.SparseKernelPCA(2, n_support=15, gamma=0.1, n_optimization_samples=100, random_state=0),
        *(ks.OnlineKernelPCA(2, rule=rule, gamma=0.1, random_state=0) for rule in ("subset", "hebbian")),
    ]


def quietly(function: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("model", streams(), ids=str)
@pytest.mark.parametrize("n_rows", [20, 600])
def test_a_stream_refuses_what_it_was_not_begun_with(model: Any, change: dict[str, Any], n_rows: int) -> None:
    model = quietly(lambda: clone(model).partial_fit(ROWS[:n_rows]))
    before = {name: getattr(model, name) for name in change}
    name = next(iter(change))
    with pytest.raises(ValueError, match=rf"{name}=.* taken in with {name}=.*: set it back"):
        model.set_params(**change).partial_fit(MORE)
    assert model.n_samples_seen_ == n_rows
    untouched = quietly(lambda: clone(model).set_params(**before).partial_fit(ROWS[:n_rows]).partial_fit(MORE))
    quietly(lambda: model.set_params(**before).partial_fit(MORE))
    np.testing.assert_array_equal(model.transform(MORE), untouched.transform(MORE))


@pytest.mark.parametrize("change", NOT_OF_THE_STREAM, ids=str)
@pytest.mark.parametrize("model", streams(), ids=str)
def test_a_stream_lets_all_else_be_changed(model: Any, change: dict[str, Any]) -> None:
    model = quietly(lambda: clone(model).partial_fit(ROWS).set_params(**change).partial_fit(MORE))
    assert model.n_samples_seen_ == len(ROWS) + len(MORE)


def test_a_rule_cannot_become_another_on_the_way() -> None:
    model = ks.OnlineKernelPCA(2, gamma=0.1, random_state=0).partial_fit(ROWS)
    with pytest.raises(ValueError, match="rule='hebbian', but the rows so far were taken in with rule='subset'"):
        model.set_params(rule="hebbian").partial_fit(MORE)


def test_refresh_and_save_refuse_a_changed_stream_too(tmp_path: Any) -> None:
    model = ks.SparseKernelPCA(2, n_support=15, gamma=0.1, random_state=0).partial_fit(ROWS).set_params(gamma=1.0)
    with pytest.raises(ValueError, match="set it back"):
        model.refresh()
    with pytest.raises(ValueError, match=r"cannot be saved: gamma=1\.0"):
        model.save(tmp_path / "model.ks")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", [{"gamma": 3.0}, {"degree": 2.0}, {"coef0": 2.0}, {"center": False}], ids=str)
def test_streams_under_different_kernels_do_not_add(change: dict[str, Any]) -> None:
    one = ks.SparseKernelPCA(2, n_support=15, kernel="poly", gamma=0.1, random_state=0)
    other = clone(one).set_params(**change)
    with pytest.raises(ValueError, match="the models have"):
        quietly(lambda: one.partial_fit(ROWS) + other.partial_fit(MORE))


def test_widths_by_the_same_rule_that_settled_apart_still_add() -> None:
    one, other = (ks.SparseKernelPCA(2, n_support=15, random_state=0).partial_fit(rows) for rows in (ROWS, 3 * MORE))
    assert quietly(lambda: one + other).n_samples_seen_ == len(ROWS) + len(MORE)


def test_what_is_read_of_a_changed_stream_is_what_it_was() -> None:
    for model in streams():
        quietly(lambda model=model: model.partial_fit(ROWS))
        untouched = quietly(lambda model=model: clone(model).partial_fit(ROWS))
        model.set_params(center=False, n_components=1, kernel="poly")
        np.testing.assert_array_equal(quietly(lambda m=model: m.transform(MORE)), untouched.transform(MORE))
        assert model.kernel == "poly"


@pytest.mark.parametrize(
    "model",
    [
        ks.KernelPCA(2, kernel="rbf", gamma=0.1, random_state=0),
        ks.KernelPCA(2, kernel="poly", gamma=0.1, coef0=2, fit_inverse_transform=True, random_state=0),
        ks.KernelPCA(2, kernel="laplacian", random_state=0),
        ks.KernelPCA(2, kernel=lambda X, Y: X @ Y.T, random_state=0),
        ks.SparseKernelPCA(2, n_support=10, random_state=0),
        ks.LikelihoodKernelPCA(2, random_state=0),
        ks.CompressedKernelPCA(2, n_support=6, random_state=0),
        ks.KernelMonitor(2, 10, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("kernel", ["linear", "cosine", "precomputed"])
def test_a_fitted_model_answers_as_it_was_fitted(model: Any, kernel: str, tmp_path: Any) -> None:
    if isinstance(model, ks.KernelMonitor) and kernel == "precomputed":
        kernel = "poly"  # it takes no precomputed one
    model = quietly(lambda: clone(model).fit(ROWS[:80]))
    answers = [name for name in ("transform", "score_samples", "reconstruction_error") if hasattr(model, name)]
    expected = [getattr(model, name)(MORE) for name in answers]
    model.set_params(kernel=kernel, gamma=7.0)
    for name, value in zip(answers, expected, strict=True):
        np.testing.assert_array_equal(getattr(model, name)(MORE), value)
    if model.get_params().get("fit_inverse_transform"):
        assert np.isfinite(model.inverse_transform(expected[0])).all()
    if callable(getattr(model.expansion_.kernel, "function", None)):
        return  # which no file holds
    model.save(tmp_path / "model.ks")
    loaded = ks.load(tmp_path / "model.ks")
    np.testing.assert_array_equal(getattr(loaded, answers[0])(MORE), expected[0])


def test_a_refit_takes_what_was_set() -> None:
    model = ks.KernelPCA(2, kernel="rbf", gamma=0.1, random_state=0).fit(ROWS).set_params(kernel="poly", gamma=0.2)
    expected = ks.KernelPCA(2, kernel="poly", gamma=0.2, random_state=0).fit(ROWS).transform(MORE)
    np.testing.assert_array_equal(model.fit(ROWS).transform(MORE), expected)


@pytest.mark.parametrize(("fitted", "later"), [(0.3, None), (None, 0.3), (0.3, 0.9)])
def test_a_monitor_smooths_as_its_limits_do(fitted: float | None, later: float | None, tmp_path: Any) -> None:
    monitor = quietly(lambda: ks.KernelMonitor(2, 10, lags=1, smoothing=fitted, random_state=0).fit(ROWS))
    expected = monitor.statistics(MORE).spe
    monitor.set_params(smoothing=later, lags=0)
    monitor.save(tmp_path / "monitor.ks")
    for one in (monitor, ks.load(tmp_path / "monitor.ks")):
        np.testing.assert_array_equal(one.statistics(MORE).spe, expected)
        np.testing.assert_allclose([record.spe for record in one.restart().update(MORE)], expected, rtol=1e-12)
