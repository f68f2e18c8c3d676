"""Networks of PyTorch Geometric and of plain PyTorch, unchanged, on this rank's rows of a plan.

`distributed` wraps a network, `check` compares it with one rank; `marks` says of tensors whether
their rows are the graph's, `rules` what torch's functions do to such tensors, `moved` brings rows
and sums from other ranks. Nothing here imports PyTorch Geometric.
"""

from plancc_runtime.pyg.check import Agreement, check
from plancc_runtime.pyg.distributed import Distributed, distributed

__all__ = ["Agreement", "Distributed", "check", "distributed"]
