"""A plant that the tests of monitors share."""

import numpy as np

NAMES = ["flow", "level", "heat", "steam"]


def plant(n_rows, seed=0):
    """Sensors of two states."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(42).standard_normal((2, 4))
    return rng.standard_normal((n_rows, 2)) @ mixing + 0.2 * rng.standard_normal((n_rows, 4))
