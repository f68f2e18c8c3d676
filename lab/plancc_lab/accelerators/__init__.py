"""Sparse accelerators on paper: how long neighbour aggregation takes on them, and how much energy.

Every figure follows from the numbers of vertices and nonzeros, and the widths of the layers. The
study is that of Wan et al. 2025 (*MixGCN*), sections 3.2 and 4.4.

`design` is an accelerator as a value and its file; `model` its time and energy; `published` what
the paper says of both, and how far the model is from it.
"""
