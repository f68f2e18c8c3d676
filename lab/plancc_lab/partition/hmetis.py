"""Reader of hMETIS ``.hgr`` files.

% comment
NETS VERTICES [FMT]         FMT: 1 net costs, 10 vertex weights, 11 both
[cost] pin pin ...          one line per net, 1-based
weight                      one line per vertex, if FMT says so
"""

from __future__ import annotations

import os

import numpy as np

from plancc.errors import InputError
from plancc.files import StrPath, open_file
from plancc.graph.bounds import bounded
from plancc.graph.graph import check_num_vertices
from plancc.graph.textfile import Integers, fail, fail_first, read_bytes, read_integers
from plancc.models.problem import Hypergraph

_FORMATS = (0, 1, 10, 11)


def read_hmetis(path: StrPath, *, allow_large: bool = False) -> Hypergraph:
    """Return the hypergraph of a file, plain or .gz; without vertex weights every vertex weighs 1.

    `allow_large` accepts a header that declares far more than the file's size suggests.
    """
    with open_file(path):
        size = os.path.getsize(path)
    with bounded(size, allow_large=allow_large):
        return _hypergraph(path, read_integers(path, read_bytes(path)))


def _hypergraph(path: StrPath, numbers: Integers) -> Hypergraph:
    full = np.diff(numbers.ptr) > 0
    line, values = numbers.line[full], numbers.values
    ptr = np.append(numbers.ptr[:-1][full], len(values))
    if not len(line):
        raise InputError(f"{os.fspath(path)}: the line 'NETS VERTICES [FMT]' is missing")
    head = values[: ptr[1]].tolist()
    if not 2 <= len(head) <= 3:
        words = " ".join(map(str, head))
        fail(path, int(line[0]), "the first line must be 'NETS VERTICES [FMT]', not", words)
    num_nets, n, fmt = [*head, 0][:3]
    if fmt not in _FORMATS:
        fail(path, int(line[0]), "FMT of 'NETS VERTICES [FMT]' must be 0, 1, 10 or 11, not", fmt)
    if num_nets < 0:
        fail(path, int(line[0]), "the number of nets is negative:", num_nets)
    check_num_vertices(n, f"{os.fspath(path)}, line {line[0]}")
    has_costs, has_weights = fmt % 10 == 1, fmt >= 10
    expected = num_nets + n * has_weights
    if len(line) - 1 != expected:
        lines = f"{num_nets} nets" + f" and {n} vertex weights" * has_weights
        message = f"the header declares {lines}, on a line each; the file has"
        fail(path, int(line[min(expected + 1, len(line) - 1)]), message, len(line) - 1)
    ptr, line = ptr[1:], line[1:]
    size, of_net = np.diff(ptr[: num_nets + 1]), line[:num_nets]
    costs, is_pin = None, np.ones(ptr[num_nets] - ptr[0], np.bool_)
    if has_costs:
        fail_first(
            path, size < 2, of_net, "a cost and pins are expected, not", values[ptr[:num_nets]]
        )
        costs = values[ptr[:num_nets]]
        fail_first(path, costs < 1, of_net, "the cost of a net must be at least 1, not", costs)
        is_pin[ptr[:num_nets] - ptr[0]] = False
        size = size - 1
    pins = values[ptr[0] : ptr[num_nets]][is_pin]
    net = np.repeat(np.arange(num_nets), size)
    message = f"a pin is out of range 1..{n}:"
    fail_first(path, (pins < 1) | (pins > n), of_net, message, pins, net)
    order = np.lexsort((pins, net))
    again = np.flatnonzero((np.diff(pins[order]) == 0) & (np.diff(net) == 0))
    if len(again):
        k = int(order[again[0]])
        fail(path, int(of_net[net[k]]), "a pin comes twice in a net:", pins[k])
    weights = np.ones(n, np.int64)
    if has_weights:
        message = "one weight per line is expected, not numbers:"
        count = np.diff(ptr[num_nets:])
        fail_first(path, count != 1, line[num_nets:], message, count)
        weights = values[ptr[num_nets] :]
        message = "the weight of a vertex is negative:"
        fail_first(path, weights < 0, line[num_nets:], message, weights)
    net_ptr = np.concatenate([[0], np.cumsum(size)])
    return Hypergraph(net_ptr, (pins - 1).astype(np.int32), weights, costs)
