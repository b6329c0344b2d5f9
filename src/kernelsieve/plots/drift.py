"""How a model that follows a stream turns with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .style import COLORS, Axes, axes_or_new, few_ticks, fitted, tidy


def drift(model: Any, ax: Axes | None = None) -> Axes:
    """How far the components have turned since points were last chosen, against the rows that have come.

    Parameters
    ----------
    model : SparseKernelPCA with record_drift=True, after partial_fit
    ax : matplotlib Axes, optional
        Where to draw; a new figure's without it.

    Returns
    -------
    matplotlib Axes
        The largest principal angle in degrees, one point a call; upright lines where points were chosen again.

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
