"""Solvers of small dense problems, as pure functions on arrays."""
