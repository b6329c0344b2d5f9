"""Published rules of online kernel PCA: one row at a time, given by its kernel values with the points kept so far.

A rule receives k(D, x) and k(x, x), says how the points change, and gives coefficients over them on request:

    step(cross, length, weight) -> Change       the row enters or does not; some points, then, leave
    solution() -> RuleSolution                      coefficients (m, M) of the components and (m,) of the mean

It never sees the rows.  `state`, a few arrays and numbers, is all of a rule, which can be rebuilt from it.  For
kernels that are not positive semi-definite, `Independent` only chooses points and leaves the components to the caller.
"""

from __future__ import annotations

from .base import Change, OnlineChooser, Rule, RuleSolution, Settings
from .incremental import Incremental
from .independent import Independent
from .sanger import Coherence, Hebbian
from .subset import Subset

__all__ = ["RULES", "Change", "Independent", "OnlineChooser", "Rule", "RuleSolution", "Settings"]

RULES: dict[str, type[Rule]] = {
    "coherence": Coherence,
    "hebbian": Hebbian,
    "subset": Subset,
    "incremental": Incremental,
}
