"""The few array operations that the array-API standard lacks or leaves slow.

Numerical code takes its functions from `namespace(x)`, so that the same code runs on numpy, torch and cupy.  This file
has what a namespace does not offer: an exponential in place, the largest eigenvalues, triangular solves.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
import scipy.linalg
import scipy.sparse

Array: TypeAlias = Any  # an array of any namespace, or (where said) a scipy.sparse row matrix

FLOATS = [np.float64, np.float32]  # dtypes that rows may keep; any other dtype is converted to float64
ALL_EIGENVECTORS = 64  # for matrices of up to this size, all eigenvectors are computed as quickly as a few

_POTRF = {"d": scipy.linalg.lapack.dpotrf, "f": scipy.linalg.lapack.spotrf}
_TRTRS = {"d": scipy.linalg.lapack.dtrtrs, "f": scipy.linalg.lapack.strtrs}

TINY = float(np.finfo(np.float64).tiny)  # replaces a divisor that may be zero

# The namespace of each array type that has been met, because finding it takes longer than many array operations.
_NAMESPACES: dict[type, Any] = {}


def namespace(*arrays: Array) -> Any:
    """The array namespace of `arrays`; numpy for scipy.sparse, whose products are numpy arrays."""
    if all(type(a) is np.ndarray for a in arrays):  # the usual case, which occurs thousands of times in a fit
        return numpy_namespace
    if arrays and type(arrays[0]) in _NAMESPACES and all(type(a) is type(arrays[0]) for a in arrays):
        return _NAMESPACES[type(arrays[0])]
    dense = [a for a in arrays if a is not None and not scipy.sparse.issparse(a)]
    if not dense:
        return numpy_namespace
    found = array_api_compat.array_namespace(*dense)
    if is_torch(dense[0]) or array_api_compat.is_cupy_array(dense[0]):
        _NAMESPACES[type(dense[0])] = found
    return found


def is_numpy(x: Array) -> bool:
    """Whether `x` is a plain numpy array (memmaps included)."""
    return isinstance(x, np.ndarray)


def is_torch(x: Any) -> bool:
    """Whether `x` is a torch tensor."""
    return bool(array_api_compat.is_torch_array(x))


def is_accelerated(x: Any) -> bool:
    """Whether `x` is a torch tensor on an accelerator, which processes larger blocks of rows in hardly more time."""
    return is_torch(x) and x.device.type != "cpu"


def is_foreign(x: Any) -> bool:
    """Whether `x` is an array of a library other than numpy (torch, cupy), which is processed on its own device."""
    if isinstance(x, np.ndarray) or scipy.sparse.issparse(x) or array_api_compat.is_dask_array(x):
        return False
    return bool(array_api_compat.is_array_api_obj(x))


def itemsize(x: Array) -> int:
    """Bytes of one element, 4 or 8, in any namespace."""
    if isinstance(x, np.ndarray):  # composing the name of a dtype takes longer than many array operations
        return 4 if x.dtype.itemsize == 4 else 8
    return 4 if "32" in str(x.dtype) else 8


def to_numpy(x: Array) -> np.ndarray:
    """A numpy array with the values of `x`, copied from the device only if necessary."""
    if isinstance(x, np.ndarray):
        return x
    if is_torch(x):
        return np.asarray(x.detach().cpu())
    if array_api_compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x)


def on_host(x: Any) -> Any:
    """Arrays of other libraries, and lists of them, as numpy arrays of the same dtype; anything else unchanged."""
    if isinstance(x, list) and x and is_foreign(x[0]):
        return [on_host(one) for one in x]
    return to_numpy(x) if is_foreign(x) else x


def like(values: Array, example: Array, dtype: Any = None) -> Array:
    """`values` as an array of the namespace, device and (unless given) dtype of `example`."""
    if type(values) is np.ndarray and type(example) is np.ndarray:  # usual, hundreds of times in a fit
        if example.dtype == object:  # objects are not converted; kernel values between them are float64
            return values if values.dtype == object else as_float64(values)
        return values.astype(example.dtype if dtype is None else dtype, copy=False)
    xp = namespace(example)
    if scipy.sparse.issparse(example):
        return np.asarray(values, dtype=dtype or example.dtype)
    device = array_api_compat.device(example)
    dtype = example.dtype if dtype is None else dtype
    if array_api_compat.is_array_api_obj(values) and namespace(values) is xp:
        values = xp.astype(values, dtype, copy=False)
        return values if array_api_compat.device(values) == device else array_api_compat.to_device(values, device)
    values = to_numpy(values)
    if min(values.strides, default=0) < 0:  # torch does not accept views with negative strides
        values = values.copy()
    return xp.asarray(values, dtype=dtype, device=device)


def number_dtype(rows: Array) -> Any:
    """The dtype of numbers that are computed from rows: that of the rows, or float64 if the rows are objects."""
    return np.dtype(np.float64) if rows.dtype == object else rows.dtype


def float64_like(values: Array, example: Array) -> Array:
    """`values` in float64, in the namespace and on the device of `example`."""
    if isinstance(example, np.ndarray) or scipy.sparse.issparse(example):
        return to_numpy(values).astype(np.float64, copy=False)
    return like(values, example, namespace(example).float64)


def as_float64(x: Array) -> Array:
    """`x` in float64; `x` itself if it is float64 already, or holds objects."""
    if isinstance(x, np.ndarray) or scipy.sparse.issparse(x):
        return x if x.dtype == object else x.astype(np.float64, copy=False)
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def exp_in_place(x: Array) -> Array:
    """exp(x), overwriting x if the library can, because allocating a block takes as long as the exponential itself."""
    if isinstance(x, np.ndarray) or array_api_compat.is_cupy_array(x):
        return namespace(x).exp(x, out=x)
    if is_torch(x):
        return x.exp_()
    return namespace(x).exp(x)


def exp_at_most_one(x: Array) -> Array:
    """exp(min(x, 0)), overwriting x if the library can; on a CUDA device in one pass, which leaves x as it is."""
    if is_torch(x) and x.device.type == "cuda" and (fused := _fused_exp(x.device)) is not None:
        return fused(x)
    return exp_in_place(at_most_zero(x))


@cache
def _fused_exp(device: Any) -> Any:
    """exp(min(x, 0)) compiled by torch for CUDA, which reads and writes x once; None if torch cannot compile it."""
    try:
        import torch

        code = "template <typename T> T exp_at_most_one(T x) { return exp(x > T(0) ? T(0) : x); }"
        compiled = torch.cuda.jiterator._create_jit_fn(code)
        compiled(torch.zeros(1, dtype=torch.float64, device=device))
    except (AttributeError, RuntimeError):
        return None
    return compiled


def has_fast_float64(x: Array) -> bool:
    """Whether x is on a CUDA device that multiplies float64 matrices half as fast as float32 ones, or faster.

    These are NVIDIA's devices for data centres, of compute capability 6.0, 7.0, 8.0, 9.0 and 10.0.  Others are 32 or 64
    times slower in float64 than in float32.
    """
    if not (is_torch(x) and x.device.type == "cuda"):
        return False
    import torch

    major, minor = torch.cuda.get_device_capability(x.device)
    return minor == 0 and 6 <= major <= 10 and torch.version.hip is None


def at_most_zero(x: Array) -> Array:
    """min(x, 0), overwriting x if the library can."""
    if isinstance(x, np.ndarray) or array_api_compat.is_cupy_array(x):
        return namespace(x).minimum(x, 0.0, out=x)
    if is_torch(x):
        return x.clamp_(max=0.0)
    xp = namespace(x)
    return xp.minimum(x, xp.zeros_like(x))


def product(a: Array, b: Array) -> Array:
    """a @ b for arrays of different precision: numpy computes in the higher one, other libraries in that of a."""
    return a @ (b if is_numpy(a) else like(b, a))


def row_dot(x: Array, y: Array) -> Array:
    """sum_j x_ij y_ij for every row i; sparse rows allowed for both."""
    if scipy.sparse.issparse(x):
        return np.asarray(x.multiply(y).sum(axis=1)).ravel()
    if is_torch(x):
        import torch

        return torch.linalg.vecdot(x, y)
    return namespace(x, y).vecdot(x, y)


def origin_of(rows: Array) -> Array:
    """An origin c, (d,) and dense, to subtract from rows if only their differences count.

    It is the mean of the rows or the shortest row, whichever is shorter.  Since c is no longer than any row x,
    |x - c| <= 2 |x|, and no row loses digits.  The mean alone would not do: one row far away can move it anywhere.
    """
    sparse = scipy.sparse.issparse(rows)
    xp = np if sparse else namespace(rows)
    with np.errstate(over="ignore"):
        place = int(xp.argmin(row_dot(rows, rows)))
    row = rows[place : place + 1, :]
    row = row.toarray().ravel() if sparse else row[0, :]
    mean = np.asarray(rows.mean(axis=0), dtype=row.dtype).ravel() if sparse else xp.mean(rows, axis=0)
    return mean if inner(mean, mean) < inner(row, row) else row


def inner(x: Array, y: Array) -> float:
    """sum_ij x_ij y_ij."""
    if isinstance(x, np.ndarray):
        return float(np.vdot(x, y))
    return float(namespace(x, y).sum(x * y))


def numbers(*values: Array) -> tuple[float, ...]:
    """Scalars of any array library as floats; they are copied from a device in one transfer."""
    if is_torch(values[0]):
        return tuple(namespace(values[0]).stack(list(values)).tolist())
    return tuple(float(value) for value in values)


def canonical(x: Array) -> Array:
    """Sparse rows with sorted, unique entries; in a copy, because scikit-learn would sort the user's own matrix."""
    if not scipy.sparse.issparse(x) or x.has_canonical_format:
        return x
    x = x.copy()
    x.sum_duplicates()
    return x


def take_rows(x: Array, rows: Array) -> Array:
    """The given rows of a dense or sparse matrix."""
    if isinstance(x, np.ndarray) or scipy.sparse.issparse(x):
        return x[to_numpy(rows)]
    return namespace(x).take(x, like(rows, x, namespace(x).int64), axis=0)


def take_columns(x: Array, columns: Array) -> Array:
    """The given columns of a dense matrix."""
    if isinstance(x, np.ndarray):
        return x[:, to_numpy(columns)]
    return namespace(x).take(x, like(columns, x, namespace(x).int64), axis=1)


def add_to_diagonal(a: Array, value: float) -> Array:
    """a + value I, for a square matrix."""
    if isinstance(a, np.ndarray):  # without the matrix I, which takes longer than a small factorisation
        a = a.copy()
        a.flat[:: a.shape[0] + 1] += value
        return a
    xp = namespace(a)
    return a + value * xp.eye(a.shape[0], dtype=a.dtype, device=array_api_compat.device(a))


def top_eigh(a: Array, n_top: int | None = None) -> tuple[Array, Array]:
    """The `n_top` largest eigenvalues, descending, and their unit eigenvectors (as columns)."""
    n = a.shape[0]
    n_top = n if n_top is None else min(n_top, n)
    if isinstance(a, np.ndarray):
        if n <= ALL_EIGENVECTORS or 6 * n_top >= n:  # a sixth of the eigenvectors costs as much as all of them
            values, vectors = np.linalg.eigh(a)
        else:
            values, vectors = scipy.linalg.eigh(a, subset_by_index=(n - n_top, n - 1), check_finite=False)
            if len(values) < n_top:  # asked for a subset, LAPACK may miss some of a cluster of equal eigenvalues
                values, vectors = np.linalg.eigh(a)
        return values[::-1][:n_top], vectors[:, ::-1][:, :n_top]
    xp = namespace(a)
    values, vectors = xp.linalg.eigh(a)
    return xp.flip(values)[:n_top], xp.flip(vectors, axis=1)[:, :n_top]


def arpack_restarts(n_rows: int, n_top: int) -> int:
    """The number of restarts after which ARPACK has cost as much as a dense eigendecomposition, but at least 20.

    A dense decomposition costs about as much as 2 n_rows / 3 products of the matrix and a vector; a restart takes one
    product for every vector that ARPACK keeps beyond those wanted.  The limit is needed because ARPACK would restart
    ten times for every row if eigenvalues differ by hardly more than rounding.  20 restarts cost next to nothing.
    """
    n_vectors = max(2 * n_top + 1, 20)  # scipy's default
    return max(20, int(2 / 3 * n_rows / (n_vectors - n_top)))


def cholesky(a: Array) -> Array | None:
    """The lower Cholesky factor, or None if `a` is not positive definite."""
    try:
        if isinstance(a, np.ndarray):
            # LAPACK is called directly: scipy's checks take longer than factorising a 20 x 20 matrix
            factor, info = _POTRF[a.dtype.char](a, lower=True, clean=True)
            return factor if info == 0 else None
        return namespace(a).linalg.cholesky(a)
    except (np.linalg.LinAlgError, ValueError, RuntimeError):
        return None


def solve_lower(factor: Array, b: Array, *, transpose: bool = False) -> Array:
    """factor^-1 b, or factor'^-1 b, for a lower triangular factor."""
    if isinstance(factor, np.ndarray):
        b = b.astype(factor.dtype, copy=False)
        return _TRTRS[factor.dtype.char](factor, b, lower=True, trans=int(transpose))[0]
    if is_torch(factor):
        import torch

        left = factor.mT if transpose else factor
        return torch.linalg.solve_triangular(left, b, upper=transpose)
    return namespace(factor).linalg.solve(factor.mT if transpose else factor, b)


def unchecked_cholesky(a: Array, ridge: float) -> tuple[Array, Array]:
    """The lower Cholesky factor of a + ridge mean|diag a| I, for torch tensors, and a number that is 0 if it succeeded.

    The host does not wait for the device: the caller looks at the number later.
    """
    import torch

    shifted = a.clone()
    diagonal = shifted.diagonal()
    diagonal += ridge * diagonal.abs().mean()
    factor, failed = torch.linalg.cholesky_ex(shifted)
    return factor, failed


def solve_factored(factor: Array, b: Array) -> Array:
    """(L L')^-1 b for a lower triangular L."""
    return solve_lower(factor, solve_lower(factor, b), transpose=True)


def scrambled(numbers: np.ndarray, seed: int) -> np.ndarray:
    """A pseudorandom number for each integer, which depends on that integer and the seed alone (splitmix64)."""
    with np.errstate(over="ignore"):
        key = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(key ^ (key >> np.uint64(31)))
