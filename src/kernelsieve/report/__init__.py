"""One page that shows what a model found in a table: `kernelsieve.report(model, X).save("report.html")`.

The page is a file that needs nothing else: the chart library, the data of up to 5,000 rows and the scripts are in it.

    model_view                  the model on the rows, and the way from encoded columns back to raw ones
    choices, sensitivity, outliers, code                     what is computed, a section each
    page_data, contents         all of it as data that a page can hold
    page, assets/               the page
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .page import Report, report

__all__ = ["Report", "report"]


class _CallableModule(ModuleType):
    """Makes this package callable: importing any of its modules sets `kernelsieve.report` to the package, and calling
    it must still be the `report` function."""

    def __call__(self, *arguments: Any, **options: Any) -> Report:
        return report(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
