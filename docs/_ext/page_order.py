"""The order of guide and gallery: by what a reader needs first, not by the alphabet."""

from __future__ import annotations

ORDER = (
    # guide
    "choosing_an_estimator",
    "kernel_and_width",
    "how_many_points",
    "how_many_components",
    "scaling_and_tables",
    "mixed_tables",
    "own_kernels",
    "rows_that_are_not_vectors",
    "interpretation",
    "clustering",
    "time_series",
    "novelty_and_monitoring",
    "preimages_and_denoising",
    "streams_and_drift",
    "many_rows",
    "deployment",
    "saving_safely",
    "reproducibility_and_threads",
    # gallery
    "circles",
    "image_denoising",
    "compress_scikit_learn",
    "choosing_gamma",
    "explaining_components",
    "robust_against_outliers",
    "drifting_stream",
    "a_million_rows",
    "dask_cluster",
    "text",
    "elastic_net_path",
    "wang_tanaka_2016",
    "tipping_2000",
    "xu_2011",
    "wang_cheng_2012",
    "kernel_pca_lecture",
    "sparse_loadings",
    "asked_elsewhere",
)


class Order:
    """Sort key of sphinx-gallery: the place in ORDER, and what is not there last."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
