"""The Krylov space of spectrum.py on a device: all of its blocks in one line of operations that nobody waits for.

    q = [Q_1, ..., Q_k],      Q_1 = orth(B Y),      Q_i+1 = orth(B Q_i - q q'B Q_i)

Ritz values of fewer blocks are those of the leading part of q'B q, which the host looks through afterwards.  Blocks are
made orthonormal by Cholesky factors, twice; where a block depends on the others that fails, and is said.
"""

from __future__ import annotations

from ..arrays import Array, unlooked_cholesky
from .recorded import recorded

BLOCKS = 5  # at once: most spectra need three to five
ORTHONORMAL = 1e-9  # how far from it products of two unit vectors may be
ROUNDING = 1e-15  # added to the gram of unit vectors before it is divided by


def krylov_space(matrix: Array, block: Array) -> tuple[Array, Array] | None:
    """q (n, k p) and q'B q of a symmetric B and vectors (n, p) to start from; None where the blocks are dependent."""
    if BLOCKS * block.shape[1] > matrix.shape[0]:
        return None
    q, ritz, off = recorded("Krylov space", _space, matrix, block)
    return (q, ritz) if float(off) <= ORTHONORMAL else None


def _space(matrix: Array, block: Array) -> tuple[Array, ...]:
    """q, q'B q, and by how much q'q is off the identity."""
    import torch

    block = _orthonormal(matrix @ block)
    q, image = block, matrix @ block
    for _ in range(BLOCKS - 1):
        for _ in range(2):  # twice is enough
            image = image - q @ (q.T @ image)
        block = _orthonormal(image)
        q = torch.cat([q, block], dim=1)
        image = matrix @ block
    identity = torch.eye(q.shape[1], dtype=q.dtype, device=q.device)
    ritz = q.T @ (matrix @ q)
    return q, (ritz + ritz.T) / 2, (q.T @ q - identity).abs().max()


def _orthonormal(block: Array) -> Array:
    """A basis of the block's columns; something that is none, where they depend on one another."""
    import torch

    for _ in range(2):  # the first leaves what the block's condition costs, the second nothing of it
        block = block / torch.linalg.vector_norm(block, dim=0)
        factor, _ = unlooked_cholesky(block.T @ block, ROUNDING)
        block = torch.linalg.solve_triangular(factor, block.T, upper=False).T
    return block
