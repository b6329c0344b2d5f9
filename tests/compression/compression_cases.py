"""Models and errors that the tests of compress share."""

import numpy as np
from oracles import KERNELS
from sklearn.decomposition import KernelPCA as SklearnKernelPCA

METHODS = ["optimized", "removal", "l1", "eigen-removal"]


def sklearn_model(name, X, n_components=4, **options):
    params = KERNELS[name] if not options.pop("default_gamma", False) else {}
    return SklearnKernelPCA(n_components, kernel=name, eigen_solver="dense", **params, **options).fit(X)


def score_errors(model, small, rows):
    """|z - z'| / |z - mean z| of each component and of all together, by the two models' own transforms."""
    z, other = model.transform(rows), small.transform(rows)
    squares, variation = np.sum((z - other) ** 2, axis=0), np.sum((z - z.mean(axis=0)) ** 2, axis=0)
    return np.sqrt(squares / variation), np.sqrt(squares.sum() / variation.sum())


def squared_error(columns, target):
    """What least squares on these columns leaves, by numpy."""
    return np.sum((target - columns @ np.linalg.lstsq(columns, target, rcond=None)[0]) ** 2)
