"""Trains networks of PyTorch Geometric or plain PyTorch, unchanged, on this rank's rows of a plan.

`distributed` wraps a network. `check` compares the wrapped network with the same network on one
rank. The module `marks` marks tensors that have one row for each vertex, `rules` defines what
torch's functions do with marked tensors, and `moved` exchanges rows and sums with other ranks. No
module of this package imports PyTorch Geometric.
"""

from plancc_runtime.pyg.check import Agreement, check
from plancc_runtime.pyg.distributed import Distributed, distributed

__all__ = ["Agreement", "Distributed", "check", "distributed"]
