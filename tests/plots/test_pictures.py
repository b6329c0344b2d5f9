"""Plots: each draws on the Axes it is given, labels it, and needs matplotlib only when called."""

import sys

import matplotlib as mpl
import numpy as np
import pytest
import scipy.sparse

mpl.use("Agg")

import matplotlib.pyplot as plt

from kernelsieve import (
    ElasticNetKernelPCA,
    LikelihoodKernelPCA,
    SparseKernelPCA,
    elastic_net_path,
    likelihood_path,
    plots,
)


@pytest.fixture(scope="module")
def plane():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    labels = np.repeat([0, 1, 2], 40)
    X = centers[labels] + 0.5 * rng.standard_normal((120, 2))
    return X, labels, SparseKernelPCA(3, n_support=8, random_state=0).fit(X)


@pytest.fixture(scope="module")
def images():
    X = np.random.default_rng(0).random((80, 12))
    return X, SparseKernelPCA(2, n_support=6, random_state=0).fit(X)


@pytest.fixture(scope="module")
def path(plane):
    return likelihood_path(LikelihoodKernelPCA(random_state=0), plane[0], n_points=6)


@pytest.fixture(scope="module")
def way(plane):
    return elastic_net_path(ElasticNetKernelPCA(3), plane[0], n_alphas=6)


def drawings(plane, images, path, way):
    X, labels, model = plane
    _, image_model = images
    named = np.array(["a", "b", "other"])[labels]
    curves = {"a": [0.5, 0.8, 0.9], "b": [0.4, np.nan, 0.7]}
    return {
        "contours": lambda ax: plots.contours(model, X, 1, resolution=20, ax=ax),
        "contours without rows": lambda ax: plots.contours(model, resolution=20, ax=ax),
        "scores": lambda ax: plots.scores(model, X, ax=ax),
        "scores with classes": lambda ax: plots.scores(model, X, (0, 2), labels=labels, ax=ax),
        "scores with named classes": lambda ax: plots.scores(model, X, labels=named, ax=ax),
        "scores with numbers": lambda ax: plots.scores(model, X, labels=X[:, 0], ax=ax),
        "support points": lambda ax: plots.support(model, ax=ax),
        "support images": lambda ax: plots.support(image_model, (3, 4), ax=ax),
        "support heat map": lambda ax: plots.support(image_model, ax=ax),
        "captured curve": lambda ax: plots.captured_curve([5, 10, 20], curves, target=0.9, ax=ax),
        "spectrum": lambda ax: plots.spectrum(model, ax=ax),
        "likelihood path": lambda ax: plots.likelihood_path(path, ax=ax),
        "path": lambda ax: plots.path(way, ax=ax),
    }


NAMES = (
    "contours",
    "contours without rows",
    "scores",
    "scores with classes",
    "scores with named classes",
    "scores with numbers",
    "support points",
    "support images",
    "support heat map",
    "captured curve",
    "spectrum",
    "likelihood path",
    "path",
)


@pytest.mark.parametrize("name", NAMES)
def test_draws_on_the_given_axes(name, plane, images, path, way):
    figure, ax = plt.subplots()
    assert drawings(plane, images, path, way)[name](ax) is ax
    figure.canvas.draw()


@pytest.mark.parametrize("name", NAMES)
def test_makes_axes_of_its_own(name, plane, images, path, way):
    before = set(plt.get_fignums())
    ax = drawings(plane, images, path, way)[name](None)
    assert len(set(plt.get_fignums()) - before) == 1
    ax.figure.canvas.draw()


@pytest.mark.parametrize("name", NAMES)
def test_says_what_it_shows(name, plane, images, path, way):
    ax = drawings(plane, images, path, way)[name](None)
    if name == "support images":
        assert ax.get_title() == "6 support points"
    else:
        assert ax.get_xlabel()
        assert ax.get_ylabel()


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_contours_mark_rows_and_support(plane):
    X, _, model = plane
    ax = plots.contours(model, X, resolution=20)
    assert legend_of(ax) == ["rows", "support"]
    drawn = [np.asarray(collection.get_offsets()) for collection in ax.collections]
    assert any(len(points) == 8 and np.allclose(points, model.support_vectors_) for points in drawn)


def test_contours_do_not_mark_support_when_every_row_is_support(plane):
    X = plane[0][:20]
    model = SparseKernelPCA(2, n_support=20, selection="uniform").fit(X)
    assert legend_of(plots.contours(model, X, resolution=20)) == ["rows"]


@pytest.mark.filterwarnings("error")
def test_contours_and_labels_use_column_names(plane):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(plane[0], columns=["height", "weight"])
    model = SparseKernelPCA(2, n_support=8, random_state=0).fit(frame)
    for ax in (plots.contours(model, frame, resolution=20), plots.support(model)):
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "weight")


def test_contour_values_are_the_scores(plane):
    _, _, model = plane
    ax = plots.contours(model, resolution=5)
    low, high = ax.get_xlim()
    points = model.support_vectors_
    assert low == pytest.approx(points[:, 0].min() - plots.MARGIN * np.ptp(points[:, 0]))
    assert high == pytest.approx(points[:, 0].max() + plots.MARGIN * np.ptp(points[:, 0]))


def test_scores_are_the_scores(plane):
    X, _, model = plane
    ax = plots.scores(model, X, components=(1, 2))
    assert np.allclose(ax.collections[0].get_offsets(), model.transform(X)[:, [1, 2]])
    shares = 100 * model.explained_variance_ratio_
    assert ax.get_xlabel() == f"component 2 ({shares[1]:.1f} % of variance)"
    assert ax.get_ylabel() == f"component 3 ({shares[2]:.1f} % of variance)"


def test_classes_have_a_legend_unless_their_marker_says_it(plane):
    X, labels, model = plane
    assert plots.scores(model, X, labels=labels).get_legend() is None
    named = np.array(["red", "green", "blue"])[labels]
    assert legend_of(plots.scores(model, X, labels=named)) == ["blue", "green", "red"]


def test_support_images_are_the_support(images):
    _, model = images
    mosaic = np.asarray(plots.support(model, (3, 4)).images[0].get_array().filled(np.nan))
    points = np.asarray(model.support_vectors_)
    assert np.allclose(mosaic[:3, :4], points[0].reshape(3, 4))
    assert np.isclose(np.nansum(mosaic), points.sum())


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 50, 100])
def test_image_grid_has_room_for_all(count):
    columns = plots.style.n_columns(count, 8, 8)
    assert 1 <= columns <= count


def test_support_of_sparse_rows():
    X = scipy.sparse.random(60, 5, density=0.5, random_state=0, format="csr")
    model = SparseKernelPCA(2, n_support=6, selection="targeted", random_state=0).fit(X)
    assert plots.support(model).images[0].get_array().shape == (6, 5)


def test_captured_curve_draws_every_curve_and_both_lines():
    ax = plots.captured_curve([10, 100], {"ours": [0.9, 1.0], "theirs": [0.5, 0.8]}, exact=0.98, target=0.95)
    assert legend_of(ax) == ["ours", "theirs", "exact kernel PCA", "target 95 %"]
    assert legend_of(plots.captured_curve([10, 100], {"ours": [0.9, 1.0]}, exact=None)) == ["ours"]


def test_spectrum_heights(plane):
    model = plane[2]
    ax = plots.spectrum(model)
    assert np.allclose([bar.get_height() for bar in ax.patches], model.explained_variance_ratio_)
    assert np.allclose(ax.lines[0].get_ydata(), np.cumsum(model.explained_variance_ratio_))


def twin_of(ax):
    (other,) = (drawn for drawn in ax.figure.axes if drawn is not ax)
    return other


def test_likelihood_path_draws_both_curves_and_the_upper_end(path):
    ax = plots.likelihood_path(path)
    assert legend_of(twin_of(ax)) == ["vectors", "explained variance", "upper end"]
    vectors, limit = ax.lines
    np.testing.assert_array_equal(vectors.get_xdata(), path.noise_variance)
    np.testing.assert_array_equal(vectors.get_ydata(), path.n_support)
    assert set(np.ravel(limit.get_xdata())) == {path.noise_variance_limit}
    share = twin_of(ax)
    np.testing.assert_array_equal(share.lines[0].get_xdata(), path.noise_variance)
    np.testing.assert_array_equal(share.lines[0].get_ydata(), path.explained_variance_ratio)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("noise variance", "representing vectors")
    assert share.get_ylabel() == "explained variance"


def test_likelihood_path_has_readable_ticks(path):
    ax = plots.likelihood_path(path)
    ax.figure.canvas.draw()
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert len(labels) >= 2
    assert all(label.isdigit() for label in labels)  # counts, not powers of ten
    shares = [text.get_text() for text in twin_of(ax).get_yticklabels()]
    assert all(label.endswith(" %") for label in shares)
    low, high = ax.get_xlim()
    assert low < path.noise_variance[-1] < path.noise_variance_limit < high


def test_likelihood_path_of_one_noise_variance(plane):
    one = likelihood_path(LikelihoodKernelPCA(random_state=0), plane[0], n_points=1)
    ax = plots.likelihood_path(one)
    ax.figure.canvas.draw()
    assert ax.lines[0].get_ydata() == one.n_support


def test_path_draws_every_number_of_the_path(way):
    ax = plots.path(way)
    (share,) = [other for other in ax.figure.axes if other is not ax]
    *each, together = [line.get_ydata() for line in ax.lines]
    drawn = np.where(way.n_nonzero > 0, way.n_nonzero, np.nan)  # no zero on a logarithmic axis
    np.testing.assert_array_equal(np.transpose(each), drawn)
    np.testing.assert_array_equal(together, np.where(way.n_support > 0, way.n_support, np.nan))
    np.testing.assert_array_equal(share.lines[0].get_ydata(), way.captured_ratio)
    np.testing.assert_array_equal(share.lines[1].get_ydata(), way.refit_ratio)
    for line in [*ax.lines, *share.lines]:
        np.testing.assert_array_equal(line.get_xdata(), way.alpha)
    assert (ax.get_xscale(), ax.get_yscale(), share.get_yscale()) == ("log", "log", "linear")
    names = {
        text.get_text(): line for text, line in zip(share.get_legend().get_texts(), legend_lines(share), strict=True)
    }
    assert names["each component"].get_color() == ax.lines[0].get_color()
    assert names["together"].get_color() == ax.lines[-1].get_color()
    assert names["captured"].get_linestyle() == share.lines[0].get_linestyle() == "-"
    assert names["after a refit"].get_linestyle() == share.lines[1].get_linestyle() == "--"


def legend_lines(ax):
    return ax.get_legend().get_lines()


def test_wrong_arguments_are_named(plane, images):
    X, _, model = plane
    image_rows, image_model = images
    with pytest.raises(ValueError, match="contours needs a model of 2 features, this one has 12"):
        plots.contours(image_model, image_rows)
    with pytest.raises(ValueError, match="component=3 does not exist: the model has 3"):
        plots.contours(model, X, 3)
    with pytest.raises(ValueError, match="component=7"):
        plots.scores(model, X, (0, 7))
    with pytest.raises(ValueError, match=r"labels have shape \(3,\), expected \(120,\)"):
        plots.scores(model, X, labels=[1, 2, 3])
    with pytest.raises(ValueError, match="25 pixels, the support points have 12"):
        plots.support(image_model, (5, 5))
    with pytest.raises(ValueError, match="curve 'a' has 1 values for 2"):
        plots.captured_curve([1, 2], {"a": [0.5]})
    assert not plt.get_fignums()


def test_without_matplotlib_says_what_to_install(plane, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plots.spectrum(plane[2])


def test_labels_of_a_series_are_named_and_one_extreme_number_leaves_the_scale_to_the_rest(plane):
    pd = pytest.importorskip("pandas")
    X, labels, model = plane
    classes = pd.Series(np.array(["red", "green", "blue"])[labels], name="paint")
    assert plots.scores(model, X, labels=classes).get_legend().get_title().get_text() == "paint"
    income = pd.Series(np.r_[np.arange(119.0), 1e6], name="income")
    ax = plots.scores(model, X, labels=income)
    bar = next(other for other in ax.figure.axes if other is not ax)
    assert bar.get_ylabel() == "income"
    assert ax.collections[-1].get_clim()[1] < 120


def test_the_heat_map_of_a_wide_table_names_the_columns_that_differ_most():
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((60, 30)) * np.r_[np.full(10, 1e-3), np.ones(20)]
    frame = pd.DataFrame(X, columns=[f"flat{j}" if j < 10 else f"wide{j}" for j in range(30)])
    ax = plots.support(SparseKernelPCA(2, n_support=8, random_state=0).fit(frame))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [f"wide{j}" for j in range(10, 30)]
    assert ax.get_xlabel() == "the 20 of 30 columns that differ most"
