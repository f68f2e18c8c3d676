"""Readers of DGL's graphs: objects in memory, and files of dgl.save_graphs (which need dgl).

An edge from u to v is ``A[v, u]``: the target needs the source.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.formats import Held, library
from plancc.graph.textfile import check_readable
from plancc.graph.types import in_words
from plancc.graph.vertexdata import as_array
from plancc.interop.record import Record, format_of_records, held_record
from plancc.text import shown

_WEIGHTS = ("weight", "edge_weight", "w")
_FEATURES = ("feat", "edge_attr", "edge_feat")


def is_dgl(obj: Any) -> bool:
    """Return whether an object looks like a DGLGraph."""
    names = ("ndata", "edata", "ntypes", "etypes")
    return all(hasattr(obj, name) for name in names) and callable(getattr(obj, "edges", None))


def record_of_dgl(obj: Any, where: str) -> Record:
    """Return a record (dict) of a DGLGraph: edges with weights, number of vertices, vertex data.

    A heterogeneous graph has edges by relation, and data by vertex type.
    """
    if getattr(obj, "is_block", False):
        raise InputError(f"{where}: is a block of a mini-batch, not a graph")
    if len(obj.ntypes) == len(obj.etypes) == 1:
        return _vertices(obj.ndata, obj.num_nodes()) | _edges(obj.edges(), obj.edata, where)
    types = {name: _vertices(obj.nodes[name].data, obj.num_nodes(name)) for name in obj.ntypes}
    relations = {
        each: _edges(obj.edges(etype=each), obj.edges[each].data, f"{where}: {in_words(each)}")
        for each in obj.canonical_etypes
    }
    return types | relations


def _vertices(data: Any, count: int) -> Record:
    """Return the data of vertices, and the number of vertices, as a record."""
    return {str(name): data[name] for name in data} | {"num_nodes": np.array(int(count))}


def _edges(ends: Any, data: Any, where: str) -> Record:
    """Return a record of edges: the sources and targets `ends`, and the weights and features."""
    found = {"edge_index": np.stack([as_array(each, f"{where}: edges") for each in ends])}
    for key, names in (("edge_feat", _FEATURES), ("edge_weight", _WEIGHTS)):
        if known := [name for name in names if name in data]:
            found[key] = data[known[0]]
    return found


def hold(obj: Any) -> Held | None:
    """Return a DGLGraph as a `Held`, which can make a `Graph`; None for other objects."""
    if not is_dgl(obj):
        return None
    name = "DGL graph"
    return held_record(record_of_dgl(obj, name), name, "dgl")


def read_record(path: StrPath) -> Record:
    """Read the only graph of a file of dgl.save_graphs; several graphs raise InputError."""
    check_readable(path)
    where = os.fspath(path)
    dgl = library("dgl", where, "dgl==2.1.0")
    try:
        graphs, _ = dgl.load_graphs(where)
    except MemoryError:
        raise
    except Exception as error:  # dgl raises errors of its own type
        raise InputError(f"{where}: cannot be read by dgl: {shown(error)}") from error
    if len(graphs) != 1:
        raise InputError(f"{where}: holds {len(graphs)} graphs; one is expected")
    return record_of_dgl(graphs[0], where)


def read_parts(path: StrPath) -> npt.NDArray[np.int32]:
    """Read the part of every vertex from a partition of DistDGL (`plancc.interop.distdgl`)."""
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
