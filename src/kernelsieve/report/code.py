"""Facts about the fit of a model, and Python code that makes the same model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..kernels import is_function
from ..tables.files import READABLE
from .limits import PAGE
from .model_view import ModelView, quietly
from .page_data import Options

MEASURED = {  # for each value of captured_ratio_kind_, a text with a place for the number of rows
    "all rows": "measured on all {} rows",
    "sample": "measured on a sample of {} rows",
    "sample, extrapolated": "extrapolated from a sample of {} rows",
}
STARTS = {"kmeans": "k-means centres", "targeted": "rows chosen greedily", "resized": "points found for another number"}


def facts(view: ModelView, fit_seconds: float | None) -> list[tuple[str, str]]:
    """Facts about the fit, as pairs of a label and a value."""
    return [(label, value) for label, value in _facts(view, fit_seconds) if value]


def _facts(view: ModelView, fit_seconds: float | None) -> Iterator[tuple[str, str]]:
    model, kernel = view.model, view.model.expansion_.kernel
    yield "method", type(model).__name__
    yield "rows fitted", f"{int(getattr(model, 'n_samples_seen_', 0)):,}" if hasattr(model, "n_samples_seen_") else ""
    yield "columns the model sees", "" if view.of_objects else f"{view.encoded.shape[1]:,}"
    settings = ", ".join(f"{name} = {value:.4g}" for name, value in view.kernel_settings.items())
    given = getattr(model, "kernel", None)
    name = getattr(given, "__name__", type(given).__name__) if is_function(given) else kernel.title
    yield "kernel", f"{name} with {settings}" if settings else name
    rule = getattr(model, "gamma", None)
    if "gamma" in view.kernel_settings and (rule is None or isinstance(rule, str)):
        yield (
            "gamma chosen by",
            {"median": "the median distance between rows", None: "1 / number of columns"}.get(rule, str(rule)),
        )
    yield "components", str(view.n_components)
    explained = float(np.sum(getattr(model, "explained_variance_ratio_", np.nan)))
    yield "variance in the components", percent(explained)
    yield "support points", f"{int(model.n_support_):,}"
    ratio = getattr(model, "captured_ratio_", None)
    if ratio is not None:
        kind = getattr(model, "captured_ratio_kind_", "")
        measured = getattr(model, "captured_ratio_n_samples_", None)
        how = MEASURED.get(kind, kind).format(f"{measured:,}" if measured else "some")
        yield "kept of exact kernel PCA", f"{percent(float(ratio))}{f' ({how})' if how else ''}"
    yield from _agreement(view)
    yield from _search(model)
    if fit_seconds is not None:
        yield "time to fit", f"{fit_seconds:.2f} s" if fit_seconds < 100 else f"{fit_seconds / 60:.1f} minutes"


def _agreement(view: ModelView) -> Iterator[tuple[str, str]]:
    """How well each component agrees with exact kernel PCA, as measured by the fit or on a sample of the rows."""
    model = view.model
    if view.of_objects:  # for objects this could need as many kernel values as the fit
        return
    if getattr(model, "captured_ratio_kind_", "exact") == "exact" or not hasattr(model, "component_agreement"):
        return
    with quietly():
        try:
            known = hasattr(model, "component_agreement_")
            if not known and model._has_budget:
                yield "agreement with exact kernel PCA", "not known: it takes more kernel values than max_evaluations"
                return
            found = model.component_agreement_ if known else model.component_agreement(view.sample).components
        except ValueError:  # a precomputed or indefinite kernel
            return
    on = "" if known else f", on {len(view.sample):,} rows"
    yield "agreement with exact kernel PCA", f"{', '.join(f'{value:.2f}' for value in found)} (by component{on})"


def _search(model: Any) -> Iterator[tuple[str, str]]:
    """Facts about the search for points."""
    report = getattr(model, "selection_report_", None) or {}
    yield "points chosen by", str(report.get("rule", ""))
    starts = report.get("starts") or {}
    if len(starts) > 1:
        winner = report.get("winner")
        tried = ", ".join(f"{STARTS.get(name, name)} ({percent(float(value))})" for name, value in starts.items())
        best = f"; best: {STARTS.get(winner, winner)}" if winner else ""
        yield "search started from", f"{tried} of the variance{best}"
    curve = report.get("curve") or []
    if len(curve) > 1:
        tried = ", ".join(f"{size} ({percent(float(share))})" for size, share in curve)
        yield "numbers of points tried", f"{tried}, with what they keep of exact kernel PCA"
    steps, converged = getattr(model, "n_iter_", None), getattr(model, "converged_", None)
    if steps is not None and converged is not None:
        yield "steps", f"{int(steps)}, {'converged' if converged else 'not converged: more max_iter would still gain'}"


def percent(share: float) -> str:
    """A share for display, in per cent; empty if it is not known."""
    if not np.isfinite(share):
        return ""
    return f"{100 * share:.1f} %" if share < 0.995 or share == 1 else f"{100 * share:.2f} %"


def code(view: ModelView, options: Options) -> str:
    """Python that makes the same model from the same table."""
    steps = [] if view.front is None else [step for _, step in view.front.steps]
    steps.append(view.model)
    if options.model_file is not None:
        imports, model = ["import kernelsieve"], f"kernelsieve.load({options.model_file!r})"
    else:
        imports = _imports(steps, pipeline=len(steps) > 1)
        model = _constructor(view.model)
        if len(steps) > 1:
            model = _call("make_pipeline(", [_constructor(step, 4) for step in steps], ")", 0, len("model = .fit(X)"))
        model = _fitting(model, view.model, options, in_pipeline=len(steps) > 1)
    reading = [f"X = {table_call(options, options.read_options)}"]
    if options.weights is not None:
        how = {name: value for name, value in options.read_options.items() if name not in ("columns", "exclude")}
        reading.append(f"weights = {table_call(options, {**how, 'columns': [options.weights]})}")
    lines = [*imports, "", *reading, f"model = {model}", "", "scores = model.transform(X)"]
    if options.model_file is None and any(getattr(step, "random_state", 0) is None for step in steps):
        name = type(view.model).__name__
        lines.insert(-1, f"# {name} drew at random: give random_state=0 for the same points every time")
    return "\n".join([*lines, 'kernelsieve.report(model, X).save("report.html")'])


def _fitting(model: str, estimator: Any, options: Options, *, in_pipeline: bool) -> str:
    """The call that fits the model to X, with weights if a column of the source holds them."""
    if options.weights is None:
        return f"{model}.fit(X)"
    step = f"{type(estimator).__name__.lower()}__" if in_pipeline else ""
    return f"{model}.fit(\n    X, {step}sample_weight=weights[{options.weights!r}].to_numpy()\n)"


def _imports(steps: list[Any], *, pipeline: bool) -> list[str]:
    """Import lines, those of kernelsieve last; each class is imported from the shortest public module that has it."""
    wanted: dict[str, set[str]] = {}
    for step in _nested(steps):
        wanted.setdefault(_public_module(type(step)), set()).add(type(step).__name__)
    if pipeline:
        wanted.setdefault("sklearn.pipeline", set()).add("make_pipeline")
    own = sorted(wanted.pop("kernelsieve", set()))
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(wanted.items())]
    return [*lines, "import kernelsieve", *([f"from kernelsieve import {', '.join(own)}"] if own else [])]


def _nested(steps: list[Any]) -> Iterator[Any]:
    """Estimators, and the estimators among their parameters."""
    for step in steps:
        yield step
        if hasattr(step, "get_params"):
            inner = [value for value in step.get_params(deep=True).values() if hasattr(value, "get_params")]
            yield from (value for value in inner if not isinstance(value, type))


def _public_module(kind: type) -> str:
    """The module that users import a class from: sklearn.preprocessing, not sklearn.preprocessing._data."""
    import importlib

    parts = kind.__module__.split(".")
    for length in range(1, len(parts)):
        name = ".".join(parts[:length])
        if getattr(importlib.import_module(name), kind.__name__, None) is kind:
            return name
    return kind.__module__


def _constructor(step: Any, indent: int = 0) -> str:
    """The call that makes this estimator, with all parameters that differ from their defaults."""
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(type(step).__init__).parameters.items()
    }
    given = step.get_params(deep=False)
    changed = {name: value for name, value in given.items() if not _same(value, defaults.get(name))}
    parts = [f"{name}={_value(value, indent + 4)}" for name, value in changed.items()]
    return _call(f"{type(step).__name__}(", parts, ")", indent)


def _call(opening: str, parts: list[str], closing: str, indent: int, beside: int = 0) -> str:
    """A call on one line if that fits, with `beside` characters of other text, else with a line for each part."""
    line = f"{opening}{', '.join(parts)}{closing}"
    if len(line) + indent + beside <= PAGE.line_length and "\n" not in line:
        return line
    space = " " * (indent + 4)
    return opening + "".join(f"\n{space}{part}," for part in parts) + f"\n{' ' * indent}{closing}"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and repr(value) == repr(default))


def _value(value: Any, indent: int) -> str:
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _constructor(value, indent)
    if isinstance(value, list | tuple):
        opening, closing = "[]" if isinstance(value, list) else "()"
        parts = [_value(item, indent + 4) for item in value]
        return (
            f"({parts[0]},)" if isinstance(value, tuple) and len(parts) == 1 else _call(opening, parts, closing, indent)
        )
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= PAGE.max_repr else f"...  # {type(value).__name__}, too long to print"


def table_call(options: Options, keywords: Mapping[str, Any]) -> str:
    """The call of `read_table` with these keywords; a placeholder if the source is not a readable file."""
    if options.source is None or not options.source.lower().removesuffix(".gz").endswith(READABLE):
        return "...  # your table"
    given = [f"{name}={value!r}" for name, value in keywords.items()]
    return _call("kernelsieve.read_table(", [repr(options.source), *given], ")", 0)
