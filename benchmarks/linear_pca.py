"""Sparse PCA in input space: against scikit-learn's SparsePCA, against outliers, against the published table."""

from __future__ import annotations

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.decomposition import SparsePCA
from threadpoolctl import threadpool_limits

from experiments.datasets import component_angles, contaminated, load_file, sparse_signals
from kernelsieve import ElasticNetPCA, RobustElasticNetPCA

from .report import Report
from .timing import race

# Rows, columns, loadings of each of three signals, how many times faster than SparsePCA.
SHAPES = ((1000, 100, 10, 12.0), (100, 1000, 20, 60.0), (1000, 1000, 20, 20.0))
WIDE = (100, 10_000, 20, 0.1)  # and seconds
ROBUST_SHAPES = ((200, 20), (100, 200))
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
ROBUST_SIZES = (6, 5)  # loadings of the contaminated data's components
SEEDS = range(10)
PITPROPS = {"nonzeros": "7 4 4 1 1 1", "adjusted variance, %": "28.0 14.0 13.3 7.4 6.8 6.2"}
SEARCH_STEPS = 8


def sparse_pca_speed(report: Report) -> None:
    report.section(
        "Sparse PCA",
        "ElasticNetPCA(3, n_nonzero, refit=True) against scikit-learn's SparsePCA(3), three signals of 10 or 20 "
        "loadings in noise; SparsePCA with the smallest alpha that leaves as many nonzeros. One BLAS thread on both "
        "sides, best of 5, in turns. Angles to the true components, mean of three.",
    )
    with threadpool_limits(1):
        for n_samples, n_features, n_loadings, target in SHAPES:
            X, truth = sparse_signals(n_samples, n_features, n_loadings, seed=0)
            ours = ElasticNetPCA(3, n_nonzero=n_loadings, refit=True)
            peer = matched_sparse_pca(X, 3 * n_loadings)
            times = race({"ours": lambda m=ours, X=X: m.fit(X), "peer": lambda m=peer, X=X: m.fit(X)}, 5)
            found, theirs = (component_angles(m.components_, truth).mean() for m in (ours, peer))
            nonzeros = [np.count_nonzero(m.components_) for m in (ours, peer)]
            name = f"{n_samples} x {n_features}"
            note = f" ({times['ours'] * 1e3:.1f} ms; SparsePCA {times['peer'] * 1e3:.0f} ms)"
            report.at_least(f"{name}: times faster", times["peer"] / times["ours"], target, "{:.1f}x", note)
            note = f" ({nonzeros[0]} nonzeros; SparsePCA {nonzeros[1]}, its angle the target)"
            report.at_most(f"{name}: angle, degrees", float(found), float(theirs), "{:.2f}", note)
        n_samples, n_features, n_loadings, limit = WIDE
        X, truth = sparse_signals(n_samples, n_features, n_loadings, seed=0)
        model = ElasticNetPCA(3, n_nonzero=n_loadings, refit=True)
        seconds = race({"ours": lambda: model.fit(X)}, 5)["ours"]
        note = f" (angle {component_angles(model.components_, truth).mean():.1f} degrees)"
        report.at_most(f"{n_samples} x {n_features}: seconds", seconds, limit, "{:.3f}", note)


def matched_sparse_pca(X: np.ndarray, n_nonzero: int) -> SparsePCA:
    """SparsePCA with the smallest alpha, by bisection, whose components have `n_nonzero` nonzeros in all, or nearly."""
    low, high = 0.05, 20.0
    best: tuple[int, float] | None = None
    for _ in range(SEARCH_STEPS):
        alpha = float(np.sqrt(low * high))
        count = np.count_nonzero(SparsePCA(3, alpha=alpha, random_state=0).fit(X).components_)
        if best is None or abs(count - n_nonzero) <= best[0]:
            best = (abs(count - n_nonzero), alpha)
        low, high = (alpha, high) if count > n_nonzero else (low, alpha)
    assert best is not None
    return SparsePCA(3, alpha=best[1], random_state=0)


def robust_sparse_pca(report: Report) -> None:
    report.section(
        "Robust sparse PCA",
        "RobustElasticNetPCA(2) on two sparse components with outliers far off, clustered and scattered: the largest "
        f"principal angle to the truth, mean of {len(SEEDS)} data sets; time against ElasticNetPCA(2, refit=True).",
    )
    with threadpool_limits(1):
        for shape in ROBUST_SHAPES:
            name = f"{shape[0]} x {shape[1]}"
            for kind in ("clustered", "scattered"):
                angles = [[robust_angle(shape, share, kind, seed) for seed in SEEDS] for share in SHARES]
                means = np.mean(angles, axis=1)
                note = (
                    f" ({' '.join(f'{a:.1f}' for a in means)} at 0, 5, 10, 20, 30 %; worst single {np.max(angles):.1f})"
                )
                report.at_most(f"{name}, {kind}: angle, degrees, worst mean", float(means.max()), 3.0, "{:.2f}", note)
            rows = contaminated(*shape, 0.2, "clustered", 0).rows
            robust = RobustElasticNetPCA(2, n_nonzero=ROBUST_SIZES, random_state=0)
            plain = ElasticNetPCA(2, n_nonzero=ROBUST_SIZES, refit=True)
            times = race({"robust": lambda m=robust, X=rows: m.fit(X), "plain": lambda m=plain, X=rows: m.fit(X)}, 15)
            note = f" ({times['robust'] * 1e3:.1f} ms; ElasticNetPCA {times['plain'] * 1e3:.1f} ms)"
            report.at_most(f"{name}: time / ElasticNetPCA", times["robust"] / times["plain"], 10.0, "{:.1f}x", note)


def robust_angle(shape: tuple[int, int], share: float, kind: str, seed: int) -> float:
    data = contaminated(*shape, share, kind, seed)
    model = RobustElasticNetPCA(2, n_nonzero=ROBUST_SIZES, random_state=seed).fit(data.rows)
    return float(np.degrees(subspace_angles(model.components_.T, data.truth.T)[0]))


def pitprops(report: Report) -> None:
    report.section("Pitprops", "Zou, Hastie & Tibshirani's table: l2 = 0, alpha = .06 .16 .1 .5 .5 .5.")
    model = ElasticNetPCA(6, alpha=[0.06, 0.16, 0.1, 0.5, 0.5, 0.5], alpha_scale="absolute", l2=0)
    model.fit_covariance(load_file("pitprops")["corr"])
    found = {
        "nonzeros": " ".join(map(str, model.n_nonzero_)),
        "adjusted variance, %": " ".join(f"{100 * share:.1f}" for share in model.explained_variance_ratio_),
    }
    for name, printed in PITPROPS.items():
        report.line(name, printed, found[name], found[name] == printed)
