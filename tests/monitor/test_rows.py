"""The same monitor from the same rows, wherever they are; and one pass where they are many."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from kernelsieve import KernelMonitor, SparseKernelPCA
from kernelsieve.monitor.crossfit import about_constants, about_memory
from kernelsieve.monitor.statistics import summed_over_lags, windows_of

FEW, MANY = 700, 30_000


def process(n_rows, seed=0):
    """Six sensors of two slow states."""
    rng = np.random.default_rng(seed)
    states = np.sin(np.arange(n_rows)[:, None] / [7.0, 19.0]) + 0.3 * rng.standard_normal((n_rows, 2))
    mixing = np.array([[1.0, 0.5, -0.3, 0.0, 0.8, 0.2], [0.0, 0.7, 0.9, 1.0, -0.4, 0.5]])
    return states @ mixing + 0.1 * rng.standard_normal((n_rows, 6))


def monitor(**options):
    return KernelMonitor(6, 20, random_state=0, **options)


def kinds(rows, tmp_path):
    """The rows in every form that the library takes."""
    da = pytest.importorskip("dask.array")
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    torch = pytest.importorskip("torch")
    zarr = pytest.importorskip("zarr")
    names = [f"s{j}" for j in range(rows.shape[1])]
    np.save(tmp_path / "rows.npy", rows)
    stored = zarr.create_array(store=str(tmp_path / "rows.zarr"), shape=rows.shape, dtype=rows.dtype, chunks=(1000, 6))
    stored[:] = rows
    cuts = np.cumsum([1, 2, 300, 5])
    return {
        "memmap": np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "pandas": pd.DataFrame(rows, columns=names),
        "polars": pl.DataFrame(rows, schema=names),
        "list of blocks": np.split(rows, cuts),
        "function": lambda: iter(np.split(rows, cuts)),
        "frames in blocks": [pd.DataFrame(part, columns=names) for part in np.split(rows, cuts)],
        "zarr": stored,
        "dask": da.from_array(rows, chunks=(len(rows) // 3, 6)),
        "torch": torch.as_tensor(rows),
    }


@pytest.mark.parametrize("options", [{}, {"whiten": True, "lags": 2, "smoothing": 0.3}], ids=["plain", "lagged"])
@pytest.mark.parametrize("n_rows", [FEW, MANY])
def test_rows_give_the_same_monitor_wherever_they_are(n_rows, options, tmp_path):
    rows = process(n_rows)
    truth = monitor(**options).fit(rows)
    expected = truth.statistics(rows)
    for name, form in kinds(rows, tmp_path).items():
        found = monitor(**options).fit(form)
        assert found.n_samples_seen_ == n_rows
        statistics = found.statistics(form)
        if name == "torch":  # whose own rounding leads the search for points along another path
            assert found.limits_["spe"] == pytest.approx(truth.limits_["spe"], rel=5e-3)
            captured, best = (one.estimator_.explained_variance_.sum() for one in (found, truth))
            assert captured == pytest.approx(best, rel=1e-3)
            # whitened rows have components of nearly equal variance, of which each path takes its own
            alike = 0.9 if options else 0.999
            assert np.corrcoef(np.stack([statistics.spe, expected.spe])[:, 2:])[0, 1] > alike
            continue
        assert found.limits_["spe"] == pytest.approx(truth.limits_["spe"], rel=1e-6), name
        np.testing.assert_allclose(statistics.spe, expected.spe, atol=1e-7, err_msg=name)
        np.testing.assert_allclose(statistics.t2, expected.t2, rtol=1e-4, atol=1e-6, err_msg=name)
        np.testing.assert_allclose(
            np.asarray(found.contributions(form)), truth.contributions(rows), atol=1e-6, err_msg=name
        )
        if name in ("pandas", "polars", "frames in blocks"):
            assert found.variable_names_ == [f"s{j}" for j in range(6)]


def test_float32_rows_give_nearly_the_same_monitor():
    rows = process(FEW)
    double, single = monitor().fit(rows), monitor().fit(rows.astype(np.float32))
    assert single.limits_["spe"] == pytest.approx(double.limits_["spe"], rel=0.05)
    assert np.mean(single.predict(rows.astype(np.float32)) == double.predict(rows)) > 0.98


def test_sparse_rows_are_taken():
    import scipy.sparse

    rows = process(FEW)
    truth = monitor().fit(rows)
    found = monitor().fit(scipy.sparse.csr_matrix(rows))
    np.testing.assert_allclose(found.score_samples(scipy.sparse.csr_matrix(rows)), truth.score_samples(rows), atol=1e-9)


def test_contributions_of_a_frame_are_a_frame_with_its_names_and_index():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(process(FEW), columns=list("abcdef"), index=pd.date_range("2020", periods=FEW, freq="h"))
    found = monitor().fit(frame).contributions(frame[:10])
    assert list(found.columns) == list("abcdef")
    assert found.index.equals(frame.index[:10])


def test_many_rows_are_read_once_for_a_sample_and_once_for_the_moments():
    rows, passes = process(MANY), []

    def blocks():
        passes.append(0)
        for part in np.array_split(rows, 7):
            passes[-1] += len(part)
            yield part

    monitor(lags=1).fit(blocks)
    assert passes == [MANY, MANY]


def test_the_folds_of_many_rows_are_models_without_the_fold():
    """The limit by moments of folds, against models refitted on the other folds with the same points."""
    rows = process(MANY)
    found = monitor(standardize=False, gamma=0.3).fit(rows)
    points = found.expansion_.points
    held_out = np.empty(MANY)
    for fold in np.array_split(np.arange(MANY), 5):
        others = np.delete(rows, fold, axis=0)
        model = SparseKernelPCA(6, selection=points, gamma=0.3).fit(others)
        held_out[fold] = model.reconstruction_error(rows[fold])
    # the monitor's quantile is that of 20,000 of these 30,000 rows
    assert np.mean(held_out > found.limits_["spe"]) == pytest.approx(0.05, abs=0.003)
    whole = SparseKernelPCA(6, selection=points, gamma=0.3).fit(rows)
    np.testing.assert_allclose(-found.score_samples(rows), whole.reconstruction_error(rows), atol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_another_estimator_is_fitted_to_all_of_many_rows():
    rows = process(MANY)
    given = SparseKernelPCA(3, n_support=10, random_state=0)
    for form in (rows, np.array_split(rows, 3)):
        found = KernelMonitor(estimator=given).fit(form)
        assert found.estimator_.n_samples_seen_ == MANY
        assert found.n_components_ == 3
        assert np.mean(found.predict(process(5000, seed=1)) < 0) == pytest.approx(0.05, abs=0.02)


def test_blocks_with_other_columns_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(process(FEW), columns=list("abcdef"))
    found = monitor().fit([frame[:300], frame[300:]])
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict([frame[["b", "a", "c", "d", "e", "f"]]])
    with pytest.raises(ValueError, match="expecting 6 features"):
        found.predict([np.zeros((5, 4))])


def test_windows_reach_over_blocks_shorter_than_the_lags():
    rows = process(FEW)
    truth = monitor(lags=5).fit(rows)
    found = monitor(lags=5).fit([rows[i : i + 2] for i in range(0, FEW, 2)])
    assert found.limits_ == truth.limits_
    pieces = found.statistics([rows[i : i + 2] for i in range(0, 60, 2)]).spe
    np.testing.assert_allclose(pieces, truth.statistics(rows[:60]).spe)
    assert np.isnan(pieces[:5]).all()
    assert not np.isnan(pieces[5:]).any()


def test_windows_do_not_reach_over_a_gap_between_series():
    rows = process(FEW)
    labels = np.repeat([3, 1, 3], [200, 250, 250])
    found = monitor(lags=2).fit(rows, series=labels)
    statistics = found.statistics(rows, series=labels)
    assert np.flatnonzero(np.isnan(statistics.spe)).tolist() == [0, 1, 200, 201, 450, 451]
    apart = np.concatenate([found.statistics(part).spe for part in np.split(rows, [200, 450])])
    np.testing.assert_allclose(statistics.spe, apart)
    blocks = monitor(lags=2).fit(np.array_split(rows, 4), series=labels)
    assert blocks.limits_ == found.limits_
    with pytest.raises(ValueError, match="series has 3 labels, X has 700 rows"):
        monitor(lags=2).fit(rows, series=[1, 2, 3])
    with pytest.raises(ValueError, match="series has 3 labels"):
        monitor(lags=2).fit([rows], series=[1, 2, 3])


def test_labels_of_series_may_be_of_any_kind():
    rows = process(300)
    truth = monitor(lags=1).fit(rows, series=np.repeat([0, 1], 150)).limits_
    for labels in ([None] * 150 + ["b"] * 150, np.repeat([np.nan, 1.0], 150), np.repeat(["a", "b"], 150)):
        assert monitor(lags=1).fit(rows, series=labels).limits_ == truth


def test_rows_fewer_than_the_lags_have_no_statistic_wherever_they_are():
    da = pytest.importorskip("dask.array")
    found = monitor(lags=3).fit(process(300))
    few = process(2)
    for form in (few, [few], da.from_array(few)):
        assert np.isnan(found.statistics(form).spe).all()
        assert found.contributions(form).shape == (2, 6)
        assert found.predict(form).tolist() == [1, 1]
    with pytest.raises(ValueError, match="lags=3 needs more rows"):
        monitor(lags=3).fit(da.from_array(few))


@pytest.mark.parametrize(("dtype", "tiny"), [("float64", 1e-158), ("float32", 1e-17)])
@pytest.mark.parametrize("whiten", [False, True])
def test_a_column_too_small_to_be_standardised_is_refused_by_name(dtype, tiny, whiten):
    """Its factor could be neither squared nor saved: `fit` says so, not `save`."""
    pd = pytest.importorskip("pandas")
    rows = np.random.default_rng(0).standard_normal((200, 3)) * [1.0, tiny, 1.0]
    with pytest.raises(ValueError, match=r"column 'b' has a standard deviation of .* too small"):
        KernelMonitor(2, 10, whiten=whiten).fit(pd.DataFrame(rows.astype(dtype), columns=list("abc")))


def test_windows_without_lags_are_the_rows_themselves():
    rows = np.random.default_rng(0).standard_normal((6, 3))
    assert windows_of(rows, 0) is rows
    lagged = windows_of(rows, 2)
    np.testing.assert_array_equal(lagged, np.hstack([rows[2:], rows[1:5], rows[:4]]))
    np.testing.assert_allclose(summed_over_lags(lagged, 3), rows[2:] + rows[1:5] + rows[:4])
    np.testing.assert_array_equal(summed_over_lags(rows, 3), rows)


def test_advice_is_given_where_it_is_due_alone():
    rows = np.random.default_rng(0).standard_normal((30, 3))
    assert about_constants(rows, ["a", "b", "c"], whiten=False) is None
    assert "1 constant column (b)" in about_constants(rows * [1, 0, 1], ["a", "b", "c"], whiten=False)
    drift = SimpleNamespace(remembered=1000.0, half_life=693.0)
    assert about_memory(drift, 5) is None
    assert "too few for 500 components" in about_memory(drift, 500)
