"""kernelsieve: kernel PCA that keeps only the few points that carry it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .diagnostics import KernelWarning
    from .estimators.exact import KernelPCA
    from .estimators.feature_analysis import KernelFeatureAnalysis
    from .estimators.likelihood import LikelihoodKernelPCA
    from .estimators.likelihood_path import likelihood_path
    from .estimators.nodes import DissimilarityKernelPCA, ImprovedKernelPCA
    from .estimators.sparse import SparseKernelPCA
    from .expansion import KernelExpansion
    from .io import load

__version__ = "0.1.0"
__all__ = [
    "DissimilarityKernelPCA",
    "ImprovedKernelPCA",
    "KernelExpansion",
    "KernelFeatureAnalysis",
    "KernelPCA",
    "KernelWarning",
    "LikelihoodKernelPCA",
    "SparseKernelPCA",
    "likelihood_path",
    "load",
]

# Imported when first used: `kernelsieve --help` need not wait for scikit-learn.
_HOMES = {
    "DissimilarityKernelPCA": ".estimators.nodes",
    "ImprovedKernelPCA": ".estimators.nodes",
    "KernelExpansion": ".expansion",
    "KernelFeatureAnalysis": ".estimators.feature_analysis",
    "KernelPCA": ".estimators.exact",
    "KernelWarning": ".diagnostics",
    "LikelihoodKernelPCA": ".estimators.likelihood",
    "SparseKernelPCA": ".estimators.sparse",
    "likelihood_path": ".estimators.likelihood_path",
    "load": ".io",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
