"""Rows by every kind of storage, for the tests of streams."""

from __future__ import annotations

import pytest
from oracles import six_clusters, whole_weights
from stream_cases import N, store


@pytest.fixture(scope="module")
def rows(request):
    """N rows, of the module's own number and seed where it has them."""
    return six_clusters(getattr(request.module, "N", N), getattr(request.module, "SEED", 3))


@pytest.fixture(scope="module")
def weights(rows):
    return whole_weights(len(rows))


@pytest.fixture(scope="module")
def cluster():
    """A client of two worker processes of one thread each."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(lambda: __import__("kernelsieve").SparseKernelPCA)  # the imports, once
        yield client


@pytest.fixture(scope="module")
def stored(rows, tmp_path_factory):
    """The rows by every kind of storage whose length is known."""
    folder = tmp_path_factory.mktemp("streams")
    cache = {}

    def get(kind):
        if kind not in cache:
            cache[kind] = store(rows, kind, folder)
        return cache[kind]

    return get
