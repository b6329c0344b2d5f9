"""Comparison and demonstration."""

import json
import re

import numpy as np
import pytest
from calling import assert_fails, run

from kernelsieve import KernelPCA
from kernelsieve.cli import compare as comparison
from kernelsieve.cli import demo


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "cosine", "sigmoid", "laplacian"])
def test_compare(kernel, folder):
    result = run("compare", folder / "rows.csv", "-x", "id,label", "-c", 2, "-s", 10, "-k", kernel)
    assert result.exit_code == 0, result.output
    for words in ("100 rows to fit, 50 held out", "exact KernelPCA", "kernelsieve", "Nystroem + PCA", "100.0 %"):
        assert words in result.output
    assert ("gamma" in result.output) == (kernel not in ("linear", "cosine"))


def test_compare_says_why_exact_is_left_out(folder):
    result = run("compare", folder / "rows.npy", "-c", 2, "-s", 10, "--max-gram", "0.00001")
    assert result.exit_code == 0
    assert "left out: its gram of 100 x 100" in result.output


def test_compare_refuses_what_it_cannot_do(folder, tmp_path):
    assert run("compare", folder / "rows.npy", "-k", "precomputed").exit_code == 2
    np.save(tmp_path / "few.npy", np.eye(4))
    assert_fails(run("compare", tmp_path / "few.npy"), "4 rows are too few")


def test_captured_variance_is_a_share_of_the_total(rows):
    """Exact kernel PCA with every component captures all of the variance of its own rows."""
    setting = comparison.Setting(rows.shape[0] - 1, "rbf", 0.5)
    model = KernelPCA(setting.n_components, kernel="rbf", gamma=0.5, eigen_solver="dense").fit(rows)
    captured = comparison.captured_variance(model, rows)
    assert captured == pytest.approx(comparison.total_variance(setting, rows), rel=1e-6)


def test_all_methods_capture_the_same_with_all_points(rows):
    setting = comparison.Setting(3, "rbf", 0.2)
    methods = [
        comparison.exact(setting, rows),
        comparison.ours(setting, len(rows), selection="uniform"),
        comparison.nystroem(setting, len(rows)),
    ]
    captured = [comparison.measured(method, rows, rows[:50])[0].captured for method in methods]
    np.testing.assert_allclose(captured, captured[0], rtol=1e-6)


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DEMO", demo.DemoPlan(sizes=(11, 20), n_draws=1, n_timings=1, match_step=80))
    out = tmp_path / "new folder" / "page.html"
    result = run("demo", "--out", out)
    assert result.exit_code == 0, result.output
    for words in ("exact KernelPCA", "kernelsieve", "Nystroem + PCA", "page.html"):
        assert words in result.output
    kept = re.search(r"20 points keep (\d+\.\d) %", result.output)
    assert 98 <= float(kept[1]) <= 100
    text = out.read_text(encoding="utf-8")
    shown = json.loads(text.split('id="contents">')[1].split("</script>")[0])
    assert shown["points"]["pictures"]["count"] == 20
    assert [line[0] for line in shown["tables"][0]["rows"]] == [
        "exact KernelPCA",
        "kernelsieve",
        "Nystroem + PCA",
        "Nystroem + PCA",
    ]
    assert [curve["name"] for curve in shown["captured"]["curves"]] == ["kernelsieve", "Nystroem + PCA"]
    assert not [word for word in ("@import", "url(http", 'src="http', 'href="http') if word in text]


def test_demo_page_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert_fails(run("demo", "--out", tmp_path / "file" / "page.html"), "file")


def test_demo_example_runs(tmp_path, monkeypatch, capsys):
    from kernelsieve.cli.demo import EXAMPLE

    monkeypatch.chdir(tmp_path)
    exec(EXAMPLE, {})
    assert float(capsys.readouterr().out) > 0.98
    assert (tmp_path / "digits.ks").stat().st_size < 50_000


def test_demo_without_the_chart_library(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda _: None)
    assert_fails(run("demo", "-o", tmp_path / "page.html"), "pip install vl-convert-python")
