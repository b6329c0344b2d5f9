"""Fig. 1: lines through points with outliers, by three losses."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from kernelsieve import plots

from ..report import Report, span

SEEDS = range(10)
TRUE_ANGLE, OFF = 45.0, 5.0  # degrees; further off than this a line is wrong


def squared_loss(r: np.ndarray) -> np.ndarray:
    return r**2


def bounded_loss(r: np.ndarray, delta: float = 1.0, c: float = 8.0) -> np.ndarray:
    """The paper's rho, equation (9)."""
    mu = c / delta
    return -(np.logaddexp(0, c - mu * r**2) - np.logaddexp(0, c)) / (2 * mu)


LOSSES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"l2": squared_loss, "l1": np.abs, "rho": bounded_loss}


def toys(seed: int) -> dict[str, np.ndarray]:
    """Points about a line of 45 degrees, with outliers above it, and far along x."""
    rng = np.random.default_rng(seed)
    along = rng.uniform(-5, 5, 60)
    points = np.column_stack([along, along]) / np.sqrt(2) + 0.25 * rng.standard_normal((60, 2))
    return {
        "toy data 1: a few outliers above": np.vstack([points, rng.normal((-2.0, 6.0), 0.4, (8, 2))]),
        "toy data 2: more, far along x": np.vstack([points, rng.normal((14.0, 0.0), 0.5, (20, 2))]),
    }


def best_direction(points: np.ndarray, loss: Callable[[np.ndarray], np.ndarray]) -> float:
    """The angle (degrees) of the line through the origin with the smallest total loss of orthogonal distances."""
    angles = np.radians(np.arange(-90, 90, 0.1))
    normals = np.stack([-np.sin(angles), np.cos(angles)])
    return float(np.degrees(angles[np.argmin(loss(points @ normals).sum(axis=0))]))


def figure_1(report: Report) -> None:
    report.text("## Fig. 1: lines through points with outliers")
    seeds = report.some(SEEDS, 2)
    found: dict[str, dict[str, list[float]]] = {}
    for seed in seeds:
        for name, toy in toys(seed).items():
            for loss, function in LOSSES.items():
                found.setdefault(name, {}).setdefault(loss, []).append(best_direction(toy, function))
    report.table(
        ("angle of the line, degrees (true 45)", *LOSSES),
        [(name, *(span(angles) for angles in lines.values())) for name, lines in found.items()],
    )
    draw(report)
    first, second = found.values()
    right = {loss: [abs(a - TRUE_ANGLE) < OFF for a in first[loss]] for loss in LOSSES}
    tried = f"{len(seeds)} seeds"
    statements = (
        ("line_l2", "Fig. 1(b)", "the l2 norm cannot give the right line", first["l2"], [not ok for ok in right["l2"]]),
        ("line_l1", "Fig. 1(b)", "the l1 norm performs better than l2", first["l1"], right["l1"]),
        (
            "line_l1_far",
            "Fig. 1(c)",
            "the l1 norm fails when outliers lie on the x axis",
            second["l1"],
            [abs(a) < 10 for a in second["l1"]],
        ),
        ("line_rho", "Fig. 1(b)-(c)", "rho handles both", first["rho"] + second["rho"], None),
    )
    for key, item, statement, angles, holds in statements:
        each = [abs(a - TRUE_ANGLE) < OFF for a in angles] if holds is None else holds
        report.verdict(item, statement, found=f"{span(angles)} degrees (true 45)", holds=each, tried=tried, key=key)
        report.fact(**{f"{key}_degrees": span(angles)})
    e = np.linspace(-3, 3, 2001)
    weight = expit(8 * (1 - e**2))
    slope = np.gradient(bounded_loss(e), e)
    gap = float(np.abs(slope - weight * e)[1:-1].max())
    beyond = float(np.diff(bounded_loss(np.array([1.5, 3.0])))[0])
    report.verdict(
        "Fig. 1(a), (7)-(9)",
        "rho of (9) has the weight (8), rho'(e)/e, and stops to grow beyond a threshold",
        found=f"rho' - e w is {gap:.0e} at most, by differences; rho(3) - rho(1.5) = {beyond:.0e}",
        holds=gap < 1e-4 and beyond < 1e-3,
        tried="delta = 1, c = 8",
        key="rho_weight",
    )
    report.fact(true_angle=TRUE_ANGLE, line_seeds=len(seeds), rho_gap=f"{gap:.0e}", rho_beyond=f"{beyond:.0e}")


def draw(report: Report) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained")
    r = np.linspace(-3, 3, 301)
    styles = list(zip(plots.COLORS, ("-", "--", "-"), strict=False))
    for (name, loss), (color, style) in zip(LOSSES.items(), styles, strict=False):
        axes[0].plot(r, loss(r), color=color, ls=style, lw=1.8, label=name)
    axes[0].set(ylim=(0, 3), xlabel="residual", ylabel="loss", title="(a) losses")
    for ax, letter, (name, toy) in zip(axes[1:], "bc", toys(0).items(), strict=True):
        ax.scatter(*toy.T, s=12, color=plots.ROW_COLOR)
        ax.set_aspect("equal", adjustable="datalim")
        for loss, (color, style) in zip(LOSSES.values(), styles, strict=False):
            slope = np.tan(np.radians(best_direction(toy, loss)))
            ax.axline((0, 0), slope=slope, color=color, ls=style, lw=1.8)
        ax.set(title=f"({letter}) {name}", xlabel="x", ylabel="y")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    report.picture(figure, "fig1", "Squared, absolute and bounded loss, and the lines they fit")
