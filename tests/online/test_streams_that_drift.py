"""partial_fit on streams that change: forgetting, points chosen again, moments carried over, models that add."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import assert_same_up_to_sign, best_on, fed, gram_of
from sklearn.base import clone

import kernelsieve
from kernelsieve import SparseKernelPCA, plots
from kernelsieve.fit.moments import Moments, MomentSum, overlap, rows_until_choice, transferred, turned
from kernelsieve.fit.moments import gram_of as kernel_gram
from kernelsieve.kernels import RBF
from kernelsieve.rows.reservoir import Reservoir
from kernelsieve.spectrum.whitening import whiten

N, GAMMA = 1200, 0.15
DATA = Path(__file__).with_name("data")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    centers = 2 * rng.standard_normal((6, 4))
    return centers[rng.integers(6, size=N)] + 0.6 * rng.standard_normal((N, 4))


def model(**options):
    return SparseKernelPCA(**{"n_components": 3, "n_support": 10, "gamma": GAMMA, "random_state": 0, **options})


# Forgetting


@pytest.mark.parametrize("half_life", [None, 40, 300])
@pytest.mark.parametrize("step", [1, 7, 100, N])
def test_fixed_points_are_the_weighted_batch_however_rows_are_cut(step, half_life, rows):
    points = rows[:9] + 0.1
    fitted = fed(model(selection=points, half_life=half_life), rows, step=step)
    ages = np.arange(N)[::-1]
    weights = np.ones(N) if half_life is None else 0.5 ** (ages / half_life)
    eigenvalues, scores = best_on(points, rows, weights, gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-12)
    assert_same_up_to_sign(fitted.transform(rows), scores, 1e-10)


def test_a_row_of_weight_two_counts_twice_at_its_age(rows):
    points, own = rows[:9] + 0.1, 1.0 + np.arange(N) % 3
    fitted = model(selection=points, half_life=100)
    for part in np.split(np.arange(N), [5, 600]):
        fitted.partial_fit(rows[part], sample_weight=own[part])
    eigenvalues, _ = best_on(points, rows, own * 0.5 ** (np.arange(N)[::-1] / 100), gamma=GAMMA)
    np.testing.assert_allclose(fitted.eigenvalues_, eigenvalues, rtol=1e-11)


@pytest.mark.parametrize("half_life", [None, 150])
def test_chosen_points_do_not_depend_on_the_cut(half_life, rows):
    """To the last bit, though the reservoir holds a part of the rows only; the components agree to rounding."""
    options = {"half_life": half_life, "n_optimization_samples": 200}
    one, many = fed(model(**options), rows, step=1), fed(model(**options), rows, step=170)
    np.testing.assert_array_equal(one.support_vectors_, many.support_vectors_)
    assert one.chosen_at_ == many.chosen_at_
    np.testing.assert_allclose(one.eigenvalues_, many.eigenvalues_, rtol=1e-9)


def test_a_stream_that_forgets_follows_a_change(rows):
    """After the change all that counts is what came since: the model is that of the new rows."""
    changed = np.vstack([rows, rows @ np.diag([-1, 1, 1, -1]) + 4.0])
    new = changed[N:]
    batch = model().fit(new).transform(new).var(axis=0).sum()

    def share(fitted):
        return fitted.transform(new).var(axis=0).sum() / batch

    following = fed(model(half_life=100, n_optimization_samples=300), changed, step=50)
    assert share(following) > 0.93
    assert share(following) > share(fed(model(n_optimization_samples=300), changed, step=50)) + 0.05


@settings(max_examples=30, deadline=None)
@given(half_life=st.floats(5, 500), size=st.integers(5, 60), seed=st.integers(0, 2**31))
def test_a_reservoir_that_forgets_keeps_priorities(half_life, size, seed):
    """Against all priorities at once, by their definition."""
    X = np.arange(200.0)[:, None]
    reservoir = Reservoir.empty(size, seed, half_life)
    for block in np.split(X, [1, 30, 31, 150]):
        reservoir = reservoir.add(block)
    reservoir = reservoir.in_order()
    weights = 0.5 ** ((199 - np.arange(200)) / half_life)
    priorities = weights / np.random.Generator(np.random.PCG64(seed)).random(200)
    order = np.argsort(-priorities)
    np.testing.assert_array_equal(reservoir.numbers, order[:size])
    stands_for = np.maximum(weights[order[:size]], priorities[order[size]])
    np.testing.assert_allclose(reservoir.kept_weights, stands_for * weights.sum() / stands_for.sum(), rtol=1e-9)
    assert reservoir.weight == pytest.approx(weights.sum())


@pytest.mark.parametrize("sizes", [(500, 500), (40, 40), (5, 60)], ids=str)
@pytest.mark.parametrize("half_life", [None, 30.0])
def test_in_a_sum_of_reservoirs_the_newest_rows_of_both_are_equally_old(half_life, sizes):
    """Weights 1/2^(age / half-life) of every row; of a part of the rows, their largest priorities."""
    lengths = (70, 200)
    ours, theirs = (
        Reservoir.empty(k, n, half_life).add(np.arange(1.0 * n)[:, None]) for k, n in zip(sizes, lengths, strict=True)
    )
    both = ours + theirs
    ages = np.concatenate([np.arange(n)[::-1] for n in lengths])
    weights = np.ones(len(ages)) if half_life is None else 0.5 ** (ages / half_life)
    draws = np.concatenate([np.random.Generator(np.random.PCG64(n)).random(n) for n in lengths])
    priorities, places = weights / draws, np.concatenate([np.arange(n) for n in lengths])
    stay = np.concatenate(
        [own.argsort().argsort() >= len(own) - k for k, own in zip(sizes, np.split(priorities, [70]), strict=True)]
    )
    kept = np.argsort(-np.where(stay, priorities, 0))[: min(sizes[1], stay.sum())]
    np.testing.assert_array_equal(both.numbers, kept)
    np.testing.assert_array_equal(both.rows[:, 0], places[kept])
    assert both.weight == pytest.approx(weights.sum())
    stands_for = np.maximum(weights[kept], np.delete(priorities, kept).max(initial=0))
    np.testing.assert_allclose(both.kept_weights, stands_for * weights.sum() / stands_for.sum(), rtol=1e-9)
    assert both.n_seen == len(ages)
    later = both.add(np.zeros((1, 1)))
    assert later.weight == pytest.approx(1 + weights.sum() * (1 if half_life is None else 0.5 ** (1 / half_life)))


def test_points_are_chosen_at_each_doubling_or_every_three_quarters_of_a_half_life():
    assert rows_until_choice(0.0, 100.0, np.ones(500), 0.0) == 100
    assert rows_until_choice(30.0, 130.0, np.ones(500), 0.0) == 70
    assert rows_until_choice(0.0, 100.0, np.ones(99), 0.0) is None
    rate = np.log(2) / 1000
    steady = 1 / (1 - np.exp(-rate))
    assert rows_until_choice(0.0, steady, np.ones(5000), rate) == pytest.approx(0.72 * 1000, abs=2)
    assert rows_until_choice(0.0, 0.0, np.ones(10_000_000), np.log(2) / 2) == 1  # nothing overflows


# Transfer


def moments_over(points, rows):
    kernel = RBF(gamma=GAMMA)
    return MomentSum(kernel, points, whiten(kernel_gram(kernel, points)).matrix).over(rows, None, 1)


def transfer(old, new, rows, kept):
    before, now = moments_over(old, kept), moments_over(new, kept)
    basis = overlap(RBF(gamma=GAMMA), (new, now.whitening), (old, before.whitening))
    return transferred(moments_over(old, rows), before, now, basis)


def test_transfer_to_the_same_points_changes_nothing(rows):
    points = rows[:12]
    same, truth = transfer(points, points, rows, rows[::7]), moments_over(points, rows)
    np.testing.assert_allclose(same.mean, truth.mean, atol=1e-12)
    np.testing.assert_allclose(same.scatter, truth.scatter, atol=1e-9)
    assert (same.weight, same.trace) == (truth.weight, truth.trace)


def test_transfer_beats_the_kept_rows_and_the_projection(rows):
    """On rows kept at random, over points that are near the old ones: the mean of twenty draws."""
    rng = np.random.default_rng(0)
    old, new = rows[:12], rows[:12] + 0.3 * rng.standard_normal((12, 4))
    truth = moments_over(new, rows).covariance(True)
    errors = np.zeros(3)
    for _ in range(20):
        kept = rows[rng.choice(N, 100, replace=False)]
        now, all_rows = moments_over(new, kept), moments_over(old, rows)
        basis = overlap(RBF(gamma=GAMMA), (new, now.whitening), (old, all_rows.whitening))
        ways = (
            transfer(old, new, rows, kept).covariance(True),
            now.covariance(True),
            basis @ all_rows.covariance(True) @ basis.T,
        )
        errors += [np.linalg.norm(way - truth) for way in ways]
    assert errors[0] < 0.6 * errors[1]
    assert errors[0] < errors[2]


def test_transferred_moments_hold_no_more_variance_than_all_rows():
    """The kept rows lie far out, and the new points are some of them: the variance was 1.7 times that of all rows."""
    rows = 0.3 * np.random.default_rng(0).standard_t(2, (N, 4))
    kept = rows[np.argsort(-np.sum(rows**2, axis=1))[:40]]
    found = transfer(rows[:12], kept[:20], rows, kept)
    whole = 1 - np.mean([np.exp(-GAMMA * np.sum((rows - row) ** 2, axis=1)).mean() for row in rows])
    assert np.trace(found.covariance(True)) <= whole


def test_transferred_moments_are_positive_semi_definite(rows):
    few = rows[:3]
    found = transfer(rows[:12], rows[20:35], rows, few)
    assert np.linalg.eigvalsh(found.scatter)[0] > -1e-9
    assert isinstance(found, Moments)


# Where a stream ends


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_a_stream_ends_where_batch_does(order, digits):
    """A quarter of the rows kept, as many as batch looks at; sorted, the rows come along one direction."""
    X = digits if order == "shuffled" else digits[np.argsort(digits @ np.linspace(-1, 1, digits.shape[1]))]
    options = {"n_components": 5, "n_support": 20, "gamma": 0.15, "n_optimization_samples": 450, "random_state": 0}
    exact = kernelsieve.KernelPCA(5, kernel="rbf", gamma=0.15).fit(digits).transform(digits).var(axis=0).sum()
    batch, followed = SparseKernelPCA(**options).fit(digits), fed(SparseKernelPCA(**options), X, step=50).refresh()
    shares = [fitted.transform(digits).var(axis=0).sum() / exact for fitted in (batch, followed)]
    assert shares[1] > shares[0] - 0.005


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits

    X = load_digits().data / 16
    return X[np.random.default_rng(0).permutation(len(X))]


def test_the_first_call_does_not_matter(digits):
    options = {"n_components": 5, "n_support": 20, "random_state": 0, "n_optimization_samples": 600}
    ends = []
    for first in (1, 100, 1000):
        followed = SparseKernelPCA(**options).partial_fit(digits[:first])
        ends.append(fed(followed, digits[first:], step=200).explained_variance_.sum())
    np.testing.assert_allclose(ends, ends[0], rtol=1e-9)


def test_a_width_settled_too_early_is_settled_again(digits):
    """The first rows are all alike: their median distance says nothing of those to come."""
    close = digits[:1] + 0.01 * np.random.default_rng(0).standard_normal((60, 64))
    followed = fed(SparseKernelPCA(5, n_support=20, random_state=0), np.vstack([close, digits]), step=60)
    fitted = SparseKernelPCA(5, n_support=20, random_state=0).fit(digits)
    assert followed.gamma_ == pytest.approx(fitted.gamma_, rel=0.2)


def test_rows_that_allow_no_choice_leave_the_points(rows):
    """A stream that stands still: no other points can be chosen from one row, and the old ones stay."""
    followed = fed(model(half_life=20, n_optimization_samples=60), rows[:200], step=50)
    fed(followed, np.repeat(rows[:1], 300, axis=0), step=50)
    points = followed.support_vectors_
    assert len(points) == 10
    fed(followed, np.repeat(rows[:1], 4000, axis=0), step=500)
    assert followed.support_vectors_ is points
    assert followed.n_samples_seen_ == 4500
    fed(followed, rows[200:], step=100)
    assert followed.chosen_at_ > 4500
    np.testing.assert_array_less(0, followed.explained_variance_)


# Drift


def test_drift_is_the_angle_since_the_last_choice(rows):
    followed = model(record_drift=True, n_optimization_samples=200)
    followed.partial_fit(rows[:160])
    assert followed.chosen_at_ == 160
    assert followed.drift_ == pytest.approx(0, abs=1e-6)
    before, points = followed.dual_coef_, followed.support_vectors_
    followed.partial_fit(rows[160:300] + 2.0)
    gram = gram_of("rbf", points, gamma=GAMMA)
    half = np.linalg.cholesky(gram).T
    cosines = np.linalg.svd((half @ before).T @ (half @ followed.dual_coef_), compute_uv=False)
    assert followed.drift_ == pytest.approx(np.arccos(cosines[-1]), abs=1e-6)
    assert followed.drift_record_["drift"] == [pytest.approx(0, abs=1e-6), followed.drift_]
    assert followed.drift_record_["n_samples_seen"] == [160, 300]
    assert plots.drift(followed).get_xlabel() == "rows so far"


def test_drift_is_that_of_a_stream(rows):
    with pytest.raises(AttributeError, match="partial_fit has followed"):
        _ = model().fit(rows).drift_
    with pytest.raises(ValueError, match="set record_drift=True"):
        plots.drift(model().partial_fit(rows))


def test_turned_is_the_largest_principal_angle():
    from scipy.linalg import subspace_angles

    rng = np.random.default_rng(0)
    for n in (2, 4):
        a, b = (np.linalg.qr(rng.standard_normal((7, n)))[0] for _ in range(2))
        assert turned(a, b) == pytest.approx(subspace_angles(a, b).max(), rel=1e-9)
    assert turned(a, a) == pytest.approx(0, abs=1e-7)


# Models that add


@pytest.mark.parametrize("half_life", [None, 200])
def test_models_over_the_same_points_add_to_the_batch_of_both(half_life, rows):
    points = rows[:9] + 0.1
    one, other = (fed(model(selection=points, half_life=half_life), part, step=90) for part in (rows[:500], rows[500:]))
    weights = np.ones(N)
    if half_life is not None:  # both streams are as of today
        weights = np.concatenate([0.5 ** (np.arange(n)[::-1] / half_life) for n in (500, 700)])
    for both in (one + other, other + one):
        eigenvalues, scores = best_on(points, rows, weights, gamma=GAMMA)
        np.testing.assert_allclose(both.eigenvalues_, eigenvalues, rtol=1e-10)
        assert_same_up_to_sign(both.transform(rows), scores, 1e-8)
        assert both.n_samples_seen_ == N
    assert (one.n_samples_seen_, other.n_samples_seen_) == (500, 700)


@pytest.mark.parametrize("n_kept", [300, 2000])
def test_models_over_different_points_add(n_kept, rows):
    """Each saw half of the clusters; together they are as good as one that saw all."""
    order = np.argsort(rows[:, 0])
    halves = [fed(model(n_optimization_samples=n_kept), rows[order[part]], 100) for part in (slice(500), slice(500, N))]
    both = halves[0] + halves[1]
    batch = model().fit(rows).explained_variance_.sum()
    assert both.transform(rows).var(axis=0).sum() > 0.96 * batch
    assert both.eigenvalues_.sum() / both.explained_variance_.sum() == pytest.approx(N)
    assert both.transform(rows).var(axis=0).sum() > 1.1 * halves[0].transform(rows).var(axis=0).sum()
    both.partial_fit(rows[:50])
    assert both.n_samples_seen_ == N + 50


def test_a_model_without_points_adds_its_rows(rows):
    few = model().partial_fit(rows[:5])
    both = few + model().partial_fit(rows[5:400])
    assert both.n_samples_seen_ == 400
    assert (both.explained_variance_ > 0).all()


@pytest.mark.parametrize(("scale", "warned"), [(1.0, False), (30.0, True)])
def test_streams_of_very_different_widths_say_both(scale, warned, rows):
    """One width is silently too wide for one stream or too narrow for the other."""
    one, other = (model(gamma="median").partial_fit(part) for part in (rows[:500], scale * rows[500:]))
    for left, right in ((one, other), (other, one)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            both = left + right
        told = [str(one.message) for one in caught if "far apart" in str(one.message)]
        assert bool(told) == warned
        for gamma in (left.gamma_, right.gamma_, both.gamma_):
            assert all(f"{gamma:.3g}" in message for message in told)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 2}, "n_components=3 and 2: give models that agree"),
        ({"half_life": 5}, "half_life=None and 5"),
        ({"kernel": "poly"}, "kernel='rbf' and 'poly'"),
    ],
)
def test_models_that_do_not_add(options, message, rows):
    one = model().partial_fit(rows[:100])
    with pytest.raises(ValueError, match=message):
        _ = one + model(**options).partial_fit(rows[100:200])
    with pytest.raises(ValueError, match="4 and 3 features"):
        _ = one + model().partial_fit(rows[:100, :3])
    with pytest.raises(ValueError, match="fit keeps no moments"):
        _ = one + model().fit(rows)
    with pytest.raises(TypeError):
        _ = one + 1


# Files


def test_a_stream_of_version_0_1_0_goes_on():
    """Saved in the middle of a stream by that version: points, moments of 200 rows, 40 of them kept."""
    loaded = kernelsieve.load(DATA / "stream-0.1.0.ks")
    X = np.random.default_rng(5).standard_normal((300, 3))
    points = loaded.support_vectors_
    before = loaded.explained_variance_
    assert loaded.n_samples_seen_ == 200
    loaded.partial_fit(X[200:220])
    np.testing.assert_array_equal(loaded.support_vectors_, points)
    eigenvalues, _ = exact_on(X[:220], points)
    np.testing.assert_allclose(loaded.eigenvalues_, eigenvalues, rtol=1e-8)
    assert not np.array_equal(loaded.explained_variance_, before)
    assert loaded.partial_fit(X[220:]).refresh().n_samples_seen_ == 300


def exact_on(rows, points):
    gram, cross = gram_of("rbf", points, gamma=0.3), gram_of("rbf", rows, points, gamma=0.3)
    features = np.linalg.solve(np.linalg.cholesky(gram), cross.T).T
    values, axes = np.linalg.eigh(np.cov(features.T, ddof=0) * len(rows))
    return values[::-1][:2], axes


@pytest.mark.parametrize("half_life", [None, 120])
def test_a_model_from_a_file_goes_on_to_the_same_bits(half_life, rows, tmp_path):
    """Through later choices of points too, whatever random_state is: the file knows the stream's numbers."""
    options = {"half_life": half_life, "n_optimization_samples": 150, "random_state": None}
    straight = fed(model(**options), rows[:500], step=37)
    straight.save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks")
    for fitted in (straight, loaded):
        fed(fitted, rows[500:], step=90)
    np.testing.assert_array_equal(loaded.transform(rows), straight.transform(rows))
    np.testing.assert_array_equal(loaded.refresh().transform(rows), straight.refresh().transform(rows))
    assert clone(loaded).half_life == half_life


# The command line


COMMAND = [sys.executable, "-c", "from kernelsieve.cli import main; main()", "fit"]


def table(rows, header=True):
    lines = [",".join(f"{value:.6f}" for value in row) for row in rows]
    return "\n".join((["a,b,c,d"] if header else []) + lines) + "\n"


def test_fit_follows_standard_input(rows, tmp_path):
    options = ["-", "--follow", "--every", "150", "-s", "10", "-c", "3", "-o", str(tmp_path / "m.ks")]
    done = subprocess.run([*COMMAND, *options], input=table(rows[:500]), text=True, capture_output=True, check=True)
    assert done.stderr.count("model written") == 4
    followed = kernelsieve.load(tmp_path / "m.ks")
    assert followed[-1].n_samples_seen_ == 500
    assert followed[-1].n_support_ == 10


def test_fit_follows_a_file_that_grows(rows, tmp_path):
    """The last line has no end when the command first sees it."""
    file = tmp_path / "rows.csv"
    whole = table(rows[:300])
    cut = whole.index("\n", len(whole) // 2) - 3
    file.write_text(whole[:cut])
    options = [str(file), "--follow", "--every", "100", "--idle", "2", "-s", "10", "-o", str(tmp_path / "m.ks")]
    with subprocess.Popen([*COMMAND, *options], stderr=subprocess.PIPE, text=True) as running:
        assert "100 rows" in running.stderr.readline()
        with file.open("a") as more:
            more.write(whole[cut:])
        told = running.stderr.read()
    assert running.returncode == 0
    assert "300 rows" in told
    assert kernelsieve.load(tmp_path / "m.ks")[-1].n_samples_seen_ == 300


def test_fit_follows_nothing(tmp_path):
    start = time.monotonic()
    options = ["-", "--follow", "-o", str(tmp_path / "m.ks")]
    done = subprocess.run([*COMMAND, *options], input="a,b\n", text=True, capture_output=True, check=False)
    assert done.returncode != 0
    assert "no rows came" in done.stderr
    assert time.monotonic() - start < 60
