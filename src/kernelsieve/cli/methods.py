"""The estimators by the names that `--method` takes, and which options each understands."""

from __future__ import annotations

from typing import Any

import typer

METHODS = {
    "sparse": "SparseKernelPCA",
    "exact": "KernelPCA",
    "compressed": "CompressedKernelPCA",
    "elastic-net": "ElasticNetKernelPCA",
    "robust": "RobustSparseKernelPCA",
    "likelihood": "LikelihoodKernelPCA",
    "dissimilarity": "DissimilarityKernelPCA",
    "improved": "ImprovedKernelPCA",
    "feature-analysis": "KernelFeatureAnalysis",
    "linear": "ElasticNetPCA",
    "robust-linear": "RobustElasticNetPCA",
}
# Options and the parameters that they set; an estimator has one of those named, or the option is not for it.
PARAMETERS = {
    "components": ("n_components",),
    "support": ("n_support", "n_nodes"),
    "variance": ("variance",),
    "kernel": ("kernel",),
    "gamma": ("gamma",),
    "degree": ("degree",),
    "coef0": ("coef0",),
    "selection": ("selection",),
    "alpha": ("alpha",),
    "seed": ("random_state",),
    "batch_size": ("batch_size",),
}
READS_BLOCKS = ("sparse",)  # whose fit takes rows that are not in memory


def make_estimator(method: str, options: dict[str, Any], given: set[str]) -> Any:
    """An unfitted estimator; options in `given`, which the user wrote, must mean something to it.

    Of the others those are passed on that every method shares; the rest stay at the method's own defaults.
    """
    import kernelsieve

    cls = getattr(kernelsieve, METHODS[method])
    known = cls().get_params()
    keywords: dict[str, Any] = {}
    for option, value in options.items():
        parameter = next((name for name in PARAMETERS[option] if name in known), None)
        if parameter is None:
            if option in given:
                flag = f"--{option.replace('_', '-')}"
                raise typer.BadParameter(f"has no meaning for --method {method}", param_hint=flag)
            continue
        shared = method == "sparse" or option in ("components", "seed", "batch_size")
        # an exact method's own default is a linear kernel, and the command's is not
        shared |= method == "exact" and option in ("kernel", "gamma")
        if (shared and value is not None) or option in given:
            keywords[parameter] = value
    if method == "exact":
        keywords["fit_inverse_transform"] = keywords.get("kernel") != "precomputed"
    return cls(**keywords)
