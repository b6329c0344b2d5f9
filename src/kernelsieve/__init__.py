"""kernelsieve: kernel PCA that keeps only a few support points."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import KernelWarning
    from .fit.expansion import KernelExpansion
    from .io import load, save
    from .linear.estimators import ElasticNetPCA
    from .linear.path import sparse_pca_path
    from .linear.robust_estimator import RobustElasticNetPCA
    from .models.compressed import CompressedKernelPCA, compress
    from .models.elastic_net import ElasticNetKernelPCA
    from .models.kernel_pca import KernelPCA
    from .models.likelihood import LikelihoodKernelPCA
    from .models.online import OnlineKernelPCA
    from .models.paths import elastic_net_path, likelihood_path
    from .models.published import DissimilarityKernelPCA, ImprovedKernelPCA, KernelFeatureAnalysis
    from .models.robust import RobustSparseKernelPCA
    from .models.sparse import SparseKernelPCA
    from .monitor import KernelMonitor
    from .report import report
    from .streaming.partial_fit import update
    from .tables.encoder import TableEncoder
    from .tables.files import read_table

__version__ = "0.2.0"
__all__ = [
    "CompressedKernelPCA",
    "DissimilarityKernelPCA",
    "ElasticNetKernelPCA",
    "ElasticNetPCA",
    "ImprovedKernelPCA",
    "KernelExpansion",
    "KernelFeatureAnalysis",
    "KernelMonitor",
    "KernelPCA",
    "KernelWarning",
    "LikelihoodKernelPCA",
    "OnlineKernelPCA",
    "RobustElasticNetPCA",
    "RobustSparseKernelPCA",
    "SparseKernelPCA",
    "TableEncoder",
    "compress",
    "elastic_net_path",
    "likelihood_path",
    "load",
    "plots",
    "read_table",
    "report",
    "save",
    "sparse_pca_path",
    "update",
]

# Each name is imported when it is first used, so that `kernelsieve --help` need not wait for scikit-learn.
_HOMES = {
    "CompressedKernelPCA": ".models.compressed",
    "DissimilarityKernelPCA": ".models.published",
    "ElasticNetKernelPCA": ".models.elastic_net",
    "ElasticNetPCA": ".linear.estimators",
    "ImprovedKernelPCA": ".models.published",
    "KernelExpansion": ".fit.expansion",
    "KernelFeatureAnalysis": ".models.published",
    "KernelMonitor": ".monitor",
    "KernelPCA": ".models.kernel_pca",
    "KernelWarning": ".errors",
    "LikelihoodKernelPCA": ".models.likelihood",
    "OnlineKernelPCA": ".models.online",
    "RobustElasticNetPCA": ".linear.robust_estimator",
    "RobustSparseKernelPCA": ".models.robust",
    "SparseKernelPCA": ".models.sparse",
    "TableEncoder": ".tables.encoder",
    "compress": ".models.compressed",
    "elastic_net_path": ".models.paths",
    "likelihood_path": ".models.paths",
    "load": ".io",
    "read_table": ".tables.files",
    "report": ".report",
    "save": ".io",
    "sparse_pca_path": ".linear.path",
    "update": ".streaming.partial_fit",
}

_MODULES = ("export", "kernels", "plots")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
