"""The sampler that draws seed vertices and, for every layer, neighbours in every relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from plancc.errors import InputError
from plancc.fields import option
from plancc.kernel import njit
from plancc.sampling.batch import Batch, Population
from plancc.sampling.counter import bits
from plancc.sampling.neighbour import NeighbourSampler, draw_subset
from plancc.sampling.owned import Int64s, OwnedBlock, OwnedRows
from plancc.sampling.sampler import SHOWN


@dataclass(frozen=True)
class RelationSampler(NeighbourSampler):
    """Neighbour sampling separately for each relation, as DGL does it for heterogeneous graphs.

    If a row has d neighbours in a relation, it keeps k = ``min(fan-out, d)`` of them; every set of
    k is equally likely. The nonzeros of the kept neighbours are multiplied by ``d / k``. The rows
    of the last block are the seed vertices; the rows of every other block are the rows and columns
    of the next block. If a row is in several blocks, neighbours are drawn for each block anew. Only
    the owner of a row draws its neighbours.

    Attributes:
        of_relations: The fan-outs of every relation, in the order of the graph's relations.
    """

    owners_draw: ClassVar[str] = "neighbours in relations"
    column: ClassVar[str] = "relation"

    of_relations: tuple[tuple[int, ...], ...] = option((), internal=True)

    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        raise InputError(f"sampler '{self.name}': for typed graphs, one rank cannot draw alone")

    def block_of_owner(
        self, owned: OwnedRows, rows: Int64s, hop: int, key: np.uint64
    ) -> OwnedBlock:
        fanouts = np.array([each[hop] for each in self.of_relations], np.int64)
        np.minimum(fanouts, owned.num_vertices, out=fanouts)
        drawn = _sampled_by_relation(owned.arrays, rows, fanouts, np.uint64(bits(key, hop)))
        return OwnedBlock(rows, *drawn)


@njit(cache=True, nogil=True)
def _sampled_by_relation(owned: Any, rows: Any, fanouts: Any, key: Any) -> Any:
    """Draw nonzeros of an owner's rows; return the arrays that make an `OwnedBlock` of them."""
    vertices, row_ptr, order, relation = owned
    ptr = np.zeros(len(rows) + 1, dtype=np.int64)
    for k in range(len(rows)):
        ptr[k + 1], first = ptr[k], row_ptr[rows[k]]
        a, end = first, row_ptr[rows[k] + 1]
        # `order` sorts the nonzeros of a row by relation: a relation's nonzeros stand together.
        while a < end:
            last = _end_of_relation(order, relation, first, a, end)
            ptr[k + 1] += min(last - a, fanouts[relation[first + order[a]]])
            a = last
    places = np.empty(ptr[-1], dtype=np.int32)
    nonzeros = np.empty(ptr[-1], dtype=np.int64)
    factors = np.empty(ptr[-1], dtype=np.float64)
    scales = np.empty(len(fanouts), dtype=np.float64)
    for k in range(len(rows)):
        at, first = ptr[k], row_ptr[rows[k]]
        a, end = first, row_ptr[rows[k] + 1]
        while a < end:
            last = _end_of_relation(order, relation, first, a, end)
            r, size = relation[first + order[a]], last - a
            kept = places[at : at + min(size, fanouts[r])]
            draw_subset(kept, size, size, fanouts[r], bits(bits(key, r), vertices[rows[k]]))
            # as in `subsets`, for each relation
            scales[r] = size / len(kept)
            for place in kept:
                nonzeros[at] = first + order[a + place]
                at += 1
            a = last
        nonzeros[ptr[k] : at].sort()
        for b in range(ptr[k], at):
            factors[b] = scales[relation[nonzeros[b]]]
    return ptr, nonzeros, factors


@njit(cache=True, nogil=True)
def _end_of_relation(order: Any, relation: Any, first: Any, a: Any, end: Any) -> Any:
    """Return the end, in `order`, of the nonzeros with the same relation as ``order[a]``.

    `order` sorts the nonzeros of each row by relation. The row's nonzeros begin at `first`, and end
    at `end`.
    """
    low, of_first = a + 1, relation[first + order[a]]
    # binary search for the first nonzero of another relation
    while low < end:
        middle = (low + end) // 2
        if relation[first + order[middle]] == of_first:
            low = middle + 1
        else:
            end = middle
    return low
