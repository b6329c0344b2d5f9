"""Pictures are drawn without a screen, in matplotlib's own style, and no figure outlives its test."""

import matplotlib as mpl
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _own_figures():
    with plt.style.context("default"):  # the site's scripts, run by other tests in this process, set one of their own
        yield
    plt.close("all")
