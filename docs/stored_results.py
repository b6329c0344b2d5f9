"""Results on data that cannot be shipped, computed once and kept: python docs/stored_results.py [mnist tennessee umap]

Needs KERNELSIEVE_DATA (experiments/DATA.md says where to get the files), and umap-learn for the comparison with UMAP.
Numbers go to docs/results/stored.json with the date of the run, pictures to docs/_static/results/.  The pages in
docs/results show both, so text and numbers come from the same run and the site builds without the data.
"""

from __future__ import annotations

import datetime
import json
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from kernelsieve import KernelMonitor, SparseKernelPCA, plots

HERE = Path(__file__).parent
NUMBERS = HERE / "results" / "stored.json"
PICTURES = HERE / "_static" / "results"


def data(name: str) -> dict[str, np.ndarray]:
    """The arrays of one file of the data folder."""
    with np.load(Path(os.environ["KERNELSIEVE_DATA"]) / f"{name}.npz", allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def draw(name: str) -> None:
    """Store the current figure under a name, and close it."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    plt.savefig(PICTURES / f"{name}.png", dpi=150)
    plt.close("all")


def seconds(call: Callable[[], Any]) -> float:
    """Processor time of a call, summed over threads: it does not depend on what else the machine does."""
    start = time.process_time()
    call()
    return time.process_time() - start


def mnist_rows(n_train: int, n_test: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first rows of MNIST's training and test sets as numbers between 0 and 1, and their labels."""
    found = data("mnist")
    train, test = (found[key].reshape(len(found[key]), -1) / np.float32(255) for key in ("x_train", "x_test"))
    return train[:n_train], test[:n_test], found["y_train"][:n_train], found["y_test"][:n_test]


def mnist() -> dict[str, str]:
    """Fifty support points of all 60,000 rows."""
    train, test, _, labels = mnist_rows(60_000, 2000)
    model = SparseKernelPCA(10, n_support=50, random_state=0).fit(train)
    plots.support(model, image_shape=(28, 28))
    draw("mnist_support")
    scores = model.transform(test)
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.6), layout="constrained")
    for ax, first in zip(axes, (0, 2), strict=True):
        dots = ax.scatter(scores[:, first], scores[:, first + 1], c=labels, cmap="tab10", vmin=-0.5, vmax=9.5, s=5)
        ax.set(xlabel=f"component {first + 1}", ylabel=f"component {first + 2}", xticks=[], yticks=[])
    figure.colorbar(dots, ax=axes, label="digit", ticks=range(10))
    draw("mnist_map")
    low, high = model.captured_ratio_interval_
    return {"ratio": f"{model.captured_ratio_:.2%}", "low": f"{low:.2%}", "high": f"{high:.2%}"}


def pca_monitor(normal: np.ndarray, n_components: int = 11) -> Callable[[np.ndarray], np.ndarray]:
    """PCA's squared prediction error with a limit from five held-out folds: rows -> alarms."""

    def residual_of(train: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        scaler = StandardScaler().fit(train)
        pca = PCA(n_components).fit(scaler.transform(train))

        def residual(rows: np.ndarray) -> np.ndarray:
            scaled = scaler.transform(rows)
            return ((scaled - pca.inverse_transform(pca.transform(scaled))) ** 2).sum(axis=1)

        return residual

    folds = np.array_split(np.arange(len(normal)), 5)
    held_out = [residual_of(np.delete(normal, fold, axis=0))(normal[fold]) for fold in folds]
    residual, limit = residual_of(normal), np.quantile(np.concatenate(held_out), 0.99)
    return lambda rows: residual(rows) > limit


def tennessee() -> dict[str, str]:
    """All 21 faults of the Tennessee Eastman process: detection, false alarms, and the variables named for fault 4."""
    found = data("tep_braatz")
    normal = found["d00"].astype(float)
    normal = normal.T if normal.shape[0] < normal.shape[1] else normal
    series = {fault: found[f"d{fault:02d}_te"].astype(float) for fault in range(1, 22)}
    names = [f"XMEAS({i})" for i in range(1, 42)] + [f"XMV({i})" for i in range(1, 12)]
    kernel = KernelMonitor(30, 60, false_alarm_rate=0.01, random_state=0)
    whitened = KernelMonitor(10, 50, whiten=True, false_alarm_rate=0.01, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 500 rows are few for a limit of one in a hundred; the page says so
        kernel.fit(normal)
        whitened.fit(normal)
    alarm_rules = {
        "PCA": pca_monitor(normal),
        "kernel": lambda rows: kernel.predict(rows) < 0,
        "kernel, whitened": lambda rows: whitened.predict(rows) < 0,
    }
    alarms = {name: {fault: rule(rows) for fault, rows in series.items()} for name, rule in alarm_rules.items()}
    numbers = {}
    _, ax = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    for place, (name, found_alarms) in enumerate(alarms.items()):
        rates = [found_alarms[fault][160:].mean() for fault in series]
        key = name.replace(", ", "_").lower()
        numbers[f"{key}_found"] = f"{np.mean(rates):.0%}"
        numbers[f"{key}_false"] = f"{np.mean([a[:160].mean() for a in found_alarms.values()]):.1%}"
        ax.bar(np.arange(1, 22) + 0.27 * (place - 1), np.multiply(rates, 100), 0.27, label=name)
    ax.set(xlabel="fault", ylabel="faulty rows found, %", xticks=range(1, 22))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 1.14), ncols=3, frameon=False)
    draw("tennessee_detection")
    for fault in (3, 9, 15):
        numbers[f"fault_{fault}"] = f"{alarms['kernel, whitened'][fault][160:].mean():.0%}"
    low, high = whitened.false_alarm_interval_
    numbers |= {"low": f"{low:.1%}", "high": f"{high:.1%}"}
    _, axes = plt.subplots(2, 1, figsize=(7.2, 4.6), layout="constrained")
    plots.monitor_chart(whitened, series[4], fault=160, axes=axes)
    draw("tennessee_chart")
    shares = whitened.contributions(series[4][160:200]).mean(axis=0)
    first = np.argsort(shares)[-6:]
    _, ax = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
    ax.barh([names[i] for i in first], 100 * shares[first] / shares.sum())
    ax.set(xlabel="share of SPE, %")
    draw("tennessee_contributions")
    numbers["cause"] = names[first[-1]]
    return numbers


def umap() -> dict[str, str]:
    """Kernel PCA, UMAP, and UMAP on kernel PCA scores, on 10,000 digits of MNIST."""
    from umap import UMAP

    train, test, train_labels, test_labels = mnist_rows(10_000, 2000)
    kernel = SparseKernelPCA(30, n_support=100, random_state=0)
    models = {"kernel": kernel, "umap2": UMAP(random_state=0), "umap30": UMAP(n_components=30, random_state=0)}
    numbers, maps = {}, {}
    warnings.simplefilter("ignore")  # UMAP warns that a seed keeps it to one thread
    kernel.fit(train[:500])
    UMAP(random_state=0).fit(train[:500]).transform(test[:10])  # compiles it
    for key, model in models.items():
        fit = seconds(lambda model=model: model.fit(train))
        transform = seconds(lambda model=model: model.transform(test))
        numbers[f"{key}_fit"], numbers[f"{key}_transform"] = (
            f"{took:.1f} s" if took >= 1 else f"{1000 * took:.0f} ms" for took in (fit, transform)
        )
        scores = model.transform(train) if model is kernel else model.embedding_
        new = model.transform(test)
        numbers[f"{key}_accuracy"] = neighbour_accuracy(scores, train_labels, new, test_labels)
        numbers[f"{key}_size"] = f"{len(pickle.dumps(model)) / 1e6:.1f} MB"
        maps[key] = scores
    two = kernel.transform(test)[:, :2]
    numbers["kernel2_accuracy"] = neighbour_accuracy(maps["kernel"][:, :2], train_labels, two, test_labels)
    _, axes = plt.subplots(1, 3, figsize=(7.2, 2.7), layout="constrained")
    pictures = {
        "kernel PCA, 2 of 30 scores": maps["kernel"],
        "UMAP": maps["umap2"],
        "UMAP on the 30 scores": UMAP(random_state=0).fit_transform(maps["kernel"]),
    }
    for ax, (name, scores) in zip(axes, pictures.items(), strict=True):
        ax.scatter(scores[:, 0], scores[:, 1], c=train_labels, cmap="tab10", s=0.5)
        ax.set(title=name, xticks=[], yticks=[])
    draw("umap_maps")
    return numbers


def neighbour_accuracy(scores: np.ndarray, labels: np.ndarray, new: np.ndarray, new_labels: np.ndarray) -> str:
    """Of a 5-nearest-neighbour classifier on new rows."""
    return f"{KNeighborsClassifier(5).fit(scores, labels).score(new, new_labels):.1%}"


def main() -> None:
    """Compute what is asked for, and leave the rest of the stored numbers as it is."""
    parts = {"mnist": mnist, "tennessee": tennessee, "umap": umap}
    stored = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.is_file() else {}
    for name in sys.argv[1:] or parts:
        found = parts[name]()
        stored[name] = {"date": str(datetime.date.today()), **found}
        print(name, stored[name])
        NUMBERS.write_text(json.dumps(stored, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 10})
    main()
