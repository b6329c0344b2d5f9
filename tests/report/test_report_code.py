"""The code on the page makes the same model."""

import numpy as np
import pytest
from report_tables import encoder, sales
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelsieve
from kernelsieve import ElasticNetKernelPCA, KernelPCA, LikelihoodKernelPCA, SparseKernelPCA
from kernelsieve.report import code as recipe
from kernelsieve.report.model_view import ModelView
from kernelsieve.report.page_data import Options

SHOWN = 'kernelsieve.report(model, X).save("report.html")'


def scores_of_code(model, X, source=None):
    code = recipe.code(ModelView.of(model, X, 0), Options(source=source))
    names = {}
    code = code.replace("X = ...  # your table", "").replace(SHOWN, "")
    exec(code, names if source else (names := {"X": X}))
    return np.asarray(names["scores"])


@pytest.mark.parametrize(
    "estimator",
    [
        SparseKernelPCA(3, n_support=12, gamma=0.2, center=False, random_state=5),
        SparseKernelPCA(2, kernel="poly", degree=2, coef0=0.5, selection="targeted", random_state=0),
        KernelPCA(2, kernel="rbf", gamma=0.1),
        ElasticNetKernelPCA(2, alpha=[0.1, 0.2]),
        LikelihoodKernelPCA(random_state=0),
        make_pipeline(StandardScaler(with_mean=False), SparseKernelPCA(2, random_state=1)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_code_gives_the_same_scores(estimator, clusters):
    X = clusters[0][:150, :4]
    fitted = estimator.fit(X)
    np.testing.assert_allclose(scores_of_code(fitted, X), fitted.transform(X), atol=1e-10)


def test_the_code_rebuilds_nested_steps():
    table = sales(120)
    model = make_pipeline(encoder(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(table)
    np.testing.assert_allclose(scores_of_code(model, table), model.transform(table))


@pytest.mark.skipif("TableEncoder" not in kernelsieve.__all__, reason="TableEncoder is not in this version")
def test_the_code_reads_the_table(tmp_path):
    pytest.importorskip("polars")
    path = tmp_path / "it's a table.csv"
    sales(120).to_csv(path, index=False)
    frame = kernelsieve.read_table(path)
    model = make_pipeline(kernelsieve.TableEncoder(), SparseKernelPCA(2, random_state=0)).fit(frame)
    np.testing.assert_allclose(scores_of_code(model, frame, str(path)), model.transform(frame))


def test_chance_is_pointed_out(clusters):
    model = SparseKernelPCA(2, n_support=5).fit(clusters[0])
    assert "random_state=0" in recipe.code(ModelView.of(model, clusters[0], 0), Options())


def test_facts_say_how_the_fit_went(clusters):
    model = SparseKernelPCA(2, random_state=0).fit(clusters[0])
    facts = dict(recipe.facts(ModelView.of(model, clusters[0], 0), 1.5))
    assert facts["method"] == "SparseKernelPCA"
    assert facts["rows fitted"] == "400"
    assert facts["support points"] == str(model.n_support_)
    assert facts["kernel"] == f"rbf with gamma = {model.gamma_:.4g}"
    assert facts["time to fit"] == "1.50 s"
    assert recipe.percent(model.captured_ratio_) in facts["kept of exact kernel PCA"]
