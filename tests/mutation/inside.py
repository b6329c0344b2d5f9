"""What runs in the processes that run tests: one records which test runs which line, one runs tests on a mutant."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Lines = dict[str, int]  # of each file, the lines that ran, as the bits of an integer


class Trace:
    """Notes each line of the package that any thread runs."""

    def __init__(self, root: Path) -> None:
        self.prefix = f"{root}/"
        self.seen: set[tuple[str, int]] = set()
        self.of_code: dict[types.CodeType, set[tuple[str, int]] | None] = {}
        self.finished: set[types.CodeType] = set()
        if sys.version_info >= (3, 12):
            tool, event = sys.monitoring.COVERAGE_ID, sys.monitoring.events.LINE
            sys.monitoring.use_tool_id(tool, "mutation")
            sys.monitoring.register_callback(tool, event, self._on_line)
            sys.monitoring.set_events(tool, event)
        else:
            self._trace_threads()

    def take(self) -> Lines:
        """The lines seen since the last call."""
        found: Lines = {}
        for path, line in self.seen:
            name = path.removeprefix(self.prefix)
            found[name] = found.get(name, 0) | 1 << line
        self.seen.clear()
        self.finished.clear()
        if sys.version_info >= (3, 12):
            sys.monitoring.restart_events()
        else:
            sys.settrace(self._on_call)  # a test may have taken it away
        return found

    def _on_line(self, code: types.CodeType, line: int) -> Any:
        if code.co_filename.startswith(self.prefix):
            self.seen.add((code.co_filename, line))
        return sys.monitoring.DISABLE  # until `take`

    def _trace_threads(self) -> None:
        import _thread
        import threading

        start = _thread.start_new_thread

        def start_traced(function: Callable[..., Any], args: tuple[Any, ...], *kwargs: Any) -> int:
            def run(*args: Any, **kwargs: Any) -> Any:
                sys.settrace(self._on_call)
                return function(*args, **kwargs)

            return start(run, args, *kwargs)

        _thread.start_new_thread = start_traced  # type: ignore[assignment]  # workers are started by it directly
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)

    def _on_call(self, frame: types.FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code in self.finished:
            return None
        if code not in self.of_code:
            ours = code.co_filename.startswith(self.prefix)
            self.of_code[code] = {(code.co_filename, line) for *_, line in code.co_lines() if line} if ours else None
        lines = self.of_code[code]
        if lines is None:
            return None
        if lines <= self.seen:
            self.finished.add(code)
            return None
        seen, path = self.seen, code.co_filename

        def note(frame: types.FrameType, event: str, _: Any) -> Any:
            seen.add((path, frame.f_lineno))
            return note

        return note(frame, event, None)


class Recorder:
    """A pytest plugin: of each test that passes, its duration and its lines, those of its fixtures included.

    And of the file, under its own name, how long it took to be collected.
    """

    def __init__(self, root: Path) -> None:
        self.trace = Trace(root)
        self.tests: dict[str, tuple[float, Lines]] = {}
        self.of_fixture: dict[str, Lines] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        begun = time.perf_counter()
        result = yield
        self.collection = time.perf_counter() - begun
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.trace.take()
        begun = time.perf_counter()
        result = yield
        lines = self.trace.take()
        for name in getattr(item, "fixturenames", ()):
            _add(lines, self.of_fixture.get(name, {}))
        self.tests[str(item.path)] = self.collection, {}
        if item.nodeid not in self.failed:
            self.tests[name_of(item)] = time.perf_counter() - begun, lines
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any], request: Any) -> Iterator[None]:
        before = self.trace.take()
        try:
            return (yield)
        finally:
            lines = self.trace.take()
            if fixturedef.scope != "function":
                _add(self.of_fixture.setdefault(fixturedef.argname, {}), lines)
            for found in (before, lines):
                self.trace.seen.update(
                    (self.trace.prefix + name, line)
                    for name, bits in found.items()
                    for line in range(bits.bit_length())
                    if bits >> line & 1
                )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.failed.add(report.nodeid)


def name_of(item: pytest.Item) -> str:
    """Its file and its name there (pytest's own id has no file where tests lie outside the repository)."""
    return f"{item.path}::{item.nodeid.partition('::')[2]}"


def _add(lines: Lines, more: Lines) -> None:
    for name, bits in more.items():
        lines[name] = lines.get(name, 0) | bits


class Chosen:
    """A pytest plugin: runs the chosen tests alone, file by file, and remembers the first that fails."""

    def __init__(self, tests: list[str]) -> None:
        self.wanted = {name: place for place, name in enumerate(tests)}
        self.n_collected = 0
        self.noticed_by: str | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if name_of(i) in self.wanted), key=lambda item: self.wanted[name_of(item)])
        self.n_collected = len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.noticed_by is None:
            self.noticed_by = report.nodeid


class MutantFinder(importlib.abc.MetaPathFinder):
    """Finds one module's source changed; all others are found as ever."""

    def __init__(self, module: str, path: Path, source: bytes) -> None:
        self.module, self.path, self.source = module, path, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.module:
            return None
        loader = _SourceLoader(name, str(self.path))
        loader.source = self.source
        is_package = self.path.name == "__init__.py"
        return importlib.util.spec_from_file_location(
            name, self.path, loader=loader, submodule_search_locations=[str(self.path.parent)] if is_package else None
        )


class _SourceLoader(importlib.machinery.SourceFileLoader):
    source: bytes

    def get_code(self, fullname: str) -> types.CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)  # never from, nor into, a cached file
