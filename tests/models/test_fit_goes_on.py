"""fit with keep_stream=True, then partial_fit: the rows of both count, as in one stream."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
from oracles import assert_same_up_to_sign, captured_by, exact_kernel_pca, gram_of
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

import kernelsieve
from kernelsieve import KernelMonitor, OnlineKernelPCA, SparseKernelPCA, TableEncoder, update

N, FIRST, GAMMA = 1500, 900, 0.15
RESULTS = ["captured_ratio_", "captured_ratio_interval_", "captured_ratio_kind_", "captured_ratio_n_samples_"]
RESULTS += ["eigenvalues_", "explained_variance_", "explained_variance_ratio_", "mean_outside_", "n_samples_seen_"]
RESULTS += ["gamma_", "support_vectors_", "n_iter_", "converged_", "selection_report_", "support_"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    centers = 2 * rng.standard_normal((6, 4))
    return centers[rng.integers(6, size=N)] + 0.6 * rng.standard_normal((N, 4)) + np.linspace(0, 2, N)[:, None]


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(6).integers(0, 4, N).astype(float)


def model(**options):
    return SparseKernelPCA(**{"n_components": 3, "n_support": 10, "gamma": GAMMA, "random_state": 0, **options})


def best_on_points(rows, points, weights=None):
    """Variances and scores of the best components on these points, from all rows at once."""
    values, vectors = np.linalg.eigh(gram_of("rbf", points, gamma=GAMMA))
    kept = values > 1e-11 * values[-1]
    features = gram_of("rbf", rows, points, gamma=GAMMA) @ (vectors[:, kept] / np.sqrt(values[kept]))
    w = np.ones(len(rows)) if weights is None else weights
    features = features - w @ features / w.sum()
    spectrum, axes = np.linalg.eigh((features * w[:, None]).T @ features / w.sum())
    return spectrum[::-1][:3], features @ axes[:, ::-1][:, :3]


# --- what is kept changes nothing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_optimization_samples": 300},
        {"n_support": "auto", "gamma": "median"},
        {"selection": "targeted", "n_optimization_samples": 300},
        {"kernel": "laplacian"},
        {"kernel": "linear", "center": False},
        {"n_components": 0.6},
    ],
    ids=str,
)
def test_a_fit_finds_the_same_whether_it_is_to_go_on_or_not(options, rows, tmp_path):
    plain, kept = model(**options).fit(rows), model(keep_stream=True, **options).fit(rows)
    kept.save(tmp_path / "model.ks")
    for other in (kept, kernelsieve.load(tmp_path / "model.ks"), pickle.loads(pickle.dumps(kept))):
        for name in RESULTS:
            assert np.all(getattr(other, name) == getattr(plain, name)), name
        np.testing.assert_array_equal(other.transform(rows), plain.transform(rows))
        np.testing.assert_array_equal(
            other.inverse_transform(other.transform(rows)), plain.inverse_transform(plain.transform(rows))
        )
        assert other.score(rows) == plain.score(rows)
        assert other.drift_ == pytest.approx(0, abs=1e-6)
        assert other.chosen_at_ == N


@pytest.mark.parametrize("wide", [False, True])
def test_all_rows_as_points(wide, rows):
    X = rows[:120] if not wide else np.random.default_rng(0).standard_normal((40, 5000))
    options = {"n_support": len(X), "gamma": GAMMA if not wide else "median"}
    plain, kept = model(**options).fit(X), model(keep_stream=True, **options).fit(X)
    np.testing.assert_allclose(np.abs(kept.transform(X)), np.abs(plain.transform(X)), atol=1e-9)
    assert kept.partial_fit(X[:5] + 0.1).n_samples_seen_ == len(X) + 5
    assert np.isfinite(kept.transform(X)).all()


# --- rows are added ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_kept", [None, 300])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_rows_of_the_fit_and_later_ones_count_alike(n_kept, weighted, saved, rows, weights, tmp_path):
    """The points stay where they are until the rows double, and components on them are exact."""
    w = weights if weighted else np.ones(N)
    fitted = model(n_optimization_samples=n_kept, keep_stream=True).fit(rows[:FIRST], sample_weight=w[:FIRST])
    points = fitted.support_vectors_
    if saved:
        fitted.save(tmp_path / "model.ks")
        fitted = kernelsieve.load(tmp_path / "model.ks")
    for part in (slice(FIRST, FIRST + 7), slice(FIRST + 7, N)):
        fitted.partial_fit(rows[part], sample_weight=w[part])
    variances, scores = best_on_points(rows, points, w)
    np.testing.assert_array_equal(fitted.support_vectors_, points)
    np.testing.assert_allclose(fitted.explained_variance_, variances, rtol=1e-8)
    assert_same_up_to_sign(fitted.transform(rows), scores, 1e-7 * np.abs(scores).max())
    assert fitted.n_samples_seen_ == N
    assert fitted._stream.reservoir.weight == pytest.approx(w.sum())
    n_rows = np.count_nonzero(w) if n_kept is None else n_kept  # a fit to few rows leaves room for those to come
    assert fitted._stream.reservoir.n_kept == n_rows


def test_it_ends_where_one_stream_does():
    """Captured share of held-out digits, by exact kernel PCA: fit and go on, one stream, and one fit to all rows."""
    X = load_digits().data
    X = X[np.random.default_rng(0).permutation(len(X))]
    train, test = X[:1500], X[1500:]
    options = {"n_components": 5, "n_support": 20, "n_optimization_samples": 400, "random_state": 0, "gamma": 4e-4}
    went_on = SparseKernelPCA(keep_stream=True, **options).fit(train[:500]).partial_fit(train[500:])
    assert went_on.chosen_at_ == 1000  # when as many had come again
    streamed = SparseKernelPCA(**options).partial_fit(train)
    at_once = SparseKernelPCA(**options).fit(train)
    exact = exact_kernel_pca(gram_of("rbf", test, gamma=4e-4), 5)[0].sum()
    kept = []
    for fitted in (went_on, streamed, at_once):
        points = fitted.support_vectors_
        cross = gram_of("rbf", test, points, gamma=4e-4)
        kept.append(captured_by(gram_of("rbf", points, gamma=4e-4), cross, 5) / exact)
    assert kept[0] > kept[1] - 0.01
    assert kept[0] > kept[2] - 0.01


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sample_stands_for_all_rows(weighted):
    """Means over the rows kept are those over all rows, of the fit and later, to their sampling error."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.standard_normal((4000, 2)), 3 + rng.standard_normal((4000, 2))])
    w = rng.integers(1, 6, 8000).astype(float) if weighted else np.ones(8000)
    truth = w @ X / w.sum()
    means, shares = [], []
    for seed in range(12):
        fitted = model(n_optimization_samples=300, keep_stream=True, random_state=seed, selection="uniform")
        fitted.fit(X[:4000], sample_weight=w[:4000]).partial_fit(X[4000:], sample_weight=w[4000:])
        reservoir = fitted._stream.reservoir.in_order()
        assert len(reservoir.numbers) == len(set(reservoir.numbers)) == 300
        np.testing.assert_array_equal(reservoir.rows, X[reservoir.numbers])
        means.append(reservoir.kept_weights @ reservoir.rows / reservoir.kept_weights.sum())
        shares.append(reservoir.kept_weights[reservoir.numbers < 4000].sum() / reservoir.weight)
    error = np.std(X, axis=0) * np.sqrt((1 + np.var(w) / np.mean(w) ** 2) / (300 * 12))
    assert np.all(np.abs(np.mean(means, axis=0) - truth) < 3 * error)
    assert np.mean(shares) == pytest.approx(w[:4000].sum() / w.sum(), abs=0.03)


def test_rows_of_the_fit_are_forgotten_like_others(rows):
    """After one half-life of new rows, those of the fit, which all counted alike, weigh half of what they did."""
    fitted = model(half_life=200.0, keep_stream=True).fit(rows[:400])
    assert fitted._stream.moments.weight == pytest.approx(400)
    fitted.partial_fit(rows[400:600])
    recent = (2.0 ** (-np.arange(200) / 200)).sum()
    assert fitted._stream.moments.weight == pytest.approx(200 + recent)
    assert fitted._stream.reservoir.weight == pytest.approx(200 + recent)


def test_sparse_rows_and_blocks_go_on(rows):
    sparse = model(selection="targeted", keep_stream=True).fit(scipy.sparse.csr_matrix(rows[:FIRST]))
    blocks = model(keep_stream=True).fit([rows[:400], rows[400:FIRST]])
    for fitted, more in ((sparse, scipy.sparse.csr_matrix(rows[FIRST:])), (blocks, rows[FIRST:])):
        points = fitted.support_vectors_
        points = points.toarray() if scipy.sparse.issparse(points) else points
        variances, _ = best_on_points(rows, points)
        np.testing.assert_allclose(fitted.partial_fit(more).explained_variance_, variances, rtol=1e-8)


def test_refresh_and_sums_after_a_fit(rows):
    one = model(keep_stream=True, selection=rows[:10]).fit(rows[:FIRST])
    other = model(keep_stream=True, selection=rows[:10]).fit(rows[FIRST:])
    variances, _ = best_on_points(rows, rows[:10])
    np.testing.assert_allclose((one + other).explained_variance_, variances, rtol=1e-8)
    fitted = model(keep_stream=True, random_state=1).fit(rows[:FIRST]).partial_fit(rows[FIRST:]).refresh()
    assert fitted.chosen_at_ == N


# --- what cannot be ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_support": 0.1}, "fraction"),
        ({"selection": np.arange(10)}, "row numbers"),
        ({"n_optimization_samples": 15}, "too few to choose points from"),
    ],
)
def test_what_a_stream_cannot_have_is_refused_before_the_fit(options, message, rows):
    fitted = model(keep_stream=True, **options)
    with pytest.raises(ValueError, match=message):
        fitted.fit(rows)
    assert not hasattr(fitted, "expansion_")


def test_without_it_the_warning_says_what_to_do(rows):
    with pytest.warns(UserWarning, match=r"starts anew, without those rows\. Fit with keep_stream=True"):
        model().fit(rows[:600]).partial_fit(rows[600:])


def test_a_failed_call_leaves_the_fit_as_it_was(rows):
    fitted = model(keep_stream=True).fit(rows[:FIRST])
    before = fitted.transform(rows)
    with pytest.raises(ValueError, match=r"NaN|missing"):
        fitted.partial_fit(np.full((3, 4), np.nan))
    fitted.set_params(center=False)
    with pytest.raises(ValueError, match="center=False, but the rows so far"):
        fitted.partial_fit(rows[FIRST:])
    np.testing.assert_array_equal(fitted.transform(rows), before)
    assert clone(fitted).set_params(keep_stream=False).fit(rows)._stream is None


# --- pipelines ---------------------------------------------------------------------------------------------------


def test_a_pipeline_is_updated_as_its_last_step_is(rows, tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(rows, schema=list("abcd")).with_columns(kind=pl.Series(["x", "y", "z"] * (N // 3)))
    pipeline = make_pipeline(TableEncoder(), model(keep_stream=True)).fit(frame[:FIRST])
    kernelsieve.save(pipeline, tmp_path / "m.ks")
    loaded = kernelsieve.load(tmp_path / "m.ks")
    assert update(loaded, frame[FIRST:]) is loaded
    by_hand = model(keep_stream=True).fit(pipeline[0].transform(frame[:FIRST]))
    by_hand.partial_fit(pipeline[0].transform(frame[FIRST:]))
    np.testing.assert_array_equal(loaded.transform(frame), by_hand.transform(pipeline[0].transform(frame)))


def test_models_that_cannot_be_updated_say_why(rows):
    with pytest.raises(ValueError, match="fit it with keep_stream=True"):
        update(model().fit(rows), rows)
    with pytest.raises(ValueError, match="fit it by partial_fit"):
        update(OnlineKernelPCA(2).fit(rows[:100]), rows)
    with pytest.raises(TypeError, match="a KernelMonitor cannot take new rows"):
        update(KernelMonitor(2, n_support=10).fit(rows), rows)


@pytest.mark.parametrize("gamma", [0.1, "median"])
@pytest.mark.parametrize("n_new", [100, 300])
def test_drift_is_seen_also_where_points_are_chosen_again(gamma, n_new, tmp_path):
    rng = np.random.default_rng(0)
    first = rng.standard_normal((200, 4)) * [2, 1, 0.2, 0.2]
    shifted = rng.standard_normal((n_new, 4)) * [0.2, 0.2, 1, 2] + [0, 0, 3, 0]
    alike = rng.standard_normal((300, 4)) * [2, 1, 0.2, 0.2]

    def updated(rows):
        model = SparseKernelPCA(2, n_support=30, gamma=gamma, keep_stream=True, random_state=0).fit(first)
        return model.partial_fit(rows)

    model = updated(shifted)
    assert (model.chosen_at_ > 200) == (n_new == 300)
    assert np.degrees(model.drift_) > 45
    assert np.degrees(updated(alike).drift_) < np.degrees(model.drift_) / 2
    model.save(tmp_path / "model.ks")
    assert kernelsieve.load(tmp_path / "model.ks").drift_ == model.drift_
    if n_new == 300 and gamma == 0.1:  # scores of one kernel's components: the cosines of both, on all support points
        old = SparseKernelPCA(2, n_support=30, gamma=gamma, keep_stream=True, random_state=0).fit(first)
        k = model.expansion_.kernel(old.support_vectors_, model.support_vectors_)
        cosines = np.linalg.svd(old.dual_coef_.T @ k @ model.dual_coef_, compute_uv=False)
        assert model.drift_ == pytest.approx(np.arccos(cosines[-1]), abs=1e-5)
