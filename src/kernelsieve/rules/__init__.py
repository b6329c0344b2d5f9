"""Rules that choose support points, one family a file; `registry` has them by name."""
