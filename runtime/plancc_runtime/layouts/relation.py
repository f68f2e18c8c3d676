"""The blocks of relations: rows of one type, columns of another, and the messages between them.

        own sources   halo rows
      +-------------+-----------+
own   |             |           |   of a rank's block the rows of the destination, the own
dest. |             |           |   columns of the source, and the halo columns and folded rows
      +-------------+-----------+   that nonzeros of the relation use
folded|             |           |
      +-------------+-----------+

A *stack* has the rows of several relations below each other, and one exchange for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from plancc.errors import InputError, PlanError
from plancc.graph.types import Relation, Types
from plancc.plan.exchange import BoolArray, Int64Array, offsets, places
from plancc.plan.parts import taken
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.boundary import halo_vertices
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers


@dataclass(frozen=True, eq=False)
class TypedBlock:
    """A rank's block, and what its rows and columns are of.

    Attributes:
        row_type, column_type (int64[num_local_rows], int64[num_columns]): Number of the type.
        relation (int64[nonzeros]): Number of the relation.
    """

    block: Block
    types: Types
    row_type: Int64Array
    column_type: Int64Array
    relation: Int64Array

    @classmethod
    def of(cls, block: Block, types: Types, transport: Transport) -> TypedBlock:
        """What the rows and columns of a plan's slice are of.

        Collective, but for a block without a fold that has the vertices of halo rows.
        """
        halo = halo_vertices(block, transport) if block.halo is None else block.halo
        columns = np.concatenate([block.inputs, halo])
        rows = block.inputs[block.output_places()]
        if block.fold is not None:
            copies = block.fold.reversed()
            folded = send_numbers(copies, rows[copies.send.row], transport)
            rows = np.concatenate([rows, folded])
        of_rows = np.repeat(rows, np.diff(block.row_ptr))
        relation = types.relation_of(of_rows, columns[block.column])
        if block.relation is not None:
            if len(block.relation) != len(block.column):
                raise InputError(
                    "several relations lead from one type to one type: such a plan trains without "
                    "samples of the boundary"
                )
            fits = types.fits(of_rows, columns[block.column], block.relation)
            relation = np.where(fits, block.relation, -1)
        return cls(block, types, types.type_of(rows), types.type_of(columns), relation)

    def check(self, transport: Transport) -> None:
        """PlanError on all ranks for a nonzero that is of no relation. Collective."""
        with transport.agreement():
            if (self.relation < 0).any():
                raise PlanError("the plan has a nonzero that is of no relation: compile it again")

    def own_rows(self, name: str) -> Int64Array:
        """Own rows of the output that are of a type, ascending."""
        of_type = self.row_type[: self.block.num_outputs] == self.types.names.index(name)
        return np.flatnonzero(of_type)

    def only(self, relations: Sequence[Relation], transport: Transport) -> TypedBlock:
        """The nonzeros of some relations, and the inputs that are of their sources. Collective.

        Only rows that the nonzeros use are received. There are no hops.
        """
        block, n, names = self.block, self.block.num_inputs, self.types.names
        kept = np.isin(self.relation, [self.types.relations.index(each) for each in relations])
        used = np.zeros(block.num_columns, np.bool_)
        used[block.column[kept]] = True
        received = used[n:].copy()
        sent = send_numbers(block.expand.reversed(), received, transport)
        used[:n] = np.isin(self.column_type[:n], [names.index(each) for each, *_ in relations])
        column = places(used)
        made = replace(
            block,
            inputs=block.inputs[used[:n]],
            outputs=np.full(block.num_outputs, -1),
            row_ptr=offsets(kept)[block.row_ptr],
            column=column[block.column[kept]],
            value=block.value[kept],
            factor=taken(block.factor, kept),
            edge_features=taken(block.edge_features, kept),
            expand=block.expand.keep(sent, received).renumbered(column, places(received)),
            halo=None if block.halo is None else block.halo[received],
            route=None,
            relation=None,
        )
        relation, column_type = self.relation[kept], self.column_type[used]
        return TypedBlock(made, self.types, self.row_type, column_type, relation)

    def stack(self, relations: Sequence[Relation], transport: Transport) -> Block:
        """The rows of relations below each other, those of each as `own_rows` of its destination.

        Collective in an edge plan, where it takes one relation. Outputs are no inputs; messages
        that bring inputs stay.
        """
        block, m = self.block, self.block.num_outputs
        number = np.full(len(self.types.relations), -1, np.int64)
        number[[self.types.relations.index(each) for each in relations]] = np.arange(len(relations))
        rows = [self.own_rows(destination) for *_, destination in relations]
        first = offsets(np.array([len(each) for each in rows]))
        place = np.zeros(block.num_local_rows, np.int64)
        for *_, destination in relations:
            own = self.own_rows(destination)
            place[own] = np.arange(len(own))
        of, row = number[self.relation], np.repeat(np.arange(len(place)), np.diff(block.row_ptr))
        fold, size = block.fold, int(first[-1])
        key = first[of] + place[row]
        if fold is not None:
            if len(relations) > 1:
                raise InputError("an edge plan spreads the rows of relations over ranks")
            folded: BoolArray = np.diff(offsets(of >= 0)[block.row_ptr])[m:] > 0
            arriving, met = send_numbers(fold, folded, transport), np.zeros(m, np.bool_)
            met[rows[0]] = True
            fold = fold.keep(folded, arriving).renumbered(places(folded), places(met))
            partial = row >= m
            key[partial] = size + places(folded)[row[partial] - m]
            size += int(folded.sum())
        order = np.argsort(np.where(of < 0, size, key), kind="stable")[: np.count_nonzero(of >= 0)]
        return replace(
            block,
            outputs=np.full(first[-1], -1),
            row_ptr=offsets(np.bincount(key[order], minlength=size)),
            column=block.column[order],
            value=block.value[order],
            factor=taken(block.factor, order),
            edge_features=taken(block.edge_features, order),
            fold=fold,
            fold_route=None,
            edges=None,
            closed_edges=None,
            relation=None,
        )

    def block_of(self, relation: Relation, transport: Transport) -> Block:
        """The block of a relation, without hops. Collective.

        Its inputs are the own rows of the source, its outputs those of the destination; only rows
        that its nonzeros use are received and folded.
        """
        made = self.only([relation], transport).stack([relation], transport)
        if relation[0] == relation[2]:  # its rows are inputs
            made = replace(made, outputs=None)
        return with_whole_rows(made, transport)
