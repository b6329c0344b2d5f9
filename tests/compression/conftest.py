"""Models and errors that the tests of compress share."""

import pytest
from compression_cases import sklearn_model
from sklearn.decomposition import KernelPCA as SklearnKernelPCA


@pytest.fixture(scope="module")
def gaussian(cloud):
    return sklearn_model("rbf", cloud)


@pytest.fixture(scope="module")
def digits_model(digits):
    return SklearnKernelPCA(6, kernel="rbf", gamma=0.05, eigen_solver="arpack", random_state=0).fit(digits[0][:600])
