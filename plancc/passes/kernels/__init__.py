"""The compiled loops of the passes, over nets, pins and parts. Modules are imported at first use.

All kernels are sequential loops over arrays that the caller has shuffled, so the same seed gives
the same owners on every machine. Kernels release the GIL, so independent refinements run side by
side.
"""
