"""gamma="auto", and multiples of the median, in Python as on the command line."""

import numpy as np
import pytest
from sklearn.datasets import make_circles
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.model_selection import GridSearchCV

from kernelsieve import CompressedKernelPCA, OnlineKernelPCA, SparseKernelPCA
from kernelsieve.kernels.width import multiple_of_median
from kernelsieve.search.auto_width import TRIAL, best_width, tried_widths

pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")


@pytest.fixture(scope="module")
def rings():
    return make_circles(600, factor=0.3, noise=0.05, random_state=0)[0]


@pytest.mark.parametrize("factor", [0.3, 2.0])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_multiple_of_the_median_is_that_times_its_gamma(factor, kernel, rings):
    median = SparseKernelPCA(2, n_support=20, kernel=kernel, random_state=0).fit(rings)
    other = SparseKernelPCA(2, n_support=20, kernel=kernel, gamma=f"{factor} median", random_state=0).fit(rings)
    assert other.gamma_ == pytest.approx(factor * median.gamma_)
    number = SparseKernelPCA(2, n_support=20, kernel=kernel, gamma=other.gamma_, random_state=0).fit(rings)
    np.testing.assert_allclose(other.transform(rings), number.transform(rings), atol=1e-9)


def test_words_for_multiples():
    assert multiple_of_median("median") == 1
    assert multiple_of_median("0.3 median") == multiple_of_median(" .3*Median") == 0.3
    assert multiple_of_median("1e-1 median") == 0.1
    for word in ("scale", "medians", "-1 median", "0 median", "x median", ""):
        assert multiple_of_median(word) is None
        if word != "scale":
            with pytest.raises(ValueError, match="gamma"):
                SparseKernelPCA(2, gamma=word).fit(np.eye(5))


def test_auto_takes_the_width_that_reconstructs_held_out_rows_best(rings):
    """By scikit-learn's exact kernel PCA and its own inverse: no tried width does much better."""
    model = SparseKernelPCA(2, gamma="auto", random_state=0).fit(rings)
    tried = tried_widths(rings, "rbf", 2, 0)
    assert len(tried) == len(TRIAL.factors)
    assert model.gamma_ == pytest.approx(best_width(tried), rel=0.2)
    train, test = rings[::2], rings[1::2]
    errors = {}
    for width in tried:
        exact = SklearnKernelPCA(2, kernel="rbf", gamma=width.gamma, fit_inverse_transform=True, alpha=1e-3).fit(train)
        errors[width.gamma] = np.square(test - exact.inverse_transform(exact.transform(test))).mean()
    assert errors[best_width(tried)] < 2 * min(errors.values())


def test_weights_count_as_copies(rings):
    counts = np.random.default_rng(0).integers(0, 3, len(rings)).astype(float)
    one = best_width(tried_widths(rings, "rbf", 2, 0, counts))
    other = best_width(tried_widths(np.repeat(rings, counts.astype(int), axis=0), "rbf", 2, 0))
    assert 0.25 < one / other < 4


def test_other_estimators_and_grids_take_them(rings):
    assert CompressedKernelPCA(2, n_support=10, gamma="auto").fit(rings[:200]).gamma_ > 0
    assert CompressedKernelPCA(2, n_support=10, gamma="2 median").fit(rings[:200]).gamma_ > 0
    assert OnlineKernelPCA(2, gamma="0.5 median").fit(rings[:200]).gamma_ > 0
    grid = GridSearchCV(
        SparseKernelPCA(2, n_support=20, random_state=0), {"gamma": ["0.3 median", "median", "auto"]}, cv=2
    )
    assert grid.fit(rings).best_params_["gamma"] in ("0.3 median", "median", "auto")


def test_what_has_no_width_is_refused(rings):
    with pytest.raises(ValueError, match=r"gamma='auto' chooses the width of .*rbf.* give gamma='median'"):
        SparseKernelPCA(2, kernel="poly", gamma="auto").fit(rings)
    with pytest.raises(ValueError, match="too few to choose the width"):
        SparseKernelPCA(1, n_support=2, gamma="auto").fit(rings[:3])
