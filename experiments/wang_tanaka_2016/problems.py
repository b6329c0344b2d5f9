"""The paper's three data sets with their parameters, and what a solution of one of them has to tell.

A component v_k = sum_i a_ik phi(x_i) is scaled to unit length.  k(x, x) = 1, so the mean squared error of the first M
components, by projection on their span with orthonormal basis U, is 1 - mean_n |U'phi(x_n)|^2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import rbf_kernel

from kernelsieve.threads import one_blas_thread

from ..datasets import load_file, three_clusters
from ..report import Report, span

N_PARABOLA, PARABOLA_NOISE = 500, 0.2
N_MNIST = 500


@dataclass(frozen=True)
class Setting:
    """Parameters of one experiment of the paper."""

    gamma: float
    alphas: tuple[float, ...]
    l2: float
    penalty: float
    eps_abs: float = 1e-4
    outer_max_iter: int = 300
    outer_tol: float = 1e-2


CLUSTERS = Setting(1 / (2 * 0.05), (0.02, 0.02, 0.009, 0.008, 0.006, 0.007, 0.01, 0.01), 0.1, penalty=0.01)
EQUAL = Setting(1 / (2 * 0.5**2), (0.05,) * 4, 0.05, penalty=0.09, outer_max_iter=60)
RISING = replace(EQUAL, alphas=(0.05, 0.07, 0.08, 0.09))
MNIST = Setting(
    1 / (2 * 700**2), (0.002, 0.002, 0.004), 0.001, penalty=0.01, eps_abs=1e-2, outer_max_iter=30, outer_tol=1e-6
)


@dataclass(frozen=True)
class Problem:
    """Rows with a setting."""

    name: str
    setting: Setting
    rows: np.ndarray

    @property
    def n_components(self) -> int:
        return len(self.setting.alphas)

    def cross_gram(self, rows: np.ndarray) -> np.ndarray:
        block: np.ndarray = rbf_kernel(rows, self.rows, gamma=self.setting.gamma)
        return block

    @cached_property
    def gram(self) -> np.ndarray:
        return self.cross_gram(self.rows)

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues of the gram from the largest down, and its eigenvectors."""
        with one_blas_thread():
            values, vectors = np.linalg.eigh(self.gram)
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]

    @cached_property
    def kernel_pca(self) -> np.ndarray:
        """Coefficients of kernel PCA's components, (N, M)."""
        values, vectors = (part[..., : self.n_components] for part in self.spectrum)
        coef: np.ndarray = vectors * np.sign(vectors.sum(axis=0)) / np.sqrt(values)
        return coef

    def errors(self, coef: np.ndarray, cross_gram: np.ndarray) -> np.ndarray:
        """Mean squared errors for the first 1, 2, ... components, of rows with these kernel values."""
        inner = coef.T @ self.gram @ coef
        inner[np.diag_indices_from(inner)] += ~coef.any(axis=0)  # a zero component adds nothing
        scores = solve_triangular(np.linalg.cholesky(inner), (cross_gram @ coef).T, lower=True)
        errors: np.ndarray = 1.0 - np.cumsum(np.mean(scores**2, axis=1))
        return errors


@dataclass(frozen=True)
class Loops:
    """How the loops of Algorithm 1 ended, component by component."""

    n_passes: list[int] = field(default_factory=list)
    n_inner: list[int] = field(default_factory=list)  # ADMM iterations of the last pass
    inner_capped: list[bool] = field(default_factory=list)
    outer_capped: list[bool] = field(default_factory=list)


@dataclass(frozen=True)
class Solution:
    """Sparse components of a problem."""

    name: str
    problem: Problem
    coef: np.ndarray  # (N, M): of unit length in feature space, zero where zero, signs as kernel PCA's
    objective: float  # J summed over components, each at its last p
    loops: Loops

    @property
    def n_nonzero(self) -> list[int]:
        counts: list[int] = np.count_nonzero(self.coef, axis=0).tolist()
        return counts

    @property
    def n_support(self) -> int:
        """Rows that any component uses."""
        return int(np.count_nonzero(self.coef.any(axis=1)))

    @cached_property
    def cosines(self) -> list[float]:
        """Of each component with kernel PCA's."""
        cosines: list[float] = np.sum(self.coef * (self.problem.gram @ self.problem.kernel_pca), axis=0).tolist()
        return cosines

    @cached_property
    def error(self) -> float:
        """Mean squared error of the rows with all components."""
        return float(self.problem.errors(self.coef, self.problem.gram)[-1])

    @property
    def excess(self) -> float:
        """The same over kernel PCA's, less one."""
        return self.error / float(self.problem.errors(self.problem.kernel_pca, self.problem.gram)[-1]) - 1.0


def solution(name: str, problem: Problem, coef: np.ndarray, objective: float, loops: Loops) -> Solution:
    """With components of unit length and of kernel PCA's signs."""
    image = problem.gram @ coef
    lengths = np.sqrt(np.maximum(np.sum(coef * image, axis=0), 0.0))
    signs = np.where(np.sum(problem.kernel_pca * image, axis=0) < 0, -1.0, 1.0)
    return Solution(name, problem, coef * signs / np.where(lengths > 0, lengths, 1.0), objective, loops)


def clusters_problem(seed: int) -> Problem:
    """Fig. 1."""
    return Problem("three clusters", CLUSTERS, three_clusters(seed))


def parabola_rows(seed: int, n: int = N_PARABOLA) -> np.ndarray:
    """Fig. 2's rows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, x**2 + PARABOLA_NOISE * rng.standard_normal(n)])


def parabola_problem(seed: int, setting: Setting = EQUAL, n: int = N_PARABOLA) -> Problem:
    return Problem("parabola", setting, parabola_rows(seed, n))


def mnist_problem(seed: int, n: int = N_MNIST) -> Problem:
    """Figs. 3 and 4."""
    images = load_file("mnist")["x_train"]
    chosen = np.random.default_rng(seed).choice(len(images), n, replace=False)
    return Problem("MNIST", MNIST, images[chosen].reshape(n, -1).astype(np.float64))


def mnist_test_rows() -> np.ndarray:
    images = load_file("mnist")["x_test"]
    return images.reshape(len(images), -1).astype(np.float64)


def rows_for(report: Report, n: int) -> int:
    """So many, or a few in the shortened form."""
    return min(n, 150) if report.quick else n


# Numbers as text


def percent(shares: Iterable[float]) -> str:
    return f"{span([100 * float(share) for share in shares], digits=2)} %"


def joined(values: Sequence[Any]) -> str:
    return " ".join(str(value) for value in values)


def out_of(flags: Sequence[bool]) -> str:
    return f"{sum(flags)} of {len(flags)}"


def caps(loops: Loops) -> str:
    """Components stopped by each cap, where there is one."""
    pairs = (("ADMM", loops.inner_capped), ("passes", loops.outer_capped))
    return ", ".join(f"{name} {out_of(flags)}" for name, flags in pairs if flags)
