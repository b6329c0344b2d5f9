"""Fitted models write themselves to a file."""

from __future__ import annotations

from os import PathLike


class SavesItself:
    """`save`, for everything that `kernelsieve.load` reads back."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file, atomically: arrays and JSON, no pickle.

        Parameters
        ----------
        path : path of the file; `kernelsieve.load` reads it back
        """
        from ..io import save

        save(self, path)
