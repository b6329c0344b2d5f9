"""The contestants of benchmarks/peers.py: how each is fitted, what it says of new rows, and its components.

A component is a vector of the kernel's feature space,  v = sum_i c_i phi(s_i),  given by points s_i and weights c_i.
Every contestant's components are read off its fitted model in this form, so that one measure serves them all.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA, KernelPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler

from kernelsieve import SparseKernelPCA


@dataclass(frozen=True)
class Task:
    """Kernel PCA as every contestant is asked for it: exp(-gamma |x - y|^2), centred, so many components."""

    gamma: float
    n_components: int = 10


@dataclass(frozen=True)
class Components:
    """Columns of `dual_coef_` are components, expanded over the rows of `support_vectors_`."""

    support_vectors_: np.ndarray
    dual_coef_: np.ndarray


@dataclass(frozen=True)
class Peer:
    """A way to do kernel PCA with about `m` points."""

    name: str
    setting: str
    fit: Callable[[np.ndarray, int, Task, int], Any]  # rows, m, task, seed
    components: Callable[[Any, np.ndarray], Components]
    transform: Callable[[Any, np.ndarray], np.ndarray] = lambda model, rows: model.transform(rows)
    needs: str = "sklearn"  # module that must be installed
    sized: bool = True  # the number of points can be chosen
    random: bool = True  # another seed gives another model
    lines: int = 2  # calls that a fit and a transform take


def fit_ours(rows: np.ndarray, m: int, task: Task, seed: int) -> SparseKernelPCA:
    return SparseKernelPCA(task.n_components, n_support=m, gamma=task.gamma, random_state=seed, n_jobs=1).fit(rows)


def our_components(model: SparseKernelPCA, rows: np.ndarray) -> Components:
    return Components(model.support_vectors_, model.dual_coef_)


def fit_exact(solver: str) -> Callable[[np.ndarray, int, Task, int], KernelPCA]:
    def fit(rows: np.ndarray, m: int, task: Task, seed: int) -> KernelPCA:
        return KernelPCA(task.n_components, kernel="rbf", gamma=task.gamma, eigen_solver=solver, random_state=seed).fit(
            rows
        )

    return fit


def exact_components(model: KernelPCA, rows: np.ndarray) -> Components:
    coef = model.eigenvectors_ / np.sqrt(model.eigenvalues_)
    return Components(model.X_fit_, coef - coef.mean(axis=0))


class LandmarkPCA:
    """Nystroem features of given landmarks, then PCA: two estimators of scikit-learn, held together."""

    def __init__(self, landmarks: np.ndarray, task: Task):
        # Nystroem draws its landmarks from the rows that it is fitted on; fitted on m landmarks, it takes them all.
        self.features = Nystroem(n_components=len(landmarks), gamma=task.gamma, random_state=0).fit(landmarks)
        self.pca = PCA(task.n_components, random_state=0)

    def fit(self, rows: np.ndarray) -> LandmarkPCA:
        self.pca.fit(self.features.transform(rows))
        return self

    def transform(self, rows: np.ndarray) -> np.ndarray:
        return self.pca.transform(self.features.transform(rows))


def landmark_components(model: LandmarkPCA, rows: np.ndarray) -> Components:
    return Components(model.features.components_, model.features.normalization_.T @ model.pca.components_.T)


def random_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    return rows[np.random.default_rng(seed).choice(len(rows), m, replace=False)]


def kmeans_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    return KMeans(m, random_state=seed).fit(rows).cluster_centers_


def minibatch_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    return MiniBatchKMeans(m, random_state=seed, compute_labels=False).fit(rows).cluster_centers_


def fps_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    selector = importlib.import_module("skmatter.sample_selection").FPS(n_to_select=m, initialize="random")
    return rows[selector.set_params(random_state=seed).fit(rows).selected_idx_]


def cur_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    selector = importlib.import_module("skmatter.sample_selection").CUR(n_to_select=m, full=True, random_state=seed)
    return rows[selector.fit(rows).selected_idx_]


def fast_cur_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    selector = importlib.import_module("skmatter.sample_selection").CUR(
        n_to_select=m, full=True, recompute_every=0, random_state=seed
    )
    return rows[selector.fit(rows).selected_idx_]


def fit_landmarks(choose: Callable[[np.ndarray, int, int], np.ndarray]) -> Callable[..., LandmarkPCA]:
    def fit(rows: np.ndarray, m: int, task: Task, seed: int) -> LandmarkPCA:
        return LandmarkPCA(choose(rows, m, seed), task).fit(rows)

    return fit


class FourierPCA:
    """Random Fourier features, then PCA."""

    def __init__(self, m: int, task: Task, seed: int):
        self.features = RBFSampler(n_components=m, gamma=task.gamma, random_state=seed)
        self.pca = PCA(task.n_components, random_state=0)

    def fit(self, rows: np.ndarray) -> FourierPCA:
        self.pca.fit(self.features.fit_transform(rows))
        return self

    def transform(self, rows: np.ndarray) -> np.ndarray:
        return self.pca.transform(self.features.transform(rows))


def fourier_components(model: FourierPCA, rows: np.ndarray) -> Components:
    """The same weights on the training rows: a component of the random features is a sum over training rows, and that
    sum, with the kernel's own features in place of the random ones, is its vector in the kernel's feature space."""
    return Components(rows, model.transform(rows))


def fit_nystrompca(rows: np.ndarray, m: int, task: Task, seed: int) -> Any:
    package = importlib.import_module("nystrompca")
    # Its kernel is exp(-|x - y|^2 / sigma^2).
    model = package.NystromKPCA(
        n_components=task.n_components, m_subset=m, sigma=task.gamma**-0.5, scale=False, seed=seed
    )
    model.fit_transform(rows)
    return model


def nystrompca_components(model: Any, rows: np.ndarray) -> Components:
    """Its weights belong to features centred at  sum_j b_j phi(s_j),  b = K_SS^-1 (mean of k(S, x))."""
    inverse = importlib.import_module("nystrompca.utils").get_inverse(model.K_mm)
    centre = inverse @ model.K_nm.mean(axis=0)
    coef = model.components_ - np.outer(centre, model.components_.sum(axis=0))
    return Components(model.X[model.subset], coef)


def fit_pyod(rows: np.ndarray, m: int, task: Task, seed: int) -> Any:
    detector = importlib.import_module("pyod.models.kpca").KPCA
    return detector(
        n_components=task.n_components,
        gamma=task.gamma,
        eigen_solver="arpack",
        sampling=True,
        subset_size=m,
        random_state=seed,
    ).fit(rows)


PEERS = (
    Peer("kernelsieve", "`SparseKernelPCA(10, n_support=m)`", fit_ours, our_components),
    Peer(
        "KernelPCA, arpack",
        'scikit-learn `KernelPCA(10, eigen_solver="arpack")`',
        fit_exact("arpack"),
        exact_components,
        sized=False,
        random=False,
    ),
    Peer(
        "KernelPCA, randomized",
        'scikit-learn `KernelPCA(10, eigen_solver="randomized")`',
        fit_exact("randomized"),
        exact_components,
        sized=False,
    ),
    Peer(
        "Nystroem + PCA",
        "scikit-learn `Nystroem(n_components=m)`, then `PCA(10)`: m random rows",
        fit_landmarks(random_landmarks),
        landmark_components,
        lines=3,
    ),
    Peer(
        "k-means + Nystroem",
        "centres of scikit-learn's `KMeans(m)` as landmarks of `Nystroem`, then `PCA(10)`",
        fit_landmarks(kmeans_landmarks),
        landmark_components,
        lines=5,
    ),
    Peer(
        "mini-batch k-means",
        "centres of scikit-learn's `MiniBatchKMeans(m, compute_labels=False)` as landmarks of `Nystroem`, then "
        "`PCA(10)`",
        fit_landmarks(minibatch_landmarks),
        landmark_components,
        lines=5,
    ),
    Peer(
        "Fourier features",
        "scikit-learn `RBFSampler(n_components=m)`, then `PCA(10)`: m features in place of points",
        lambda rows, m, task, seed: FourierPCA(m, task, seed).fit(rows),
        fourier_components,
        lines=3,
    ),
    Peer(
        "scikit-matter FPS",
        'rows of `FPS(n_to_select=m, initialize="random")` as landmarks of `Nystroem`, then `PCA(10)`',
        fit_landmarks(fps_landmarks),
        landmark_components,
        needs="skmatter",
        lines=5,
    ),
    Peer(
        "scikit-matter CUR",
        "rows of `CUR(n_to_select=m, full=True)` as landmarks of `Nystroem`, then `PCA(10)`",
        fit_landmarks(cur_landmarks),
        landmark_components,
        needs="skmatter",
        random=False,
        lines=5,
    ),
    Peer(
        "scikit-matter CUR, once",
        "rows of `CUR(n_to_select=m, full=True, recompute_every=0)`, which scores all rows once, as landmarks of "
        "`Nystroem`, then `PCA(10)`",
        fit_landmarks(fast_cur_landmarks),
        landmark_components,
        needs="skmatter",
        random=False,
        lines=5,
    ),
    Peer(
        "nystrompca",
        "`NystromKPCA(n_components=10, m_subset=m, scale=False)`",
        fit_nystrompca,
        nystrompca_components,
        needs="nystrompca",
    ),
    Peer(
        "PyOD KPCA",
        '`KPCA(n_components=10, sampling=True, subset_size=m, eigen_solver="arpack")`; scores by its `kpca.transform`',
        fit_pyod,
        lambda model, rows: exact_components(model.kpca, rows),
        transform=lambda model, rows: model.kpca.transform(rows),
        needs="pyod",
    ),
)


# What cannot be raced like the others: no number of points to choose, no scores of new rows, or another interpreter.


@dataclass(frozen=True)
class Beside:
    """A method that is fitted beside the race: `measure` gives processor seconds, and what else is known of the fit."""

    name: str
    setting: str
    measure: Callable[[np.ndarray, Task], Measured]


@dataclass(frozen=True)
class Measured:
    """A fit: its processor seconds, its components where they can be read, and how it transforms, where it can."""

    seconds: float
    components: Components | None = None
    transform: Callable[[np.ndarray], np.ndarray] | None = None


MLPACK = """
import sys, time, numpy as np
from mlpack import kernel_pca
rows, width, scores = np.load(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
start = time.process_time()
found = kernel_pca(
    input_=rows, kernel="gaussian", bandwidth=width, new_dimensionality=int(sys.argv[4]), center=True, {more}
)
print(time.process_time() - start)
np.save(scores, found["output"])
"""
KERNLAB = """
arguments <- commandArgs(trailingOnly = TRUE)
suppressMessages(library(kernlab))
rows <- as.matrix(read.csv(arguments[1], header = FALSE))
width <- list(sigma = as.numeric(arguments[2]))
start <- proc.time()
model <- {call}
seconds <- sum((proc.time() - start)[1:2])
write.table({coef}, arguments[3], sep = ",", row.names = FALSE, col.names = FALSE)
write.table({points}, arguments[4], sep = ",", row.names = FALSE, col.names = FALSE)
cat(seconds)
"""
MOST_SECONDS = 40.0  # of a fit beside the race


def cpu_seconds(command: list[str]) -> float:
    """The number that a program prints; its last words where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"stopped after {MOST_SECONDS:.0f} s") from None
    if done.returncode:
        fatal = [line for line in (done.stdout + done.stderr).splitlines() if "[FATAL]" in line]  # mlpack's mark
        raise RuntimeError(last_words(fatal[0] if fatal else done.stderr) or f"ended with code {done.returncode}")
    return float(done.stdout.split()[-1])


def last_words(text: str) -> str:
    """The last line with something in it, without folders."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # without the colours of a terminal
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return " ".join(word for word in lines[-1].split() if os.sep not in word)[:160] if lines else ""


def mlpack(more: str) -> Callable[[np.ndarray, Task], Measured]:
    """In a process of its own, because a failure inside mlpack may end the process."""

    def measure(rows: np.ndarray, task: Task) -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            table, scores = Path(folder) / "rows.npy", Path(folder) / "scores.npy"
            np.save(table, rows)
            width, wanted = str((2 * task.gamma) ** -0.5), str(task.n_components)
            program = MLPACK.replace("{more}", more)
            seconds = cpu_seconds([sys.executable, "-c", program, str(table), width, str(scores), wanted])
            # Exact scores are the weights of a component on the training rows, up to its length.
            found = np.load(scores)
            return Measured(seconds, Components(rows, found - found.mean(axis=0)))

    return measure


def kernlab(call: str, coef: str, points: str) -> Callable[[np.ndarray, Task], Measured]:
    """In R; `coef` and `points` read the components off its model."""

    def measure(rows: np.ndarray, task: Task) -> Measured:
        if shutil.which("Rscript") is None:
            raise RuntimeError("Rscript is not installed")
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("kpca.R", "rows.csv", "coef.csv", "points.csv")]
            script, table, coef_path, points_path = paths
            np.savetxt(table, rows, delimiter=",")
            program = KERNLAB.replace("{call}", call).replace("{coef}", coef).replace("{points}", points)
            script.write_text(program.replace("{features}", str(task.n_components)), encoding="utf-8")
            seconds = cpu_seconds(["Rscript", *map(str, (script, table, task.gamma, coef_path, points_path))])
            found = (np.loadtxt(path, delimiter=",", ndmin=2) for path in (points_path, coef_path))
            return Measured(seconds, Components(*found))

    return measure


def keops(rows: np.ndarray, task: Task) -> Measured:
    """The leading eigenvectors of the centred gram by Lanczos steps, whose products KeOps forms without the gram."""
    lazy = importlib.import_module("pykeops.numpy").LazyTensor
    n = len(rows)
    gram = (-((lazy(rows[:, None, :].copy()) - lazy(rows[None, :, :].copy())) ** 2).sum(-1) * task.gamma).exp()

    def centred_product(v: np.ndarray) -> np.ndarray:
        product = np.asarray(gram @ (v - v.mean()).reshape(-1, 1)).ravel()
        return product - product.mean()

    centred_product(np.ones(n))  # KeOps compiles a kernel for this number of columns
    start = time.process_time()
    centred_product(np.ones(n))
    expected = (time.process_time() - start) * 4 * task.n_components  # products of a Lanczos run, about
    if expected > MOST_SECONDS:
        raise RuntimeError(f"over {MOST_SECONDS:.0f} s to be expected, not run")
    start = time.process_time()
    operator = LinearOperator((n, n), matvec=centred_product, dtype=np.float64)
    vectors = eigsh(operator, k=task.n_components, v0=np.random.default_rng(0).standard_normal(n))[1]
    return Measured(time.process_time() - start, Components(rows, vectors - vectors.mean(axis=0)))


def fitted(make: Callable[[int, Task], Any]) -> Callable[[np.ndarray, Task], Measured]:
    """An estimator with fit and transform, made for a number of columns."""

    def measure(rows: np.ndarray, task: Task) -> Measured:
        model = make(rows.shape[1], task)
        start = time.process_time()
        model.fit(rows)
        return Measured(time.process_time() - start, transform=model.transform)

    return measure


def linear(n_columns: int, task: Task) -> PCA:
    """As many components as there are columns, if there are fewer."""
    return PCA(min(task.n_components, n_columns))


def umap(n_columns: int, task: Task) -> Any:
    return importlib.import_module("umap").UMAP(n_components=task.n_components, random_state=0)


def automatic(rows: np.ndarray, task: Task) -> Measured:
    start = time.process_time()
    model = SparseKernelPCA(task.n_components, gamma=task.gamma, random_state=0, n_jobs=1).fit(rows)
    return Measured(time.process_time() - start, our_components(model, rows), model.transform)


BESIDE = (
    Beside("kernelsieve, auto", "`SparseKernelPCA(10)`: finds how many points keep .99", automatic),
    Beside("PCA", "scikit-learn `PCA(10)`, or with as many components as columns: linear", fitted(linear)),
    Beside("UMAP", "`UMAP(n_components=10, random_state=0)`: keeps neighbours, not variance", fitted(umap)),
    Beside(
        "KeOps + Lanczos",
        "SciPy's `eigsh` of the centred gram, products by a `LazyTensor` of pykeops: exact, without an N x N matrix",
        keops,
    ),
    Beside(
        "mlpack, exact",
        '`kernel_pca(kernel="gaussian", new_dimensionality=10, center=True)`: scores of the training rows only',
        mlpack(""),
    ),
    *(
        Beside(
            f"mlpack, {sampling}",
            f'`kernel_pca(..., nystroem_method=True, sampling="{sampling}")`: as many points as components, scores of '
            "the training rows only",
            mlpack(f'nystroem_method=True, sampling="{sampling}"'),
        )
        for sampling in ("kmeans", "random", "ordered")
    ),
    Beside(
        "kernlab, kpca",
        'R `kpca(x, kernel="rbfdot", features=10)`: exact',
        kernlab(
            'kpca(rows, kernel = "rbfdot", kpar = width, features = {features})',
            "scale(pcv(model), scale = FALSE)",
            "xmatrix(model)",
        ),
    ),
    Beside(
        "kernlab, kfa",
        'R `kfa(x, kernel="rbfdot", features=10)`: as many points as components',
        kernlab(
            'kfa(rows, kernel = "rbfdot", kpar = width, features = {features})',
            "alpha(model)",
            "xmatrix(model)",
        ),
    ),
)
