"""Novelty: one class is normal, the others are not; and how often a limit alarms on rows it has not seen.

One-class tasks over the data sets at hand.  Half of a class (at most 500 rows) is the training set, the other half and
rows of the other classes are the test; columns are standardised on the training rows for everyone.  Nothing is tuned:
every method has its usual settings, the same for all tasks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_s_curve
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from kernelsieve import KernelMonitor, KernelPCA

from .datasets import IDA_NAMES, MissingData, ida, load_file, mnist, pima, thyroid, usps
from .report import Report, mean_and_deviation, span
from .tennessee_eastman import lee_rows, one

SEEDS = range(2)  # splits of each task
LIMIT_SEEDS = range(20)
HOFFMANN_SPLITS = range(5)
MOST_TRAINING, MOST_TEST, FEWEST = 500, 1000, 40
Method = Callable[[np.ndarray, np.ndarray], np.ndarray]


def fitted_monitor(train: np.ndarray) -> KernelMonitor:
    """At its defaults, but for the folds: they set the limit, on which no ranking depends."""
    return KernelMonitor(cv=2, random_state=0).fit(train)


def monitor(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return -fitted_monitor(train).score_samples(test)


def monitor_t2(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return fitted_monitor(train).statistics(test).t2


def nearest(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return NearestNeighbors(n_neighbors=5).fit(train).kneighbors(test)[0].mean(axis=1)


def one_class_svm(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return -OneClassSVM(gamma="scale", nu=0.1).fit(train).score_samples(test)


def local_outlier_factor(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return -LocalOutlierFactor(n_neighbors=min(20, len(train) - 1), novelty=True).fit(train).score_samples(test)


def linear_pca(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    model = PCA(0.95, svd_solver="full").fit(train)
    return np.sum((test - model.inverse_transform(model.transform(test))) ** 2, axis=1)


def isolation_forest(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return -IsolationForest(random_state=0).fit(train).score_samples(test)


def pyod_kpca(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    from pyod.models.kpca import KPCA

    return KPCA(random_state=0).fit(train).decision_function(test)


def methods() -> dict[str, Method]:
    found: dict[str, Method] = {
        "KernelMonitor": monitor,
        "kNN (5)": nearest,
        "LOF (20)": local_outlier_factor,
        "OneClassSVM": one_class_svm,
        "IsolationForest": isolation_forest,
        "PCA (95 %)": linear_pca,
        "T2 of KernelMonitor": monitor_t2,
    }
    try:
        import pyod.models.kpca  # noqa: F401
    except ImportError:
        return found
    return {**found, "PyOD KPCA": pyod_kpca}


PEERS = ("kNN (5)", "LOF (20)", "OneClassSVM", "IsolationForest", "PCA (95 %)")


def labelled_sets(report: Report) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Data sets with classes; those whose files are not there are named and left out."""
    for name, loader in (
        ("digits", load_digits),
        ("wine", load_wine),
        ("iris", load_iris),
        ("cancer", load_breast_cancer),
    ):
        data = loader()
        if report.quick and name == "digits":
            continue
        yield name, data.data, data.target
    if report.quick:
        return
    wanted: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
        "USPS": lambda: (usps().test, load_file("usps")["y_test"]),
        "thyroid": thyroid,
        "spam": lambda: (load_file("spam")["x"].astype(np.float64), load_file("spam")["y"]),
        "Pima": lambda: (
            np.vstack([pima().train, pima().test]),
            np.concatenate([pima().train_labels, pima().test_labels]),
        ),
    }
    wanted |= {f"IDA {name}": (lambda name=name: (ida(name).rows, ida(name).labels)) for name in IDA_NAMES}
    for name, load in wanted.items():
        try:
            yield name, *load()
        except MissingData as missing:
            report.skip(f"one-class tasks of {name}", missing)


def task(rows: np.ndarray, own: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows, test rows and their labels, standardised on the training rows."""
    half = min(len(own) // 2, MOST_TRAINING)
    train, test = rows[own[:half]], np.vstack([rows[own[half : half + MOST_TEST]], rows[others[:MOST_TEST]]])
    labels = np.arange(len(test)) >= len(own[half : half + MOST_TEST])
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test), labels


def one_class_tasks(rows: np.ndarray, classes: np.ndarray, chosen: dict[str, Method]) -> list[list[float]]:
    """AUROC of each method on each class, mean over the splits."""
    found = []
    for value in np.unique(classes):
        if np.sum(classes == value) < FEWEST:
            continue
        splits = []
        for seed in SEEDS:
            rng = np.random.default_rng(seed)
            own, others = (rng.permutation(np.flatnonzero(mask)) for mask in (classes == value, classes != value))
            train, test, labels = task(rows, own, others)
            splits.append([roc_auc_score(labels, method(train, test)) for method in chosen.values()])
        found.append(np.mean(splits, axis=0).tolist())
    return found


def novelty_tables(report: Report) -> None:
    chosen = methods()
    everything, lines = [], []
    for name, rows, classes in labelled_sets(report):
        found = one_class_tasks(rows, classes, chosen)
        if found:
            everything += found
            lines.append([name, str(len(found)), *(f"{value:.3f}" for value in np.mean(found, axis=0))])
    means = np.mean(everything, axis=0)
    by_set = np.mean([[float(value) for value in line[2:]] for line in lines], axis=0)
    lines.append(["mean of tasks", str(len(everything)), *(f"{value:.4f}" for value in means)])
    lines.append(["mean of sets", str(len(lines) - 1), *(f"{value:.4f}" for value in by_set)])
    report.text("## AUROC of one-class tasks")
    report.table(["data", "tasks", *chosen], lines)
    of, of_sets = (dict(zip(chosen, values, strict=True)) for values in (means, by_set))
    best = max(PEERS, key=of.__getitem__)
    report.fact(
        auroc=f"{of['KernelMonitor']:.3f}",
        auroc_best=f"{of[best]:.3f}",
        auroc_best_name=best,
        auroc_t2=f"{of['T2 of KernelMonitor']:.3f}",
        auroc_tasks=len(everything),
        auroc_sets=len(lines) - 2,
    )
    report.text(
        f"Best of the five peers: {best}, {of[best]:.4f} (by set {of_sets[best]:.4f}); KernelMonitor "
        f"{of['KernelMonitor']:.4f} ({of_sets['KernelMonitor']:.4f}) with 60 points, the neighbours with all rows. "
        "T2 of a Gaussian kernel falls far from the rows: it must not decide alone."
    )
    if "PyOD KPCA" in of:
        report.text(
            f"PyOD's KPCA, exact and on all rows, has {of['PyOD KPCA']:.4f} ({of_sets['PyOD KPCA']:.4f}): the same "
            "statistic at the price of all rows. Which of the two is ahead depends on how tasks are averaged."
        )


def unlabelled_sets(report: Report) -> dict[str, np.ndarray]:
    """Ten sets of more than 500 rows; those whose files are missing are named and left out."""
    loaders: dict[str, Callable[[], np.ndarray]] = {
        "digits": lambda: load_digits().data,
        "USPS": lambda: usps().train,
        "MNIST": lambda: mnist(8000).train,
        **{f"IDA {name}": (lambda name=name: ida(name).rows) for name in ("banana", "german", "image")},
        "spam": lambda: load_file("spam")["x"].astype(np.float64),
        "flights": lambda: next(iter(load_file("nycflights13").values()))[::40].astype(np.float64),
        "Lee's curve": lambda: lee_rows(5000, 0),
        "S curve": lambda: make_s_curve(5000, noise=0.1, random_state=0)[0],
    }
    found = {}
    for name in ("digits", "Lee's curve") if report.quick else loaders:
        try:
            found[name] = loaders[name]()
        except MissingData as missing:
            report.skip(f"false alarms on {name}", missing)
    return found


def limit_table(report: Report) -> None:
    report.text(
        "## Limits that hold\n\n500 random training rows, false_alarm_rate=.05, up to 2,000 others: share above the "
        f"limit, mean (least, most) of {len(report.some(LIMIT_SEEDS))} seeds. Beside it the same share for the "
        "training rows' own quantile."
    )
    lines, ratios, rates = [], [], []
    for name, rows in unlabelled_sets(report).items():
        held_out, training = [], []
        for seed in report.some(LIMIT_SEEDS):
            order = np.random.default_rng(seed).permutation(len(rows))
            model = KernelMonitor(random_state=seed).fit(rows[order[:500]])
            spe = model.statistics(rows[order[500:2500]]).spe
            held_out.append(100 * float(np.mean(spe > model.limits_["spe"])))
            training.append(100 * float(np.mean(spe > model.training_limits_["spe"])))
        spread = f"{one(np.mean(held_out))} ({one(min(held_out))} .. {one(max(held_out))})"
        lines.append([name, f"{rows.shape[0]} x {rows.shape[1]}", spread, one(float(np.mean(training)))])
        rates.append(float(np.mean(held_out)))
        ratios.append(float(np.mean(training)) / 5.0)
    report.table(["data", "rows", "held-out limit, %", "training quantile, %"], lines)
    report.fact(limit_rates=span(rates, 2), training_times=span(ratios, 2), limit_sets=len(rates))


def run(report: Report) -> None:
    """AUROC against the peers, then false alarms of the limit."""
    warnings.simplefilter("ignore")
    report.title(
        "Novelty detection",
        "What Hoffmann (2007) claims, by its abstract (the paper is not at hand), then one-class tasks and limits of "
        "our own.",
    )
    hoffmann(report)
    novelty_tables(report)
    limit_table(report)


def hoffmann(report: Report) -> None:
    """The squared distance to kernel PCA's subspace as a measure of novelty, beside what it was compared with."""
    report.text(
        "## Hoffmann (2007)\n\nAUROC, mean (standard deviation) over splits: the squared distance to the subspace of "
        "exact kernel PCA, a one-class SVM and a Parzen window with the same Gaussian kernel, of median width, and "
        "linear PCA. Digits: each of the ten is normal in turn. Breast cancer: benign rows are normal."
    )
    sets = {"handwritten digits": load_digits(), "breast-cancer cytology": load_breast_cancer()}
    splits, lines = report.some(HOFFMANN_SPLITS), []
    for name, data in sets.items():
        normal = np.unique(data.target)[:2] if report.quick else np.unique(data.target)
        classes = normal if name.startswith("hand") else [1]  # benign
        found: dict[str, list[float]] = {}
        for seed in splits:
            each: dict[str, list[float]] = {}
            for value in classes:
                rng = np.random.default_rng(seed)
                own, others = (rng.permutation(np.flatnonzero(m)) for m in (data.target == value, data.target != value))
                train, test, labels = task(data.data, own, others)
                for method, scores in distances(train, test).items():
                    each.setdefault(method, []).append(float(roc_auc_score(labels, scores)))
            for method, values in each.items():
                found.setdefault(method, []).append(float(np.mean(values)))
        lines.append((name, *(mean_and_deviation(values) for values in found.values())))
        ours, *peers = (np.array(values) for values in found.values())
        best = np.max(peers, axis=0)
        behind, apart = best - ours, best - np.min(peers, axis=0)
        report.verdict(
            f"Hoffmann 2007, {name}",
            "the squared distance to kernel PCA's subspace shows a competitive performance",
            found=f"AUROC {mean_and_deviation(ours)}, the best of the others {mean_and_deviation(best)}; behind it by "
            f"{float(behind.max()):.3f} at most",
            holds=(behind < apart).tolist(),
            key="verdict_digits" if name.startswith("hand") else "verdict_cancer",
            tried=f"{len(splits)} splits; behind the best by less than lies between the best and the worst of them",
            change="scikit-learn's 8 x 8 digits and diagnostic table for MNIST and the cytology table; one-class SVM, "
            "Parzen window and PCA are our choice of competitors, of which the abstract names none; nothing is tuned",
        )
        short = "digits" if name.startswith("hand") else "cancer"
        report.fact(**{f"hoffmann_{short}": f"{ours.mean():.3f}", f"hoffmann_{short}_best": f"{best.mean():.3f}"})
    report.table(("data", "kernel PCA", "one-class SVM", "Parzen window", "PCA"), lines)
    report.verdict(
        "Hoffmann 2007, two-dimensional distributions",
        "competitive performance on synthetic distributions",
        found="0 of its 5 distributions are at hand",
        holds=False,
        tried="nothing",
        needs="the five sets of points (square, square with noise, ring, line and square, spiral, sine with noise), "
        "testdist.zip on the author's page of the article, which the abstract does not describe",
    )


def distances(train: np.ndarray, test: np.ndarray) -> dict[str, np.ndarray]:
    """Measures of novelty, larger for rows that are further from the training rows."""
    kernel = KernelPCA(30, kernel="rbf", gamma="median", random_state=0).fit(train)
    gamma = float(kernel.gamma_)
    return {
        "kernel PCA": kernel.reconstruction_error(test),
        "one-class SVM": -OneClassSVM(gamma=gamma, nu=0.1).fit(train).score_samples(test),
        "Parzen window": -np.exp(-gamma * cdist(test, train, "sqeuclidean")).sum(axis=1),
        "PCA": linear_pca(train, test),
    }
