"""The way every fit goes: a sample, points, moments of all rows over them, components, and what they keep."""
