"""A budget of kernel values: it is kept to, spent on choosing, and what is reported of a few rows is honest."""

from __future__ import annotations

import numpy as np
import pytest

from kernelsieve import SparseKernelPCA
from kernelsieve.fit.plan import DEFAULT_VALUES, Budget
from kernelsieve.kernels import gram_by_number, of_objects
from kernelsieve.kernels.user import DIAGONAL_SQUARE

N, M_POINTS = 900, 20


@pytest.fixture(scope="module")
def gram():
    X = np.random.default_rng(0).standard_normal((N, 5)) * [3, 2, 1, 1, 0.5]
    return np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(-1))


def fitted(gram, **options):
    kernel = gram_by_number(gram, definite=True)
    return SparseKernelPCA(4, n_support=M_POINTS, kernel=kernel, n_jobs=1, **options).fit(np.arange(N))


@pytest.mark.parametrize("asked", [1.2, 1.5, 3.0, 40_000])
@pytest.mark.parametrize("selection", ["optimized", "targeted", "rpcholesky", "uniform"])
def test_a_budget_is_kept_to(gram, asked, selection):
    model = fitted(gram, max_evaluations=asked, selection=selection, random_state=0)
    allowed = asked if isinstance(asked, int) else asked * N * M_POINTS
    assert model.n_evaluations_ <= allowed + 8  # of four pairs in both orders
    assert model.n_support_ == M_POINTS


def test_a_larger_budget_chooses_better_and_enough_of_it_measures_on_all_rows(gram):
    centred = gram - gram.mean(axis=0) - gram.mean(axis=0)[:, None] + gram.mean()
    exact = np.linalg.eigvalsh(centred)[-4:].sum() / N
    kept = {}
    for asked in (1.2, 3.0, N * N):
        models = [fitted(gram, max_evaluations=asked, random_state=seed) for seed in range(5)]
        kept[asked] = np.mean([model.explained_variance_.sum() / exact for model in models])
    assert kept[1.2] < kept[3.0] < kept[N * N]
    assert kept[3.0] > 0.97 * kept[N * N]
    assert models[0].captured_ratio_kind_ == "all rows"
    assert models[0].captured_ratio_ == pytest.approx(models[0].explained_variance_.sum() / exact, rel=1e-6)


def test_as_many_values_as_there_are_pairs_and_their_lengths_are_a_whole_gram(gram):
    """What the pass asks for was asked for by the search: it is not counted a second time."""
    pairs = N * (N + 1) // 2 + N
    whole, short = (fitted(gram, max_evaluations=asked, random_state=0) for asked in (pairs, pairs - 100))
    assert (whole.captured_ratio_kind_, short.captured_ratio_kind_) == ("all rows", "sample, extrapolated")
    assert whole.n_evaluations_ <= pairs + 8


@pytest.mark.parametrize("asked", [1.2, 2.0])
def test_the_interval_of_a_small_budget_holds_the_truth(gram, asked):
    centred = gram - gram.mean(axis=0) - gram.mean(axis=0)[:, None] + gram.mean()
    exact = np.linalg.eigvalsh(centred)[-4:].sum() / N
    held = 0
    for seed in range(20):
        model = fitted(gram, max_evaluations=asked, random_state=seed)
        low, high = model.captured_ratio_interval_
        held += low <= model.explained_variance_.sum() / exact <= high
    assert held >= 17


def test_a_vectorised_function_of_vectors_keeps_to_its_budget():
    X = np.random.default_rng(0).standard_normal((N, 3))
    asked = []

    def kernel(A, B):
        asked.append(len(A) * len(B))
        return np.exp(-0.1 * ((A[:, None] - B) ** 2).sum(-1))

    SparseKernelPCA(3, n_support=M_POINTS, kernel=kernel, max_evaluations=1.3, random_state=0).fit(X)
    assert sum(asked) <= 1.3 * N * M_POINTS + 8 + 6  # six on which the form of the function is tried


def test_what_does_not_pay_for_a_pass_is_refused_and_the_least_that_does_is_enough(gram):
    with pytest.raises(ValueError, match=r"need at least ([\d,]+)") as caught:
        fitted(gram, max_evaluations=1.0)
    least = int(str(caught.value).split("at least ")[1].split(" ")[0].replace(",", ""))
    assert fitted(gram, max_evaluations=least, random_state=0).n_evaluations_ <= least + 8
    with pytest.raises(ValueError, match="need at least"):
        fitted(gram, max_evaluations=least - 50)


@pytest.mark.parametrize("asked", [1e308, 2**31])
def test_more_than_all_pairs_is_as_good_as_all_pairs(gram, asked):
    model, whole = (fitted(gram, max_evaluations=n, random_state=0) for n in (asked, N * (N + M_POINTS + 1)))
    np.testing.assert_array_equal(model.support_, whole.support_)
    assert model.captured_ratio_kind_ == "all rows"


def test_a_budget_needs_a_number_of_points_and_no_other_number_of_rows(gram):
    kernel = gram_by_number(gram)
    with pytest.raises(ValueError, match="needs n_support as a number"):
        SparseKernelPCA(3, kernel=kernel, max_evaluations=1.5).fit(np.arange(N))
    with pytest.raises(ValueError, match="give one"):
        SparseKernelPCA(3, n_support=9, kernel=kernel, max_evaluations=1.5, n_optimization_samples=99).fit(np.arange(N))


def test_kernels_of_objects_have_a_budget_by_themselves():
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(6000).tolist()
    kernel = of_objects(lambda a, b: np.exp(-(np.subtract.outer(a, b) ** 2)), blocks=True, diagonal=1.0)
    model = SparseKernelPCA(2, n_support=8, kernel=kernel, random_state=0).fit(numbers)
    assert model.n_evaluations_ <= 500_000 + 6000 * 9 + 4 * 1200
    assert SparseKernelPCA(2, kernel=kernel, random_state=0).fit(numbers).captured_ratio_ > 0.95


def test_the_formula_spends_what_there_is():
    for n_values, n_support in ((1e4, 5), (1e5, 50), (5e5, 20)):
        n = Budget(n_values).n_chosen_from(n_support)
        fresh = n / 2
        spent = n * (n + 1) / 2 + fresh * (fresh + 1) / 2 - n * n_support
        assert 0.97 * n_values < spent <= n_values


@pytest.mark.parametrize("of_strings", [False, True])
def test_the_agreement_with_exact_kernel_pca_asks_for_no_values_beyond_the_budget(of_strings):
    X, asked = np.random.default_rng(0).standard_normal((N, 3)), []

    def kernel(A, B):
        asked.append(len(A) * len(B))
        return np.exp(-0.1 * ((A[:, None] - B) ** 2).sum(-1))

    def of_pair(a, b):
        asked.append(1)
        return np.exp(-0.1 * ((X[int(a)] - X[int(b)]) ** 2).sum())

    rows = np.array([str(i) for i in range(N)]) if of_strings else X
    model = SparseKernelPCA(3, n_support=M_POINTS, kernel=of_objects(of_pair) if of_strings else kernel, random_state=0)
    model.set_params(max_evaluations=1.3).fit(rows)
    before = sum(asked)
    with pytest.raises(AttributeError, match=r"not known: .* than max_evaluations allows"):
        _ = model.component_agreement_
    assert not hasattr(model, "subspace_agreement_")
    assert sum(asked) == before <= 1.3 * N * M_POINTS + 8 + 6
    model.set_params(max_evaluations=N * N).fit(rows)  # on all rows, of which the fit knows the exact components
    before = sum(asked)
    assert model.component_agreement_.shape == (3,)
    assert sum(asked) == before


@pytest.mark.filterwarnings("ignore:selection='optimized'")
@pytest.mark.parametrize("pairs", [False, True])
def test_a_slow_function_of_vectors_has_a_budget_by_itself_and_a_fast_one_has_none(monkeypatch, pairs):
    """A clock that only the function moves: a microsecond a value, or a millisecond."""
    X = np.random.default_rng(0).standard_normal((2500, 3))
    clock = [0.0, 1e-6]
    monkeypatch.setattr("kernelsieve.fit.values.perf_counter", lambda: clock[0])

    def of_blocks(A, B):
        clock[0] += clock[1] * len(A) * len(B)
        return np.exp(-0.1 * ((A[:, None] - B) ** 2).sum(-1))

    def of_pair(x, y):
        clock[0] += clock[1]
        return float(np.exp(-0.1 * ((x - y) ** 2).sum()))

    model = SparseKernelPCA(3, n_support=10, kernel=of_pair if pairs else of_blocks, random_state=0)
    limit = DEFAULT_VALUES + 2500 * (10 + DIAGONAL_SQUARE) + 8
    if not pairs:
        assert model.fit(X).n_evaluations_ > 2 * limit
    clock[1] = 1e-3
    slow = model.fit(X)
    assert slow.n_evaluations_ <= limit
    assert slow.captured_ratio_ > 0.95
    if not pairs:
        assert model.set_params(max_evaluations=None).fit(X).n_evaluations_ > 2 * limit
        assert model.set_params(max_evaluations="auto").fit(X[:900]).captured_ratio_kind_ == "all rows"
