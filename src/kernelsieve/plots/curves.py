"""Plots of curves: shares and counts against points, components and penalties, and the drift of a stream."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import cycle
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..fit.agreement import Agreement
from ..fit.parameters import check_component, instance_of, some_numbers, whole_number
from ..linear.path import SparsePCAPath
from ..models.paths import ElasticNetPath, LikelihoodPath
from .style import (
    COLORS,
    MARKERS,
    Axes,
    axes_or_new,
    few_ticks,
    fitted,
    percent,
    plain_log_axis,
    set_apart,
    tidy,
)

CURVE_ROWS = 5000  # captured variance is measured on at most this many rows, which gives shares to about .001
OWN_NAMES = {"optimized": "moved freely", "uniform": "rows at random"}


def captured_curve(
    X: Any,
    curves: Mapping[str, Sequence[float]] | None = None,
    exact: float | None = 1.0,
    target: float | None = None,
    ax: Axes | None = None,
    *,
    estimator: Any = None,
    sizes: Sequence[int] | None = None,
) -> Axes:
    """Captured variance against the number of support points.

    If X holds rows, two curves are computed on at most 5,000 of them, as shares of what exact kernel PCA captures: one
    for points chosen by the estimator's own rule, and one for rows drawn at random, as in the Nystroem method.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), or with `curves` a sequence of int
        Rows; or, with `curves`, the numbers of support points at which the curves were measured.
    curves : dict of name to sequence of float, optional
        For each method, the captured variance at each number of points; NaN if it was not measured.
    exact : float or None, default=1.0
        The variance that exact kernel PCA captures, drawn as a line.
    target : float, optional
        A share to reach, drawn as a line.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.
    estimator : SparseKernelPCA, optional
        Gives the kernel, the number of components and the rule that chooses points; it need not be fitted.  By default
        a SparseKernelPCA with default parameters.
    sizes : sequence of int, optional
        Numbers of points to try; by default seven numbers, from the fewest possible to 200.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import plots
    >>> ax = plots.captured_curve(load_iris().data, sizes=[3, 6, 12])
    >>> [line.get_label() for line in ax.lines]
    ['moved freely', 'rows at random', 'exact kernel PCA']
    """
    if curves is None:
        n_support, curves = _computed_curves(X, estimator, sizes)
        label = "captured variance, share of exact"
    else:
        instance_of("curves", curves, Mapping)
        n_support = some_numbers("X", X, "numbers of support points, where curves are given").tolist()
        label = "captured variance"
    for name, values in curves.items():
        given = some_numbers(f"curve {name!r}", values, "captured variances, one for each number of points")
        if len(given) != len(n_support):
            raise ValueError(f"curve {name!r} has {len(given)} values for {len(n_support)} numbers of points")
    ax = axes_or_new(ax)
    for (name, values), color, marker in zip(curves.items(), cycle(COLORS), cycle(MARKERS), strict=False):
        ax.plot(n_support, values, color=color, marker=marker, markersize=4.5, linewidth=1.8, label=name)
    if exact is not None:
        ax.axhline(exact, color="#7F7F7F", linewidth=1.2, linestyle="--", label="exact kernel PCA", zorder=1)
    if target is not None:
        ax.axhline(target, color="#7F7F7F", linewidth=1.2, linestyle=":", label=f"target {percent(target)}", zorder=1)
    plain_log_axis(ax, "x")
    ax.yaxis.set_major_formatter(percent)
    ax.set(xlabel="support points", ylabel=label)
    ax.legend(frameon=False)
    return tidy(ax, grid="y")


def _computed_curves(
    X: Any, estimator: Any = None, sizes: Sequence[int] | None = None
) -> tuple[list[int], dict[str, list[float]]]:
    """Numbers of points, and for each rule that chooses points the captured shares of exact kernel PCA's variance."""
    from .. import SparseKernelPCA

    if estimator is None:
        estimator = SparseKernelPCA(random_state=0)
    if not isinstance(estimator, SparseKernelPCA):
        raise TypeError(f"estimator must be a SparseKernelPCA, not {type(estimator).__name__}")
    shape = np.shape(X) if not hasattr(X, "shape") else tuple(X.shape)
    if len(shape) != 2:
        raise ValueError(f"captured_curve needs rows by columns, or numbers of points with their curves: got {shape}")
    rows = X
    if shape[0] > CURVE_ROWS:
        rows = _safe_indexing(X, np.random.default_rng(0).choice(shape[0], CURVE_ROWS, replace=False))
    if not isinstance(estimator.n_components, Integral):
        raise ValueError(f"captured_curve needs a number of components, not n_components={estimator.n_components}")
    fewest = int(estimator.n_components) + 1
    most = max(fewest, min(200, min(shape[0], CURVE_ROWS) // 2))
    wanted = sorted({round(size) for size in np.geomspace(fewest, most, 7)})
    if sizes is not None:
        some_numbers("sizes", sizes, "numbers of support points")
        wanted = [whole_number("sizes", size) for size in np.asarray(sizes).tolist()]
    choices = dict.fromkeys([estimator.selection if isinstance(estimator.selection, str) else "optimized", "uniform"])
    names = {choice: OWN_NAMES.get(choice, choice) for choice in choices}
    return wanted, {name: [_share(estimator, rows, choice, m) for m in wanted] for choice, name in names.items()}


def _share(estimator: Any, rows: Any, selection: str, n_support: int) -> float:
    settings: dict[str, Any] = {"selection": selection, "n_support": n_support}
    if hasattr(estimator, "gamma_"):
        settings["gamma"] = estimator.gamma_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few points give a poor fit, which is what the curve shall show
        return float(clone(estimator).set_params(**settings).fit(rows).captured_ratio_)


def spectrum(model: Any, ax: Axes | None = None) -> Axes:
    """Explained variance ratio of each component, as bars, and their cumulative sum, as a line.

    Parameters
    ----------
    model : fitted estimator
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    ratios = np.asarray(fitted(model, "explained_variance_ratio_").explained_variance_ratio_)
    ax = axes_or_new(ax)
    numbers = np.arange(len(ratios))
    ax.bar(numbers, ratios, color=COLORS[0], width=0.7, label="each")
    ax.plot(numbers, np.cumsum(ratios), color=COLORS[3], marker="o", markersize=4.5, linewidth=1.8, label="together")
    ax.xaxis.set_major_locator(few_ticks(12, integer=True))
    ax.yaxis.set_major_formatter(percent)
    ax.set(xlabel="component", ylabel="explained variance")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    return tidy(ax, grid="y")


def agreement(model: Any, ax: Axes | None = None) -> Axes:
    """How well the scores of each component, and of all together, agree with those of exact kernel PCA.

    Parameters
    ----------
    model : fitted estimator, or the result of its `component_agreement(X)`
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kernelsieve import SparseKernelPCA, plots
    >>> model = SparseKernelPCA(3, n_support=6, random_state=0).fit(load_iris().data)
    >>> len(plots.agreement(model).patches)
    3
    """
    if isinstance(model, Agreement):
        each, together = model.components, model.subspace
    else:
        each, together = fitted(model, "component_agreement_").component_agreement_, model.subspace_agreement_
    ax = axes_or_new(ax)
    ax.bar(np.arange(len(each)), each, color=COLORS[0], width=0.7, label="each")
    ax.axhline(together, color=COLORS[3], linewidth=1.4, linestyle="--", label="all of them together")
    ax.xaxis.set_major_locator(few_ticks(12, integer=True))
    ax.set(xlabel="component", ylabel="agreement with exact kernel PCA", ylim=(0, 1.02))
    ax.legend(frameon=False, loc="lower left")
    return tidy(ax, grid="y")


def path(path: Any, ax: Axes | None = None) -> Axes:
    """The number of nonzero coefficients of each component, and the captured variance, against alpha.

    Parameters
    ----------
    path : ElasticNetPath
        The result of `kernelsieve.elastic_net_path`.
    ax : matplotlib Axes, optional
        Axes for the numbers, with a twin for the variance; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    instance_of("path", path, ElasticNetPath)
    ax = axes_or_new(ax)
    n_nonzero, n_support = (np.where(counts > 0, counts, np.nan) for counts in (path.n_nonzero, path.n_support))
    each = ax.plot(path.alpha, n_nonzero, color=COLORS[5], linewidth=1.2)
    together = ax.plot(path.alpha, n_support, color=COLORS[0], marker="o", markersize=4, linewidth=1.8)
    share = ax.twinx()
    captured = share.plot(path.alpha, path.captured_ratio, color=COLORS[3], marker="s", markersize=4, linewidth=1.8)
    refitted = share.plot(path.alpha, path.refit_ratio, color=COLORS[3], linestyle="--", linewidth=1.4)
    ax.set(xlabel="alpha / alpha_max", ylabel="rows with nonzero coefficients")
    share.set_ylabel("captured variance, of kernel PCA's")
    lines = {"each component": each[0], "captured": captured[0], "together": together[0], "after a refit": refitted[0]}
    return _counts_and_shares(ax, share, lines, 2)


def likelihood_path(path: Any, ax: Axes | None = None) -> Axes:
    """The number of representing vectors, and the variance that they explain, against the noise variance.

    Parameters
    ----------
    path : LikelihoodPath
        The result of `kernelsieve.likelihood_path`.
    ax : matplotlib Axes, optional
        Axes for the number of vectors, with a twin for the variance; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    instance_of("path", path, LikelihoodPath)
    ax = axes_or_new(ax)
    vectors = ax.plot(path.noise_variance, path.n_support, color=COLORS[0], marker="o", markersize=4.5, linewidth=1.8)
    share = ax.twinx()
    explained = share.plot(
        path.noise_variance, path.explained_variance_ratio, color=COLORS[3], marker="s", markersize=4, linewidth=1.8
    )
    limit = ax.axvline(path.noise_variance_limit, color="#7F7F7F", linewidth=1.2, linestyle="--")
    ax.set(xlabel="noise variance", ylabel="representing vectors")
    share.set_ylabel("explained variance")
    lines = {"vectors": vectors[0], "explained variance": explained[0], "upper end": limit}
    return _counts_and_shares(ax, share, lines, 3)


def _counts_and_shares(ax: Axes, share: Axes, lines: Mapping[str, Any], n_columns: int) -> Axes:
    """Finish the plot of a path: counts on a logarithmic axis, shares on the right axis, and the legend above."""
    ax.set_xscale("log")
    plain_log_axis(ax, "y")
    share.yaxis.set_major_formatter(percent)
    share.set_ylim(0, 1.02)
    for axes in (ax, share):
        axes.spines["top"].set_visible(False)
    share.legend(lines.values(), lines, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=n_columns)
    return ax


def loading_path(
    path: Any, component: int = 0, feature_names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Loadings of one sparse component against alpha; those that are largest at the end are labelled with their names.

    Parameters
    ----------
    path : SparsePCAPath
        The result of `sparse_pca_path`.
    component : int, default=0
        Number of the component.
    feature_names : sequence of str, optional
        Names of all features; by default those of the frame that the path was computed from, else numbers.
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
    """
    instance_of("path", path, SparsePCAPath)
    n_components, n_features = path.components.shape[1:]
    component = check_component(component, n_components, "path")
    if feature_names is not None and not isinstance(feature_names, Sequence | np.ndarray):
        raise TypeError(f"feature_names must be a sequence of {n_features} names, not a {type(feature_names).__name__}")
    if feature_names is not None and len(feature_names) != n_features:
        raise ValueError(f"{len(feature_names)} feature_names for {n_features} features")
    ax = axes_or_new(ax)
    loadings = path.components[:, component]
    last = loadings[-1]
    named = np.argsort(-np.abs(last))[: len(COLORS)]
    for feature in np.flatnonzero(loadings.any(axis=0)):
        ax.plot(path.alphas, loadings[:, feature], color="#BBBBBB", linewidth=1.0, zorder=1)
    for feature, color in zip(named, COLORS, strict=False):
        ax.plot(path.alphas, loadings[:, feature], color=color, linewidth=1.8, zorder=2)
    ax.axhline(0.0, color="#4D4D4D", linewidth=0.8, zorder=0)
    ax.invert_xaxis()
    if feature_names is None:
        feature_names = getattr(path, "feature_names", None) or [f"feature {i}" for i in range(n_features)]
    names = list(map(str, feature_names))
    heights = set_apart(last[named], 0.055 * float(np.ptp(ax.get_ylim())))
    for feature, color, height in zip(named, COLORS, heights, strict=False):
        ax.annotate(
            names[feature],
            (path.alphas[-1], last[feature]),
            xytext=(1.03, height),
            textcoords=ax.get_yaxis_transform(),
            color=color,
            fontsize="small",
            va="center",
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0},
        )
    ax.set(xlabel="alpha", ylabel="loading", title=f"component {component + 1}")
    return tidy(ax)


def drift(model: Any, ax: Axes | None = None) -> Axes:
    """How far the components have turned since points were last chosen, against the number of rows so far.

    Parameters
    ----------
    model : SparseKernelPCA with record_drift=True, after partial_fit
    ax : matplotlib Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib Axes
        They show the largest principal angle in degrees, one marker for each call of `partial_fit`, and vertical lines
        where points were chosen again.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kernelsieve import SparseKernelPCA, plots
    >>> X = load_digits().data
    >>> model = SparseKernelPCA(5, n_support=15, half_life=300, record_drift=True, random_state=0)
    >>> for start in range(0, len(X), 50):
    ...     model = model.partial_fit(X[start : start + 50])
    >>> plots.drift(model).get_xlabel()
    'rows so far'
    """
    fitted(model)
    record = getattr(model, "drift_record_", None)
    if record is None:
        raise ValueError("drift needs a record of it: set record_drift=True before partial_fit")
    ax = axes_or_new(ax)
    seen, angles = np.asarray(record["n_samples_seen"]), np.degrees(record["drift"])
    chosen = np.unique(record["chosen_at"])
    for i, place in enumerate(chosen):
        ax.axvline(place, color=COLORS[8], linewidth=0.8, linestyle=":", label="points chosen" if i == 0 else None)
    ax.plot(seen, angles, color=COLORS[0], marker="o", markersize=3, linewidth=1.2, label="turned since")
    ax.set_xlabel("rows so far")
    ax.set_ylabel("largest principal angle, degrees")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(few_ticks(6, integer=True))
    ax.legend(frameon=False)
    return tidy(ax, "y")
