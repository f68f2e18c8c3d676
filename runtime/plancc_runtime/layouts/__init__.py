"""The products A H and A^T G of a plan, computed by all ranks together.

The *layout* of a plan says how ranks share A and H: `local` for row plans and edge plans, `grid`
for process grids, `feature` for feature plans.
"""
