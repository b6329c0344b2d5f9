"""Tables: read from files, and turned into numbers that a kernel can compare."""
