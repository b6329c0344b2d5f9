"""score, inverse, compress, plot and report; methods, widths, pipes and JSON."""

import io
import json
import time

import numpy as np
import polars as pl
import pytest
from calling import COLUMNS, assert_fails, core, program, run, shell
from rich.console import Console
from sklearn.base import BaseEstimator

import kernelsieve
from kernelsieve import SparseKernelPCA
from kernelsieve.cli import fit as fitting
from kernelsieve.cli.options import METHODS
from kernelsieve.rows.sources import Stream
from kernelsieve.rules.distances import kmeans_centers
from kernelsieve.search import auto_width

pytestmark = pytest.mark.filterwarnings("ignore::kernelsieve.KernelWarning")


# --- methods and widths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_transforms_scores_and_is_described(method, folder, tmp_path):
    model, scores = tmp_path / "model.ks", tmp_path / "scores.csv"
    result = run("fit", folder / "rows.csv", "--method", method, "-o", model)
    assert result.exit_code == 0, result.output
    assert METHODS[method] in result.output
    assert type(core(model)).__name__ == METHODS[method]
    assert run("transform", model, folder / "rows.csv", "-o", scores).exit_code == 0
    frame = pl.read_csv(folder / "rows.csv")
    expected = kernelsieve.load(model).transform(frame)
    np.testing.assert_allclose(pl.read_csv(scores).to_numpy(), expected, rtol=1e-9, atol=1e-12)
    assert run("info", model).exit_code == 0
    result = run("score", model, folder / "rows.csv")
    assert result.exit_code == 0, result.output
    assert "the rows that fit worst, of 150" in result.output


def test_every_estimator_has_a_method():
    public = [getattr(kernelsieve, name) for name in kernelsieve.__all__]
    estimators = {c.__name__ for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)}
    assert set(METHODS.values()) <= estimators
    assert estimators - set(METHODS.values()) <= {"TableEncoder", "KernelMonitor", "OnlineKernelPCA"}


def test_options_that_a_method_does_not_have_are_refused(folder, tmp_path):
    for method, option in (("exact", "--selection"), ("linear", "--kernel"), ("elastic-net", "--support")):
        value = {"--selection": "kmeans", "--kernel": "poly", "--support": 5}[option]
        result = run("fit", folder / "rows.csv", "--method", method, option, value, "-o", tmp_path / "m.ks")
        assert result.exit_code == 2
        assert option in result.output
        assert f"does not apply to --method {method}" in " ".join(result.output.replace("│", " ").split())


def test_gamma_auto_is_the_width_that_loses_least_of_held_out_rows(folder, rows, tmp_path):
    out = tmp_path / "model.ks"
    result = run("fit", folder / "rows.csv", "-x", "id,label", "-s", 8, "--gamma", "auto", "--json", "-o", out)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    tried = {width["gamma"]: width["error"] for width in told["gamma_tried"]}
    assert len(tried) == len(auto_width.TRIAL.factors)
    assert told["kernel"]["gamma"] in tried
    assert tried[told["kernel"]["gamma"]] <= 1.001 * min(tried.values())
    # against a plain computation of the same error for the width that was chosen
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    rng = np.random.default_rng(0)
    order = rng.permutation(150)
    centers = kmeans_centers(scaled[order[:75]], 30, auto_width.TRIAL.kmeans_steps, rng)
    model = SparseKernelPCA(2, selection=centers, gamma=told["kernel"]["gamma"]).fit(scaled[order[:75]])
    test = scaled[order[75:]]
    back = model.inverse_transform(model.transform(test))
    error = np.square(test - back).sum() / np.square(test - scaled[order[:75]].mean(axis=0)).sum()
    np.testing.assert_allclose(error, tried[told["kernel"]["gamma"]], rtol=1e-6)
    assert_fails(run("fit", folder / "rows.csv", "-k", "linear", "-g", "auto", "-o", out), "--gamma auto")


def test_scales_reach_the_model_and_heavy_tails_are_told(tmp_path):
    rng = np.random.default_rng(0)
    pl.DataFrame({"a": rng.random(300), "b": np.exp(4 * rng.standard_normal(300))}).write_csv(tmp_path / "rows.csv")
    for scale in ("standard", "robust", "none"):
        out = tmp_path / f"{scale}.ks"
        result = run("fit", tmp_path / "rows.csv", "--scale", scale, "-s", 6, "-o", out)
        assert result.exit_code == 0, result.output
        assert f"│ {scale} (" in run("info", out).output
        assert ("--scale robust" in result.output) == (scale == "standard")
        assert kernelsieve.load(out)[0].scale == scale


# --- score, inverse, compress --------------------------------------------------------------------------------------


def test_score_tells_a_scheduler_where_too_many_rows_are_odd(folder):
    given = ("score", folder / "model.ks", folder / "rows.csv", "--normal", folder / "rows.csv")
    assert run(*given, "--alarm-above", 0.1).exit_code == 0  # 5 % lie above the limit that they set
    ended = run(*given, "--alarm-above", 0.01)
    assert ended.exit_code == 3
    assert "rows are odd" in ended.output
    assert run("score", folder / "model.ks", folder / "rows.csv", "--alarm-above", 0.1).exit_code == 2


def test_score_gives_the_librarys_own_numbers(folder, tmp_path):
    out = tmp_path / "measures.csv"
    result = run("score", folder / "model.ks", folder / "rows.csv", "-o", out, "--keep", "id", "--json")
    assert result.exit_code == 0, result.output
    model = kernelsieve.load(folder / "model.ks")
    rows = model[0].transform(pl.read_csv(folder / "rows.csv").select(COLUMNS))
    frame, scores = pl.read_csv(out), model[1].transform(rows)
    assert frame.columns == ["id", "t2", "spe", "error"]
    np.testing.assert_allclose(frame["spe"], model[1].reconstruction_error(rows), rtol=1e-9)
    np.testing.assert_allclose(frame["t2"], (scores**2 / model[1].explained_variance_).sum(axis=1), rtol=1e-9)
    error = np.square(rows - model[1].inverse_transform(scores)).mean(axis=1)
    np.testing.assert_allclose(frame["error"], error, rtol=1e-9)
    told = json.loads(result.stdout)
    assert told["rows"] == 150
    assert told["worst"][0]["row"] == int(np.argmax(frame["spe"].to_numpy())) + 1
    np.testing.assert_allclose(told["means"]["spe"], frame["spe"].mean(), rtol=1e-9)


def test_score_decides_by_a_limit_from_normal_rows(folder, rows, tmp_path):
    strange = pl.DataFrame(np.concatenate([rows[:20], rows[:5] + 50]), schema=COLUMNS)
    strange.write_csv(tmp_path / "new.csv")
    out = tmp_path / "decided.parquet"
    score = ["score", folder / "model.ks", tmp_path / "new.csv", "--normal", folder / "rows.csv"]
    result = run(*score, "-o", out, "--batch-size", 7)
    assert result.exit_code == 0, result.output
    decision = pl.read_parquet(out)["decision"].to_numpy()
    assert (decision[20:] < 0).all()
    assert (decision[:20] > 0).mean() > 0.7
    assert f"{(decision < 0).sum()} of 25 rows are odd" in result.output


def test_inverse_brings_rows_back_in_their_own_units(rows, folder, tmp_path):
    model, scores, back = tmp_path / "m.ks", tmp_path / "s.csv", tmp_path / "back.csv"
    assert run("fit", folder / "rows.csv", "-c", 4, "-s", 60, "-o", model).exit_code == 0
    assert run("transform", model, folder / "rows.csv", "-o", scores).exit_code == 0
    result = run("inverse", model, scores, "-o", back)
    assert result.exit_code == 0, result.output
    frame = pl.read_csv(back)
    assert frame.columns == [*COLUMNS, "label"]
    assert set(frame["label"]) <= {"red", "green", "blue"}
    assert np.square(frame.select(COLUMNS).to_numpy() - rows).mean() < 0.5 * rows.var(axis=0).mean()
    pl.read_csv(scores).select(["sparsekernelpca0"]).write_csv(tmp_path / "few.csv")
    assert_fails(run("inverse", model, tmp_path / "few.csv", "-o", tmp_path / "x.csv"), "1 columns", "4 components")


def test_compress_keeps_the_table_and_the_scores(folder, tmp_path):
    small = tmp_path / "small.ks"
    result = run("compress", folder / "model.ks", "-s", 8, "-o", small)
    assert result.exit_code == 0, result.output
    assert "12 support points became 8" in result.output
    frame = pl.read_csv(folder / "rows.csv").select(COLUMNS)
    before, after = kernelsieve.load(folder / "model.ks"), kernelsieve.load(small)
    assert after[0].describe() == before[0].describe()
    correlation = np.corrcoef(before.transform(frame)[:, 0], after.transform(frame)[:, 0])[0, 1]
    assert correlation > 0.95
    assert run("compress", folder / "model.ks", "-o", small).exit_code == 2
    result = run("compress", folder / "model.ks", "-s", 2, "--rows", folder / "rows.csv", "-o", small)
    assert result.exit_code == 0, result.output
    assert "warning: 2 points keep little of component" in result.output
    assert "before compression" in result.output
    table = kernelsieve.read_table(folder / "rows.csv", columns=COLUMNS)
    before, after = (kernelsieve.load(path).transform(table) for path in (folder / "model.ks", small))
    left = ((before - after) ** 2).sum(axis=0) / ((before - before.mean(axis=0)) ** 2).sum(axis=0)
    facts = json.loads(run("info", small, "--json").output)["compression"]
    np.testing.assert_allclose(facts["r2"], np.maximum(1 - left, 0), atol=1e-6)
    assert run("compress", folder / "model.ks", "--error", 0.2, "-o", small, "--json").exit_code == 0


# --- pictures and pages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_pictures_are_drawn_and_may_be_drawn_again(suffix, folder, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / f"map{suffix}"
    plot = ["plot", folder / "model.ks", folder / "rows.csv", "--color", "label", "-c", "1,3", "-o", out]
    for _ in range(2):  # the second time over what the first wrote
        result = run(*plot)
        assert result.exit_code == 0, result.output
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix]
    assert out.read_bytes().startswith(start)
    assert run("plot", folder / "model.ks", "--kind", "spectrum", "-o", out).exit_code == 0
    assert run("plot", folder / "model.ks", "--kind", "support", "-o", out).exit_code == 0


def test_pictures_that_cannot_be_drawn_are_refused(folder, tmp_path):
    out = tmp_path / "map.png"
    model, data = folder / "model.ks", folder / "rows.csv"
    assert run("plot", model, "-o", out).exit_code == 2
    assert run("plot", model, data, "--kind", "pie", "-o", out).exit_code == 2
    assert run("plot", model, data, "-c", "1,9", "-o", out).exit_code == 2
    assert_fails(run("plot", model, data, "-o", tmp_path / "map.bmp"), ".png", code=2)
    assert_fails(run("plot", model, data, "--kind", "contours", "-o", out), "plane", "4 columns")
    assert_fails(run("plot", model, data, "--color", "none", "-o", out), "'none'")
    assert not out.exists()


def test_a_report_is_made_of_a_table(folder, tmp_path):
    pytest.importorskip("kernelsieve.report")
    out = tmp_path / "report.html"
    for options in ([], ["--exclude", "label"], ["--model", folder / "model.ks"]):
        result = run("report", folder / "rows.csv", "-o", out, "-s", 8, *options)
        assert result.exit_code == 0, result.output
        assert "150 rows" in result.output
        assert "kernelsieve" in out.read_text(encoding="utf-8")


# --- pipes and JSON -------------------------------------------------------------------------------------------------


def test_tables_and_models_go_through_pipes(folder, tmp_path):
    def piped(*arguments, given):
        done = program(*arguments, given=given)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    for extension in (".csv", ".parquet"):
        table = (folder / f"rows{extension}").read_bytes()
        model = piped("fit", "-", "-x", "id,label", "-c", 3, "-s", 12, "-o", "-", given=table)
        (tmp_path / "piped.ks").write_bytes(model)
        scores = piped("transform", tmp_path / "piped.ks", "-", "-o", "-", given=table)
        assert run("transform", folder / "model.ks", folder / "rows.csv", "-o", tmp_path / "s.csv").exit_code == 0
        expected = pl.read_csv(tmp_path / "s.csv").to_numpy()
        np.testing.assert_allclose(pl.read_csv(io.BytesIO(scores)).to_numpy(), expected, atol=1e-9)
        assert b"SparseKernelPCA" in piped("info", "-", given=model)
        (tmp_path / "s.csv").unlink()


def test_standard_input_can_be_only_one_thing(folder, tmp_path):
    assert_fails(run("transform", "-", "-", "-o", tmp_path / "o.csv"), "only one", code=2)


def test_every_json_is_json_and_nothing_else(folder, tmp_path):
    model = folder / "model.ks"
    for arguments in (
        ["fit", folder / "rows.csv", "-s", 6, "-o", tmp_path / "m.ks"],
        ["info", model],
        ["transform", model, folder / "rows.csv", "-o", tmp_path / "s.csv"],
        ["score", model, folder / "rows.csv"],
        ["inverse", model, tmp_path / "s.csv", "-o", tmp_path / "b.csv"],
        ["compress", model, "-s", 6, "-o", tmp_path / "c.ks"],
        ["compare", folder / "rows.csv", "-c", 2, "-s", 8],
    ):
        done = program(*arguments, "--json")
        assert (done.returncode, done.stderr) == (0, b"")
        assert isinstance(json.loads(done.stdout), dict)


def test_completion_is_offered():
    done = shell("--show-completion", "bash")
    assert done.returncode in (0, 1)  # 1: no shell is found here
    assert "--install-completion" in run("--help").output


# --- progress --------------------------------------------------------------------------------------------------------


def test_progress_moves_and_names_what_is_done(rows, monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(fitting, "Console", lambda **_: console)
    fitting.watched_fit(SparseKernelPCA(3, n_support=5), rows)
    assert "choose points" in screen.getvalue() or "fitting" in screen.getvalue()
    assert "0:00:0" in screen.getvalue()


@pytest.mark.parametrize("known", [True, False])
def test_progress_counts_the_rows_of_blocks(known, rows, monkeypatch):
    pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")
    screen, blocks = io.StringIO(), np.array_split(rows, 5)
    console = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(fitting, "Console", lambda **_: console)

    def slowly():
        yield from blocks[:-1]
        time.sleep(0.3)  # the screen is drawn ten times a second
        yield blocks[-1]

    model = SparseKernelPCA(3, n_support=5)
    fitting.watched_fit(model, Stream(slowly, len(rows) if known else None))
    read = sum(map(len, blocks[:-1]))
    assert f"{read:,} rows, " in screen.getvalue()
    assert "a second" in screen.getvalue()
    assert not getattr(model, "_skl_callbacks", None)
