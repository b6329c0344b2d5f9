"""`report`, and the assembly of its page from template, style, scripts, chart library and data."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata, resources
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..fit.parameters import instance_of, two_whole_numbers, whole_number
from ..io.container import replacing
from ..monitor.estimator import KernelMonitor
from .contents import contents_of
from .limits import PAGE
from .monitor_page import monitor_contents, monitor_html
from .page_data import JSON, Options, as_script

SCRIPTS = ("data.js", "charts.js", "map.js", "chosen.js", "amount.js", "meaning.js", "tables.js", "start.js")
# Vega draws thousands of points on a canvas in milliseconds, and its signals link charts.  vl-convert-python contains
# it as one script of 0.9 MB, which needs no network.
SNIPPET = "window.vegaEmbed = vegaEmbed;"  # `vegaEmbed` is the one name that all versions of the bundle define
DISTRIBUTION = "vl-convert-python"


class Report:
    """A page about a fitted model.

    Attributes
    ----------
    contents : dict
        The contents of the page, as data.
    """

    def __init__(self, contents: JSON) -> None:
        self.contents = contents

    @property
    def html(self) -> str:
        """The whole page, as HTML."""
        if self.contents.get("kind") == "monitor":
            template = Template(asset("monitor.html"))
            return monitor_html(self.contents, template, asset("page.css"), asset("monitor.css"))
        return page(self.contents)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file; if that fails, a file that was there before is kept.

        Parameters
        ----------
        path : name of the file
        """
        text = self.html
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")

    def _repr_html_(self) -> str:
        """The page for a notebook, in a frame, so that the styles of page and notebook do not affect each other."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.contents["title"])}" '
            f'style="width:100%;height:{PAGE.notebook_height}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        shown, rows = self.contents["n_shown"], self.contents["n_rows"]
        return f'<Report {self.contents["title"]!r}: {shown:,} of {rows:,} rows; save("report.html") writes the page>'


def report(
    model: Any,
    X: Any,
    *,
    title: str | None = None,
    beside: Any = None,
    image_shape: tuple[int, int] | None = None,
    max_rows: int = 5000,
    source: str | None = None,
    fit_seconds: float | None = None,
    random_state: int = 0,
    read_options: Mapping[str, Any] | None = None,
    model_file: str | None = None,
    weights: str | None = None,
    show: Callable[[Any], str] | None = None,
) -> Report:
    """A page that shows what a fitted model found in a table.

    The page has a map of the scores, on which rows can be coloured, selected, and compared with all others; how many
    components stand out from chance, and how many points they need; the map for narrower and wider kernels; the columns
    that each component depends on, and what changes along it; the rows with the largest errors, and why; the support
    points in the units of the table; and the code that makes the same model.

    Cost: one transform of all rows, and small fits on at most 1,000 of them.

    Parameters
    ----------
    model : fitted kernel estimator, or a fitted pipeline that ends in one; or a fitted KernelMonitor
        A monitor has a different page: its statistics over time, alarms with their causes, and how certain its limit
        is.  For a pipeline, X is the input of its first step: the page shows its texts, dates and missing values.
    X : array-like, sparse matrix, or frame of pandas, polars or arrow, of shape (n_samples, n_features)
        Rows to show, usually those that the model was fitted to; for a kernel of objects, a list of objects.
    title : str, optional
        Heading of the page; by default the name of the source.
    beside : array-like, mapping of name to array-like, or frame, optional
        Further columns of the same rows that the model does not use, such as labels.  Rows on the map can be coloured
        by them, and selected rows are compared in them.
    image_shape : (height, width), optional
        Shape of the images that rows are.  Support points, odd rows and components are then drawn as images.
    max_rows : int, default=5000
        Largest number of rows drawn, chosen at random; fewer if they would make the page larger than 5 MB.
    source : str, optional
        Where the table came from, e.g. "sales.csv"; used in the heading and in the code on the page.
    fit_seconds : float, optional
        How long the fit took, for the facts on the page.
    random_state : int, default=0
        Seed for the choice of rows and for the small fits.
    read_options : mapping, optional
        Keywords of `kernelsieve.read_table` with which X was read from `source`, for the code on the page.
    model_file : str, optional
        The file that the model was loaded from.  The code on the page then loads this file instead of fitting a model.
    weights : str, optional
        The column of `source` that was used as `sample_weight` in the fit, for the code on the page.
    show : callable, optional
        Turns a row that is an object into the text that the page shows; `str` by default.

    Returns
    -------
    Report
        A notebook displays it; `save(path)` writes the page.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import kernelsieve
    >>> data = load_iris()
    >>> model = kernelsieve.SparseKernelPCA(2, random_state=0).fit(data.data)
    >>> kernelsieve.report(model, data.data, title="Iris", beside={"species": data.target_names[data.target]})
    <Report 'Iris': 150 of 150 rows; save("report.html") writes the page>
    """
    max_rows, seed = whole_number("max_rows", max_rows), whole_number("random_state", random_state, 0)
    shape = None if image_shape is None else two_whole_numbers("image_shape", image_shape, 1)
    for name, text in (("title", title), ("source", source), ("model_file", model_file), ("weights", weights)):
        instance_of(name, text, (str, type(None)))
    options = Options(
        title, max_rows, shape, source, fit_seconds, dict(read_options or {}), model_file, weights, show=show
    )
    if isinstance(model, KernelMonitor):
        check_is_fitted(model)
        return Report(monitor_contents(model, X, options))
    return Report(contents_of(model, X, beside, options, seed))


def page(contents: JSON) -> str:
    """The page as HTML; texts from the user's table enter it only as data, or escaped.

    The Content-Security-Policy lets only the two scripts of the page run, which it identifies by their digests, and
    nothing be loaded or sent.  'unsafe-eval' is needed for Vega, which compiles the expressions of a chart; with
    interpreted expressions, the slider would be half as fast.
    """
    library = _script(chart_library().replace("</script", "<\\/script"))
    script = _script("\n".join(asset(name) for name in SCRIPTS))
    digests = " ".join(f"'sha256-{_digest64(text)}'" for text in (library, script))
    text = Template(asset("page.html")).substitute(
        title=html.escape(contents["title"]),
        policy=(
            f"default-src 'none'; script-src {digests} 'unsafe-eval'; style-src 'unsafe-inline'; "
            "img-src data: blob:; base-uri 'none'; form-action 'none'"
        ),
        style=asset("page.css"),
        library=library,
        contents=as_script(contents),
        script=script,
    )
    return text.encode("utf-8", "replace").decode()  # an unpaired surrogate cannot be written to a file


def _script(text: str) -> str:
    """JavaScript wrapped in a function, so that its names are local."""
    return f"(() => {{\n{text}\n}})();"


def _digest64(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def asset(name: str) -> str:
    """The text of a file in the folder `assets`."""
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def chart_library() -> str:
    """The chart library: JavaScript that defines `window.vegaEmbed`."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise ImportError("reports need vl-convert-python: pip install vl-convert-python") from error
    path = cache_folder() / f"vega-embed-{version}.js"
    kept = _read(path)
    if kept is not None:
        return kept
    import vl_convert

    script: str = vl_convert.javascript_bundle(SNIPPET)
    with contextlib.suppress(OSError):  # without a cache, the next report only takes two seconds longer
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            temporary.write_bytes(f"{_digest(script)}\n{script}".encode())
    return script


def cache_folder() -> Path:
    """The folder for caches of this user, in which the chart library is kept from one report to the next."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kernelsieve"


def _read(path: Path) -> str | None:
    """The chart library from the cache; None if the file is missing, incomplete or changed."""
    try:
        digest, script = path.read_bytes().decode().split("\n", 1)
    except (OSError, ValueError):
        return None
    return script if digest == _digest(script) else None


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
