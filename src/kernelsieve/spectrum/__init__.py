"""Spectra: an orthonormal basis of the span of points, and the top of a symmetric operator."""
