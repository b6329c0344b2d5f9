"""The steps that every fit shares: sample, support points, moments of all rows, components, captured ratio."""
