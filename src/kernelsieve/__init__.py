"""kernelsieve: kernel PCA that keeps only the few points that carry it."""

from .diagnostics import KernelWarning
from .estimators.exact import KernelPCA
from .estimators.sparse import SparseKernelPCA
from .expansion import KernelExpansion
from .io import load

__version__ = "0.1.0"
__all__ = ["KernelExpansion", "KernelPCA", "KernelWarning", "SparseKernelPCA", "load"]
