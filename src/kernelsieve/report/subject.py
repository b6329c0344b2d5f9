"""What a report is about: a fitted kernel estimator, what makes numbers of the raw columns before it, and the rows.

    raw columns  --front-->  encoded columns  --model-->  scores

The model sees encoded columns (scaled, one-hot); people read raw ones.  `Subject` holds both, for all rows where a
pass over them is cheap and for the rows that the page shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from ..arrays import to_numpy
from ..kernels.base import dense
from ..threads import cached_property
from .frames import Frame

# Rows that small fits of the report (other widths, other numbers of points) are made on.
SAMPLE_ROWS = 1000


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings: the report's own small fits are not the user's, and rows without names are on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def split(model: Any) -> tuple[Pipeline | None, Any]:
    """The steps before the kernel estimator, None where there are none, and the estimator itself."""
    if not isinstance(model, Pipeline):
        return None, _checked(model)
    places = [place for place, (_, step) in enumerate(model.steps) if is_kernel_estimator(step)]
    if not places:
        _checked(model.steps[-1][1])
    place = places[-1]
    front = [(name, step) for name, step in model.steps[:place] if step not in (None, "passthrough")]
    return (Pipeline(front) if front else None), _checked(model.steps[place][1])


def is_kernel_estimator(step: Any) -> bool:
    """Whether this ends, or will end, in a kernel expansion: neither a linear estimator nor a monitor has slopes."""
    return hasattr(type(step), "input_gradient")


def _checked(model: Any) -> Any:
    name = model.__name__ if isinstance(model, type) else type(model).__name__
    if isinstance(model, type) or not is_kernel_estimator(model):
        raise TypeError(
            f"a report needs a fitted kernel estimator of kernelsieve, or a pipeline that ends in one, not {name}"
        )
    if not hasattr(model, "expansion_"):
        raise NotFittedError(f"this {name} is not fitted yet: call fit(X) before report(model, X)")
    if model.expansion_.kernel.precomputed:
        raise ValueError("a precomputed kernel has no columns to report on: fit with a named or a callable kernel")
    return model


@dataclass(frozen=True)
class Subject:
    """A fitted model with the rows that it is shown on."""

    front: Pipeline | None
    model: Any
    frame: Frame
    encoded: Any  # (n_rows, n_encoded) dense or sparse, as the model takes it
    seed: int

    @classmethod
    def of(cls, model: Any, X: Any, seed: int) -> Subject:
        """Take a model and its rows apart; wrong ones are named."""
        front, estimator = split(model)
        first = estimator if front is None else front.steps[0][1]
        names = getattr(first, "feature_names_in_", None)
        frame = Frame(X, None if names is None else [str(name) for name in names])
        if frame.n_rows < 1:
            raise ValueError("the report needs at least one row, X has none")
        with quietly():
            encoded = frame.table if front is None else front.transform(frame.table)
            encoded = encoded.tocsr() if scipy.sparse.issparse(encoded) else as_numbers(encoded)
        if encoded.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {encoded.shape[1]} columns, the model was fitted to {estimator.n_features_in_}: "
                "give the report the same columns"
            )
        return cls(front, estimator, frame, encoded, seed)

    @property
    def n_components(self) -> int:
        return int(self.model.expansion_.n_components)

    @cached_property
    def kernel_settings(self) -> dict[str, float]:
        """gamma, degree and coef0, as far as the kernel has them; none of a callable's."""
        kernel = self.model.expansion_.kernel
        if callable(getattr(self.model, "kernel", None)):
            return {}
        return {name: float(value) for name, value in kernel.params().items() if name in ("gamma", "degree", "coef0")}

    @property
    def n_rows(self) -> int:
        return self.frame.n_rows

    @cached_property
    def scores(self) -> np.ndarray:
        """Of all rows, (n_rows, M)."""
        with quietly():
            return np.asarray(self.model.transform(self.encoded), dtype=np.float64)

    @cached_property
    def errors(self) -> np.ndarray:
        """Squared feature-space distance of every row to its reconstruction."""
        with quietly():
            return np.asarray(self.model.reconstruction_error(self.encoded), dtype=np.float64)

    @cached_property
    def encoded_names(self) -> list[str]:
        """What the model's columns are called."""
        if self.front is None:
            return self.frame.names
        try:
            return [str(name) for name in self.front.get_feature_names_out()]
        except (AttributeError, ValueError):
            return [f"input {place}" for place in range(self.encoded.shape[1])]

    @cached_property
    def sample(self) -> np.ndarray:
        """Some rows as the model sees them, dense: what the report's own small fits are made on."""
        return self.encoded_rows(self.some_rows(SAMPLE_ROWS))

    def some_rows(self, count: int) -> np.ndarray:
        """Numbers of random rows, in order."""
        if self.n_rows <= count:
            return np.arange(self.n_rows)
        rng = np.random.default_rng(self.seed)
        return np.sort(rng.choice(self.n_rows, count, replace=False))

    def encoded_rows(self, places: np.ndarray) -> np.ndarray:
        """Rows as the model sees them."""
        return np.asarray(dense(self.encoded[places]), dtype=np.float64)

    @cached_property
    def points(self) -> np.ndarray:
        """The support points, dense, (m, n_encoded)."""
        return np.asarray(to_numpy(dense(self.model.support_vectors_)), dtype=np.float64)

    def preimages(self, scores: np.ndarray) -> np.ndarray | None:
        """Encoded rows that these scores stand for; None where the kernel has no way back."""
        try:
            with quietly():
                return np.asarray(self.model.inverse_transform(scores), dtype=np.float64)
        except (ValueError, AttributeError, NotImplementedError):
            return None


def as_numbers(rows: Any) -> np.ndarray:
    """Rows as an array of floats; text in a column is named."""
    try:
        values = np.asarray(rows)
        return values if values.dtype.kind == "f" else values.astype(np.float64)
    except (TypeError, ValueError) as error:
        frame = Frame(rows)
        texts = [name for place, name in enumerate(frame.names) if frame.column(place, np.arange(1)).kind == "class"]
        raise ValueError(
            f"columns with text need a step that makes numbers of them: {', '.join(map(repr, texts[:5]))}. "
            "Give the report the whole pipeline, not its last step"
        ) from error
