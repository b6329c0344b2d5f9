"""The demonstration's page: one HTML file, pictures inside, nothing fetched.

Charts are matplotlib's SVG with its text left as text and its ink replaced by the page's own colour, digits are
small images of transparent ink: both follow the reader's light or dark setting.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable
from string import Template
from typing import Any

import numpy as np

from .. import plots
from .comparison import Result, duration
from .demo import Demo

INK = "#010203"  # stands for the page's text colour in a chart until the SVG is finished
CHART_SIZE = (4.7, 3.7)  # inches: with 9 point text still readable on a telephone
IMAGE_SHAPE = (8, 8)
EXAMPLE = """\
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from kernelsieve import SparseKernelPCA

X, y = load_digits(return_X_y=True)
train, test = train_test_split(X / 16, test_size=1/3, random_state=0)

model = SparseKernelPCA(n_components=10, n_support=20, random_state=0)
scores = model.fit(train).transform(test)
print(model.captured_ratio_)   # share of what exact kernel PCA captures
model.save("digits.ks")        # a few kilobytes, no pickle"""


def page(demo: Demo) -> str:
    """The whole page."""
    from sklearn import __version__ as sklearn_version

    from .. import __version__

    own = demo.results[1]
    return Template(PAGE).substitute(
        style=STYLE,
        n_support=own.n_points,
        n_train=f"{len(demo.digits.train):,}",
        n_test=len(demo.digits.test),
        of_exact=f"{100 * demo.of_exact(1):.1f}",
        speedup=f"{demo.speedup:.0f}",
        support=_images(np.asarray(demo.model.support_vectors_), "support point"),
        map=_chart("Held-out digits in the first two components", lambda ax: _draw_map(demo, ax)),
        curve=_chart("Captured variance against number of points", lambda ax: _draw_curve(demo, ax)),
        rows="\n".join(_table_row(demo, place, result) for place, result in enumerate(demo.results)),
        pairs=_preimages(demo),
        example=html.escape(EXAMPLE),
        versions=html.escape(f"kernelsieve {__version__}, scikit-learn {sklearn_version}"),
    )


def _draw_map(demo: Demo, ax: Any) -> None:
    plots.scores(demo.model, demo.digits.test, labels=demo.digits.test_labels, ax=ax)
    ax.set(xticks=[], yticks=[])  # the scale of a score says nothing here


def _draw_curve(demo: Demo, ax: Any) -> None:
    plots.captured_curve(demo.sizes, demo.curves, ax=ax)
    ax.set_ylabel("captured variance, share of exact")


def _chart(label: str, draw: Callable[[Any], None]) -> str:
    """An inline SVG of what `draw` draws on an Axes."""
    import matplotlib
    from matplotlib.figure import Figure

    colors = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with matplotlib.rc_context({**colors, "svg.fonttype": "none", "svg.hashsalt": label, "font.size": 9}):
        figure = Figure(figsize=CHART_SIZE, layout="constrained")
        draw(figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawn = buffer.getvalue()
    drawn = drawn[drawn.index("<svg") :].replace(INK, "currentColor")
    drawn = drawn.replace(plots.COLORS[0].lower(), "var(--accent)")  # the page has a lighter blue for dark
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r' (width|height)="[\d.]+pt"', "", drawn, count=2)
    return drawn.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1)


def _images(rows: np.ndarray, label: str) -> str:
    return "\n".join(_image(row, f"{label} {number}") for number, row in enumerate(rows, start=1))


def _image(row: np.ndarray, label: str) -> str:
    """One digit in black ink, as thick as its values say; whatever lies outside 0 to 1 is cut off."""
    from matplotlib.image import imsave

    ink = np.zeros((*IMAGE_SHAPE, 4))
    ink[..., 3] = np.clip(row, 0, 1).reshape(IMAGE_SHAPE)
    buffer = io.BytesIO()
    imsave(buffer, ink, format="png")
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img class="digit" width="64" height="64" alt="{html.escape(label)}" src="data:image/png;base64,{data}">'


def _preimages(demo: Demo) -> str:
    """One held-out digit of each class above what its ten scores give back."""
    labels = demo.digits.test_labels
    chosen = [int(np.flatnonzero(labels == digit)[0]) for digit in range(10)]
    rows = demo.digits.test[chosen]
    returned = np.asarray(demo.model.inverse_transform(demo.model.transform(rows)))
    pairs = []
    for digit, (row, back) in enumerate(zip(rows, returned, strict=True)):
        pairs.append(
            f'<div class="pair">{_image(row, f"a {digit}")}{_image(back, f"the {digit} from 10 scores")}</div>'
        )
    return "\n".join(pairs)


def _table_row(demo: Demo, place: int, result: Result) -> str:
    cells = [
        f"{result.n_points:,}",
        f"{100 * result.captured / demo.total:.1f} %",
        f"{100 * demo.of_exact(place):.1f} %",
        duration(result.fit_seconds),
        duration(result.transform_seconds),
    ]
    own = ' class="own"' if place == 1 else ""
    return f"<tr{own}><th>{html.escape(result.name)}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


STYLE = """
:root { color-scheme: light dark; --page: #fdfdfc; --ink: #1d2024; --soft: #5c636b; --line: #dcdfe3; --card: #f3f4f6;
  --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181c; --ink: #e8eaed; --soft: #a3abb5; --line: #343a41; --card: #1e2227; --accent: #56b4e9; }
  .digit { filter: invert(1); }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); line-height: 1.55;
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 2.5rem 1rem 3rem; }
h1 { font-size: clamp(1.6rem, 4.5vw, 2.6rem); line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 0.8rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 0 0 0.4rem; }
p { margin: 0 0 1rem; max-width: 42rem; }
.soft { color: var(--soft); font-size: 0.9rem; margin-top: 0.8rem; }
section { margin-top: 3rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: 0.8rem; margin: 1.6rem 0 0;
  padding: 0; list-style: none; }
.facts li { background: var(--card); border-radius: 0.6rem; padding: 0.9rem 1.1rem; }
.facts b { display: block; font-size: 1.7rem; line-height: 1.2; color: var(--accent); }
.digit { width: 100%; height: auto; aspect-ratio: 1; image-rendering: pixelated; display: block; }
.grid { display: grid; grid-template-columns: repeat(10, 1fr); gap: clamp(0.5rem, 1.6vw, 1.2rem); margin-top: 1.2rem; }
.pairs { row-gap: 2rem; }
.pair { display: grid; gap: 0.6rem; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 3rem; }
.two svg { display: block; width: 100%; height: auto; margin-top: 0.8rem; }
svg text { font-family: inherit !important; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 0.5rem 0.7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { color: var(--soft); font-weight: 500; font-size: 0.85rem; line-height: 1.3; vertical-align: bottom; }
th:first-child { text-align: left; padding-left: 0; font-weight: 500; }
td:last-child, th:last-child { padding-right: 0; }
.own th, .own td { font-weight: 700; color: var(--accent); }
pre { background: var(--card); border-radius: 0.6rem; padding: 1rem 1.1rem; overflow-x: auto; margin: 0.8rem 0 0;
  font: 0.85rem/1.55 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
@media (max-width: 46rem) {
  .two { grid-template-columns: 1fr; }
  .grid { grid-template-columns: repeat(5, 1fr); }
  th, td { padding: 0.45rem 0.3rem; font-size: 0.8rem; }
  thead th { font-size: 0.72rem; }
  tbody th { white-space: normal; }
}
@media (max-width: 30rem) { th:nth-child(3), td:nth-child(3) { display: none; } }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>kernelsieve: kernel PCA on $n_support points</title>
<style>$style</style>
</head>
<body>
<main>
<h1>Kernel PCA on $n_support points instead of $n_train</h1>
<p>Kernel PCA compares every new row with all the rows it was fitted to. kernelsieve keeps the few points that carry
the result and forgets the rest. Here it is on scikit-learn&rsquo;s handwritten digits: $n_train to fit, $n_test held
out, ten components.</p>
<ul class="facts">
<li><b>$of_exact&thinsp;%</b>of the variance that exact kernel PCA captures on held-out digits</li>
<li><b>$n_support</b>kernel evaluations for a new digit, not $n_train</li>
<li><b>$speedup&times;</b>faster to transform than scikit-learn&rsquo;s KernelPCA</li>
</ul>

<section>
<h2>The $n_support support points</h2>
<p>The whole model: every score of every digit is a sum over these. They are not rows of the data:
they were moved to where they capture most variance, and came out looking like digits.</p>
<div class="grid">
$support
</div>
</section>

<section class="two">
<div>
<h2>The map</h2>
<p>Held-out digits in the first two of ten components. The model was never told which digit is which.</p>
$map
</div>
<div>
<h2>How many points it takes</h2>
<p>Captured variance on held-out digits. Nystroem takes rows at random: mean of five draws.</p>
$curve
</div>
</section>

<section>
<h2>The numbers</h2>
<div class="scroll">
<table>
<thead><tr><th></th><th>kernel values<br>a row</th><th>captured<br>held out</th><th>of exact</th><th>fit</th>
<th>transform<br>$n_test rows</th></tr></thead>
<tbody>
$rows
</tbody>
</table>
</div>
<p class="soft">Captured: variance of the held-out digits along the ten components, as a share of their variance in
feature space. Same Gaussian kernel for all; exact is scikit-learn&rsquo;s KernelPCA with its arpack solver. Times
are the best of five on the machine that wrote this page ($versions).</p>
</section>

<section>
<h2>There and back</h2>
<p>Ten held-out digits, and below each the digit that its ten scores stand for.</p>
<div class="grid pairs">
$pairs
</div>
</section>

<section>
<h2>In Python</h2>
<pre><code>$example</code></pre>
</section>
</main>
</body>
</html>
"""
