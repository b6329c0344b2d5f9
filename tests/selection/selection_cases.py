"""Rules by name, for the tests of selection."""

from __future__ import annotations

import numpy as np
from oracles import gram_of

GREEDY_RULES = ["targeted", "gain", "improved", "skfa", "residual", "rpcholesky"]


ROW_RULES = [*GREEDY_RULES, "dissimilar", "farthest", "leverage", "uniform"]


def schur(gram, chosen, ridge=0.0):
    """K - K_.S (K_SS + ridge I)^-1 K_S."""
    if not len(chosen):
        return gram
    inner = gram[np.ix_(chosen, chosen)] + ridge * np.eye(len(chosen))
    return gram - gram[:, chosen] @ np.linalg.solve(inner, gram[chosen])


class Counter:
    """A Gaussian that counts the kernel values it gives."""

    def __init__(self):
        self.count = 0

    def __call__(self, X, Y):
        self.count += len(X) * len(Y)
        return gram_of("rbf", X, Y, gamma=0.3)

    def diag(self, X):
        return np.ones(len(X))
