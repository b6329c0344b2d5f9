"""Wrong arguments of functions: each is refused in words, on purpose, before anything is drawn or computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torture.invariants import unclear

import kernelsieve as ks
from kernelsieve import plots

X = np.random.default_rng(5).standard_normal((120, 4))
WRONG: dict[str, Any] = {
    "a word": "x",
    "a part": 2.5,
    "a truth value": True,
    "nothing": None,
    "below zero": -1,
    "no number": float("nan"),
    "too much": 10**30,
    "an array": np.arange(3),
    "a list": [1, 2],
    "a dict": {},
    "an empty list": [],
    "three": (1, 2, 3),
    "an object": object(),
}


@cache
def things() -> SimpleNamespace:
    """Fitted and unfitted models, paths, and what is neither."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sparse = ks.SparseKernelPCA(2, n_support=10, random_state=0)
        return SimpleNamespace(
            sparse=ks.SparseKernelPCA(2, n_support=10, random_state=0).fit(X),
            plane=ks.SparseKernelPCA(2, n_support=10, random_state=0).fit(X[:, :2]),
            unfitted=sparse,
            a_class=ks.SparseKernelPCA,
            exact=ks.KernelPCA(3, kernel="rbf", random_state=0).fit(X),
            linear=ks.ElasticNetPCA(2).fit(X),
            monitor=ks.KernelMonitor(2, 10, random_state=0).fit(X),
            unfitted_monitor=ks.KernelMonitor(2, 10),
            pipeline=make_pipeline(StandardScaler(), ks.SparseKernelPCA(2, n_support=10, random_state=0)).fit(X),
            encoder=ks.TableEncoder().fit(X),
            others=PCA(2).fit(X),
            elastic=ks.elastic_net_path(ks.ElasticNetKernelPCA(2), X, n_alphas=3),
            likelihood=ks.likelihood_path(ks.LikelihoodKernelPCA(2, random_state=0), X, n_points=3),
            loadings=ks.sparse_pca_path(X, alphas=[0.5, 0.1]),
            nothing=None,
            word="x",
            rows=X,
        )


# Every function of a model, or of a path.
OF_A_MODEL: dict[str, Callable[[Any], Any]] = {
    "contours": lambda m: plots.contours(m, X[:, :2]),
    "scores": lambda m: plots.scores(m, X),
    "support": plots.support,
    "spectrum": plots.spectrum,
    "path": plots.path,
    "likelihood_path": plots.likelihood_path,
    "loading_path": plots.loading_path,
    "monitor_chart": lambda m: plots.monitor_chart(m, X),
    "contributions": lambda m: plots.contributions(m, X),
    "sensitivity": lambda m: plots.sensitivity(m, X),
    "traversal": plots.traversal,
    "drift": plots.drift,
    "report": lambda m: ks.report(m, X),
    "compress": lambda m: ks.compress(m, 5),
    "elastic_net_path of": lambda m: ks.elastic_net_path(m, X, n_alphas=2),
    "likelihood_path of": lambda m: ks.likelihood_path(m, X, n_points=2),
}

# Every argument that no estimator's constraints look at.
ARGUMENTS: dict[str, Callable[[Any], Any]] = {
    "compress n_support": lambda v: ks.compress(things().exact, v),
    "compress target_error": lambda v: ks.compress(things().exact, target_error=v),
    "compress max_iter": lambda v: ks.compress(things().exact, 5, max_iter=v),
    "elastic_net_path n_alphas": lambda v: ks.elastic_net_path(ks.ElasticNetKernelPCA(2), X, n_alphas=v),
    "elastic_net_path alpha": lambda v: ks.elastic_net_path(ks.ElasticNetKernelPCA(2), X, alpha=v, n_alphas=2),
    "likelihood_path n_points": lambda v: ks.likelihood_path(ks.LikelihoodKernelPCA(2), X, n_points=v),
    "likelihood_path noise": lambda v: ks.likelihood_path(ks.LikelihoodKernelPCA(2), X, noise_variance=v, n_points=2),
    "sparse_pca_path alphas": lambda v: ks.sparse_pca_path(X, alphas=v),
    "sparse_pca_path covariance": lambda v: ks.sparse_pca_path(X, alphas=2, covariance=v),
    "scores components": lambda v: plots.scores(things().sparse, X, v),
    "support image_shape": lambda v: plots.support(things().sparse, v),
    "contours X": lambda v: plots.contours(things().plane, v),
    "contours component": lambda v: plots.contours(things().plane, None, v),
    "contours resolution": lambda v: plots.contours(things().plane, None, resolution=v),
    "traversal component": lambda v: plots.traversal(things().sparse, v),
    "traversal n_steps": lambda v: plots.traversal(things().sparse, n_steps=v),
    "traversal span": lambda v: plots.traversal(things().sparse, span=v),
    "traversal image_shape": lambda v: plots.traversal(things().sparse, image_shape=v),
    "model.traversal component": lambda v: things().sparse.traversal(v),
    "model.traversal n_steps": lambda v: things().sparse.traversal(n_steps=v),
    "contributions row": lambda v: plots.contributions(things().monitor, X, v),
    "contributions n_top": lambda v: plots.contributions(things().monitor, X, n_top=v),
    "monitor_chart fault": lambda v: plots.monitor_chart(things().monitor, X, fault=v),
    "monitor_chart axes": lambda v: plots.monitor_chart(things().monitor, X, axes=v),
    "loading_path component": lambda v: plots.loading_path(things().loadings, v),
    "loading_path feature_names": lambda v: plots.loading_path(things().loadings, 0, v),
    "captured_curve sizes": lambda v: plots.captured_curve(X, sizes=[4] if v is None else v),
    "captured_curve curves": lambda v: plots.captured_curve([1, 2], curves={} if v is None else v),
    "report max_rows": lambda v: ks.report(things().sparse, X, max_rows=v),
    "report image_shape": lambda v: ks.report(things().sparse, X, image_shape=(2, 2) if v is None else v),
    "report beside": lambda v: ks.report(things().sparse, X, beside="x" if v is None else v),
    "report random_state": lambda v: ks.report(things().sparse, X, random_state=v),
    "report title": lambda v: ks.report(things().sparse, X, title=v),
    "ax": lambda v: plots.spectrum(things().sparse, v),
}


def complaint(call: Callable[[], Any]) -> str | None:
    """What is wrong with the error that a call ends in, if it ends in one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except NotFittedError:
            return None
        except Exception as error:
            return next(unclear(error), None)
        finally:
            plt.close("all")
    return None


@pytest.mark.parametrize("name", OF_A_MODEL)
def test_what_a_function_cannot_take_it_refuses_in_words(name: str) -> None:
    found = {what: complaint(lambda thing=thing: OF_A_MODEL[name](thing)) for what, thing in vars(things()).items()}
    assert not {what: said for what, said in found.items() if said}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_wrong_argument_is_refused_in_words(name: str) -> None:
    found = {what: complaint(lambda value=value: ARGUMENTS[name](value)) for what, value in WRONG.items()}
    assert not {what: said for what, said in found.items() if said}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: ks.compress(t.exact, "auto"), "'n_support' parameter of compress must be an int"),
        (lambda t: ks.compress(t.exact, True), "'n_support' parameter of compress must not be a bool"),
        (lambda t: ks.report(t.linear, X), "needs a fitted kernel estimator of kernelsieve.*not ElasticNetPCA"),
        (lambda t: plots.sensitivity(t.pipeline, X), "give the pipeline's last step, and rows as it gets them"),
        (lambda t: plots.traversal(t.unfitted), "not fitted yet"),
        (lambda t: plots.path(t.sparse), "path must be of ElasticNetPath, not a SparseKernelPCA"),
        (lambda t: plots.scores(t.sparse, X, 0), "components=0 must be two whole numbers"),
        (lambda t: ks.elastic_net_path(ks.ElasticNetKernelPCA(2), X, n_alphas=2.5), "n_alphas=2.5 must be a whole"),
        (lambda t: ks.sparse_pca_path(X, alphas="x"), "alphas='x' must be a whole number from 1"),
    ],
)
def test_the_words_say_what_was_given_and_what_is_needed(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        call(things())
