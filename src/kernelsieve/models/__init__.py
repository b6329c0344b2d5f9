"""The estimators: thin scikit-learn classes that call the solvers."""
