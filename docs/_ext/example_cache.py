"""Examples are run again when their own text changes (sphinx-gallery sees to it) or the code behind them (this does).

Pictures of an older library would be worse than a slow build: the kept output goes when a digest of the package or of
the pictures' style differs from the one it was made with.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
from pathlib import Path

KEPT = ("guide", "gallery")
DIGEST_FILE = ".examples-digest"


def clear_when_code_changed(docs: Path) -> None:
    """Remove what examples left in `docs` unless it was made by this very code."""
    place, digest = docs / DIGEST_FILE, _digest(docs)
    if place.is_file() and place.read_text(encoding="ascii") == digest:
        return
    for name in KEPT:
        shutil.rmtree(docs / name, ignore_errors=True)
    place.write_text(digest, encoding="ascii")


def _digest(docs: Path) -> str:
    total = hashlib.sha256()
    for path in sorted([*(docs.parent / "src").rglob("*.py"), docs / "_ext" / "page_style.py"]):
        total.update(ast.dump(_without_docstrings(ast.parse(path.read_text(encoding="utf-8")))).encode())
    return total.hexdigest()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """What runs: a better sentence in a docstring makes no other picture."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        documented = (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None
        )
        if documented and body:
            node.body = body[1:]
    return tree
