"""The C99 source of a model: constants, and one function that walks over the points.

Nothing is allocated, the only globals are constants, and only math.h is needed.  A row is copied to the stack only if
a scaler comes before the kernel.  Distances are sums of squared differences, without cancellation; rows of 1e30
overflow to an infinite distance, as they should; NaN stays NaN.  A kernel is written with the operations of ops.py: a
sum over columns becomes a loop, all else an expression.  The steps before the kernel become loops over a buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

import numpy as np

from .float32 import ByteColumns
from .model import Form, KernelCore, LinearCore
from .ops import NUMPY, Ops
from .preprocessing import IS_GAP, SQUASH_FROM, VALUE, Affine, Clip, ExportError, Fill, Mix, Spread, Squash, Step, Turn

OWN = "the row itself"  # is given in place of a point to compute k(x, x)
MATH = {"exp": "exp", "log": "log", "sin": "sin", "sqrt": "sqrt", "tanh": "tanh", "abs": "fabs"}  # in math.h
WHOLE = {"signed char": 1, "short": 2, "int": 4}  # integer types and their bytes


@dataclass
class Source:
    """The program being written: the types in use, the constants so far and their bytes."""

    name: str
    rows: str  # the type of rows and scores, "float" or "double"
    real: str  # the type of the arithmetic
    points: str  # the type of the points
    constants: list[str] = field(default_factory=list)
    n_bytes: int = 0

    @property
    def single(self) -> bool:
        return self.real == "float"

    def call(self, function: str) -> str:
        """The name of a function of math.h in the precision of the arithmetic."""
        return f"{function}f" if self.single else function

    def number(self, value: float) -> str:
        """A literal of the arithmetic's type that is read back without loss."""
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
        if len(line) + len(piece) + 1 > 108 and line.strip():  # so that a line is no longer than a line of code
            lines.append(line.rstrip())
            line = indent
        line += piece + " "
    return "\n".join([*lines, line.rstrip()])


def literal(value: float, kind: str) -> str:
    """The shortest decimal that reads back as this number."""
    if kind == "double":
        text = repr(float(value))
        if not np.isfinite(value):
            raise ExportError("the model holds NaN or infinity: it cannot be exported")
        return text if any(mark in text for mark in ".en") else f"{text}.0"
    with np.errstate(over="ignore"):
        short = np.float32(value)
    if not np.isfinite(short):
        raise ExportError(f"{value:.3g} does not fit into float32: export with dtype='float64'")
    if abs(short) < np.finfo(np.float32).tiny:
        short = np.float32(0)  # a compiler may flush such numbers to zero anyway
    text = repr(float(str(short)))
    return f"{text}f"


def _operator(sign: str, level: int) -> tuple[Any, Any]:
    """Two methods of an expression that write `a sign b`: with the expression on the left, and on the right."""

    def left(self: Expression, other: Any) -> Expression:
        return Expression(self.source, f"{self.at(level)} {sign} {self._of(other).at(level + 1)}", level)

    def right(self: Expression, other: Any) -> Expression:
        return left(self._of(other), self)

    return left, right


@dataclass(frozen=True)
class Expression:
    """A C expression, and its precedence: 0 for sums, 1 for products, 2 for a name, a number or a call."""

    source: Source
    text: str
    level: int = 2

    def _of(self, other: Any) -> Expression:
        return other if isinstance(other, Expression) else Expression(self.source, self.source.number(float(other)))

    def at(self, level: int) -> str:
        """The text, in brackets if its precedence is below `level`."""
        return self.text if self.level >= level else f"({self.text})"

    __add__, __radd__ = _operator("+", 0)
    __sub__, __rsub__ = _operator("-", 0)
    __mul__, __rmul__ = _operator("*", 1)
    __truediv__, __rtruediv__ = _operator("/", 1)

    def __neg__(self) -> Expression:
        return Expression(self.source, f"-{self.at(2)}", 1)

    def __pow__(self, exponent: float) -> Expression:
        call = self.source.call("pow")
        return Expression(self.source, f"{call}({self.text}, {self.source.number(exponent)})")


@dataclass
class Loops(Ops):
    """A kernel of one row and one point, in C: statements before the loop over the points, and statements in it.

    `u` and `point` are the C expressions for column j of the row and of point i.  The arguments `rows` and `points` of
    the methods stand for that row and that point; their values are not used, except that `OWN` marks k(x, x).
    """

    source: Source
    core: KernelCore
    u: str
    point: str
    points: np.ndarray  # (m, width), as the kernel sees them
    before: list[str] = field(default_factory=list)  # statements for each row, before the loop
    lines: list[str] = field(default_factory=list)  # statements for each point; those of k(x, x) come after the loop
    names: list[str] = field(default_factory=list)  # variables in use, shared by all parts of a kernel
    lengths: dict[str, str] = field(default_factory=dict)  # variables with the lengths of rows; the key is `u`
    held: dict[tuple[Any, ...], str] = field(default_factory=dict)  # constant arrays; the key is kind and values

    @property
    def _apart(self) -> str:
        return f"({self.u}) - {self.point}" if " " in self.u else f"{self.u} - {self.point}"

    def _named(self, what: str) -> str:
        self.names.append(what)
        return what if len(self.names) == 1 else f"{what}{len(self.names)}"

    def _sum(self, what: str, term: str) -> Expression:
        """A sum over columns j of a term, which may begin with its own declaration."""
        name, width = self._named(what), self.points.shape[1]
        *declared, term = term.rsplit("; ", 1)
        first = f"{declared[0]}; " if declared else ""
        self.lines.append(f"{self.source.real} {name} = {self.source.number(0.0)};")
        self.lines.append(f"for (j = 0; j < {width}; j++) {{ {first}{name} += {term}; }}")
        return Expression(self.source, name)

    def _value(self, text: str) -> Expression:
        return Expression(self.source, text, 0 if " " in text else 2)

    def column_sums(self, term: Any, rows: Any, points: Any) -> Expression:
        name, inner = self._named("sum"), replace(self, lines=[])
        x = inner.keep(self._value(self.u))
        s = x if rows is OWN else inner.keep(self._value(self.point))
        last = term(inner, x, s)
        self.lines += [
            f"{self.source.real} {name} = {self.source.number(0.0)};",
            f"for (j = 0; j < {self.points.shape[1]}; j++) {{",
            *indented([*inner.lines, f"{name} += {last.text};"]),
            "}",
        ]
        return Expression(self.source, name)

    def square_sums(self, rows: Any, points: Any) -> Expression:
        return self.column_sums(lambda _, x, s: x * x + s * s, rows, points)

    def on_columns(self, rows: Any, points: Any, columns: tuple[int, ...]) -> tuple[Any, Any, Any]:
        kind = "short" if max(columns) < 2**15 else "int"
        place = self._held("columns", np.asarray(columns), kind)
        u, point = (text.replace("[j]", f"[{place}[j]]") for text in (self.u, self.point))
        return replace(self, u=u, point=point, points=self.points[:, list(columns)]), rows, points

    def with_factors(self, rows: Any, points: Any, factors: np.ndarray) -> tuple[Any, Any, Any]:
        factor = f"{self._held('factors', factors)}[j]"
        u, point = (f"({text}) * {factor}" if " " in text else f"{text} * {factor}" for text in (self.u, self.point))
        return replace(self, u=f"({u})", point=f"({point})", points=self.points * factors), rows, points

    def _held(self, what: str, values: np.ndarray, kind: str | None = None) -> str:
        """The name of a constant array, which is declared once."""
        key = (what, *values.tolist())
        if key not in self.held:
            number = 1 + sum(known[0] == what for known in self.held)
            self.held[key] = self.source.array(what if number == 1 else f"{what}{number}", values, kind)
        return self.held[key]

    def inverse_lengths(self, kernel: Any, rows: Any, points: Any) -> Any:
        ahead = replace(self, lines=self.before)
        own, others = kernel.forward_diagonal(ahead, OWN), kernel.forward_diagonal(NUMPY, self.points)
        if isinstance(own, float):
            return 1.0 / own
        root, zero = self.source.call("sqrt"), self.source.number(0.0)
        length = ahead.keep(own).text
        inverse = ahead.keep(Expression(self.source, f"({length} > {zero} ? 1 / {root}({length}) : {zero})"))
        with np.errstate(divide="ignore"):
            known = self._held("inverse_lengths", np.where(others > 0, others**-0.5, 0.0))
        return inverse * Expression(self.source, f"{known}[i]")

    def equal(self, x: Expression, y: Any) -> Expression:
        one, zero = self.source.number(1.0), self.source.number(0.0)
        return self.keep(Expression(self.source, f"({x.at(1)} == {x._of(y).at(1)} ? {one} : {zero})"))

    def _units(self, units: np.ndarray | None) -> str:
        return "" if units is None else f"{self.source.array('units', units)}[j] * "

    def squared_distances(self, rows: Any, points: Any) -> Expression:
        units = None if self.core.units is None else self.core.units**2
        return self._sum("sum", f"const {self.source.real} t = {self._apart}; {self._units(units)}t * t")

    def absolute_distances(self, rows: Any, points: Any) -> Expression:
        units = None if self.core.units is None else np.abs(self.core.units)
        return self._sum("sum", f"{self._units(units)}{self.source.call('fabs')}({self._apart})")

    def products(self, rows: Any, points: Any, factor: float = 1.0) -> Expression:
        found = self._sum("sum", f"{self.u} * {self.point}")
        return found if factor == 1 else factor * found

    def squares(self, rows: Any, *, keep: bool = False) -> Expression:
        return self._sum("square", f"{self.u} * {self.u}")

    def cosines(self, rows: Any, points: Any) -> Expression:
        source, width, zero = self.source, self.points.shape[1], self.source.number(0.0)
        number = "" if not self.lengths else str(len(self.lengths) + 1)
        largest, length = f"largest{number}", f"length{number}"
        self.lengths[self.u] = length
        self.before += [
            f"{source.real} {largest} = {zero}, {length} = {zero};",
            f"for (j = 0; j < {width}; j++) {{",
            f"    const {source.real} t = {source.call('fabs')}({self.u});",
            f"    if (!(t <= {largest})) {largest} = t; /* NaN too */",
            "}",
            f"if ({largest} == {zero}) {largest} = {source.number(1.0)};",
            f"for (j = 0; j < {width}; j++) {{ const {source.real} t = ({self.u}) / {largest}; {length} += t * t; }}",
            f"{length} = {source.call('sqrt')}({length});",
        ]
        norms = np.sqrt(np.sum(self.points**2, axis=1))
        inverse = source.array(f"inverse_norms{number}", 1 / np.where(norms > 0, norms, np.inf))
        toward = self._sum("sum", f"({self.u}) / {largest} * {self.point}")
        quotient = f"({length} > {zero} ? {toward.text} / {length} : {toward.text}) * {inverse}[i]"
        return Expression(source, quotient, 1)

    def nonzero(self, rows: Any) -> Expression:
        zero, one = self.source.number(0.0), self.source.number(1.0)
        length = self.lengths[self.u]
        return Expression(self.source, f"({length} > {zero} ? {one} : {length})")

    def keep(self, x: Expression) -> Expression:
        name = self._named("t")
        self.lines.append(f"const {self.source.real} {name} = {x.text};")
        return Expression(self.source, name)

    def minimum(self, x: Expression, number: float) -> Expression:
        return self._bounded(x, number, ">")

    def maximum(self, x: Expression, number: float) -> Expression:
        return self._bounded(x, number, "<")

    def _bounded(self, x: Expression, number: float, sign: str) -> Expression:
        kept, bound = self.keep(x).text, self.source.number(number)
        return Expression(self.source, f"({kept} {sign} {bound} ? {bound} : {kept})")

    def __getattr__(self, name: str) -> Any:
        """A function that writes a call of math.h."""
        if name not in MATH:
            raise AttributeError(name)
        return lambda x: self.keep(Expression(self.source, f"{self.source.call(MATH[name])}({x.text})"))


def indented(lines: list[str]) -> list[str]:
    """The lines, one level further to the right."""
    return [f"    {line}" for line in lines]


def walk(source: Source, form: Form, codes: ByteColumns | None) -> list[str]:
    """The C function that fills in the scores and returns the squared distance to the mean."""
    core = form.core
    prepare, u = prepared_rows(source, form)
    head = f"static inline {source.real} {source.name}_walk(const {source.rows} *x, {source.real} *scores) {{"
    if isinstance(core, KernelCore):
        return [head, *indented(["int i, j, k;", *prepare, *_walk_points(source, core, u, codes)]), "}", ""]
    return [head, *indented(["int j, k;", *prepare, *_walk_linear(source, core, u, codes)]), "}", ""]


def _walk_points(source: Source, core: KernelCore, u: str, codes: ByteColumns | None) -> list[str]:
    n_components, zero = core.coef.shape[1], source.number(0.0)
    loops = Loops(source, core, u, _point(source, core, codes), core.points)
    value = core.kernel.forward(loops, None, None)
    own = replace(loops, lines=[])
    diagonal = Expression(source, zero)._of(core.kernel.forward_diagonal(own, OWN))
    weights = source.array("coef", core.coef)
    lines = [f"{source.real} toward = {zero};", *loops.before, *_started(source, -core.offset, n_components)]
    lines += [f"for (i = 0; i < {len(core.points)}; i++) {{", f"    {source.real} value;", *indented(loops.lines)]
    lines += [f"    value = {value.text};"]
    lines += [f"    for (k = 0; k < {n_components}; k++) scores[k] += value * {weights}[i][k];"]
    if core.mean_coef is None:
        return [*lines, "}", *own.lines, f"return {diagonal.text} + toward;"]
    lines += [f"    toward += value * {source.array('mean_coef', core.mean_coef)}[i];", "}", *own.lines]
    return [*lines, f"return {diagonal.text} - {source.number(2.0)} * toward + {source.number(core.mean_square)};"]


def _point(source: Source, core: KernelCore, codes: ByteColumns | None) -> str:
    """The expression for column j of point i."""
    if codes is None:
        point = f"{source.array('points', core.points, source.points)}[i][j]"
        return point if source.points == source.real else f"({source.real}){point}"
    point = f"{source.array('step', codes.step)}[j] * {source.array('points', codes.codes, 'signed char')}[i][j]"
    return f"({source.array('base', codes.base)}[j] + {point})" if np.any(codes.base) else f"({point})"


def _started(source: Source, values: np.ndarray, n_components: int) -> list[str]:
    if not np.any(values):
        return [f"for (k = 0; k < {n_components}; k++) scores[k] = {source.number(0.0)};"]
    return [f"for (k = 0; k < {n_components}; k++) scores[k] = {source.array('start', values)}[k];"]


def _walk_linear(source: Source, core: LinearCore, u: str, codes: ByteColumns | None) -> list[str]:
    d, n_components = core.coef.shape
    zero = source.number(0.0)
    lines = [f"{source.real} square = {zero};"]
    if codes is None:
        lines += _started(source, -core.offset, n_components)
        weight = f"{source.array('weights', core.coef)}[j][k]"
    else:
        lines += [f"for (k = 0; k < {n_components}; k++) scores[k] = {zero};"]
        weight = f"{source.array('weights', codes.codes, 'signed char')}[j][k]"
    lines += [f"for (j = 0; j < {d}; j++) {{", f"    const {source.real} t = {u};", "    square += t * t;"]
    lines += [f"    for (k = 0; k < {n_components}; k++) scores[k] += t * {weight};", "}"]
    if codes is not None:
        step, start = source.array("step", codes.step), source.array("start", -core.offset)
        lines += [f"for (k = 0; k < {n_components}; k++) scores[k] = scores[k] * {step}[k] + {start}[k];"]
    return [*lines, "return square;"]


def prepared_rows(source: Source, form: Form) -> tuple[list[str], str]:
    """The statements that compute u from x, and the expression for u_j; each step is a loop over a stack buffer."""
    front = form.in_float32().front if source.single else form.front
    lines: list[str] = []
    u = "x[j]" if source.rows == source.real else f"({source.real})x[j]"
    width, buffer = form.n_features, ""
    for number, step in enumerate(front):
        before = width
        if not buffer or isinstance(step, Mix | Spread):
            buffer = f"u{number}"
            width = step.matrix.shape[1] if isinstance(step, Mix) else width
            width = len(step.source) if isinstance(step, Spread) else width
            lines.append(f"{source.real} {buffer}[{width}];")
        lines += _loop(step, source, number, u, f"{buffer}[j]", before)
        u = f"{buffer}[j]"
    return lines, u


@singledispatch
def _loop(step: Step, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    """The loop that applies a step to the `width` values u_j and leaves the result in `to`."""
    raise NotImplementedError


def _in_place(source: Source, u: str, to: str, width: int, statements: list[str]) -> list[str]:
    """A loop whose statements change each value in place."""
    copied = [] if u == to else [f"{to} = {u};"]
    return [f"for (j = 0; j < {width}; j++) {{", *indented([*copied, *statements]), "}"]


@_loop.register
def _(step: Affine, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    if np.any(step.shift):
        u = f"{u} - {source.array(f'shift_{number}', step.shift)}[j]"
        if step.low is not None:
            u = f"({u}) - {source.array(f'shift_low_{number}', step.low)}[j]"
        u = f"({u})"
    if np.any(step.factor != 1):
        u = f"{u} * {source.array(f'factor_{number}', step.factor)}[j]"
    return [f"for (j = 0; j < {width}; j++) {to} = {u};"]


@_loop.register
def _(step: Mix, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    n_columns, matrix, to = step.matrix.shape[1], source.array(f"mix_{number}", step.matrix), to.replace("[j]", "[k]")
    return [
        f"for (k = 0; k < {n_columns}; k++) {to} = 0;",
        f"for (j = 0; j < {width}; j++)",
        f"    for (k = 0; k < {n_columns}; k++) {to} += ({u}) * {matrix}[j][k];",
    ]


@_loop.register
def _(step: Spread, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    kind, to = "short" if len(step.columns) < 2**15 else "int", to.replace("[j]", "[k]")  # a short ends at 2^15 - 1
    taken = u.replace("[j]", f"[{source.array(f'source_{number}', step.source, kind)}[k]]")
    if np.all(step.test == VALUE):
        return [f"for (k = 0; k < {len(step.source)}; k++) {to} = {taken};"]
    test = f"{source.array(f'test_{number}', step.test, 'short')}[k]"
    return [
        f"for (k = 0; k < {len(step.source)}; k++) {{ /* {VALUE}: the number; {IS_GAP}: is it a gap? else: is it this "
        "code? */",
        f"    const {source.real} t = {taken};",
        f"    const int found = {test} == {IS_GAP} ? t != t : t == ({source.real}){test};",
        f"    {to} = {test} == {VALUE} ? t : ({source.real})found;",
        "}",
    ]


@_loop.register
def _(step: Clip, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    return _in_place(source, u, to, width, _clipped(source, to, step.lower, step.upper))


@_loop.register
def _(step: Fill, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    fill = f"if ({to} != {to}) {to} = {source.array(f'fill_{number}', step.values)}[j]; /* a gap */"
    return _in_place(source, u, to, width, [fill])


@_loop.register
def _(step: Squash, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    share, root = f"({to} * {source.number(1 / step.bound)})", source.call("sqrt")
    lines = [*_clipped(source, to, -SQUASH_FROM, SQUASH_FROM)]
    lines += [f"{to} /= {root}({source.number(1.0)} + {share} * {share});"]
    if not step.where.all():
        drawn_in = source.array(f"drawn_in_{number}", step.where, "signed char")
        lines = [f"if ({drawn_in}[j]) {{", *indented(lines), "}"]
    return _in_place(source, u, to, width, lines)


@_loop.register
def _(step: Turn, source: Source, number: int, u: str, to: str, width: int) -> list[str]:
    radius, phase = (source.array(f"{name}_{number}", getattr(step, name)) for name in ("radius", "phase"))
    turn = f"{source.number(2 * np.pi)} * ({to} + {phase}[j])"
    line = f"if ({radius}[j] != 0) {to} = {radius}[j] * {source.call('sin')}({turn}); /* on a circle */"
    return _in_place(source, u, to, width, [line])


def _clipped(source: Source, u: str, lower: float, upper: float) -> list[str]:
    low, high = source.number(lower), source.number(upper)
    return [f"if ({u} < {low}) {u} = {low};", f"if ({u} > {high}) {u} = {high};"]
