"""Graphs of DGL: objects, and files of dgl.save_graphs, which dgl itself reads. An edge from u to v
is ``A[v, u]``: the target needs the source.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.formats import Held
from plancc.graph.graph import Source
from plancc.graph.optional import library
from plancc.graph.textfile import StrPath, check_readable
from plancc.graph.vertexdata import as_array
from plancc.interop.record import HETERO, Record, format_of_records, graph_of_record
from plancc.text import shown

_WEIGHTS = ("weight", "edge_weight", "w")


def is_dgl(obj: Any) -> bool:
    """Whether an object looks like a DGLGraph."""
    names = ("ndata", "edata", "ntypes", "etypes")
    return all(hasattr(obj, name) for name in names) and callable(getattr(obj, "edges", None))


def record_of_dgl(obj: Any, where: str) -> Record:
    """Edges, number of vertices, weights of edges and data of vertices of a DGLGraph.

    Raises
    ------
    InputError
        For a heterogeneous graph and for a block of a mini-batch.
    """
    if len(obj.ntypes) != 1 or len(obj.etypes) != 1:
        raise InputError(f"{where}: {HETERO}")
    if getattr(obj, "is_block", False):
        raise InputError(f"{where}: is a block of a mini-batch, not a graph")
    src, dst = (as_array(each, f"{where}: edges") for each in obj.edges())
    held = {name: obj.edata[name] for name in _WEIGHTS if name in obj.edata}
    edges = {"edge_weight": next(iter(held.values()))} if held else {}
    record = {str(name): obj.ndata[name] for name in obj.ndata}
    return record | {
        "edge_index": np.stack([src, dst]),
        "num_nodes": np.array(int(obj.num_nodes())),
        **edges,
    }


def hold(obj: Any) -> Held | None:
    """A homogeneous graph in memory; None for other objects."""
    if not is_dgl(obj):
        return None
    name = "DGL graph"
    record, source = record_of_dgl(obj, name), Source(name, format="dgl")
    return Held(name, partial(graph_of_record, record, name, source), record)


def read_record(path: StrPath) -> Record:
    """The one homogeneous graph of a file of dgl.save_graphs.

    Raises
    ------
    InputError
        For several graphs, a heterogeneous one, a file that dgl cannot read.
    BackendUnavailable
        Without dgl.
    """
    check_readable(path)
    where = os.fspath(path)
    dgl = library("dgl", where, "dgl==2.1.0")
    try:
        graphs, _ = dgl.load_graphs(where)
    except MemoryError:
        raise
    except Exception as error:  # dgl raises its own
        words = shown(error)
        raise InputError(f"{where}: cannot be read by dgl: {words}") from error
    if len(graphs) != 1:
        raise InputError(f"{where}: holds {len(graphs)} graphs; one is expected")
    return record_of_dgl(graphs[0], where)


def read_parts(path: StrPath) -> npt.NDArray[np.int32]:
    """The parts of vertices in a partition of DistDGL (`plancc.interop.distdgl`)."""
    from plancc.interop.distdgl import read_partition

    return read_partition(path)


FORMAT = format_of_records(
    "dgl",
    read_record,
    (".bin", ".dgl"),
    hold=hold,
    read_parts=read_parts,
    needs="dgl==2.1.0",
    what="DGL: a graph of dgl.save_graphs",
)
