"""Every public method takes tensors that cannot be read as numpy arrays where they are, as CUDA's cannot.

A stand-in for such tensors runs on any machine: a subclass of torch's whose `numpy()` raises what CUDA's raises, until
it has been copied to the host by `cpu()`.  Whatever is computed from a stand-in is one.  The truth is the same call
with ordinary tensors.
"""

from __future__ import annotations

import inspect
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from stand_in import on_device
from test_every_estimator import EVERY, WEIGHTED

import kernelsieve as ks

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("error", "ignore::UserWarning")


def host(value):
    """Arrays of any kind as numpy's; anything that is not an array as nothing."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    is_numbers = isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")
    return value if is_numbers else None


# What a method is called with; any other is called with the rows.
CALLS = {
    "fit_covariance": lambda model, rows: type(model)(2, alpha=0.1).fit_covariance(rows.T @ rows).components_,
    "inverse_transform": lambda model, rows: model.inverse_transform(model.transform(rows)),
    "partial_fit": lambda model, rows: clone(model).partial_fit(rows).partial_fit(rows[:9]).transform(rows),
    "refresh": lambda model, rows: clone(model).partial_fit(rows).refresh().transform(rows),
    "restart": lambda model, rows: model.restart(),
    "traversal": lambda model, rows: model.traversal(0, row=rows[0]),
    "fit": lambda model, rows: getattr(clone(model).fit(rows), "offset_", None),
    "fit_blocks": lambda model, rows: clone(model).fit_blocks([rows[:40], rows[40:]]),
    "fit_transform": lambda model, rows: clone(model).fit_transform(rows),
    "fit_predict": lambda model, rows: clone(model).fit_predict(rows),
}
NOT_ROWS = {"save", "describe", "check_loaded", "get_feature_names_out", "get_metadata_routing", "get_params"}
NOT_ROWS |= {"set_callbacks", "set_output", "set_params"}


def methods_of(model):
    public = [name for name in dir(type(model)) if not name.startswith("_") and not name.endswith("_request")]
    return [name for name in public if inspect.isroutine(getattr(type(model), name, None)) and name not in NOT_ROWS]


def blocks(rows):
    return [rows[:40], rows[40:]]


def weighted(model, rows):
    return clone(model).fit(rows, sample_weight=abs(rows[:, 0]) + 0.5).transform(rows)


OTHER_CALLS = {
    "fit, weighted": weighted,
    "fit, k-means, weighted": lambda model, rows: weighted(clone(model).set_params(selection="kmeans"), rows),
    "fit, list of blocks": lambda model, rows: clone(model).fit(blocks(rows)).transform(rows),
    "fit, function of blocks": lambda model, rows: clone(model).fit(lambda: iter(blocks(rows))).transform(rows),
    "transform, list of blocks": lambda model, rows: model.transform(blocks(rows)),
    "transform, numpy": lambda model, rows: model.transform(host(rows)),
    "compress": lambda model, rows: ks.compress(model, 5, X=rows, random_state=0).transform(rows),
    "report": lambda model, rows: ks.report(model, rows),
    "plots.scores": lambda model, rows: ks.plots.scores(model, rows),
    "plots.sensitivity": lambda model, rows: ks.plots.sensitivity(model, rows),
    "plots.traversal": lambda model, rows: ks.plots.traversal(model, row=rows[0]),
    "plots.support": lambda model, rows: ks.plots.support(model),
    "plots.spectrum": lambda model, rows: ks.plots.spectrum(model),
}
# Blocks of ordinary tensors are read as numpy's; blocks on a device are to give what one array there gives.
TRUTHS = dict.fromkeys(
    ("fit, list of blocks", "fit, function of blocks"), lambda model, rows: clone(model).fit(rows).transform(rows)
)
# What is slow, or is the same text for every estimator, is asked of these alone.
ASKED_OF = {
    "fit, weighted": WEIGHTED,
    "fit, k-means, weighted": ["sparse"],
    "report": ["sparse"],
    "compress": ["sparse", "exact"],
    "plots": ["sparse"],
}
FUNCTIONS = {
    "sparse_pca_path": lambda rows: ks.sparse_pca_path(rows, 2, alphas=5).components,
    "elastic_net_path": lambda rows: ks.elastic_net_path(clone(EVERY["elastic net"]), rows, n_alphas=3),
    "likelihood_path": lambda rows: ks.likelihood_path(clone(EVERY["likelihood"]), rows, n_points=3),
    "plots.captured_curve": lambda rows: ks.plots.captured_curve(rows, estimator=EVERY["sparse"], sizes=[4, 7]),
    "plots.monitor_chart": lambda rows: ks.plots.monitor_chart(clone(EVERY["monitor"]).fit(rows), rows),
    "plots.contributions": lambda rows: ks.plots.contributions(clone(EVERY["monitor"]).fit(rows), rows),
    "plots.contours": lambda rows: ks.plots.contours(clone(EVERY["sparse"]).fit(rows[:, :2]), rows[:, :2]),
}


def cases():
    for name, model in EVERY.items():
        others = [call for call in OTHER_CALLS if name in ASKED_OF.get(call.split(".")[0], EVERY)]
        for call in (*methods_of(model), *others):
            yield pytest.param(name, call, id=f"{name}: {call}")


def outcome(function, *args):
    """What a call gives, on the host, or the kind of error that it raises."""
    try:
        return host(function(*args))
    except (TypeError, ValueError, AttributeError, NotImplementedError, ImportError) as error:
        return error


def assert_alike(found, truth):
    if isinstance(truth, Exception):  # what ordinary tensors are refused for, these may be refused for
        assert type(found) is type(truth), found
        assert "cuda" not in str(found)
        return
    if isinstance(found, Exception):
        raise found
    assert (found is None) == (truth is None)
    if truth is not None:
        np.testing.assert_allclose(np.abs(found), np.abs(truth), rtol=1e-6, atol=1e-8 * max(1.0, np.abs(truth).max()))


@pytest.fixture(autouse=True)
def _no_pictures_left():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module")
def fitted(cloud):
    """Each estimator fitted on ordinary tensors and on stand-ins, once."""
    found = {}

    def fit(name):
        if name not in found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = [clone(EVERY[name]).fit(make(cloud)) for make in (torch.as_tensor, on_device)]
        return found[name]

    return fit


@pytest.mark.parametrize(("name", "call"), list(cases()))
def test_every_method(name, call, cloud, fitted):
    function = CALLS.get(call) or OTHER_CALLS.get(call) or (lambda model, rows: getattr(model, call)(rows))
    ordinary, elsewhere = fitted(name)
    truth = outcome(function, ordinary, torch.as_tensor(cloud))
    if call in TRUTHS and not isinstance(truth, Exception):
        truth = outcome(TRUTHS[call], ordinary, torch.as_tensor(cloud))
    assert_alike(outcome(function, elsewhere, on_device(cloud)), truth)


@pytest.mark.parametrize("call", FUNCTIONS)
def test_every_function(call, cloud):
    truth = outcome(FUNCTIONS[call], torch.as_tensor(cloud))
    assert_alike(outcome(FUNCTIONS[call], on_device(cloud)), truth)


def test_the_stand_in_cannot_be_read_where_it_is():
    rows = on_device(np.ones((3, 2)))
    for read in (np.asarray, np.array, lambda x: x.numpy(), np.from_dlpack, lambda x: (x @ x.T + 1).numpy()):
        with pytest.raises((TypeError, BufferError)):
            read(rows)
    assert np.array_equal(rows.cpu().numpy(), np.ones((3, 2)))
    assert np.array_equal(rows.to("cpu").numpy(), np.ones((3, 2)))
