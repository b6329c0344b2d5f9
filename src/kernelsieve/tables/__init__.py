"""Tables: read from files, and turned into numbers that a kernel can compare."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encoder import TableEncoder
    from .files import read_table

__all__ = ["TableEncoder", "read_table"]


def __getattr__(name: str) -> Any:
    """Import the names on first use: the encoder needs scikit-learn, and the command line reads files without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import encoder, files

    return getattr(files if name == "read_table" else encoder, name)
