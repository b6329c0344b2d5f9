"""Record which tests run which lines, draw mutants, run their tests on all cores, print who survived."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import distributions, entry_points
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # the cores are taken by the mutants

import pytest
import scipy.linalg  # noqa: F401
import sklearn.decomposition  # noqa: F401  what every test needs is imported once, and forked

from .inside import Chosen, Lines, MutantFinder, Recorder
from .mutants import Mutant, Names, mutants_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(os.environ.get("MUTATED_PACKAGE", ROOT / "src" / "kernelsieve"))  # the mutator tests itself on another
KEPT = ROOT / "build" / "mutation"
SECONDS_TO_RECORD = 1800  # of a file of tests
NEVER = float("inf")
PLAIN = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-W", "ignore"]

Tests = dict[str, tuple[float, Lines]]  # of each test its duration and the lines it runs; of each file, to collect it


def main() -> None:
    options = _options()
    os.chdir(ROOT)
    sys.path.insert(0, str(PACKAGE.parent))
    names = Names(PACKAGE)
    places = [
        place
        for path in sorted(PACKAGE.rglob("*.py"))
        if not options.packages or any(_belongs(path, package) for package in options.packages)
        for place in mutants_of(path, PACKAGE, names)
    ]
    ends = time.perf_counter() + options.minutes * 60
    draw = random.Random(options.seed)
    if options.at:
        drawn = [mutant for place in places for mutant in place if f"{mutant.path}:{mutant.line}" in options.at]
    else:
        drawn = [draw.choice(place) for place in draw.sample(places, min(options.number, len(places)))]
    if not drawn:
        sys.exit("nothing to change there")
    for plugin in entry_points(group="pytest11"):  # of pytest, which every process needs as well
        plugin.load()
    tests = recorded(options.tests, options.processes)
    begun = time.perf_counter()
    jobs = [MutantJob(mutant, choose(mutant, tests, options.seconds), options.seconds) for mutant in drawn]
    late = run_all([job for job in jobs if job.tests], options.processes, "mutants", ends)
    jobs = [job for job in jobs if job not in late]
    print(table_of_scores(jobs), table_of_survivors(jobs), sep="\n")
    print(f"{len(jobs)} mutants of {len(places)} places, seed {options.seed}, {time.perf_counter() - begun:.0f} s")
    if late:
        print(f"{len(late)} more were drawn, for which there was no time")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutation", description="Which changes of the source no test notices.")
    parser.add_argument("packages", nargs="*", help="folders or files of the package; all of it where none is given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", "-n", type=int, default=800)
    parser.add_argument("--at", nargs="+", default=[], help="FILE:LINE: all mutants of a line, in place of random ones")
    parser.add_argument("--tests", nargs="+", default=["tests", "src"], help="folders or files of tests")
    parser.add_argument("--seconds", type=float, default=60, help="of tests, by their recorded durations, a mutant")
    parser.add_argument("--minutes", type=float, default=NEVER, help="in all; what is not judged by then is left out")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def _belongs(path: Path, package: str) -> bool:
    return path.is_relative_to(PACKAGE / package) or path == PACKAGE / f"{package}.py"


# Processes


@dataclass(eq=False)
class Job:
    """What one forked process does; its result comes back in a file."""

    limit: float = field(init=False)
    result: Any = field(default=None, init=False)

    def run(self, folder: Path) -> Any:
        raise NotImplementedError


def run_all(jobs: list[Any], n_processes: int, what: str, ends: float = NEVER) -> list[Any]:
    """Run each job in a process of its own, as many at once as there are processes; those not done by `ends`."""
    waiting, running = list(reversed(jobs)), dict[int, tuple[Any, Path, float]]()
    memory = max(2**32, 2 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // n_processes)
    n_done, told = 0, time.perf_counter()
    while (waiting or running) and time.perf_counter() < ends:
        while waiting and len(running) < n_processes:
            job, folder = waiting.pop(), Path(tempfile.mkdtemp(prefix="mutation-"))
            running[_fork(job, folder, memory)] = job, folder, time.perf_counter()
        time.sleep(0.02)
        for process, (job, folder, begun) in list(running.items()):
            if time.perf_counter() - begun > job.limit:
                os.killpg(process, signal.SIGKILL)
            if os.waitpid(process, os.WNOHANG)[0]:
                answer = folder / "result"
                job.result = pickle.loads(answer.read_bytes()) if answer.exists() else None
                shutil.rmtree(folder, ignore_errors=True)
                del running[process]
                n_done += 1
        if time.perf_counter() - told > 30:
            told = time.perf_counter()
            print(f"{n_done} of {len(jobs)} {what}", file=sys.stderr)
    for process, (job, folder, _) in running.items():
        os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        shutil.rmtree(folder, ignore_errors=True)
        waiting.append(job)
    return waiting


def _fork(job: Job, folder: Path, memory: int) -> int:
    process = os.fork()
    if process:
        return process
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")  # no failure is remembered
        quiet = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        (folder / "unfinished").write_bytes(pickle.dumps(job.run(folder)))
        (folder / "unfinished").rename(folder / "result")
    finally:
        os._exit(0)


def run_pytest(arguments: Iterable[str], folder: Path, plugin: object) -> int:
    seed = []
    try:
        import hypothesis  # noqa: F401

        seed = ["--hypothesis-seed=0"]
    except ImportError:
        pass
    fixed = [f"--rootdir={ROOT}", f"--config-file={ROOT / 'pyproject.toml'}", f"--basetemp={folder / 'tmp'}"]
    return int(pytest.main([*PLAIN, *seed, *fixed, *arguments], plugins=[plugin]))


# Which test runs which line


@dataclass(eq=False)
class RecordJob(Job):
    path: str
    kept: Path

    def __post_init__(self) -> None:
        self.limit = SECONDS_TO_RECORD

    def run(self, folder: Path) -> Tests:
        recorder = Recorder(PACKAGE)
        importlib.import_module(PACKAGE.name)  # so that no file's collection is charged with it
        run_pytest([self.path], folder, recorder)
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        self.kept.with_suffix(".new").write_bytes(pickle.dumps(recorder.tests))
        self.kept.with_suffix(".new").rename(self.kept)
        return recorder.tests


def recorded(where: list[str], n_processes: int) -> Tests:
    """Every test that passes, with its duration and lines; from an earlier run where nothing has changed."""
    source = _digest(PACKAGE.rglob("*.py"))
    installed = sorted(f"{one.name} {one.version}" for one in distributions())  # tests of what is missing are skipped
    folders = [Path(place) for place in where]
    files = sorted({found for place in folders for found in ([place] if place.is_file() else place.rglob("test_*.py"))})
    doctests = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()] if "src" in where else []
    shared = (path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_"))
    helpers = _digest(path for path in shared if path != Path(__file__))  # how mutants are judged changes no record
    state = f"{source}{helpers}{sys.version}{installed}"
    jobs = []
    for path in (*files, *(path.relative_to(ROOT) for path in doctests)):
        key = hashlib.sha256(f"{state}{path}".encode() + path.read_bytes()).hexdigest()[:24]
        jobs.append(RecordJob(str(path), KEPT / key))
    new = [job for job in jobs if not job.kept.exists()]
    run_all(sorted(new, key=lambda job: -Path(job.path).stat().st_size), n_processes, "files of tests recorded")
    tests: Tests = {}
    for job in jobs:
        if job.kept.exists():
            found = pickle.loads(job.kept.read_bytes())
            tests |= found
            if job in new and not any("::" in name for name in found):
                print(f"no test of {job.path} passes: it notices nothing", file=sys.stderr)
        else:
            print(f"{job.path} could not be recorded", file=sys.stderr)
    if new:
        print(f"{len(tests)} tests recorded", file=sys.stderr)
    return tests


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()


def choose(mutant: Mutant, tests: Tests, seconds: float) -> dict[str, list[str]]:
    """The tests that judge a mutant, `seconds` with their collection: those nearest to it, and some of every file.

    A test is near if it runs little but the mutant's file: it is the likeliest to notice.  Files come by their nearest
    test, and test number t of file number f is in turn at t f: the nearest files give more tests before others give
    their first.
    """
    masks: dict[str, int] = defaultdict(int)
    for path, line in mutant.lines:
        masks[path] |= 1 << line
    by_file = defaultdict(list)
    for name, (duration, lines) in tests.items():
        if any(lines.get(path, 0) & mask for path, mask in masks.items()):
            near = sum(lines.get(path, 0).bit_count() for path in masks)
            share = near / sum(bits.bit_count() for bits in lines.values())
            by_file[name.split("::")[0]].append((-share, duration, name))
    files = sorted(by_file.items(), key=lambda item: min(item[1]))
    in_turn = sorted(
        (number * place, number, duration + (place == 1) * tests.get(file, (0.0, {}))[0], name)
        for number, (file, found) in enumerate(files, 1)
        for place, (_, duration, name) in enumerate(sorted(found), 1)
    )
    chosen, total = defaultdict(list), 0.0
    for _, _, duration, name in in_turn:
        if not chosen or total + duration <= seconds:
            chosen[name.split("::")[0]].append(name)
            total += duration
    return dict(chosen)


# Mutants


@dataclass(eq=False)
class MutantJob(Job):
    mutant: Mutant
    tests: dict[str, list[str]]  # of each file
    seconds: float  # that they take

    def __post_init__(self) -> None:
        self.limit = 60 + 4 * self.seconds

    def run(self, folder: Path) -> tuple[str, str | None]:
        path = PACKAGE / self.mutant.path
        parts = (PACKAGE.name, *Path(self.mutant.path).with_suffix("").parts)
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        sys.meta_path.insert(0, MutantFinder(module, path, self.mutant.source(path.read_bytes())))
        for file, names in self.tests.items():
            chosen = Chosen(names)
            if not Path(file).exists():
                return "lost", f"not found: {file}"
            if run_pytest(["-x", file], folder, chosen) not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return "noticed", chosen.noticed_by or "import"
            if chosen.n_collected < len(names):
                return "lost", f"{len(names) - chosen.n_collected} tests were not found"
        return "survived", None

    @property
    def outcome(self) -> str:
        if not self.tests:
            return "untested"
        return self.result[0] if self.result else "noticed"  # a process that died or hung


def table_of_scores(jobs: list[MutantJob]) -> str:
    packages = defaultdict(list)
    for job in jobs:
        packages[job.mutant.path.split("/")[0].removesuffix(".py")].append(job.outcome)
        packages["**all**"].append(job.outcome)
    lines = ["| package | mutants | noticed | survived | no test runs the line | score |", "|---|---|---|---|---|---|"]
    for name in sorted(packages, key=lambda name: (name == "**all**", name)):
        found = packages[name]
        noticed, survived, untested = (found.count(what) for what in ("noticed", "survived", "untested"))
        lines.append(f"| {name} | {len(found)} | {noticed} | {survived} | {untested} | {noticed / len(found):.0%} |")
    return "\n".join(lines) + "\n"


def table_of_survivors(jobs: list[MutantJob]) -> str:
    lines = ["| line | kind | before | after | tests run |", "|---|---|---|---|---|"]
    for job in sorted(jobs, key=lambda job: (job.mutant.path, job.mutant.line)):
        if job.outcome != "noticed":
            mutant = job.mutant
            texts = [text.replace("|", r"\|")[:70] for text in (mutant.before, mutant.after)]
            ran = str(sum(map(len, job.tests.values()))) if job.outcome != "lost" else job.result[1]
            lines.append(f"| `{mutant.path}:{mutant.line}` | {mutant.kind} | `{texts[0]}` | `{texts[1]}` | {ran} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
