"""One page that shows what a model found in a table: `kernelsieve.report(model, X).save("report.html")`.

The page is a file that needs nothing else: the chart library, the data of up to 5,000 rows and the scripts are in it.

    frames, subject, reading    the table, the model, and the way between raw and encoded columns
    amount, widths, meaning, odd, points, recipe      what is computed, a section each
    packing, contents           the same as data that a page can hold
    library, page, assets/      the page
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .page import Report, report

__all__ = ["Report", "report"]


class _CallableModule(ModuleType):
    """`kernelsieve.report` is this package as soon as one of its modules is imported, and stays the function it is."""

    def __call__(self, *arguments: Any, **options: Any) -> Report:
        return report(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
