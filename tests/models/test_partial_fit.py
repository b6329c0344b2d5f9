"""partial_fit: rows that come a few at a time count as if they had come at once."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import assert_same_up_to_sign, best_on, captured_by, exact_kernel_pca, fed, gram_of
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import (
    check_estimators_partial_fit_n_features,
    check_fit_score_takes_y,
    check_n_features_in,
)

import kernelsieve
from kernelsieve import OnlineKernelPCA, SparseKernelPCA

N = 1200
GAMMA = 0.15


@pytest.fixture(scope="module")
def rows():
    """Rows whose distribution drifts, so that what comes late matters."""
    rng = np.random.default_rng(5)
    centers = 2 * rng.standard_normal((6, 4))
    return centers[rng.integers(6, size=N)] + 0.6 * rng.standard_normal((N, 4)) + np.linspace(0, 2, N)[:, None]


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(6).integers(0, 4, N).astype(float)


def model(**options):
    return SparseKernelPCA(**{"n_components": 3, "n_support": 10, "gamma": GAMMA, "random_state": 0, **options})


def assert_brute_force(fitted, rows, weights=None, **options):
    eigenvalues, scores = best_on(fitted.support_vectors_, rows, weights, **{"gamma": GAMMA, **options})
    total = len(rows) if weights is None else weights.sum()
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-8)
    np.testing.assert_allclose(fitted.explained_variance_, eigenvalues / total, rtol=1e-8)
    assert_same_up_to_sign(fitted.transform(rows), scores, 1e-7 * np.abs(scores).max())
    assert fitted.n_samples_seen_ == len(rows)


# --- all rows count ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [(), (50, 51, 400), (5, 15), (19,), np.arange(100, N, 100)], ids=str)
def test_every_row_counts(cuts, rows):
    """The first too, however few or many of them came before the points were chosen."""
    assert_brute_force(fed(model(), rows, cuts), rows)


def test_a_first_call_larger_than_what_is_kept(rows):
    """Rows that are not kept count in the moments, which are carried over to new points as well as can be."""
    fitted = fed(model(n_optimization_samples=300), rows, (5, 900))
    eigenvalues, _ = best_on(fitted.support_vectors_, rows, gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=0.05)
    assert fitted.eigenvalues_.sum() / fitted.explained_variance_.sum() == pytest.approx(N)
    assert fitted.captured_ratio_kind_ == "sample, extrapolated"


@pytest.mark.parametrize("cuts", [(), (700,), (5, 15)], ids=str)
def test_weights(cuts, rows, weights):
    assert_brute_force(fed(model(), rows, cuts, weights), rows, weights)


def test_equal_weights_are_weights_all_the_same(rows):
    """The first rows twice, the others once."""
    weights = np.where(np.arange(N) < 300, 2.0, 1.0)
    assert_brute_force(fed(model(), rows, (300,), weights), rows, weights)
    fitted = model().partial_fit(rows[:300], sample_weight=np.full(300, 2.0)).partial_fit(rows[300:])
    assert_brute_force(fitted, rows, weights)


@pytest.mark.parametrize(
    ("kernel", "params"), [("poly", {"gamma": 0.2, "degree": 2, "coef0": 1.0}), ("laplacian", {"gamma": 0.2})]
)
@pytest.mark.parametrize("center", [True, False])
def test_kernels(kernel, params, center, rows):
    fitted = fed(model(kernel=kernel, center=center, **params), rows, (500,))
    assert_brute_force(fitted, rows, center=center, kernel=kernel, **params)


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(101, N), max_size=30))
def test_the_cut_does_not_matter_once_points_are_chosen(rows, cuts):
    first = model().partial_fit(rows[:100])
    whole = pickle.loads(pickle.dumps(first)).partial_fit(rows[100:])
    for part in np.split(np.arange(100, N), np.array(sorted(cuts), dtype=int) - 100):
        if len(part):
            first.partial_fit(rows[part])
    for name in ("eigenvalues_", "offset_", "dual_coef_"):
        ours, theirs = getattr(first, name), getattr(whole, name)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())
    np.testing.assert_array_equal(first.support_vectors_, whole.support_vectors_)


def test_a_choice_from_all_rows_is_a_fit(rows):
    """As good as one, where all rows are kept and the choice has just been made."""
    some = rows[:640]
    fitted, expected = fed(model(), some, (50, 300)), model().fit(some)
    assert fitted.chosen_at_ == 640
    assert fitted.explained_variance_.sum() == pytest.approx(expected.explained_variance_.sum(), rel=0.02)
    assert fitted.captured_ratio_ == pytest.approx(expected.captured_ratio_, abs=0.02)
    assert fitted.captured_ratio_kind_ == expected.captured_ratio_kind_ == "all rows"


# --- when points are chosen, and which ---------------------------------------------------------------------------


def test_points_are_chosen_when_enough_rows_have_come(rows):
    fitted = model()
    for start in range(0, 18, 3):
        fitted.partial_fit(rows[start : start + 3])
        assert fitted.n_samples_seen_ == start + 3
        with pytest.raises(NotFittedError):
            fitted.transform(rows)
    fitted.partial_fit(rows[18:21])
    points = fitted.support_vectors_
    fitted.partial_fit(rows[21:39])
    assert fitted.support_vectors_ is points
    assert fitted.chosen_at_ == 20
    fitted.partial_fit(rows[39:])
    assert fitted.chosen_at_ == 20 * 2**5
    assert_brute_force(fitted, rows)


def test_copies_and_rows_without_weight_are_not_enough(rows):
    fitted = model().partial_fit(np.repeat(rows[:3], 100, axis=0))
    fitted.partial_fit(rows[3:200], sample_weight=np.arange(197) < 1.0)
    with pytest.raises(NotFittedError):
        fitted.transform(rows)
    fitted.partial_fit(rows[200:])
    weights = np.concatenate([np.full(3, 100.0), np.arange(197) < 1, np.ones(N - 200)])
    eigenvalues, _ = best_on(fitted.support_vectors_, rows, weights, gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-8)


def test_given_points_serve_at_once(rows):
    points = rows[::120] + 0.1
    fitted = model(selection=points).partial_fit(rows[:5])
    np.testing.assert_array_equal(fitted.support_vectors_, points)
    assert fitted.support_ is None
    assert_brute_force(fed(fitted, rows[5:], (400,)), rows)


@pytest.mark.parametrize("cuts", [(), (3, 4, 5, 700), np.arange(1, N), np.arange(40, N, 40)], ids=len)
@pytest.mark.parametrize("n_kept", [40, 5000])
@pytest.mark.parametrize("half_life", [None, 300])
def test_given_points_stay_and_their_stream_is_a_fit(cuts, n_kept, half_life, rows):
    """However the rows are cut, however few are kept: nothing moves the points, and all rows count."""
    points, options = rows[::120] + 0.1, {"half_life": half_life, "n_optimization_samples": n_kept}
    fitted = fed(model(selection=points, **options), rows, cuts)
    ages = np.ones(N) if half_life is None else 0.5 ** (np.arange(N)[::-1] / half_life)
    expected = model(selection=points).fit(rows, sample_weight=ages)
    for stream in (fitted, fitted.refresh(), pickle.loads(pickle.dumps(fitted)).refresh()):
        np.testing.assert_array_equal(stream.support_vectors_, points)
        np.testing.assert_allclose(stream.explained_variance_, expected.explained_variance_, rtol=1e-12)
        assert_same_up_to_sign(stream.transform(rows), expected.transform(rows), 1e-11)


@pytest.mark.parametrize("other", [{}, {"selection": "optimized"}, {"selection": "kmeans"}], ids=str)
def test_points_of_a_sum_are_those_that_the_left_model_was_given(other, rows):
    points = rows[::120] + 0.1
    one = fed(model(selection=points, n_optimization_samples=60), rows[:400], (70, 90))
    both = one + fed(model(**{"selection": points, "n_optimization_samples": 60, **other}), rows[400:], (500,))
    np.testing.assert_array_equal(both.support_vectors_, points)
    expected = model(selection=points).fit(rows)
    exactly = {"rtol": 1e-12} if not other else {"rtol": 0.15}  # carried over from other points
    np.testing.assert_allclose(both.explained_variance_, expected.explained_variance_, **exactly)


def test_given_points_are_seen_by_the_width_of_the_heavier_stream(rows):
    """Two widths from their own rows: the sum's variances are those of its width, but for what is carried over."""
    points = rows[::120] + 0.1
    one, other = (fed(model(selection=points, gamma="median"), part, ()) for part in (rows[:400], 1.2 * rows[400:]))
    assert abs(np.log(one.gamma_ / other.gamma_)) > 0.1
    both = one + other
    expected = model(selection=points, gamma=both.gamma_).fit(np.vstack([rows[:400], 1.2 * rows[400:]]))
    np.testing.assert_allclose(both.explained_variance_, expected.explained_variance_, rtol=1e-3)


@pytest.mark.parametrize("half_life", [None, 100])
def test_centres_are_chosen_again_by_the_rule_that_chose_them(half_life, rows):
    """k-means centres are means of rows that are kept: no search has moved them."""
    fitted = fed(model(selection="kmeans", n_optimization_samples=60, half_life=half_life), rows, (100, 500))
    other = fed(model(selection="kmeans", half_life=half_life), rows[:300], (40,))
    for stream in (fitted, fitted.refresh(), fitted + other):
        assert stream.selection_report_["rule"] == "kmeans"
        assert stream.selection_report_.get("winner") != "current"


def test_a_function_chooses_again(rows):
    fitted = fed(model(selection=lambda X, n, **_: X[:n] + 0.25, n_optimization_samples=60), rows, (100, 500))
    moved = fitted.support_vectors_ - 0.25
    assert all(np.any(np.all(np.isclose(rows, point), axis=1)) for point in moved)


@pytest.mark.parametrize("order", ["sorted", "as they come"])
@pytest.mark.parametrize("n_kept", [400, 5000])
def test_the_ratio_is_that_of_the_rows_that_have_come(order, n_kept, rows):
    """It is measured when it is read, not when points were chosen: sorted rows are not like those before them."""
    stream = rows[np.argsort(rows[:, 0])] if order == "sorted" else rows
    fitted = fed(model(n_optimization_samples=n_kept), stream[:1100], np.arange(50, 1100, 50))
    for more in (stream[1100:1150], stream[1150:]):
        seen = stream[: fitted.partial_fit(more).n_samples_seen_]
        gram = gram_of("rbf", seen, gamma=GAMMA)
        total = np.trace(gram) - gram.mean() * len(gram)
        captured = fitted.transform(seen).var(axis=0).sum() * len(seen)
        ratio, tolerance = captured / exact_kernel_pca(gram, 3)[0].sum(), 1e-6 if n_kept >= N else 0.03
        assert fitted.captured_ratio_ == pytest.approx(ratio, abs=2 * tolerance)
        assert fitted.explained_variance_ratio_.sum() == pytest.approx(captured / total, abs=tolerance)
        assert fitted.score(seen) == pytest.approx(captured / total, abs=tolerance)


@pytest.mark.parametrize("stream", [model(), OnlineKernelPCA(3, gamma=GAMMA, random_state=0)], ids=["sparse", "online"])
def test_what_has_been_read_is_not_pickled(stream, rows):
    """The gram of a thousand rows was needed to measure it, and can be made again."""
    fitted = clone(stream).partial_fit(rows)
    before, ratio = len(pickle.dumps(fitted)), fitted.captured_ratio_
    assert len(pickle.dumps(fitted)) == before
    assert pickle.loads(pickle.dumps(fitted)).captured_ratio_ == ratio


@pytest.mark.parametrize("selection", ["targeted", "rpcholesky", "uniform"])
def test_row_numbers_are_those_of_the_stream(selection, rows):
    for options in ({}, {"n_optimization_samples": 60}):
        fitted = fed(model(selection=selection, **options), rows, (7, 800))
        np.testing.assert_array_equal(rows[fitted.support_], fitted.support_vectors_)
        fitted.refresh()
        np.testing.assert_array_equal(rows[fitted.support_], fitted.support_vectors_)


def test_own_functions(rows):
    fitted = model(selection=lambda X, n, **_: np.arange(n)).partial_fit(rows)
    np.testing.assert_array_equal(fitted.support_, np.arange(10))
    assert_brute_force(fitted, rows)


def test_automatic_number_of_points(rows):
    fitted = fed(model(n_support="auto", variance=0.95), rows, (600,))
    assert 4 <= fitted.n_support_ < 40
    assert_brute_force(fitted, rows)


def test_all_of_the_first_rows_as_support(rows):
    """What is measured on them is measured again when others come: of those that are kept, all."""
    fitted = model(n_support=30, selection="uniform").partial_fit(rows[:60])
    assert (fitted.captured_ratio_kind_, fitted.captured_ratio_n_samples_) == ("all rows", 60)
    fed(fitted, rows[60:119])
    assert (fitted.captured_ratio_kind_, fitted.captured_ratio_n_samples_) == ("all rows", 119)
    exact = exact_kernel_pca(gram_of("rbf", rows[:119], gamma=GAMMA), 3)[0].sum() / 119
    assert fitted.captured_ratio_ == pytest.approx(fitted.explained_variance_.sum() / exact, abs=1e-9)


# --- refresh -----------------------------------------------------------------------------------------------------


def test_refresh_chooses_from_all_that_has_come(rows):
    """Points of the first rows miss what came later; the new ones do as well as those of a fit to all rows."""
    sorted_rows = rows[np.argsort(rows[:, 0])]
    fitted = fed(model(), sorted_rows, (60,))
    before = fitted.explained_variance_.sum()
    assert fitted.refresh() is fitted
    assert_brute_force(fitted, sorted_rows)  # all rows are kept: nothing is lost
    exact = exact_kernel_pca(gram_of("rbf", rows, gamma=GAMMA), 3)[0].sum() / N
    assert before < 0.9 * exact
    assert fitted.explained_variance_.sum() > 0.93 * exact
    assert fitted.captured_ratio_ == pytest.approx(fitted.explained_variance_.sum() / exact, abs=1e-6)


def test_refresh_from_a_sample(rows, weights):
    """Moments of the sample stand for all rows, by their weight, and later rows add to them."""
    weights = weights + 0.5
    fitted = fed(model(n_optimization_samples=600), rows, (100, 500), weights).refresh()
    assert fitted.n_samples_seen_ == N
    assert fitted.eigenvalues_.sum() / fitted.explained_variance_.sum() == pytest.approx(weights.sum())
    eigenvalues, _ = best_on(fitted.support_vectors_, rows, weights, gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=0.15)
    assert fitted.captured_ratio_kind_ == "sample"
    fitted.partial_fit(rows[:100], sample_weight=weights[:100])
    assert fitted.eigenvalues_.sum() / fitted.explained_variance_.sum() == pytest.approx(
        weights.sum() + weights[:100].sum()
    )


def test_refresh_takes_new_parameters(rows):
    fitted = model().partial_fit(rows).set_params(n_support=25).refresh()
    assert fitted.n_support_ == 25
    assert_brute_force(fitted, rows)


def test_refresh_needs_rows(rows):
    for fitted in (model(), model().partial_fit(rows[:5]), model().fit(rows)):
        with pytest.raises(ValueError, match="too few have come"):
            fitted.refresh()


# --- what comes with a model -------------------------------------------------------------------------------------


def test_inverse_follows_the_components(rows):
    """The learned way back is from the scores as they are now, not as they were when points were chosen."""
    options = {"kernel": "poly", "degree": 2, "gamma": 0.2, "n_support": 15, "n_components": 8}
    streamed = fed(model(**options), rows, (60, 400))
    fitted = model(**options).fit(rows)

    def error(other):
        return np.mean((other.inverse_transform(other.transform(rows)) - rows) ** 2)

    assert error(streamed) < 1.5 * error(fitted)


@pytest.mark.parametrize("selection", ["optimized", "targeted"])
def test_saved_in_the_middle_of_a_stream(selection, rows, weights, tmp_path):
    options = {"selection": selection, "n_optimization_samples": 200}
    straight = fed(model(**options), rows, (300, 700), weights)
    halfway = fed(model(**options), rows[:700], (300,), weights[:700])
    halfway.save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks").partial_fit(rows[700:], sample_weight=weights[700:])
    np.testing.assert_array_equal(loaded.transform(rows), straight.transform(rows))
    np.testing.assert_array_equal(loaded.refresh().transform(rows), straight.refresh().transform(rows))
    assert loaded.n_samples_seen_ == N
    if selection == "targeted":
        np.testing.assert_array_equal(loaded.support_, straight.support_)


def test_saved_before_points_are_chosen(rows, tmp_path):
    with pytest.raises(NotFittedError):
        model().partial_fit(rows[:5]).save(tmp_path / "model.ks")


def test_sparse_rows(rows):
    dense = np.where(np.abs(rows) > 1, rows, 0)
    sparse = scipy.sparse.csr_matrix(dense)
    for first, rest in ((sparse[:400], sparse[400:]), (sparse[:400], dense[400:]), (dense[:400], sparse[400:])):
        fitted = model(selection="targeted").partial_fit(first).partial_fit(rest)
        points = fitted.support_vectors_
        points = points.toarray() if scipy.sparse.issparse(points) else points
        eigenvalues, _ = best_on(points, dense, gamma=GAMMA)
        np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-8)


def test_precisions_may_mix(rows):
    single = rows.astype(np.float32)
    fitted = model().partial_fit(single[:400])
    assert fitted.transform(single).dtype == np.float32
    fitted.partial_fit(rows[400:])
    eigenvalues, _ = best_on(np.asarray(fitted.support_vectors_, dtype=float), rows, gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-4)
    fitted = model().partial_fit(rows[:15]).partial_fit(single[15:])
    eigenvalues, _ = best_on(np.asarray(fitted.support_vectors_, dtype=float), rows, gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-4)


def test_names_of_columns(rows):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rows, columns=list("abcd"))
    fitted = model().partial_fit(frame[:300])
    assert fitted.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.partial_fit(frame[300:][list("dcba")])
    assert_brute_force(fitted.partial_fit(frame[300:]), frame.to_numpy())


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [False, True], ids=["before points are chosen", "after"])
@pytest.mark.parametrize("fault", ["nan", "width", "weights", "negative"])
def test_bad_rows_leave_the_model_as_it_was(fault, chosen, rows):
    fitted = model().partial_fit(rows[: 300 if chosen else 5])
    before = dict(vars(fitted))
    bad, weights = rows[300:400].copy(), None
    if fault == "nan":
        bad[17, 1] = np.nan
    elif fault == "width":
        bad = bad[:, :3]
    else:
        weights = np.ones(7) if fault == "weights" else -np.ones(100)
    with pytest.raises(ValueError, match=r"NaN|3 features|sample_weight|[Nn]egative"):
        fitted.partial_fit(bad, sample_weight=weights)
    assert vars(fitted) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "precomputed"}, "partial_fit needs rows"),
        ({"n_support": 0.1}, "a number of points to partial_fit"),
        ({"selection": [1, 2, 3, 4, 5]}, "give partial_fit the points themselves"),
        ({"n_optimization_samples": 19}, "n_optimization_samples=19 rows are too few.*at least 20"),
        ({"kernel": "linear", "n_components": 5}, "n_components=5 is more than the rank allows"),
        ({"n_components": 10}, "n_support=10 .*too few for n_components=10 with centring: give at least 11"),
    ],
)
def test_what_cannot_be_asked(options, message, rows):
    fitted = model(**options)
    with pytest.raises(ValueError, match=message):
        fitted.partial_fit(rows)
    assert vars(fitted) == vars(clone(fitted)) | {"selection": fitted.selection}


def test_interrupted(rows):
    interrupted = False

    def kernel(X, Y):
        if interrupted:
            raise KeyboardInterrupt
        return gram_of("rbf", X, Y, gamma=GAMMA)

    fitted = model(kernel=kernel, selection="uniform").partial_fit(rows[:300])
    before = dict(vars(fitted))
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        fitted.partial_fit(rows[300:])
    assert vars(fitted) == before
    interrupted = False
    assert_brute_force(fitted.partial_fit(rows[300:]), rows)


def test_after_fit_it_starts_anew_and_says_so(rows):
    fitted = model().fit(rows[:600])
    with pytest.warns(UserWarning, match=r"fitted by fit.*starts anew, without those rows"):
        fitted.partial_fit(rows[600:605])
    with pytest.raises(NotFittedError):
        fitted.transform(rows)
    fitted.partial_fit(rows[605:])
    eigenvalues, _ = best_on(fitted.support_vectors_, rows[600:], gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-8)
    assert fitted.n_samples_seen_ == 600


def test_fit_after_partial_fit_forgets_it(rows):
    fitted = model().partial_fit(rows[:300]).fit(rows)
    np.testing.assert_array_equal(fitted.transform(rows), model().fit(rows).transform(rows))
    with pytest.raises(ValueError, match="too few have come"):
        fitted.refresh()


def test_captured_variance_is_the_most_there_is(rows):
    fitted = fed(model(), rows, (200,))
    points = fitted.support_vectors_
    cross = gram_of("rbf", rows, points, gamma=GAMMA)
    most = captured_by(gram_of("rbf", points, gamma=GAMMA), cross, 3)
    assert fitted.explained_variance_.sum() == pytest.approx(most, rel=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"n_components": 1, "n_support": 3, "selection": "uniform"}])
def test_scikit_learn_checks_of_partial_fit(options):
    """Those that scikit-learn runs on partial_fit; test_contract.py runs all others."""
    for check in (check_estimators_partial_fit_n_features, check_fit_score_takes_y, check_n_features_in):
        check("SparseKernelPCA", SparseKernelPCA(**options))


def test_points_moved_on_are_not_said_to_have_converged_before_they_have():
    """The points of the model so far are moved by two steps, which gain far more than `tol`."""
    rng = np.random.default_rng(1)
    mixing = rng.standard_normal((6, 6))
    stream = SparseKernelPCA(4, n_support=12, max_iter=2, tol=1e-5, random_state=1)
    for k in range(4):
        stream.partial_fit(np.sin(rng.standard_normal((300 * 2**k, 6)) @ mixing))
    with pytest.warns(ConvergenceWarning):
        stream.partial_fit(np.sin(rng.standard_normal((4800, 6)) @ mixing))
    assert stream.selection_report_["winner"] == "current"
    assert not stream.converged_
