"""The page of a monitor: its statistics over time, alarms with their causes, the limits and how certain they are.

The page needs no script.  Lines are drawn as SVG, which stretches with the page; texts are HTML, so that they do not.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from html import escape
from string import Template
from typing import Any

import numpy as np

from ..monitor.statistics import CONFIDENCE
from ..monitor.table import percent, shown, table_block
from ..rows.frames import DATE, Block, is_frame
from ..tables.calendar import date_columns, with_date
from .code import table_call
from .limits import PAGE
from .page_data import JSON, Options, cell, cells


def monitor_contents(monitor: Any, X: Any, options: Options) -> JSON:
    """The contents of a monitor's page, as data."""
    from .. import __version__

    judge = copy.copy(monitor).restart()  # a copy, so that the state of the user's monitor does not change
    start, records = judge._live.number, judge.update(X)
    alarms = np.array([record.alarm for record in records], dtype=bool)
    labels = _row_labels(X, len(records))
    stretches = _stretches(records, alarms, start, labels)
    worst = sorted(sorted(stretches, key=lambda one: -one["times"])[: PAGE.max_stretches], key=lambda one: one["first"])
    low, high = monitor.false_alarm_interval_
    return {
        "kind": "monitor",
        "title": options.title or (options.source or "Monitor").rsplit("/", 1)[-1],
        "version": __version__,
        "n_rows": len(records),
        "n_shown": len(records),
        "n_alarms": int(alarms.sum()),
        "n_missing": sum(record.missing for record in records),
        "n_stretches": len(stretches),
        "stretches": worst,
        "causes": _causes(records, alarms),
        "charts": {
            "spe": _chart(np.array([record.spe for record in records]), alarms, monitor.limits_["spe"]),
            "t2": _chart(np.array([record.t2 for record in records]), np.zeros_like(alarms), monitor.limits_["t2"]),
        },
        "ticks": _ticks(labels),
        "asked": cell(monitor.false_alarm_rate),
        "rate": cell(monitor.false_alarm_rate_),
        "interval": [cell(low), cell(high)],
        "limits": list(_limit_facts(monitor)),
        "notes": monitor.notes(X),
        "handling": [] if monitor._encoder is None else monitor._encoder.describe(),
        "code": _code(options),
    }


def _row_labels(X: Any, n_rows: int) -> list[str]:
    """A label for each row: its date if the table has dates, else "row" and its number, counted from 1."""
    numbers = [f"row {row}" for row in range(1, n_rows + 1)]
    if not is_frame(X):
        return numbers
    block: Block = table_block(X)
    block = with_date(block, date_columns(block))
    dates = [j for j, kind in enumerate(block.kinds) if kind == DATE]
    if not dates:
        return numbers
    days = block.numbers[:, int(np.searchsorted(block.measured, dates[0]))]
    timed = bool((days[np.isfinite(days)] % 1 != 0).any())
    told = [numbers[row] if day != day else shown(float(day), DATE) for row, day in enumerate(days)]
    return [f"{one} 00:00" if timed and len(one) == len("2014-01-31") and one[:3] != "row" else one for one in told]


def _ticks(labels: list[str]) -> list[str]:
    """The labels under a chart; if all are on different days, they are shown without the time of day."""
    found = [labels[place] for place in np.linspace(0, len(labels) - 1, PAGE.n_ticks).astype(int)] if labels else []
    days = [tick.partition(" ")[0] for tick in found]
    return days if len(set(days)) == PAGE.n_ticks else found


def _stretches(records: list[Any], alarms: np.ndarray, start: int, labels: list[str]) -> list[JSON]:
    """Stretches of consecutive alarms: their rows, how far SPE is above the limit, and the causes of the worst row."""
    rows = np.flatnonzero(alarms)
    found = []
    for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []:
        worst = records[int(run[np.argmax([records[row].spe for row in run])])]
        first, last, place = int(run[0]), int(run[-1]), worst.number - start
        found.append(
            {
                "first": first + 1,
                "last": last + 1,
                "dates": "" if labels[first].startswith("row ") else _between(labels[first], labels[last]),
                "worst": place + 1,
                "times": float(worst.spe / worst.limit) if worst.limit > 0 else float("inf"),
                "causes": list(worst.causes) or [f"{name} ({percent(share)})" for name, share in worst.top],
            }
        )
    return found


def _between(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _causes(records: list[Any], alarms: np.ndarray) -> list[JSON]:
    """The columns with the largest mean shares of SPE over the rows that alarm."""
    totals: dict[str, float] = {}
    for row in np.flatnonzero(alarms):
        for name, share in records[row].top:
            totals[name] = totals.get(name, 0.0) + share / int(alarms.sum())
    ordered = sorted(totals.items(), key=lambda one: -one[1])
    return [{"name": name, "share": share} for name, share in ordered[: PAGE.max_causes]]


def _chart(values: np.ndarray, alarms: np.ndarray, limit: float) -> JSON:
    """The data of a chart: the largest value in each bin of consecutive rows, and the bins with an alarm."""
    n_bins = max(1, min(len(values), PAGE.max_pixel_columns))
    bins = [part for part in np.array_split(np.arange(len(values)), n_bins) if len(part)]
    largest = [np.nanmax(values[part], initial=-np.inf) for part in bins]
    return {
        "values": cells(np.where(np.isfinite(largest), largest, np.nan)),
        "alarms": [place for place, part in enumerate(bins) if alarms[part].any()],
        "limit": float(limit),
    }


def _limit_facts(monitor: Any) -> Iterator[tuple[str, str]]:
    """Facts about the limits and how they were set, as pairs of a label and a value."""
    spe, own = monitor.limits_["spe"], monitor.training_limits_["spe"]
    yield "limit of SPE", f"{spe:.4g}; measured on the rows that the model was fitted to, it would be {own:.4g}"
    yield "limit of T2", f"{monitor.limits_['t2']:.4g}, for comparison only"
    yield "set by", f"{monitor.n_held_out_:,} normal rows, each judged by a model that had not seen it"
    yield "fitted to", f"{monitor.n_samples_seen_:,} normal rows"
    size = f"{monitor.n_components_} components on {monitor.n_support_} support points"
    yield "model", f"{size}, {monitor.expansion_.kernel.name} kernel"
    needed, remembered = monitor.alarm_rule
    if remembered > 1:
        yield "rule", f"an alarm when {needed} of the last {remembered} rows are above the limit"
    if monitor._fitted_lags:
        yield "lags", f"a row is judged together with the {monitor._fitted_lags} before it"
    if monitor._fitted_smoothing is not None:
        yield "smoothing", f"SPE is a running mean, with weight {monitor._fitted_smoothing:g} for the newest row"


def _code(options: Options) -> str:
    model = options.model_file or "monitor.ks"
    return "\n".join(
        [
            "import kernelsieve",
            "",
            f"monitor = kernelsieve.load({model!r})",
            f"X = {table_call(options, options.read_options)}",
            "alarms = [record for record in monitor.update(X) if record.alarm]",
            'kernelsieve.report(monitor, X).save("report.html")',
        ]
    )


def monitor_html(contents: JSON, page: Template, style: str, own_style: str) -> str:
    """The page as HTML; all texts from the user's table are escaped."""
    sections = [_header(contents), _over_time(contents), _alarms(contents), _columns(contents), _sure(contents)]
    text = page.substitute(
        style=style,
        own_style=own_style,
        title=escape(contents["title"]),
        sections="\n".join(filter(None, sections)),
        version=escape(contents["version"]),
    )
    text = re.sub(r"(\d) %", "\\1\u00a0%", text)  # no line breaks between a number and its per cent sign
    return text.encode("utf-8", "replace").decode()  # an unpaired surrogate cannot be written to a file


def _header(contents: JSON) -> str:
    n_judged = contents["n_rows"] - contents["n_missing"]
    alarms, share = contents["n_alarms"], contents["n_alarms"] / max(1, n_judged)
    low, high = contents["interval"]
    lead = f"{alarms:,} of {n_judged:,} rows are unlike the normal ones ({_percent(share)})."
    if alarms:
        first = contents["causes"][0]["name"] if contents["causes"] else None
        together = f", in {contents['n_stretches']:,} stretches of time" if contents["n_stretches"] < alarms else ""
        lead = f"{alarms:,} of {n_judged:,} rows are flagged ({_percent(share)}){together}."
        lead += f" The most important cause is {escape(first)}." if first else ""
    tiles = [
        (f"{n_judged:,}", "rows judged"),
        (f"{alarms:,}", f"alarms, {_percent(share)} of them"),
        (_percent(contents["rate"]), f"of normal rows are flagged by mistake ({_percent(low)} to {_percent(high)})"),
        (f"{contents['n_missing']:,}", "rows not judged (missing values)"),
    ]
    listed = "".join(f"<li><b>{value}</b>{text}</li>" for value, text in tiles)
    notes = "".join(f'<p class="note">{escape(note)}.</p>' for note in contents["notes"])
    return (
        f'<header><h1>{escape(contents["title"])}</h1>\n<p>{lead}</p>\n<ul class="facts">{listed}</ul>{notes}</header>'
    )


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _over_time(contents: JSON) -> str:
    ends = "".join(f"<span>{escape(tick)}</span>" for tick in contents["ticks"])
    parts = [
        ("spe", "", "SPE: how far a row lies from what the model can describe. Alarms are raised by SPE alone."),
        ("t2", " second", "T2: how far a row lies from the centre, within what the model can describe."),
    ]
    charts = [
        f'<div class="time{second}"><h3>{text}</h3><div class="plot">{_svg(contents["charts"][name])}</div>'
        f'<div class="ends">{ends}</div></div>'
        for name, second, text in parts
    ]
    keys = (
        '<p class="soft">'
        '<span class="key"><i style="background:var(--accent)"></i>the largest value at each time</span>'
        '<span class="key"><i style="background:var(--warm)"></i>alarm</span>'
        '<span class="key"><i style="background:var(--soft);height:2px"></i>limit</span></p>'
    )
    return f'<section id="time"><h2>Over time</h2>{keys}{"".join(charts)}</section>'


def _svg(chart: JSON) -> str:
    """The lines of a chart in a box of 1000 x 100, which is stretched to the page, and the label of the limit."""
    limit = chart["limit"]
    values = np.array([np.nan if value is None else value for value in chart["values"]], dtype=np.float64)
    top = max(float(np.nanmax(values, initial=0.0)), limit) or 1.0
    logarithmic = limit > 0 and top > PAGE.steep * limit
    floor = limit / PAGE.steep

    def height(value: float) -> float:
        if logarithmic:
            return 100 - 96 * float(np.log(max(value, floor) / floor) / np.log(top / floor))
        return 100 - 96 * value / top

    x = (np.arange(len(values)) + 0.5) * 1000 / len(values)
    pieces, drawing = [], False
    for place, value in enumerate(values):
        if value == value:
            pieces.append(f"{'L' if drawing else 'M'}{x[place]:.1f} {height(value):.2f}")
        drawing = value == value
    stems = "".join(f"M{x[place]:.1f} {height(limit):.2f}V{height(values[place]):.2f}" for place in chart["alarms"])
    scale = ", logarithmic axis" if logarithmic else ""
    return (
        '<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="the rows over time">'
        f'<path d="{"".join(pieces)}" stroke="var(--accent)" stroke-width="1.1" stroke-linejoin="round"/>'
        f'<path d="{stems}" stroke="var(--warm)" stroke-width="2.2"/>'
        f'<line x1="0" x2="1000" y1="{height(limit):.2f}" y2="{height(limit):.2f}" stroke="var(--soft)" '
        'stroke-width="1.2" stroke-dasharray="5 4"/></svg>'
        f'<span class="limit" style="top:{height(limit):.1f}%">limit {limit:.3g}{scale}</span>'
    )


def _alarms(contents: JSON) -> str:
    if not contents["stretches"]:
        return '<section id="alarms"><h2>Alarms, and why</h2><p>No row is flagged.</p></section>'
    cards = []
    for one in contents["stretches"]:
        rows = f"row {one['first']}" if one["first"] == one["last"] else f"rows {one['first']} to {one['last']}"
        when = f"<div>{escape(one['dates'])}</div>" if one["dates"] else ""
        causes = "".join(f"<li>{escape(cause)}</li>" for cause in one["causes"])
        worst = f", worst in row {one['worst']}" if one["first"] != one["last"] else ""
        cards.append(
            f'<div class="card"><h3>{rows}</h3>{when}<span class="times">{one["times"]:,.2f} &times; the limit</span>'
            f'<span class="soft">{worst}</span><ul class="why">{causes}</ul></div>'
        )
    left = contents["n_stretches"] - len(cards)
    rest = f" The {len(cards)} worst of {contents['n_stretches']:,} stretches are shown." if left else ""
    text = (
        "Consecutive alarms are shown together, with the causes of the worst row. A percentage is a column's share of "
        f"that row's SPE. What is usual is the middle 90 % of the normal rows.{rest}"
    )
    return (
        f'<section id="alarms"><h2>Alarms, and why</h2><p>{text}</p><div class="cards">{"".join(cards)}</div></section>'
    )


def _columns(contents: JSON) -> str:
    if not contents["causes"]:
        return ""
    largest = max(one["share"] for one in contents["causes"]) or 1.0
    bars = "".join(
        f'<span>{escape(one["name"])}</span><i style="width:{100 * one["share"] / largest:.1f}%"></i>'
        f"<span>{percent(one['share'])}</span>"
        for one in contents["causes"]
    )
    text = "The share that each column has of the SPE of the flagged rows, on average."
    heading = "Which columns the alarms come from"
    return f'<section id="columns"><h2>{heading}</h2><p>{text}</p><div class="shares">{bars}</div></section>'


def _sure(contents: JSON) -> str:
    low, high = contents["interval"]
    text = (
        f"The limit was set so that {_percent(contents['asked'])} of normal rows lie above it. Of the rows that were "
        f"held out, {_percent(contents['rate'])} do; with a probability of {percent(CONFIDENCE)} the true share lies "
        f"between {_percent(low)} and {_percent(high)}. Neighbouring rows are alike, which makes this range wider."
    )
    handled = f"<h3>What was done to the columns</h3>{_listed(contents['handling'])}" if contents["handling"] else ""
    limits = _listed(contents["limits"])
    return (
        f'<section id="limit"><h2>The limit, and how precisely it is known</h2><p>{text}</p>{limits}</section>'
        f'<section id="handling"><h2>How this was made</h2>{handled}<h3>The same in Python</h3>'
        f"<pre>{escape(contents['code'])}</pre></section>"
    )


def _listed(facts: Any) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in facts)}</dl>"
