"""A report that is printed while it grows, and kept as Markdown beside its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Report:
    """Text, tables and pictures of one experiment."""

    name: str
    folder: Path
    parts: list[str] = field(default_factory=list)

    def text(self, text: str) -> None:
        """A paragraph or a heading."""
        self._add(text + "\n")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table; floats with four digits."""
        lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
        self._add("\n".join(lines) + "\n")

    def picture(self, figure: Any, name: str, caption: str) -> None:
        """A matplotlib figure, saved and closed."""
        import matplotlib.pyplot as plt

        path = self.folder / f"{self.name}_{name}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        plt.close(figure)
        self._add(f"![{caption}]({path.name})\n\n*{caption}*\n")

    def write(self) -> Path:
        """The report as a file; its path."""
        path = self.folder / f"{self.name}.md"
        path.write_text("\n".join(self.parts), encoding="utf-8")
        return path

    def _add(self, text: str) -> None:
        self.parts.append(text)
        print(text, flush=True)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
