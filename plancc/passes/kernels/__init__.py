"""Loops of the passes over nets, pins and parts, in numba. Each module is imported at first use.

All kernels are plain sequential loops over arrays that the caller shuffled, so the same seed gives
the same owners everywhere. They release the GIL: independent refinements run side by side.
"""
