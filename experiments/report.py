"""A page that opens with its verdicts, and the index of all pages.

A page is printed while it grows and kept as Markdown beside its pictures.  Whatever it finds about a statement, figure,
table or algorithm of a paper it says in one line, `verdict`, and those lines, wherever they were said, stand at the top
of the page and in `index.md`, with the evidence for each.  Numbers that the site quotes are `facts`; what was left
out for want of data is `skipped`.  All of it is kept as JSON, from which index and site are written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import matplotlib.pyplot as plt
import numpy as np

from .datasets import MissingData

plt.switch_backend("agg")  # pictures are files

YES = "reproduces"
CHANGED = "reproduces with a stated change"
IN_SETTING = "holds in the paper's setting"
CONTRADICTED = "contradicted by the paper's own equations"
NOT_TESTABLE = "not testable"
OURS = "ours, not the paper's"
UNEXPLAINED = "unexplained"
OUTCOMES = {
    YES: "it holds for every seed, split or choice of rows that was tried",
    CHANGED: "so it does after the change, or under the reading, that the evidence names",
    IN_SETTING: "it holds where the paper looked, or on average as the paper words it, but not for every seed or split",
    CONTRADICTED: "it does not hold, and the evidence proves from the paper's own equations or tables that it cannot",
    NOT_TESTABLE: "the data that it is about cannot be had; the evidence says what was done instead",
    OURS: "a question that the paper does not ask, or a threshold that it does not name",
    UNEXPLAINED: "it does not come out, and the evidence lists what was tried",
}
HEADER = ("in the paper", "statement", "printed", "found", "tried", "verdict")
LEGEND = "\n".join(["What the verdicts mean:\n", *(f"- **{name}**: {text}." for name, text in OUTCOMES.items())])
NO_NUMBER = (
    "A dash under *printed*: the paper prints no number. Numbers in brackets lead to the evidence below a table."
)
NOTHING_TRIED = "no other reading has been tried"
SHORTENED = (
    "This is the shortened form (`--quick`), which tries whether everything runs: fewer seeds, sizes and rows, and not "
    "every reading. Its verdicts can differ from those of a whole run, which are the findings.\n"
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
    evidence: str = ""  # the change, the proof, the data that are missing, the paper's setting, what was tried

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES or (self.outcome != YES and not self.evidence):
            raise ValueError(f"{self.item}: a verdict of {self.outcome!r} needs its evidence")


@dataclass
class Report:
    """Text, tables, pictures, verdicts, facts and gaps of one experiment."""

    name: str
    folder: Path
    quick: bool = False  # the shortened form that tests run: fewer seeds, sizes and rows
    echo: bool = True  # print while it grows
    heading: str = ""
    parts: list[str] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)  # what was left out, and what it needs

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
        path = self.folder / f"{self.name}_{name}.png"
        if self.quick:  # that it can be drawn is all there is to see
            figure.set_layout_engine("none")
            figure.savefig(path, dpi=30)
        else:
            figure.savefig(path, dpi=120, bbox_inches="tight")
        plt.close(figure)
        self._add(f"![{caption}]({path.name})\n\n*{caption}*\n")

    def fact(self, **values: Any) -> None:
        """Numbers that the site quotes by name: text as it is to stand there, or a number."""
        for name, value in values.items():
            self.facts[name] = f"{value:.3g}" if isinstance(value, float) else str(value)

    def skip(self, what: str, missing: MissingData | str) -> None:
        """Say that a part of the page was left out, and which file or package it needs."""
        self.skipped.append((what, str(missing)))
        self.text(f"Left out: {what}. It needs {missing}.")

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
        proof: str = "",
        needs: str = "",
        ours: str = "",
        setting: str = "",
        in_setting: bool = False,
        explored: str = "",
        key: str = "",
    ) -> None:
        """What became of a statement: `holds` for each seed that was tried, or as a whole.

        The class of the verdict follows from what is known besides:

            ours        why the question is not the paper's
            needs       the data it would take, which cannot be had
            change      the change of the setting, or the reading, under which it was looked at
            proof       why the paper's own equations rule it out, where it does not hold
            setting     the paper's own setting, and `in_setting` whether it holds there
            explored    what was tried to explain that it does not hold

        `key` is the name by which the site quotes the class.
        """
        each = [bool(value) for value in holds] if isinstance(holds, Sequence) else [bool(holds)]
        if not all(each) and len(each) > 1:
            found = f"{found}; holds for {sum(each)} of {len(each)}"
        outcome, evidence = YES, ""
        if ours:
            outcome, evidence = OURS, ours
        elif needs:
            outcome, evidence = NOT_TESTABLE, needs
        elif all(each):
            outcome, evidence = (CHANGED, change) if change else (YES, "")
        elif proof:
            outcome, evidence = CONTRADICTED, proof
        elif setting and in_setting:
            outcome, evidence = IN_SETTING, f"{setting}; elsewhere for {sum(each)} of {len(each)}"
        else:
            outcome, evidence = UNEXPLAINED, "; ".join(filter(None, (change, explored or NOTHING_TRIED)))
        self.verdicts.append(Verdict(item, statement, printed, found, tried or "one computation", outcome, evidence))
        if key:
            self.fact(**{key: outcome})

    def agreement(
        self,
        item: str,
        statement: str,
        what: str,
        gaps: Sequence[float],
        below: float,
        *,
        change: str = "",
        key: str = "",
    ) -> None:
        """The verdict on two computations of the same, from how far they are apart for each seed."""
        found, tried = f"{what} to {max(gaps):.0e}", f"{len(gaps)} seeds"
        holds = [gap < below for gap in gaps]
        self.verdict(item, statement, found=found, holds=holds, tried=tried, change=change, key=key)

    def some(self, values: Sequence[Item], few: int = 1) -> Sequence[Item]:
        """All of them, or the first few in the shortened form."""
        return values[:few] if self.quick else values

    def write(self) -> Path:
        """The page as a file, and what index and site need of it beside it; the path of the page."""
        opening = [self.parts[0]] if self.heading else []
        if self.verdicts:
            opening += ["## Verdicts\n", *verdict_table(self.verdicts), LEGEND + "\n", NO_NUMBER + "\n"]
        elif self.skipped:
            opening += [f"No verdicts: {'; '.join(f'{what} needs {needs}' for what, needs in self.skipped)}.\n"]
        path = self.folder / f"{self.name}.md"
        path.write_text("\n".join([*opening, *self.parts[len(opening[:1]) :]]), encoding="utf-8")
        kept = {
            "title": self.heading or self.name,
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "facts": self.facts,
            "skipped": self.skipped,
        }
        path.with_suffix(".json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        return path

    def _add(self, text: str) -> None:
        self.parts.append(text)
        if self.echo:
            print(text, flush=True)


def verdict_table(verdicts: Sequence[Verdict]) -> list[str]:
    """A line for each verdict, and below the table the evidence that its number leads to."""
    rows, evidence = [], []
    for verdict in verdicts:
        outcome = f"**{verdict.outcome}**"
        if verdict.evidence:
            evidence.append(f"{len(evidence) + 1}. {verdict.item}, {verdict.statement}: {verdict.evidence}.")
            outcome += f" [{len(evidence)}]"
        rows.append((verdict.item, verdict.statement, verdict.printed, verdict.found, verdict.tried, outcome))
    listed = ["Evidence:\n", "\n".join(evidence) + "\n"] if evidence else []
    return [markdown_table(HEADER, rows), *listed]


def write_index(folder: Path, names: Sequence[str], recorded: Path | None = None, quick: bool = False) -> Path:
    """index.md: verdicts by class and page, what was left out and why, then all verdicts, page by page.

    `recorded` is the folder with the results of a whole run with all data, which say how many verdicts there are then.
    """
    pages = {name: page for name in names if (page := read_page(folder, name)) and (folder / f"{name}.md").is_file()}
    whole = {name: page for name in pages if recorded and (page := read_page(recorded, name))}
    verdicts = {name: [Verdict(**verdict) for verdict in page["verdicts"]] for name, page in pages.items()}
    counts = {name: Counter(verdict.outcome for verdict in found) for name, found in verdicts.items()}
    rows: list[tuple[Any, ...]] = [
        (f"[{page['title']}]({name}.md)", *(counts[name][outcome] for outcome in OUTCOMES), len(verdicts[name]))
        for name, page in pages.items()
    ]
    rows.append(("all", *(sum(count[outcome] for count in counts.values()) for outcome in OUTCOMES), rows_sum(rows)))
    parts = [
        "# What reproduces\n",
        *([SHORTENED] if quick else []),
        markdown_table(("page", *OUTCOMES, "verdicts"), rows),
        LEGEND + "\n",
        NO_NUMBER + "\n",
    ]
    gaps = [(page["title"], what, needs) for page in pages.values() for what, needs in page["skipped"]]
    if gaps:
        total = sum(len(page["verdicts"]) for page in whole.values())
        lead = f" of the {total} that a whole run with all data gives" if total else ""
        parts += [
            f"## Left out for want of data\n\nThis run has {rows_sum(rows[:-1])} verdicts{lead}. Where the files "
            "come from stands in `experiments/DATA.md`.\n",
            markdown_table(("page", "left out", "needs"), gaps),
        ]
    for name, page in pages.items():
        if verdicts[name]:
            parts += [f"## [{page['title']}]({name}.md)\n", *verdict_table(verdicts[name])]
    path = folder / "index.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def rows_sum(rows: Sequence[Sequence[Any]]) -> int:
    """Of the last column."""
    return sum(int(row[-1]) for row in rows)


def read_page(folder: Path, name: str) -> dict[str, Any] | None:
    """What a page left for index and site."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


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


def mean_and_deviation(values: Any, digits: int = 3) -> str:
    """Mean (standard deviation) over seeds; the mean alone of a single one."""
    array = np.asarray(list(values), dtype=np.float64)
    mean = f"{array.mean():.{digits}f}"
    return mean if len(array) < 2 else f"{mean} ({array.std(ddof=1):.{digits}f})"
