"""Options that mean nothing beside the others given: said by a warning, never passed over."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import warn
from ..kernels import is_function, kernel_of

CENTRES = ("optimized", "kmeans")  # rules whose points need not be rows


def idle_options(model: Any, rule_name: str) -> dict[str, str]:
    """Names of options of a SparseKernelPCA that were given and have no effect, each with the reason.

    `rule_name` is the rule that runs, which for "optimized" depends on the kernel.
    """
    kernel, by_rule = kernel_of(model.kernel), isinstance(model.selection, str)
    found: dict[str, str] = {}
    if rule_name != "optimized":
        asked = model.selection if by_rule else f"a {rule_name} selection"
        found |= dict.fromkeys(("max_iter", "tol"), f"no points are moved with selection={asked!r} under this kernel")
    if not by_rule or kernel.rows_only or model.selection not in CENTRES:
        found["frozen_columns"] = "no points are moved, and none are centres"
    if model.n_components is not None:  # else it says how many components
        if not by_rule:
            found["variance"] = "selection gives the points"
        elif model.max_residual is not None:
            found["variance"] = f"max_residual={model.max_residual} says how many points"
        elif model.n_support != "auto":
            found["variance"] = f"n_support={model.n_support} says how many points"
    if model.max_evaluations is not None and (not by_rule or not kernel.costly or kernel.differentiable):
        found["max_evaluations"] = "it is for a kernel that is a function, and for points that are rows, by a rule"
    if kernel.precomputed or is_function(model.kernel):
        found |= dict.fromkeys(("gamma", "degree", "coef0"), "the kernel's values are given, by a gram or a function")
    defaults = {field.name: field.default for field in dataclasses.fields(model)}
    return {name: why for name, why in found.items() if _given(getattr(model, name), defaults[name])}


def warn_of_idle_options(model: Any, rule_name: str) -> None:
    """Say of each option that has no effect why that is."""
    for name, why in idle_options(model, rule_name).items():
        warn(f"{name}={getattr(model, name)!r} has no effect: {why}")


def _given(value: Any, default: Any) -> bool:
    if value is None or default is None:
        return value is not default
    return bool(value != default)
