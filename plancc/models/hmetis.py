"""Write hypergraphs as hMETIS ``.hgr`` files, for partitioners that plancc does not run.

A file has these lines::

    NETS VERTICES FMT       number of nets, number of vertices, and the format: 10 if only vertices
                            have weights, 11 if nets have costs too
    [cost] pin pin ...      a line for every net; pins are numbered from 1
    weight                  a line for every vertex
"""

from __future__ import annotations

import os

import numpy as np

from plancc.errors import InputError
from plancc.files import StrPath, atomic_write
from plancc.graph.kernels import format_lines
from plancc.models.problem import Hypergraph


def write_hmetis(hypergraph: Hypergraph, path: StrPath) -> None:
    """Write a hypergraph to a file that hMETIS, KaHyPar and Mt-KaHyPar read.

    Nets without a pin are left out: the format cannot hold them. Several weights of a vertex raise
    InputError.
    """
    weights = hypergraph.vertex_weights.astype(np.int64, copy=False)
    if weights.ndim > 1:
        told = f"the format holds only one weight per vertex, not {weights.shape[1]}"
        raise InputError(f"{os.fspath(path)}: {told}; choose a balance with one constraint")
    size = np.diff(hypergraph.net_ptr)
    kept = size > 0
    num_nets = int(kept.sum())
    if not num_nets:
        raise InputError(f"{os.fspath(path)}: cannot be written: the hypergraph has no pins")
    ptr = np.concatenate([[0], np.cumsum(size[kept])]).astype(np.int64)
    pins = hypergraph.pins.astype(np.int64) + 1
    costs = hypergraph.net_costs
    if costs is not None:
        pins = np.insert(pins, ptr[:-1], costs[kept])
        ptr = ptr + np.arange(num_nets + 1)
    fmt = 10 if costs is None else 11
    n = hypergraph.num_vertices
    with atomic_write(path) as temporary, open(temporary, "wb") as stream:
        stream.write(f"{num_nets} {n} {fmt}\n".encode())
        stream.write(format_lines(ptr, pins).tobytes())
        stream.write(format_lines(np.arange(n + 1, dtype=np.int64), weights).tobytes())
