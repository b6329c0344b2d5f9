"""Pima Indians diabetes: reconstruction error and test errors of a linear SVM, against the number of components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelsieve import KernelPCA, LikelihoodKernelPCA

from ..datasets import LabelledSplit, pima
from ..report import Report, mean_and_deviation, span
from . import pictures

PIMA_GAMMA, PIMA_NOISE = 1 / 10**2, 0.012
EXACT, SPARSE, MORE = "kernel PCA", "sparse", "sparse, more vectors"
MAX_COMPONENTS = 25
MANY_VECTORS = 40  # a fifth of the rows: at PIMA_NOISE too few remain for 25 components
SUBSETS = range(20)
SVM_C = (0.1, 1.0, 10.0)
CURVE_C = 1.0
SVM_TOL = 1e-6  # at the default, 1e-3, a test row can change sides with the centring of the scores
AT = 10  # components at which the settings of the SVM are compared
TABLED = (1, 2, 3, 5, 10, 15, 20, 25)
SMALL_LOSS = 0.1  # of the exact reconstruction error
# Test errors at 10 components for SVM_C that another implementation of the paper gave, scores standardised.
REFERENCE_ERRORS = {EXACT: (66, 73, 73), SPARSE: (62, 65, 68)}


@dataclass(frozen=True)
class Curves:
    """One model on one split, for its first 1 .. 25 components; NaN beyond those it has."""

    n_support: int
    train_rms: np.ndarray
    test_rms: np.ndarray
    test_errors: np.ndarray
    errors_at: dict[tuple[str, float], int]  # by scaling of the scores and C, at 10 components


def diabetes(report: Report) -> None:
    """The paper's second example."""
    report.text("## Pima: 200 training and 332 test rows, kernel width 10")
    split = pima()
    ripley = standardized(split)
    published = all_curves(ripley)
    averaged = [all_curves(subset) for subset in random_subsets(split, report.some(SUBSETS))]
    counts = {name: span(subset[name].n_support for subset in averaged) for name in (SPARSE, MORE)}
    report.text(
        f"Measurements are standardised on the training rows. Noise variance {PIMA_NOISE} (`{SPARSE}`) leaves "
        f"{published[SPARSE].n_support} vectors on Ripley's split, {counts[SPARSE]} on {len(averaged)} random subsets "
        f"of the same size: too few for the {MAX_COMPONENTS} components that Fig. 4 draws, so that it cannot be the "
        f"paper's and has no verdict. The model of at most {MANY_VECTORS} vectors (`{MORE}`) has "
        f"{published[MORE].n_support}, and {counts[MORE]}."
    )
    tabulate(report, "RMS reconstruction error, training rows", "train_rms", published, averaged)
    tabulate(report, "RMS reconstruction error, test rows", "test_rms", published, averaged)
    title = f"Test errors of 332, linear SVM with C = {CURVE_C:g} on standardised scores"
    tabulate(report, title, "test_errors", published, averaged)
    pictures.curves(report, published, averaged)
    settings_table(report, published, averaged)
    pictures.path(report, ripley.train, PIMA_GAMMA, PIMA_NOISE, "pima_path", "Pima, Ripley's 200 rows")
    pima_verdicts(report, published, averaged)


def standardized(split: LabelledSplit) -> LabelledSplit:
    scaler = StandardScaler().fit(split.train)
    return replace(split, train=scaler.transform(split.train), test=scaler.transform(split.test))


def random_subsets(split: LabelledSplit, seeds: Iterable[int]) -> Iterable[LabelledSplit]:
    """All 532 rows dealt anew into 200 and 332."""
    rows, labels = np.vstack([split.train, split.test]), np.hstack([split.train_labels, split.test_labels])
    for seed in seeds:
        train, test = np.split(np.random.default_rng(seed).permutation(len(rows)), [len(split.train)])
        yield standardized(LabelledSplit(f"subset {seed}", rows[train], rows[test], labels[train], labels[test]))


def all_curves(split: LabelledSplit) -> dict[str, Curves]:
    models = {
        EXACT: KernelPCA(MAX_COMPONENTS, kernel="rbf", gamma=PIMA_GAMMA, center=False),
        SPARSE: LikelihoodKernelPCA(noise_variance=PIMA_NOISE, gamma=PIMA_GAMMA),
        MORE: LikelihoodKernelPCA(n_support=MANY_VECTORS, gamma=PIMA_GAMMA),
    }
    return {name: curves(model, split) for name, model in models.items()}


def curves(model: Any, split: LabelledSplit) -> Curves:
    train, test = model.fit(split.train).transform(split.train), model.transform(split.test)
    labels = split.train_labels, split.test_labels
    errors = [svm_errors(train[:, :k], test[:, :k], *labels) for k in range(1, min(MAX_COMPONENTS, train.shape[1]) + 1)]
    errors_at = {
        (scaling, C): svm_errors(train[:, :AT], test[:, :AT], *labels, C=C, scale=scaling == "standardised")
        for scaling in ("standardised", "as they are")
        for C in SVM_C
    }
    return Curves(model.n_support_, padded(rms_errors(train)), padded(rms_errors(test)), padded(errors), errors_at)


def rms_errors(scores: np.ndarray) -> np.ndarray:
    """RMS reconstruction error of the first 1, 2, ... components, where k(x, x) = 1."""
    errors: np.ndarray = np.sqrt(np.mean(1.0 - np.cumsum(scores**2, axis=1), axis=0))
    return errors


def padded(values: Sequence[float] | np.ndarray) -> np.ndarray:
    curve = np.full(MAX_COMPONENTS, np.nan)
    count = min(len(values), MAX_COMPONENTS)
    curve[:count] = values[:count]
    return curve


def svm_errors(
    train: np.ndarray,
    test: np.ndarray,
    train_labels: np.ndarray,
    test_labels: np.ndarray,
    C: float = CURVE_C,
    scale: bool = True,
) -> int:
    svm = SVC(kernel="linear", C=C, tol=SVM_TOL)
    classifier = make_pipeline(StandardScaler(), svm) if scale else svm
    return int(np.sum(classifier.fit(train, train_labels).predict(test) != test_labels))


def tabulate(
    report: Report, title: str, what: str, published: dict[str, Curves], averaged: list[dict[str, Curves]]
) -> None:
    report.text(f"### {title}")
    places = np.array(TABLED) - 1
    rows = []
    for name in published:
        rows.append((name, "Ripley's", *cells(getattr(published[name], what)[places])))
        every = [getattr(subset[name], what)[places] for subset in averaged]
        spread = [
            "" if np.isnan(column).any() else mean_and_deviation(column, 3 if what != "test_errors" else 1)
            for column in np.transpose(every)
        ]
        rows.append((name, f"mean (standard deviation) of {len(averaged)}", *spread))
    report.table(("model", "split", *(f"{k} PC" for k in TABLED)), rows)


def settings_table(report: Report, published: dict[str, Curves], averaged: list[dict[str, Curves]]) -> None:
    report.text(
        f"### Test errors of 332 at {AT} components, by C and scaling of the scores\n\n"
        "The paper names neither. The reference is another implementation of the paper."
    )
    rows = []
    for scaling in ("standardised", "as they are"):
        for name, curve in published.items():
            found = [curve.errors_at[scaling, C] for C in SVM_C]
            means = [mean_and_deviation([subset[name].errors_at[scaling, C] for subset in averaged], 1) for C in SVM_C]
            expected = REFERENCE_ERRORS.get(name, ()) if scaling == "standardised" else ()
            rows.append((scaling, name, joined(found), joined(expected), joined(means)))
    spelled = joined([f"{C:g}" for C in SVM_C])
    header = (
        "scores",
        "model",
        f"Ripley's, C = {spelled}",
        "reference",
        f"mean (standard deviation) of {len(averaged)}, C = {spelled}",
    )
    report.table(header, rows)


def pima_verdicts(report: Report, published: dict[str, Curves], averaged: list[dict[str, Curves]]) -> None:
    splits = [published, *averaged]
    tried = f"Ripley's split and {len(averaged)} random ones"
    ratios = {
        k: [float(split[MORE].train_rms[k - 1] / split[EXACT].train_rms[k - 1]) for split in splits]
        for k in (1, *TABLED[3:5])
    }
    rising = [bool(np.all(split[MORE].train_rms >= split[EXACT].train_rms - 1e-9)) for split in splits]
    report.verdict(
        "Fig. 4, left",
        "a reduction of accuracy is evident in the sparse case, as expected",
        found="RMS error above kernel PCA's by "
        + ", ".join(f"{span([100 * (r - 1) for r in ratio], 2)} % ({k} components)" for k, ratio in ratios.items()),
        holds=rising,
        tried=f"{tried}; {MANY_VECTORS} vectors",
    )
    report.verdict(
        "Fig. 4, left",
        f"the reduction is small: less than {100 * SMALL_LOSS:g} % of the error",
        found=", ".join(
            f"with {k} components in {sum(r < 1 + SMALL_LOSS for r in ratio)} of {len(ratio)} splits"
            for k, ratio in ratios.items()
        ),
        holds=[max(r) < 1 + SMALL_LOSS for r in zip(*ratios.values(), strict=True)],
        tried=f"{tried}; {MANY_VECTORS} vectors",
        key="small_loss",
        ours=f"the paper says small and names no number: {100 * SMALL_LOSS:g} % is our threshold",
    )
    differences = [float(np.nanmean(split[MORE].test_errors - split[EXACT].test_errors)) for split in splits]
    noise = np.std(differences[1:], ddof=1) / np.sqrt(len(averaged)) if len(averaged) > 1 else np.nan
    report.verdict(
        "Fig. 4, right",
        "marginally fewer test errors on average",
        found=f"{differences[0]:+.2f} errors of 332 on Ripley's split; {np.mean(differences[1:]):+.2f} (standard error "
        f"{noise:.2f}) on random ones",
        holds=[difference < 0 for difference in differences],
        tried=f"{tried}; {MANY_VECTORS} vectors",
        setting=f"on Ripley's split, the paper's, it does ({differences[0]:+.2f} errors of 332). The paper calls it a "
        "consequence of randomness and, presumably, of the complexity control that a sparse approximation implies",
        in_setting=differences[0] < 0,
        key="test_errors",
    )
    report.fact(
        pima_vectors=published[MORE].n_support,
        pima_rms_5=f"{published[MORE].train_rms[4]:.3f}",
        pima_exact_5=f"{published[EXACT].train_rms[4]:.3f}",
        pima_rms_10=f"{published[MORE].train_rms[9]:.3f}",
        pima_exact_10=f"{published[EXACT].train_rms[9]:.3f}",
        pima_errors=f"{differences[0]:+.2f}",
        pima_errors_random=f"{np.mean(differences[1:]):+.2f} (standard error {noise:.2f})",
        pima_splits=len(averaged),
    )


def joined(values: Sequence[Any]) -> str:
    return " / ".join(f"{value:.1f}" if isinstance(value, float) else str(value) for value in values)


def cells(values: np.ndarray) -> list[Any]:
    return ["" if np.isnan(value) else float(value) for value in values]
