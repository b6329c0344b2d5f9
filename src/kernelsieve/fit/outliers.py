"""Outlier detection by a score: a row is an outlier if its score is below a limit that `fit` has set."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..arrays import Array, to_numpy


class JudgesRows:
    """decision_function and predict for estimators whose `score_samples` is low for rows unlike the training rows."""

    @property
    @abstractmethod
    def _least_score(self) -> float:
        """The score below which a row is called novel."""

    @abstractmethod
    def score_samples(self, X: Any) -> Array:
        """How similar each row is to the training rows."""

    def decision_function(self, X: Any) -> Array:
        """`score_samples` minus its limit: negative for rows unlike the training rows.

        Parameters
        ----------
        X : rows, as in `fit`

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.score_samples(X) - self._least_score

    def predict(self, X: Any) -> np.ndarray:
        """+1 for rows like the training rows, -1 for others.

        Parameters
        ----------
        X : rows, as in `fit`

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return as_verdicts(self.decision_function(X))


class JudgesKernelRows(JudgesRows):
    """Outlier detection under a kernel; if it is precomputed, the caller passes k(x, x) of the rows as `diagonal`."""

    @abstractmethod
    def score_samples(self, X: Any, *, diagonal: Any = None) -> Array:
        """How similar each row is to the training rows."""

    def decision_function(self, X: Any, *, diagonal: Any = None) -> Array:
        """`score_samples` minus its limit: negative for rows unlike the training rows.

        Parameters
        ----------
        X, diagonal
            As in `score_samples`.

        Returns
        -------
        ndarray of shape (n_samples,)
            For rows in blocks, an iterator of such arrays, one for each block.
        """
        return of_each(lambda scores: scores - self._least_score, self.score_samples(X, diagonal=diagonal))

    def predict(self, X: Any, *, diagonal: Any = None) -> np.ndarray:
        """+1 for rows like the training rows, -1 for others.

        Parameters
        ----------
        X, diagonal
            As in `score_samples`.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            For rows in blocks, an iterator of such arrays, one for each block.
        """
        return of_each(as_verdicts, self.decision_function(X, diagonal=diagonal))


def of_each(function: Callable[[Array], Array], values: Any) -> Any:
    """function(values), or an iterator of function(block) if `values` is an iterator of blocks."""
    return map(function, values) if isinstance(values, Iterator) else function(values)


def as_verdicts(decisions: Array) -> np.ndarray:
    """+1 for a decision that is not negative (or is NaN), else -1."""
    return np.where(to_numpy(decisions) < 0, -1, 1)
