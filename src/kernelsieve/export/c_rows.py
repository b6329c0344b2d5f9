"""What happens to a row before the kernel sees it, in C: each step is a loop over a buffer on the stack."""

from __future__ import annotations

import numpy as np

from .c_code import Source, indented
from .forms import Form
from .steps import GAP, SHIFT_ROUNDING, SQUASH_FROM, VALUE, Affine, Clip, Fill, Mix, Spread, Squash, Step, split

MOST_SHORT = 2**15  # columns that a short can number


def prepare_rows(source: Source, form: Form) -> tuple[list[str], str]:
    """(the statements that make u of x, the expression for u_j)."""
    lines: list[str] = []
    u = "x[j]" if source.rows == source.real else f"({source.real})x[j]"
    width, buffer = form.n_features, ""
    for number, step in enumerate(form.front):
        if isinstance(step, Mix | Spread):
            before, buffer = width, f"u{number}"
            width = step.matrix.shape[1] if isinstance(step, Mix) else len(step.source)
            lines.append(f"{source.real} {buffer}[{width}];")
            if isinstance(step, Mix):
                lines += _mixed(source, step, number, u, before)
            else:
                lines += _spread(source, step, number, u)
        else:
            if not buffer:
                buffer = f"u{number}"
                lines.append(f"{source.real} {buffer}[{width}];")
            value = _affine(source, step, number, u, form.core.largest) if isinstance(step, Affine) else u
            rest = _afterwards(source, step, number, f"{buffer}[j]")
            lines += [f"for (j = 0; j < {width}; j++) {{", f"    {buffer}[j] = {value};", *indented(rest), "}"]
        u = f"{buffer}[j]"
    return [line for line in lines if line.strip() != f"{u} = {u};"], u


def _mixed(source: Source, step: Mix, number: int, u: str, n_rows: int) -> list[str]:
    width, matrix = step.matrix.shape[1], source.array(f"mix_{number}", step.matrix)
    return [
        f"for (k = 0; k < {width}; k++) u{number}[k] = 0;",
        f"for (j = 0; j < {n_rows}; j++)",
        f"    for (k = 0; k < {width}; k++) u{number}[k] += ({u}) * {matrix}[j][k];",
    ]


def _spread(source: Source, step: Spread, number: int, u: str) -> list[str]:
    width, kind = len(step.source), "short" if len(step.columns) < MOST_SHORT else "int"
    taken = u.replace("[j]", f"[{source.array(f'source_{number}', step.source, kind)}[k]]")
    if np.all(step.test == VALUE):
        return [f"for (k = 0; k < {width}; k++) u{number}[k] = {taken};"]
    test = f"{source.array(f'test_{number}', step.test, 'short')}[k]"
    return [
        f"for (k = 0; k < {width}; k++) {{ /* {VALUE}: the number; {GAP}: is it a gap? else: is it this code? */",
        f"    const {source.real} t = {taken};",
        f"    const int found = {test} == {GAP} ? t != t : t == ({source.real}){test};",
        f"    u{number}[k] = {test} == {VALUE} ? t : ({source.real})found;",
        "}",
    ]


def _afterwards(source: Source, step: Step, number: int, u: str) -> list[str]:
    """What is done to a value in its place in the buffer."""
    if isinstance(step, Clip):
        return _clipped(source, u, step.lower, step.upper)
    if isinstance(step, Fill):
        return [f"if ({u} != {u}) {u} = {source.array(f'fill_{number}', step.values)}[j]; /* a gap */"]
    if not isinstance(step, Squash):
        return []
    share, root = f"({u} * {source.number(1 / step.bound)})", source.call("sqrt")
    lines = [*_clipped(source, u, -SQUASH_FROM, SQUASH_FROM)]
    lines += [f"{u} /= {root}({source.number(1.0)} + {share} * {share});"]
    if step.where.all():
        return lines
    drawn_in = source.array(f"drawn_in_{number}", step.where, "signed char")
    return [f"if ({drawn_in}[j]) {{", *indented(lines), "}"]


def _clipped(source: Source, u: str, lower: float, upper: float) -> list[str]:
    low, high = source.number(lower), source.number(upper)
    return [f"if ({u} < {low}) {u} = {low};", f"if ({u} > {high}) {u} = {high};"]


def _affine(source: Source, step: Affine, number: int, u: str, largest: float) -> str:
    if np.any(step.shift):
        low = np.zeros(len(step.shift))
        if source.single:
            low = split(step.shift)[1]
            low = np.where(np.abs(low * step.factor) > SHIFT_ROUNDING * largest, low, 0)
        u = f"{u} - {source.array(f'shift_{number}', step.shift)}[j]"
        if np.any(low):
            u = f"({u}) - {source.array(f'shift_low_{number}', low)}[j]"
        u = f"({u})"
    return f"{u} * {source.array(f'factor_{number}', step.factor)}[j]" if np.any(step.factor != 1) else u
