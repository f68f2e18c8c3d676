"""Networks of PyTorch Geometric and of plain PyTorch, unchanged, on this rank's rows of a plan.

`distributed` wraps a network; `check` compares it with the network on one rank. `marks` marks
tensors whose rows are the graph's, `rules` defines how torch's functions treat such tensors, and
`moved` brings rows and sums from other ranks. No module here imports PyTorch Geometric.
"""

from plancc_runtime.pyg.check import Agreement, check
from plancc_runtime.pyg.distributed import Distributed, distributed

__all__ = ["Agreement", "Distributed", "check", "distributed"]
