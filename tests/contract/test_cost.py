"""What a fit and an import cost: peak memory, and modules that are loaded."""

from oracles import run_python


def test_peak_memory_of_a_large_fit():
    """200,000 rows, 50 points: nothing of size N x m is held."""
    out = run_python("""
        import tracemalloc
        import numpy as np
        from kernelsieve import ElasticNetKernelPCA, SparseKernelPCA
        X = np.random.default_rng(0).standard_normal((200_000, 10), dtype=np.float32)
        SparseKernelPCA(5, n_support=12, random_state=0).fit(X[:500])  # imports are no cost of a fit
        tracemalloc.start()
        SparseKernelPCA(5, n_support=50, random_state=0).fit(X)
        print(tracemalloc.get_traced_memory()[1])
    """)
    assert int(out) < 60e6


def test_peak_memory_of_a_likelihood():
    """200,000 rows, 200 candidates: nothing of size N x r is held."""
    out = run_python("""
        import tracemalloc
        import numpy as np
        from kernelsieve import LikelihoodKernelPCA
        X = np.random.default_rng(0).standard_normal((200_000, 10), dtype=np.float32)
        LikelihoodKernelPCA(random_state=0).fit(X[:500])  # imports are no cost of a fit
        tracemalloc.start()
        LikelihoodKernelPCA(n_dictionary=200, noise_fraction=0.3, random_state=0).fit(X)
        print(tracemalloc.get_traced_memory()[1])
    """)
    assert int(out) < 60e6  # against 160e6 of a float32 cross-gram


def test_importing_brings_nothing_that_scikit_learn_does_not():
    out = run_python("""
        import sys
        import sklearn.decomposition
        before = set(sys.modules)
        import kernelsieve
        print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
    """)
    assert set(out.split()) <= {"kernelsieve", "array_api_compat"}
