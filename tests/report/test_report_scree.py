"""How much: spectra, shares and widths against exact kernel PCA."""

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA
from kernelsieve.report import choices
from kernelsieve.report.model_view import ModelView, reader_of


@pytest.fixture(scope="module")
def subject(model, clusters):
    return ModelView.of(model, clusters[0][:200], 0)


def exact(rows, gamma, n_components):
    return KernelPCA(n_components, kernel="rbf", gamma=gamma, eigen_solver="dense").fit(rows)


def test_scree_is_exact_kernel_pca_of_the_sample(subject):
    found = choices.scree(subject, reader_of(subject))
    rows = subject.sample
    truth = exact(rows, subject.model.gamma_, None).eigenvalues_
    gram = np.exp(-subject.model.gamma_ * ((rows[:, None] - rows) ** 2).sum(axis=2))
    total = np.trace(gram) - gram.mean(axis=0).sum()
    np.testing.assert_allclose(found.shares, truth[: len(found.shares)] / total, rtol=1e-8)
    assert found.n_rows == 200


def test_components_rise_above_the_band_where_columns_go_together(clusters):
    rng = np.random.default_rng(1)
    apart = rng.standard_normal((300, 6))
    together = rng.standard_normal((300, 1)) + 0.3 * rng.standard_normal((300, 6))
    for rows, least, most in ((apart, 0, 1), (together, 1, 4)):
        model = SparseKernelPCA(3, n_support=20, random_state=0).fit(rows)
        subject = ModelView.of(model, rows, 0)
        found = choices.scree(subject, reader_of(subject))
        assert least <= found.n_above <= most
        assert np.all(found.low <= found.high)


def test_shuffling_keeps_each_column_and_the_codes_of_a_class_together(pipeline, table):
    subject = ModelView.of(pipeline, table, 0)
    reader = reader_of(subject)
    rows = subject.sample[:100]
    mixed = choices._shuffled(rows, reader, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(mixed, axis=0), np.sort(rows, axis=0))
    assert np.all(mixed[:, 3:5].sum(axis=1) == 1)  # one-hot
    assert np.all(mixed[:, 5:7].sum(axis=1) == 1)
    assert not np.array_equal(mixed[:, 5], rows[:, 5])


def test_captured_curve_goes_through_the_model_itself(model, subject):
    found = choices.captured(subject)
    assert found[model.n_support_] == model.captured_ratio_
    assert min(found) == 3  # two components, centred
    assert list(found) == sorted(found)
    assert found[max(found)] > found[3]


def test_numbers_that_auto_tried_are_on_the_curve(clusters):
    model = SparseKernelPCA(2, random_state=0).fit(clusters[0])
    found = choices.captured(ModelView.of(model, clusters[0], 0))
    for size, share in model.selection_report_["curve"]:
        assert found[size] == pytest.approx(share)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_another_width_is_kernel_pca_with_another_gamma(subject, factor):
    found = {width.factor: width for width in choices.widths(subject, np.arange(200))}
    gamma = subject.model.gamma_ / factor**2
    assert found[factor].gamma == pytest.approx(gamma)
    truth = exact(subject.sample, gamma, 2)
    scores = truth.transform(subject.sample)
    assert choices.agree(found[factor].scores, scores) > 0.99
    rows = subject.sample
    gram = np.exp(-gamma * ((rows[:, None] - rows) ** 2).sum(axis=2))
    total = np.trace(gram) - gram.mean(axis=0).sum()
    assert found[factor].explained == pytest.approx(truth.eigenvalues_.sum() / total, rel=0.02)


def test_the_fitted_width_shows_the_model_itself(subject):
    found = [width for width in choices.widths(subject, np.arange(50)) if width.factor == 1.0]
    np.testing.assert_array_equal(found[0].scores, subject.scores[:50])


def test_no_component_turns_over_from_one_width_to_the_next(subject):
    for width in choices.widths(subject, np.arange(200)):
        assert np.all(np.sum(width.scores * subject.scores, axis=0) >= 0)


def test_agreement_is_one_for_a_rotation_and_small_for_noise():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((500, 3))
    turn, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    assert choices.agree(scores, scores @ turn + 5.0) == pytest.approx(1.0)
    assert choices.agree(scores, rng.standard_normal((500, 3))) < 0.05
    assert choices.agree(scores, np.zeros((500, 3))) == 0.0


@pytest.mark.parametrize("kernel", ["linear", "cosine"])
def test_kernels_without_a_width_have_none_tried(clusters, kernel):
    model = SparseKernelPCA(2, kernel=kernel, n_support=8, random_state=0).fit(clusters[0])
    assert choices.widths(ModelView.of(model, clusters[0], 0), np.arange(10)) == []


def test_few_rows_have_no_scree_and_no_widths(model, clusters):
    subject = ModelView.of(model, clusters[0][:3], 0)
    assert choices.scree(subject, reader_of(subject)) is None
    assert choices.widths(subject, np.arange(3)) == []


def test_a_laplacian_kernel_scales_with_the_width_itself(clusters):
    model = make_pipeline(StandardScaler(), SparseKernelPCA(2, kernel="laplacian", n_support=12, random_state=0))
    model.fit(clusters[0][:, :4])
    found = choices.widths(ModelView.of(model, clusters[0][:, :4], 0), np.arange(10))
    gammas = {width.factor: width.gamma for width in found}
    assert gammas[0.5] == pytest.approx(2 * gammas[1.0])
