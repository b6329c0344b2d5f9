"""A page that shows what a model found in a table: `kernelsieve.report(model, X).save("report.html")`.

The page is one self-contained file: it holds the chart library, the data of up to 5,000 rows and the scripts.

    model_view                                the model and its rows; maps encoded columns back to the table's columns
    choices, sensitivity, outliers, code      compute the sections of the page
    page_data, contents                       collect all results in the form in which the page holds them
    page, assets/                             the page itself
    monitor_page                              the page of a monitor
    limits                                    the numbers that limit what a page shows and computes
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .page import Report, report

__all__ = ["Report", "report"]


class _CallableModule(ModuleType):
    """Makes this package callable, as the function `report` that it contains.

    Importing any of its modules sets the name `kernelsieve.report` to the package instead of the function, and
    `kernelsieve.report(model, X)` must work after that, too.
    """

    def __call__(self, *arguments: Any, **options: Any) -> Report:
        return report(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
