"""Estimators: thin scikit-learn classes over the solvers."""
