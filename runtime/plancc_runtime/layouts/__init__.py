"""The products A H and A^T G of a plan, computed by all ranks together.

Modules by *layout*: `local` for row and edge plans, `grid` for process grids, `feature` for feature
plans.
"""
