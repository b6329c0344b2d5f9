"""Choosing support points: one protocol, many rules."""
