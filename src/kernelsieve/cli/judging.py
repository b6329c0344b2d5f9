"""New rows as a monitor judges them: block by block from a table, and what is written and told of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table as Screen

from .wording import clean

SHOWN = 10  # alarms on the screen
BLOCK_ROWS = 2**14  # judged, and written, at a time
WRITTEN = ("row", "alarm", "missing", "causes", "spe", "limit", "t2", "t2_limit")


def named(values: np.ndarray, names: list[str]) -> Any:
    """Rows with their column names, as a frame."""
    return pl.DataFrame(values, schema=names)


@dataclass
class Judged:
    """New rows as the monitor judges them, block by block, and what is told of them at the end."""

    model: Any
    everything: bool  # write every row, not only alarms
    n_rows: int = 0
    n_alarms: int = 0
    n_missing: int = 0
    first: list[tuple[int, Any]] = field(default_factory=list)  # the first alarms: row from 1, record

    def frames(self, table: Any) -> Iterator[Any]:
        """What is to be written of each block of a table."""
        names = self._columns(table)
        for block in table.blocks(names, BLOCK_ROWS):
            parts = block.T if isinstance(block, np.ndarray) else block.get_columns()
            columns = [_numbers(name, part, table.path) for name, part in zip(names, parts, strict=True)]
            yield self._judge(np.column_stack(columns))

    def _columns(self, table: Any) -> list[str]:
        """The model's columns: by name where both have names, else in their order."""
        names = getattr(self.model, "feature_names_in_", None)
        if names is not None and table.named:
            return list(table.require([str(name) for name in names], "the monitor"))
        if names is not None:
            warnings.warn(f"{table.path} has no column names: they are taken in the monitor's order", stacklevel=2)
        n_features = self.model.n_features_in_
        if len(table.names) != n_features:
            raise ValueError(f"{table.path} has {len(table.names)} columns, the monitor needs {n_features}")
        return list(table.names)

    def _judge(self, rows: Any) -> Any:
        records = list(enumerate(self.model.update(rows), start=self.n_rows + 1))
        alarms = [(row, record) for row, record in records if record.alarm]
        self.n_rows += len(records)
        self.n_alarms += len(alarms)
        self.n_missing += sum(record.missing for _, record in records)
        self.first += alarms[: SHOWN - len(self.first)]
        return _frame(records if self.everything else alarms)

    @property
    def n_judged(self) -> int:
        """Rows that have a statistic."""
        return self.n_rows - self.n_missing

    def why_none(self, path: Path) -> str:
        """In words, that no row could be judged."""
        lags = self.model._fitted_lags
        before = f", or fewer than {lags} whole rows before it (--lags {lags})" if lags else ""
        return f"{clean(path.name)}: not one of {self.n_rows:,} rows could be judged: each has a missing value{before}"

    def facts(self) -> dict[str, Any]:
        """For machines."""
        return {
            "rows": self.n_rows,
            "judged": self.n_judged,
            "alarms": self.n_alarms,
            "missing": self.n_missing,
            "limit": self.model.limits_["spe"],
            "false_alarm_rate": self.model.false_alarm_rate_,
            "false_alarm_interval": list(self.model.false_alarm_interval_),
            "first": [{"row": row, "spe": record.spe, "causes": record.top} for row, record in self.first],
        }

    def show(self, path: Path, output: Path | None) -> None:
        """For people."""
        name = clean(path.name)
        if self.n_alarms:
            title = f"{name}: the first {len(self.first)} of {self.n_alarms:,} alarms"
            screen = Screen(title=title if self.n_alarms > len(self.first) else f"{name}: alarms")
            for column in ("row", "SPE", "limit", "variables"):
                screen.add_column(column, justify="left" if column == "variables" else "right")
            for row, record in self.first:
                screen.add_row(f"{row:,}", f"{record.spe:.4g}", f"{record.limit:.4g}", clean(_causes(record, ", ")))
            Console().print(screen, markup=False)
        told = f"{name}: {self.n_rows:,} rows, {self.n_alarms:,} alarms, {self.n_missing:,} without a statistic"
        told += f"; written to {clean(str(output))}" if output else ""
        print(told)
        low, high = self.model.false_alarm_interval_
        print(f"about {self.model.false_alarm_rate_:.1%} of normal rows lie above the limit ({low:.1%} to {high:.1%})")


def _numbers(name: str, column: Any, path: Path) -> Any:
    """A column of floats, NaN where a value is missing."""
    if isinstance(column, np.ndarray):
        return column.astype(np.float64)
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise ValueError(f"{path}: column {name!r} is not numeric, and the monitor needs it")
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _frame(records: list[tuple[int, Any]]) -> Any:
    """Rows and their records as a table."""
    types = {"row": pl.Int64, "alarm": pl.Boolean, "missing": pl.Boolean, "causes": pl.String}
    values = [
        (row, record.alarm, record.missing, _causes(record, "; "), record.spe, record.limit, record.t2, record.t2_limit)
        for row, record in records
    ]
    return pl.DataFrame(values, schema={name: types.get(name, pl.Float64) for name in WRITTEN}, orient="row")


def _causes(record: Any, between: str) -> str:
    return between.join(f"{name} {share:.0%}" for name, share in record.top)
