"""Two trees of this library in turns: what a change costs, and what it keeps.

python -m benchmarks.turns OTHER_TREE [--rounds N] [case ...]      a case is named by the beginning of its name

OTHER_TREE is a checkout, made for instance by `git worktree add ../before d732a8c`.  A process for each tree, with one
thread, runs the same case by turns, with each of three random_states; the least processor time of several rounds
counts, in the mean of the random_states.  "held out" is the mean captured variance of held-out rows over that of the
other tree, less one.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes

from experiments.datasets import Split, digits, mnist, usps

from .frontier_data import heavy_tails, split, standardised

SEEDS = range(3)
USPS_GAMMA = 0.0083  # of the median rule; trees may look at other rows, and have another median
SHORT = 0.01  # seconds: what takes less is timed in a loop of about this length
Run = Callable[[int], Any]  # random_state in, a model or nothing out


def diabetes() -> Split:
    return standardised(split("diabetes", load_diabetes(return_X_y=True)[0]))


def wide() -> Split:
    """7,000 rows of 256 columns."""
    return Split("7,000 x 256", usps().train[:7000], usps().test)


def tall() -> Split:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((402_000, 8), dtype=np.float32) @ rng.standard_normal((8, 32), dtype=np.float32)
    rows += 0.3 * rng.standard_normal(rows.shape, dtype=np.float32)
    return Split("400,000 x 32", rows[:-2000], rows[-2000:])


def estimator(name: str = "SparseKernelPCA", *arguments: Any, **options: Any) -> Any:
    import kernelsieve

    return getattr(kernelsieve, name)(*arguments, **options)


def fits(load: Callable[[], Split], name: str = "SparseKernelPCA", **options: Any) -> Any:
    """Fits of the rows, and the rows that judge them."""

    def prepared() -> tuple[Run, np.ndarray]:
        data = load()
        arguments = {"n_components": 10, "n_jobs": 1} | options
        return lambda seed: estimator(name, random_state=seed, **arguments).fit(data.train), data.test

    return prepared


def rows_of_a_model(method: str, n_rows: int | None, **options: Any) -> Any:
    """A method of a model of USPS, on so many of its rows."""

    def prepared() -> tuple[Run, None]:
        data = usps()
        model = estimator(n_components=10, random_state=0, n_jobs=1, **({"n_support": 50} | options)).fit(data.train)
        rows = data.train if n_rows is None else data.train[:n_rows]
        function = getattr(model, method)
        if method == "inverse_transform":
            rows = model.transform(rows)
        return lambda seed: function(rows), None

    return prepared


def streamed() -> tuple[Run, np.ndarray]:
    data = usps()

    def run(seed: int) -> Any:
        model = estimator(n_components=10, n_support=50, random_state=seed, n_jobs=1)
        for part in np.array_split(data.train, 10):
            model.partial_fit(part)
        return model

    return run, data.test


def monitored() -> tuple[Run, None]:
    from .monitor import plant

    rows = plant(5000)
    return lambda seed: estimator("KernelMonitor", 10, 50, random_state=seed, n_jobs=1).fit(rows), None


def judged() -> tuple[Run, None]:
    from .monitor import plant

    monitor, rows = estimator("KernelMonitor", 10, 50, random_state=0, n_jobs=1).fit(plant(2000)), plant(20_000, 1)
    return lambda seed: monitor.statistics(rows), None


def compressed() -> tuple[Run, np.ndarray]:
    import kernelsieve

    data = usps()
    model = estimator("KernelPCA", 10, gamma="median").fit(data.train[:1500])
    return lambda seed: kernelsieve.compress(model, 50, random_state=seed), data.test


def written() -> tuple[Run, None]:
    import kernelsieve

    model = estimator(n_components=10, n_support=50, random_state=0, n_jobs=1).fit(usps().train)
    folder = tempfile.TemporaryDirectory()

    def run(seed: int) -> None:
        path = Path(folder.name) / "model.ks"
        kernelsieve.save(model, path)
        kernelsieve.load(path)

    return run, None


def sparse_components() -> tuple[Run, None]:
    data = digits()
    return lambda seed: estimator("ElasticNetPCA", 10, alpha=0.1).fit(data.train), None


CASES: dict[str, Callable[[], tuple[Run, np.ndarray | None]]] = {
    **{
        f"{load.__name__}, m={m}": fits(load, n_support=m, gamma=USPS_GAMMA if load is usps else "median")
        for load in (digits, usps, diabetes)
        for m in (20, 50, 200, 500)
        if (load.__name__, m) != ("diabetes", 500)
    },
    **{f"{load.__name__}, auto": fits(load) for load in (digits, usps, diabetes)},
    "laplacian digits, m=50": fits(digits, n_support=50, kernel="laplacian"),
    "poly digits, m=50": fits(digits, n_support=50, kernel="poly"),
    "linear digits, m=50": fits(digits, n_support=50, kernel="linear"),
    "cosine digits, m=50": fits(digits, n_support=50, kernel="cosine"),
    "sigmoid digits, m=50": fits(digits, n_support=50, kernel="sigmoid"),
    "targeted digits, m=100": fits(digits, n_support=100, selection="targeted"),
    "targeted usps, m=100": fits(usps, n_support=100, selection="targeted", gamma=USPS_GAMMA),
    **{
        f"{rule} usps, m=100": fits(usps, n_support=100, selection=rule, gamma=USPS_GAMMA)
        for rule in ("uniform", "kmeans", "rpcholesky", "leverage", "residual", "farthest")
    },
    "narrow usps, m=50": fits(usps, n_support=50, gamma=0.05),
    "mnist 10000, m=50": fits(partial(mnist, 10_000), n_support=50),
    "wide 7,000 x 256, m=50": fits(wide, n_support=50),
    "wide 7,000 x 256, m=200": fits(wide, n_support=200),
    "tall 4e5 x 32 float32, m=50": fits(tall, n_support=50),
    "tall 4e5 x 32 float32, m=200": fits(tall, n_support=200),
    "heavy tails, m=50": fits(heavy_tails, n_support=50),
    "heavy tails, m=200": fits(heavy_tails, n_support=200),
    "heavy tails, auto": fits(heavy_tails),
    "elastic net digits": fits(digits, "ElasticNetKernelPCA", alpha=0.01, gamma="median"),
    "likelihood digits": fits(digits, "LikelihoodKernelPCA", noise_variance=0.01, gamma="median"),
    "eskpca digits": fits(digits, "DissimilarityKernelPCA", n_nodes=100, gamma="median"),
    "ikpca digits": fits(digits, "ImprovedKernelPCA", n_nodes=100, gamma="median"),
    "feature analysis digits": fits(digits, "KernelFeatureAnalysis", gamma="median"),
    "exact digits": fits(digits, "KernelPCA", gamma="median"),
    "exact diabetes": fits(diabetes, "KernelPCA", gamma="median"),
    "partial_fit usps": streamed,
    "monitor fit": monitored,
    "monitor statistics": judged,
    "compress usps": compressed,
    "elastic net PCA digits": sparse_components,
    "save and load": written,
    "transform usps": rows_of_a_model("transform", None),
    "transform of one row": rows_of_a_model("transform", 1),
    "transform of 2,000 rows": rows_of_a_model("transform", 2000),
    "reconstruction_error usps": rows_of_a_model("reconstruction_error", None),
    "inverse_transform of 200 rows": rows_of_a_model("inverse_transform", 200),
    "score usps": rows_of_a_model("score", None),
}

IMPORT = """
import {before}, time
start = time.process_time()
{what}
print(time.process_time() - start)
"""
IMPORTS = {
    "import kernelsieve": ("sys", "import kernelsieve"),
    "import beyond scikit-learn": ("sklearn.decomposition", "from kernelsieve import KernelPCA, SparseKernelPCA, load"),
}
PEAK = """
import numpy as np, warnings
warnings.simplefilter("ignore")
from kernelsieve import SparseKernelPCA
def peak(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
SparseKernelPCA(2, n_support=20, random_state=0, n_jobs=1).fit(np.random.default_rng(0).standard_normal((500, 10)))
X = np.random.default_rng(0).standard_normal({shape}, dtype=np.float32)
before = peak()
SparseKernelPCA(10, n_support={m}, random_state=0, n_jobs=1).fit(X)
print((peak() - before) / 1024)
"""
PEAKS = {
    "memory 4e5 x 32, m=200": PEAK.format(shape=(400_000, 32), m=200),
    "memory 20,000 x 256, m=50": PEAK.format(shape=(20_000, 256), m=50),
}


def environment(tree: Path, cache: str) -> dict[str, str]:
    """One thread, the tree's own source, and a place for its byte code."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own = os.environ | threads | {"PYTHONPATH": str(tree / "src"), "PYTHONPYCACHEPREFIX": cache}
    own.pop("PYTHONDONTWRITEBYTECODE", None)
    return own


class Worker:
    """A process that runs cases with the source of one tree."""

    def __init__(self, tree: Path, cache: str) -> None:
        self.environment = environment(tree, cache)
        command = [sys.executable, "-m", "benchmarks.turns", "--worker"]
        self.process = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert Path(self.ask("where")).is_relative_to(tree), f"kernelsieve is not imported from {tree}"

    def ask(self, question: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(question, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def alone(self, code: str) -> float:
        """The number that a process of its own prints."""
        command = [sys.executable, "-c", code]
        return float(subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout)


@contextmanager
def quiet() -> Iterator[io.TextIOBase]:
    """Whatever the library prints goes to stderr; answers go where stdout went."""
    answers, sys.stdout = sys.stdout, sys.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield answers  # type: ignore[misc]
    sys.stdout = answers


def work() -> None:
    """Answer the questions of the other side: `case NAME`, `time SEED`, `captured`."""
    run: Run
    loops, captured, test = 1, [], None
    with quiet() as answers:
        for line in sys.stdin:
            question, _, rest = line.strip().partition(" ")
            answer: Any = ""
            if question == "where":
                import kernelsieve

                answer = kernelsieve.__file__
            elif question == "case":
                try:
                    run, test = CASES[rest]()
                    start = time.process_time()
                    run(0)
                    run(0)
                    loops = max(1, int(2 * SHORT / max(time.process_time() - start, 1e-7)))
                    found = [run(seed) for seed in (SEEDS if test is not None else ())]
                    captured = [float(np.asarray(model.transform(test)).var(axis=0).sum()) for model in found]
                    answer = "ready"
                except Exception as error:
                    answer = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
            elif question == "time":
                start = time.process_time()
                for _ in range(loops):
                    run(int(rest))
                answer = (time.process_time() - start) / loops
            elif question == "captured":
                answer = " ".join(map(repr, captured))
            print(answer, file=answers, flush=True)


def compare(name: str, workers: list[Worker], rounds: int) -> None:
    """A line of the table: the case by turns."""
    if name in IMPORTS or name in PEAKS:
        if name in PEAKS:
            found = [min(worker.alone(PEAKS[name]) for _ in range(2)) for worker in workers]
            print(f"| {name} | {found[0]:.0f} MB | {found[1]:.0f} MB | {found[1] / found[0]:.2f}x | |", flush=True)
            return
        before, what = IMPORTS[name]
        code = IMPORT.format(before=before, what=what)
        times = np.array([[worker.alone(code) for worker in workers] for _ in range(rounds + 1)])[1:].min(axis=0)
        print(f"| {name} | {1e3 * times[0]:.1f} | {1e3 * times[1]:.1f} | {times[1] / times[0]:.2f}x | |", flush=True)
        return
    answers = [worker.ask(f"case {name}") for worker in workers]
    if answers != ["ready", "ready"]:
        print(f"| {name} | {answers[0]} | {answers[1]} | | |", flush=True)
        return
    fitted = [np.array(worker.ask("captured").split(), dtype=float) for worker in workers]
    seeds = SEEDS if fitted[0].size else range(1)
    best = np.full((2, len(seeds)), np.inf)
    for _ in range(rounds):
        for i in seeds:
            for side, worker in enumerate(workers):
                best[side, i] = min(best[side, i], float(worker.ask(f"time {i}")))
    theirs, ours = 1e3 * best.mean(axis=1)
    held_out = f"{fitted[1].mean() / fitted[0].mean() - 1:+.5f}" if fitted[0].size else ""
    print(f"| {name} | {theirs:.3g} | {ours:.3g} | {ours / theirs:.2f}x | {held_out} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_intermixed_args()
    trees = [arguments.other.resolve(), Path(__file__).resolve().parents[1]]
    names = [name for name in (*IMPORTS, *PEAKS, *CASES) if name.startswith(tuple(arguments.cases) or "")]
    with tempfile.TemporaryDirectory() as cache:
        workers = [Worker(tree, f"{cache}/{side}") for side, tree in enumerate(trees)]
        print("| case | other, ms | this tree, ms | this / other | held out |\n|---|---|---|---|---|", flush=True)
        for name in names:
            compare(name, workers, arguments.rounds)
        for worker in workers:
            worker.process.terminate()


if __name__ == "__main__":
    work() if "--worker" in sys.argv else main()
