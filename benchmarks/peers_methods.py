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
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA, KernelPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler

from kernelsieve import SparseKernelPCA

M = 10  # components


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
    fit: Callable[[np.ndarray, int, float, int], Any]  # rows, m, gamma, seed
    components: Callable[[Any, np.ndarray], Components]
    transform: Callable[[Any, np.ndarray], np.ndarray] = lambda model, rows: model.transform(rows)
    needs: str = "sklearn"  # module that must be installed
    sized: bool = True  # the number of points can be chosen
    random: bool = True  # another seed gives another model
    lines: int = 2  # calls that a fit and a transform take


def fit_ours(rows: np.ndarray, m: int, gamma: float, seed: int) -> SparseKernelPCA:
    return SparseKernelPCA(M, n_support=m, gamma=gamma, random_state=seed, n_jobs=1).fit(rows)


def our_components(model: SparseKernelPCA, rows: np.ndarray) -> Components:
    return Components(model.support_vectors_, model.dual_coef_)


def fit_exact(solver: str) -> Callable[[np.ndarray, int, float, int], KernelPCA]:
    def fit(rows: np.ndarray, m: int, gamma: float, seed: int) -> KernelPCA:
        return KernelPCA(M, kernel="rbf", gamma=gamma, eigen_solver=solver, random_state=seed).fit(rows)

    return fit


def exact_components(model: KernelPCA, rows: np.ndarray) -> Components:
    coef = model.eigenvectors_ / np.sqrt(model.eigenvalues_)
    return Components(model.X_fit_, coef - coef.mean(axis=0))


class LandmarkPCA:
    """Nystroem features of given landmarks, then PCA: two estimators of scikit-learn, held together."""

    def __init__(self, landmarks: np.ndarray, gamma: float):
        # Nystroem draws its landmarks from the rows that it is fitted on; fitted on m landmarks, it takes them all.
        self.features = Nystroem(n_components=len(landmarks), gamma=gamma, random_state=0).fit(landmarks)
        self.pca = PCA(M, random_state=0)

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
    return MiniBatchKMeans(m, random_state=seed).fit(rows).cluster_centers_


def fps_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    selector = importlib.import_module("skmatter.sample_selection").FPS(n_to_select=m, initialize="random")
    return rows[selector.set_params(random_state=seed).fit(rows).selected_idx_]


def cur_landmarks(rows: np.ndarray, m: int, seed: int) -> np.ndarray:
    selector = importlib.import_module("skmatter.sample_selection").CUR(n_to_select=m, full=True, random_state=seed)
    return rows[selector.fit(rows).selected_idx_]


def fit_landmarks(choose: Callable[[np.ndarray, int, int], np.ndarray]) -> Callable[..., LandmarkPCA]:
    def fit(rows: np.ndarray, m: int, gamma: float, seed: int) -> LandmarkPCA:
        return LandmarkPCA(choose(rows, m, seed), gamma).fit(rows)

    return fit


class FourierPCA:
    """Random Fourier features, then PCA."""

    def __init__(self, m: int, gamma: float, seed: int):
        self.features = RBFSampler(n_components=m, gamma=gamma, random_state=seed)
        self.pca = PCA(M, random_state=0)

    def fit(self, rows: np.ndarray) -> FourierPCA:
        self.pca.fit(self.features.fit_transform(rows))
        return self

    def transform(self, rows: np.ndarray) -> np.ndarray:
        return self.pca.transform(self.features.transform(rows))


def fourier_components(model: FourierPCA, rows: np.ndarray) -> Components:
    """The same weights on the training rows: a component of the random features is a sum over training rows, and that
    sum, with the kernel's own features in place of the random ones, is its vector in the kernel's feature space."""
    return Components(rows, model.transform(rows))


def fit_nystrompca(rows: np.ndarray, m: int, gamma: float, seed: int) -> Any:
    package = importlib.import_module("nystrompca")
    # Its kernel is exp(-|x - y|^2 / sigma^2).
    model = package.NystromKPCA(n_components=M, m_subset=m, sigma=gamma**-0.5, scale=False, seed=seed)
    model.fit_transform(rows)
    return model


def nystrompca_components(model: Any, rows: np.ndarray) -> Components:
    """Its weights belong to features centred at  sum_j b_j phi(s_j),  b = K_SS^-1 (mean of k(S, x))."""
    inverse = importlib.import_module("nystrompca.utils").get_inverse(model.K_mm)
    centre = inverse @ model.K_nm.mean(axis=0)
    coef = model.components_ - np.outer(centre, model.components_.sum(axis=0))
    return Components(model.X[model.subset], coef)


def fit_pyod(rows: np.ndarray, m: int, gamma: float, seed: int) -> Any:
    detector = importlib.import_module("pyod.models.kpca").KPCA
    return detector(
        n_components=M, gamma=gamma, eigen_solver="arpack", sampling=True, subset_size=m, random_state=seed
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
        "centres of scikit-learn's `MiniBatchKMeans(m)` as landmarks of `Nystroem`, then `PCA(10)`",
        fit_landmarks(minibatch_landmarks),
        landmark_components,
        lines=5,
    ),
    Peer(
        "Fourier features",
        "scikit-learn `RBFSampler(n_components=m)`, then `PCA(10)`: m features in place of points",
        lambda rows, m, gamma, seed: FourierPCA(m, gamma, seed).fit(rows),
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


# Methods without components in this kernel's feature space, or without scores for new rows: for time only.

MLPACK = """
import sys, time, numpy as np
from mlpack import kernel_pca
rows, width = np.load(sys.argv[1]), float(sys.argv[2])
def fit(): kernel_pca(
    input_=rows, kernel="gaussian", bandwidth=width, new_dimensionality=10, center=True, {more}
)
fit()
start = time.process_time(); fit(); print(time.process_time() - start)
"""
KERNLAB = """
arguments <- commandArgs(trailingOnly = TRUE)
suppressMessages(library(kernlab))
rows <- as.matrix(read.csv(arguments[1], header = FALSE))
start <- proc.time()
model <- kpca(rows, kernel = "rbfdot", kpar = list(sigma = as.numeric(arguments[2])), features = 10)
cat(sum((proc.time() - start)[1:2]))
"""


def cpu_seconds(command: list[str]) -> float:
    """The number that a program prints; its last words where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        fatal = [line for line in (done.stdout + done.stderr).splitlines() if "[FATAL]" in line]  # mlpack's mark
        raise RuntimeError(last_words(fatal[0] if fatal else done.stderr) or f"ended with code {done.returncode}")
    return float(done.stdout.split()[-1])


def last_words(text: str) -> str:
    """The last line with something in it, without folders."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # without the colours of a terminal
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return " ".join(word for word in lines[-1].split() if os.sep not in word)[:160] if lines else ""


def mlpack_seconds(more: str) -> Callable[[np.ndarray, float], float]:
    """In a process of its own, because a failure inside mlpack may end the process."""

    def measure(rows: np.ndarray, gamma: float) -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npy"
            np.save(path, rows)
            width = str((2 * gamma) ** -0.5)
            return cpu_seconds([sys.executable, "-c", MLPACK.replace("{more}", more), str(path), width])

    return measure


def kernlab_seconds(rows: np.ndarray, gamma: float) -> float:
    if shutil.which("Rscript") is None:
        raise RuntimeError("Rscript is not installed")
    with tempfile.TemporaryDirectory() as folder:
        table, script = Path(folder) / "rows.csv", Path(folder) / "kpca.R"
        np.savetxt(table, rows, delimiter=",")
        script.write_text(KERNLAB, encoding="utf-8")
        return cpu_seconds(["Rscript", str(script), str(table), str(gamma)])


def fit_seconds(fit: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray, float], float]:
    def measure(rows: np.ndarray, gamma: float) -> float:
        start = time.process_time()
        fit(rows)
        return time.process_time() - start

    return measure


def fit_umap(rows: np.ndarray) -> Any:
    return importlib.import_module("umap").UMAP(n_components=M, random_state=0).fit(rows)


# Name, setting, processor seconds of a fit.
TIME_ONLY: tuple[tuple[str, str, Callable[[np.ndarray, float], float]], ...] = (
    ("PCA", "scikit-learn `PCA(10)`: linear", fit_seconds(lambda rows: PCA(min(M, rows.shape[1])).fit(rows))),
    ("UMAP", "`UMAP(n_components=10, random_state=0)`: keeps neighbours, not variance", fit_seconds(fit_umap)),
    (
        "mlpack, exact",
        '`kernel_pca(kernel="gaussian", new_dimensionality=10, center=True)`: scores of the training rows only',
        mlpack_seconds(""),
    ),
    (
        "mlpack, Nystroem",
        '`kernel_pca(..., nystroem_method=True, sampling="kmeans")`: as many points as components, scores of the '
        "training rows only",
        mlpack_seconds('nystroem_method=True, sampling="kmeans"'),
    ),
    ("kernlab", 'R `kpca(x, kernel="rbfdot", features=10)`', kernlab_seconds),
)
