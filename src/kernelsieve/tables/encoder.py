"""A table as a matrix whose columns a kernel can compare, in one scikit-learn transformer.

The table is looked at once (`summary`), what becomes of each column is decided (`plan`), and rows are then encoded,
block by block if they come so.  What ColumnTransformer and skrub's TableVectorizer do not do, and this does: every
categorical variable counts as one column, columns that only name rows are left out and named, and a table that comes
in blocks is encoded as it would be whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils.validation import _check_feature_names, check_array, check_is_fitted

from ..errors import ColumnError, quoted
from ..fit.parameters import MeantParameters, at_least, estimator, one_of, parameter
from ..rows.frames import block_of, collected, column_names, with_text_names
from .columns import decoded, encoded_rows
from .plan import BOOLEAN, CATEGORY, DATE, LEFT_OUT, MAX_CATEGORIES, NUMBER, planned
from .summary import TableSummary, missing_value

OTHER_LABEL = "other values"
MISSING_SUFFIX = "_missing"
MAX_SHOWN = 6  # columns spelled out in a description
SCALES = {
    "standard": "mean 0, variance 1",
    "robust": "median 0, middle half 1 wide, far values drawn in",
    "none": "as they are",
}


@estimator
class TableEncoder(MeantParameters, TransformerMixin, BaseEstimator):
    """Numbers scaled, categories one-hot, dates as numbers, gaps filled, what says nothing left out.

    Made to stand before a kernel method, which sees squared distances: after it, a number and a categorical variable
    contribute alike to them, E |x - y|^2 = 2 each.  What was done is in `describe()`, in words.

    Parameters
    ----------
    scale : {"standard", "robust", "none"}, default="standard"
        "standard": mean 0, variance 1.  "robust": median 0, the middle half of the rows 1 wide, and values far out
        brought smoothly to within 3, so that heavy tails do not make a few rows the whole picture.  "none": numbers
        as they are.
    missing : {"impute", "error"}, default="impute"
        "impute": a missing number becomes the column's median, and an indicator column says where; a missing
        category is a category.  "error": an error that names the column and the row.
    keep : list of str, optional
        Columns to use even if they look like identifiers.
    max_categories : int, default=30
        Labels of one column that get an indicator of their own; rarer ones share one.

    Attributes
    ----------
    kinds_ : ndarray of str, shape (n_features_in_,)
        "number", "boolean", "date", "category" or "left out".
    reasons_ : ndarray of str, shape (n_features_in_,)
        Why a column is left out; empty where it is not.
    units_ : ndarray of str, shape (n_features_in_,)
        What the numbers of durations ("days") and times of day ("hours since midnight") count; empty for all else.
    zoned_ : ndarray of int
        The columns of dates with a time zone: theirs are days in Greenwich, and only dates with a zone go with them.
    center_, scale_, fill_ : ndarrays of shape (n_features_in_,)
        An encoded number is (x - center_) / scale_; a gap is taken as fill_.
    n_missing_ : ndarray of int, shape (n_features_in_,)
        Gaps in each column, in the rows it was fitted to.
    categories_ : list of ndarrays of str
        The labels of each categorical column, in the order of the table.
    heavy_tails_ : list of str
        Columns of which 1 % of the rows make most of the variance: `scale="robust"` suits them.
    n_features_in_, feature_names_in_, n_samples_seen_
        Of the table it was fitted to.

    Notes
    -----
    Cost: O(N d) for N rows of d columns, and a sample of at most 50,000 rows is sorted for the medians.  Tables are
    arrays and frames of pandas, polars (lazy ones too) and arrow; `fit_blocks` takes one that comes in parts.

    The robust scale is that of D. Holzmueller, L. Grinsztajn and I. Steinwart, "Better by default: strong pre-tuned
    MLPs and boosted trees on tabular data", NeurIPS 2024.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from kernelsieve import SparseKernelPCA, TableEncoder
    >>> table = pd.DataFrame({"size": [1.0, 2.0, 3.0, None, 5.0, 6.0], "cut": ["a", "b", "a", "b", "a", "a"]})
    >>> encoder = TableEncoder().fit(table)
    >>> [str(name) for name in encoder.get_feature_names_out()]
    ['size', 'size_missing', 'cut=a', 'cut=b']
    >>> model = make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=4)).fit(table)
    >>> model.transform(table).shape
    (6, 2)
    """

    _file_layout = {
        "n_features_in_": "int=d",
        "feature_names_in_": "strings[d] optional",
        "n_samples_seen_": "int",
        "kinds_": "strings[d]",
        "reasons_": "strings[d]",
        "units_": "strings[d] optional",
        "zoned_": "int[*] optional",
        "center_": "float[d]",
        "scale_": "float[d]",
        "fill_": "float[d]",
        "n_missing_": "int[d]",
        "categories_": "list",
        "has_other_": "list",
        "heavy_tails_": "list",
        "single_precision_": "bool",
        "library_": "str",
    }

    scale: str = parameter("standard", one_of("standard", "robust", "none"), positional=True)
    missing: str = parameter("impute", one_of("impute", "error"))
    keep: Iterable[str] | None = parameter(None, list, tuple, None)
    max_categories: int = parameter(MAX_CATEGORIES, at_least(2))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide what becomes of each column.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        X = with_text_names(collected(X))
        return self._settle(TableSummary(block_of(X)), X)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """As `fit`, for a table that comes in parts: arrays or frames with the same columns, one after the other.

        Parameters
        ----------
        blocks : iterable of array-likes or frames

        Returns
        -------
        self
            As `fit` on all rows at once would leave it, to rounding.
        """
        summary, first = None, None
        for block in (with_text_names(collected(block)) for block in blocks):
            if summary is None:
                summary, first = TableSummary(block_of(block)), block
            else:
                summary.add(block_of(block))
        if summary is None:
            raise ValueError("no block was given: at least one is needed")
        return self._settle(summary, first)

    def _settle(self, summary: TableSummary, X: Any) -> Self:
        if not summary.names:
            raise ValueError(
                f"Found array with 0 feature(s) (shape=({summary.n_rows}, 0)) while a minimum of 1 is required."
            )
        if summary.n_rows < 1:
            raise ValueError(f"Found array with 0 sample(s) (shape=(0, {len(summary.names)})): at least 1 is required")
        if self.missing == "error" and summary.n_missing().any():
            column = int(np.flatnonzero(summary.n_missing())[0])
            raise missing_value(summary.names[column], summary.first_gap(column))
        keep = frozenset(map(str, self.keep or ()))
        if not keep <= set(summary.names):
            unknown = quoted(sorted(keep - set(summary.names)))
            raise ValueError(f"keep names {unknown}, which the table does not have: it has {quoted(summary.names)}")
        plan = planned(summary, self.scale, keep, self.max_categories)
        if all(kind == LEFT_OUT for kind in plan.kinds):
            told = "; ".join(
                f"{name!r} is {reason}" for name, reason in zip(summary.names[:5], plan.reasons, strict=False)
            )
            message = f"no column of the {summary.n_rows} sample(s) is left to work with: {told}"
            raise ColumnError(None, None, message)
        _check_feature_names(self, X, reset=True)
        self.n_features_in_ = len(summary.names)
        self.n_samples_seen_ = summary.n_rows
        self.kinds_ = np.array(plan.kinds, dtype=object)
        self.reasons_ = np.array(plan.reasons, dtype=object)
        self.units_ = np.array([summary.units.get(j, "") for j in range(self.n_features_in_)], dtype=object)
        self.zoned_ = np.array(sorted(summary.zoned), dtype=np.int64)
        self.center_, self.scale_, self.fill_ = plan.center, plan.scale, plan.fill
        self.n_missing_ = summary.n_missing()
        self.categories_, self.has_other_ = plan.categories, plan.has_other
        self.heavy_tails_ = plan.heavy
        self.single_precision_ = bool(summary.single)
        self.library_ = summary.library
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Rows of a table as rows of numbers.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            With the columns of the table it was fitted to.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out), float32 where all columns were
        """
        return self._transform(X, first=0)

    def _transform(self, X: Any, first: int) -> np.ndarray:
        """Transform a block that begins at row `first` of a table, so that errors name rows of the whole table."""
        check_is_fitted(self)
        X = with_text_names(collected(X))
        _check_feature_names(self, X, reset=False)
        block = block_of(X)
        if len(block.names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(block.names)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        if not block.n_rows:
            raise ValueError(f"Found array with 0 sample(s) (shape=(0, {len(block.names)})): at least 1 is required")
        return encoded_rows(self, block, first)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the encoded columns: `size`, `size_missing`, `cut=Ideal`.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names: list[str] = []
        categories = iter(zip(self.categories_, self.has_other_, strict=True))
        for name, kind, n_missing in zip(column_names(self), self.kinds_, self.n_missing_, strict=True):
            if kind == CATEGORY:
                labels, has_other = next(categories)
                names += [f"{name}={label}" for label in labels] + [f"{name}={OTHER_LABEL}"] * has_other
            elif kind != LEFT_OUT:
                names.append(name)
            if kind != LEFT_OUT and n_missing:
                names.append(f"{name}{MISSING_SUFFIX}")
        return np.array(names, dtype=object)

    def inverse_transform(self, X: Any) -> Any:
        """The table that encoded rows stand for; columns that were left out are not in it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)

        Returns
        -------
        frame of the library that the encoder was fitted to, or an array
            Numbers in their own units; of a category the label whose indicator is largest.  Dates that had a
            time zone are in Greenwich's.
        """
        check_is_fitted(self)
        rows = check_array(X, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, ensure_min_features=0)
        return decoded(self, rows)

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the attributes read from a file fit together."""
        n_categories = int(np.sum(self.kinds_ == CATEGORY))
        labels = [isinstance(found, np.ndarray) and all(type(x) is str for x in found) for found in self.categories_]
        others = [isinstance(found, bool | np.bool_) for found in self.has_other_]
        if not len(labels) == len(others) == n_categories or not all(labels + others):
            raise error("damaged model file: the labels of the table's columns do not fit together")
        zoned = getattr(self, "zoned_", np.zeros(0, dtype=np.int64))
        known = {NUMBER, BOOLEAN, DATE, CATEGORY, LEFT_OUT}
        if not set(self.kinds_) <= known or not set(zoned.tolist()) <= set(range(len(self.kinds_))):
            raise error("damaged model file: the table has columns of a kind that there is none of")

    def describe(self) -> list[tuple[str, str]]:
        """What becomes of the columns, in words: pairs of a heading and a text."""
        check_is_fitted(self)
        return _described(self)

    @property
    def _n_features_out(self) -> int:
        return len(self.get_feature_names_out())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "impute"
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _described(encoder: TableEncoder) -> list[tuple[str, str]]:
    """What becomes of the columns, in words that `kernelsieve info` and the report show."""
    columns = list(zip(column_names(encoder), encoder.kinds_, encoder.n_missing_, encoder.reasons_, strict=True))
    by_kind = {kind: [name for name, k, _, _ in columns if k == kind] for kind in (NUMBER, BOOLEAN, DATE)}
    facts = [("scale", f"{encoder.scale} ({SCALES[encoder.scale]})")]
    for kind, heading in ((NUMBER, "numbers"), (BOOLEAN, "true or false"), (DATE, "dates")):
        if by_kind[kind]:
            facts.append((heading, _counted(by_kind[kind])))
    labelled = [name for name, kind, _, _ in columns if kind == CATEGORY]
    sizes = [len(labels) + other for labels, other in zip(encoder.categories_, encoder.has_other_, strict=True)]
    if labelled:
        told = [f"{name} ({size} labels)" for name, size in zip(labelled, sizes, strict=True)]
        facts.append(("categories", _counted(told)))
    gaps = [f"{name} ({n:,} of {encoder.n_samples_seen_:,})" for name, k, n, _ in columns if n and k != LEFT_OUT]
    if gaps:
        facts.append(("gaps filled in", _counted(gaps)))
    out = [f"{name} ({reason})" for name, kind, _, reason in columns if kind == LEFT_OUT]
    if out:
        facts.append(("left out", _counted(out)))
    return facts


def _counted(listed: list[str]) -> str:
    """The number of names, and the first few."""
    rest = f" and {len(listed) - MAX_SHOWN:,} more" if len(listed) > MAX_SHOWN else ""
    return f"{len(listed):,}: {', '.join(listed[:MAX_SHOWN])}{rest}"
