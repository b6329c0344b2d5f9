"""Models of strings, bytes and numbers under kernels of ours are saved without code."""

from __future__ import annotations

import numpy as np
import pytest

import kernelsieve
from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import Fingerprint, Levenshtein, Spectrum, Subsequence, of_objects

WORDS = [
    "banana",
    "bandana",
    "cabana",
    "ananas",
    "canada",
    "stone",
    "stones",
    "tone",
    "atone",
    "bone",
    "phone",
    "alone",
]


@pytest.mark.parametrize("kernel", [Spectrum(2), Subsequence(2, 0.4), Levenshtein(5.0)])
@pytest.mark.parametrize("form", [str, str.encode])
@pytest.mark.filterwarnings("ignore")
def test_a_model_of_strings_or_bytes_comes_back_as_it_was(tmp_path, kernel, form):
    words = [form(word) for word in WORDS]
    model = SparseKernelPCA(2, n_support=5, kernel=kernel, random_state=0).fit(words)
    model.save(tmp_path / "model.ks")
    loaded = kernelsieve.load(tmp_path / "model.ks")
    assert loaded.kernel == kernel
    assert loaded.support_objects_ == model.support_objects_
    assert loaded.n_evaluations_ == model.n_evaluations_
    np.testing.assert_array_equal(loaded.transform(words), model.transform(words))


def test_a_stream_of_strings_goes_on_from_its_file(tmp_path):
    stream = SparseKernelPCA(2, n_support=4, kernel=Spectrum(2), random_state=0).partial_fit(WORDS[:9])
    stream.save(tmp_path / "stream.ks")
    loaded = kernelsieve.load(tmp_path / "stream.ks").partial_fit(WORDS[9:])
    np.testing.assert_array_equal(loaded.transform(WORDS), stream.partial_fit(WORDS[9:]).transform(WORDS))


def test_what_a_file_cannot_hold_is_said(tmp_path):
    sets = [{i % 7, i % 5, 9} for i in range(30)]
    model = SparseKernelPCA(2, n_support=5, kernel=Fingerprint(), random_state=0).fit(sets)
    with pytest.raises(TypeError, match=r"holds a set.*strings, bytes or numbers"):
        model.save(tmp_path / "model.ks")
    kernel = of_objects(lambda a, b: float(len(set(a) & set(b)) + 1))
    model = SparseKernelPCA(2, n_support=5, kernel=kernel, random_state=0).fit(WORDS)
    with pytest.raises(TypeError, match="function of objects has no parameters that a file could hold"):
        model.save(tmp_path / "model.ks")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Spectrum(0), "k=0 of Spectrum"),
        (lambda: Spectrum(1.5), "k=1.5 of Spectrum"),
        (lambda: Subsequence(2, 1.5), "decay=1.5 of Subsequence"),
        (lambda: Levenshtein(-1.0), "width=-1.0 of Levenshtein"),
    ],
)
def test_parameters_that_make_no_kernel_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
