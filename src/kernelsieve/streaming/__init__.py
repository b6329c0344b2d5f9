"""Streams: models of rows that arrive a few at a time and are not all kept.

state          what is kept of a stream, and the fitted attributes computed from it
partial_fit    SparseKernelPCA.partial_fit and refresh, which choose points again as the stream grows; and update, which
               adds rows to a model at the end of a pipeline
merge          a + b, the model of two streams
online_driver  passes rows one by one to a published rule
online_rules   the published rules
"""
