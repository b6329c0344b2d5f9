"""Three clusters: components and reconstruction errors over the plane, of all kernels and of the few that remain."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel

from ..datasets import CLUSTER_CENTERS
from ..report import Report, span
from . import pictures
from .draws import ALIKE, FAR, GAMMA, N_PANELS, NOISE, ROWS_A_CLUSTER, SEEDS, Pair, left_over
from .pictures import plane
from .vectors import noise_table, probabilistic_pca, rules_table


def clusters(report: Report) -> None:
    """All of section 5's first example."""
    report.text("## Three clusters: 90 rows, kernel width .25")
    noise_table(report)
    probabilistic_pca(report)
    rules_table(report)
    pairs = [Pair.of(seed) for seed in report.some(SEEDS, 2)]
    drawn = min(pairs, key=lambda pair: abs(pair.sparse.n_support_ - N_PANELS))
    report.text(
        f"Drawn below: seed {drawn.seed}, the first with {drawn.sparse.n_support_} vectors at noise variance {NOISE} "
        f"(the paper's picture has {N_PANELS}; its rows are not known)."
    )
    components(report, pairs, drawn)
    reconstruction(report, pairs, drawn)
    title = "Three clusters, 90 rows"
    pictures.path(report, drawn.rows, GAMMA, NOISE, "clusters_path", title)


def components(report: Report, pairs: list[Pair], drawn: Pair) -> None:
    """Contours of the components by both models, and how alike they are."""
    report.text("### Components over the plane")
    same = np.abs(np.diagonal(drawn.cosines))
    inside = np.sum(drawn.cosines**2, axis=0)[: len(same)]
    spectra = drawn.exact.explained_variance_, drawn.sparse.explained_variance_, drawn.sparse.eigenvalues_
    header = (
        "component",
        "exact: eigenvalue / N",
        "sparse: mean square score",
        "sparse: eigenvalue of the model",
        "cosine of the axes",
        "within the exact nine",
    )
    columns = range(1, len(same) + 1), *(column[: len(same)].tolist() for column in (*spectra, same, inside))
    report.table(header, list(zip(*columns, strict=True)))
    report.text(
        f"The {drawn.sparse.n_support_} vectors capture {drawn.sparse.captured_ratio_:.4f} of what as many exact "
        "components do. Sparse components are in the order of the model's eigenvalues, those of sum_i w_i phi_i "
        f"phi_i'; those of its covariance are larger by the noise variance {NOISE}."
    )
    pictures.components(report, drawn, N_PANELS)
    axes_verdict(report, pairs)
    tried = f"{len(pairs)} seeds"
    for name in ("exact", "sparse"):
        shares, apart = zip(*(cluster_shares(getattr(pair, name), pair.rows) for pair in pairs), strict=True)
        report.verdict(
            "Fig. 1" if name == "exact" else "Fig. 2",
            f"the first three components pick out the clusters ({name})",
            found=f"at least {min(shares):.4f} of a component's squared scores are in one cluster, each in another for "
            f"{sum(apart)} of {len(apart)}",
            holds=[share > ALIKE and distinct for share, distinct in zip(shares, apart, strict=True)],
            tried=tried,
        )
    cosines = [np.abs(np.diagonal(pair.cosines)) for pair in pairs]
    within = [np.sum(pair.cosines**2, axis=0)[3 : len(c)] for pair, c in zip(pairs, cosines, strict=True)]
    together = {pair.seed: float(pair.sparse.captured_ratio_) for pair in pairs}
    best = [np.abs(pair.cosines[:3, :3]).max(axis=0).min() for pair in pairs]
    report.verdict(
        "Figs. 1-2",
        "sparse components are qualitatively those of all kernels: the first three, in any order",
        found=f"cosines of at least {min(best):.3f}",
        holds=[bool(value > ALIKE) for value in best],
        tried=tried,
    )
    report.verdict(
        "Figs. 1-2",
        "sparse components are qualitatively those of all kernels: all of them together",
        found=f"they capture {span(together.values())} of what as many exact ones do. From the fourth on they are not "
        "the same one by one, their eigenvalues being too close to tell the axes apart: the smallest cosine of each "
        f"seed is {span([float(c[3:].min()) for c in cosines])}, and {span([float(w.min()) for w in within])} of the "
        "worst axis lies within the exact nine",
        holds=[share > ALIKE for share in together.values()],
        tried=f"{tried}, more than {ALIKE:g}",
        setting="the paper shows one draw, with nine vectors, and says that results are qualitatively equivalent: on "
        f"the draw here with {drawn.sparse.n_support_} the share is {together[drawn.seed]:.3f}",
        in_setting=together[drawn.seed] > ALIKE,
    )


def axes_verdict(report: Report, pairs: list[Pair]) -> None:
    """Section 4: axes by the eigenvectors of W^1/2 K W^1/2, projections and errors by kernels of the vectors alone."""
    gaps = []
    for pair in pairs:
        coef, points = pair.sparse.dual_coef_, pair.sparse.support_vectors_
        orthonormal = coef.T @ rbf_kernel(points, gamma=GAMMA) @ coef - np.eye(coef.shape[1])
        scores = rbf_kernel(pair.rows, points, gamma=GAMMA) @ coef
        errors = pair.sparse.reconstruction_error(pair.rows) - (1 - np.sum(scores**2, axis=1))
        gaps.append(float(max(np.abs(orthonormal).max(), np.abs(errors).max())))
    statement = "principal axes, projections and reconstruction error from the kernels of the few vectors"
    report.agreement("section 4", statement, "axes orthonormal, and errors 1 - |z|^2,", gaps, 1e-8)


def cluster_shares(model: Any, rows: np.ndarray) -> tuple[float, bool]:
    """Of the first three components, the smallest share of squared scores in one cluster; whether each has its own."""
    energy = np.square(model.transform(rows)[:, :3]).reshape(3, ROWS_A_CLUSTER, 3).sum(axis=1)  # (cluster, component)
    return float((energy.max(axis=0) / energy.sum(axis=0)).min()), len(set(energy.argmax(axis=0))) == 3


def reconstruction(report: Report, pairs: list[Pair], drawn: Pair) -> None:
    report.text("### Reconstruction error over the plane")
    pictures.reconstruction(report, drawn, N_PANELS)
    points = plane()[2]
    far = points[np.linalg.norm(points[:, None] - CLUSTER_CENTERS, axis=2).min(axis=1) > FAR]
    as_good: dict[str, list[float]] = {"sparse": [], "linear PCA, one component": []}
    per_cluster = []
    for pair in pairs:
        linear = PCA(1).fit(pair.rows)
        errors = {
            "sparse": pair.sparse.reconstruction_error,
            "linear PCA, one component": lambda X, m=linear: np.sum((X - m.inverse_transform(m.transform(X))) ** 2, 1),
        }
        for name, error in errors.items():
            as_good[name].append(float(np.mean(error(far) < np.quantile(error(pair.rows), 0.9))))
        per_cluster.append([int(np.sum(pair.sparse.support_ // ROWS_A_CLUSTER == c)) for c in range(3)])
    report.table(
        ("model", f"share of the plane more than {FAR:g} from every centre that it takes for data"),
        [(name, span(values)) for name, values in as_good.items()],
    )
    report.text("Taken for data: an error below that of nine in ten rows. Two components of linear PCA have no error.")
    outside = [(left_over(pair.sparse), left_over(pair.exact)) for pair in pairs]
    report.verdict(
        "Fig. 3",
        "contours of the reconstruction error: the model captures the structure more faithfully than linear PCA",
        found=f"it takes {span(as_good['sparse'])} of the plane far from the clusters for data, linear PCA "
        f"{span(as_good['linear PCA, one component'])}; mean error of the rows {span([s for s, _ in outside])}, all "
        f"kernels {span([e for _, e in outside])}",
        holds=[a < b for a, b in zip(*as_good.values(), strict=True)],
        tried=f"{len(pairs)} seeds",
    )
    report.verdict(
        "Fig. 3",
        "the representing vectors represent the distinguishable clusters",
        found=f"{span([min(counts) for counts in per_cluster])} vectors in the cluster that has fewest, "
        f"{span([max(counts) for counts in per_cluster])} in that with most",
        holds=[min(counts) > 0 for counts in per_cluster],
        tried=f"{len(pairs)} seeds",
    )
