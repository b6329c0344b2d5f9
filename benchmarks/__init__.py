"""Measurements: both sides in one run, best of several, alternating."""
