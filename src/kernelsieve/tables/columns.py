"""Encode the columns of a table, and decode them: scaled values, indicators of labels, dates as time and circles.

Decoding a category gives the label with the largest indicator, "other values" for the one that rare labels share, and a
gap for the one of missing values.  Decoding a number gives a gap if the indicator of
missing values is above 1/2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ColumnError, warn
from ..rows.frames import BOOLEAN, DATE, NUMBER, Block, Texts, column_names, first_unlike, texts_of
from .calendar import (
    CREDITED,
    CYCLE,
    CYCLE_PERIODS,
    DATE_PERIODS,
    JOINED,
    TIME,
    circle,
    on_circle,
    split_date,
    with_date,
)
from .plan import CATEGORY, LEFT_OUT, SQUASHED, check_zones, infinite_value, missing_value

OTHER_LABEL = "other values"  # the name of the indicator that the rarest labels share
MISSING_SUFFIX = "_missing"
NOT_ENCODED = (LEFT_OUT, JOINED)  # kinds of columns that have no encoded column of their own
LIKELY = 0.5  # decoding: an indicator above this means "missing", and a boolean above it is true
BEYOND = 10.0  # standard deviations: with a kernel of median width, a row that far out resembles no row of the fit
FEW_ENCODED = 10  # with fewer rows there is no warning about far values: most rows may be far out by chance
NEARLY_BOUND = 1 - 1e-9  # decoding clips values to this share of the robust bound, which itself stands for infinity


def encoded_columns(encoder: Any) -> list[tuple[int, str]]:
    """For each encoded column, the number of the table's column that it comes from, and its own name."""
    found: list[tuple[int, str]] = []
    categories = iter(zip(encoder.categories_, encoder.has_other_, strict=True))
    joined = getattr(encoder, "joined_", {})  # model files of older versions lack it
    names = column_names(encoder)
    for j, (name, kind) in enumerate(zip(names, encoder.kinds_, strict=True)):
        if kind in NOT_ENCODED:
            continue
        if kind == CATEGORY:
            labels, has_other = next(categories)
            found += [(j, f"{name}={label}") for label in labels] + [(j, f"{name}={OTHER_LABEL}")] * has_other
        for part in calendar_parts(encoder, j) if kind != CATEGORY else ():
            owner = next((joined[role] for role in CREDITED[part] if role in joined), j) if part in CREDITED else j
            owner = owner if j == joined.get("year") else j
            label = names[owner] if part in (TIME, names[owner].lower()) or kind == CYCLE else f"{names[owner]}_{part}"
            found += [(owner, label)] if part == TIME else [(owner, f"{label}_sin"), (owner, f"{label}_cos")]
        if encoder.n_missing_[j]:
            found.append((j, f"{name}{MISSING_SUFFIX}"))
    return found


def calendar_parts(encoder: Any, j: int) -> list[str]:
    """The parts that column j of numbers or dates is encoded as: TIME (the value itself), names of circles, or both."""
    told = getattr(encoder, "calendar_", None)  # model files of older versions lack it
    return [TIME] if told is None or encoder.kinds_[j] not in (DATE, CYCLE) else str(told[j]).split()


def circle_radius(encoder: Any, j: int) -> float:
    """The radius of a column's circles: the parts of a date share the weight of one column.

    With `scale="none"`, opposite points of a circle are at distance 1.
    """
    return 0.5 if encoder.scale == "none" else 1 / float(np.sqrt(len(calendar_parts(encoder, j))))


def circle_periods(encoder: Any, j: int) -> list[float]:
    """The periods of a column's circles, in the unit of the column."""
    periods = CYCLE_PERIODS if encoder.kinds_[j] == CYCLE else DATE_PERIODS
    return [periods[part] for part in calendar_parts(encoder, j) if part != TIME]


def encoded_rows(encoder: Any, block: Block, first: int) -> np.ndarray:
    """Rows of a table as rows of numbers; `first` is the number of the first row."""
    block = with_date(block, getattr(encoder, "joined_", {}), first)
    dtype = np.float32 if encoder.single_precision_ and block.numbers.dtype == np.float32 else np.float64
    encoded = np.zeros((block.n_rows, encoder._n_features_out), dtype=dtype)
    _check_kinds(encoder, block, first)
    if _encode_plain(encoder, block, encoded):
        _warn_far(encoder, encoded)
        return encoded
    places = {int(j): place for place, j in enumerate(block.measured)}
    at = category = 0
    for j, kind in enumerate(encoder.kinds_):
        if kind == CATEGORY:
            at += _encode_category(encoder, block, j, category, encoded[:, at:], first)
            category += 1
        elif kind not in NOT_ENCODED:
            at += _encode_number(encoder, block, j, places[j], encoded[:, at:], first)
    _warn_far(encoder, encoded)
    return encoded


def _warn_far(encoder: Any, encoded: np.ndarray) -> None:
    """Warn if most values of a column are far from all rows of the fit: it may be a counter, or in another unit."""
    if encoder.scale != "standard" or len(encoded) < FEW_ENCODED:
        return
    far = np.mean(np.abs(encoded) > BEYOND, axis=0) > 0.5
    if far.any():
        columns = zip(encoded_columns(encoder), far, strict=True)
        for name in [name for (j, name), out in columns if out and encoder.kinds_[j] in (NUMBER, DATE)]:
            warn(
                f"column {name!r} lies more than {BEYOND:g} standard deviations from the rows of the fit in most rows: "
                "is it a counter, or in another unit? Scores say little about such rows; leave counters out"
            )


def _encode_plain(encoder: Any, block: Block, encoded: np.ndarray) -> bool:
    """If all columns are numbers without gaps, as in an array, encode them at once; return whether that was so."""
    used = encoder.kinds_ != LEFT_OUT
    plain = np.isin(encoder.kinds_, (NUMBER, BOOLEAN, LEFT_OUT)).all()
    if not plain or encoder.n_missing_[used].any() or len(block.measured) < len(block.names):
        return False
    numbers = block.numbers[:, used] if not used.all() else block.numbers
    if not np.isfinite(numbers).all():
        return False
    np.subtract(numbers, encoder.center_[used], out=encoded, casting="same_kind")
    encoded /= encoder.scale_[used].astype(encoded.dtype)
    if encoder.scale == "robust":
        squashed = encoder.kinds_[used] != BOOLEAN
        encoded[:, squashed] = squash(encoded[:, squashed])
    return True


def _encode_number(encoder: Any, block: Block, j: int, place: int, encoded: np.ndarray, first: int) -> int:
    values = block.numbers[:, place].astype(np.float64)
    missing = np.isnan(values)
    if missing.any():
        if encoder.missing == "error":
            raise missing_value(block.names[j], first + int(missing.argmax()))
        values[missing] = encoder.fill_[j]
    if np.isinf(values).any():
        raise infinite_value(block.names[j], first + int(np.isinf(values).argmax()))
    at = 0
    if TIME in calendar_parts(encoder, j):
        scaled = (values - encoder.center_[j]) / encoder.scale_[j]
        encoded[:, 0] = squash(scaled) if encoder.scale == "robust" and encoder.kinds_[j] != BOOLEAN else scaled
        at = 1
    for period in circle_periods(encoder, j):
        encoded[:, at : at + 2] = circle(values, encoder.center_[j], period, circle_radius(encoder, j))
        at += 2
    if not encoder.n_missing_[j]:
        return at
    encoded[:, at] = missing  # scaled to unit variance, the indicator of a rare gap would outweigh the values
    return at + 1


def _encode_category(encoder: Any, block: Block, j: int, category: int, encoded: np.ndarray, first: int) -> int:
    labels = {label: place for place, label in enumerate(encoder.categories_[category])}
    n_labels, has_other, has_missing = len(labels), encoder.has_other_[category], bool(encoder.n_missing_[j])
    texts = _as_texts(block, j)
    if encoder.missing == "error" and (texts.codes < 0).any():
        raise missing_value(block.names[j], first + int((texts.codes < 0).argmax()))
    places = np.array([labels.get(label, -2) for label in texts.labels] + [-1], dtype=np.int64)[texts.codes]
    unseen = places == -2
    if has_other:
        places[unseen] = n_labels
    elif unseen.any():
        example, n_unseen = texts.labels[texts.codes[unseen.argmax()]], int(unseen.sum())
        where = "1 row" if n_unseen == 1 else f"{n_unseen:,} rows"
        warn(
            f"column {block.names[j]!r} holds values in {where} that were not there when the "
            f"model was fitted (first {example!r}): they count as none of its categories",
        )
    if has_missing:
        places[places == -1] = n_labels + has_other
    rows = np.flatnonzero(places >= 0)
    encoded[rows, places[rows]] = 1 / encoder.scale_[j]
    return n_labels + has_other + has_missing


def _check_kinds(encoder: Any, block: Block, first: int) -> None:
    """Raise if a column that held numbers in the fit does not now, or if dates differ in having a time zone."""
    if hasattr(encoder, "zoned_"):  # model files of older versions lack it
        dates = {j for j in np.flatnonzero(encoder.kinds_ == DATE).tolist() if block.kinds[j] == DATE}
        check_zones(replace(block, zoned=block.zoned & dates), frozenset(map(int, encoder.zoned_)) & dates)
    for j, kind in enumerate(encoder.kinds_):
        if kind not in (*NOT_ENCODED, CATEGORY) and block.kinds[j] not in (NUMBER, BOOLEAN, DATE):
            example, row = "", None
            if j in block.texts and block.texts[j].labels:
                place = first_unlike(block.texts[j].labels, kind)
                row = first + int(np.argmax(block.texts[j].codes == place))
                example = f" (first {block.texts[j].labels[place]!r} in row {row + 1})"
            what = "dates" if kind == DATE else "numbers"
            message = f"column {block.names[j]!r} is not numeric{example}: the model needs {what} there"
            raise ColumnError(block.names[j], row, message)


def squash(z: np.ndarray) -> np.ndarray:
    """z / sqrt(1 + (z / 3)^2), which is close to z near 0 and stays between -3 and 3."""
    with np.errstate(over="ignore"):
        return np.asarray(np.where(np.abs(z) > 1e100, np.sign(z) * SQUASHED, z / np.sqrt(1 + np.square(z / SQUASHED))))


def _as_texts(block: Block, j: int) -> Texts:
    """A categorical column as texts; numbers, which a file has if all its labels look like numbers, become text."""
    if j in block.texts:
        return block.texts[j]
    place = int(np.searchsorted(block.measured, j))
    if place == len(block.measured) or block.measured[place] != j:
        message = f"column {block.names[j]!r} holds neither text nor numbers: the model needs labels there"
        raise ColumnError(block.names[j], None, message)
    values = block.numbers[:, place]
    return texts_of(None if value != value else f"{value:g}" for value in values.tolist())


def decoded(encoder: Any, rows: np.ndarray) -> Any:
    """Encoded rows turned back into a table, as a frame of the library that the encoder was fitted to."""
    width = len(encoder.get_feature_names_out())
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"encoded rows have shape {rows.shape}, {width} columns are needed")
    found: dict[int, np.ndarray] = {}
    at = category = 0
    for j, kind in enumerate(encoder.kinds_):
        gaps = bool(encoder.n_missing_[j])
        if kind in NOT_ENCODED:
            continue
        if kind == CATEGORY:
            labels, has_other = encoder.categories_[category], encoder.has_other_[category]
            n_indicators = len(labels) + has_other + gaps
            found[j] = _labels(rows[:, at : at + n_indicators], labels, has_other)
            category += 1
        else:
            width = 2 * len(circle_periods(encoder, j)) + (TIME in calendar_parts(encoder, j))
            n_indicators = width + gaps
            missing = rows[:, at + width] > LIKELY if gaps else np.zeros(len(rows), dtype=bool)
            found |= _measured(encoder, j, rows[:, at : at + width], missing)
        at += n_indicators
    names = column_names(encoder)
    zoned = {names[j] for j in getattr(encoder, "zoned_", ())}  # model files of older versions lack it
    order = sorted(found)
    return _framed([names[j] for j in order], [found[j] for j in order], encoder.library_, zoned)


def _measured(encoder: Any, j: int, encoded: np.ndarray, missing: np.ndarray) -> dict[int, np.ndarray]:
    """The decoded values of column j of numbers or dates, by column number.

    For a joined date these are the columns that it was joined from; for a date whose time was left out, there are none.
    """
    kind, joined = encoder.kinds_[j], getattr(encoder, "joined_", {})
    if kind == CYCLE:
        period, lowest = circle_periods(encoder, j)[0], encoder.center_[j]
        values = np.round(on_circle(encoded, period) - lowest) % period + lowest
        return {j: _gapped(values, missing)}
    if TIME not in calendar_parts(encoder, j):
        return {}
    values = _number(encoder, j, kind, encoded[:, 0])
    if j != joined.get("year"):
        return {j: _gapped(values, missing)}
    days = values.astype(np.int64) / 86_400e6
    parts = split_date(np.where(missing, np.nan, days), list(joined))
    return {joined[role]: values for role, values in parts.items()}


def _number(encoder: Any, j: int, kind: str, values: np.ndarray) -> np.ndarray:
    if encoder.scale == "robust" and kind != BOOLEAN:
        values = np.clip(values, -SQUASHED * NEARLY_BOUND, SQUASHED * NEARLY_BOUND)
        values = values / np.sqrt(1 - np.square(values / SQUASHED))
    values = values * encoder.scale_[j] + encoder.center_[j]
    if kind == BOOLEAN:
        return np.asarray(values > LIKELY)
    if kind == DATE:
        days = np.clip(values, -100_000_000, 100_000_000)  # the range of a datetime64 in microseconds
        return (days * 86_400e6).astype(np.int64).astype("datetime64[us]")
    return values


def _gapped(values: np.ndarray, missing: np.ndarray) -> np.ndarray:
    if not missing.any():
        return values
    if values.dtype.kind == "M":
        return np.where(missing, np.datetime64("NaT", "us"), values)
    if values.dtype.kind == "b":
        return np.where(missing, np.array(None), values.astype(object))
    return np.where(missing, np.nan, values)


def _labels(indicators: np.ndarray, labels: np.ndarray, has_other: bool) -> np.ndarray:
    """For each row, the label with the largest indicator; None if it is the indicator of gaps."""
    choices = np.array([*labels, *[OTHER_LABEL] * has_other, None], dtype=object)
    return np.asarray(choices[indicators.argmax(axis=1)])


def _framed(names: list[str], columns: list[np.ndarray], library: str, zoned: set[str]) -> Any:
    """A frame of these columns; dates that had a time zone are in UTC."""
    if library == "numpy":
        plain = all(column.dtype.kind in "fb" for column in columns)
        return np.stack([column.astype(float) if plain else column.astype(object) for column in columns], axis=1)
    if library == "pandas":
        import pandas as pd

        frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
        return frame.assign(**{name: frame[name].dt.tz_localize("UTC") for name in zoned & set(names)})
    lists = {
        name: column.tolist() if column.dtype == object else column for name, column in zip(names, columns, strict=True)
    }
    if library == "polars":
        import polars as pl

        frame = pl.DataFrame(lists)
        return frame.with_columns(pl.col(name).dt.replace_time_zone("UTC") for name in zoned & set(names))
    import pyarrow as pa

    in_greenwich = pa.timestamp("us", tz="UTC")
    return pa.table(
        {name: pa.array(lists[name], type=in_greenwich) if name in zoned else lists[name] for name in lists}
    )
