"""The mutants of a source file, and the lines whose tests judge each."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_PAIRS = [("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("amin", "amax")]
OPPOSITES = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}}
# Where a change is not a change of what the program does, but of its words, its types or its list of names.
NOT_MUTATED = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
# Keyword arguments of numpy and scipy that say how something is computed, and change no number.
ONLY_HOW = ("copy", "check_finite", "overwrite_a", "overwrite_b")

Line = tuple[str, int]  # a file below the package's folder, and a line of it


@dataclass(frozen=True)
class Mutant:
    """Bytes `start` to `end` of a file replaced by `after`."""

    path: str
    line: int
    start: int
    end: int
    kind: str
    before: str
    after: str
    lines: tuple[Line, ...]  # tests that run one of these judge the mutant

    def source(self, original: bytes) -> bytes:
        replaced = original[self.start : self.end]
        # as many lines as before, so that tracebacks name the lines of the file
        after = self.after.encode() + b"\n" * replaced.count(b"\n")
        return original[: self.start] + (after if self.kind == "update" else b"(%b)" % after) + original[self.end :]


class Names:
    """The lines on which each name of the package is read, in any of its files: what a constant's mutants reach."""

    def __init__(self, root: Path) -> None:
        self.lines: dict[str, set[Line]] = {}
        for path in root.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
                if name is not None and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                    self.lines.setdefault(name, set()).add((str(path.relative_to(root)), node.lineno))


def mutants_of(path: Path, root: Path, names: Names) -> list[list[Mutant]]:
    """For each place of a file that can be changed, its mutants."""
    return list(_Walk(path, root, names).places())


class _Walk:
    def __init__(self, path: Path, root: Path, names: Names) -> None:
        self.source = path.read_bytes()
        self.path, self.names = str(path.relative_to(root)), names
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def places(self) -> Iterator[list[Mutant]]:
        yield from self._body(ast.parse(self.source).body, in_function=False)

    def _body(self, statements: list[ast.stmt], in_function: bool) -> Iterator[list[Mutant]]:
        for statement in statements:
            if isinstance(statement, ast.ClassDef):
                yield from self._body(statement.body, in_function)
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                if not any("overload" in ast.unparse(decorator) for decorator in statement.decorator_list):
                    inside = self._range(statement.body[0].lineno, statement.body[-1].end_lineno)
                    for default in (*statement.args.defaults, *filter(None, statement.args.kw_defaults)):
                        yield from self._expression(default, inside)
                    yield from self._body(statement.body, in_function=True)
            else:
                yield from self._statement(statement, in_function)

    def _statement(self, statement: ast.stmt, in_function: bool) -> Iterator[list[Mutant]]:
        if isinstance(statement, NOT_MUTATED) or "TYPE_CHECKING" in ast.unparse(getattr(statement, "test", statement)):
            return
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):  # a docstring
            return
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        first = next((part[0].lineno for part in inner if part), None)
        last = statement.end_lineno if first is None else max(statement.lineno, first - 1)
        lines = self._range(statement.lineno, last) if in_function else self._readers(statement)
        if isinstance(statement, ast.If):
            yield [self._mutant(statement.test, "branch", "False", lines)]
        if isinstance(statement, ast.Return) and not _is_none(statement.value):
            yield [self._mutant(statement.value, "return", "None", lines)]
        if isinstance(statement, ast.AugAssign) and type(statement.op) in ARITHMETIC:
            changed = copy.copy(statement)
            changed.op = ARITHMETIC[type(statement.op)]()
            yield [self._mutant(statement, "update", ast.unparse(changed), lines)]
        for name, value in ast.iter_fields(statement):
            if name in ("annotation", "returns", "decorator_list", "body", "orelse", "finalbody", "handlers", "cases"):
                continue
            for node in value if isinstance(value, list) else [value]:
                if isinstance(node, ast.AST):
                    yield from self._expression(node, lines)
        for part in (
            *inner,
            *(part.body for part in getattr(statement, "handlers", []) + getattr(statement, "cases", [])),
        ):
            yield from self._body(part, in_function)

    def _expression(self, node: ast.AST, lines: tuple[Line, ...]) -> Iterator[list[Mutant]]:
        if isinstance(node, NOT_MUTATED) or (isinstance(node, ast.keyword) and node.arg in ONLY_HOW):
            return
        if found := [self._mutant(node, kind, after, lines) for kind, after in _changes(node)]:
            yield found
        if isinstance(node, ast.IfExp):
            yield [self._mutant(node.test, "branch", "False", lines)]
        for child in ast.iter_child_nodes(node):
            yield from self._expression(child, lines)

    def _mutant(self, node: ast.AST, kind: str, after: str, lines: tuple[Line, ...]) -> Mutant:
        start = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        before = " ".join(self.source[start:end].decode().split())
        return Mutant(self.path, node.lineno, start, end, kind, before, after, lines)  # type: ignore[attr-defined]

    def _range(self, first: int, last: int | None) -> tuple[Line, ...]:
        return tuple((self.path, line) for line in range(first, (last or first) + 1))

    def _readers(self, statement: ast.stmt) -> tuple[Line, ...]:
        """For a statement that runs at import: the lines that read a name it sets."""
        written = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return tuple(sorted({line for name in written for line in self.names.lines.get(name, ())}))


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """(kind, text) of each change of one expression."""
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            for other in COMPARISONS[type(op)]:
                yield "comparison", _with(node, ops=[*node.ops[:place], other(), *node.ops[place + 1 :]])
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield "arithmetic", _with(node, op=ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield "logic", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "sign", ast.unparse(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield "constant", repr(_other_number(node.value))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OPPOSITES:
        yield "extreme", _with(node, func=ast.Name(OPPOSITES[node.func.id]))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OPPOSITES:
        yield "extreme", _with(node, func=ast.Attribute(node.func.value, OPPOSITES[node.func.attr]))


def _with(node: ast.AST, **fields: object) -> str:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return ast.unparse(changed)


def _other_number(value: float) -> float:
    """A small integer becomes the next one; any other number one far enough away that it should matter."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) and value <= 3 else 2 * value + 1
