"""Kernels that are not positive semi-definite: right, or refused in words that say so."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from oracles import exact_kernel_pca
from sklearn.metrics.pairwise import polynomial_kernel, sigmoid_kernel

from kernelsieve import (
    DissimilarityKernelPCA,
    ElasticNetKernelPCA,
    ImprovedKernelPCA,
    KernelFeatureAnalysis,
    LikelihoodKernelPCA,
    OnlineKernelPCA,
    RobustSparseKernelPCA,
    SparseKernelPCA,
)
from kernelsieve.kernels import Levenshtein

POSITIVE_PART_ONLY = (
    KernelFeatureAnalysis,
    LikelihoodKernelPCA,
    ElasticNetKernelPCA,
    DissimilarityKernelPCA,
    ImprovedKernelPCA,
    RobustSparseKernelPCA,
)
STRONGLY = {"kernel": "poly", "degree": 2, "coef0": -1, "gamma": 0.25}
SOMEWHAT = [
    STRONGLY,
    {"kernel": "poly", "degree": 2, "coef0": -0.3, "gamma": 0.25},
    {"kernel": "poly", "degree": 1.5, "coef0": 0, "gamma": 0.25},
    {"kernel": "sigmoid", "coef0": 0.5, "gamma": 0.2},
]


@pytest.fixture(scope="module")
def rows():
    return np.abs(np.random.default_rng(0).standard_normal((150, 4)))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("options", SOMEWHAT, ids=str)
@pytest.mark.parametrize("estimator", POSITIVE_PART_ONLY)
@pytest.mark.filterwarnings("ignore")
def test_explained_variance_is_that_of_the_scores(estimator, options, center, rows):
    """The span is that of the positive part, and scores are made of all kernel values: they differed by 40 %."""
    model = estimator(1, center=center, random_state=0, **options)
    if estimator is RobustSparseKernelPCA:
        weights = model.fit(rows).weights_
    else:
        weights = np.linspace(0.5, 1.5, len(rows))
        model.fit(rows, sample_weight=weights)
    scores = model.transform(rows)
    away = scores - np.average(scores, axis=0, weights=weights) if center else scores
    truth = np.average(away**2, axis=0, weights=weights)
    np.testing.assert_allclose(model.explained_variance_, truth, rtol=1e-8)
    assert 0 < model.explained_variance_ratio_.sum() < 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [one for one in POSITIVE_PART_ONLY if one is not LikelihoodKernelPCA])
def test_components_that_go_with_the_negative_part_are_refused_by_name(estimator):
    rows = np.random.default_rng(0).standard_normal((300, 4))
    with pytest.raises(ValueError, match=r"n_components=8 is too many: the kernel is not positive semi-definite"):
        estimator(8, **STRONGLY).fit(rows)


NO_LENGTH = [
    (SparseKernelPCA, {}, 0.98),
    (SparseKernelPCA, {"n_support": 20}, 0.9),
    (SparseKernelPCA, {"n_support": 30, "selection": "uniform"}, 0.9),
    (OnlineKernelPCA, {}, 0.98),
    (OnlineKernelPCA, {"rule": "hebbian"}, 0.98),
]


@pytest.mark.parametrize(
    ("options", "gram"),
    [
        ({"kernel": "sigmoid", "coef0": -1, "gamma": 0.02}, lambda X: sigmoid_kernel(X, gamma=0.02, coef0=-1)),
        ({"kernel": "sigmoid", "coef0": -3, "gamma": 0.1}, lambda X: sigmoid_kernel(X, gamma=0.1, coef0=-3)),
        (
            {"kernel": "poly", "degree": 3, "coef0": -3, "gamma": 0.05},
            lambda X: polynomial_kernel(X, degree=3, gamma=0.05, coef0=-3),
        ),
    ],
    ids=["sigmoid -1", "sigmoid -3", "poly -3"],
)
@pytest.mark.parametrize(
    ("estimator", "asked", "least"), NO_LENGTH, ids=["auto", "20", "30 uniform", "online", "hebbian"]
)
def test_a_kernel_without_a_positive_length_has_components_all_the_same(estimator, asked, least, options, gram):
    """k(x, x) < 0 for all rows or nearly all: the centred gram has a positive part, which was refused."""
    rows = np.random.default_rng(0).standard_normal((200, 4))
    values = gram(rows)
    assert np.median(np.diagonal(values)) < 0
    truth = exact_kernel_pca(values, 2)[0] / len(rows)
    with pytest.warns(UserWarning, match=r"not positive semi-definite on these rows: \d\d(\.\d)?% of") as caught:
        model = estimator(2, random_state=0, **asked, **options).fit(rows)
    assert 1 - np.abs(model.explained_variance_ - truth).sum() / truth.sum() > least
    np.testing.assert_allclose(np.var(model.transform(rows), axis=0), model.explained_variance_, rtol=1e-6)
    assert not any(re.search(r"nearly constant|e\+", str(one.message)) for one in caught)


def test_points_beside_which_rows_are_not_positive_do_not_count_as_better_than_exact():
    """A kernel may be positive on the rows and not beside centres of them, which then vary more than exact's."""
    for seed in range(12):
        rows = np.random.default_rng(seed).standard_normal((12, 25))
        model = SparseKernelPCA(2, kernel="sigmoid", n_support=6, selection="kmeans", random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows)
        truth = exact_kernel_pca(sigmoid_kernel(rows, gamma=model.gamma_, coef0=1), 2)[0] / len(rows)
        agreement = 1 - np.abs(model.explained_variance_ - truth).sum() / truth.sum()
        assert model.captured_ratio_ == pytest.approx(max(agreement, 0), abs=1e-6)


def test_targeted_rows_of_an_indefinite_kernel_are_chosen_to_the_last():
    """Its residuals become negative before there are enough rows; the others were drawn at random."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("acgt"), rng.integers(4, 16))) for _ in range(600)]
    column = np.array(words, dtype=object)[:, None]
    gram = Levenshtein(8.0)(column, column)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=0)[:, None] + gram.mean()
    exact = np.linalg.eigvalsh(centred)[-4:].sum() / len(words)
    options = {"n_support": 80, "kernel": Levenshtein(8.0), "max_evaluations": None}
    targeted, random = (
        SparseKernelPCA(4, selection=rule, random_state=0, **options).fit(words) for rule in ("targeted", "uniform")
    )
    assert len(targeted.selection_report_["unexplained"]) == 80
    missed = [1 - model.explained_variance_.sum() / exact for model in (targeted, random)]
    assert missed[0] < 0.6 * missed[1], missed
