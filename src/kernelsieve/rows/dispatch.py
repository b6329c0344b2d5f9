"""Rows of every kind enter here: the type of X is recognised, its values are checked, and it becomes `Rows`.

numpy, memmap, scipy.sparse, frames     one array, by scikit-learn's own checks
torch, cupy                             one array, on the device where it is
lists, for a kernel of objects          one array of objects
lists, functions, datasets, zarr        blocks, read again on every pass
dask                                    chunks, on the workers that hold them
numpy, frames or blocks, with device=   copied to the device block by block
dask, with device=                      each chunk copied to the device of its worker
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from ..arrays import FLOATS, Array, canonical, is_foreign, itemsize, namespace, on_host
from ..errors import ScaleError, quoted
from ..kernels import Kernel, ObjectKernel, kernel_of
from ..kernels.objects import objects_of, shown
from ..threads import CACHE_BYTES, effective_n_threads, one_blas_thread, ordered_map
from .checks import (
    NotFiniteError,
    check_gram,
    checked_weights,
    finite,
    finite_rows,
    naming_gaps,
    with_first_gap,
)
from .frames import OTHER, TEXT, block_of, collected, is_frame
from .kinds import check_like, object_rows
from .rows import ArrayRows, Rows
from .sources import SPARSE_CHUNKS, Stream, Watch, is_dask, stream_of
from .streams import MOST_AHEAD, StreamRows, same_columns


@dataclass(frozen=True)
class RowRules:
    """What an estimator requires of its rows."""

    estimator: Any  # `fit` stores the columns of X in it; the columns of all later rows are checked against these
    kernel: Kernel
    batch_size: int | None = None
    device: str | None = None
    n_jobs: int | None = None
    merge_copies: bool = True  # whether equal rows become one row with their summed weight

    @classmethod
    def of(cls, estimator: Any, kernel: Kernel | None = None, *, merge_copies: bool = True) -> RowRules:
        """The rules of an estimator; `kernel` is that of its fitted model, or None to use its `kernel` parameter."""
        batch_size, device, n_jobs = (getattr(estimator, name, None) for name in ("batch_size", "device", "n_jobs"))
        return cls(estimator, kernel or kernel_of(estimator.kernel), batch_size, device, n_jobs, merge_copies)

    @property
    def checks(self) -> dict[str, Any]:
        """Options of scikit-learn's checks; NaN and infinity are looked for later, while a block is in the cache."""
        return {
            "accept_sparse": "csr",
            "accept_large_sparse": self.kernel.metric != "manhattan",  # scikit-learn's L1 distances need 32-bit indices
            "dtype": FLOATS,
            "ensure_all_finite": False,
        }

    @property
    def columns(self) -> tuple[int, Any]:
        """The number of columns of a fitted estimator, and their names if it has any."""
        return self.estimator.n_features_in_, getattr(self.estimator, "feature_names_in_", None)


def rows_of(X: Any, rules: RowRules, sample_weight: Any = None) -> Rows:
    """Training rows, checked; stores the columns in the estimator if they are known before a pass over the rows."""
    merge = rules.merge_copies and not rules.kernel.rows_only
    if rules.kernel.of_objects:
        objects = _objects(X, rules, least=2)
        store_columns(rules.estimator, 1, None)
        return ArrayRows(objects, weights_of(objects, sample_weight), merge_copies=merge)
    plain = isinstance(X, np.ndarray)  # the usual case, which needs no test for dask and streams
    if not plain and is_dask(X):
        from .dask import DaskRows, on_devices

        _refuse_precomputed(rules)
        weights = _weights_before_a_pass(sample_weight)
        if rules.device is not None:
            return on_devices(X, weights, rules.device, merge_copies=merge)
        return DaskRows(X, weights, merge_copies=merge)
    stream = None if plain else stream_of(X, rules.batch_size)
    rows: Rows
    if stream is not None:
        _refuse_precomputed(rules)
        weights = _weights_before_a_pass(sample_weight)
        rows = StreamRows(stream, weights, merge_copies=merge, n_threads=effective_n_threads(rules.n_jobs))
    elif is_foreign(X):
        array = _foreign(X, rules)
        return ArrayRows(array, weights_of(array, sample_weight), merge_copies=merge)
    else:
        array = _array(X, rules)
        rows = ArrayRows(array, weights_of(array, sample_weight), merge_copies=merge)
    if rules.device is None:
        return rows
    from .device import DeviceRows, checked_device

    if rules.kernel.precomputed:
        raise ValueError("a precomputed kernel is read, not computed: give device=None")
    return DeviceRows(rows, checked_device(rules.device))


def ordered_rows(X: Any, rules: RowRules, *, fits: bool) -> Rows:
    """Rows of any kind that will be read in order, either for a fit (`fits`) or by a fitted estimator."""
    if fits:
        return rows_of(X, rules)
    if not rules.kernel.of_objects and is_dask(X):
        from .dask import DaskRows

        return DaskRows(X, None, least=1)
    stream = in_blocks(X, rules)
    if stream is None:
        return ArrayRows(new_rows(X, rules))
    return StreamRows(stream, n_threads=effective_n_threads(rules.n_jobs))


def in_blocks(X: Any, rules: RowRules) -> Stream | None:
    """X as a stream to be read once if X holds rows in blocks; otherwise None."""
    if rules.kernel.of_objects or isinstance(X, np.ndarray):
        return None
    return stream_of(X, rules.batch_size, once=True)


def watched(X: Any, rules: RowRules, watch: Watch, *, once: bool = False) -> Any:
    """X as a stream that reports the progress of every pass to `watch`, if X holds rows in blocks; else X unchanged."""
    if rules.kernel.of_objects or isinstance(X, np.ndarray) or is_dask(X):
        return X
    stream = stream_of(X, rules.batch_size, once=once)
    return X if stream is None else replace(stream, watch=watch)


def some_rows(X: Any, rules: RowRules, sample_weight: Any, *, first: bool) -> Iterator[ArrayRows]:
    """The next rows for `partial_fit`, checked, one block at a time; with `first`, they determine the columns."""
    stream = in_blocks(X, rules)
    if stream is None:
        yield _some_in_one(X, rules, sample_weight, first=first)
        return
    rows = StreamRows(stream, _weights_before_a_pass(sample_weight))
    with closing(rows.opened()) as blocks:
        for start, block in blocks:
            if first:
                store_columns(rules.estimator, rows.n_features, rows.names)
            same_columns(rows.n_features, rows.names, *rules.columns)
            weights = None if rows.weights is None else rows.weights[start : start + block.shape[0]]
            yield ArrayRows(on_host(finite_rows(block, start)), weights)


def _some_in_one(X: Any, rules: RowRules, sample_weight: Any, *, first: bool) -> ArrayRows:
    if rules.kernel.of_objects:
        objects = _objects(X, rules)
        store_columns(rules.estimator, 1, None)
        return ArrayRows(objects, weights_of(objects, sample_weight, least=0))
    plain = not first and _is_plain(X, *rules.columns)
    array = finite(X if plain else validate_rows(rules.estimator, X, reset=first, **rules.checks))
    return ArrayRows(array, weights_of(array, sample_weight, least=0))


def new_rows(X: Any, rules: RowRules) -> Array:
    """Rows for a fitted estimator, in one array, checked."""
    estimator = rules.estimator
    if rules.kernel.of_objects:
        return _objects(X, rules)
    if rules.kernel.precomputed:
        rows = _foreign_floats(X) if is_foreign(X) else check_array(X, **rules.checks)
        if rows.shape[1] not in (estimator.n_features_in_, estimator.n_support_):
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input: k(x, y) against every training row, or "
                f"{estimator.n_support_}, against the rows of support_ alone"
            )
        return rows
    if _is_plain(X, *rules.columns):
        return X
    if not is_foreign(X):
        return canonical(validate_rows(estimator, X, reset=False, **rules.checks))
    if X.ndim == 2 and X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input"
        )
    return _foreign_floats(X)


def _is_plain(X: Any, n_features: int, names: Any) -> bool:
    """Whether `validate_rows` would return X unchanged; it is then skipped, as it is slower than transforming a row."""
    if type(X) is not np.ndarray or X.ndim != 2 or names is not None:
        return False
    return X.dtype in FLOATS and X.dtype.isnative and X.shape[0] > 0 and X.shape[1] == n_features


def mapped(X: Any, rules: RowRules, function: Callable[[Array], Array], width: int) -> Any:
    """function(rows), `width` numbers for each row.

    The result is an array; for rows in blocks, an iterator over the results of the blocks; for a dask array, a lazy
    dask array.
    """
    if rules.kernel.of_objects:
        return function(_objects(X, rules))
    if is_dask(X):
        from .dask import lazily

        return lazily(function, X, width, rules.columns, rules.device)
    stream = in_blocks(X, rules)
    if stream is not None:
        return _mapped_blocks(stream, rules, function, width)
    with naming_gaps(X, rules.columns[1]):
        return _mapped_array(new_rows(X, rules), rules, function, width)


def _mapped_array(rows: Array, rules: RowRules, function: Callable[[Array], Array], width: int) -> Array:
    if rules.device is None or not isinstance(rows, np.ndarray):
        return function(rows)
    from .device import checked_device, on_device

    return on_device(function, rows, width, checked_device(rules.device))


def _mapped_blocks(stream: Stream, rules: RowRules, function: Callable[[Array], Array], width: int) -> Iterator[Array]:
    rows, n_threads = StreamRows(stream), effective_n_threads(rules.n_jobs)

    def values_of(numbered: tuple[int, Array]) -> Array:
        start, block = numbered
        same_columns(rows.n_features, rows.names, *rules.columns)
        try:
            return _mapped_array(block, rules, function, width)
        except (NotFiniteError, ScaleError):
            finite_rows(block, start)  # raises an error that also names the row
            raise

    one_by_one = n_threads == 1 or rules.device is not None or not stream.may_be_joined
    enough = 0 if one_by_one else n_threads * CACHE_BYTES  # work for all threads
    with closing(rows.opened(far=enough)) as blocks:
        for together in _blocks_at_hand(blocks, rows, width, enough):
            found: list[Array] = []
            problem: Exception | None = None
            try:
                with one_blas_thread():
                    found.extend(ordered_map(values_of, together, n_threads))
            except Exception as error:  # raised when its block is due, after the values of the blocks before it
                problem = error
            for values in found:
                yield rows.kind.given_back(values)
            if problem is not None:
                raise problem


def _blocks_at_hand(
    blocks: Iterator[tuple[int, Array]], rows: StreamRows, width: int, enough: int
) -> Iterator[list[tuple[int, Array]]]:
    """Neighbouring blocks to be processed at the same time, because one small block would keep few threads busy.

    No more are added once their values, and the rows that were read for them, have `enough` bytes.  Of blocks that are
    read, only those are taken together that need not be waited for, at most twice as many as the last time, so that
    little more is read than is asked for.  Blocks on a device are returned one by one.
    """
    found: list[tuple[int, Array]] = []
    n_bytes, most = 0, min(MOST_AHEAD, len(rows.stream.parts or [1]))
    try:
        for start, block in blocks:
            found.append((start, block))
            n_columns = width + (0 if rows.in_memory else int(block.shape[1]))
            n_bytes += int(block.shape[0]) * n_columns * itemsize(block)
            full = is_foreign(block) or n_bytes >= enough or len(found) >= most
            if full or not rows.at_hand():
                yield found
                found, n_bytes, most = [], 0, min(MOST_AHEAD, 2 * len(found))
    except Exception:
        if found:
            yield found
        raise
    if found:
        yield found


def _objects(X: Any, rules: RowRules, least: int = 1) -> Array:
    """X as rows of objects, for kernels of objects; `least` is the smallest number of rows allowed."""
    if rules.device is not None:
        raise ValueError("a kernel of objects is computed on the host: give device=None")
    rows, kernel = object_rows(X, least), rules.estimator.kernel
    if isinstance(kernel, ObjectKernel):
        kernel.check(objects_of(rows))
    if (fitted := getattr(rules.estimator, "expansion_", None)) is not None:
        check_like(rows, fitted.points)
    return rows


def _array(X: Any, rules: RowRules) -> Array:
    """Training rows on the host as one array, checked."""
    X = validate_rows(rules.estimator, X, ensure_min_samples=2, **rules.checks)
    if scipy.sparse.issparse(X):
        X = canonical(finite(X))
    if rules.kernel.precomputed:
        check_gram(X)
    return X


def _foreign(X: Array, rules: RowRules) -> Array:
    """Training rows of another array library, checked on the device where they are."""
    X = _foreign_floats(X, least=2)
    if rules.kernel.precomputed:
        check_gram(X)
    store_columns(rules.estimator, X.shape[1], None)
    return X


def store_columns(estimator: Any, n_features: int, names: Any) -> None:
    """Set `n_features_in_` and `feature_names_in_` for rows that do not go through scikit-learn's validation."""
    estimator.n_features_in_ = int(n_features)
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def _foreign_floats(X: Array, least: int = 1) -> Array:
    xp = namespace(X)
    if "complex" in str(X.dtype):
        raise ValueError(f"Complex data not supported: X has dtype {X.dtype}")
    if X.ndim != 2 or X.shape[0] < least:
        raise ValueError(f"Expected 2D array of at least {least} rows, got shape {tuple(X.shape)}")
    return X if X.dtype in (xp.float32, xp.float64) else xp.astype(X, xp.float64)


def _refuse_precomputed(rules: RowRules) -> None:
    if rules.kernel.precomputed:
        raise ValueError("a precomputed kernel needs the whole gram in memory: give it as one array")


def weights_of(X: Array, sample_weight: Any, *, least: int = 2) -> np.ndarray | None:
    """The checked weights of the rows of one array; at least `least` of them must be positive."""
    if sample_weight is None:
        return None
    if is_foreign(X):
        weights = _weights_before_a_pass(sample_weight)
        if weights is not None and len(weights) != X.shape[0]:
            raise ValueError(f"sample_weight has {len(weights)} values, X has {X.shape[0]} rows")
        return weights
    weights = _check_sample_weight(on_host(sample_weight), X, dtype=np.float64, ensure_non_negative=True)
    if np.count_nonzero(weights) < least:
        raise ValueError("at least two rows must have a positive sample_weight")
    return checked_weights(weights)


def _weights_before_a_pass(sample_weight: Any) -> np.ndarray | None:
    """Weights of rows whose number is not known yet; everything but their number is checked."""
    if sample_weight is None:
        return None
    weights = check_array(on_host(sample_weight), ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1 or np.any(weights < 0) or np.count_nonzero(weights) < 2:
        raise ValueError("sample_weight must be one number a row, none negative, at least two positive")
    return checked_weights(weights)


def validate_rows(estimator: Any, X: Any, **checks: Any) -> Any:
    """scikit-learn's `validate_data`, with clearer errors for text and gaps: see `text_columns_named`."""
    X = X if isinstance(X, np.ndarray) else on_host(collected(X))
    with text_columns_named(estimator, X):
        return validate_data(estimator, X, **checks)


@contextmanager
def text_columns_named(estimator: Any, X: Any) -> Iterator[None]:
    """Replace scikit-learn's error about text, gaps, or blocks in place of one array by an error that gives advice."""
    try:
        yield
    except (ValueError, TypeError) as error:
        name, text = type(estimator).__name__, _first_text(X)
        if text is not None:
            raise ValueError(
                f"X holds text ({shown(text)}), and {name} needs numbers: for rows that are strings give a kernel of "
                "strings, as kernel=kernelsieve.kernels.Spectrum(3), or kernels.of_objects(f) for a function f(a, b)"
            ) from error
        if is_dask(X) and scipy.sparse.issparse(getattr(X, "_meta", None)):
            raise TypeError(SPARSE_CHUNKS) from error
        told = _text_columns(X)
        if told is None and not is_dask(X) and stream_of(X, once=True) is not None:
            raise TypeError(
                f"{name} needs all rows here in one array, and X is rows in blocks: join the blocks, for instance by "
                "np.concatenate. SparseKernelPCA is fitted to blocks, and transforms them"
            ) from error
        if told is None:
            numbers = type(error) is ValueError and not (isinstance(X, np.ndarray) and X.dtype.kind in "OSU")
            raise (with_first_gap(error, X) if numbers else error) from error.__cause__
        raise ValueError(
            f"{told}, and {name} needs numbers: leave text out, or encode the table with "
            f"make_pipeline(TableEncoder(), {name}(...))"
        ) from error


def _first_text(X: Any) -> str | None:
    """The first element of a list, a 1-D array or a column if it is text; otherwise None."""
    one_column = isinstance(X, list | tuple) or (not is_frame(X) and getattr(X, "ndim", 0) == 1)
    first = next(iter(X), None) if one_column else None
    return str(first) if isinstance(first, str) else None


def _text_columns(X: Any) -> str | None:
    """Which columns of a frame are not numeric, and what they hold; None if all are numeric."""
    if not is_frame(X):
        return None
    block = block_of(X)
    wrong = [j for j, kind in enumerate(block.kinds) if kind in (TEXT, OTHER)]
    if not wrong:
        return None
    first = wrong[0]
    held = "text"
    if block.kinds[first] == OTHER:
        held = block.others[first]
    elif block.texts[first].labels:
        held = f"text (first {block.texts[first].labels[0]!r})"
    names = quoted([block.names[j] for j in wrong])
    return f"column {names} holds {held}" if len(wrong) == 1 else f"columns {names} hold {held}"
