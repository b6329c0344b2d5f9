"""The top of a spectrum from a space that is nearly right already.

For A g = mu K g with the lower Cholesky factor L of K, and a guess Y (m, p) near the span of the top vectors,

    Rayleigh-Ritz over [Y, K^-1 A Y - Y (Y'A Y)]

squares the error of the guess.  A is applied twice, to p vectors each time: where A = K_SN K_NS that is
8 n m p operations against the 2 n m^2 of forming it and the m^3 of its eigendecomposition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import Array, like, namespace, solve_lower, to_numpy, top_eigh
from .spectrum import orthonormal, whiten

# What a step adds that is smaller than this, relative to the value, is rounding (of float32 products) and no direction.
NO_DIRECTION = 1e-5
# Directions of a basis that are closer than this to the others' span are dropped.
DEPENDENT = 1e-8


def refined(
    apply: Callable[[Array], Array], gram: Array, factor: Array, guess: Array, n_top: int
) -> tuple[Array, Array]:
    """(values, vectors) of the top `n_top` pairs, or as many as the guess has room for."""
    found = orthonormal(guess, gram)  # nearly: what Rayleigh and Ritz do below is exact
    if found is None:
        found = guess @ like(whiten(to_numpy(guess.T @ (gram @ guess)), DEPENDENT).matrix, guess)
    guess = found
    image, weighed = apply(guess), gram @ guess
    step = solve_lower(factor, solve_lower(factor, image), transpose=True) - guess @ (guess.T @ image)
    xp, step_weighed = namespace(step), gram @ step
    lengths = xp.sqrt(xp.abs(xp.sum(step * step_weighed, axis=0)))
    least = NO_DIRECTION * xp.max(xp.abs(xp.linalg.diagonal(guess.T @ image)))
    scale = xp.where(lengths > least, 1.0 / xp.maximum(lengths, least), xp.zeros_like(lengths))
    step, step_weighed = step * scale, step_weighed * scale
    basis = xp.concat([guess, step], axis=1)
    images = xp.concat([weighed, step_weighed, image, apply(step)], axis=1)
    # so small a problem is solved on the host: a device takes milliseconds for it
    metric, inner = np.split(to_numpy(basis.T @ images), 2, axis=1)
    mixing = whiten(metric, DEPENDENT).matrix
    inner = mixing.T @ inner @ mixing
    values, vectors = top_eigh((inner + inner.T) / 2, n_top)
    return like(values, basis), basis @ like(mixing @ vectors, basis)
