"""Every parameter of SparseKernelPCA on every path: it has an effect that a user can see, or it is refused, or said.

A cell is one parameter on one path.  The path is walked twice, with two values of the parameter that a setting gives a
meaning to (`degree` under a polynomial kernel); what a user can see of both is compared: points, coefficients,
report, ratios, attributes, passes over the rows, warnings, and the error of one that is refused.  A cell in which
nothing differs must be in `NO_EFFECT`, with the reason, and a cell that is there must have no effect.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import eigsh
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import KernelCenterer

from kernelsieve import SparseKernelPCA
from kernelsieve.arrays import namespace, on_host
from kernelsieve.rules.registry import SELECTORS

N, D, M = 150, 4, 12
RNG = np.random.default_rng(36)
ROWS = np.round(RNG.standard_normal((3, D))[RNG.integers(3, size=N)] * 2 + RNG.standard_normal((N, D)), 3)
ROWS[:, 3] = RNG.integers(3, size=N)
WEIGHTS = RNG.integers(1, 4, N).astype(float)
BASE = {"n_components": 3, "n_support": M, "random_state": 0}


def similarity(X: Any, Y: Any, width: float = 3.0) -> Any:
    return namespace(X).exp(-((X[:, None, :] - Y[None, :, :]) ** 2).sum(-1) / width**2)


def first_rows(X: Any, n_support: int | None, *, kernel: Any, rng: Any) -> Any:
    """A selection by the user, of rows that chance decides."""
    return rng.permutation(X.shape[0])[: n_support or M]


class CountedBlocks:
    """Rows in blocks of a size, and how often, and in what portions, they were read."""

    def __init__(self, size: int) -> None:
        self.size, self.passes = size, 0

    def __call__(self) -> Iterator[np.ndarray]:
        self.passes += 1
        return iter([ROWS[start : start + self.size] for start in range(0, N, self.size)])


# The paths: each takes parameters and returns the model, and what else a user would see.


def by_fit(**params: Any) -> Any:
    return SparseKernelPCA(**params).fit(ROWS), {}


def by_partial_fit(**params: Any) -> Any:
    model = SparseKernelPCA(**params)
    for part in np.array_split(ROWS, 3):
        model.partial_fit(part)
    return model, {}


def by_refresh(**params: Any) -> Any:
    """Parameters that a stream does not freeze may change before `refresh`, which then obeys them."""
    model = SparseKernelPCA(**BASE | {k: v for k, v in params.items() if k in SETTLED_BY_FIRST_CALL})
    model.partial_fit(ROWS)
    return model.set_params(**params).refresh(), {}


def by_blocks(**params: Any) -> Any:
    blocks = CountedBlocks(40)
    model = SparseKernelPCA(**params).fit(blocks)
    return model, {"passes": blocks.passes}


class CountedFiles:
    """A dataset of Parquet files, and how many rows were read at once."""

    def __init__(self, folder: str) -> None:
        import pyarrow as pa
        import pyarrow.dataset as ds
        from pyarrow import parquet

        columns = {f"x{j}": ROWS[:, j] for j in range(D)}
        for number, part in enumerate(np.array_split(np.arange(N), 2)):
            table = pa.table({name: column[part] for name, column in columns.items()})
            parquet.write_table(table, f"{folder}/{number}.parquet")
        self._dataset = ds.dataset(folder)
        self.schema, self.count_rows = self._dataset.schema, self._dataset.count_rows
        self.read: list[int] = []

    def get_fragments(self) -> Any:
        raise ValueError("there is a filter")  # then batches are asked of the dataset

    def to_batches(self, **options: Any) -> Iterator[Any]:
        for batch in self._dataset.to_batches(**options):
            self.read.append(batch.num_rows)
            yield batch


def by_files(**params: Any) -> Any:
    with TemporaryDirectory() as folder:
        files = CountedFiles(folder)
        return SparseKernelPCA(**params).fit(files), {"read": files.read}


def by_dask(**params: Any) -> Any:
    import dask
    import dask.array as da

    with dask.config.set(scheduler="synchronous"):
        return SparseKernelPCA(**params).fit(da.from_array(ROWS, chunks=(40, D))), {}


def by_tensors(**params: Any) -> Any:
    """Tensors that numpy cannot read, as those on a device are."""
    from test_tensors_on_a_device import on_device

    return SparseKernelPCA(**params).fit(on_device(ROWS)), {}


def by_gram(**params: Any) -> Any:
    return SparseKernelPCA(**params | {"kernel": "precomputed"}).fit(rbf_kernel(ROWS, gamma=0.1)), {}


def by_function(**params: Any) -> Any:
    return SparseKernelPCA(**params | {"kernel": similarity}).fit(ROWS), {}


def by_weights(**params: Any) -> Any:
    return SparseKernelPCA(**params).fit(ROWS, sample_weight=WEIGHTS), {}


def by_rule(name: Any) -> Callable[..., Any]:
    def fit(**params: Any) -> Any:
        return SparseKernelPCA(**{"selection": name} | params).fit(ROWS), {}

    return fit


SETTLED_BY_FIRST_CALL = (
    *("n_components", "kernel", "gamma", "degree", "coef0", "kernel_params", "center", "half_life"),
    *("random_state", "n_optimization_samples"),
)
RULES = sorted(SELECTORS)
PATHS: dict[str, Callable[..., Any]] = {
    "fit": by_fit,
    "partial_fit": by_partial_fit,
    "refresh": by_refresh,
    "blocks": by_blocks,
    **({"files": by_files} if find_spec("pyarrow") else {}),
    **({"dask": by_dask} if find_spec("dask") else {}),
    **({"device": by_tensors} if find_spec("torch") else {}),
    "precomputed": by_gram,
    "function": by_function,
    "weights": by_weights,
    **{rule: by_rule(rule) for rule in RULES},
    "rows given": by_rule(np.arange(0, N, 12)),
    "points given": by_rule(ROWS[5:17] + 0.1),
    "callable": by_rule(first_rows),
}

# A setting in which the parameter means something, and two values.
VALUES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "n_components": ({}, 3, 2),
    "n_support": ({}, 12, 14),
    "selection": ({}, "optimized", "uniform"),
    "variance": ({"n_support": "auto"}, 0.99, 0.8),
    "agreement": ({"n_support": "auto", "variance": 0.5}, None, 0.9999),
    "kernel": ({}, "rbf", "laplacian"),
    "gamma": ({}, 0.1, 0.2),
    "degree": ({"kernel": "poly", "gamma": 0.1}, 2, 3),
    "coef0": ({"kernel": "poly", "gamma": 0.1}, 1.0, 2.0),
    "kernel_params": ({"kernel": similarity}, {"width": 3.0}, {"width": 2.0}),
    "center": ({}, True, False),
    "n_optimization_samples": ({}, None, 40),
    "max_evaluations": ({}, "auto", 1.5),
    "n_candidates": ({}, None, 3),
    "n_swaps": ({}, 0, 20),
    "max_residual": ({"n_support": "auto"}, None, 0.3),
    "max_iter": ({}, 13, 2),
    "tol": ({}, 5e-3, 0.5),
    "half_life": ({}, None, 30.0),
    "keep_stream": ({}, False, True),
    "record_drift": ({}, False, True),
    "frozen_columns": ({}, None, [3]),
    "random_state": ({"n_optimization_samples": 60}, 0, 1),
    "n_jobs": ({}, 1, 2),
    "batch_size": ({}, None, 7),
    "device": ({}, None, "nowhere"),
    "verbose": ({}, False, True),
}

ALL = tuple(PATHS)
STREAMS = ("partial_fit", "refresh")
FITS = tuple(path for path in PATHS if path not in STREAMS)

# The cells in which nothing differs, and why that is right.
NO_EFFECT: list[tuple[str, tuple[str, ...], str]] = [
    ("kernel", ("precomputed", "function"), "the path is this kernel"),
    ("n_swaps", ("function",), "targeted rows are one of several choices, and the centres that win have no swaps"),
    ("half_life", FITS, "of rows that partial_fit adds: all rows of a fit weigh the same"),
    ("record_drift", (*FITS, "refresh"), "a line for every call of partial_fit: this is none"),
    ("keep_stream", STREAMS, "for fit: a stream is always kept"),
    ("verbose", STREAMS, "lines of a stream are those of rows in blocks: these are arrays"),
    ("device", tuple(path for path in PATHS if path == "device"), "rows that are on a device are worked on there"),
    ("n_jobs", ALL, "the result is the same bits on any number of threads: time alone depends on it"),
    (
        "batch_size",
        tuple(path for path in PATHS if path != "files"),
        "rows in memory, or in blocks of the user's, are not read from a disk",
    ),
]


def seen(path: str, params: dict[str, Any]) -> dict[str, Any]:
    """All that a user sees of a walk along a path."""
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(StringIO()) as printed:
        warnings.simplefilter("always")
        try:
            model, found = PATHS[path](**params)
        except (ValueError, TypeError, ImportError) as error:
            return {"error": str(error)}
        found |= {
            "points": on_host(model.support_vectors_),
            "rows": None if model.support_ is None else model.support_.tolist(),
            "coefficients": on_host(model.dual_coef_),
            "variances": model.explained_variance_,
            "ratio": np.array([model.captured_ratio_, *model.captured_ratio_interval_]),
            "report": repr(model.selection_report_),
            "steps": [model.n_iter_, model.converged_],
            "evaluations": getattr(model, "n_evaluations_", None),
            "gamma": model.gamma_,
            "attributes": sorted(name for name in vars(model) if name.endswith("_")),
            "goes on": model._stream is not None,
            "prints": bool(printed.getvalue()),
        }
    found["warnings"] = sorted({str(warning.message) for warning in caught})
    return found


def differ(one: Any, other: Any) -> bool:
    """Whether two things seen differ by more than rounding."""
    if not isinstance(one, np.ndarray | float) or other is None:
        return bool(one != other)
    return np.shape(one) != np.shape(other) or not np.allclose(one, other, rtol=1e-9, atol=1e-12)


def effect(path: str, name: str) -> str:
    """What differs between two values of a parameter on a path; "" where nothing does."""
    setting, first, second = VALUES[name]
    before, after = (seen(path, BASE | setting | {name: value}) for value in (first, second))
    if "error" in after:
        assert name in after["error"] or "partial_fit" in after["error"], f"{name} on {path}: {after['error']}"
        return f"refused: {after['error']}"
    assert "error" not in before, f"{name} on {path}: {before}"
    return ", ".join(key for key in before if differ(before[key], after[key]))


def test_every_parameter_is_in_the_table() -> None:
    assert set(VALUES) == set(SparseKernelPCA().get_params())
    listed = [(name, path) for name, paths, _ in NO_EFFECT for path in paths]
    assert len(listed) == len(set(listed))
    assert {name for name, _ in listed} <= set(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_it_has_an_effect_on_every_path_or_is_refused(name: str) -> None:
    listed = {path for idle, paths, _ in NO_EFFECT if idle == name for path in paths}
    found = {path: effect(path, name) for path in PATHS}
    assert {path for path, difference in found.items() if not difference} == listed, found


# What single cells promise beyond an effect.


def test_tol_ends_the_steps() -> None:
    steps = [SparseKernelPCA(**BASE, max_iter=40, tol=tol).fit(ROWS).n_iter_ for tol in (0.9, 5e-3)]
    assert steps[0] < steps[1]


def test_max_residual_beside_variance_is_said() -> None:
    model = SparseKernelPCA(3, selection="residual", max_residual=0.3, variance=0.8)
    with pytest.warns(UserWarning, match=r"variance=0.8 has no effect: max_residual=0.3 says how many points"):
        model.fit(ROWS)
    with warnings.catch_warnings():  # there it says how many components
        warnings.filterwarnings("error", message="variance=")
        model.set_params(n_components=None).fit(ROWS)


def test_steps_of_many_points_are_said_as_they_are() -> None:
    X = np.random.default_rng(0).standard_normal((1200, 12))
    model = SparseKernelPCA(10, n_support=500, gamma="4 median", max_iter=6, tol=0.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"as many as max_iter=6 allows 500 points.*give max_iter=10 for 6"):
        model.fit(X)


@pytest.mark.parametrize("kind", ["points", "callable"])
def test_points_of_the_user_stay_in_a_stream(kind: str) -> None:
    points = ROWS[5:17] + 0.1
    selection = points if kind == "points" else lambda X, n_support, *, kernel, rng: points
    model = SparseKernelPCA(**BASE, selection=selection, n_optimization_samples=40)
    for part in np.array_split(ROWS, 5):
        model.partial_fit(part)
    np.testing.assert_array_equal(model.support_vectors_, points)
    np.testing.assert_array_equal(model.refresh().support_vectors_, points)


def test_a_share_takes_as_many_components_as_all_rows_need() -> None:
    """Of 3,000 rows 1,000 are looked at, whose components explain more of them than as many do of all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 6)) @ rng.standard_normal((6, 20)) + rng.standard_normal((3000, 20))
    centred = KernelCenterer().fit_transform(rbf_kernel(X, gamma=0.004))
    model = SparseKernelPCA(0.9, n_support=300, selection="uniform", gamma=0.004, random_state=0).fit(X)
    variances = eigsh(centred, model.dual_coef_.shape[1], return_eigenvectors=False, tol=1e-6)
    assert variances.sum() > 0.897 * np.trace(centred)
