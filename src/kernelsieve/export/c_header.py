"""to_c: a model as one C99 header, for any device with a C compiler and a few kilobytes."""

from __future__ import annotations

import os
import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..io.container import replacing
from .c_code import Source, literal, walk
from .float32 import (
    ByteColumns,
    in_bytes,
    n_usual_rows,
    probe_rows,
    relative_error,
    single_is_enough,
    warn_of_rounding,
)
from .model import Form, KernelCore, LinearCore, form_of
from .preprocessing import Affine, Fill, Spread

C_DTYPES = ("float32", "float64", "int8")
MAX_NAME = 40  # C99 distinguishes names by 63 characters, and suffixes are appended to ours


def to_c(
    model: Any, path: str | os.PathLike[str] | None = None, name: str | None = None, dtype: str = "float32"
) -> str:
    """A fitted model, or scalers and a model, as one C99 header that needs only math.h.

    The header has, for ``name="digits"``::

        #define DIGITS_N_FEATURES 64
        #define DIGITS_N_COMPONENTS 10
        void digits_scores(const float *x, float *scores);   what `transform` gives
        float digits_error(const float *x);                  what `reconstruction_error` gives, a monitor's SPE
        float digits_decision(const float *x);               of a monitor: negative where it raises an alarm

    all `static inline`, without allocation, and clean under ``-std=c99 -pedantic -Wall -Wextra -Werror``.  Where
    float32 arithmetic would cost more than a few millionths of the scores (wide kernels), the functions compute in
    double inside, and the comment of the header says so.

    Parameters
    ----------
    model : fitted estimator of kernelsieve, or Pipeline of scalers that ends in one
        StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, PCA and TableEncoder are written into the header; rows
        are then those of the raw table, NaN for gaps, and labels by the codes that the comment lists.
    path : str or path-like, optional
        The file, written whole or not at all.
    name : str, optional
        The prefix of all names in the header: letters, digits and underscores.  By default the file's own name.
    dtype : {"float32", "float64", "int8"}, default="float32"
        The type of rows, scores and points.  "int8": the points take one byte a value, the components are projected on
        these rounded points, and the comment states the error that is left, as measured; rows and scores are float.

    Returns
    -------
    str
        The text of the header.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import SparseKernelPCA
    >>> from kernelsieve.export import to_c
    >>> model = SparseKernelPCA(2, n_support=8, random_state=0).fit(load_iris().data)
    >>> print(to_c(model, name="iris").splitlines()[0])
    /* iris: 4 columns to 2 scores, SparseKernelPCA, made by kernelsieve 0.2.0
    """
    if dtype not in C_DTYPES:
        raise ValueError(f"dtype={dtype!r} is none of {', '.join(map(repr, C_DTYPES))}")
    name = checked_name(name if name is not None else name_from(path))
    form = form_of(model)
    text = _header(form, name, dtype)
    if dtype != "float64":
        warn_of_rounding(form)
    if path is not None:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")
    return text


def name_from(path: str | os.PathLike[str] | None) -> str:
    """A name for the header's functions, from that of its file."""
    if path is None:
        return "model"
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", Path(os.fsdecode(path)).stem).strip("_")[:MAX_NAME]
    return stem if stem[:1].isalpha() else f"model_{stem}"[:MAX_NAME].rstrip("_")


def checked_name(name: str) -> str:
    """`name`, if it is a valid C identifier."""
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}", name):
        raise ValueError(
            f"name={name!r} cannot begin names in C: give a letter, then letters, digits or underscores, "
            f"at most {MAX_NAME}"
        )
    return name


def _header(form: Form, name: str, dtype: str) -> str:
    rows = "double" if dtype == "float64" else "float"
    error, codes, points = "", None, rows
    if dtype == "float32":
        form, real, points = _in_float32(form)
    else:
        form, real = _about_middle(form, np.float64 if dtype == "float64" else np.float32), rows
    if dtype == "int8":
        form, codes, error = _in_bytes(form)
        real = _arithmetic(form)
    source = Source(name, rows, real, points)
    functions = [*walk(source, form, codes), *_public(source, form)]
    comment = _comment(source, form, dtype, error)
    guard = f"KERNELSIEVE_{name.upper()}_H"
    macros = [
        f"#define {name.upper()}_N_FEATURES {form.n_features}",
        f"#define {name.upper()}_N_COMPONENTS {form.n_components}",
    ]
    parts = [comment, f"#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n", "\n".join(macros) + "\n"]
    parts += ["\n\n".join(source.constants) + "\n", "\n".join(functions), f"#endif /* {guard} */\n"]
    return "\n".join(parts)


def _about_middle(form: Form, dtype: Any = np.float32) -> Form:
    """The form of a stationary kernel with its points moved to the origin: the front subtracts each column's middle."""
    core = form.core
    if isinstance(core, LinearCore):
        return form.centered(dtype)
    if not core.shifts:
        return form
    return form.shifted((core.points.min(axis=0) + core.points.max(axis=0)) / 2, dtype)


def _arithmetic(form: Form) -> str:
    # the promised error is 5e-6 of the largest score; the limit is lower, because other rows may have larger errors
    return "float" if single_is_enough(form, 3e-6) else "double"


def _in_float32(form: Form) -> tuple[Form, str, str]:
    """The form as computed in C, the type of the arithmetic and that of the points.

    Points are rounded to float32 if that costs next to nothing: in the units of the rows, or else relative to their
    middle.  Otherwise they are kept in double.
    """
    real = _arithmetic(form.centered())
    if isinstance(form.core, LinearCore):
        return form.centered(), real, "float"
    for candidate in (_in_units_of_rows(form), _about_middle(form)):
        if _cost_of_rounding(candidate) <= 1e-6:  # a fifth of the promised error
            return candidate, real, "float"
    return _about_middle(form), "double", "double"


def _cost_of_rounding(form: Form) -> float:
    """The error on the probe rows that is caused by rounding the points to float32 alone."""
    core = form.core
    assert isinstance(core, KernelCore)
    with np.errstate(over="ignore"):
        rounded = core.points.astype(np.float32).astype(np.float64)
    if not np.isfinite(rounded).all():
        return np.inf
    rounded[np.abs(rounded) < np.finfo(np.float32).tiny] = 0  # as `literal` writes them
    rows = probe_rows(form)
    rounded_core = replace(core, points=rounded)
    return relative_error(_core_scores(rounded_core, rows), _core_scores(core, rows), n_usual_rows(form))


def _core_scores(core: KernelCore, rows: np.ndarray) -> np.ndarray:
    """Scores of rows in the units of the points."""
    if core.units is None:
        return core.expansion.transform(rows)
    return replace(core, points=core.points * core.units).expansion.transform(rows * core.units)


def _in_units_of_rows(form: Form) -> Form:
    """The form with its scaler merged into a stationary kernel: |f (x - s)| for |f x - f s| saves a copy of the row."""
    core = form.core
    if isinstance(core, LinearCore) or not core.shifts:
        return form
    if not core.kernel.of_differences:
        return _about_middle(form)
    if len(form.front) != 1 or not isinstance(form.front[0], Affine):
        return form if not form.front else _about_middle(form)
    shift, factor = form.front[0].shift, form.front[0].factor
    if not np.all((np.abs(factor) > 1e-12) & (np.abs(factor) < 1e12)):  # otherwise float32 may not represent its square
        return _about_middle(form)
    units = None if np.all(factor == 1) else factor
    return replace(form, front=(), core=replace(core, points=core.points / factor + shift, units=units))


def _in_bytes(form: Form) -> tuple[Form, ByteColumns, str]:
    """The form with points of one byte per value, these points, and a sentence about the resulting error."""
    changed, codes = in_bytes(form)
    rows = probe_rows(form)[: n_usual_rows(form)]
    truth, scores = (replace(f, front=()).scores(rows) for f in (form, changed))
    spread = float(np.sqrt(np.mean(np.var(truth, axis=0)))) or 1.0
    rms = float(np.sqrt(np.mean((scores - truth) ** 2))) / spread
    largest = float(np.abs(scores - truth).max()) / (float(np.ptp(truth, axis=0).max()) or 1.0)
    words = f"{100 * rms:.2g} % of the scores' standard deviation, at most {100 * largest:.2g} % of their range"
    return changed, codes, words


def _public(source: Source, form: Form) -> list[str]:
    name, rows, real, width = source.name, source.rows, source.real, form.n_components
    zero = source.number(0.0)
    lines = [
        f"/* The {width} scores of a row x. */",
        f"static inline void {name}_scores(const {rows} *x, {rows} *scores) {{",
    ]
    if rows == real:
        lines += [f"    (void){name}_walk(x, scores);", "}", ""]
    else:
        lines += [f"    {real} inner[{width}];", "    int k;", f"    (void){name}_walk(x, inner);"]
        lines += [f"    for (k = 0; k < {width}; k++) scores[k] = ({rows})inner[k];", "}", ""]
    lines += ["/* Squared distance of a row's features to their reconstruction from the scores. */"]
    lines += [f"static inline {rows} {name}_error(const {rows} *x) {{", f"    {real} scores[{width}];"]
    lines += [f"    {real} rest = {name}_walk(x, scores), captured = {zero};"]
    mixing = form.core.mixing
    if mixing is None:
        lines += ["    int k;", f"    for (k = 0; k < {width}; k++) captured += scores[k] * scores[k];"]
    else:
        rank = mixing.shape[1]
        lines += ["    int k, r;", f"    for (r = 0; r < {rank}; r++) {{", f"        {real} along = {zero};"]
        lines += [f"        for (k = 0; k < {width}; k++) along += scores[k] * {source.array('mixing', mixing)}[k][r];"]
        lines += ["        captured += along * along;", "    }"]
    cast, large = "" if rows == real else f"({rows})", source.number(1e38 if source.single else 1e308)
    lines += [
        f"    rest -= captured < {large} ? captured : {large}; /* an infinite error, not infinity minus infinity */"
    ]
    lines += [f"    return {cast}(rest < {zero} ? {zero} : rest);", "}", ""]
    if form.limit is not None:
        lines += ["/* Of a monitor: negative where the row is not normal. */"]
        lines += [f"static inline {rows} {name}_decision(const {rows} *x) {{"]
        lines += [f"    return {literal(form.limit, rows)} - {name}_error(x);", "}", ""]
    return lines


def _comment(source: Source, form: Form, dtype: str, error: str) -> str:
    facts = form.facts
    kernel = facts.get("kernel", "none, in input space")
    parameters = ", ".join(
        f"{key[7:]} = {float(value):.6g}" for key, value in facts.items() if key.startswith("kernel_")
    )
    buffers = form.n_features + sum(len(s.source) for s in form.front if isinstance(s, Spread)) if form.front else 0
    stack = (buffers + 2 * form.n_components + 8) * (4 if source.single else 8)
    lines = [
        f"{source.name}: {form.n_features} columns to {form.n_components} scores, {facts['model']}, "
        f"made by kernelsieve {facts['producer'].split()[-1]}",
        "",
        f"kernel      {kernel}" + (f" ({parameters})" if parameters else ""),
        f"points      {facts['n_support']}" if "n_support" in facts else "",
        f"fitted to   {int(facts['n_samples_seen']):,} rows" if "n_samples_seen" in facts else "",
        f"numbers     {dtype}; arithmetic in {source.real}",
        f"error       of points in one byte a value: {error}" if error else "",
        f"sizes       {source.n_bytes:,} bytes of constants; about {stack:,} bytes of stack; code below 1 kB at -Os",
        f"columns     {', '.join(form.input_names)}" if form.input_names else "",
        *(f"column      {c.name}: {c.words(texts=False)}" for c in form.columns if c.words(texts=False)),
        "gaps        are given as NaN" if any(isinstance(s, Fill) for s in form.front) else "",
    ]
    shown = [_for_comment(line) for number, line in enumerate(lines) if line or number == 1]
    return "/* " + "\n * ".join(piece for line in shown for piece in _folded(line)).replace(" * \n", " *\n") + "\n */"


def _for_comment(text: str) -> str:
    """Text that neither begins nor ends a comment, nor has any other meaning for a compiler."""
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    for mark in ("*/", "/*", "??"):
        while mark in text:
            text = text.replace(mark, f"{mark[0]} {mark[1]}")
    return text.replace("\\", "|")


def _folded(line: str) -> list[str]:
    return textwrap.wrap(line, 110, subsequent_indent=" " * 12, break_long_words=True) or [""]
