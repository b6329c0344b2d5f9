"""How well compress keeps scores, and the fewest points for a target."""

from types import SimpleNamespace

import numpy as np
import pytest
from compression_cases import METHODS, score_errors
from oracles import gram_of
from sklearn.datasets import load_wine
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.preprocessing import StandardScaler

from kernelsieve import compress
from kernelsieve.compression.methods import fewest_within

pytestmark = pytest.mark.filterwarnings("ignore:the kernel is not positive", "ignore::kernelsieve.KernelWarning")


# How well


def test_methods_compared(digits):
    """From the same candidates: moving the points is far ahead, and every method beats the eigenvector rule."""
    train, test = digits
    model = SklearnKernelPCA(6, kernel="rbf", gamma=0.5, eigen_solver="arpack", random_state=0).fit(train)
    small = {method: compress(model, 30, method=method, random_state=0) for method in METHODS}
    on_train = {method: small[method].compression_["total_error"] for method in METHODS}
    held_out = {method: score_errors(model, small[method], test)[1] for method in METHODS}
    for error in (on_train, held_out):
        assert error["optimized"] < 0.4 * error["removal"]
        assert error["removal"] < error["l1"] < error["eigen-removal"]


def test_moved_points_keep_the_scores_to_a_percent(digits_model, digits):
    small = compress(digits_model, 30, random_state=0)
    assert small.compression_["total_error"] < 0.004
    assert score_errors(digits_model, small, digits[1])[1] < 0.006


def test_regressing_the_scores_beats_projecting(digits_model, digits):
    """On the same points: coefficients by regression on rows against the projection in feature space."""
    train, test = digits[0][:600], digits[1]
    small = compress(digits_model, 30, method="removal", random_state=0)
    gram = gram_of("rbf", small.support_vectors_, gamma=0.05)
    cross = gram_of("rbf", small.support_vectors_, train, gamma=0.05)
    coef = np.linalg.solve(gram, cross @ (digits_model.eigenvectors_ / np.sqrt(digits_model.eigenvalues_)))
    z = digits_model.transform(test)
    projected = gram_of("rbf", test, small.support_vectors_, gamma=0.05) @ coef - cross.mean(axis=1) @ coef
    by_projection = np.linalg.norm(z - projected) / np.linalg.norm(z - z.mean(axis=0))
    assert score_errors(digits_model, small, test)[1] < 0.7 * by_projection


@pytest.mark.parametrize("method", ["optimized", "removal"])
def test_more_points_leave_a_smaller_error(method, gaussian):
    errors = [compress(gaussian, m, method=method, random_state=0).compression_["total_error"] for m in (3, 6, 12, 40)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05 * errors[0]


def test_removal_gives_every_size_for_free(gaussian):
    whole = compress(gaussian, 5, method="removal")
    curve = whole.compression_["curve"]
    for m in (5, 9, 30):
        small = compress(gaussian, m, method="removal")
        assert curve[m] == pytest.approx(small.compression_["total_error"], rel=1e-6)


# The fewest points for a target


@pytest.mark.parametrize("method", METHODS)
def test_target_error_is_met_by_few_points(method, gaussian, cloud):
    small = compress(gaussian, target_error=0.1, method=method, random_state=0)
    assert score_errors(gaussian, small, cloud)[1] <= 0.1 * (1 + 1e-9)
    fewer = compress(gaussian, small.n_support_ - 1, method=method, random_state=0)
    assert fewer.compression_["total_error"] > 0.1


class Steps:
    """A method whose error is given for every size."""

    enough_is_fewest = False

    def __init__(self, errors):
        self.errors, self.tried = errors, []

    def at(self, n_support):
        self.tried.append(n_support)
        support = SimpleNamespace(size=n_support)
        return SimpleNamespace(support=support, refit=SimpleNamespace(total=self.errors[n_support]))

    def enough(self, target):
        return self.at(len(self.errors) - 1)


@pytest.mark.parametrize("size", [1, 2, 7, 30, 63, 64])
def test_the_search_ends_at_the_fewest(size):
    method = Steps([1.0] * size + [0.1] * (65 - size))
    assert fewest_within(method, 0.1).support.size == size
    assert len(method.tried) <= 9


def test_moved_points_meet_a_target_with_fewer(gaussian):
    sizes = {m: compress(gaussian, target_error=0.1, method=m, random_state=0).n_support_ for m in METHODS}
    assert sizes["optimized"] < sizes["removal"] <= min(sizes["l1"], sizes["eigen-removal"])


@pytest.mark.parametrize("method", METHODS)
def test_a_target_out_of_reach_says_what_is(method, gaussian):
    with pytest.raises(ValueError, match=r"target_error=1e-17 is not reached: \d+ points leave an error of"):
        compress(gaussian, target_error=1e-17, method=method)


def test_points_that_were_found_for_more_are_a_start_for_fewer():
    """Without that start the search ends at 29 points."""
    rows = StandardScaler().fit_transform(load_wine().data)
    model = SklearnKernelPCA(4, kernel="rbf", gamma=2 / 13).fit(rows)
    fewest = compress(model, target_error=0.01, X=rows, random_state=0)
    assert score_errors(model, fewest, rows)[1] <= 0.01
    assert fewest.n_support_ <= 27
