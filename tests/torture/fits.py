"""Fits: random rows, random estimators, and the oracle."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import kernelsieve
from kernelsieve.kernels import is_function
from kernelsieve.kernels.objects import ObjectKernel

from .campaign import CLEAR, FAULT, OK, Attempt, Outcome
from .candidates import block_kernel, pair_kernel, random_estimator
from .inputs import Given, random_input
from .invariants import Surroundings, changed, complaints_of_fit, fingerprint_of, state_of, unclear
from .models import answer_of
from .monitors import complaints_of_monitor

MANY_PAIRS = 200  # rows
REFITS = 0.15  # of the cases fit an already fitted model
ROUND_TRIPS = 0.05  # save, load and compare
REPEATS = 0.1  # fit twice and compare


def described(rng: np.random.Generator) -> str:
    """What case this is."""
    try:
        given, model = _drawn(rng)
    except ValueError as refused:
        return f"an estimator that cannot be made: {refused}"
    return f"{model} on {given.words}"


@contextmanager
def session() -> Iterator[Attempt]:
    """Nothing is shared between cases but the process."""
    yield attempt


def attempt(rng: np.random.Generator) -> Outcome:
    """One fit, one answer."""
    try:
        given, model = _drawn(rng)
    except ValueError:  # a kernel's own parameters are checked where they are set
        return Outcome(CLEAR)
    plans = rng.random(3)
    probe = None
    if plans[0] < REFITS:
        probe = _fitted_before(model)
    before, bytes_before, around = state_of(model), fingerprint_of(given.X), Surroundings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _fit(model, given)
        except Exception as error:
            complaints = [*unclear(error), *changed(model, before), *_other_scores(model, probe)]
            kind = CLEAR
        else:
            told = " ".join(str(w.message) for w in caught)
            # ragged lists are series to a kernel of objects, and no numbers to any other
            of_objects = isinstance(getattr(model, "kernel", None), ObjectKernel)
            complaints = [] if of_objects else ["fitted no numbers"]
            if given.dense is not None:
                complaints = list(_complaints(model, given, plans, told))
            complaints += [f"warned: {w.message}" for w in caught if _numpys_own(w)]
            kind = OK
    if fingerprint_of(given.X) != bytes_before:
        complaints.append("the rows were changed")
    complaints += around.complaints()
    if complaints:
        return Outcome(
            FAULT, f"{type(model).__name__}: {complaints[0]}" + "".join(f"\n    {c}" for c in complaints[1:])
        )
    return Outcome(kind)


def _drawn(rng: np.random.Generator) -> tuple[Given, Any]:
    """Rows and an estimator; a user's function of two rows, called n^2 times a gram, gets no more than are quick."""
    given, model = random_input(rng), random_estimator(rng)
    if (
        isinstance(given.X, list)
        and isinstance(getattr(model, "kernel", None), ObjectKernel)
        and given.dense is not None
    ):
        given = replace(given, X=given.dense)  # a list is one of objects, each block a single one
    many = given.dense is not None and len(given.dense) > MANY_PAIRS
    if many and getattr(model, "kernel", None) is pair_kernel:
        model.set_params(kernel=block_kernel)
    return given, model


def _takes_weights(model: Any) -> bool:
    return "sample_weight" in signature(model.fit).parameters


def _fit(model: Any, given: Given) -> Any:
    if given.weights is None or not _takes_weights(model):
        return model.fit(given.X)
    return model.fit(given.X, sample_weight=given.weights)


def _numpys_own(warning: warnings.WarningMessage) -> bool:
    """Overflow, division by zero, ill-conditioned: warnings that the libraries below give, not this one."""
    if issubclass(warning.category, ConvergenceWarning):
        return False
    if issubclass(warning.category, RuntimeWarning):
        return True
    return "LinAlg" in warning.category.__name__


def _fitted_before(model: Any) -> Any:
    """Fit the model to good rows where its parameters allow; rows and scores to compare with afterwards."""
    rows = np.random.default_rng(5).standard_normal((60, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return rows, answer_of(model.fit(rows), rows)
        except (ValueError, TypeError):
            return None


def _other_scores(model: Any, probe: Any) -> Iterator[str]:
    if probe is None:
        return
    rows, scores = probe
    if not np.array_equal(answer_of(model, rows), scores):
        yield "after the failed refit the scores are others"


def _complaints(model: Any, given: Given, plans: np.ndarray, told: str) -> Iterator[str]:
    weights = np.asarray(given.weights, dtype=float) if given.weights is not None and _takes_weights(model) else None
    X, kernel = given.X, getattr(model, "kernel", None)
    objects = isinstance(kernel, ObjectKernel)  # whose rows are objects of no precision: their scores are float64
    single = given.single and not objects
    if isinstance(X, list) or callable(X) or hasattr(X, "dask"):  # blocks give blocks: their rows as one array
        X = given.dense.astype(np.float32) if given.single else given.dense
    if not isinstance(X, np.ndarray) and not hasattr(X, "nnz") and hasattr(X, "iloc"):
        X = X.to_numpy()
        model = _without_names(model)
    if isinstance(model, kernelsieve.KernelMonitor):
        yield from complaints_of_monitor(model, X, given.dense, single=single)
    else:
        yield from complaints_of_fit(model, X, given.dense, weights, single=single, told=told)
    if plans[1] < ROUND_TRIPS and not is_function(kernel) and not objects:  # a model file holds neither
        yield from _round_trip(model, X)
    # where the fit has said that its scores are rounding, they differ with where the arrays lie in memory; without a
    # seed they may differ by chance
    seeded = model.get_params().get("random_state", 0) is not None
    if plans[2] < REPEATS and seeded and "nearly constant" not in told:
        again = _fit(clone(model), given)
        if not np.array_equal(answer_of(again, X), answer_of(model, X)):
            yield "the same call again gives other scores"


def _without_names(model: Any) -> Any:
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    return model


def _round_trip(model: Any, X: Any) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.ks")
        model.save(path)
        loaded = kernelsieve.load(path)
        if not np.array_equal(answer_of(loaded, X), answer_of(model, X)):
            yield "the saved and loaded model gives other scores"
