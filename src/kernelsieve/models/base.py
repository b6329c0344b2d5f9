"""What every estimator that ends in a kernel expansion shares: all that follows `fit`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, validate_data

from ..arrays import Array, is_foreign, namespace
from ..fit.advice import GammaAdvice, warn_about_kernel, warn_about_scales
from ..fit.captured import captured_ratio
from ..fit.expansion import KernelExpansion
from ..fit.preimage import RidgeMap, gaussian_preimage, learn_ridge_map, linear_preimage
from ..fit.sample import INDEFINITE, Rows, Sample
from ..kernels import NAMED_KERNELS, Kernel, bind_callable, named_kernel
from ..kernels.width import resolve_gamma
from ..rows.blocks import finite
from ..rows.memory import ArraySource, Source
from ..rows.streams import Stream, StreamSource, is_dask, same_columns, stream_of
from ..threads import effective_n_threads
from .progress import CallbackSupportMixin

FLOATS = [np.float64, np.float32]
FEW_ROWS = 1000  # enough for the scales of columns and the width of the kernel
# An inverse map of more elements than this (800 MB) is not learned.
MAX_INVERSE_MAP = 10**8


# Of estimators that read rows in blocks and work on devices.
BLOCK_CONSTRAINTS = {"batch_size": [Interval(Integral, 1, None, closed="left"), None], "device": [str, None]}


class ExpansionMixin:
    """Attributes and methods of a fitted kernel expansion."""

    expansion_: KernelExpansion
    support_: np.ndarray | None

    @property
    def support_vectors_(self) -> Array:
        """The support points, (m, d); for a precomputed kernel their gram, (m, m)."""
        return self.expansion_.points

    @property
    def n_support_(self) -> int:
        """The number of support points."""
        return self.expansion_.n_support

    @property
    def offset_(self) -> Array:
        """What is subtracted from k(x, S) A, (M,)."""
        return self.expansion_.offset

    def _rows(self, X: Any) -> Array:
        """Validated rows for the expansion."""
        raise AttributeError("_rows")

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
        """
        check_is_fitted(self)
        rows = self._rows(X)
        return self.expansion_.reconstruction_error(rows, checked_diagonal(diagonal, rows), self._n_threads())

    def score(self, X: Any, y: Any = None, *, diagonal: Any = None) -> float:
        """The share of the variance of X about the training mean that the components capture.

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
        rows = self._rows(X)
        expansion = self.expansion_.orthonormal
        distance, captured = expansion.variance_parts(rows, checked_diagonal(diagonal, rows), self._n_threads())
        xp = namespace(distance)
        total = float(xp.sum(distance))
        return float(xp.sum(captured)) / total if total > 0 else 1.0

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file, atomically: arrays and JSON, no pickle.

        Parameters
        ----------
        path : path of the file; `kernelsieve.load` reads it back
        """
        from ..io import save

        save(self, path)


def checked_diagonal(diagonal: Any, rows: Array) -> Array | None:
    """k(x, x) as the user gives it, one number a row."""
    if diagonal is None:
        return None
    values = np.asarray(diagonal, dtype=np.float64)
    if values.shape != (rows.shape[0],):
        raise ValueError(f"diagonal has shape {values.shape}, expected ({rows.shape[0]},)")
    return values


class KernelTransformer(
    ExpansionMixin, CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Parameters, validation and use of the sparse kernel estimators."""

    _parameter_constraints: dict[str, Any] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions(set(NAMED_KERNELS)), callable],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"median", "scale"}), None],
        "degree": [Interval(Real, 0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "center": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }
    # parameters of those estimators that read rows in blocks and work on devices
    batch_size: int | None = None
    device: str | None = None
    n_components: Any
    kernel: Any
    gamma: float | str | None
    degree: float
    coef0: float
    kernel_params: dict[str, Any] | None
    center: bool
    random_state: Any
    n_jobs: int | None
    gamma_: float
    n_samples_seen_: int
    captured_ratio_: float
    captured_ratio_kind_: str
    captured_ratio_n_samples_: int
    _inverse_map: RidgeMap | None

    @contextmanager
    def _unchanged_on_failure(self) -> Iterator[None]:
        """Whatever goes wrong inside, the estimator is what it was: fitted as before, or not at all."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            # scikit-learn still has to tear its callbacks down
            callbacks = {name: value for name, value in vars(self).items() if "callback" in name}
            self.__dict__.clear()
            self.__dict__.update(before | callbacks)
            raise

    def _partial_rows(self, X: Any, sample_weight: Any) -> tuple[Array, np.ndarray | None]:
        """Some rows of a stream and their weights, checked; the first settle what the others must look like."""
        first = not hasattr(self, "n_samples_seen_")
        X = finite(validate_data(self, X, reset=first, **self._row_checks()))
        if sample_weight is None:
            return X, None
        return X, _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _validate(self, X: Any, sample_weight: Any) -> tuple[Array, np.ndarray | None]:
        """Training rows and their weights, checked."""
        if is_foreign(X):
            weights = self._stream_weights(sample_weight)
            if weights is not None and len(weights) != X.shape[0]:
                raise ValueError(f"sample_weight has {len(weights)} values, X has {X.shape[0]} rows")
            return self._foreign_rows(X, reset=True), weights
        X = validate_data(self, X, ensure_min_samples=2, **self._row_checks())
        if scipy.sparse.issparse(X):
            assert_all_finite(X.data, input_name="X")
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} matrix."
            )
        if sample_weight is None:
            return X, None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if np.count_nonzero(weights) < 2:
            raise ValueError("at least two rows must have a positive sample_weight")
        return X, weights

    def _source(self, X: Any, sample_weight: Any) -> Source:
        """The training rows, wherever they are."""
        if is_dask(X):
            from ..rows.dask import DaskSource

            if self.device is not None:
                raise ValueError("dask rows are worked on where their chunks are: give device=None")
            return DaskSource(X, self._stream_weights(sample_weight))
        stream = stream_of(X, self.batch_size)
        source: Source
        if stream is None:
            source = ArraySource(*self._validate(X, sample_weight))
        else:
            source = StreamSource(stream, self._stream_weights(sample_weight))
        if self.device is None or is_foreign(X):
            return source
        from ..rows.host_to_device import DeviceSource, checked_device

        if self.kernel == "precomputed":
            raise ValueError("a precomputed kernel is read, not computed: give device=None")
        return DeviceSource(source, checked_device(self.device))

    def _stream_weights(self, sample_weight: Any) -> np.ndarray | None:
        """Weights of rows that are not in memory, checked as far as they can be before a pass."""
        if self.kernel == "precomputed":
            raise ValueError("a precomputed kernel needs the whole gram in memory: give it as one array")
        if sample_weight is None:
            return None
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weights.ndim != 1 or np.any(weights < 0) or np.count_nonzero(weights) < 2:
            raise ValueError("sample_weight must be one number a row, none negative, at least two positive")
        return weights

    def _sampled(self, source: Source, size: int, rng: np.random.Generator, *, merge: bool = True) -> Rows:
        """A sample of the rows; for rows out of memory this is the pass that tells their shape."""
        rows = source.sample(size, rng, merge=merge and self.kernel != "precomputed")
        if not isinstance(source, ArraySource):
            self.n_features_in_ = source.n_features
            self.__dict__.pop("feature_names_in_", None)
            if source.names is not None:
                self.feature_names_in_ = np.array(source.names, dtype=object)
        return rows

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    def _kernel_on(self, rows: Rows) -> tuple[Kernel, float]:
        """The kernel, and its gamma, as these rows settle them."""
        few = finite(rows.first(FEW_ROWS))
        if self.kernel in ("rbf", "laplacian", "poly", "sigmoid"):
            warn_about_scales(few)
        gamma = resolve_gamma(self.gamma, self.kernel, few, rows.weights)
        return self._make_kernel(few, gamma), gamma

    def _warn_if_indefinite(self, share: float) -> None:
        if share > INDEFINITE:
            warnings.warn(
                f"the kernel is not positive semi-definite on these rows: {100 * share:.2g}% of its spectrum is "
                "negative and was dropped",
                stacklevel=5,
            )

    def _learned_inverse(self, expansion: KernelExpansion, sample: Sample) -> RidgeMap | None:
        """The map from scores back to rows, for kernels that have no better one."""
        rows = sample.reference
        if expansion.kernel.name in ("rbf", "linear", "precomputed"):
            return None
        if rows.shape[1] * expansion.n_support > MAX_INVERSE_MAP:
            return None
        weights = None if sample.rows.weights is None else sample.rows.weights[: sample.n_reference]
        return learn_ridge_map(expansion, rows, weights)

    def _store_captured_ratio(self, sample: Sample) -> None:
        """Measure the fitted model against exact kernel PCA of the sample; learn the way back where one is needed."""
        ratio = captured_ratio(sample, self.expansion_, self.n_samples_seen_)
        self.captured_ratio_ = ratio.value
        self.captured_ratio_kind_ = ratio.kind
        self.captured_ratio_n_samples_ = ratio.n_samples
        self._inverse_map = self._learned_inverse(self.expansion_, sample)

    def _kept(self, expansion: KernelExpansion) -> KernelExpansion:
        """The expansion where the rows were: back on the host, where a device only did the work."""
        if self.device is None or isinstance(expansion.points, np.ndarray):
            return expansion
        from ..rows.host_to_device import to_host

        return to_host(expansion)

    def _warn_about_kernel(
        self, explained: float, spread: float, seen_and_unseen: tuple[float, float], gamma: float
    ) -> None:
        """Warn where the kernel says little of these rows, with what to do about gamma where it is a width."""
        advice = GammaAdvice(gamma, self.gamma != "median") if self.kernel in ("rbf", "laplacian") else None
        warn_about_kernel(explained, spread, seen_and_unseen, advice)

    def _make_kernel(self, rows: Array, gamma: float) -> Kernel:
        if callable(self.kernel):
            return bind_callable(self.kernel, self.kernel_params, rows)
        return named_kernel(self.kernel, gamma=gamma, degree=self.degree, coef0=self.coef0)

    def _rows(self, X: Any) -> Array:
        if self.kernel == "precomputed":
            rows = check_array(X, **self._row_checks())
            if rows.shape[1] not in (self.n_features_in_, self.n_support_):
                raise ValueError(
                    f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input: k(x, y) against every training row, or "
                    f"{self.n_support_}, against the rows of support_ alone"
                )
            return rows
        if is_foreign(X):
            return self._foreign_rows(X, reset=False)
        return validate_data(self, X, reset=False, **self._row_checks())

    def _foreign_rows(self, X: Array, *, reset: bool) -> Array:
        """Rows of another array library, checked where they are."""
        xp = namespace(X)
        if X.ndim != 2 or X.shape[0] < 1 + reset:
            raise ValueError(f"Expected 2D array of at least {1 + reset} rows, got shape {tuple(X.shape)}")
        if reset:
            self.n_features_in_ = int(X.shape[1])
            self.__dict__.pop("feature_names_in_", None)
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input"
            )
        return X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64)

    def _row_checks(self) -> dict[str, Any]:
        """How rows are validated; NaN and infinity are looked for block by block, while a block is in the cache."""
        return {
            "accept_sparse": "csr",
            "accept_large_sparse": self.kernel != "laplacian",  # scikit-learn's L1 distances index in 32 bits
            "dtype": FLOATS,
            "ensure_all_finite": False,
        }

    @property
    def dual_coef_(self) -> Array:
        """Coefficients of the components over the support points, (m, M)."""
        return self.expansion_.coef

    def transform(self, X: Any) -> Array:
        """Scores of the rows of X: k(X, S) A - b, m kernel evaluations a row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            For a precomputed kernel: k(X, training rows), or k(X, training rows)[:, support_].
            Rows in blocks (a function that returns an iterator, a list of blocks, a dataset) and dask arrays too.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            For rows in blocks an iterator of blocks of scores; for a dask array a lazy one.
        """
        check_is_fitted(self)
        if is_dask(X):
            from ..rows.dask import lazy_scores

            return lazy_scores(self.expansion_, X, self.n_features_in_, getattr(self, "feature_names_in_", None))
        stream = stream_of(X, self.batch_size)
        if stream is not None:
            return self._score_blocks(stream)
        return self._scores(self._rows(X))

    def _scores(self, rows: Array) -> Array:
        if self.device is None or not isinstance(rows, np.ndarray):
            return self.expansion_.transform(rows, self._n_threads())
        from ..rows.host_to_device import checked_device, scores_by_device

        return scores_by_device(self.expansion_, finite(rows), checked_device(self.device))

    def _score_blocks(self, stream: Stream) -> Iterator[Array]:
        rows = StreamSource(stream)
        for _, block in rows.blocks():
            same_columns(rows.n_features, rows.names, self.n_features_in_, getattr(self, "feature_names_in_", None))
            yield self._scores(block)

    def inverse_transform(self, X: Any) -> Array:
        """Rows whose features come closest to what the scores stand for.

        Gaussian kernel: the fixed point of Mika et al. (1999) on the support.  Linear kernel: exact.
        Other kernels: a ridge regression from scores to rows, learned in `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores, as `transform` gives them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=FLOATS)
        if scores.shape[1] != self.expansion_.n_components:
            raise ValueError(
                f"scores have {scores.shape[1]} columns, the model has {self.expansion_.n_components} components"
            )
        values = scores.astype(np.float64)
        if self.expansion_.kernel.name == "rbf":
            rows = gaussian_preimage(self.expansion_, values)
        elif self.expansion_.kernel.name == "linear":
            rows = linear_preimage(self.expansion_, values)
        elif self._inverse_map is not None:
            rows = self._inverse_map(values)
        else:
            raise ValueError(f"a {self.expansion_.kernel.name} kernel has no rows to go back to")
        return rows.astype(scores.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return self.expansion_.n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
