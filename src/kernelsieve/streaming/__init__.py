"""Rows that arrive a few at a time and are not kept.

state          what is kept of a stream, and all that can be read off it
partial_fit    SparseKernelPCA.partial_fit and refresh: points chosen again as the stream grows
update         new rows for a model at the end of a pipeline
merge          a + b, the model of two streams
online_driver  feeds rows one by one to a published rule
online_rules   the published rules
"""
