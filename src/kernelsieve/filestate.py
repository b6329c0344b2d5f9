"""What a model file must hold, asked of the model itself.

A class says in `_file_layout` what `fit` leaves in it: a name, and what may stand there in a few words,

    "float"  "int"  "bool"  "str"       one value; numbers are finite
    "float[m, M]"  "int[m]"             an array of that shape; "rows[m, d]" may be sparse, "strings[d]" holds names
    "float[*]"                          of any length
    "int=d"                             a number that is a size: every "d" of the layout must be it
    "KernelExpansion[m, p, M]"          a record, with the sizes that its own layout goes by
    "list"  "dict"                      plain data
    "float[M]~"                         NaN and infinity may be in it
    "RidgeMap[M, d]?"                   or None
    "... optional"                      may be absent
    "KernelCenterer[m] | Uncentered"    either

Sizes named m, d and M mean the same throughout; layouts of base classes are added up.  A public attribute of plain
data that no layout names is kept too; what is private must be named.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

# What scikit-learn hangs on an estimator that is no part of the model.
NOT_STATE = ("_skl_", "_callback", "_parent_callback", "_metadata_request")


class FileState:
    """What `kernelsieve.io` asks of every class that it can save."""

    # what `set_output` asked for is the one thing that scikit-learn hangs on an estimator and that is kept
    _file_layout: ClassVar[dict[str, str]] = {"_sklearn_output_config": "output optional"}

    def _file_state(self) -> dict[str, Any]:
        """All that `fit` left: what the file must hold besides the constructor's parameters."""
        params = self.get_params(deep=False)  # type: ignore[attr-defined]
        names = sorted(set(vars(self)) - set(params))
        return {name: vars(self)[name] for name in names if not name.startswith(NOT_STATE)}

    @classmethod
    def _from_file_state(cls, params: dict[str, Any], state: dict[str, Any]) -> Self:
        """The model that was saved; `state` has been checked against the layout."""
        model = cls(**params)
        vars(model).update(state)
        return model


def layout_of(cls: type) -> dict[str, str]:
    """The layout of a class, those of its bases included."""
    merged: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        merged |= vars(base).get("_file_layout", {})
    return merged
