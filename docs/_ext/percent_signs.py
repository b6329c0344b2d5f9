"""A number and its per cent sign stay on one line of a page: the blank between them becomes a no-break space."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PERCENT = re.compile(r"(?<=\d) (?=%)")


def join(app: Sphinx, document: nodes.document) -> None:
    """Join them in all texts but code."""
    for text in list(document.findall(nodes.Text)):
        code = isinstance(text.parent, nodes.FixedTextElement | nodes.literal | nodes.math)
        if not code and PERCENT.search(text):
            text.parent.replace(text, nodes.Text(PERCENT.sub("\u00a0", text)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("doctree-read", join)
    return {"parallel_read_safe": True}
