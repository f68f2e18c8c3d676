"""Runs unchanged networks of PyTorch Geometric or plain PyTorch on this rank's rows of a plan.

`distributed` wraps a network. `check` compares the wrapped network with the network on one rank.
`marks` marks tensors that have a row per vertex, `rules` defines how torch's functions treat such
tensors, and `moved` exchanges rows and sums with other ranks. No module here imports PyTorch
Geometric.
"""

from plancc_runtime.pyg.check import Agreement, check
from plancc_runtime.pyg.distributed import Distributed, distributed

__all__ = ["Agreement", "Distributed", "check", "distributed"]
