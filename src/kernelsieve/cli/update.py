"""`kernelsieve update`: add new rows to a model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..errors import TableError
from ..tables.files import numbers_of
from . import options
from .fit import check_weights
from .inputs import Applied, core_of, load_model, read_input
from .messages import Exit, clean, percent
from .options import names_of
from .outputs import STDOUT, check_output, save_model


@options.asking(without=("keep", "guard_formulas"))
def update(
    model: options.ModelFile,
    data: options.Data,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="MODEL", help="Where to write; by default MODEL itself.")
    ] = None,
    *,
    asked: options.TableOptions,
    weights: options.Weights = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Choose the support points again, from a sample of all rows.")
    ] = False,
    max_drift: Annotated[
        float | None, typer.Option(min=0, metavar="DEGREES", help="Exit with status 3 if components turned further.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Add the rows of a table to a model.

    The model counts the new rows with all earlier ones; only the new ones
    are read. It must have been fitted with --keep-stream or --follow.
    Numbers are scaled and categories encoded as in the first fit. Drift is
    how far the components have turned since their support points were chosen,
    or since before the update if it brought so many rows that the points were
    chosen again.

    \b
    Examples
      kernelsieve fit sales.csv --keep-stream -o sales.ks
      kernelsieve update sales.ks monday.csv
      kernelsieve update sales.ks tuesday.csv --max-drift 30
      kernelsieve update sales.ks week.csv --refresh -o newer.ks
    """
    target = output or model
    check_output(target, [data], kind="model", force=force)
    fitted = load_model(model, data)
    core = _updatable(fitted, model)
    explained = float(np.sum(core.explained_variance_ratio_))
    before = core.n_samples_seen_, core.chosen_at_, explained, float(core.captured_ratio_)
    earlier = core._stream
    applied = Applied(
        fitted, read_input(data, asked, model=fitted), names_of(weights), names_of(asked.exclude), "--weights"
    )
    for first, rows, kept in applied.blocks("update"):
        core.partial_fit(rows, sample_weight=_weights(kept, applied, first))
    drift = math.degrees(core._stream.turned_since(earlier, core._n_threads()) if earlier.ready else core.drift_)
    if refresh:
        core.refresh()
    save_model(fitted, target)
    if target != STDOUT:
        _show(core, target, before, drift, as_json)
    if max_drift is not None and drift > max_drift:
        raise typer.Exit(Exit.ALARM)


def _updatable(fitted: Any, path: Path) -> Any:
    """The last estimator of the model, if it can take new rows; raises if it cannot."""
    core = core_of(fitted)
    if not hasattr(core, "keep_stream"):
        raise TableError(
            f"{path} holds a {type(core).__name__}, which cannot take new rows: fit it again to all of them"
        )
    if core._stream is None:
        raise TableError(
            f"{path} keeps nothing that new rows can be added to: fit it with --keep-stream (the file then holds a "
            "sample of the rows)"
        )
    return core


def _weights(kept: Any, applied: Applied, first: int) -> np.ndarray | None:
    """The weights of some rows, which are the only kept column; None if no column is kept."""
    if not applied.kept:
        return None
    values = numbers_of(kept, applied.kept, applied.table.path, "weights are numbers", first)[:, 0]
    return check_weights(values.astype(np.float64), applied.kept[0], applied.table.path, first)


def _show(core: Any, path: Path, before: tuple[int, int, float, float], drift: float, as_json: bool) -> None:
    """Print how the update has changed the model."""
    n_before, chosen_before, explained_before, captured_before = before
    n_rows, explained = int(core.n_samples_seen_), float(np.sum(core.explained_variance_ratio_))
    again = core.chosen_at_ != chosen_before
    if as_json:
        facts = {"output": str(path), "rows_added": n_rows - n_before, "n_samples_seen": n_rows, "drift_degrees": drift}
        facts |= {"points_chosen_again": again, "explained": explained, "explained_before": explained_before}
        print(json.dumps(facts | {"captured_ratio": float(core.captured_ratio_)}))
        return
    since = "before the update" if again else "their support points were chosen"
    print(f"{clean(str(path))}: {n_rows - n_before:,} rows added, {n_rows:,} in all")
    print(f"drift: the components have turned by {drift:.1f} degrees since {since}")
    print(
        "the support points were chosen again"
        if again
        else "the support points are the same as before; --refresh chooses them again"
    )
    print(f"explains {percent(explained)} of the variance, {percent(explained_before)} before")
    captured = percent(core.captured_ratio_)
    print(f"captures {captured} of what exact kernel PCA captures, {percent(captured_before)} before")
