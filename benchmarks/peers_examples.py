"""Each peer's own example of kernel PCA, and the same with kernelsieve: both are run, and both outputs are shown.

    python -m benchmarks.peers_examples

writes docs/coming_from/examples.md.  Pictures of the originals are printed as numbers; data that they fetch is replaced
by data that is installed, which the text says.  What a peer's runtime is missing for keeps the output of the last run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "coming_from" / "examples.md"


@dataclass(frozen=True)
class Example:
    """An example of a peer's documentation, and ours."""

    title: str
    about: str  # where it is from, what was changed, what to look at
    theirs: str
    ours: str
    language: str = "python"


EXAMPLES = (
    Example(
        "scikit-learn: Kernel PCA",
        "The gallery's *Kernel PCA*: two circles, projected and reconstructed. In place of its pictures: the accuracy "
        "of a straight cut through two components, and the error of reconstructed test rows.",
        """
import numpy as np
from sklearn.datasets import make_circles
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

X, y = make_circles(n_samples=1_000, factor=0.3, noise=0.05, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, stratify=y, random_state=0
)
kernel_pca = KernelPCA(
    n_components=None, kernel="rbf", gamma=10,
    fit_inverse_transform=True, alpha=0.1,
)
kernel_pca.fit(X_train)
Z_train, Z_test = kernel_pca.transform(X_train), kernel_pca.transform(X_test)
cut = LogisticRegression().fit(Z_train[:, :2], y_train)
print(f"accuracy {cut.score(Z_test[:, :2], y_test):.3f}")
error = np.mean((kernel_pca.inverse_transform(Z_test) - X_test) ** 2)
print(f"reconstruction error {error:.4f}, {Z_test.shape[1]} components")
""",
        """
import numpy as np
from sklearn.datasets import make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from kernelsieve import SparseKernelPCA

X, y = make_circles(n_samples=1_000, factor=0.3, noise=0.05, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, stratify=y, random_state=0
)
model = SparseKernelPCA(20, gamma=10, random_state=0).fit(X_train)
Z_train, Z_test = model.transform(X_train), model.transform(X_test)
cut = LogisticRegression().fit(Z_train[:, :2], y_train)
print(f"accuracy {cut.score(Z_test[:, :2], y_test):.3f}")
error = np.mean((model.inverse_transform(Z_test) - X_test) ** 2)
print(f"reconstruction error {error:.4f}, {Z_test.shape[1]} components")
print(f"{model.n_support_} support points for 750 rows")
""",
    ),
    Example(
        "scikit-learn: image denoising",
        "The gallery's *Image denoising using kernel PCA*, on scikit-learn's own digits in place of USPS, which it "
        "fetches. The mean squared error stands in the titles of its pictures.",
        """
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, KernelPCA
from sklearn.model_selection import train_test_split

X = load_digits().data / 16
X_train, X_test = train_test_split(
    X, train_size=1_000, test_size=100, random_state=0
)
rng = np.random.RandomState(0)
X_train_noisy = X_train + rng.normal(scale=0.25, size=X_train.shape)
X_test_noisy = X_test + rng.normal(scale=0.25, size=X_test.shape)
pca = PCA(n_components=32, random_state=42).fit(X_train_noisy)
kernel_pca = KernelPCA(
    n_components=400, kernel="rbf", gamma=1e-3,
    fit_inverse_transform=True, alpha=5e-3, random_state=42,
).fit(X_train_noisy)
for name, model in (("PCA", pca), ("kernel PCA", kernel_pca)):
    again = model.inverse_transform(model.transform(X_test_noisy))
    print(f"{name}: MSE {np.mean((X_test - again) ** 2):.4f}")
print(f"noisy: MSE {np.mean((X_test - X_test_noisy) ** 2):.4f}")
""",
        """
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kernelsieve import SparseKernelPCA

X = load_digits().data / 16
X_train, X_test = train_test_split(
    X, train_size=1_000, test_size=100, random_state=0
)
rng = np.random.RandomState(0)
X_train_noisy = X_train + rng.normal(scale=0.25, size=X_train.shape)
X_test_noisy = X_test + rng.normal(scale=0.25, size=X_test.shape)
model = SparseKernelPCA(32, n_support=200, random_state=0).fit(X_train_noisy)
again = model.inverse_transform(model.transform(X_test_noisy))
print(f"kernelsieve: MSE {np.mean((X_test - again) ** 2):.4f}")
""",
    ),
    Example(
        "kernlab: kpca",
        "The example of `?kpca`, with every seventh row held out in place of a random twenty. Scores are the same, up "
        "to sign and kernlab's factor for each column.",
        """
library(kernlab)
data(iris)
test <- seq(1, 150, by = 7)
kpc <- kpca(~., data = iris[-test, -5], kernel = "rbfdot",
            kpar = list(sigma = 0.2), features = 2)
print(unname(round(eig(kpc), 5)))
print(unname(round(head(predict(kpc, iris[test, -5]), 3), 3)))
""",
        """
import numpy as np
from sklearn.datasets import load_iris

from kernelsieve import KernelPCA, SparseKernelPCA

X = load_iris().data
test = np.arange(0, 150, 7)
train = np.delete(X, test, axis=0)
exact = KernelPCA(2, kernel="rbf", gamma=0.2).fit(train)
print(exact.explained_variance_.round(5))
print((exact.transform(X[test]) * len(train) ** 0.5)[:3].round(3))
sparse = SparseKernelPCA(2, n_support=12, gamma=0.2, random_state=0).fit(train)
print(f"twelve points keep {sparse.captured_ratio_:.4f} of it")
""",
        "r",
    ),
    Example(
        "kernlab: a string kernel on news",
        "Forty Reuters articles that come with kernlab, twenty on acquisitions and twenty on crude oil, as in its "
        "paper on string kernels. The R code also writes the articles to a file, which ours reads; "
        "eigenvalues agree to a per cent.",
        """
library(kernlab)
data(reuters)
reuters <- lapply(reuters, function(text) gsub("\\n", " ", text))
writeLines(unlist(reuters), "articles.txt")
kpc <- kpca(reuters, kernel = "stringdot", features = 2,
            kpar = list(length = 4, type = "spectrum", normalized = TRUE))
print(unname(round(eig(kpc), 4)))
label <- rep(c(1, -1), each = 20)
print(round(max(abs(cor(rotated(kpc), label))), 3))
""",
        """
from pathlib import Path

import numpy as np

from kernelsieve import SparseKernelPCA
from kernelsieve.kernels import Spectrum

articles = Path("articles.txt").read_text().splitlines()
label = np.repeat([1, -1], 20)
exact = SparseKernelPCA(2, n_support=1.0, kernel=Spectrum(4)).fit(articles)
print(exact.explained_variance_.round(4))
scores = exact.transform(articles)
print(np.abs(np.corrcoef(scores.T, label)[2, :2]).max().round(3))
sparse = SparseKernelPCA(2, n_support=15, kernel=Spectrum(4), random_state=0)
print(f"fifteen articles keep {sparse.fit(articles).captured_ratio_:.3f} of it")
""",
        "r",
    ),
    Example(
        "PyOD: KPCA",
        "PyOD's example of its detector: made outliers, the area under the ROC curve. By default it keeps all "
        "components, which reconstruct training rows up to rounding, so that the scores of training rows say nothing "
        "and those of new rows do. We added the last four lines: with two components both agree.",
        """
from pyod.models.kpca import KPCA
from pyod.utils.data import evaluate_print, generate_data

X_train, X_test, y_train, y_test = generate_data(
    n_train=200, n_test=100, n_features=2, contamination=0.1, random_state=42
)
clf = KPCA()
clf.fit(X_train)
evaluate_print("KPCA on training rows", y_train, clf.decision_scores_)
evaluate_print("KPCA on test rows", y_test, clf.decision_function(X_test))
clf = KPCA(n_selected_components=2)
clf.fit(X_train)
evaluate_print("two components, training rows", y_train, clf.decision_scores_)
evaluate_print("two components, test rows", y_test, clf.decision_function(X_test))
""",
        """
from pyod.utils.data import evaluate_print, generate_data

from kernelsieve import SparseKernelPCA

X_train, X_test, y_train, y_test = generate_data(
    n_train=200, n_test=100, n_features=2, contamination=0.1, random_state=42
)
model = SparseKernelPCA(2, n_support=20, random_state=0).fit(X_train)
train_error = model.reconstruction_error(X_train)
evaluate_print("kernelsieve on training rows", y_train, train_error)
evaluate_print("kernelsieve on test rows", y_test, model.reconstruction_error(X_test))
""",
    ),
    Example(
        "nystrompca: a bound on what the subset loses",
        "The telescope table that comes with the package: Nystroem kernel PCA on a random subset, the reconstruction "
        "error of its components, and the package's confidence bound. We report an interval of what was measured; "
        "their bound is proved, and far from it.",
        """
import numpy as np
from nystrompca import NystromKPCA, calculate_bound
from nystrompca.experiments.data import get_magic_data

X = get_magic_data(1000)
X = (X - X.mean(axis=0)) / X.std(axis=0)
model = NystromKPCA(
    n_components=5, m_subset=50, sigma=4.0, scale=False, seed=1
)
model.fit_transform(X)
errors = model.get_reconstruction_errors()[:5]
print("reconstruction error", np.round(errors, 4))
bound = calculate_bound(X[model.subset], 1000, "rbf", sigma=4.0)[:5]
print("confidence bound    ", np.round(bound, 4))
""",
        """
import numpy as np
from nystrompca.experiments.data import get_magic_data

from kernelsieve import SparseKernelPCA

X = get_magic_data(1000)
X = (X - X.mean(axis=0)) / X.std(axis=0)
model = SparseKernelPCA(5, n_support=50, gamma=1 / 16, random_state=0).fit(X)
left = 1 - np.cumsum(model.explained_variance_ratio_)
total = model.explained_variance_ / model.explained_variance_ratio_
print("reconstruction error", np.round(left * total, 4))
low, high = model.captured_ratio_interval_
print(f"captured {model.captured_ratio_:.4f} of exact, {low:.4f} to {high:.4f}")
""",
    ),
    Example(
        "mlpack: kernel_pca",
        "The example of its documentation, a Gaussian kernel, on iris: what is left of the classes in two scores, as "
        "the accuracy of five neighbours. It gives scores of the rows that it was fitted on and nothing else; here, "
        "new rows can follow.",
        """
from mlpack import kernel_pca
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

X, y = load_iris(return_X_y=True)
output = kernel_pca(
    input_=X, kernel="gaussian", bandwidth=2.0, new_dimensionality=2, center=True
)
Z = output["output"]
print(f"accuracy {KNeighborsClassifier().fit(Z, y).score(Z, y):.3f}")
""",
        """
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from kernelsieve import SparseKernelPCA

X, y = load_iris(return_X_y=True)
model = SparseKernelPCA(2, n_support=12, gamma=1 / 8, random_state=0).fit(X)
Z = model.transform(X)
print(f"accuracy {KNeighborsClassifier().fit(Z, y).score(Z, y):.3f}")
print(f"twelve points keep {model.captured_ratio_:.4f} of exact kernel PCA")
""",
    ),
    Example(
        "scikit-matter: landmarks by farthest points",
        "A selection of samples as in its gallery, on the diabetes table of scikit-learn: how far the farthest row is "
        "from its landmark. The same rule is one of ours; what kernel PCA on such landmarks keeps is another matter.",
        """
from skmatter.sample_selection import FPS
from sklearn.datasets import load_diabetes
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler

X = StandardScaler().fit_transform(load_diabetes().data)
few = X[FPS(n_to_select=20, initialize=0).fit(X).selected_idx_]
print(f"farthest row: {pairwise_distances(X, few).min(axis=1).max():.2f}")
""",
        """
from sklearn.datasets import load_diabetes
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA

X = StandardScaler().fit_transform(load_diabetes().data)
for rule in ("farthest", "optimized"):
    model = SparseKernelPCA(
        2, n_support=20, selection=rule, gamma=0.01, random_state=0
    ).fit(X)
    apart = pairwise_distances(X, model.support_vectors_).min(axis=1).max()
    kept = model.captured_ratio_
    print(f"{rule}: farthest row {apart:.2f}, {kept:.4f} of exact kernel PCA")
""",
    ),
    Example(
        "scikit-matter: life expectancy",
        "The gallery's *Benefits of Kernel PCovR for the WHO Dataset*: two components, and kernel ridge regression on "
        "them. Kernel PCovR looks at the target as well, and for this task it is the better one; we have "
        "no supervised projection. With mixing=1 it is kernel PCA, which is what ours stands in for.",
        """
import numpy as np
from skmatter.datasets import load_who_dataset
from skmatter.decomposition import KernelPCovR
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

table = load_who_dataset()["data"]
columns = [
    "SP.POP.TOTL", "SH.TBS.INCD", "SH.IMM.MEAS", "SE.XPD.TOTL.GD.ZS",
    "SH.DYN.AIDS.ZS", "SH.IMM.IDPT", "SH.XPD.CHEX.GD.ZS", "SN.ITK.DEFC.ZS",
    "NY.GDP.PCAP.CD",
]
X = np.array(table[columns])
X[:, [0, 8]] = np.log10(X[:, [0, 8]])
y = np.array(table[["SP.DYN.LE00.IN"]])
X, y = (StandardScaler().fit_transform(each) for each in (X, y))
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.3, random_state=0
)
kernel = {"kernel": "rbf", "gamma": 0.0886}
regressor = KernelRidge(alpha=0.0016, **kernel)
covariance = KernelPCovR(
    n_components=2, regressor=regressor, mixing=0.5, **kernel
)
for model in (covariance, KernelPCA(n_components=2, **kernel)):
    model.fit(X_train, y_train)
    last = KernelRidge(**kernel).fit(model.transform(X_train), y_train)
    r2 = last.score(model.transform(X_test), y_test)
    print(f"{type(model).__name__}: R2 {r2:.3f}")
""",
        """
import numpy as np
from skmatter.datasets import load_who_dataset
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from kernelsieve import SparseKernelPCA

table = load_who_dataset()["data"]
columns = [
    "SP.POP.TOTL", "SH.TBS.INCD", "SH.IMM.MEAS", "SE.XPD.TOTL.GD.ZS",
    "SH.DYN.AIDS.ZS", "SH.IMM.IDPT", "SH.XPD.CHEX.GD.ZS", "SN.ITK.DEFC.ZS",
    "NY.GDP.PCAP.CD",
]
X = np.array(table[columns])
X[:, [0, 8]] = np.log10(X[:, [0, 8]])
y = np.array(table[["SP.DYN.LE00.IN"]])
X, y = (StandardScaler().fit_transform(each) for each in (X, y))
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.3, random_state=0
)
kernel = {"kernel": "rbf", "gamma": 0.0886}
model = SparseKernelPCA(2, n_support=20, random_state=0, **kernel)
model.fit(X_train)
last = KernelRidge(**kernel).fit(model.transform(X_train), y_train)
r2 = last.score(model.transform(X_test), y_test)
print(f"kernelsieve: R2 {r2:.3f}")
print(f"{model.captured_ratio_:.4f} of kernel PCA's variance, 20 points")
print(f"exact kernel PCA keeps {len(X_train):,} rows")
""",
    ),
)


def output_of(code: str, language: str, folder: str) -> str | None:
    """What a program prints; None where its interpreter is missing."""
    if language == "r":
        if shutil.which("Rscript") is None:
            return None
        path = Path(folder) / "theirs.R"
        command = ["Rscript", str(path)]
    else:
        path = Path(folder) / "example.py"
        command = [sys.executable, "-W", "ignore", str(path)]
    path.write_text(code.strip() + "\n", encoding="utf-8")
    sources = str(Path(__file__).parents[1] / "src")
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": sources}
    )
    if done.returncode:
        raise RuntimeError(f"{path.name} failed:\n{done.stderr}")
    return done.stdout.strip()


def kept_outputs() -> dict[str, str]:
    """Outputs on the page as it is, by the code above them."""
    if not PAGE.exists():
        return {}
    blocks = re.findall(r"```(?:python|r)\n(.*?)\n```\n\n```text\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.S)
    return dict(blocks)


def section(example: Example, kept: dict[str, str]) -> str:
    """One example in Markdown, run."""
    shown = []
    with tempfile.TemporaryDirectory() as folder:
        for code, language in ((example.theirs, example.language), (example.ours, "python")):
            code = code.strip()
            try:
                output = output_of(code, language, folder)
            except RuntimeError:
                if code not in kept:
                    raise
                output = None  # its own input comes from a program whose interpreter is missing
            shown.append(f"```{language}\n{code}\n```\n\n```text\n{kept[code] if output is None else output}\n```")
    about = textwrap.fill(example.about, 118)
    return f"## {example.title}\n\n{about}\n\n{shown[0]}\n\nHere:\n\n{shown[1]}\n"


def main() -> None:
    kept = kept_outputs()
    opening = (
        "# Examples of other packages, here\n\n"
        "Each package's own example of kernel PCA, and the same with kernelsieve. Both programs were run to make this\n"
        "page (`make peers`), and what they printed stands below them.\n"
    )
    PAGE.write_text("\n".join([opening, *(section(example, kept) for example in EXAMPLES)]), encoding="utf-8")


if __name__ == "__main__":
    main()
