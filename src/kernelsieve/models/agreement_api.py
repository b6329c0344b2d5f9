"""component_agreement_ and subspace_agreement_: measured when they are first read, on the rows of the fit.

A model keeps none of its training rows.  Weak references to them are remembered beside it, and as long as the rows
exist the agreement can be measured.  Once measured it belongs to the model and is saved with it.
"""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrays import as_float64, to_numpy
from ..fit.agreement import Agreement, agreement_with_exact, rows_for_agreement
from ..rows import Rows
from ..rows.dispatch import ordered_rows, weights_of
from ..rows.rows import ArrayRows
from ..rows.sampling import shares_of

ROWS_ARE_GONE = (
    "component_agreement_ is measured on the training rows when it is first read, and they are no longer there: read "
    "it after fit, while X is in memory and before the model is saved, or give rows to component_agreement(X)"
)
ROWS_HAVE_CHANGED = (
    "component_agreement_ is measured on the training rows when it is first read, and X has changed since fit: give "
    "the rows to component_agreement(X)"
)
BEYOND_THE_BUDGET = (
    "component_agreement_ is not known: to measure it takes more kernel values than max_evaluations allows. Give "
    "rows to component_agreement(X), which computes the values of all pairs of them"
)
SAME_VARIANCE = 1e-3


# For each model, weak references to the X and the weights of its fit, None for weights that were not given. They are
# not part of the model: neither copied, pickled nor saved with it.
_Reference = weakref.ref[Any] | None
_ROWS_OF_FIT: weakref.WeakKeyDictionary[Any, tuple[_Reference, _Reference]] = weakref.WeakKeyDictionary()


def remember_rows(model: Any, X: Any, sample_weight: Any) -> None:
    """Remember the rows of a fit; lists and other objects without weak references are not remembered."""
    try:
        _ROWS_OF_FIT[model] = weakref.ref(X), None if sample_weight is None else weakref.ref(sample_weight)
    except TypeError:
        _ROWS_OF_FIT.pop(model, None)


def _remembered_rows(model: Any) -> tuple[Any, Any] | None:
    """X and its weights, or None if one of them no longer exists."""
    references = _ROWS_OF_FIT.get(model, (None, None))
    X, weights = (None if reference is None else reference() for reference in references)
    return None if X is None or (weights is None and references[1] is not None) else (X, weights)


class MeasuresAgreement:
    """Agreement with exact kernel PCA, of estimators that are a FittedExpansion, which every `self` here is."""

    _agreement: Agreement | None = None
    _file_layout: ClassVar[dict[str, str]] = {"_agreement": "Agreement[M]? optional"}

    @property
    def component_agreement_(self: Any) -> np.ndarray:
        """Correlation of each component's scores with exact kernel PCA's on the training rows, (M,)."""
        return self._measured_agreement().components

    @property
    def subspace_agreement_(self: Any) -> float:
        """The smallest canonical correlation between the scores and exact kernel PCA's on the training rows."""
        return self._measured_agreement().subspace

    def component_agreement(self: Any, X: Any, sample_weight: Any = None) -> Agreement:
        """How closely each component matches that of exact kernel PCA of these rows.

        Exact kernel PCA is found by subspace iteration, which starts from that of some of the rows and computes the
        kernel values of all pairs of rows a few times, without ever storing them: O(n^2 (d + M)) time.  If there are
        more than about 14,000 rows of a few columns, that many are drawn at random.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows of any kind that `fit` takes; for a precomputed kernel the gram of the training rows.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        Agreement
            With `components` (M,), the correlation of each component's scores with the exact ones; `subspace`, the
            smallest canonical correlation between all of them, near one where components that disagree have only
            traded places; `n_samples`, the number of rows that it was measured on.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from kernelsieve import SparseKernelPCA
        >>> X = load_iris().data
        >>> model = SparseKernelPCA(2, n_support=10, random_state=0).fit(X)
        >>> bool(model.component_agreement(X).components.min() > 0.99)
        True
        """
        check_is_fitted(self)
        rules = self._new_row_rules
        rows = ordered_rows(X, rules, fits=False)
        if rules.kernel.precomputed and rows.n_samples != rows.n_features:
            raise ValueError(
                f"X has shape ({rows.n_samples}, {rows.n_features}): of a precomputed kernel, component_agreement "
                "needs the square gram of the training rows"
            )
        return self._agreement_on(_weighted(rows, sample_weight))

    def _agreement_on(self: Any, rows: Rows, *, check: bool = False) -> Agreement:
        expansion = self.expansion_
        most = rows_for_agreement(expansion.kernel, self.n_features_in_, expansion.n_components)
        sampled, n_threads = rows.sample(most, np.random.default_rng(0)), self._n_threads()
        if len(sampled.indices) < 2:
            raise ValueError("component_agreement needs at least 2 different rows")
        if check and sampled.whole and not self._has_variances_on(sampled):
            raise AttributeError(ROWS_HAVE_CHANGED)
        return agreement_with_exact(expansion, sampled, n_threads)

    def _has_variances_on(self: Any, sampled: Any) -> bool:
        """Whether the model's components have the same variances on these rows as on its training rows."""
        scores = to_numpy(self.expansion_.transform(as_float64(sampled.values), self._n_threads()))
        shares = shares_of(sampled.weights, len(scores))
        variances = shares @ (scores - (shares @ scores if self.center else 0.0)) ** 2
        away = np.abs(variances - self.explained_variance_)
        return bool(np.all(away <= SAME_VARIANCE * np.max(self.explained_variance_)))

    def _measured_agreement(self: Any) -> Agreement:
        """The known agreement, or that measured on the training rows if they still exist."""
        check_is_fitted(self)
        stream = getattr(self, "_stream", None)
        if stream is not None:  # a stream knows it for the rows in its reservoir
            return stream.agreement
        if self._agreement is None:
            self._agreement = self._agreement_on_training_rows()
            self._agreement.warn()
        return self._agreement

    def _agreement_on_training_rows(self: Any) -> Agreement:
        if getattr(self, "captured_ratio_kind_", "") == "exact":
            return Agreement(np.ones(self.expansion_.n_components), 1.0, self.n_samples_seen_)
        if self._has_budget:
            raise AttributeError(BEYOND_THE_BUDGET)
        found = _remembered_rows(self)
        if found is None:
            raise AttributeError(ROWS_ARE_GONE)
        X, sample_weight = found
        return self._agreement_on(
            _weighted(ordered_rows(X, self._new_row_rules, fits=False), self._weights_of_fit(sample_weight)), check=True
        )

    @property
    def _has_budget(self) -> bool:
        """Whether the user limited the number of kernel values, and they were counted."""
        return hasattr(self, "n_evaluations_") and getattr(self, "max_evaluations", None) not in (None, "auto")

    def _weights_of_fit(self, sample_weight: Any) -> Any:
        """The weights of the training rows in the fit, to which these weights were given."""
        return sample_weight


def _weighted(rows: Rows, sample_weight: Any) -> Rows:
    if sample_weight is None:
        return rows
    example = rows.X if isinstance(rows, ArrayRows) else np.empty((rows.n_samples, 1))
    weights = weights_of(example, sample_weight)
    return rows if weights is None else rows.weighted(weights)
