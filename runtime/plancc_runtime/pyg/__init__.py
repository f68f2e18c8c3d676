"""Trains networks of PyTorch Geometric or plain PyTorch, unchanged, on this rank's rows of a plan.

Tensors with a row for each vertex are marked, and rules say what torch's functions do with marked
tensors. No module of this package imports PyTorch Geometric.
"""

from plancc_runtime.pyg.check import Agreement, check
from plancc_runtime.pyg.distributed import Distributed, distributed

__all__ = ["Agreement", "Distributed", "check", "distributed"]
