"""OnlineKernelPCA: the published rules, held to their limits and to their papers' own formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from oracles import assert_same_up_to_sign, exact_kernel_pca, gram_of
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel

import kernelsieve
from kernelsieve import OnlineKernelPCA

RULES = ("coherence", "hebbian", "subset", "incremental")
GAMMA = 0.15


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    centers = 2 * rng.standard_normal((6, 4))
    return centers[rng.integers(6, size=400)] + 0.6 * rng.standard_normal((400, 4))


def model(rule, **options):
    return OnlineKernelPCA(**{"n_components": 3, "rule": rule, "gamma": GAMMA, "random_state": 0, **options})


def subset_kernel_pca(rows, points, weights=None, center=True):
    """Eigenvalues (as variances) and scores of the best components on given points, by numpy alone."""
    gram, cross = gram_of("rbf", points, gamma=GAMMA), gram_of("rbf", rows, points, gamma=GAMMA)
    features = np.linalg.solve(np.linalg.cholesky(gram), cross.T).T
    w = np.ones(len(rows)) if weights is None else weights
    if center:
        features = features - w @ features / w.sum()
    values, axes = np.linalg.eigh((features * w[:, None]).T @ features / w.sum())
    return values[::-1][:3], features @ axes[:, ::-1][:, :3]


# Kernels that are not positive semi-definite


INDEFINITE = [
    {"kernel": "poly", "coef0": 0, "degree": 1.5},
    {"kernel": "poly", "coef0": -0.2, "degree": 3},
    {"kernel": "poly", "coef0": -1, "degree": 3},
    {"kernel": "sigmoid", "coef0": 1, "degree": 3},
    {"kernel": "sigmoid", "coef0": 0, "degree": 3},
    {"kernel": "sigmoid", "coef0": -1, "degree": 3},
    {"kernel": "poly", "coef0": -1, "degree": 2},
]


def with_a_negative_part(a, b):
    """As a function of the user's, of which it is not known what it is."""
    return float((0.3 * a @ b - 1) ** 2)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("options", INDEFINITE, ids=str)
def test_ratios_on_indefinite_kernels_are_those_of_the_variances(options, rule):
    """The rules' own coordinates divide by what such a kernel leaves of a row: variances were 25,000 times exact's."""
    rows = np.abs(np.random.default_rng(0).standard_normal((300, 5)))
    fitted = OnlineKernelPCA(2, rule=rule, gamma=0.3, random_state=0, **options)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        fitted.fit(rows)
    gram = pairwise_kernels(rows, metric=options["kernel"], filter_params=True, gamma=0.3, **options)
    truth = exact_kernel_pca(gram, 2)[0] / len(rows)
    found = fitted.explained_variance_
    np.testing.assert_allclose(np.var(fitted.transform(rows), axis=0), found, rtol=1e-6)
    agreement = 1 - np.abs(found - truth).sum() / truth.sum()
    assert fitted.captured_ratio_ == pytest.approx(max(agreement, 0.0), abs=1e-4)
    assert agreement > 0.95


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kernel", ["poly", with_a_negative_part])
def test_components_on_a_strongly_indefinite_kernel_are_the_exact_ones(kernel, rule):
    """The rules' few points, at a positive distance of each other, had up to 12 times the variance that there is."""
    rows = np.random.default_rng(0).standard_normal((300, 4))
    options = {"gamma": 0.3, "degree": 2, "coef0": -1} if kernel == "poly" else {}
    at_once, in_calls = (OnlineKernelPCA(3, rule=rule, kernel=kernel, random_state=0, **options) for _ in range(2))
    truth = exact_kernel_pca((0.3 * rows @ rows.T - 1) ** 2, 3)[0] / len(rows)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        at_once.fit(rows)
    np.testing.assert_allclose(at_once.explained_variance_, truth, rtol=1e-6)
    in_calls.partial_fit(rows[:100]).partial_fit(rows[100:])
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        scores = in_calls.transform(rows)
    assert_same_up_to_sign(scores, at_once.transform(rows), 1e-6)


@pytest.mark.filterwarnings("ignore:the kernel is not positive")
@pytest.mark.parametrize("half_life", [None, 50])
def test_points_of_an_indefinite_kernel_keep_to_the_budget_and_go_on_from_a_file(half_life, rows, tmp_path):
    options = {"kernel": "sigmoid", "coef0": 0.5, "gamma": 0.05, "budget": 12, "half_life": half_life}
    straight = OnlineKernelPCA(2, **options).partial_fit(rows[:200])
    straight.save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks").partial_fit(rows[200:])
    straight.partial_fit(rows[200:])
    np.testing.assert_array_equal(loaded.transform(rows), straight.transform(rows))
    np.testing.assert_array_equal(rows[straight.support_], straight.support_vectors_)
    assert straight.n_support_ <= 12
    assert (max(straight.support_) > 200) == (half_life is not None)


# As many components as there are directions, and of unit length


@pytest.mark.parametrize("rule", RULES)
def test_as_many_components_as_the_rank(rule, rows):
    """With a linear kernel, rows of three columns have three components, and three points span them all."""
    some = rows[:, :3]
    fitted = OnlineKernelPCA(3, rule=rule, kernel="linear", random_state=0).fit(some)
    np.testing.assert_allclose(np.var(fitted.transform(some), axis=0), fitted.explained_variance_, rtol=1e-8)
    if rule in ("subset", "incremental"):
        truth = np.linalg.eigvalsh(np.cov(some.T, bias=True))[::-1]
        np.testing.assert_allclose(fitted.explained_variance_, truth, rtol=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_components_are_of_unit_length_before_they_converge(rule, rows):
    fitted = model(rule, kernel="linear", n_components=2, learning_rate=0.01).fit(rows[:30])
    gram = fitted.support_vectors_ @ fitted.support_vectors_.T
    lengths = np.diagonal(fitted.dual_coef_.T @ gram @ fitted.dual_coef_)
    np.testing.assert_allclose(lengths, 1, rtol=1e-8)


def test_rows_in_calls_on_an_indefinite_kernel_are_rows_at_once():
    rows = np.abs(np.random.default_rng(0).standard_normal((300, 5)))
    options = {"gamma": 0.3, "random_state": 0, **INDEFINITE[1]}
    whole, parts = OnlineKernelPCA(2, **options), OnlineKernelPCA(2, **options)
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        whole.fit(rows)
    for start in range(0, 300, 90):
        parts.partial_fit(rows[start : start + 90])
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        scores = parts.transform(rows)
    assert_same_up_to_sign(scores, whole.transform(rows), 1e-6)
    np.testing.assert_array_equal(parts.support_, whole.support_)


# Tensors


@pytest.mark.filterwarnings("ignore:the kernel is not positive")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"kernel": "poly"}, {"kernel": "poly", "coef0": -0.2}], ids=str)
@pytest.mark.parametrize("rule", ["subset", "coherence", "hebbian", "incremental"])
def test_online_rules_fit_tensors_as_arrays(rule, options, weighted, rows):
    torch = pytest.importorskip("torch")
    weights = np.linspace(0.5, 1.5, len(rows)) if weighted else None
    model = OnlineKernelPCA(2, rule=rule, gamma=0.2, random_state=0, **options)
    here = clone(model).fit(rows, sample_weight=weights)
    there = clone(model).fit(torch.as_tensor(rows), sample_weight=weights)
    np.testing.assert_allclose(there.explained_variance_, here.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(there.captured_ratio_, here.captured_ratio_, rtol=1e-6)
    np.testing.assert_allclose(there.transform(torch.as_tensor(rows)).numpy(), here.transform(rows), atol=1e-8)


# Limits


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("cut", [1, 7, 400])
def test_subset_on_a_dictionary_that_stays_is_subset_kernel_pca(cut, center, rows):
    """The first rows fill the dictionary; from then on the coherence rule and the moments are batch on it."""
    first, budget = rows[:25], 25
    fitted = model("subset", coherence=1.0, budget=budget, center=center)
    for start in range(0, len(rows), cut):
        fitted.partial_fit(rows[start : start + cut])
    np.testing.assert_array_equal(fitted.support_vectors_, first)
    variances, scores = subset_kernel_pca(rows, first, center=center)
    assert_same_up_to_sign(fitted.transform(rows), scores, 1e-8)
    np.testing.assert_allclose(fitted.explained_variance_, variances, rtol=1e-8)


def test_subset_forgets_like_the_weighted_batch(rows):
    fitted = model("subset", coherence=1.0, budget=25, half_life=60)
    fitted.partial_fit(rows[:25])
    settings = fitted._settings()
    ages = np.arange(len(rows))[::-1]
    rule = fitted._driver(fitted._stream.kernel, fitted._stream.rule)
    object.__setattr__(rule.rule.settings, "coherence", 0.0)  # no row enters any more
    rule.feed(rows[25:], None, 25)
    assert settings.rate == pytest.approx(np.log(2) / 60)
    expansion = rule.expansion(rbf_kernel(rule.points.rows, gamma=fitted.gamma_))
    _, scores = subset_kernel_pca(rows, rows[:25], 0.5 ** (ages / 60))
    assert_same_up_to_sign(expansion.transform(rows), scores, 1e-8)


@pytest.mark.parametrize("center", [True, False])
def test_incremental_at_full_rank_is_exact_kernel_pca(center, rows):
    some = rows[:120]
    fitted = model("incremental", rank=200, budget=None, center=center)
    for start in range(0, 120, 9):
        fitted.partial_fit(some[start : start + 9])
    gram = gram_of("rbf", some, gamma=GAMMA)
    if center:
        truth = KernelPCA(3, kernel="rbf", gamma=GAMMA, eigen_solver="dense").fit(some)
        scores, values = truth.transform(rows), truth.eigenvalues_
    else:
        values, components, _ = exact_kernel_pca(gram, 3, center=False)
        scores = gram_of("rbf", rows, some, gamma=GAMMA) @ components
    assert_same_up_to_sign(fitted.transform(rows), scores, 1e-10 * np.abs(scores).max())
    np.testing.assert_allclose(fitted.eigenvalues_, values, rtol=1e-10)


def test_incremental_with_weights_is_weighted_kernel_pca(rows):
    """A row of weight two counts as two rows."""
    some, counts = rows[:60], 1.0 + np.arange(60) % 3
    fitted = model("incremental", rank=100, budget=None).fit(some, sample_weight=counts)
    truth = KernelPCA(3, kernel="rbf", gamma=GAMMA, eigen_solver="dense").fit(
        np.repeat(some, counts.astype(int), axis=0)
    )
    assert_same_up_to_sign(fitted.transform(rows), truth.transform(rows), 1e-9)


@pytest.mark.parametrize("rule", ["coherence", "hebbian"])
@pytest.mark.parametrize("center", [True, False])
def test_gradient_rules_are_sangers_rule_in_feature_space(rule, center, rows):
    """Against Sanger's rule on explicit features, of which the kernel is linear."""
    some, M = rows[:80], 2
    options = {"kernel": "linear", "budget": None, "coherence": 0.9, "learning_rate": 0.01, "learning_decay": 50.0}
    fitted = OnlineKernelPCA(M, rule=rule, center=center, **options).fit(some)
    points = []  # those that became points before learning began
    components = weight = mean = None
    for x in some:
        if components is None:
            points.append(x)
            if len(points) == M:
                components, weight = np.linalg.qr(np.array(points).T)[0], float(M)
                components = components * np.sign(np.sum(components * np.array(points).T, axis=0))
                mean, step = np.mean(points, axis=0), 0
            continue
        step += 1
        if center:
            weight += 1
            mean = mean + (x - mean) / weight
        centred = x - mean if center else x
        y = components.T @ centred
        rate = 0.01 / (1 + step / 50)
        components = components + rate * (np.outer(centred, y) - components @ np.triu(np.outer(y, y)))
    expected = (rows - (mean if center else 0)) @ (components / np.linalg.norm(components, axis=0))
    assert_same_up_to_sign(fitted.transform(rows), expected, 1e-8 * np.abs(expected).max())


# Points


def test_a_dictionary_is_incoherent(rows):
    fitted = model("subset", coherence=0.6, budget=None).fit(rows)
    gram = gram_of("rbf", fitted.support_vectors_, gamma=GAMMA)
    assert len(gram) > 8
    assert np.max(np.tril(gram, -1)[4:]) <= 0.6  # all but the first four, without which there are no components
    likeness = gram_of("rbf", rows, fitted.support_vectors_, gamma=GAMMA).max(axis=1)
    assert np.all(likeness > 0.6)  # every row is a point, or like one
    np.testing.assert_array_equal(rows[fitted.support_], fitted.support_vectors_)


@pytest.mark.parametrize("half_life", [None, 50])
@pytest.mark.parametrize("rule", RULES)
def test_a_budget_is_kept(rule, half_life, rows):
    fitted = model(rule, budget=12, coherence=0.9, half_life=half_life)
    for start in range(0, 400, 50):
        fitted.partial_fit(rows[start : start + 50])
        assert fitted.n_support_ <= 12
    np.testing.assert_array_equal(rows[fitted.support_], fitted.support_vectors_)
    assert fitted.n_evaluations_ <= 400 * 14
    if rule == "subset":
        assert (max(fitted.support_) > 200) == (half_life is not None)  # points follow a stream that forgets


@pytest.mark.parametrize("rule", RULES)
def test_how_far_below_exact(rule, rows):
    """No rule is batch; each does what its docstring says of it."""
    exact = KernelPCA(3, kernel="rbf", gamma=GAMMA).fit(rows).transform(rows).var(axis=0).sum()
    fitted = model(rule, budget=60, learning_rate=1.0).fit(rows)
    captured = np.asarray(fitted.expansion_.orthonormal.transform(rows)).var(axis=0).sum()
    assert 0.75 < captured / exact <= 1 + 1e-9
    assert fitted.captured_ratio_ == pytest.approx(captured / exact, abs=0.02)


# What comes with a model


@pytest.mark.parametrize("rule", RULES)
def test_the_cut_into_calls_does_not_matter(rule, rows):
    whole = model(rule, budget=30).partial_fit(rows)
    pieces = model(rule, budget=30)
    for part in np.split(rows, [1, 2, 40, 41, 300]):
        pieces.partial_fit(part)
    np.testing.assert_array_equal(pieces.transform(rows), whole.transform(rows))
    at_once = model(rule, budget=30).fit(rows)
    np.testing.assert_array_equal(at_once.transform(rows), whole.transform(rows))
    np.testing.assert_allclose(at_once.explained_variance_, whole.explained_variance_, rtol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_saved_in_the_middle_of_a_stream(rule, rows, tmp_path):
    straight = model(rule, budget=20).partial_fit(rows[:200]).partial_fit(rows[200:])
    model(rule, budget=20).partial_fit(rows[:200]).save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks").partial_fit(rows[200:])
    np.testing.assert_array_equal(loaded.transform(rows), straight.transform(rows))


@pytest.mark.parametrize("rule", RULES)
def test_sparse_rows(rule, rows):
    dense = np.where(np.abs(rows) > 1, rows, 0)
    some, all_dense = model(rule, budget=20).fit(scipy.sparse.csr_matrix(dense)), model(rule, budget=20).fit(dense)
    np.testing.assert_allclose(some.transform(dense), all_dense.transform(dense), atol=1e-9)


def test_before_enough_rows(rows):
    fitted = model("subset").partial_fit(rows[:2])
    with pytest.raises(NotFittedError):
        fitted.transform(rows)
    assert fitted.partial_fit(rows[2:]).transform(rows).shape == (400, 3)


def test_bad_rows_leave_the_model_as_it_was(rows):
    fitted = model("incremental", budget=20).partial_fit(rows[:100])
    before = dict(vars(fitted))
    bad = rows[100:200].copy()
    bad[50, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        fitted.partial_fit(bad)
    assert vars(fitted) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "precomputed"}, "needs rows, one at a time"),
        ({"budget": 3}, "budget=3 is too few points for n_components=3: give at least 4"),
        ({"rule": "incremental", "rank": 2}, "rank=2 is less than n_components=3"),
        ({"gamma": "median"}, "cannot be settled by the 5 rows of the first call"),
    ],
)
def test_what_cannot_be_asked(options, message, rows):
    fitted = model(options.pop("rule", "subset"), **options)
    with pytest.raises(ValueError, match=message):
        fitted.partial_fit(rows[:5])
