"""Fitted attributes and methods that are common to all estimators whose model is a kernel expansion.

`component_agreement_` and `subspace_agreement_` compare a model with exact kernel PCA of the rows it was fitted to.
They are measured when they are first read, and are then stored in the model and saved with it.  A model does not keep
its training rows, but this module holds weak references to them, so the agreement can be measured as long as the rows
exist.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..arrays import FLOATS, Array, as_float64, namespace, numbers, on_host, to_numpy
from ..fit.agreement import Agreement, agreement_with_exact, rows_for_agreement
from ..fit.expansion import KernelExpansion
from ..fit.interpret import RidgeMap, Traversal, input_gradient, preimage, sensitivity, traversal
from ..fit.parameters import checked_scores
from ..kernels.objects import objects_of
from ..rows.dispatch import RowRules, in_blocks, mapped, new_rows, ordered_rows, weights_of
from ..rows.rows import ArrayRows, Rows
from ..rows.sampling import unit_weights
from ..threads import effective_n_threads


class FittedExpansion:
    """Attributes and methods of estimators whose fitted model is a kernel expansion."""

    n_features_in_: Annotated[int, "int=d"]
    feature_names_in_: Annotated[np.ndarray, "strings[d] optional"]
    expansion_: Annotated[KernelExpansion, "KernelExpansion[m, p, M]"]
    support_: Annotated[np.ndarray | None, "int[m]?"]
    eigenvalues_: Annotated[np.ndarray, "float[M]~"]
    explained_variance_: Annotated[np.ndarray, "float[M]~"]
    explained_variance_ratio_: Annotated[np.ndarray, "float[M]~"]
    gamma_: Annotated[float, "float"]
    n_samples_seen_: Annotated[int, "count"]
    captured_ratio_: Annotated[float, "float~ optional"]
    captured_ratio_interval_: Annotated[tuple[float, float], "list optional"]
    mean_outside_: Annotated[float, "float optional"]
    captured_ratio_kind_: Annotated[str, "str optional"]
    captured_ratio_n_samples_: Annotated[int, "int optional"]
    kernel: Any
    _inverse_map: RidgeMap | None

    @property
    def support_vectors_(self) -> Array:
        """The support points, of shape (m, d); for a precomputed kernel their gram, of shape (m, m)."""
        return self.expansion_.points

    @property
    def support_objects_(self) -> list[Any]:
        """The support points of a model with a kernel of objects, which are training objects."""
        if not self.expansion_.kernel.of_objects:
            raise AttributeError("support_objects_ are those of a kernel of objects: here read support_vectors_")
        return objects_of(self.expansion_.points)

    @property
    def n_support_(self) -> int:
        """The number of support points."""
        return self.expansion_.n_support

    @property
    def offset_(self) -> Array:
        """The offset b in k(x, S) A - b, of shape (M,)."""
        return self.expansion_.offset

    @property
    def _new_row_rules(self) -> RowRules:
        """What the fitted model requires of new rows, even if its `kernel` parameter has been changed since."""
        return RowRules.of(self, self.expansion_.kernel)

    def _rows(self, X: Any) -> Array:
        """Validated rows for the expansion."""
        return new_rows(X, self._new_row_rules)

    def _rows_and_lengths(self, X: Any, diagonal: Any) -> tuple[Array, Array | None]:
        """Validated rows, and k(x, x) of each row if the user gives it; raise unless the model is fitted."""
        check_is_fitted(self)
        rows = self._rows(X)
        if diagonal is None:
            return rows, None
        lengths = np.asarray(on_host(diagonal), dtype=np.float64)
        if lengths.shape != (rows.shape[0],):
            raise ValueError(f"diagonal has shape {lengths.shape}, expected ({rows.shape[0]},)")
        return rows, lengths

    def _n_threads(self) -> int:
        return effective_n_threads(getattr(self, "n_jobs", None))

    def reconstruction_error(self, X: Any, *, diagonal: Any = None) -> Array:
        """Squared feature-space distance of each row to its reconstruction from the scores.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; for a precomputed kernel their kernel values.
        diagonal : array-like of shape (n_samples,), optional
            k(x, x) of each row.  Needed only for a precomputed kernel.

        Returns
        -------
        ndarray of shape (n_samples,)
            For rows in blocks an iterator of them, one a block.
        """
        check_is_fitted(self)
        return self._one_a_row(partial(self.expansion_.reconstruction_error, n_threads=self._n_threads()), X, diagonal)

    def _one_a_row(self, function: Callable[[Array, Array | None], Array], X: Any, diagonal: Any) -> Any:
        """The results of function(rows, lengths), one number per row: an array, or an iterator of arrays for blocks."""
        stream = in_blocks(X, self._new_row_rules)
        if stream is None:
            return function(*self._rows_and_lengths(X, diagonal))
        values = mapped(stream, self._new_row_rules, lambda rows: function(rows, None)[:, None], 1)
        return (block[:, 0] for block in values)

    def score(self, X: Any, y: Any = None, *, diagonal: Any = None) -> float:
        """The share of the variance of X about the training mean that the components capture.

        Part of the training mean lies outside the span of the points; its squared length, `mean_outside_`, is estimated
        from the training sample.  This score cannot be used to choose gamma: the wider the kernel, the higher it is.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; for a precomputed kernel their kernel values.
        y : ignored
        diagonal : array-like of shape (n_samples,), optional
            k(x, x) of each row.  Needed only for a precomputed kernel.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        expansion, n_threads = self.expansion_.orthonormal, self._n_threads()

        def parts(rows: Array, lengths: Array | None = None) -> Array:
            rows = rows if expansion.kernel.bounded else as_float64(rows)  # in float32 squares may overflow
            return namespace(rows).stack(expansion.variance_parts(rows, lengths, n_threads), axis=1)

        rules = self._new_row_rules
        stream = in_blocks(X, rules)
        blocks = [parts(*self._rows_and_lengths(X, diagonal))] if stream is None else mapped(stream, rules, parts, 2)
        sums = [(*numbers(*namespace(both).sum(both, axis=0)), both.shape[0]) for both in blocks]
        distance, captured_variance, n_rows = (sum(values) for values in zip(*sums, strict=True))
        # The total is at least the captured variance, although the sum of distances can be smaller under an indefinite
        # kernel, or if all rows lie at the mean.
        outside = n_rows * getattr(self, "mean_outside_", 0.0)  # the distances are from the projection of the mean
        total = max(distance - outside, captured_variance)
        return captured_variance / total if total > 0 else 1.0

    def input_gradient(self, X: Any) -> Array:
        """Gradient of each score with respect to the inputs, at each row.

            dz_k/dx = sum_i A_ik dk(x, s_i)/dx

        Cost: n m kernel values, as for a `transform`, and M products of n x m by m x d.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components, n_features)

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from kernelsieve import SparseKernelPCA
        >>> X = load_iris().data
        >>> SparseKernelPCA(2, n_support=10, random_state=0).fit(X).input_gradient(X).shape
        (150, 2, 4)
        """
        check_is_fitted(self)
        return input_gradient(self.expansion_, self._rows(X), self._n_threads())

    def sensitivity(self, X: Any) -> np.ndarray:
        """How strongly each component depends on each input.

        This is the root mean square gradient times the standard deviation of the column: how far a score moves, to
        first order, when an input moves by its standard deviation.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to average over, usually training rows or a part of them.

        Returns
        -------
        ndarray of shape (n_components, n_features)
        """
        check_is_fitted(self)
        return sensitivity(self.expansion_, self._rows(X), self._n_threads())

    def traversal(self, component: int = 0, *, n_steps: int = 9, span: float = 2.0, row: Any = None) -> Traversal:
        """Rows along one component: how a row changes if this score increases and the others stay fixed.

        Parameters
        ----------
        component : int, default=0
        n_steps : int, default=9
            Number of rows.
        span : float, default=2.0
            How far the scores go to either side, in standard deviations of the component's scores.
        row : array-like of shape (n_features,), optional
            The row at the centre of the traversal; by default the training mean in feature space.

        Returns
        -------
        Traversal
            Its `scores` have shape (n_steps,), its `rows` (n_steps, n_features).  The rows are pre-images of the
            scores, computed as by `inverse_transform`.
        """
        check_is_fitted(self)
        at = None if row is None else check_array(on_host(row), ensure_2d=False, dtype=FLOATS).reshape(1, -1)
        return traversal(self, component, n_steps, span, at)


class ExpansionTransform(TransformerMixin):
    """transform and inverse_transform, a mixin for subclasses of FittedExpansion."""

    @property
    def dual_coef_(self: Any) -> Array:
        """Coefficients of the components over the support points, of shape (m, M)."""
        return self.expansion_.coef

    def transform(self: Any, X: Any) -> Array:
        """Scores of the rows of X, k(X, S) A - b, by m kernel evaluations per row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows; also dask arrays, and rows in blocks (an iterator, a function that returns one, a list, a data loader,
            a dataset).  For a precomputed kernel: k(X, training rows), or k(X, training rows)[:, support_].

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            For rows in blocks, an iterator of blocks of scores (tensors if the blocks are tensors); for a dask array, a
            lazy dask array.
        """
        check_is_fitted(self)
        scores = partial(self.expansion_.transform, n_threads=self._n_threads())
        return mapped(X, self._new_row_rules, scores, self.expansion_.n_components)

    def inverse_transform(self: Any, X: Any) -> Array:
        """Rows whose features come closest to the point in feature space that the scores describe.

        Gaussian kernel: the fixed point of Mika et al. (1999) on the support.  Linear kernel: exact.
        Other kernels: a ridge regression from scores to rows, learned in `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores, as returned by `transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        scores = checked_scores(X, self.expansion_.n_components)
        rows = preimage(self.expansion_.on_host(), scores.astype(np.float64), self._inverse_map)
        return rows.astype(scores.dtype, copy=False)

    @property
    def _n_features_out(self: Any) -> int:
        return self.expansion_.n_components


# The variances of scores may differ by this share of the largest before rows are taken to have changed since `fit`.
SAME_VARIANCE = 1e-3


# For each model, weak references to the X and the weights of its fit (None if no weights were given). They are not part
# of the model, so they are not copied, pickled or saved with it.
_Reference = weakref.ref[Any] | None
_ROWS_OF_FIT: weakref.WeakKeyDictionary[Any, tuple[_Reference, _Reference]] = weakref.WeakKeyDictionary()


def remember_rows(model: Any, X: Any, sample_weight: Any) -> None:
    """Remember the rows of a fit by weak references, which lists and some other objects do not support."""
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
    """Agreement with exact kernel PCA, a mixin for subclasses of FittedExpansion."""

    _agreement: Annotated[Agreement | None, "Agreement[M]? optional"] = None

    @property
    def component_agreement_(self: Any) -> np.ndarray:
        """Correlation of each component's scores with those of exact kernel PCA on the training rows, of shape (M,)."""
        return self._measured_agreement().components

    @property
    def subspace_agreement_(self: Any) -> float:
        """The smallest canonical correlation between the scores and those of exact kernel PCA on the training rows."""
        return self._measured_agreement().subspace

    def component_agreement(self: Any, X: Any, sample_weight: Any = None) -> Agreement:
        """How closely each component matches that of exact kernel PCA of these rows.

        Exact kernel PCA is computed by subspace iteration, which starts from the components of some of the rows.  It
        computes the kernel values of all pairs of rows a few times but never stores them: O(n^2 (d + M)) time.  Of more
        than about 14,000 rows with a few columns, about 14,000 are drawn at random.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows of any kind that `fit` takes; for a precomputed kernel the gram of the training rows.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        Agreement
            Its `components` (M,) are the correlations of each component's scores with the exact ones.  Its `subspace`
            is the smallest canonical correlation between all scores and the exact ones; if it is near one, components
            with a low correlation have only traded places.  Its `n_samples` is the number of rows measured on.

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
            raise AttributeError(
                "component_agreement_ is measured on the training rows when it is first read, and X has changed since "
                "fit: give the rows to component_agreement(X)"
            )
        return agreement_with_exact(expansion, sampled, n_threads)

    def _has_variances_on(self: Any, sampled: Any) -> bool:
        """Whether the model's components have the same variances on these rows as on its training rows."""
        scores = to_numpy(self.expansion_.transform(as_float64(sampled.values), self._n_threads()))
        omega = unit_weights(sampled.weights, len(scores))
        variances = omega @ (scores - (omega @ scores if self.center else 0.0)) ** 2
        away = np.abs(variances - self.explained_variance_)
        return bool(np.all(away <= SAME_VARIANCE * np.max(self.explained_variance_)))

    def _measured_agreement(self: Any) -> Agreement:
        """The agreement, which is measured on the training rows when it is first needed."""
        check_is_fitted(self)
        stream = getattr(self, "_stream", None)
        if stream is not None:  # measured on the rows in the reservoir
            return stream.agreement
        if self._agreement is None:
            self._agreement = self._agreement_on_training_rows()
            self._agreement.warn()
        return self._agreement

    def _agreement_on_training_rows(self: Any) -> Agreement:
        if getattr(self, "captured_ratio_kind_", "") == "exact":
            return Agreement(np.ones(self.expansion_.n_components), 1.0, self.n_samples_seen_)
        if self._has_budget:
            raise AttributeError(
                "component_agreement_ is not known: to measure it takes more kernel values than max_evaluations "
                "allows. Give rows to component_agreement(X), which computes the values of all pairs of them"
            )
        found = _remembered_rows(self)
        if found is None:
            raise AttributeError(
                "component_agreement_ is measured on the training rows when it is first read, and they are no longer "
                "there: read it after fit, while X is in memory and before the model is saved, or give rows to "
                "component_agreement(X)"
            )
        X, sample_weight = found
        return self._agreement_on(
            _weighted(ordered_rows(X, self._new_row_rules, fits=False), self._weights_of_fit(sample_weight)), check=True
        )

    @property
    def _has_budget(self) -> bool:
        """Whether the user limited the number of kernel values, and they were counted."""
        return hasattr(self, "n_evaluations_") and getattr(self, "max_evaluations", None) not in (None, "auto")

    def _weights_of_fit(self, sample_weight: Any) -> Any:
        """The weights that the fit used for the training rows; `sample_weight` is what the user gave."""
        return sample_weight


def _weighted(rows: Rows, sample_weight: Any) -> Rows:
    if sample_weight is None:
        return rows
    example = rows.X if isinstance(rows, ArrayRows) else np.empty((rows.n_samples, 1))
    weights = weights_of(example, sample_weight)
    return rows if weights is None else rows.weighted(weights)
