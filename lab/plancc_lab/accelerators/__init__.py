"""A model of the time and energy of neighbour aggregation on sparse accelerators.

Every figure follows from the numbers of vertices and nonzeros, and the widths of the layers. The
model repeats the study of Wan et al. 2025 (*MixGCN*), sections 3.2 and 4.4.

`design` has accelerators as values and their files; `model` has time and energy; `published` has
the figures of the paper, and the distance of the model from them.
"""
