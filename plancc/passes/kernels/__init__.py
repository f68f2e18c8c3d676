"""Kernels: the inner loops of the passes, compiled by numba. Modules are imported at first use.

Every kernel is a sequential loop over arrays that its caller has shuffled. So the same seed gives
the same owners on every machine. Kernels release the GIL, so that independent refinements can run
in parallel threads.
"""
