"""kernelsieve: kernel PCA that keeps only the few points that carry it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .diagnostics import KernelWarning
    from .estimators.compressed import CompressedKernelPCA, compress
    from .estimators.elastic_net import ElasticNetKernelPCA
    from .estimators.elastic_net_path import elastic_net_path
    from .estimators.exact import KernelPCA
    from .estimators.feature_analysis import KernelFeatureAnalysis
    from .estimators.likelihood import LikelihoodKernelPCA
    from .estimators.likelihood_path import likelihood_path
    from .estimators.nodes import DissimilarityKernelPCA, ImprovedKernelPCA
    from .estimators.robust import RobustSparseKernelPCA
    from .estimators.sparse import SparseKernelPCA
    from .expansion import KernelExpansion
    from .io import load
    from .linear.estimators import ElasticNetPCA
    from .linear.path import sparse_pca_path
    from .linear.robust_estimator import RobustElasticNetPCA

__version__ = "0.1.0"
__all__ = [
    "CompressedKernelPCA",
    "DissimilarityKernelPCA",
    "ElasticNetKernelPCA",
    "ElasticNetPCA",
    "ImprovedKernelPCA",
    "KernelExpansion",
    "KernelFeatureAnalysis",
    "KernelPCA",
    "KernelWarning",
    "LikelihoodKernelPCA",
    "RobustElasticNetPCA",
    "RobustSparseKernelPCA",
    "SparseKernelPCA",
    "compress",
    "elastic_net_path",
    "likelihood_path",
    "load",
    "sparse_pca_path",
]

# Imported when first used: `kernelsieve --help` need not wait for scikit-learn.
_HOMES = {
    "CompressedKernelPCA": ".estimators.compressed",
    "DissimilarityKernelPCA": ".estimators.nodes",
    "ElasticNetKernelPCA": ".estimators.elastic_net",
    "ElasticNetPCA": ".linear.estimators",
    "ImprovedKernelPCA": ".estimators.nodes",
    "KernelExpansion": ".expansion",
    "KernelFeatureAnalysis": ".estimators.feature_analysis",
    "KernelPCA": ".estimators.exact",
    "KernelWarning": ".diagnostics",
    "LikelihoodKernelPCA": ".estimators.likelihood",
    "RobustElasticNetPCA": ".linear.robust_estimator",
    "RobustSparseKernelPCA": ".estimators.robust",
    "SparseKernelPCA": ".estimators.sparse",
    "compress": ".estimators.compressed",
    "elastic_net_path": ".estimators.elastic_net_path",
    "likelihood_path": ".estimators.likelihood_path",
    "load": ".io",
    "sparse_pca_path": ".linear.path",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
