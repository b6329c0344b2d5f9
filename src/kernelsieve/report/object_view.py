"""A model of rows that are objects, on the rows that a report shows: each row is one text, `str` of it or the user's.

Kernel values between objects may cost a millisecond each.  A page takes m of them for every shown row, for its score
and for its error, and no others: what needs the gram of a sample, or further fits, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..rows.frames import Frame
from ..rows.kinds import object_rows
from .model_view import ColumnReader, ModelView, split
from .page_data import shortened

COLUMN = "object"  # the name of the one column that the page has
ROWS_A_POINT = 10  # by which it is measured how many rows a point stands for


@dataclass(frozen=True)
class ObjectView(ModelView):
    """A fitted model with the objects that it is shown on; `encoded` holds them, (n_rows, 1)."""

    @classmethod
    def showing(cls, model: Any, X: Any, seed: int, show: Callable[[Any], str] | None) -> ObjectView:
        """Check a model and its rows, and write the rows as texts."""
        front, estimator = split(model)
        objects = object_rows(X if front is None else front.transform(X))
        return cls(front, estimator, Frame(texts_of(objects, show)[:, None], [COLUMN]), objects, seed)

    @property
    def lead(self) -> str | None:
        return (
            f"Kernel PCA of {self.n_rows:,} objects: the {self.n_components} directions in which they differ most, "
            f"from {self.model.n_support_:,} of them."
        )

    @property
    def kernel_settings(self) -> dict[str, float]:
        return {}

    def encoded_rows(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(self.encoded[places])

    @property
    def points(self) -> np.ndarray:
        return np.asarray(self.model.expansion_.points)

    def nearest_points(self) -> np.ndarray:
        # |phi(x) - phi(s)|^2 is smallest where 2 k(x, s) - k(s, s) is largest
        kernel, rows = self.model.expansion_.kernel, self.encoded_rows(self.some_rows(ROWS_A_POINT * len(self.points)))
        return np.asarray(np.argmax(2 * kernel(rows, self.points) - kernel.diagonal(self.points), axis=1))


def texts_of(objects: np.ndarray, show: Callable[[Any], str] | None) -> np.ndarray:
    """Objects (n, 1) as texts (n,) that fit a cell."""
    write = str if show is None else show
    return np.array([shortened(str(write(one))) for one in objects[:, 0]], dtype=object)


def reader_of_objects(show: Callable[[Any], str] | None) -> ColumnReader:
    """The reader for rows that are objects."""
    return ColumnReader([COLUMN], ["class"], [np.array([0])], [lambda objects: texts_of(objects, show)])
