"""What the components mean: the columns that each listens to, and what changes along it.

sensitivity   root mean square gradient of a score, times the column's spread; the encoded columns of one raw
              column count together
traversal     rows that stand for positions along one component, all other scores at their mean: pre-images, read
              back in the units of the raw columns
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .reading import Reader
from .subject import Subject, quietly

GRADIENT_ROWS = 300  # the root mean square is then known to a few percent
N_STEPS = 7  # of a traversal, an odd number: the middle is the mean
MAX_TRAVERSED = 10  # components


def sensitivity(subject: Subject, reader: Reader) -> np.ndarray | None:
    """How far one standard deviation of a column moves each score, (M, n_columns); None without derivatives."""
    rows = subject.encoded_rows(subject.some_rows(GRADIENT_ROWS))
    try:
        with quietly():
            encoded = np.asarray(subject.model.sensitivity(rows))
    except (TypeError, AttributeError):  # a callable kernel
        return None
    return np.sqrt(reader.by_column(encoded**2))


@dataclass(frozen=True)
class Walk:
    """Rows along one component, as people read them."""

    positions: np.ndarray  # (n_steps,) scores
    rows: np.ndarray  # (n_steps, n_encoded)
    moved: np.ndarray  # (n_columns,) how far each column goes, in its spreads
    values: list[np.ndarray]  # for each column


def walks(subject: Subject, reader: Reader) -> list[Walk]:
    """One along each of the leading components; none where the kernel has no pre-images."""
    spread = np.sqrt(reader.by_column(np.var(subject.sample, axis=0)))
    found = []
    for component in range(min(subject.n_components, MAX_TRAVERSED)):
        try:
            with quietly():
                along = subject.model.traversal(component, n_steps=N_STEPS)
        except (ValueError, TypeError, AttributeError):
            return []
        if not np.isfinite(along.rows).all():
            return []
        ranges = np.sqrt(reader.by_column(np.ptp(along.rows, axis=0) ** 2))
        moved = np.divide(ranges, spread, out=np.zeros_like(ranges), where=spread > 0)
        found.append(Walk(along.scores, along.rows, moved, reader.read(along.rows)))
    return found
