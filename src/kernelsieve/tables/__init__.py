"""Tables as people have them, made into numbers that a kernel can compare: `TableEncoder`."""

from .encoder import TableEncoder

__all__ = ["TableEncoder"]
