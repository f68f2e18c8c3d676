"""Kernels: the inner loops of the passes, compiled by numba. Modules are imported at first use.

Kernels loop in a given order, so that a seed gives the same owners on every machine. Kernels
release the GIL, so that refinements can run in parallel threads.
"""
