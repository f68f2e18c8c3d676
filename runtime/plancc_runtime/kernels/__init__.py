"""Kernels of one rank: sparse and dense products, attention, masks and gathers."""
