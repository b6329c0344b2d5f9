"""Rows, wherever they are: in memory, in blocks, in files, on a cluster or on a device."""
