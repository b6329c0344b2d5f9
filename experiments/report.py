"""A page that opens with its verdicts, and the index of all pages.

A page is printed while it grows and kept as Markdown beside its pictures.  Whatever it finds about a statement, figure,
table or algorithm of a paper it says in one line, `verdict`, and those lines, wherever they were said, stand at the top
of the page and in `index.md`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

YES, CHANGED, NO = "reproduces", "reproduces with a stated change", "does not reproduce"
OUTCOMES = (YES, CHANGED, NO)
HEADER = ("in the paper", "statement", "printed", "found", "tried", "verdict")
LEGEND = (
    f'"{YES}": holds for every seed, split or choice of rows that was tried. "{CHANGED}": the same, after the change '
    f'that the line names. "{NO}": for at least one of those tried it does not hold. A dash: the paper prints no '
    "number."
)

Item = TypeVar("Item")


@dataclass(frozen=True)
class Verdict:
    """What became of one item of a paper."""

    item: str  # "Fig. 1", "Table 8", "Algorithm 1", "section 3"
    statement: str
    printed: str
    found: str
    tried: str  # seeds, splits, choices of rows
    outcome: str
    change: str = ""

    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        outcome = f"**{self.outcome}**"
        if self.change:
            outcome += f", even with a change: {self.change}" if self.outcome == NO else f": {self.change}"
        return self.item, self.statement, self.printed, self.found, self.tried, outcome


@dataclass
class Report:
    """Text, tables, pictures and verdicts of one experiment."""

    name: str
    folder: Path
    quick: bool = False  # the shortened form that tests run: fewer seeds, sizes and rows
    echo: bool = True  # print while it grows
    heading: str = ""
    parts: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def title(self, title: str, about: str = "") -> None:
        """The page's heading, and what the reader should know first."""
        self.heading = title
        self._add(f"# {title}\n")
        if about:
            self._add(about + "\n")

    def text(self, text: str) -> None:
        """A paragraph or a heading."""
        self._add(text + "\n")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A table; floats with four digits."""
        self._add(markdown_table(header, rows))

    def picture(self, figure: Any, name: str, caption: str) -> None:
        """A matplotlib figure, saved and closed."""
        import matplotlib.pyplot as plt

        path = self.folder / f"{self.name}_{name}.png"
        if self.quick:  # that it can be drawn is all there is to see
            figure.set_layout_engine("none")
            figure.savefig(path, dpi=30)
        else:
            figure.savefig(path, dpi=120, bbox_inches="tight")
        plt.close(figure)
        self._add(f"![{caption}]({path.name})\n\n*{caption}*\n")

    def verdict(
        self,
        item: str,
        statement: str,
        *,
        found: str,
        holds: bool | Sequence[bool],
        tried: str = "",
        printed: str = "-",
        change: str = "",
    ) -> None:
        """What became of a statement: `holds` for each seed that was tried, or as a whole.

        It reproduces only if it holds for all of them; where it does for some, the line says for how many.
        """
        each = [bool(value) for value in holds] if isinstance(holds, Sequence) else [bool(holds)]
        if not all(each) and any(each):
            found = f"{found}; holds for {sum(each)} of {len(each)}"
        outcome = NO if not all(each) else CHANGED if change else YES
        self.verdicts.append(Verdict(item, statement, printed, found, tried or "one computation", outcome, change))

    def agreement(
        self, item: str, statement: str, what: str, gaps: Sequence[float], below: float, *, change: str = ""
    ) -> None:
        """The verdict on two computations of the same, from how far they are apart for each seed."""
        found, tried = f"{what} to {max(gaps):.0e}", f"{len(gaps)} seeds"
        self.verdict(item, statement, found=found, holds=[gap < below for gap in gaps], tried=tried, change=change)

    def some(self, values: Sequence[Item], few: int = 1) -> Sequence[Item]:
        """All of them, or the first few in the shortened form."""
        return values[:few] if self.quick else values

    def write(self) -> Path:
        """The page as a file, and its verdicts beside it for the index; the path of the page."""
        opening = [self.parts[0]] if self.heading else []
        if self.verdicts:
            opening += ["## Verdicts\n", markdown_table(HEADER, [v.cells() for v in self.verdicts]), LEGEND + "\n"]
        path = self.folder / f"{self.name}.md"
        path.write_text("\n".join([*opening, *self.parts[len(opening[:1]) :]]), encoding="utf-8")
        kept = {"title": self.heading or self.name, "verdicts": [asdict(verdict) for verdict in self.verdicts]}
        path.with_suffix(".json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
        return path

    def _add(self, text: str) -> None:
        self.parts.append(text)
        if self.echo:
            print(text, flush=True)


def write_index(folder: Path, names: Sequence[str]) -> Path:
    """index.md: how many statements of each page hold, then all of them, page by page."""
    pages = {}
    for name in names:
        kept = folder / f"{name}.json"
        if kept.is_file() and (folder / f"{name}.md").is_file():
            read = json.loads(kept.read_text(encoding="utf-8"))
            pages[name] = read["title"], [Verdict(**verdict) for verdict in read["verdicts"]]
    counts = [
        (f"[{title}]({name}.md)", *(Counter(v.outcome for v in verdicts)[outcome] for outcome in OUTCOMES))
        for name, (title, verdicts) in pages.items()
    ]
    parts = ["# What reproduces\n", markdown_table(("page", *OUTCOMES), counts), LEGEND + "\n"]
    for name, (title, verdicts) in pages.items():
        if verdicts:
            parts += [f"## [{title}]({name}.md)\n", markdown_table(HEADER, [v.cells() for v in verdicts])]
    path = folder / "index.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The lines of a table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def span(values: Any, digits: int = 3) -> str:
    """Smallest and largest, or the one value there is; counts in full."""
    ordered = sorted(values)
    ends = [f"{v:.{digits}g}" if isinstance(v, float) else str(v) for v in (*ordered[:1], *ordered[-1:])]
    return " to ".join(dict.fromkeys(ends))
