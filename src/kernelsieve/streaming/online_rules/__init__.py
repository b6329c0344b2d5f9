"""Published rules of online kernel PCA: one row at a time, from its kernel values with the points that are kept.

A rule is fed k(D, x) and k(x, x), says what becomes of the points, and gives coefficients over them when asked:

    step(cross, length, weight) -> Change       the row enters or does not; some points, then, leave
    solution() -> RuleSolution                      coefficients (m, M) of the components and (m,) of the mean

It never sees the rows.  What `state` gives, arrays and numbers, is the whole of a rule, and makes it again.  Where a
kernel is not positive semi-definite, `Independent` chooses points and leaves the components to others.
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
