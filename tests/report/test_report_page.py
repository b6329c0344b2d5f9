"""The page as a file: what is in it, how large it is, and what cannot be reported on."""

import base64
import hashlib
import html
import json
import re

import numpy as np
import pytest
import scipy.sparse
from report_tables import needs_interpretation
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelsieve
from kernelsieve import SparseKernelPCA
from kernelsieve.report import page as library
from kernelsieve.report import page_data
from kernelsieve.rows.frames import as_column

EVIL = "</script><script>alert('x')</script><!-- \u2028 & \"quoted\" ñ 漢字 🎉 \ud800"


@pytest.fixture(scope="module")
def report(pipeline, table):
    return kernelsieve.report(pipeline, table, source="sales.csv", fit_seconds=0.2)


def contents_in(text):
    return json.loads(text.split('id="contents">')[1].split("</script>")[0])


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), dtype=np.dtype(packed["type"]).newbyteorder("<"))


def test_scores_in_the_page_are_the_scores(report, pipeline, table):
    scores = pipeline.transform(table)
    for place, one in enumerate(report.contents["scores"]):
        found = one["low"] + unpacked(one) * (one["high"] - one["low"]) / one["steps"]
        np.testing.assert_allclose(found, scores[:, place], atol=np.ptp(scores[:, place]) / 60_000)
    np.testing.assert_array_equal(unpacked(report.contents["rows"]), np.arange(300))


def test_columns_in_the_page_are_the_table(report, table):
    columns = {column["name"]: column for column in report.contents["columns"]}
    assert list(columns) == list(table.columns)
    np.testing.assert_allclose(unpacked(columns["price"]), table["price"], rtol=1e-6)
    assert [columns["size"]["levels"][code] for code in unpacked(columns["size"])] == table["size"].tolist()
    assert columns["weight"]["missing"] == 6
    assert columns["id"]["kind"] == "text"
    assert columns["id"]["texts"] == table["id"].tolist()
    assert [columns[name]["used"] for name in table.columns] == [False, True, True, True, True, False]


def test_every_section_has_something_to_show(report):
    shown = report.contents
    for section in ("scree", "captured", "widths", "odd", "points", "handling", "facts", "code"):
        assert shown[section], section
    assert shown["title"] == "sales.csv"


@needs_interpretation
def test_what_components_mean_is_in_the_page(report):
    shown = report.contents
    assert shown["sensitivity"]["columns"][0] in ("price", "weight", "size")
    assert [len(walk["positions"]) for walk in shown["walks"]] == [7, 7]


def test_handling_and_odd_rows_are_in_the_page(report):
    shown = report.contents
    assert ["left out", "id, sold"] in [list(pair) for pair in shown["handling"]]
    assert shown["odd"]["cards"][0]["row"] == 7
    assert shown["odd"]["cards"][0]["columns"][0]["name"] == "price"
    assert "kernelsieve.read_table('sales.csv')" in shown["code"]


def test_the_page_needs_nothing_else(report):
    text = report.html
    assert contents_in(text) == json.loads(json.dumps(report.contents))
    assert len(text) < 2e6
    own = text.split("<script>")[0] + text.split('id="contents">')[1]
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", own)
    assert "@import" not in text
    assert "url(" not in own.replace("createObjectURL(", "")


def test_save_is_whole_or_not_at_all(report, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    report.save(path)
    assert path.read_text(encoding="utf-8") == report.html
    path.write_text("kept")
    with pytest.raises(OSError, match=r"no folder|No such file"):
        report.save(tmp_path / "none" / "report.html")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        report.save(path)
    assert path.read_text() == "kept"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_notebook_shows_it_in_a_frame(report):
    shown = report._repr_html_()
    inside = re.search(r'srcdoc="([^"]*)"', shown, re.DOTALL).group(1)
    assert html.unescape(inside) == report.html
    assert "300 of 300 rows" in repr(report)


def test_texts_of_the_table_cannot_become_markup(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((30, 2)), columns=[EVIL[:-1], "<img src=x onerror=alert(1)>"])
    model = SparseKernelPCA(2, n_support=5, random_state=0).fit(frame.to_numpy())
    made = kernelsieve.report(model, frame, title=EVIL, beside={EVIL: [EVIL, "ok"] * 15}, source=EVIL)
    made.save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("</script") == 3 == text.count("<script")
    assert "<img src=x" not in text
    assert contents_in(text)["columns"][0]["name"].startswith("</script>")


def test_the_policy_of_a_page_names_the_digests_of_its_scripts(report):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', report.html).group(1)
    scripts = re.findall(r"<script>(.*?)</script>", report.html, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert len(digests) == 2
    assert re.findall(r"'sha256-([^']*)'", policy) == digests
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy


def test_numbers_are_packed_as_small_as_they_can_be():
    def kind(values):
        return page_data.packed_column(as_column("x", np.asarray(values)), True)["type"]

    assert kind([1, 2, 300]) == "i2"
    assert kind([1, 2, 70_000]) == "i4"
    assert kind([1.5, 2.0]) == "f4"
    assert kind([1.0, np.nan]) == "f4"
    assert kind([1e300, 1.0]) == "f8"
    assert kind(np.array(["2020-01-01T10:00"], dtype="M8[s]")) == "f8"


def test_scores_that_are_all_the_same_are_packed():
    packed = page_data.packed_scores(np.full(4, 2.5))
    assert (packed["low"], packed["high"]) == (2.5, 2.5)
    assert unpacked(packed).tolist() == [0, 0, 0, 0]


def test_many_rows_are_drawn_at_random_with_the_odd_ones_among_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 20))
    X[[17, 49_999]] += 30
    model = SparseKernelPCA(5, n_support=20, random_state=0).fit(X)
    made = kernelsieve.report(model, X)
    rows = unpacked(made.contents["rows"])
    assert len(rows) == made.contents["n_shown"] == 5000
    assert {17, 49_999} <= set(rows)
    assert abs(rows.mean() - 25_000) < 1000
    assert len(made.html.encode()) < 5e6


@pytest.mark.parametrize("max_rows", [1, 5, 100])
def test_no_more_rows_are_drawn_than_asked_for(model, clusters, max_rows):
    shown = kernelsieve.report(model, clusters[0], max_rows=max_rows).contents
    rows = unpacked(shown["rows"]).tolist()
    assert len(rows) == max_rows
    for card in shown["odd"]["cards"]:
        first, last = card["ranges"][0]
        assert card["n_rows"] > 1 or card["shown"] == ([rows.index(first)] if first in rows else [])
        assert last >= first


@pytest.mark.parametrize("shape", [(6000, 150), (500, 700)])
def test_wide_tables_stay_below_five_megabytes(shape):
    X = np.random.default_rng(0).standard_normal(shape) * np.linspace(0.1, 1, shape[1])
    model = SparseKernelPCA(12, n_support=20, selection="uniform", random_state=0).fit(X)
    made = kernelsieve.report(model, X)
    assert len(made.html.encode()) < 5e6
    assert len(made.contents["columns"]) == 60
    assert made.contents["n_columns_left_off"] == shape[1] - 60


def test_texts_stay_below_five_megabytes():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    texts = {f"text {k}": [f"{'漢字' * 30} {i} {k}" for i in range(5000)] for k in range(20)}
    frame = pd.DataFrame({"x": rng.standard_normal(5000), "y": rng.standard_normal(5000), **texts})
    model = make_pipeline(_numbers_only(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(frame)
    made = kernelsieve.report(model, frame)
    assert len(made.html.encode()) < 5e6
    assert made.contents["n_columns_left_off"] == 14


def test_many_columns_beside_stay_below_five_megabytes(model, clusters):
    rows = np.tile(clusters[0], (13, 1))[:5000]
    beside = {f"text {k}": [f"{'漢字' * 30} {i} {k}" for i in range(5000)] for k in range(30)}
    beside |= {f"number {k}": np.random.default_rng(k).random(5000) for k in range(50)}
    made = kernelsieve.report(model, rows, beside=beside)
    assert len(made.html.encode()) < 5e6
    assert [column["kind"] for column in made.contents["columns"]].count("text") == 6
    assert len(made.contents["columns"]) == 25


def _numbers_only():
    from sklearn.compose import make_column_transformer

    return make_column_transformer((StandardScaler(), ["x", "y"]))


def test_sparse_rows_and_pictures():
    X = scipy.sparse.random(120, 64, density=0.2, random_state=0, format="csr")
    model = SparseKernelPCA(2, n_support=6, random_state=0).fit(X)
    assert kernelsieve.report(model, X).contents["n_shown"] == 120
    shown = kernelsieve.report(model, X, image_shape=(8, 8)).contents
    assert shown["pictures"]["count"] == 120
    assert shown["points"]["pictures"]["count"] == 6
    assert shown["columns"] == []


def test_a_single_row_and_a_single_component(clusters):
    X = clusters[0]
    model = SparseKernelPCA(1, n_support=4, random_state=0).fit(X)
    assert kernelsieve.report(model, X[:1]).contents["n_shown"] == 1
    assert len(kernelsieve.report(model, X).contents["scores"]) == 1


def test_labels_beside_the_table(model, clusters):
    X, groups = clusters
    for beside in (groups, {"label": groups}, np.array(groups)[:, None]):
        assert unpacked(kernelsieve.report(model, X, beside=beside).contents["columns"][0]).tolist() == groups.tolist()
    with pytest.raises(ValueError, match="'group' has 3 values, X has 400 rows"):
        kernelsieve.report(model, X, beside={"group": [1, 2, 3]})


def test_what_cannot_be_reported_on_is_named(model, clusters, pipeline, table):
    X = clusters[0]
    with pytest.raises(NotFittedError, match="this SparseKernelPCA is not fitted yet"):
        kernelsieve.report(SparseKernelPCA(), X)
    with pytest.raises(TypeError, match=r"a fitted kernel estimator of kernelsieve.*not LogisticRegression"):
        kernelsieve.report(LogisticRegression(), X)
    with pytest.raises(TypeError, match="not StandardScaler"):
        kernelsieve.report(make_pipeline(StandardScaler()), X)
    with pytest.raises(ValueError, match="X has 3 columns, the model was fitted to 5"):
        kernelsieve.report(model, X[:, :3])
    with pytest.raises(ValueError, match="at least one row"):
        kernelsieve.report(model, X[:0])
    with pytest.raises(ValueError, match=r"image_shape=\(2, 2\) does not fit rows of 5 columns"):
        kernelsieve.report(model, X, image_shape=(2, 2))
    with pytest.raises(ValueError, match="max_rows=0"):
        kernelsieve.report(model, X, max_rows=0)
    with pytest.raises(ValueError, match=r"'id', 'cut', 'size'.*whole pipeline"):
        kernelsieve.report(pipeline[-1], table)
    gram = X @ X.T
    with pytest.raises(ValueError, match="precomputed kernel has no columns"):
        kernelsieve.report(SparseKernelPCA(2, kernel="precomputed", n_support=5).fit(gram), gram)


def test_missing_values_for_the_model_alone_are_an_error(model, clusters):
    X = clusters[0].copy()
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        kernelsieve.report(model, X)


def test_report_can_be_called_whatever_was_imported_first():
    import kernelsieve.report.page_data  # makes the package an attribute of kernelsieve

    assert callable(kernelsieve.report)


def test_the_chart_library_is_kept_and_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path)
    library.chart_library.cache_clear()
    script = library.chart_library()
    assert "vegaEmbed" in script
    (kept,) = tmp_path.iterdir()
    library.chart_library.cache_clear()
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda _: pytest.fail("made again"))
    assert library.chart_library() == script
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda _: "made again")
    kept.write_bytes(kept.read_bytes()[:-100])  # cut off
    library.chart_library.cache_clear()
    assert library.chart_library() == "made again"
    library.chart_library.cache_clear()


def test_a_cache_that_cannot_be_written_is_no_hindrance(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path / "file" / "folder")
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda _: "script")
    library.chart_library.cache_clear()
    assert library.chart_library() == "script"
    library.chart_library.cache_clear()
