"""hMETIS ``.hgr`` files, for partitioners that plancc does not drive itself (1-based).

NETS VERTICES [FMT]         FMT: 1 net costs, 10 vertex weights, 11 both
[cost] pin pin ...          one line per net
weight                      one line per vertex, if FMT says so
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import atomic_write
from plancc.graph.textfile import StrPath, fail, read_bytes, read_integers

if TYPE_CHECKING:
    from plancc.models.problem import Hypergraph


class HypergraphArrays(NamedTuple):
    """What an .hgr file holds; arrays as in `plancc.models.problem.Hypergraph`, except that pins
    keep the order of the file and absent weights are None."""

    num_vertices: int
    net_ptr: npt.NDArray[np.int64]
    pins: npt.NDArray[np.int32]
    vertex_weights: npt.NDArray[np.int64] | None
    net_costs: npt.NDArray[np.int64] | None


def write_hmetis(hypergraph: Hypergraph, path: StrPath) -> None:
    """Write a hypergraph for hMETIS, PaToH's converters, KaHyPar or Mt-KaHyPar.

    Vertex weights are always written, net costs where there are any. Nets without a pin, which
    the format cannot hold and which never cost anything, are left out.

    Raises
    ------
    InputError
        If no net has a pin.
    OutputError
        If the file cannot be written.
    """
    from plancc.graph.kernels import format_lines

    size = np.diff(hypergraph.net_ptr)
    kept = size > 0
    num_nets = int(kept.sum())
    if not num_nets:
        raise InputError(f"{os.fspath(path)}: no net of the hypergraph has a pin")
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
        weights = hypergraph.vertex_weights.astype(np.int64, copy=False)
        stream.write(format_lines(np.arange(n + 1, dtype=np.int64), weights).tobytes())


def read_hmetis(path: StrPath) -> HypergraphArrays:
    """Read an .hgr file, plain or .gz.

    Raises
    ------
    InputError
        For a wrong header, a wrong number of lines, a pin out of range; the message names file,
        line and value.
    """
    numbers = read_integers(path, read_bytes(path))
    filled = np.flatnonzero(np.diff(numbers.ptr))  # blank lines mean nothing in this format
    start, stop = numbers.ptr[filled], numbers.ptr[filled + 1]
    line = numbers.line[filled]
    if not len(filled):
        raise InputError(f"{os.fspath(path)}: the file has no header line")
    head = numbers.values[start[0] : stop[0]].tolist()
    fmt = head[2] if len(head) > 2 else 0
    if not 2 <= len(head) <= 3 or min(head[:2]) < 1 or fmt not in (0, 1, 10, 11):
        text = " ".join(map(str, head))
        fail(path, int(line[0]), "the header 'NETS VERTICES [FMT]' is expected, not", text)
    nets, n = head[:2]
    has_costs, has_weights = fmt % 10 == 1, fmt >= 10
    expected = 1 + nets + (n if has_weights else 0)
    if len(filled) != expected:
        k = min(len(filled), expected + 1) - 1
        fail(path, int(line[k]), f"{expected} lines are expected, the file has", len(filled))
    size = stop[1 : nets + 1] - start[1 : nets + 1]
    body = numbers.values[start[1] : stop[nets]]
    costs = None
    if has_costs:
        first = start[1 : nets + 1] - start[1]
        costs = body[first]
        body = np.delete(body, first)
        size = size - 1
    wrong = (body < 1) | (body > n)
    if wrong.any():
        k = int(np.argmax(wrong))
        net = int(np.searchsorted(np.cumsum(size), k, side="right"))
        fail(path, int(line[1 + net]), f"a pin is out of range 1..{n}:", body[k])
    weights = None
    if has_weights:
        single = stop[nets + 1 :] - start[nets + 1 :] == 1
        if not single.all():
            k = nets + 1 + int(np.argmin(single))
            text = " ".join(map(str, numbers.values[start[k] : stop[k]]))
            fail(path, int(line[k]), "one vertex weight is expected, not", text)
        weights = numbers.values[start[nets + 1] :].copy()
    ptr = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    return HypergraphArrays(n, ptr, (body - 1).astype(np.int32), weights, costs)
