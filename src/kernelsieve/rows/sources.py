"""Sources that can be read block by block, repeatedly: functions, lists of blocks, file datasets, arrays on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK_BYTES = 2**25  # size of the rows read at once, unless `batch_size` sets their number
PARQUET_BUFFER = 2**16  # bytes of a column read at once; without it, pyarrow reads all of a column in a row group


Advance = Callable[[int], None]  # called after each block with its number of rows
Watch = Callable[[int | None], AbstractContextManager[Advance]]  # called before a pass with the number of rows, or None


@dataclass(frozen=True)
class Stream:
    """A source of rows that can be read any number of times, block by block."""

    open: Callable[[], Iterator[Any]]
    n_samples: int | None = None
    names: tuple[str, ...] | None = None  # names of the columns
    overwrites_blocks: bool = False  # whether a block may be written into the memory of the one before
    parts: Sequence[Any] | None = None  # the blocks, if all of them are in memory
    watch: Watch | None = None  # reports the progress of each pass
    may_be_joined: bool = False  # whether small blocks may be joined; not if `batch_size` sets their size


def stream_of(X: Any, batch_size: int | None = None, *, once: bool = False) -> Stream | None:
    """X as a stream if it is a function, a list of blocks, a loader, a dataset or an array on disk; otherwise None.

    An iterator is accepted only if it is to be read `once`; a fit reads its rows twice.
    """
    if isinstance(X, Stream):
        return X
    if callable(X) and not hasattr(X, "shape"):
        return Stream(lambda: _blocks_from(X), overwrites_blocks=True, may_be_joined=True)
    if isinstance(X, list | tuple) and X and _is_table(X[0]):
        for number, block in enumerate(X):
            if not _is_table(block):
                shape = getattr(block, "shape", None)
                what = f"a {type(block).__name__}" if shape is None else f"an array of shape {tuple(shape)}"
                raise ValueError(f"block {number} of the list is {what}, but must have rows and columns")
        return Stream(lambda: iter(X), sum(int(block.shape[0]) for block in X), parts=X, may_be_joined=True)
    if _is_loader(X):
        return _loader_stream(X)
    if hasattr(X, "to_batches") and hasattr(X, "count_rows"):
        return _dataset_stream(X, batch_size)
    if isinstance(X, Iterator):
        if once:
            return Stream(lambda: X, overwrites_blocks=True, may_be_joined=True)
        raise TypeError(
            "an iterator can be read only once, and fit reads the rows twice: give a function that returns a new one, "
            "a list of blocks, or the blocks one by one to partial_fit"
        )
    if _on_disk(X):
        size = batch_size or _default_batch(X.shape[1], np.dtype(X.dtype).itemsize)
        starts = range(0, X.shape[0], size)
        return Stream(lambda: (X[start : start + size] for start in starts), int(X.shape[0]))
    return None


def _is_table(block: Any) -> bool:
    return len(getattr(block, "shape", ())) == 2


def _is_loader(X: Any) -> bool:
    """Whether X is a DataLoader of torch, or an instance of a subclass."""
    return any(kind.__name__ == "DataLoader" and kind.__module__.startswith("torch.") for kind in type(X).__mro__)


def _loader_stream(loader: Any) -> Stream:
    """The stream of a DataLoader whose batches are blocks of rows, or tuples whose first element is a block."""
    if type(getattr(loader, "sampler", None)).__name__ == "RandomSampler":
        raise ValueError("a DataLoader that shuffles gives other rows on each pass: make it with shuffle=False")

    def batches() -> Iterator[Any]:
        for batch in loader:
            if isinstance(batch, Mapping):
                raise TypeError(
                    f"a batch of the DataLoader is a dict of {', '.join(map(repr, batch))}, but must be a tensor "
                    "of rows, or a tuple that begins with one: give a function that yields the tensor of each batch"
                )
            yield batch[0] if isinstance(batch, list | tuple) else batch

    return Stream(batches, may_be_joined=True)


def _blocks_from(function: Callable[[], Any]) -> Iterator[Any]:
    blocks = function()
    if hasattr(blocks, "shape") or not isinstance(blocks, Iterable):
        raise TypeError(
            f"the function must return an iterator of blocks of rows, it returned a {type(blocks).__name__}: "
            "yield the blocks one by one"
        )
    return iter(blocks)


SPARSE_CHUNKS = (
    "the chunks of the dask array are sparse, and chunks must be dense: give X.map_blocks(lambda chunk: "
    "chunk.toarray()), or all rows as one scipy.sparse matrix"
)


def is_dask(X: Any) -> bool:
    """Whether X is a dask collection, such as an array or a dataframe."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(X, "dask")


def _on_disk(X: Any) -> bool:
    """Whether X is a 2-D array on disk that is read by slicing, such as one of zarr or h5py."""
    module = type(X).__module__.partition(".")[0]
    return module in ("zarr", "h5py", "tensorstore") and len(getattr(X, "shape", ())) == 2


def _dataset_stream(dataset: Any, batch_size: int | None) -> Stream:
    """The stream of a pyarrow dataset, which reads Parquet, CSV or Arrow files."""
    import pyarrow as pa
    import pyarrow.dataset

    text = [field.name for field in dataset.schema if not _numeric(pa, field.type)]
    if text:
        raise ValueError(
            f"columns {', '.join(map(repr, text[:5]))} of the dataset are not numeric: leave them out, e.g. "
            "pyarrow.dataset.dataset(path, schema=...) with the columns to use"
        )
    names = tuple(dataset.schema.names)
    size = batch_size or _default_batch(len(names), 8)
    dtype = np.float32 if all(pa.types.is_float32(field.type) for field in dataset.schema) else np.float64
    return Stream(
        lambda: (batch_numbers(batch, dtype) for batch in dataset_batches(dataset, size)), dataset.count_rows(), names
    )


def batch_numbers(batch: Any, dtype: Any) -> np.ndarray:
    """The columns of a record batch as one array, with NaN for missing values."""
    block = np.empty((batch.num_rows, batch.num_columns), dtype=dtype)
    for j, column in enumerate(batch.columns):
        block[:, j] = column.to_numpy(zero_copy_only=False)
    return block


def dataset_batches(dataset: Any, batch_size: int) -> Iterator[Any]:
    """The record batches of a pyarrow dataset, in order.

    pyarrow's scanner reads whole row groups, up to 1 GiB ahead of its consumer.  To save that memory, Parquet and CSV
    files that contain all columns are read without it, at most a batch or two ahead.
    """
    import pyarrow.dataset as ds

    schema, sizes = dataset.schema, {"batch_size": batch_size, "batch_readahead": 1, "fragment_readahead": 1}
    try:
        fragments = dataset.get_fragments()
    except ValueError:  # a filtered dataset can be read only by the scanner
        yield from dataset.to_batches(**sizes)
        return
    for fragment in fragments:
        file_format = getattr(fragment, "format", None)
        whole = set(schema.names) <= set(fragment.physical_schema.names)
        if whole and isinstance(file_format, ds.ParquetFileFormat):
            yield from _parquet_batches(fragment, schema.names, batch_size)
        elif whole and isinstance(file_format, ds.CsvFileFormat):
            yield from _csv_batches(fragment, schema, batch_size)
        else:
            yield from fragment.to_batches(schema=schema, **sizes)


def _parquet_batches(fragment: Any, names: list[str], batch_size: int) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with fragment.open() as source, ParquetFile(source, buffer_size=PARQUET_BUFFER, pre_buffer=False) as file:
        groups = [group.id for group in fragment.row_groups]
        for batch in file.iter_batches(batch_size, row_groups=groups, columns=names, use_threads=False):
            yield batch.select(names)


def _csv_batches(fragment: Any, schema: Any, batch_size: int) -> Iterator[Any]:
    from pyarrow.csv import open_csv

    options = fragment.format.default_fragment_scan_options
    convert = copy(options.convert_options)
    convert.column_types = {field.name: field.type for field in schema}
    convert.include_columns = schema.names
    with fragment.open() as file:
        for batch in open_csv(file, options.read_options, fragment.format.parse_options, convert):
            for start in range(0, batch.num_rows, batch_size):
                yield batch.slice(start, batch_size)


def _numeric(pa: Any, kind: Any) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def _default_batch(n_features: int, itemsize: int) -> int:
    return max(1, BLOCK_BYTES // max(1, n_features * itemsize))
