"""TableEncoder: a scikit-learn transformer that turns a table into a matrix whose rows a kernel can compare.

One pass over the table collects a summary, from which `plan` decides how each column is encoded.  Rows are then
encoded, block by block if they come in blocks.  Unlike ColumnTransformer and skrub's TableVectorizer, this encoder
gives every categorical variable the weight of one column, leaves out columns that only identify rows (and names them),
and gives the same result for a table in blocks as for the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils.validation import _check_feature_names, check_array, check_is_fitted

from ..errors import ColumnError, quoted
from ..fit.parameters import MeantParameters, at_least, estimator, one_of, parameter
from ..rows.frames import BOOLEAN, DATE, NUMBER, block_of, collected, column_names, with_text_names
from .calendar import CYCLE, CYCLE_PERIODS, DATE_PARTS, DATE_PERIODS, JOINED, TIME, date_columns, with_date
from .columns import decoded, encoded_columns, encoded_rows
from .plan import CATEGORY, LEFT_OUT, MAX_CATEGORIES, PlanOptions, TableSummary, missing_value, planned

MAX_SHOWN = 6  # a description names at most this many columns of a kind
SCALES = {
    "standard": "mean 0, variance 1",
    "robust": "median 0, middle half 1 wide, far values drawn in",
    "none": "as they are",
}


@estimator
class TableEncoder(MeantParameters, TransformerMixin, BaseEstimator):
    """Scale numbers, one-hot encode categories, turn dates into time and circles, fill gaps, drop uninformative
    columns.

    The encoder is made for kernel methods, which depend on squared distances: numbers and categorical variables
    contribute equally to them, with E |x - y|^2 = 2 each.  `describe()` says in words how each column is encoded.

    Parameters
    ----------
    scale : {"standard", "robust", "none"}, default="standard"
        "standard": mean 0, variance 1.  "robust": median 0, interquartile range 1, and values far out brought smoothly
        to within 3, so that a few rows of a heavy-tailed column do not dominate the distances.  "none": numbers are not
        changed.
    missing : {"impute", "error"}, default="impute"
        "impute": a missing number is replaced by the median of its column, and an indicator column marks it; a missing
        category gets an indicator like any other category.  "error": raise an error that names the column and the row.
    keep : list of str, optional
        Columns to use even if they look like identifiers.
    max_categories : int, default=30
        Largest number of indicators for the labels of a column; the rarest labels share one if there are more.
    calendar : bool, default=True
        True: columns named year, month, day, hour, minute and second are joined into one date.  A date is encoded as
        its time and, as far as the rows cover a whole year, week or day, as circles (a sine and a cosine each) for
        season, weekday and hour.  An hour, month or weekday that is not part of a date is encoded as a circle alone.
        False: such columns are numbers like any other, and a date is encoded as its time alone.
    trend : bool, default=True
        False: leave out the time of dates, and counters, which only rise or only fall from row to row.  Future rows
        lie outside the range that these had in the fit, so models that judge future rows must not depend on them;
        `KernelMonitor` uses False.
    date_order : dict of str to {"day first", "month first"}, optional
        How the file wrote dates such as 3/25/2024, by column.  The encoder is given dates and does not use it: it keeps
        the order for `read_table(..., dates=encoder.date_order)`, so that new files are read alike, as the commands do.

    Attributes
    ----------
    kinds_ : ndarray of str, shape (n_features_in_,)
        "number", "boolean", "date", "cycle" (an hour, month or weekday), "category", "left out", or "joined" (a part
        of a date; the whole date is stored in the column of the year).
    calendar_ : ndarray of str, shape (n_features_in_,)
        The parts that a date or cycle is encoded as: "time", "season", "weekday", "hour", "month", separated by blanks.
    joined_ : dict
        For each part ("year", "month", ...) of a joined date, the number of its column; empty if there is none.
    reasons_ : ndarray of str, shape (n_features_in_,)
        Why a column is left out; empty if it is not.
    units_ : ndarray of str, shape (n_features_in_,)
        The unit of durations ("days") and times of day ("hours since midnight"); empty for all other columns.
    zoned_ : ndarray of int
        The numbers of the date columns with a time zone.  Their days are those of UTC, and dates without a zone are
        refused there.
    center_, scale_, fill_ : ndarrays of shape (n_features_in_,)
        A number x is encoded as (x - center_) / scale_; a missing one is replaced by fill_ first.
    n_missing_ : ndarray of int, shape (n_features_in_,)
        The number of missing values in each column of the rows that the encoder was fitted to.
    categories_ : list of ndarrays of str
        The labels of each categorical column, in the order of the table.
    heavy_tails_ : list of str
        Columns most of whose variance comes from 1 % of the rows: `scale="robust"` suits them.
    n_features_in_, feature_names_in_, n_samples_seen_
        The numbers of columns and rows, and the column names, of the table that the encoder was fitted to.

    Notes
    -----
    Cost: O(N d) for N rows of d columns; a sample of at most 50,000 rows is sorted for the medians.  A table is an
    array or a frame of pandas, polars (also a lazy one) or arrow; `fit_blocks` takes a table that comes in parts.

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
        "n_samples_seen_": "count",
        "kinds_": "strings[d]",
        "reasons_": "strings[d]",
        "units_": "strings[d] optional",
        "calendar_": "strings[d] optional",
        "joined_": "dict optional",
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
    calendar: bool = parameter(True, "boolean")
    trend: bool = parameter(True, "boolean")
    date_order: dict[str, str] | None = parameter(None, dict, None)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide how each column is encoded.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        return self.fit_blocks([X])

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Iterable[Any]) -> Self:
        """Decide how each column is encoded, for a table that comes in parts: arrays or frames with the same columns.

        Parameters
        ----------
        blocks : iterable of array-likes or frames

        Returns
        -------
        self
            With the same result as `fit` on all rows at once, up to rounding.
        """
        first: Any = None
        joined: dict[str, int] = {}
        # Summaries of the table as given, and of the table with columns such as year and month joined into a date.
        # The latter is dropped at the first block in which these columns cannot be joined in the same way.
        plain = dated = None
        for given in (with_text_names(collected(block)) for block in blocks):
            block = block_of(given)
            found = date_columns(block) if self.calendar else {}
            if plain is None:
                first, joined, plain = given, found, TableSummary(block)
                dated = TableSummary(with_date(block, joined)) if joined else None
            else:
                plain.add(block)
                if dated is not None and found == joined:
                    dated.add(with_date(block, joined))
                else:
                    dated = None
        if plain is None:
            raise ValueError("no block was given: at least one is needed")
        return self._store(plain, first) if dated is None else self._store(dated, first, joined)

    def _store(self, summary: TableSummary, X: Any, joined: dict[str, int] | None = None) -> Self:
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
        joined = joined or {}
        options = PlanOptions(self.scale, keep, self.max_categories, self.calendar, self.trend)
        plan = planned(summary, options, joined)
        if all(plan.kinds[j] == LEFT_OUT for j in joined.values()):
            joined = {}  # another column of dates holds the joined date, too
        if all(kind in (LEFT_OUT, JOINED) for kind in plan.kinds):
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
        self.calendar_, self.joined_ = np.array(plan.calendar, dtype=object), joined
        self.center_, self.scale_, self.fill_ = plan.center, plan.scale, plan.fill
        self.n_missing_ = summary.n_missing()
        self.categories_, self.has_other_ = plan.categories, plan.has_other
        self.heavy_tails_ = plan.heavy
        self.single_precision_ = bool(summary.single)
        self.library_ = summary.library
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Encode the rows of a table as numbers.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Rows with the columns of the table that the encoder was fitted to.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            In float32 if all columns are float32, else in float64.
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
        """The names of the encoded columns: `size`, `size_missing`, `cut=Ideal`, `when_season_sin`.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.array([name for _, name in encoded_columns(self)], dtype=object)

    def source_columns(self) -> np.ndarray:
        """For each encoded column, the number of the table's column that it comes from.

        In a date that was joined from several columns, the time counts as coming from the year, the season from the
        month, the weekday from the day and the hour from the hour.

        Returns
        -------
        ndarray of int, shape (n_features_out,)
        """
        check_is_fitted(self)
        return np.array([column for column, _ in encoded_columns(self)], dtype=np.intp)

    def inverse_transform(self, X: Any) -> Any:
        """Turn encoded rows back into a table, without the columns that were left out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_out)

        Returns
        -------
        frame of the library that the encoder was fitted to, or an array
            Numbers are in their original units; a category is the label whose indicator is largest, or
            "other values" if that is the indicator of the rarest labels (see `max_categories`).  Dates that had a time
            zone are in UTC; a date whose time was left out (`trend=False`) is omitted.
        """
        check_is_fitted(self)
        rows = check_array(X, dtype=np.float64, ensure_2d=False, ensure_min_samples=0, ensure_min_features=0)
        return decoded(self, rows)

    def check_loaded(self, error: type[ValueError]) -> None:
        """Raise `error` unless the attributes that were read from a file are consistent."""
        n_categories = int(np.sum(self.kinds_ == CATEGORY))
        labels = [isinstance(found, np.ndarray) and all(type(x) is str for x in found) for found in self.categories_]
        others = [isinstance(found, bool | np.bool_) for found in self.has_other_]
        if not len(labels) == len(others) == n_categories or not all(labels + others):
            raise error("damaged model file: the labels of the table's columns do not fit together")
        zoned = getattr(self, "zoned_", np.zeros(0, dtype=np.int64))
        known = {NUMBER, BOOLEAN, DATE, CATEGORY, LEFT_OUT, CYCLE, JOINED}
        self._check_calendar(error)
        if not set(self.kinds_) <= known or not set(zoned.tolist()) <= set(range(len(self.kinds_))):
            raise error("damaged model file: the table has columns of an unknown kind")

    def _check_calendar(self, error: type[ValueError]) -> None:
        parts = getattr(self, "calendar_", [""] * len(self.kinds_))
        joined = getattr(self, "joined_", {})
        right = all(isinstance(j, int) and 0 <= j < len(self.kinds_) for j in joined.values())
        right = right and list(joined) == list(DATE_PARTS[: len(joined)]) and len(set(joined.values())) == len(joined)
        of_kind = {DATE: {TIME, *DATE_PERIODS}, CYCLE: set(CYCLE_PERIODS)}
        for kind, told in zip(self.kinds_, parts, strict=True):
            right = right and set(told.split()) <= of_kind.get(kind, set()) and (kind != CYCLE or told in CYCLE_PERIODS)
        whose = {"year": DATE} | dict.fromkeys(DATE_PARTS[1:], JOINED)
        if not right or any(self.kinds_[j] not in (whose[role], LEFT_OUT) for role, j in joined.items()):
            raise error("damaged model file: the calendar of the table does not fit together")

    def describe(self) -> list[tuple[str, str]]:
        """How the columns are encoded, in words: pairs of a heading and a text."""
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
    """How the columns are encoded, in words that `kernelsieve info` and the report show."""
    columns = list(zip(column_names(encoder), encoder.kinds_, encoder.n_missing_, encoder.reasons_, strict=True))
    joined = getattr(encoder, "joined_", {})  # model files of older versions lack it
    anchor = column_names(encoder)[joined["year"]] if joined else None
    by_kind = {
        kind: [name for name, k, _, _ in columns if k == kind and name != anchor] for kind in (NUMBER, BOOLEAN, DATE)
    }
    facts = [("scale", f"{encoder.scale} ({SCALES[encoder.scale]})")]
    for kind, heading in ((NUMBER, "numbers"), (BOOLEAN, "true or false"), (DATE, "dates")):
        if by_kind[kind]:
            facts.append((heading, _counted(by_kind[kind])))
    facts += _calendar_facts(encoder)
    labelled = [name for name, kind, _, _ in columns if kind == CATEGORY]
    if labelled:
        told = [
            f"{name} ({len(labels)} label{'s' * (len(labels) > 1)}{' and one for all rarer ones' * other})"
            for name, labels, other in zip(labelled, encoder.categories_, encoder.has_other_, strict=True)
        ]
        facts.append(("categories", _counted(told)))
    gaps = [f"{name} ({n:,} of {encoder.n_samples_seen_:,})" for name, k, n, _ in columns if n and k != LEFT_OUT]
    if gaps:
        facts.append(("gaps filled in", _counted(gaps)))
    out = [f"{name} ({reason})" for name, kind, _, reason in columns if kind == LEFT_OUT]
    if out:
        facts.append(("left out", _counted(out)))
    return facts


def _calendar_facts(encoder: TableEncoder) -> list[tuple[str, str]]:
    """Which columns were joined into a date, and which circles there are."""
    names, told = column_names(encoder), []
    joined = getattr(encoder, "joined_", {})
    if joined and encoder.kinds_[joined["year"]] == DATE:
        told.append(f"{', '.join(names[j] for j in joined.values())} joined into one date")
    circles: list[str] = []
    for j, told_parts in enumerate(getattr(encoder, "calendar_", ())):
        found = [part for part in str(told_parts).split() if part != TIME]
        of = "" if j == joined.get("year") else f" of {names[j]}"
        circles += [names[j]] if encoder.kinds_[j] == CYCLE else [f"{part}{of}" for part in found]
    if circles:
        told.append(f"circles for {', '.join(circles)}")
    return [("calendar", "; ".join(told))] if told else []


def _counted(listed: list[str]) -> str:
    """The number of texts in a list, and the first few of them."""
    rest = f" and {len(listed) - MAX_SHOWN:,} more" if len(listed) > MAX_SHOWN else ""
    return f"{len(listed):,}: {', '.join(listed[:MAX_SHOWN])}{rest}"
