"""The site's code runs: every code block of its pages, and every script of guide and gallery in an empty folder."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import kernelsieve
from kernelsieve import KernelWarning, SparseKernelPCA, TableEncoder

plt = pytest.importorskip("matplotlib.pyplot")
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SCRIPTS = sorted(path for folder in ("guide", "gallery") for path in (DOCS / "scripts" / folder).glob("*.py"))
WRITTEN = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"guide", "gallery", "reports"} & set(path.relative_to(DOCS).parts)
]
PAGES = [
    path
    for path in [ROOT / "README.md", *WRITTEN]
    if "```python" in path.read_text(encoding="utf-8") and path.name != "examples.md"  # other packages: make peers
]
# What an example needs beyond the package: where it is not installed the example is shown as skipped.
NEEDS = {
    "deployment": ["onnxruntime", "onnx"],
    "dask_cluster": ["distributed"],
    "many_rows": ["dask.array"],
    "scaling_and_tables": ["narwhals", "pandas"],
    "time_series": ["narwhals", "pandas"],
    "interpretation": ["pandas"],
    "mixed_tables": ["pandas"],
    "explaining_components": ["pandas"],
}


# Sizes that only take time: the tests run these scripts on fewer rows.
SMALLER = {"n_rows = 1_000_000": "n_rows = 120_000", "np.linspace(0, 90, 24)": "np.linspace(0, 90, 6)"}


@pytest.fixture
def shown(monkeypatch):
    """Figures that a script shows, counted and closed; no file of the repository can be imported."""
    monkeypatch.delenv("KERNELSIEVE_DATA", raising=False)
    monkeypatch.setenv("MPLBACKEND", "agg")
    inside = [entry for entry in sys.path if str(ROOT / "docs") in str(Path(entry or ".").resolve())]
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in inside])
    plt.switch_backend("agg")
    drawn: list[int] = []

    def show():
        drawn.extend(plt.get_fignums())
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    with threadpool_limits(1), plt.rc_context():  # small sums on many threads cost more than they save
        yield drawn
    plt.close("all")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_downloaded_script_runs_in_an_empty_folder(script, shown, monkeypatch, tmp_path):
    for package in NEEDS.get(script.stem, ()):
        pytest.importorskip(package)
    text = script.read_text(encoding="utf-8")
    for full, small in SMALLER.items():
        text = text.replace(full, small)
    monkeypatch.chdir(tmp_path)
    download = tmp_path / script.name
    download.write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error", KernelWarning)  # a page shows a warning on purpose or not at all
        runpy.run_path(str(download), run_name="__main__")
    assert shown or "plt" not in text, "no picture was shown"
    assert not plt.get_fignums(), "a picture was drawn and not shown"
    assert [path.name for path in tmp_path.iterdir()] == [script.name], "files were left behind"


def code_of(script):
    """The lines of a script that a page shows as code."""
    return [line for line in script.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("page", [*SCRIPTS, *PAGES], ids=lambda path: path.stem)
def test_code_on_a_page_is_at_most_80_columns_wide(page):
    lines = code_of(page) if page.suffix == ".py" else "\n".join(blocks_of(page)).splitlines()
    assert not [line for line in lines if len(line) > 80]


def test_every_script_has_its_place_in_the_order_of_pages(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    assert {path.stem for path in SCRIPTS} == set(importlib.import_module("page_order").ORDER)


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    yield importlib.import_module("figures")
    sys.modules.pop("figures", None)


def test_the_version_to_cite_is_the_version_of_the_package():
    assert f"version = {{{kernelsieve.__version__}}}" in (DOCS / "citing.md").read_text(encoding="utf-8")


def test_the_readme_shows_the_figures_of_the_last_benchmarks(figures):
    text = figures.README.read_text(encoding="utf-8")
    assert text == figures.filled_readme(text, figures.figures())


def test_a_figure_is_the_number_in_its_line_of_the_results(figures):
    results = "# x\n\n## Fit\n\n| what | target | measured | |\n|---|---|---|---|\n"
    results += "| MNIST-10000, m = 50: faster | >= 12 | 27.0x (107 ms; KernelPCA 2.88 s) | ok |\n"
    places = {name: figures.PLACES[name] for name in ("fit_10000", "fit_10000_exact")}
    figures.PLACES = places
    assert figures.from_results(results) == {"fit_10000": "0.11 s", "fit_10000_exact": "2.9 s"}
    figures.PLACES = {**places, "gone": ("Fit", "no such line", "x")}
    with pytest.raises(KeyError, match="gone"):
        figures.from_results(results)


@pytest.mark.parametrize("page", ["index.md", "scale.md", "export.md", "results/mnist.md"])
def test_pages_take_measured_times_from_the_results(page, figures):
    text = (DOCS / page).read_text(encoding="utf-8")
    known = figures.figures()
    used = set(re.findall(r"\{\{ *(\w+) *\}\}", text)) | set(re.findall(r"_parts/(\w+)", text))
    assert used, "no figure is filled in"
    assert used - {"costs", "peers"} <= set(known)
    outside = re.sub(r"\{\{.*?\}\}", "", text)
    tables = [line for line in outside.splitlines() if line.startswith("|")]
    assert not [line for line in tables if re.search(r"\d (s|ms|us)\b", line)]


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
    from kernelsieve.rules.registry import SELECTORS

    rules = dict(SELECTORS)
    if page.name == "export.md":
        pytest.importorskip("onnxruntime")
        write_sales_model()
    if page.name in ("command_line.md", "daily.md"):
        pytest.importorskip("polars")
        write_diamonds(Path("diamonds.csv"), 400, 0)
        write_diamonds(Path("new.csv"), 100, 1)
    try:
        for block in blocks_of(page):
            if "torch" in block and "torch" not in readers_names:
                continue
            exec(compile(block, str(page), "exec"), readers_names)
    finally:
        SELECTORS.clear()
        SELECTORS.update(rules)
    assert len(blocks_of(page)) >= 1


def test_the_c_program_of_the_export_page_prints_the_scores_of_transform(readers_names, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    page = DOCS / "export.md"
    (header,) = [block for block in blocks_of(page) if '"plant.h", "plant"' in block]
    exec(compile(header, str(page), "exec"), readers_names)
    (program,) = re.findall(r"^```c\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "main.c").write_text(program)
    subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "main.c", "-o", "main", "-lm"], check=True)
    said = subprocess.run(["./main"], input="0.5 -1 2", capture_output=True, text=True, check=True).stdout
    expected = readers_names["model"].transform([[0.5, -1, 2]])[0]
    assert [float(word) for word in said.split()[:2]] == pytest.approx(expected, abs=1e-5)


def write_diamonds(path, n_rows, seed):
    """A made table with the columns of ggplot2's diamonds."""
    rng = np.random.default_rng(seed)
    lines = ["carat,cut,color,clarity,depth,table,price,x,y,z"]
    for carat in rng.gamma(2, 0.4, n_rows) + 0.2:
        size = 6.5 * carat ** (1 / 3) * rng.normal(1, 0.02, 3) * (1, 1, 0.62)
        words = f"{rng.choice(['Fair', 'Good', 'Ideal'])},{rng.choice(list('DEF'))},{rng.choice(['SI1', 'VS2'])}"
        numbers = f"{rng.normal(62, 1.4):.1f},{rng.integers(53, 64)},{3000 * carat**1.7:.0f}"
        lines.append(f"{carat:.2f},{words},{numbers},{size[0]:.2f},{size[1]:.2f},{size[2]:.2f}")
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("name", "at_least"), [("command_line.md", 7), ("daily.md", 3)])
def test_the_commands_of_a_page_run(name, at_least, tmp_path, monkeypatch):
    testing = pytest.importorskip("typer.testing")
    pytest.importorskip("polars")
    pytest.importorskip("onnx")
    from kernelsieve.cli.commands import app

    monkeypatch.chdir(tmp_path)
    write_diamonds(tmp_path / "diamonds.csv", 1200, 0)
    write_diamonds(tmp_path / "new.csv", 300, 1)
    page = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\{console\}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    commands = [line for line in "".join(blocks).replace("\\\n", "").splitlines() if line.startswith("kernelsieve ")]
    assert len(commands) >= at_least
    for command in commands:
        result = testing.CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code in (0, 3), (command, result.output)  # 3: the monitor raised an alarm


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


METHOD_PAGES = sorted((DOCS / "methods").glob("*.md"))
NUMBER_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|ninety|hundred"
QUOTED = re.compile(r"\{\{\s*(\w+)\.(\w+)\s*\}\}")


def results_in_the_text(text):
    """Numbers of a page that no build fills in: what is left besides code, formulas, links, years and references."""
    text = text.split("\n## Cite")[0]
    text = re.sub(r"```.*?```|\$\$.*?\$\$", " ", text, flags=re.DOTALL)
    code = re.findall(r"`[^`]*`", text)
    text = re.sub(r"`[^`]*`|\{\{[^}]*\}\}|\]\([^)]*\)", " ", text)
    formulas = re.findall(r"\$[^$]*\$", text)
    text = re.sub(r"\$[^$]*\$", " ", text)
    # code of digits alone, a formula that is only a number, and one that sets something equal to a decimal
    faults = [each for each in code if re.fullmatch(r"`[-+\s]*\.?\d(?:[\d.,:/%\s-]|to)*`", each)]
    number = r"\$\s*[-+]?\.?\d[\d.,]*\s*(?:\\?%)?\s*\$|.*(?:[=<>]|\\approx|\\le|\\ge)\s*[-+]?\d*\.\d.*"
    faults += [each for each in formulas if re.fullmatch(number, each, flags=re.DOTALL)]
    text = re.sub(
        r"\b(Tables?|Figs?\.|Algorithm|Theorems?|sections?|slides?|equations?)"
        r"(\s+(and\s+|to\s+)?\(?\d+(\.\d)?(?!\d)\)?,?)+",
        " ",
        text,
    )
    text = re.sub(r"\(\d+\)|\b(19|20)\d\d\b|^\s*\d+\.\s", " ", text, flags=re.MULTILINE)  # equations, years, lists
    faults += re.findall(r"(?<![\w-])[-+]?\.?\d[\d.,]*\s*%?", text)
    faults += re.findall(rf"\b(?:{NUMBER_WORDS}) (?:of|to|in) (?:the )?(?:{NUMBER_WORDS})\b", text)
    faults += re.findall(rf"\b(?:{NUMBER_WORDS}) (?:per cent|percent|times|degrees|nonzeros)\b", text)
    return faults + re.findall(rf"\b(?:a|{NUMBER_WORDS}) (?:third|quarter|fifth|sixth|eighth|tenth)s?\b", text)


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda path: path.stem)
def test_a_method_page_holds_no_result_in_its_own_text(page):
    assert results_in_the_text(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "pink .675 against .542",
        "it keeps 99 % of it",
        "after 2 to 5 passes",
        "exactly nine for one of ten seeds",
        "the error is $.106$ at ten",
        "68 times faster",
        "| PCA | 89 |",
        "pink `.675` against `.542`",
        "the error is $r = .106$ at ten",
        "Algorithm 1 has .989 and Table 8.675",
        "a tenth of the rows",
        "five times faster, for ninety per cent of them",
    ],
)
def test_a_result_in_the_text_of_a_page_is_seen(sentence):
    assert results_in_the_text(f"# Page\n\n{sentence}\n\n## Cite\n\nA, B. (2000). 10(3).")


def test_what_is_no_result_may_stand_in_a_page():
    text = """Table 8 and Figs. 1 and 2 of Xu et al. (2011), equation (10), Tables 2 to 7, sections 3 and 5, {{ a.b }}
of them, `m=50`, $m = 10$, $O(n^2)$, R1-PCA, l1, T2, [link](https://example.org/1).

1. First.
"""
    assert results_in_the_text(text) == []


CLAIMS = "# What the paper claims, and what we found\n"
PAPER_SCRIPTS = [script for script in SCRIPTS if CLAIMS in script.read_text(encoding="utf-8")]


@pytest.mark.parametrize("script", PAPER_SCRIPTS, ids=lambda path: path.stem)
def test_what_a_gallery_page_says_of_a_paper_holds_no_result(script):
    said = script.read_text(encoding="utf-8").split(CLAIMS)[1]
    lines = [line.removeprefix("# ") for line in said.splitlines() if line.startswith("# ") and "%%" not in line]
    assert lines
    assert results_in_the_text("\n".join(lines)) == []


def test_every_number_that_a_page_quotes_was_recorded(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    facts = importlib.import_module("reports").recorded_facts(DOCS)
    for page in DOCS.rglob("*.md"):
        for experiment, name in QUOTED.findall(page.read_text(encoding="utf-8")):
            assert name in facts.get(experiment, {}), f"{page.name}: {{{{ {experiment}.{name} }}}}"


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
