"""A model of the time and energy of neighbour aggregation on sparse accelerators.

Every figure is computed from the numbers of vertices and nonzeros, and the widths of the layers, as
in Wan et al. 2025 (*MixGCN*), sections 3.2 and 4.4.
"""
