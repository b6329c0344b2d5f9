"""Rows that are Python objects: fitted by a kernel of them, as a precomputed gram of the same kernel would be."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.decomposition import KernelPCA as ExactKernelPCA

from kernelsieve import KernelMonitor, KernelPCA, OnlineKernelPCA, SparseKernelPCA, compress, plots, report
from kernelsieve.kernels import RBF, Levenshtein, Spectrum, normalized, of_objects
from kernelsieve.rows.kinds import _listed


def test_objects_of_an_array_are_its_parts_along_the_first_axis():
    assert [one.tolist() for one in _listed(np.arange(6).reshape(3, 2))] == [[0, 1], [2, 3], [4, 5]]
    assert [one.shape for one in _listed(np.ones((3, 2, 4)))] == [(2, 4)] * 3
    assert _listed(np.array(["a", "b"])) == ["a", "b"]
    assert _listed(pd.DataFrame({"words": ["a", "b"]})) == ["a", "b"]


def shared_pairs(a, b):
    """Pairs of neighbouring letters that two words share, counted, over the root of what each shares with itself."""
    counts = [{w[i : i + 2]: w.count(w[i : i + 2]) for i in range(len(w) - 1)} for w in (a, b)]
    products = [sum(n * right.get(w, 0) for w, n in left.items()) for left in counts for right in counts]
    return products[1] / (products[0] * products[3]) ** 0.5


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(0)
    stems = ["".join(rng.choice(list("abcd"), 9)) for _ in range(5)]
    mutated = [list(stems[i % 5]) for i in range(200)]
    for word in mutated:
        for place in rng.integers(9, size=3):
            word[place] = "abcd"[rng.integers(4)]
    return list(dict.fromkeys("".join(word[: rng.integers(6, 10)]) for word in mutated))[:120]


@pytest.fixture(scope="module")
def gram(words):
    return np.array([[shared_pairs(a, b) for b in words] for a in words])


@pytest.fixture(scope="module")
def model(words):
    return SparseKernelPCA(3, n_support=12, kernel=of_objects(shared_pairs), random_state=0).fit(words)


def test_a_fit_to_objects_is_the_fit_to_their_gram(model, words, gram):
    by_gram = SparseKernelPCA(3, n_support=12, kernel="precomputed", random_state=0).fit(gram)
    assert np.array_equal(model.support_, by_gram.support_)
    np.testing.assert_allclose(model.transform(words), by_gram.transform(gram), atol=1e-9)
    exact = ExactKernelPCA(3, kernel="precomputed").fit(gram).eigenvalues_.sum()
    assert model.captured_ratio_ == pytest.approx(len(words) * model.explained_variance_.sum() / exact, rel=1e-6)
    assert model.score(words) == pytest.approx(by_gram.score(gram, diagonal=np.ones(len(words))))
    assert model.n_evaluations_ <= len(words) * (len(words) + 1) / 2 + 8  # of four pairs in both orders


def test_support_objects_are_rows_and_a_new_object_costs_as_many_values(words):
    asked = []

    def counted(a, b):
        asked.append((a, b))
        return shared_pairs(a, b)

    model = SparseKernelPCA(3, n_support=12, kernel=of_objects(counted), random_state=0).fit(words)
    assert model.support_objects_ == [words[i] for i in model.support_]
    asked.clear()
    model.transform(["abcdab", "dcba"])
    assert len(asked) == 2 * 12
    assert {b for _, b in asked} == set(model.support_objects_)
    model.reconstruction_error(["abcdab"])  # asks for the values between support points, once
    asked.clear()
    model.reconstruction_error(["abcdab", "dcba"])
    assert len(asked) == 2 * (12 + 1)  # one for k(x, x)
    asked.clear()
    model.score(words[:20])
    assert len(asked) == 20 * (12 + 1)


@pytest.mark.parametrize("form", [tuple, np.array, lambda w: np.array(w, dtype=object)])
def test_objects_come_in_any_sequence(model, words, form):
    again = clone(model).fit(form(words))
    np.testing.assert_array_equal(again.transform(words[:5]), model.transform(form(words[:5])))


def test_objects_come_in_a_column_of_a_frame(model, words):
    for column in (pd.Series(words), pd.DataFrame({"word": words})):
        np.testing.assert_array_equal(model.transform(column), model.transform(words))


def test_a_function_of_blocks_gives_what_a_function_of_pairs_does(model, words):
    def block(left, right):
        return [[shared_pairs(a, b) for b in right] for a in left]

    by_block = clone(model).set_params(kernel=of_objects(block, blocks=True, diagonal=1.0)).fit(words)
    np.testing.assert_allclose(by_block.transform(words), model.transform(words), atol=1e-12)


def test_processes_compute_what_one_does(model, words):
    kernel = of_objects(shared_pairs, n_processes=2)
    rows = np.array(words, dtype=object)[:, None]
    np.testing.assert_array_equal(kernel(rows[:30], rows[30:50]), of_objects(shared_pairs)(rows[:30], rows[30:50]))


def test_lists_of_equal_length_are_objects_and_no_table():
    series = [[0.0, 1.0, float(i % 7)] for i in range(40)]
    kernel = of_objects(lambda a, b: float(np.exp(-np.sum((np.array(a) - np.array(b)) ** 2))))
    model = SparseKernelPCA(2, n_support=5, kernel=kernel, random_state=0).fit(series)
    assert model.support_objects_[0] in series


def test_a_stream_of_objects_is_the_fit_to_all_of_them(words):
    kernel = of_objects(shared_pairs)
    stream = SparseKernelPCA(3, n_support=12, kernel=kernel, random_state=0)
    for part in (words[:50], words[50:51], words[51:]):
        stream.partial_fit(part)
    assert stream.n_samples_seen_ == len(words)
    assert stream.captured_ratio_ > 0.8
    assert set(stream.support_objects_) <= set(words)


def test_what_follows_a_fit_works_on_objects(model, words, gram):
    smaller = compress(model, 6, X=words)
    assert set(smaller.support_objects_) <= set(model.support_objects_)
    assert smaller.transform(words).shape == (len(words), 3)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.transform(words), model.transform(words))
    errors = model.reconstruction_error(words)
    assert np.all(errors >= 0)
    assert errors.mean() < 1.0
    with pytest.raises(ValueError, match="no rows to go back to"):
        model.inverse_transform(np.zeros((1, 3)))
    with pytest.raises(AttributeError, match="support_vectors_"):
        SparseKernelPCA(2, n_support=5).fit(gram).support_objects_  # noqa: B018


def test_a_report_shows_objects_as_texts_and_asks_for_few_kernel_values(words):
    asked = []

    def counted(a, b):
        asked.append(1)
        return shared_pairs(a, b)

    model = SparseKernelPCA(3, n_support=12, kernel=of_objects(counted), random_state=0).fit(words)
    asked.clear()
    page = report(model, words)
    assert len(asked) <= 3 * len(words) * 12 + 2 * 12**2 + 2 * len(words)
    points = page.contents["points"]
    assert {words[row]: row for row in points["rows"]} == dict(zip(points["values"][0], points["rows"], strict=True))
    nearest = np.argmax([[shared_pairs(w, s) for s in model.support_objects_] for w in words], axis=1)
    shares = np.bincount(nearest, minlength=12) / len(words)
    assert points["shares"] == pytest.approx(np.sort(shares)[::-1], abs=1e-6)
    worst = page.contents["odd"]["cards"][0]
    assert worst["row"] == np.argmax(model.reconstruction_error(words))
    assert worst["text"] == words[worst["row"]]
    assert "120 objects" in page.html
    upper = report(model, words[:20], show=str.upper, beside={"length": [len(w) for w in words[:20]]}).contents
    assert set(upper["points"]["values"][0]) == {word.upper() for word in model.support_objects_}


def test_a_monitor_of_objects_finds_words_of_other_letters(model, words):
    for monitor in (
        KernelMonitor(3, 12, kernel=of_objects(shared_pairs), random_state=0).fit(words),
        KernelMonitor(estimator=model, cv="prefit").fit(words),
    ):
        assert monitor.predict(["xyzxyzx", "uvwuvwu"]).tolist() == [-1, -1]
        assert np.mean(monitor.predict(words) == 1) > 0.85


def test_a_monitor_judges_objects_as_they_come(words):
    monitor = KernelMonitor(3, 12, kernel=Spectrum(2), alarm_rule=(2, 3), random_state=0).fit(words)
    rows = [*words[:5], "xyzxyzx", words[5], "uvwuvwu"]
    expected = monitor.statistics(rows)
    records = [monitor.update(row) for row in rows]
    np.testing.assert_allclose([record.spe for record in records], expected.spe)
    assert [record.exceeded for record in records] == expected.alarm.tolist()
    assert [record.alarm for record in records[-3:]] == [False, False, True]
    assert not records[5].top
    np.testing.assert_allclose([record.spe for record in monitor.update(rows)], expected.spe)
    with pytest.raises(ValueError, match=r"row 0 is 1\.5, and the model was fitted to such as"):
        monitor.update([1.5])
    drifting = KernelMonitor(3, 12, kernel=Spectrum(2), half_life=20, random_state=0).fit(words)
    before = drifting.statistics(words).spe
    drifting.update(words)
    assert not np.allclose(drifting.statistics(words).spe, before)
    with pytest.raises(ValueError, match="Give kernel=Spectrum"):
        KernelMonitor(3, 12, kernel=Levenshtein(2.0)).fit(words)
    for given in (monitor.set_params(lags=2), KernelMonitor(3, 12, kernel=Spectrum(2), whiten=True)):
        with pytest.raises(ValueError, match="whiten=False, lags=0"):
            given.fit(words)


@pytest.mark.parametrize(
    "selection", ["uniform", "rpcholesky", "farthest", "dissimilar", "gain", "leverage", "residual"]
)
def test_every_rule_of_rows_chooses_objects(words, selection):
    model = SparseKernelPCA(3, n_support=12, selection=selection, kernel=of_objects(shared_pairs), random_state=0)
    assert set(model.fit(words).support_objects_) <= set(words)


def flawed(problem):
    def function(a, b):
        if problem == "nan":
            return float("nan") if a[0] != b[0] else 1.0
        if problem == "shape":
            return np.ones(3)
        if problem == "asymmetric":
            return shared_pairs(a, b) * (1.0 + 0.1 * (a < b))
        raise ValueError("no such letter")

    return function


def test_an_error_of_the_users_function_says_for_which_pair():
    with pytest.raises(ZeroDivisionError) as caught:
        SparseKernelPCA(1, n_support=2, kernel=of_objects(lambda a, b: 1 / (a - b))).fit([3, 3, 3, 3, 3])
    assert caught.value.__notes__ == ["raised by the kernel for the pair 3, 3"]


def test_objects_are_not_drawn_as_points(model, words):
    with pytest.raises(TypeError, match="support_objects_ lists"):
        plots.support(clone(model).fit(words))


@pytest.mark.parametrize(
    ("kernel", "rows", "said"),
    [
        (of_objects(flawed("nan")), None, r"returned nan for the pair '\w+', '\w+'"),
        (of_objects(flawed("shape")), None, r"no number for the pair '\w+', '\w+'"),
        (of_objects(flawed("raises")), None, r"pair '\w+', '\w+': no such letter"),
        (of_objects(flawed("asymmetric")), None, r"not symmetric: k\('\w+', '\w+'\)"),
        (of_objects(lambda a, b: np.ones((2, 2)), blocks=True), None, r"returned shape \(2, 2\)"),
        (of_objects(lambda a, b: np.full((len(a), len(b)), 1j), blocks=True), None, r"complex numbers"),
        (of_objects(shared_pairs), ["abc", 1.0, "abd"], r"row 0 is 'abc' \(str\), row 1 is 1.0 \(float\)"),
        (of_objects(shared_pairs), ["abc", None, "abd"], r"row 1 is None"),
        (of_objects(shared_pairs), "abc", r"needs them in a list"),
        (of_objects(shared_pairs), {"abc", "abd", "abe"}, r"needs them in a list"),
        (of_objects(shared_pairs), csr_matrix(np.eye(3)), r"needs them in a list"),
        (of_objects(shared_pairs, diagonal=7.0), None, r"diagonal= gives 7 for '\w+', and k\('\w+', '\w+'\) is 1"),
        (of_objects(shared_pairs, diagonal=lambda some: [7.0] * len(some)), None, r"diagonal= gives 7 for '\w+'"),
        (of_objects(shared_pairs), ["abc"], r"at least 2"),
    ],
)
def test_bad_objects_and_kernels_are_refused_by_name_and_leave_the_model(model, words, kernel, rows, said):
    model = clone(model).fit(words)
    before = model.transform(words)
    model.set_params(kernel=kernel)
    with pytest.raises((ValueError, TypeError), match=said):
        model.fit(words if rows is None else rows)
    np.testing.assert_array_equal(model.transform(words), before)


def test_a_device_is_refused_for_objects(words):
    with pytest.raises(ValueError, match="device=None"):
        SparseKernelPCA(3, n_support=12, kernel=of_objects(shared_pairs), device="cuda").fit(words)


@pytest.mark.parametrize("form", [list, tuple, np.array, lambda w: np.array(w, dtype=object), pd.Series])
def test_strings_without_a_kernel_of_them_are_told_of_one(words, form):
    with pytest.raises(ValueError, match=r"X holds text \('\w+'\), and SparseKernelPCA needs numbers.*Spectrum"):
        SparseKernelPCA(2).fit(form(words))


def test_what_takes_vectors_alone_says_so(model, words):
    kernel = of_objects(shared_pairs)
    with pytest.raises(ValueError, match=r"SparseKernelPCA with n_support=1\.0"):
        KernelPCA(2, kernel=kernel).fit(words)
    with pytest.raises(ValueError, match="give a kernel of vectors"):
        OnlineKernelPCA(2, kernel=kernel).partial_fit(words)
    exact = SparseKernelPCA(3, n_support=1.0, kernel=kernel).fit(words)
    assert exact.captured_ratio_ == 1.0


def test_rows_of_another_kind_than_the_model_knows_are_refused():
    words = ["anna", "otto", "hanna", "lotto", "nana", "toto", "han", "lot"]
    model = SparseKernelPCA(2, n_support=5, kernel=Spectrum(1), random_state=0).fit(words)
    for other in ([b"anna"], [list("anna")], [[1.0, 2.0]], np.ones((2, 3))):
        with pytest.raises(ValueError, match=r"row 0 is .*, and the model was fitted to such as '"):
            model.transform(other)
    assert model.transform(["ann"]).shape == (1, 2)


@pytest.mark.parametrize(
    "combine",
    [
        lambda k: 2.0 * k,
        lambda k: k + RBF(),
        lambda k: RBF() * k,
        lambda k: k.on([0]),
        normalized,
    ],
)
def test_kernels_of_objects_are_not_combined(combine):
    with pytest.raises(TypeError, match=r"is a kernel of objects.*of_objects"):
        combine(Spectrum(2))
