"""Raw tables with everything that tables have, and their rows as an exported model takes them."""

import datetime

import numpy as np
import polars as pl
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
STRING = onnx.TensorProto.STRING
DOUBLE = onnx.TensorProto.DOUBLE


def numbers(n_rows, seed):
    """Columns of several sizes, far from zero, heavy-tailed; all exact in float32."""
    rng = np.random.default_rng(seed)
    columns = {
        "pressure": 1000 + rng.standard_normal(n_rows),
        "flow rate [m³/h]": 1e-3 * rng.standard_normal(n_rows),
        "price": rng.lognormal(size=n_rows),
    }
    return pl.DataFrame({name: values.astype(np.float32).astype(float) for name, values in columns.items()})


def table(n_rows, seed):
    """The numbers with gaps, and all else that tables have; `id` is left out by the fit."""
    rng = np.random.default_rng(seed + 1000)
    start = datetime.datetime(2024, 1, 1)
    frame = numbers(n_rows, seed)
    gaps = rng.random(n_rows) < 0.2
    return frame.with_columns(
        pl.Series("price", [None if gap else value for gap, value in zip(gaps, frame["price"], strict=True)]),
        id=pl.Series(np.arange(n_rows)),
        colour=pl.Series([("red", "blue", None, "green, tea")[i] for i in rng.integers(0, 4, n_rows)]),
        city=pl.Series([f"city {i}" for i in np.minimum(rng.geometric(0.08, n_rows), 50)]),
        paid=pl.Series([("ja", "nein")[i] for i in rng.integers(0, 2, n_rows)]),
        open=pl.Series(rng.integers(0, 2, n_rows).astype(bool)),
        day=pl.Series([start + datetime.timedelta(hours=int(h)) for h in rng.integers(0, 3000, n_rows)]),
    )


def changed(frame, *cells):
    for row, name, value in cells:
        values = frame[name].to_list()
        values[row] = value
        frame = frame.with_columns(pl.Series(name, values, dtype=frame[name].dtype))
    return frame


FAR = ((0, "price", 1e6), (1, "price", -1e9), (2, "pressure", 0.0), (3, "flow rate [m³/h]", 1e4))
ODD = (
    (4, "paid", "vielleicht"),
    (5, "paid", None),
    (6, "city", "nowhere"),
    (7, "city", None),
    (8, "colour", "pink"),
    (9, "pressure", None),
    (10, "open", None),
    (11, "day", None),
)


def days(series):
    return series.dt.timestamp("us").cast(pl.Float64).fill_null(np.nan).to_numpy() / 86_400e6


def measured(series):
    return days(series) if series.dtype == pl.Datetime else series.cast(pl.Float64).fill_null(np.nan).to_numpy()


def feeds(proto, frame):
    """The raw columns, as the file asks for them."""
    found = {}
    for value in proto.graph.input:
        kind = value.type.tensor_type.elem_type
        if kind == STRING:
            column = np.array([text or "" for text in frame[value.name]], dtype=object)
        else:
            column = measured(frame[value.name]).astype(np.float64 if kind == DOUBLE else np.float32)
        found[value.name] = column[:, None]
    return found


def as_numbers(frame, encoder):
    """Rows of numbers, with labels by their places in the encoder's list."""
    labels = iter(encoder.categories_)
    columns = []
    for name, kind in zip(encoder.feature_names_in_, encoder.kinds_, strict=True):
        if kind == "category":
            known = {label: code for code, label in enumerate(next(labels))}
            columns.append([np.nan if text is None else known.get(text, len(known)) for text in frame[name]])
        elif kind != "left out":
            columns.append(measured(frame[name]))
    return np.array(columns, dtype=float).T


def worst(found, scores, n_far=4):
    """The largest error, relative to the row's largest score or to that of the rows which are not far."""
    assert found.shape == scores.shape
    largest = np.abs(scores).max(axis=1, keepdims=True)
    return float((np.abs(found - scores) / np.maximum(largest, largest[n_far:].max())).max())
