"""Eigenproblems: an orthonormal basis of the span of points, and the top eigenpairs of a symmetric operator."""
