"""Kernels of strings, series, fingerprints and graphs, each against a brute-force count."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import (
    Fingerprint,
    GlobalAlignment,
    Levenshtein,
    Spectrum,
    Subsequence,
    WeisfeilerLehman,
    gram_by_number,
)
from kernelsieve.kernels.objects import ObjectKernel

WORDS = ["banana", "bandana", "ananas", "abba", "cabana", "nab", "canada"]


def rows(objects):
    array = np.empty((len(objects), 1), dtype=object)
    for i, one in enumerate(objects):
        array[i, 0] = one
    return array


def normalised(value, objects):
    raw = np.array([[value(a, b) for b in objects] for a in objects], dtype=float)
    lengths = np.sqrt(np.diagonal(raw))
    return raw / lengths[:, None] / lengths


def values(kernel, objects):
    return kernel(rows(objects), rows(objects))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_spectrum_counts_shared_runs(k):
    def shared(a, b):
        return sum(a[i : i + k] == b[j : j + k] for i in range(len(a) - k + 1) for j in range(len(b) - k + 1))

    np.testing.assert_allclose(values(Spectrum(k), WORDS), normalised(shared, WORDS), atol=1e-12)
    tokens = [list(word) for word in WORDS]
    np.testing.assert_allclose(values(Spectrum(k), tokens), values(Spectrum(k), WORDS), atol=1e-12)


@pytest.mark.parametrize(("k", "decay"), [(1, 0.5), (2, 0.7), (3, 0.5)])
def test_subsequence_weighs_every_common_subsequence_by_its_span(k, decay):
    def weighted(a, b):
        found = 0.0
        for i in combinations(range(len(a)), k):
            for j in combinations(range(len(b)), k):
                if [a[p] for p in i] == [b[p] for p in j]:
                    found += decay ** (i[-1] - i[0] + 1 + j[-1] - j[0] + 1)
        return found

    np.testing.assert_allclose(values(Subsequence(k, decay), WORDS), normalised(weighted, WORDS), atol=1e-12)


def test_levenshtein_counts_the_fewest_edits():
    def edits(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(edits(a[1:], b) + 1, edits(a, b[1:]) + 1, edits(a[1:], b[1:]) + (a[0] != b[0]))

    words = ["", "ab", "banan", "nab", "anan"]
    truth = np.exp(-np.array([[edits(a, b) for b in words] for a in words]) / 2.0)
    np.testing.assert_allclose(values(Levenshtein(2.0), words), truth, atol=1e-12)


def test_tokens_are_the_same_if_they_are_equal():
    # hash(-1) is hash(-2), hash(2**61 - 1) is hash(0), and a tuple's hash is made of those of its parts
    tokens = [[-1], [-2], [(-1, 0)], [(-2, 0)], [2**61 - 1], [0], ["a"]]
    truth = np.exp(-(1.0 - np.eye(len(tokens))))
    np.testing.assert_allclose(values(Levenshtein(1.0), tokens), truth, atol=1e-12)
    np.testing.assert_allclose(values(Subsequence(1), tokens), np.eye(len(tokens)), atol=1e-12)
    assert values(Levenshtein(1.0), [[1, 2], [1.0, True]])[0, 1] == pytest.approx(np.exp(-1.0))
    assert values(Levenshtein(1.0), ["\ud800", "a"])[0, 1] == pytest.approx(np.exp(-1.0))  # half of a surrogate pair


def test_global_alignment_sums_over_all_alignments():
    rng = np.random.default_rng(0)
    series = [rng.standard_normal(n) for n in (2, 3, 4, 3)]

    def local(x, y):
        g = np.exp(-((x - y) ** 2) / (2 * 0.8**2))
        return g / (2 - g)

    def alignments(a, b):
        if not len(a) or not len(b):
            return 0.0
        last = local(a[-1], b[-1])
        if len(a) == len(b) == 1:
            return last
        return last * (alignments(a[:-1], b) + alignments(a, b[:-1]) + alignments(a[:-1], b[:-1]))

    np.testing.assert_allclose(values(GlobalAlignment(0.8), series), normalised(alignments, series), atol=1e-12)
    assert np.linalg.eigvalsh(values(GlobalAlignment(0.8), series)).min() > 0
    assert GlobalAlignment(0.8).definite


def test_fingerprints_share_bits_and_empty_ones_are_alike():
    class BitVector:  # what the kernel asks of rdkit's
        def __init__(self, bits):
            self.bits = bits

        def GetOnBits(self):
            return self.bits

    bits = [{0, 3, 5}, {3}, set(), {1, 3, 5, 9}]
    truth = [[len(a & b) / len(a | b) if a | b else 1.0 for b in bits] for a in bits]
    for form in (set, lambda on: BitVector(tuple(on)), lambda on: [int(i in on) for i in range(10)]):
        np.testing.assert_allclose(values(Fingerprint(), [form(on) for on in bits]), truth, atol=1e-15)
    text = ["".join("01"[i in on] for i in range(10)) for on in bits]
    np.testing.assert_allclose(values(Fingerprint(), text), truth, atol=1e-15)
    for numbers_of_bits in ([0, 3, 5], "035", 7):
        with pytest.raises(ValueError, match=r"row 0 is .*: a fingerprint is a bit vector"):
            Fingerprint().check([numbers_of_bits])


def test_weisfeiler_lehman_counts_nodes_with_equal_neighbourhoods():
    path = {0: [1], 1: [0, 2], 2: [1, 3], 3: [2]}
    ring = {0: [1, 3], 1: [0, 2], 2: [1, 3], 3: [2, 0]}
    star = {0: [1, 2, 3], 1: [0], 2: [0], 3: [0]}
    graphs = [path, ring, star]

    def tree(graph, node, depth):
        """The neighbourhood of a node, unrolled: equal trees have equal labels."""
        below = sorted(tree(graph, other, depth - 1) for other in graph[node]) if depth else []
        return f"({tree(graph, node, depth - 1) if depth else ''}|{','.join(below)})"

    def shared(a, b):
        return sum(tree(a, i, d) == tree(b, j, d) for d in range(3) for i in a for j in b)

    np.testing.assert_allclose(values(WeisfeilerLehman(2), graphs), normalised(shared, graphs), atol=1e-12)
    networkx = pytest.importorskip("networkx")
    as_networkx = [networkx.Graph((i, j) for i in g for j in g[i]) for g in graphs]
    np.testing.assert_allclose(values(WeisfeilerLehman(2), as_networkx), normalised(shared, graphs), atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_series_whose_distance_is_too_large_for_a_number_have_nothing_in_common():
    series = [1e160 * np.arange(1.0, 4), 2e160 * np.arange(1.0, 4), 1e160 * np.arange(1.0, 4)]
    np.testing.assert_allclose(values(GlobalAlignment(2.0), series), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


@pytest.mark.filterwarnings("error")
def test_steps_that_have_next_to_nothing_in_common_leave_a_number():
    """At 37.78 widths the local kernel is below the smallest normal number, which cannot be divided by."""
    series = [[0.0, 37.78], [0.0, 37.78], [1.0, 2.0]]
    found = values(GlobalAlignment(1.0), series)
    g = np.exp(-0.5 * np.array([1.0, 4.0]))
    local = g / (2 - g)  # of the steps 0 and 1, and of 0 and 2
    np.testing.assert_allclose(found[:2, :2], 1.0)
    assert np.all(np.isfinite(found))
    assert np.all(found[:2, 2] < local[0])


@pytest.mark.parametrize("kernel", [Spectrum(2), Subsequence(2), Fingerprint(), WeisfeilerLehman(1), GlobalAlignment()])
def test_the_diagonal_is_one_and_definite_kernels_are(kernel):
    objects = {"fingerprint": [{1}, {1, 2}, set()], "weisfeiler-lehman": [{0: []}, {0: [1], 1: [0]}]}
    some = objects.get(kernel.name, [[1.0, 2.0], [3.0, 1.0, 2.0], [1.0, 1.0]])
    block = values(kernel, some)
    np.testing.assert_allclose(np.diagonal(block), 1.0)
    np.testing.assert_allclose(kernel.diagonal(rows(some)), 1.0)
    assert np.linalg.eigvalsh(block).min() > -1e-12


@pytest.mark.parametrize(
    ("kernel", "objects", "said"),
    [
        (Spectrum(3), ["abcd", "", "abce"], "row 1 is '': the spectrum kernel needs at least 3 letters"),
        (Subsequence(3), ["abcd", "ab", "abce"], "row 1 is 'ab'.*at least 3 letters"),
        (Spectrum(1), [["a"], ["b", ["c"]]], "row 1 is .*needs tokens that are hashable"),
        (Levenshtein(), [np.ones((2, 2)), np.zeros((2, 2))], "row 0 is .*needs tokens that are hashable"),
        (gram_by_number(np.eye(3) + 0j), [0, 1, 2], "returned complex numbers"),
        (Spectrum(2), [1.0, 2.0], "row 0 is 1.0.*strings or sequences"),
        (GlobalAlignment(), [[1.0], [], [2.0]], r"row 1 is \[\].*at least one step"),
        (GlobalAlignment(), [[1.0], [np.nan]], "row 1.*not finite"),
        (GlobalAlignment(), [[1.0], ["a"]], "row 1.*series of numbers"),
        (GlobalAlignment(), [np.ones((2, 2, 2)), np.ones((3, 2, 2))], "row 0.*at least one step"),
        (WeisfeilerLehman(), [3, 4], "row 0.*networkx graphs"),
        (GlobalAlignment(), np.ones((3, 2)) + 1j, "row 0.*real numbers"),
        (WeisfeilerLehman(), [{0: []}, {}], "row 1.*no nodes"),
        (WeisfeilerLehman(), [[1, 2], [3, 4]], "row 0.*networkx graphs"),
        (gram_by_number(np.eye(3)), [0, 1, 7], "row 2 is 7: the gram has 3 rows"),
    ],
)
def test_objects_without_values_are_refused_by_row(kernel, objects, said):
    with pytest.raises(ValueError, match=said):
        SparseKernelPCA(1, n_support=2, kernel=kernel).fit(objects)


def test_an_indefinite_string_kernel_is_said_to_be_so():
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("ab"), rng.integers(3, 9))) for _ in range(60)]
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        SparseKernelPCA(2, n_support=10, kernel=Levenshtein(6.0), random_state=0).fit(words)


@pytest.mark.parametrize("form", ["memmap", "function", "frame", "zarr"])
def test_a_gram_by_number_is_the_precomputed_one(tmp_path, form):
    X = np.random.default_rng(0).standard_normal((150, 3))
    gram = np.exp(-0.2 * ((X[:, None] - X) ** 2).sum(-1))
    source = np.memmap(tmp_path / "gram", dtype=float, mode="w+", shape=gram.shape)
    source[:] = gram
    if form == "frame":
        source = pd.DataFrame(gram)
    if form == "zarr":
        zarr = pytest.importorskip("zarr")
        source = zarr.create_array(str(tmp_path / "gram.zarr"), shape=gram.shape, chunks=(50, 50), dtype="f8")
        source[:] = gram
    if form == "function":
        source = lambda i, j: gram[np.ix_(i, j)]  # noqa: E731
    by_number = SparseKernelPCA(3, n_support=10, kernel=gram_by_number(source), random_state=0).fit(range(150))
    whole = SparseKernelPCA(3, n_support=10, kernel="precomputed", random_state=0).fit(gram)
    assert np.array_equal(by_number.support_, whole.support_)
    np.testing.assert_allclose(by_number.transform(np.arange(150)), whole.transform(gram), atol=1e-9)


def test_the_object_whose_own_value_is_no_number_is_named():
    class Odd(ObjectKernel):
        def between(self, left, right):
            return np.ones((len(left), len(right)))

        def lengths(self, objects):
            return [np.nan if one == "c" else 1.0 for one in objects]

    with pytest.raises(ValueError, match=r"no number for k\('c', 'c'\)"):
        Odd().diagonal(np.array([["a"], ["b"], ["c"], ["d"]], dtype=object))
