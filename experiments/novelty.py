"""Novelty: one class is normal, the others are not; and how often a limit alarms on rows it has not seen.

One-class tasks over the data sets at hand.  Half of a class (at most 500 rows) is the training set, the other half and
rows of the other classes are the test; columns are standardised on the training rows for everyone.  Nothing is tuned:
every method has its usual settings, the same for all tasks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_s_curve
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from kernelsieve import KernelMonitor

from .datasets import IDA_NAMES, MissingData, ida, load_file, mnist, pima, thyroid, usps
from .report import Report
from .tennessee_eastman import lee_rows, one

SEEDS = range(2)  # splits of each task
LIMIT_SEEDS = range(20)
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


def labelled_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Data sets with classes; those whose files are not there are left out."""
    for name, loader in (
        ("digits", load_digits),
        ("wine", load_wine),
        ("iris", load_iris),
        ("cancer", load_breast_cancer),
    ):
        data = loader()
        yield name, data.data, data.target
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
        except MissingData:
            continue


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
    for name, rows, classes in labelled_sets():
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


def unlabelled_sets() -> dict[str, np.ndarray]:
    """Ten sets of more than 500 rows."""
    return {
        "digits": load_digits().data,
        "USPS": usps().train,
        "MNIST": mnist(8000).train,
        **{f"IDA {name}": ida(name).rows for name in ("banana", "german", "image")},
        "spam": load_file("spam")["x"].astype(np.float64),
        "flights": next(iter(load_file("nycflights13").values()))[::40].astype(np.float64),
        "Lee's curve": lee_rows(5000, 0),
        "S curve": make_s_curve(5000, noise=0.1, random_state=0)[0],
    }


def limit_table(report: Report) -> None:
    report.text(
        "## Limits that hold\n\n500 random training rows, false_alarm_rate=.05, up to 2,000 others: share above the "
        f"limit, mean (least, most) of {len(LIMIT_SEEDS)} seeds. Beside it the same share for the training rows' own "
        "quantile."
    )
    lines = []
    for name, rows in unlabelled_sets().items():
        held_out, training = [], []
        for seed in LIMIT_SEEDS:
            order = np.random.default_rng(seed).permutation(len(rows))
            model = KernelMonitor(random_state=seed).fit(rows[order[:500]])
            spe = model.statistics(rows[order[500:2500]]).spe
            held_out.append(100 * float(np.mean(spe > model.limits_["spe"])))
            training.append(100 * float(np.mean(spe > model.training_limits_["spe"])))
        spread = f"{one(np.mean(held_out))} ({one(min(held_out))} .. {one(max(held_out))})"
        lines.append([name, f"{rows.shape[0]} x {rows.shape[1]}", spread, one(float(np.mean(training)))])
    report.table(["data", "rows", "held-out limit, %", "training quantile, %"], lines)


def run(report: Report) -> None:
    """AUROC against the peers, then false alarms of the limit."""
    warnings.simplefilter("ignore")
    report.title("Novelty detection")
    novelty_tables(report)
    limit_table(report)
