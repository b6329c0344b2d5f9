"""The page: template, style, scripts, chart library and data put together into one text."""

from __future__ import annotations

import html
from functools import cache
from importlib import resources
from os import PathLike
from string import Template
from typing import Any

from ..fit.arguments import instance_of, two_whole_numbers, whole_number
from ..io.atomic import replacing
from .contents import contents_of
from .library import chart_library
from .material import Options
from .packing import JSON, as_script

SCRIPTS = ("data.js", "charts.js", "map.js", "chosen.js", "amount.js", "meaning.js", "tables.js", "start.js")
NOTEBOOK_HEIGHT = 900  # pixels of the frame that shows a page in a notebook


class Report:
    """A page about a fitted model.

    Attributes
    ----------
    contents : dict
        Everything that the page shows, as data.
    """

    def __init__(self, contents: JSON) -> None:
        self.contents = contents

    @property
    def html(self) -> str:
        """The whole page, as text."""
        return page(self.contents)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to one file, whole or not at all.

        Parameters
        ----------
        path : where to write it
        """
        text = self.html
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="\n")

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame of its own, so that neither's style touches the other."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.contents["title"])}" '
            f'style="width:100%;height:{NOTEBOOK_HEIGHT}px;border:0"></iframe>'
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
) -> Report:
    """A page that shows what a fitted model found in a table.

    Scores as a map to brush and colour, with what sets the brushed rows apart; how many components stand out from
    shuffled columns, how many points they take, and the map at narrower and wider kernels; the columns each component
    listens to and what changes along it; the rows that fit worst and why; the support points in the table's own
    units; and the code that makes the same model.

    Cost: one transform of all rows, and small fits on 1,000 of them, whatever their number.

    Parameters
    ----------
    model : fitted kernel estimator, or a fitted pipeline that ends in one
        With a pipeline, X is what goes into its first step: strings, dates and missing values are shown as they are.
    X : array-like, sparse matrix, or frame of pandas, polars or arrow, of shape (n_samples, n_features)
        Rows to show, usually those the model was fitted to.
    title : str, optional
        Heading of the page; by default the name of the source.
    beside : array-like, mapping of name to array-like, or frame, optional
        Further columns of the same rows that the model does not use, such as labels: to colour and to compare by.
    image_shape : (height, width), optional
        Rows are pictures of this shape: points, odd rows and what the components mean are then drawn as pictures.
    max_rows : int, default=5000
        Rows drawn, chosen at random among more; fewer where they would make the page larger than 5 MB.
    source : str, optional
        Where the table came from, e.g. "sales.csv": for the heading and the code on the page.
    fit_seconds : float, optional
        How long the fit took, to be shown.
    random_state : int, default=0
        Of the choice of rows, and of the small fits.

    Returns
    -------
    Report
        Shows itself in a notebook; `save(path)` writes the page.

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
    for name, text in (("title", title), ("source", source)):
        instance_of(name, text, (str, type(None)))
    options = Options(title, max_rows, shape, source, fit_seconds)
    return Report(contents_of(model, X, beside, options, seed))


def page(contents: JSON) -> str:
    """The page as text; whatever comes from the user's table reaches it as data or escaped."""
    text = Template(asset("page.html")).substitute(
        title=html.escape(contents["title"]),
        style=asset("page.css"),
        library=chart_library().replace("</script", "<\\/script"),
        contents=as_script(contents),
        script="\n".join(asset(name) for name in SCRIPTS),
    )
    return text.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be written to a file


@cache
def asset(name: str) -> str:
    """A file of the page, as text."""
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
