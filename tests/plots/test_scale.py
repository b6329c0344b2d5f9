"""Pictures at the scale the library is for: many rows, many classes, frames, and models that cannot be drawn."""

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

mpl.use("Agg")

import matplotlib.pyplot as plt

import kernelsieve
from kernelsieve import SparseKernelPCA, plots, sparse_pca_path
from kernelsieve.plots import maps as row_drawing


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 50_000)
    X = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])[labels] + rng.standard_normal((50_000, 2))
    return X, labels, SparseKernelPCA(2, n_support=8, random_state=0).fit(X[:2000])


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_many_rows_without_labels_are_counted_and_none_is_lost(many):
    X, _, model = many
    ax = plots.scores(model, X)
    assert ax.collections[0].get_array().sum() == 50_000


def test_many_labelled_rows_are_small_and_shuffled(many):
    X, labels, model = many
    ax = plots.scores(model, X, labels=np.array(["a", "b", "c"])[labels])
    drawn = ax.collections[0]
    offsets = np.asarray(drawn.get_offsets())
    scores = model.transform(X)
    assert len(offsets) == 50_000
    assert drawn.get_sizes()[0] < 3
    assert np.allclose(np.sort(offsets[:, 0]), np.sort(scores[:, 0]))
    # in a random order the colour of a point says nothing of the next one's: a third of neighbours agree
    colors = drawn.get_facecolors()
    same = np.all(colors[1:, :3] == colors[:-1, :3], axis=1).mean()
    assert abs(same - 1 / 3) < 0.02
    assert legend_of(ax) == ["a", "b", "c"]


def test_each_shuffled_row_keeps_the_colour_of_its_class(many):
    X, labels, model = many
    ax = plots.scores(model, X[:5000], labels=np.array(["a", "b", "c"])[labels[:5000]])
    drawn, scores = ax.collections[0], model.transform(X[:5000])
    offsets, colors = np.asarray(drawn.get_offsets()), drawn.get_facecolors()
    order = np.lexsort(offsets.T)
    expected = np.array([mpl.colors.to_rgb(plots.COLORS[label]) for label in labels[:5000]])[np.lexsort(scores.T)]
    assert np.allclose(colors[order][:, :3], expected)


@pytest.mark.parametrize("n_rows", [300, 5000])
def test_any_number_of_string_classes(many, n_rows):
    X, _, model = many
    names = np.array([f"town {i % 40:02d}" for i in range(n_rows)])
    names[: n_rows // 4] = "capital"
    ax = plots.scores(model, X[:n_rows], labels=names)
    shown = legend_of(ax)
    assert len(shown) == 10
    assert shown[0] == "capital"
    assert shown[-1] == "32 others"


@pytest.mark.parametrize("n_rows", [300, 5000])
def test_missing_labels_are_grey(many, n_rows):
    X, _, model = many
    names = np.array(["a", None, "b", np.nan] * (n_rows // 4), dtype=object)
    assert legend_of(plots.scores(model, X[:n_rows], labels=names)) == ["a", "b", "missing"]


def test_numbers_with_gaps_are_a_scale(many):
    X, _, model = many
    numbers = X[:300, 0].copy()
    numbers[::3] = np.nan
    ax = plots.scores(model, X[:300], labels=numbers)
    assert [len(drawn.get_offsets()) for drawn in ax.collections] == [100, 200]


def test_points_get_smaller_and_fainter_with_their_number():
    styles = [row_drawing.point_style(n, 14, 0.7) for n in (10, 1000, 10_000, 100_000, 10_000_000)]
    sizes, alphas = [style["s"] for style in styles], [style["alpha"] for style in styles]
    assert sizes == sorted(sizes, reverse=True)
    assert alphas == sorted(alphas, reverse=True)
    assert sizes[0] == 14
    assert sizes[-1] > 1
    assert alphas[-1] >= 0.3


def test_scores_of_a_pipeline(many):
    X, _, _ = many
    model = make_pipeline(StandardScaler(), SparseKernelPCA(2, n_support=8, random_state=0)).fit(X[:500])
    ax = plots.scores(model, X[:500])
    assert np.allclose(ax.collections[0].get_offsets(), model.transform(X[:500]))


def test_contours_cover_rows_and_support():
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = SparseKernelPCA(1, selection=np.array([[6.0, 0.0], [0.0, -7.0], [0.0, 0.0]])).fit(X)
    ax = plots.contours(model, X, resolution=10)
    filled = [path.vertices for path in ax.collections[0].get_paths() if len(path.vertices)]
    low, high = np.vstack(filled).min(axis=0), np.vstack(filled).max(axis=0)
    assert high[0] > 6
    assert low[1] < -7
    assert high[1] > X[:, 1].max()


def test_captured_curve_computes_shares_of_exact():
    X = np.random.default_rng(0).standard_normal((200, 3))
    sizes = [4, 20, 100]
    ax = plots.captured_curve(X, estimator=SparseKernelPCA(3, random_state=0), sizes=sizes)
    own, sampled = (line.get_ydata() for line in ax.lines[:2])
    truth = [SparseKernelPCA(3, n_support=m, random_state=0).fit(X).captured_ratio_ for m in sizes]
    assert np.allclose(own, truth)
    assert own[-1] > 0.999
    assert np.all(own > sampled - 1e-6)


def test_captured_curve_follows_a_fitted_model_and_takes_a_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 3)), columns=list("abc"))
    model = SparseKernelPCA(2, gamma=0.1, n_support=9, random_state=0).fit(frame)
    ax = plots.captured_curve(frame, estimator=model, sizes=[9])
    assert ax.lines[0].get_ydata()[0] == pytest.approx(model.captured_ratio_)


def test_captured_curve_names_what_it_cannot_use():
    with pytest.raises(TypeError, match="must be a SparseKernelPCA, not LogisticRegression"):
        plots.captured_curve(np.eye(5), estimator=LogisticRegression())
    with pytest.raises(ValueError, match="needs rows by columns"):
        plots.captured_curve([1, 2, 3])


@pytest.mark.parametrize("paper", [0.0, 1.0])
def test_support_images_stand_on_white(paper):
    """Most pixels are the paper's value, and points overshoot it a little to both sides."""
    rng = np.random.default_rng(0)
    ink = 1.0 - paper
    X = np.full((80, 25), paper)
    X[:, 7:12] = ink + 0.05 * rng.standard_normal((80, 5))
    X += 0.02 * rng.standard_normal(X.shape)
    model = SparseKernelPCA(2, n_support=6, selection="targeted", random_state=0).fit(X)
    ax = plots.support(model, (5, 5))
    image = ax.images[0]
    white = image.cmap(image.norm(np.array([paper])))[0, :3]
    black = image.cmap(image.norm(np.array([ink])))[0, :3]
    assert white.min() > 0.93
    assert black.max() < 0.2
    assert ax.get_facecolor()[:3] == (1.0, 1.0, 1.0)


def test_paths_keep_column_names():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((50, 3)) * [3, 2, 1], columns=["height", "weight", "age"])
    path = sparse_pca_path(frame, 1, alphas=4)
    assert path.feature_names == ("height", "weight", "age")
    texts = {text.get_text() for text in plots.loading_path(path).texts}
    assert texts == {"height", "weight", "age"}
    assert sparse_pca_path(frame.to_numpy(), 1, alphas=2).feature_names is None


DRAWINGS = {
    "scores": lambda model: plots.scores(model, np.eye(2)),
    "contours": lambda model: plots.contours(model, np.eye(2)),
    "support": lambda model: plots.support(model),
    "spectrum": lambda model: plots.spectrum(model),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_models_that_are_not_fitted_are_named(name):
    with pytest.raises(NotFittedError, match="this SparseKernelPCA is not fitted yet: call fit"):
        DRAWINGS[name](SparseKernelPCA())
    assert not plt.get_fignums()


@pytest.mark.parametrize("name", DRAWINGS)
def test_wrong_models_are_named(name):
    fitted = LogisticRegression().fit(np.eye(2), [0, 1])
    with pytest.raises(TypeError, match="LogisticRegression cannot be drawn like this"):
        DRAWINGS[name](fitted)
    with pytest.raises(TypeError, match="SparseKernelPCA is a class"):
        DRAWINGS[name](SparseKernelPCA)
    assert not plt.get_fignums()


def test_contours_of_a_pipeline_say_what_to_give():
    model = make_pipeline(StandardScaler(), SparseKernelPCA(1, n_support=3, random_state=0))
    model.fit(np.random.default_rng(0).standard_normal((20, 2)))
    with pytest.raises(TypeError, match="give the pipeline's last step"):
        plots.contours(model)


def test_plots_are_there_without_an_import_of_their_own():
    import subprocess
    import sys

    code = "import kernelsieve, sys; assert 'matplotlib' not in sys.modules; print(kernelsieve.plots.scores.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "scores"


def test_dir_shows_public_names_only():
    names = dir(kernelsieve)
    assert set(names) == {*kernelsieve.__all__, "__version__"}
    assert {"plots", "report", "SparseKernelPCA"} <= set(names)
    for name in kernelsieve.__all__:
        assert getattr(kernelsieve, name) is not None
