"""Targeted rows: those that explain most of the targets, exact kernel PCA's scores.

They are the rows that the greedy loop (solvers/greedy.py) would choose one by one, but chosen in blocks, by matrix
products.  The rows i_1 .. i_b of a block are eliminated from the residual kernel R = K - F F' together: with the
Cholesky factor L of their residual gram,

    C = R_.i L'^-1,      F <- [F, C],      diag R <- diag R - sum_k C_.k^2,      T <- T - C (L^-1 T_i)

The first rows are taken one by one.  Rows of a later block are chosen among candidates: the rows with the best scores
at its beginning.  Only the scores of candidates are updated within the block, so the block ends when another row might
be better.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import scipy.linalg
import scipy.sparse

from ..arrays import Array, is_torch, to_numpy
from ..fit.rowset import RowSet
from ..solvers.greedy import Gram, Residual, StoredGram, best_for_targets, choose, eliminate, start, swap
from ..spectrum.cuda_graphs import repeat
from ..spectrum.whitening import RANK_TOLERANCE
from ..threads import ordered_map, row_ranges

BLOCK_ROWS = 2048  # rows updated at a time, so that their kernel values and residuals stay in the cache
# This many rows are taken one by one, however many are wanted, so that shorter choices are prefixes of longer ones.
ONE_BY_ONE = 128
AT_ONCE, CANDIDATES = 16, 128  # rows in each later block, and candidates for them
# Limits on the swaps after the targeted choice: on their number, and on their number times m^2, because a swap costs
# O(n m^2).
MAX_SWAPS, SWAP_WORK = 10, 4_900


def eliminate_together(gram: Gram, state: Residual, accepted: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Eliminate the accepted rows from the residual together, and return tr R after each of them.

    All rows' residuals are updated, one block of rows after the other.
    """
    k, count = len(state.chosen), len(accepted)
    columns, known, left = gram.bind(accepted), state.filled, state.filled[accepted].T
    targets = state.targets
    if targets is not None and state.target_coef is not None:
        state.target_coef[k : k + count] = scipy.linalg.solve_triangular(factor, targets[accepted], lower=True)

    def eliminate(block: slice) -> np.ndarray:
        residual = columns(block) - known[block] @ left
        new = scipy.linalg.solve_triangular(factor, residual.T, lower=True, check_finite=False)
        state.factor[block, k : k + count] = new.T
        if targets is not None and state.target_coef is not None:
            targets[block] -= new.T @ state.target_coef[k : k + count]
        new *= new
        state.diagonal[block] -= new.sum(axis=0)
        return new.sum(axis=1)

    before = float(state.diagonal.sum())
    parts = ordered_map(eliminate, row_ranges(len(state.diagonal), BLOCK_ROWS), gram.n_threads)
    explained = np.cumsum(sum(parts, np.zeros(count)))
    state.diagonal[accepted] = 0.0
    state.chosen.extend(int(j) for j in accepted)
    return np.maximum(before - explained, 0.0)


def targeted_choice(gram: Gram, targets: np.ndarray, n_rows: int, noise: float = 0.0) -> Residual:
    """Up to `n_rows` rows, argmax |T_i|^2 / R_ii each; fewer once all other residuals are rounding."""
    state = start(gram.diagonal, n_rows, targets=targets, noise=noise)
    total = float(state.diagonal.sum())
    choose(state, gram.column, min(n_rows, ONE_BY_ONE), best_for_targets)
    while len(state.chosen) < n_rows:
        eligible = np.flatnonzero(state.diagonal > state.floor)
        if not eligible.size:
            break
        rows, factor = _leading(gram, state, eligible, min(AT_ONCE, n_rows - len(state.chosen)))
        state.unexplained.extend(eliminate_together(gram, state, rows, factor) / total)
    return state


def targeted_on_device(gram: Array, targets: Array, n_rows: int, noise: float = 0.0) -> np.ndarray:
    """The targeted choice on a torch device, row by row, without waiting for the device until the end.

    F' and the targets' coefficients form one matrix W, to which a chosen row j adds the row
    ([K, T]_j - W_.j'W) / R_jj^.5.  Kernel values are scaled so that the largest k(x, x) is 1.  Then the tolerance for
    explained rows is a constant, which can be part of a recording (spectrum/cuda_graphs.py).
    """
    import torch

    n, whole = gram.shape[0], torch.cat([gram, targets], dim=1).double()
    whole /= whole.diagonal().max()
    diagonal, left = whole.diagonal().clone(), whole[:, n:].clone()
    taken, best_scores = whole.new_zeros((n_rows, whole.shape[1])), diagonal.new_empty(n_rows)
    k, chosen = (torch.zeros(count, dtype=torch.int64, device=whole.device) for count in (1, n_rows))
    floor = max(RANK_TOLERANCE, noise)
    take_best = partial(_take_best, floor)
    repeat(("targeted", floor), take_best, n_rows, whole, diagonal, left, taken, best_scores, chosen, k)
    found, scores = to_numpy(chosen), to_numpy(best_scores)
    # keep the rows before the first one without a positive score
    return found[: int(np.argmin(scores > 0)) if not np.all(scores > 0) else n_rows]


def _take_best(
    floor: float, whole: Array, diagonal: Array, left: Array, taken: Array, best_scores: Array, chosen: Array, k: Array
) -> None:
    """Take the best row as the k-th choice; every array except `whole` is updated in place."""
    import torch

    n = whole.shape[0]
    unexplained = torch.nn.functional.threshold(diagonal, floor, math.inf)
    score, row = (torch.linalg.vecdot(left, left) / unexplained).max(dim=0, keepdim=True)
    of_row = taken.index_select(1, row)[:, 0]
    residual = torch.addmv(whole.index_select(0, row)[0], taken.T, of_row, alpha=-1.0)
    new = residual * diagonal.index_select(0, row).rsqrt()
    taken.index_copy_(0, k, new[None])
    diagonal.addcmul_(new[:n], new[:n], value=-1.0)  # for the row itself, the result is zero up to rounding
    left.addr_(new[:n], new[n:], alpha=-1.0)
    chosen.index_copy_(0, k, row)
    best_scores.index_copy_(0, k, score)
    k.add_(1)


def _leading(gram: Gram, state: Residual, eligible: np.ndarray, n_wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """The next block of rows, at most `n_wanted`, and the Cholesky factor of their residual gram."""
    assert state.targets is not None
    scores = np.einsum("ij,ij->i", state.targets, state.targets)[eligible] / state.diagonal[eligible]
    order = np.argsort(-scores, kind="stable")
    of_others = scores[order[CANDIDATES]] if len(order) > CANDIDATES else 0.0
    candidates = eligible[order[:CANDIDATES]]
    left, targets, diagonal = state.filled[candidates], state.targets[candidates], state.diagonal[candidates]
    residual = gram.among(candidates) - left @ left.T
    taken, factor = _best_among(residual, targets, diagonal, state.floor, of_others, n_wanted)
    return candidates[taken], factor


def _best_among(
    residual: np.ndarray, targets: np.ndarray, diagonal: np.ndarray, floor: float, of_others: float, n_wanted: int
) -> tuple[list[int], np.ndarray]:
    """The best candidates, and the Cholesky factor of their residual gram.

    Candidates are taken one by one, until none has a score above `of_others`, the best score of any other row.
    """
    targets, diagonal = targets.copy(), diagonal.copy()
    factor = np.zeros((len(diagonal), n_wanted))
    taken: list[int] = []
    for k in range(n_wanted):
        lengths = np.einsum("ij,ij->i", targets, targets)
        scores = np.where(diagonal > floor, lengths / np.maximum(diagonal, floor), -1.0)
        i = int(scores.argmax())
        if (taken and scores[i] < of_others) or diagonal[i] <= floor:
            break
        pivot = np.sqrt(diagonal[i])
        c = (residual[:, i] - factor[:, :k] @ factor[i, :k]) / pivot
        targets -= c[:, None] * (targets[i] / pivot)
        diagonal -= c * c
        diagonal[i] = 0.0
        factor[:, k] = c
        taken.append(i)
    return taken, np.tril(factor[taken, : len(taken)])


def targeted_rows(rows: RowSet, n_rows: int, features: np.ndarray | None = None) -> np.ndarray:
    """Places of the rows that the targeted rule chooses in a row set.

    `features` are the rows' whitened features over points that have been chosen already.  If the rounding of a float32
    gram ends the choice before there are enough rows, it is repeated with the gram in float64.
    """
    count = min(n_rows, rows.size)
    n_swaps = min(MAX_SWAPS, SWAP_WORK // max(1, n_rows) ** 2)
    if features is None and not n_swaps and is_torch(rows.gram):
        found = targeted_on_device(rows.gram, rows.targets, count, rows.rounding)
    else:
        found = _targeted_on_host(rows, count, n_swaps, features)
    if len(found) < count and rows.rounding:
        return targeted_rows(rows.in_float64, n_rows, features)
    return found


def _targeted_on_host(rows: RowSet, count: int, n_swaps: int, features: np.ndarray | None) -> np.ndarray:
    gram, targets = rows.gram_on_host, to_numpy(rows.targets)
    if features is None:
        state = targeted_choice(StoredGram(gram, rows.n_threads), targets, count, rows.rounding)
        swap(state, lambda j: gram[:, j], n_swaps)
    else:
        targets = targets - features @ (features.T @ to_numpy(rows.exact.row_coef))
        state = eliminate(
            lambda j: gram[:, j],
            np.diagonal(gram),
            count,
            best_for_targets,
            targets=targets,
            explained=features,
            noise=rows.rounding,
        )
    return np.asarray(state.chosen, dtype=np.intp)
