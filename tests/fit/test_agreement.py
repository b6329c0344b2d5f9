"""component_agreement_: what each component is worth, against exact kernel PCA by scikit-learn."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest
from oracles import gram_of
from scipy.sparse.linalg import eigsh
from sklearn.datasets import load_digits

import kernelsieve
from kernelsieve import ElasticNetKernelPCA, KernelPCA, RobustSparseKernelPCA, SparseKernelPCA
from kernelsieve.errors import PoorComponentsWarning
from kernelsieve.fit.agreement import AGREEMENT, Agreement, agreement_of_scores, agreement_on_all, rows_for_agreement
from kernelsieve.fit.sample import Sample
from kernelsieve.kernels import named_kernel
from kernelsieve.rows.sampling import sample_rows


def exact_scores(X, gamma, n_components, weights=None):
    """(N, M) scores of exact kernel PCA, to a factor, times the root of the weights."""
    K, share = gram_of("rbf", X, gamma=gamma), np.ones(len(X)) if weights is None else weights
    share = share / share.sum()
    mean = share @ K
    K = K - mean - mean[:, None] + share @ mean
    root = np.sqrt(share)
    start = np.random.default_rng(0).standard_normal(len(X))
    return eigsh(root[:, None] * K * root, n_components, which="LA", v0=start)[1][:, ::-1]


def correlations(scores, exact, weights=None):
    share = np.ones(len(scores)) / len(scores) if weights is None else weights / weights.sum()
    scores = np.sqrt(share)[:, None] * (scores - share @ scores)
    return np.abs(np.sum(scores * exact, axis=0)) / np.linalg.norm(scores, axis=0)


def table(name):
    rng = np.random.default_rng(3)
    if name == "digits":
        return load_digits().data / 16
    if name == "heavy":
        return rng.standard_t(2, (2300, 3)) @ rng.standard_normal((3, 6)) + 0.3 * rng.standard_t(2, (2300, 6))
    return rng.standard_normal((2300, 5))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "gamma"), [("digits", 0.02), ("heavy", 0.02), ("normal", 0.01), ("normal", 0.6)])
def test_the_agreement_of_every_component_is_that_with_exact_kernel_pca(name, gamma):
    X = table(name)
    exact = exact_scores(X, gamma, 15)
    for n_components, n_support in ((3, 5), (15, 17), (15, 60)):
        model = SparseKernelPCA(n_components, n_support=n_support, gamma=gamma, random_state=0).fit(X)
        scores = model.transform(X)
        truth = correlations(scores, exact[:, :n_components])
        assert model.component_agreement_ == pytest.approx(truth, abs=0.02)
        basis = np.linalg.qr(scores - scores.mean(axis=0))[0]
        smallest = np.linalg.svd(basis.T @ exact[:, :n_components], compute_uv=False)[-1]
        assert model.subspace_agreement_ == pytest.approx(smallest, abs=0.02)


def test_weights_count(cloud):
    weights = np.random.default_rng(0).integers(0, 5, len(cloud)).astype(float)
    model = SparseKernelPCA(3, n_support=6, gamma=0.3, random_state=0).fit(cloud, sample_weight=weights)
    truth = correlations(model.transform(cloud), exact_scores(cloud, 0.3, 3, weights), weights)
    assert model.component_agreement_ == pytest.approx(truth, abs=1e-4)
    assert model.component_agreement(cloud, weights).components == pytest.approx(truth, abs=1e-4)


def test_exact_kernel_pca_agrees_with_itself(cloud):
    model = KernelPCA(3, kernel="rbf", gamma=0.3).fit(cloud)
    assert np.array_equal(model.component_agreement_, np.ones(3))
    assert model.component_agreement(cloud).components == pytest.approx(np.ones(3))
    assert SparseKernelPCA(3, n_support=len(cloud), gamma=0.3).fit(cloud).subspace_agreement_ == 1.0


def test_it_is_measured_while_the_rows_are_there_and_then_kept(tmp_path):
    X, path = table("normal"), tmp_path / "model.ks"
    model = SparseKernelPCA(3, n_support=12, random_state=0).fit(X)
    model.save(path)
    for again in (kernelsieve.load(path), pickle.loads(pickle.dumps(model))):
        with pytest.raises(AttributeError, match=r"component_agreement\(X\)"):
            _ = again.component_agreement_
        assert again.component_agreement(X).subspace == pytest.approx(model.subspace_agreement_, abs=1e-6)
    model.save(path)
    for again in (kernelsieve.load(path), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.component_agreement_, model.component_agreement_)
    model.fit(X[:1900].copy())
    assert model.component_agreement_.shape == (3,)  # of few rows it is known from the fit
    del X
    model.fit(table("normal"))
    assert not hasattr(model, "component_agreement_")


def test_rows_that_changed_after_the_fit_measure_nothing():
    X = table("normal")
    model = SparseKernelPCA(3, n_support=12, random_state=0).fit(X)
    X *= 2
    with pytest.raises(AttributeError, match="changed since fit"):
        _ = model.component_agreement_


def test_rows_of_every_kind():
    X = table("normal")
    fitted = SparseKernelPCA(3, n_support=12, gamma=0.1, random_state=0).fit(X)
    truth = fitted.component_agreement_
    blocks = fitted.component_agreement([X[:1000], X[1000:]])
    assert blocks.components == pytest.approx(truth, abs=1e-6)
    assert fitted.component_agreement(X.astype(np.float32)).components == pytest.approx(truth, abs=1e-3)
    K = gram_of("rbf", X, gamma=0.1)
    rows = SparseKernelPCA(3, n_support=12, kernel="precomputed", random_state=0).fit(K)
    exact = exact_scores(X, 0.1, 3)
    assert rows.component_agreement_ == pytest.approx(correlations(rows.transform(K), exact), abs=0.01)
    with pytest.raises(ValueError, match="square gram"):
        rows.component_agreement(K[:5])
    few = X[:700]
    own = SparseKernelPCA(3, n_support=12, kernel=lambda a, b: gram_of("rbf", a, b, gamma=0.1), random_state=0).fit(few)
    truth = correlations(own.transform(few), exact_scores(few, 0.1, 3))
    assert own.component_agreement(few).components == pytest.approx(truth, abs=0.01)


def test_a_stream_measures_it_on_the_rows_that_it_keeps():
    X = table("normal")
    model = SparseKernelPCA(3, n_support=12, gamma=0.1, random_state=0)
    for start in range(0, len(X), 500):
        model.partial_fit(X[start : start + 500])
    truth = correlations(model.transform(X), exact_scores(X, 0.1, 3))
    assert model.component_agreement_ == pytest.approx(truth, abs=0.01)
    before = model.component_agreement_
    model.partial_fit(3 * X[:500])
    assert not np.array_equal(model.component_agreement_, before)


def test_other_estimators_have_it(cloud):
    for model in (ElasticNetKernelPCA(2, alpha=0.1, gamma=0.3), RobustSparseKernelPCA(2, random_state=0)):
        model.fit(cloud)
        assert np.all((model.component_agreement_ >= 0) & (model.component_agreement_ <= 1))


def test_a_component_that_is_mostly_something_else_is_told_of():
    X = table("normal")[:1500]
    with pytest.warns(PoorComponentsWarning, match=r"component.* mostly not what exact kernel PCA gives.*n_support"):
        model = SparseKernelPCA(20, n_support=22, gamma=0.1, random_state=0).fit(X)
    assert model.component_agreement_.min() < 0.7


@pytest.mark.parametrize(
    ("components", "subspace", "words"),
    [
        ([0.9, 0.71, 0.8], 0.2, None),  # more than half of the variance is shared
        ([0.9, 0.70, 0.8], 0.2, r"^component 2 is mostly not .*agreement 0\.70.*give more points"),
        ([0.1, 0.9, 0.2], 0.94, r"^components 1, 3 are mostly not .*agreement 0\.10.*give more points"),
        ([0.1] * 5, 0.95, r"^components 1, 2, 3, 4, 5 are mostly not .*all components together are \(agreement 0\.95"),
        ([0.1] * 7, 1.0, r"^components 1, 2, 3, 4, 5 and 2 more are mostly not .*have traded places"),
    ],
)
def test_the_warning_names_the_components_that_share_less_than_half_of_their_variance(components, subspace, words):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Agreement(np.array(components), subspace, 100).warn()
    assert len(told) == (words is not None)
    if words is not None:
        assert re.search(words, str(told[0].message))


def test_auto_keeps_what_agreement_asks_for():
    X = table("normal")
    free = SparseKernelPCA(10, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        least = free.component_agreement_.min()
    model = SparseKernelPCA(10, agreement=0.99, random_state=0).fit(X)
    assert least < 0.95  # what is asked for is more than what comes unasked
    assert model.n_support_ > free.n_support_
    assert correlations(model.transform(X), exact_scores(X, model.gamma_, 10)).min() >= 0.988
    with pytest.raises(ValueError, match="n_support='auto'"):
        SparseKernelPCA(10, n_support=20, agreement=0.99).fit(X)


def test_agreement_of_scores_is_correlation_and_the_smallest_canonical_one():
    """By numpy, with weights, with and without centring; where exact components are missing, or scores dependent."""
    rng = np.random.default_rng(0)
    shares, exact = rng.dirichlet(np.ones(50)), rng.standard_normal((50, 3))
    exact -= shares @ exact
    left, sizes, _ = np.linalg.svd(np.sqrt(shares)[:, None] * exact, full_matrices=False)
    exact = left * sizes / np.sqrt(shares)[:, None]  # uncorrelated
    scores = exact @ rng.standard_normal((3, 3)) + rng.standard_normal((50, 3)) + 2
    for center in (True, False):
        about = np.sqrt(shares)[:, None] * (scores - (shares @ scores if center else 0))
        cosines = [abs(about[:, k] @ left[:, k]) / np.linalg.norm(about[:, k]) for k in range(3)]
        found, smallest = agreement_of_scores(scores, exact, shares, center=center)
        assert found == pytest.approx(cosines)
        assert smallest == pytest.approx(np.linalg.svd(np.linalg.qr(about)[0].T @ left, compute_uv=False)[-1])
        fewer, none = agreement_of_scores(scores, exact[:, :2], shares, center=center)
        assert fewer == pytest.approx([*cosines[:2], 0])
        assert none == 0
    scores[:, 2] = scores[:, 0] - 2 * scores[:, 1]
    assert agreement_of_scores(scores, exact, shares, center=False)[1] == 0
    same, one = agreement_of_scores(2 * exact, exact, shares, center=True)
    assert same == pytest.approx(np.ones(3))
    assert same.max() <= 1
    assert 1 - 1e-12 < one <= 1
    scores[:, 2] = 0
    assert agreement_of_scores(scores, exact, shares, center=True)[0][2] == 0


def test_agreement_is_measured_on_as_many_rows_as_the_work_on_their_pairs_allows():
    kernel, M = named_kernel("rbf", gamma=0.3), 4
    for n_features in (3, 1000):
        n = rows_for_agreement(kernel, n_features, M)
        each = n_features + AGREEMENT.start_components + AGREEMENT.start_components_per_component * M
        each += AGREEMENT.kernel_cost
        assert n**2 * each <= AGREEMENT.max_pair_work < (n + 1) ** 2 * each
    assert rows_for_agreement(named_kernel("precomputed"), 1000, M) == rows_for_agreement(kernel, 0, M)
    assert 10_000 < rows_for_agreement(kernel, 3, M) < 20_000  # a second or two


def test_nothing_is_told_apart_where_components_have_hardly_any_variance(cloud):
    """Of exact components below a thousandth of the largest variance, the fit may have found the sum alone."""
    flat = cloud * [1, 1e-3, 1e-3, 1e-3, 1e-3]
    for X, known in ((cloud, True), (flat, False)):
        model = KernelPCA(2, kernel="linear").fit(X)
        sample = Sample.of(
            sample_rows(X, 10**6, np.random.default_rng(0), None, merge=True), named_kernel("linear"), 2, center=True
        )
        found = agreement_on_all(model.expansion_, sample.evaluation)
        assert (found is not None) is known
    assert found is None
