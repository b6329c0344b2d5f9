"""How pictures look on the site; sphinx-gallery sets this before each script, so that scripts need no style code.

A picture 7.2 inches wide fills the text column at 1280 pixels, and letters of 10 points are 14 pixels high there.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt

from kernelsieve.plots import COLORS

STYLE = {
    "figure.dpi": 100,
    "figure.figsize": (7.2, 3.6),
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": plt.cycler(color=COLORS),
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}


def reset(gallery_conf: Any, name: str) -> None:
    """Before each script: no figure is open, and the style is the site's."""
    plt.close("all")
    plt.rcdefaults()
    plt.rcParams.update(STYLE)
