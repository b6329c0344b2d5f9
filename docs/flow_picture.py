"""The data flow of a fit as a picture, on a light and on a dark page: python docs/flow_picture.py writes both."""

from __future__ import annotations

from html import escape
from pathlib import Path

THEMES = {
    "light": {"ink": "#1f2328", "line": "#59636e", "box": "#f4f6f8", "chosen": "#dcebf7", "edge": "#8c959f"},
    "dark": {"ink": "#e6edf3", "line": "#9aa4b0", "box": "#22272e", "chosen": "#14374f", "edge": "#6b7682"},
}
# column, row, title, lines beneath it
BOXES = {
    "rows": (0, 1, "rows", ("array, file, dask,", "stream, GPU")),
    "sample": (1, 0, "sample", ("a few thousand", "rows")),
    "points": (2, 0, "points", ("selection: moved,", "greedy, given")),
    "blocks": (1, 2, "blocks", ("all rows, once,", "where they lie")),
    "span": (2, 2, "span", ("points, whitening,", "moments: they add")),
    "solver": (3, 1, "small solver", ("m x m: eigen, lasso,", "likelihood")),
    "expansion": (4, 1, "expansion", ("points, coefficients,", "offset")),
    "use": (5, 1, "use", ("transform, report,", "file, ONNX, C")),
}
ARROWS = (
    ("rows", "sample"),
    ("rows", "blocks"),
    ("sample", "points"),
    ("points", "span"),
    ("blocks", "span"),
    ("span", "solver"),
    ("solver", "expansion"),
    ("expansion", "use"),
)
WIDTH, HEIGHT, ACROSS, DOWN = 132, 74, 166, 92


def place(name: str) -> tuple[float, float]:
    """The upper left corner of a box."""
    column, row, *_ = BOXES[name]
    return 6 + column * ACROSS, 8 + row * DOWN


def arrow(start: str, end: str) -> str:
    """A line from one box to the next."""
    (x1, y1), (x2, y2) = place(start), place(end)
    if x1 == x2:
        ends = (x1 + WIDTH / 2, y1 + HEIGHT, x2 + WIDTH / 2, y2 - 7)
    else:
        ends = (x1 + WIDTH, y1 + HEIGHT / 2, x2 - 7, y2 + HEIGHT / 2)
    return '<path d="M{} {}L{} {}" class="line" marker-end="url(#head)"/>'.format(*ends)


def box(name: str) -> str:
    """A box with its words."""
    x, y = place(name)
    _, _, title, lines = BOXES[name]
    kind = "chosen" if name in ("span", "expansion") else "box"
    parts = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="8" class="{kind}"/>']
    parts.append(f'<text x="{x + WIDTH / 2}" y="{y + 24}" class="title">{escape(title)}</text>')
    for number, line in enumerate(lines):
        parts.append(f'<text x="{x + WIDTH / 2}" y="{y + 44 + 16 * number}" class="text">{escape(line)}</text>')
    return "".join(parts)


def picture(theme: dict[str, str]) -> str:
    """The whole picture as SVG."""
    style = (
        f".box{{fill:{theme['box']};stroke:{theme['edge']}}}.chosen{{fill:{theme['chosen']};stroke:{theme['edge']}}}"
        f".line{{stroke:{theme['line']};stroke-width:1.6;fill:none}}text{{fill:{theme['ink']};text-anchor:middle;"
        "font-family:system-ui,sans-serif}.title{font-size:15px;font-weight:600}.text{font-size:12px}"
    )
    tip = f'<path d="M0 0L8 4L0 8z" fill="{theme["line"]}"/>'
    shape = 'viewBox="0 0 8 8" refX="2" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    head = f'<marker id="head" {shape}>{tip}</marker>'
    body = "".join(arrow(*ends) for ends in ARROWS) + "".join(map(box, BOXES))
    size = f'viewBox="0 0 {6 * ACROSS - 22} {3 * DOWN - 4}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style><defs>{head}</defs>{body}</svg>\n'


if __name__ == "__main__":
    for name, theme in THEMES.items():
        Path(__file__).with_name("_static").joinpath(f"flow-{name}.svg").write_text(picture(theme), encoding="utf-8")
