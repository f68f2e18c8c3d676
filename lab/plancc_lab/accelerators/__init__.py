"""A model of the time and energy of neighbour aggregation on sparse accelerators.

Every figure is computed from the numbers of vertices and nonzeros, and the widths of the layers.
The model repeats the study of Wan et al. 2025 (*MixGCN*), sections 3.2 and 4.4.

`design` describes accelerators, and reads their files. `model` computes time and energy.
`published` has the figures of the paper, and compares the model with them.
"""
