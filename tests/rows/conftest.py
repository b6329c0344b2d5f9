"""Rows by every kind of storage, for the tests of streams."""

from __future__ import annotations

import pytest
from oracles import six_clusters, whole_weights
from stream_cases import N, store


@pytest.fixture(scope="module")
def rows():
    return six_clusters(N, 3)


@pytest.fixture(scope="module")
def weights():
    return whole_weights(N)


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
