"""One way to warn: the message points at the user's own line, however deep in the library it is found."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import sklearn

# Frames of these packages are not the user's: ours, and scikit-learn's pipelines, searches and decorators around us.
_NOT_THE_USER = tuple(f"{Path(str(module)).parent}/" for module in (__file__, sklearn.__file__))


class KernelWarning(UserWarning):
    """The kernel, as it is set, fits these data badly."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost frame that is neither this library's nor scikit-learn's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)
