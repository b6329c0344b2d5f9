"""Tables and models that reports are made of."""

import numpy as np
import pytest
from report_tables import encoder, sales
from sklearn.pipeline import make_pipeline

from kernelsieve import SparseKernelPCA
from kernelsieve.report.model_view import ModelView, reader_of


@pytest.fixture(scope="session")
def table():
    return sales()


@pytest.fixture(scope="session")
def pipeline(table):
    return make_pipeline(encoder(), SparseKernelPCA(2, n_support=10, random_state=0)).fit(table)


@pytest.fixture(scope="session")
def clusters():
    """Rows of three groups in five columns, the last a constant, and the group of each."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, 400)
    centers = np.array([[0.0, 0, 0, 0], [4.0, 0, 0, 0], [0.0, 4, 0, 0]])
    X = np.column_stack([centers[groups] + rng.standard_normal((400, 4)), np.full(400, 2.0)])
    return X, groups


@pytest.fixture(scope="session")
def model(clusters):
    return SparseKernelPCA(2, n_support=10, random_state=0).fit(clusters[0])


@pytest.fixture(scope="session")
def subject(pipeline, table):
    return ModelView.of(pipeline, table, 0)


@pytest.fixture(scope="session")
def reader(subject):
    return reader_of(subject)
