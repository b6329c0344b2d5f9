"""What estimators share that choose their support among the rows of a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from ..fit.advice import split_captured
from ..fit.dictionary import Dictionary, build_dictionary, rows_to_choose_from
from ..fit.expansion import KernelExpansion
from ..fit.moments import whiten
from ..fit.sample import Sample
from .base import BLOCK_CONSTRAINTS, KernelTransformer

# Variance below this share of the mean k(x, x) is rounding.
NO_VARIANCE = 1e-10


@dataclass(frozen=True)
class Problem:
    """Training rows as seen from a dictionary."""

    n_samples: int
    gamma: float
    sample: Sample
    dictionary: Dictionary


class DictionaryTransformer(KernelTransformer):
    """Estimators whose support is found among all rows, where they are few, or among `n_dictionary` of them."""

    _parameter_constraints: dict[str, Any] = {
        **KernelTransformer._parameter_constraints,
        **BLOCK_CONSTRAINTS,
        "n_dictionary": [Interval(Integral, 1, None, closed="left"), None],
    }
    n_dictionary: int | None
    explained_variance_ratio_: np.ndarray

    def _problem(self, X: Any, sample_weight: Any) -> Problem:
        source = self._source(X, sample_weight)
        rng = self._rng()
        rows = self._sampled(source, rows_to_choose_from(self.n_dictionary), rng)
        kernel, gamma = self._kernel_on(rows)
        sample = Sample(rows, kernel, self.n_components or 1, self.center, self._n_threads())
        dictionary = build_dictionary(source, sample, self.n_dictionary, rng)
        self._warn_if_indefinite(dictionary.negative_share)
        return self._checked(Problem(source.n_samples, gamma, sample, dictionary))

    def _path_problem(self, X: Any, sample_weight: Any) -> Problem:
        """The problem for functions that fit nothing: warnings name the caller's caller, as from a decorated fit."""
        return self._problem(X, sample_weight)

    def _checked(self, problem: Problem) -> Problem:
        """The problem itself, where there is one."""
        dictionary = problem.dictionary
        if not dictionary.total_variance > NO_VARIANCE * dictionary.mean_length:
            raise ValueError("the rows are all the same to this kernel: there is no variance to explain")
        return problem

    def _store_support(
        self,
        problem: Problem,
        active: np.ndarray,
        coef: np.ndarray,
        variances: np.ndarray,
        *,
        orthogonal: bool = True,
    ) -> None:
        """The components `coef` over the dictionary's rows `active`, whose scores have these variances."""
        dictionary = problem.dictionary
        self.expansion_ = self._expansion(dictionary, active, coef, orthogonal=orthogonal)
        self.support_ = dictionary.indices[active]
        self.explained_variance_ = variances
        self.explained_variance_ratio_ = variances / dictionary.total_variance
        self.gamma_ = problem.gamma
        self.n_samples_seen_ = problem.n_samples

    def _expansion(
        self, dictionary: Dictionary, active: np.ndarray, coef: np.ndarray, *, orthogonal: bool = True
    ) -> KernelExpansion:
        """Offset and mean, as far as it lies in the span of the active rows, come from the dictionary."""
        kernel, points = dictionary.at(active)
        offset, mean_coef = np.zeros(coef.shape[1]), None
        if self.center:
            mean = dictionary.mean[active]
            whitening = whiten(dictionary.gram_at(active)).matrix
            offset, mean_coef = mean @ coef, whitening @ (whitening.T @ mean)
        return self._kept(KernelExpansion.of(kernel, points, coef, offset, mean_coef, orthogonal=orthogonal))

    def _measure(self, problem: Problem, n_components: int) -> None:
        """How much of exact kernel PCA the components keep; warnings where the kernel says little."""
        dictionary, sample = problem.dictionary, replace(problem.sample, n_components=n_components)
        explained = float(self.explained_variance_ratio_.sum())
        if explained > 0:  # components of zeros have been warned about
            self._warn_about_kernel(
                explained=explained,
                spread=dictionary.total_variance / dictionary.mean_length if self.center else 1.0,
                seen_and_unseen=split_captured(sample),
                gamma=problem.gamma,
            )
        self._store_captured_ratio(sample)
