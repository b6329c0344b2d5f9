"""Problems and slow solvers that the tests of the elastic-net solvers share."""

from __future__ import annotations

import pytest

from kernelsieve.threads import one_blas_thread


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    with one_blas_thread():
        yield
