"""Formulas as MathML: every browser of today lays it out by itself, without scripts, fonts or a network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def mathml(formula: str, display: str = "inline") -> str:
    """A formula as MathML.  A prime is a transpose on these pages, and set so that it can be seen."""
    return str(convert(formula.replace("'", r"^{\top}"), display=display))


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math-block">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """The renderer, under the name "mathml"."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
