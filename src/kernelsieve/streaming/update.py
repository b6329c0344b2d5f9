"""update: new rows for a fitted model, through the steps of a pipeline too."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


def update(model: Any, X: Any, sample_weight: Any = None) -> Any:
    """Add rows to a fitted model, as `partial_fit` does, or to the model at the end of a fitted pipeline.

    scikit-learn's pipelines have no `partial_fit`.  The steps before the last stay as they were fitted, so columns are
    scaled and categories encoded as on the first day; the last step adds the rows.

    Cost: one `transform` of the rows, and what `SparseKernelPCA.partial_fit` costs.

    Parameters
    ----------
    model : SparseKernelPCA or OnlineKernelPCA, or a fitted pipeline that ends in one
        Fitted by `partial_fit`, or by `fit` with `keep_stream=True`.
    X : array-like or frame of shape (n_samples, n_features)
        New rows, as the first step takes them.
    sample_weight : array-like of shape (n_samples,), optional

    Returns
    -------
    model
        The same object.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> import kernelsieve
    >>> from kernelsieve import SparseKernelPCA, TableEncoder
    >>> table = pd.DataFrame({"size": range(60), "cut": ["a", "b", "c"] * 20})
    >>> model = make_pipeline(TableEncoder(), SparseKernelPCA(2, keep_stream=True, random_state=0))
    >>> model = model.fit(table[:50])
    >>> kernelsieve.update(model, table[50:])[-1].n_samples_seen_
    60
    """
    last = model[-1] if isinstance(model, Pipeline) else model
    if not hasattr(last, "partial_fit") or not hasattr(last, "n_samples_seen_"):
        check_is_fitted(last)
        raise TypeError(
            f"a {type(last).__name__} cannot take new rows: fit SparseKernelPCA(keep_stream=True), or fit it anew to "
            "all rows"
        )
    if getattr(last, "_stream", None) is None:
        how = "with keep_stream=True" if hasattr(last, "keep_stream") else "by partial_fit"
        raise ValueError(f"this {type(last).__name__} keeps nothing that new rows can be added to: fit it {how}")
    for _, step in model.steps[:-1] if isinstance(model, Pipeline) else []:
        X = X if step in (None, "passthrough") else step.transform(X)
    last.partial_fit(X, sample_weight=sample_weight)
    return model
