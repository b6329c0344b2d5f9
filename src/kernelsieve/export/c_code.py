"""The C99 text of a form: constants, one function that walks over the points, and what is asked of it.

Nothing is allocated, nothing is global but constants, and only math.h is needed.  A row is copied to the stack only
where a scaler comes before the kernel.  Distances are sums of squared differences, which cancel nothing; rows of 1e30
overflow to an infinite distance, as they should; NaN stays NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..kernels import RBF, Cosine, Laplacian, Polynomial, Sigmoid
from .cores import KernelCore, LinearCore
from .forms import Form
from .precision import ByteColumns
from .steps import ExportError

LINE = 108  # columns of a line of numbers
WHOLE = {"signed char": 1, "short": 2, "int": 4}  # bytes


@dataclass
class Source:
    """What is being written: the types in use, the constants so far and their bytes."""

    name: str
    rows: str  # "float" or "double": of rows and scores
    real: str  # of the arithmetic
    points: str  # of the points
    constants: list[str] = field(default_factory=list)
    n_bytes: int = 0

    @property
    def single(self) -> bool:
        return self.real == "float"

    def call(self, function: str) -> str:
        """The name of a function of math.h in the precision of the arithmetic."""
        return f"{function}f" if self.single else function

    def number(self, value: float) -> str:
        """A literal of the arithmetic's type, to its last digit."""
        return literal(value, self.real)

    def array(self, what: str, values: np.ndarray, kind: str | None = None) -> str:
        """Declare a constant array; returns its name."""
        kind = kind or self.real
        name, sizes = f"{self.name}_{what}", "".join(f"[{size}]" for size in values.shape)
        if kind in WHOLE:
            words, width = [str(int(value)) for value in values.ravel()], WHOLE[kind]
        else:
            words, width = [literal(float(value), kind) for value in values.ravel()], 4 if kind == "float" else 8
        if values.ndim == 2:
            rows = [words[i : i + values.shape[1]] for i in range(0, len(words), values.shape[1])]
            body = ",\n".join("    {" + _wrapped(row, "     ").lstrip() + "}" for row in rows)
        else:
            body = _wrapped(words, "    ")
        self.constants.append(f"static const {kind} {name}{sizes} = {{\n{body}\n}};")
        self.n_bytes += width * values.size
        return name


def _wrapped(words: list[str], indent: str) -> str:
    lines, line = [], indent
    for number, word in enumerate(words):
        piece = word + ("," if number < len(words) - 1 else "")
        if len(line) + len(piece) + 1 > LINE and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += piece + " "
    return "\n".join([*lines, line.rstrip()])


def literal(value: float, kind: str) -> str:
    """The shortest decimal that reads back as this number."""
    if kind == "double":
        text = repr(float(value))
        if not np.isfinite(value):
            raise ExportError("the model holds NaN or infinity: nothing sensible can be exported")
        return text if any(mark in text for mark in ".en") else f"{text}.0"
    with np.errstate(over="ignore"):
        short = np.float32(value)
    if not np.isfinite(short):
        raise ExportError(f"{value:.3g} does not fit into float32: export with dtype='float64'")
    if abs(short) < np.finfo(np.float32).tiny:
        short = np.float32(0)  # what a compiler may flush anyway
    text = repr(float(str(short)))
    return f"{text}f"


@dataclass(frozen=True)
class Loop:
    """The kernel in C: what is set up for a row, what a column adds for a point, and k from that."""

    before: list[str]
    start: str
    column: str
    value: list[str]  # statements that leave k in `value`
    own: str  # k(u, u), from `square` where it is used
    needs_square: bool


def kernel_loop(source: Source, core: KernelCore, u: str, point: str) -> Loop:
    """The kernel of a core as C; `point` is the expression for s_ij."""
    kernel, width = core.kernel, core.points.shape[1]
    one, zero = source.number(1.0), source.number(0.0)
    if isinstance(kernel, RBF | Laplacian):
        between = f"({u}) - {point}" if " " in u else f"{u} - {point}"
        square = isinstance(kernel, RBF)
        weight, exponent = "", f"{source.number(-kernel.gamma)} * sum"
        if core.units is not None:
            units = core.units**2 if square else np.abs(core.units)
            weight, exponent = f"{source.array('units', kernel.gamma * units)}[j] * ", "-sum"
        column = f"sum += {weight}{source.call('fabs')}({between});"
        if square:
            column = f"const {source.real} t = {between}; sum += {weight}t * t;"
        return Loop([], zero, column, [f"value = {source.call('exp')}({exponent});"], one, False)
    if isinstance(kernel, Cosine):
        largest = [f"{source.real} largest = {zero}, length = {zero};"]
        largest += [f"for (j = 0; j < {width}; j++) {{", f"    const {source.real} t = {source.call('fabs')}({u});"]
        largest += ["    if (!(t <= largest)) largest = t; /* NaN too */", "}"]
        largest += [f"if (largest == {zero}) largest = {one};"]
        scaled = f"({u}) / largest"
        largest += [f"for (j = 0; j < {width}; j++) {{ const {source.real} t = {scaled}; length += t * t; }}"]
        largest += [f"length = {source.call('sqrt')}(length);"]
        value = [f"value = length > {zero} ? sum / length : sum;"]
        return Loop(largest, zero, f"sum += {scaled} * {point};", value, f"(length > {zero} ? {one} : length)", False)
    assert isinstance(kernel, Polynomial | Sigmoid)
    gamma, coef0 = source.number(kernel.gamma), source.number(kernel.coef0)
    base = f"{gamma} * {{}} + {coef0}"
    own = f"{source.name}_kernel({base.format('square')})"
    return Loop([], zero, f"sum += {u} * {point};", [f"value = {source.name}_kernel({base.format('sum')});"], own, True)


def kernel_function(source: Source, core: KernelCore) -> list[str]:
    """The function of gamma x's + coef0 that a polynomial or sigmoid kernel is."""
    kernel = core.kernel
    if isinstance(kernel, Sigmoid):
        body = [f"    return {source.call('tanh')}(t);"]
    elif isinstance(kernel, Polynomial) and kernel.degree == int(kernel.degree) and 1 <= kernel.degree <= 64:
        body, powers, remaining = [], [], int(kernel.degree)
        term, number = "t", 1
        while remaining:
            if remaining % 2:
                powers.append(term)
            remaining //= 2
            if remaining:
                number *= 2
                body.append(f"    const {source.real} t{number} = {term} * {term};")
                term = f"t{number}"
        body.append(f"    return {' * '.join(powers)};")
    elif isinstance(kernel, Polynomial):
        body = [f"    return {source.call('pow')}(t, {source.number(kernel.degree)});"]
    else:
        return []
    return [f"static inline {source.real} {source.name}_kernel({source.real} t) {{", *body, "}", ""]


def indented(lines: list[str]) -> list[str]:
    """The same lines, further in."""
    return [f"    {line}" for line in lines]


def walk(source: Source, form: Form, codes: ByteColumns | None, prepare: list[str], u: str) -> list[str]:
    """The function that fills the scores and returns the squared distance to the mean; `prepare` makes u of x."""
    core = form.core
    head = f"static inline {source.real} {source.name}_walk(const {source.rows} *x, {source.real} *scores) {{"
    declare = ["int i, j, k;"] if isinstance(core, KernelCore) else ["int j, k;"]
    body = (
        _walk_points(source, core, u, codes) if isinstance(core, KernelCore) else _walk_linear(source, core, u, codes)
    )
    before = kernel_function(source, core) if isinstance(core, KernelCore) else []
    return [*before, head, *indented([*declare, *prepare, *body]), "}", ""]


def _walk_points(source: Source, core: KernelCore, u: str, codes: ByteColumns | None) -> list[str]:
    m, d = core.points.shape
    n_components = core.coef.shape[1]
    coef, mean_coef = core.coef, core.mean_coef
    if isinstance(core.kernel, Cosine):  # the points' lengths go into what they are multiplied by
        norms = np.sqrt(np.sum(core.points**2, axis=1))
        norms = np.where(norms > 0, norms, np.inf)
        coef, mean_coef = coef / norms[:, None], None if mean_coef is None else mean_coef / norms
    if codes is None:
        point = f"{source.array('points', core.points, source.points)}[i][j]"
        point = point if source.points == source.real else f"({source.real}){point}"
    else:
        point = f"{source.array('step', codes.step)}[j] * {source.array('points', codes.codes, 'signed char')}[i][j]"
        if np.any(codes.base):
            point = f"({source.array('base', codes.base)}[j] + {point})"
        elif isinstance(core.kernel, Polynomial | Sigmoid | Cosine):
            point = f"({point})"
    loop = kernel_loop(source, core, u, point)
    weights, zero = source.array("coef", coef), source.number(0.0)
    lines = [f"{source.real} toward = {zero};", *loop.before]
    lines += _started(source, -core.offset, n_components)
    lines += [f"for (i = 0; i < {m}; i++) {{", f"    {source.real} sum = {loop.start}, value;"]
    lines += [f"    for (j = 0; j < {d}; j++) {{ {loop.column} }}", *indented(loop.value)]
    lines += [f"    for (k = 0; k < {n_components}; k++) scores[k] += value * {weights}[i][k];"]
    if mean_coef is not None:
        lines += [f"    toward += value * {source.array('mean_coef', mean_coef)}[i];"]
    lines += ["}"]
    if loop.needs_square:
        lines += [f"{source.real} square = {zero};", f"for (j = 0; j < {d}; j++) square += {u} * {u};"]
    rest = (
        f" - {source.number(2.0)} * toward + {source.number(core.mean_square)}"
        if mean_coef is not None
        else " + toward"
    )
    return [*lines, f"return {loop.own}{rest};"]


def _started(source: Source, values: np.ndarray, n_components: int) -> list[str]:
    if not np.any(values):
        return [f"for (k = 0; k < {n_components}; k++) scores[k] = {source.number(0.0)};"]
    return [f"for (k = 0; k < {n_components}; k++) scores[k] = {source.array('start', values)}[k];"]


def _walk_linear(source: Source, core: LinearCore, u: str, codes: ByteColumns | None) -> list[str]:
    d, n_components = core.weights.shape
    zero = source.number(0.0)
    lines = [f"{source.real} square = {zero};"]
    if codes is None:
        lines += _started(source, core.constant, n_components)
        weight = f"{source.array('weights', core.weights)}[j][k]"
    else:
        lines += [f"for (k = 0; k < {n_components}; k++) scores[k] = {zero};"]
        weight = f"{source.array('weights', codes.codes, 'signed char')}[j][k]"
    lines += [f"for (j = 0; j < {d}; j++) {{", f"    const {source.real} t = {u};", "    square += t * t;"]
    lines += [f"    for (k = 0; k < {n_components}; k++) scores[k] += t * {weight};", "}"]
    if codes is not None:
        step, start = source.array("step", codes.step), source.array("start", core.constant)
        lines += [f"for (k = 0; k < {n_components}; k++) scores[k] = scores[k] * {step}[k] + {start}[k];"]
    return [*lines, "return square;"]
