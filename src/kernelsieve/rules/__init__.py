"""Rules that choose rows as support points, one a file; `registry` has them by name."""
