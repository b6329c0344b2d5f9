"""Sparse PCA in input space: components with few nonzero loadings, plain and robust."""
