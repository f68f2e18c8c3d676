"""Blocks of single relations, whose rows have one vertex type and whose columns have another.

        own sources   halo rows
      +-------------+-----------+
own   |             |           |   rows of the destination type, own columns of the source
dest. |             |           |   type, and the halo columns and folded rows in which the
      +-------------+-----------+   relation has nonzeros
folded|             |           |
      +-------------+-----------+

The *stack* has the rows of all relations, one relation below the other, and only one exchange.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from plancc.errors import InputError, PlanError
from plancc.graph.types import Relation, Types
from plancc.plan.exchange import BoolArray, Int64Array, offsets, places
from plancc.plan.parts import taken
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import halo_vertices
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers


@dataclass(frozen=True, eq=False)
class TypedBlock:
    """A rank's block, with the types of rows and columns and the relations of nonzeros.

    Attributes:
        block: Block with the rows and nonzeros of all types and relations.
        row_type (int64[num_local_rows]): Index of the type of every row.
        column_type (int64[num_columns]): Index of the type of every column.
        relation (int64[nonzeros]): Index of every nonzero's relation; -1 if it has none.
    """

    block: Block
    types: Types
    row_type: Int64Array
    column_type: Int64Array
    relation: Int64Array

    @classmethod
    def of(cls, block: Block, types: Types, transport: Transport) -> TypedBlock:
        """Return a block with the types of its rows and columns, and the relations of its nonzeros.

        Collective if the block has a fold, or lacks the vertices of its halo rows.
        """
        halo = halo_vertices(block, transport) if block.halo is None else block.halo
        columns = np.concatenate([block.inputs, halo])
        rows = block.inputs[block.output_places()]
        if block.fold is not None:
            copies = block.fold.reversed()
            folded = send_numbers(copies, rows[copies.send.row], transport)
            rows = np.concatenate([rows, folded])
        row_vertices = np.repeat(rows, np.diff(block.row_ptr))
        relation = types.relation_of(row_vertices, columns[block.column])
        if block.relation is not None:
            if len(block.relation) != len(block.column):
                raise InputError(
                    "boundary sampling needs a plan with at most one relation from one type to "
                    "another; leave the sampling out"
                )
            fits = types.fits(row_vertices, columns[block.column], block.relation)
            relation = np.where(fits, block.relation.astype(np.int64), -1)
        return cls(block, types, types.type_of(rows), types.type_of(columns), relation)

    def check(self, transport: Transport) -> None:
        """Raise PlanError on all ranks if any rank has a nonzero without a relation. Collective."""
        with transport.agreement():
            if (self.relation < 0).any():
                raise PlanError("the plan has a nonzero without a relation; compile a new plan")

    def stack(self) -> Block:
        """Return the stack: one block with the matrices of all relations, one below the other.

        Its outputs are, for each relation, the own rows of the destination type. Nonzeros without
        relation are dropped. InputError if the plan is an edge plan.
        """
        if self.block.fold is not None:
            raise InputError("the plan is an edge plan; layers with vertex types need a row plan")
        block, place = self.block, np.zeros(len(self.row_type), np.int64)
        rows_of_type = [np.flatnonzero(self.row_type == k) for k in range(len(self.types.names))]
        for rows in rows_of_type:
            place[rows] = np.arange(len(rows))
        ends = [self.types.names.index(destination) for *_, destination in self.types.relations]
        first = offsets(np.array([len(rows_of_type[k]) for k in ends]))
        size = int(first[-1])  # rows from `size` on take the nonzeros of relation -1 (none)
        key = first[self.relation] + np.repeat(place, np.diff(block.row_ptr))
        row_ptr = offsets(np.bincount(key, minlength=size)[:size])
        order = np.argsort(key, kind="stable")[: row_ptr[-1]]
        return replace(
            block,
            outputs=np.full(size, -1),
            row_ptr=row_ptr,
            column=block.column[order],
            value=block.value[order],
            factor=taken(block.factor, order),
            columns=block.with_columns(relation=None).columns_at(order),
        )

    def block_of(self, relation: Relation, transport: Transport) -> Block:
        """Return the block of a relation, from own source rows to own destination rows. Collective.

        This block receives and folds only rows that have nonzeros of the relation. Its exchange
        has no hops.
        """
        block, m, number = self.block, self.block.num_outputs, self.types.relations.index(relation)
        kept, received = self.relation == number, self.halo_of({number})
        column = places(np.append(self._own_columns(relation[0]), received))
        nonzeros, fold = np.diff(offsets(kept)[block.row_ptr]), block.fold
        rows: BoolArray = self.row_type[:m] == self.types.names.index(relation[2])
        folded: BoolArray = nonzeros[m:] > 0
        if fold is not None:
            arriving = send_numbers(fold, folded, transport)
            fold = fold.keep(folded, arriving).renumbered(places(folded), places(rows))
        made = replace(
            self.inputs_of(relation[0], received, transport),
            outputs=None if relation[0] == relation[2] else np.full(np.count_nonzero(rows), -1),
            row_ptr=offsets(nonzeros[np.append(rows, folded)]),
            column=column[block.column[kept]],
            value=block.value[kept],
            factor=taken(block.factor, kept),
            columns=block.with_columns(relation=None).columns_at(kept),
            fold=fold,
        )
        return with_whole_rows(made, transport)

    def halo_of(self, relations: Collection[int]) -> BoolArray:
        """Return whether a nonzero of these relations uses each halo row: bool[num_halo]."""
        used = np.zeros(self.block.num_columns, np.bool_)
        used[self.block.column[np.isin(self.relation, [*relations])]] = True
        return used[self.block.num_inputs :]

    def inputs_of(self, name: str, received: BoolArray, transport: Transport) -> Block:
        """Return a block of own rows of the type `name` and some halo rows, without nonzeros.

        Collective. `received`, bool[num_halo], says which halo rows the block has. Messages of the
        block go directly to the rank that reads the rows.
        """
        block, own = self.block, self._own_columns(name)
        column = places(np.append(own, received))
        sent = send_numbers(block.expand.reversed(), received, transport)
        return replace(
            block,
            inputs=block.inputs[own],
            outputs=None,
            row_ptr=np.zeros(np.count_nonzero(own) + 1, np.int64),
            column=block.column[:0],
            value=block.value[:0],
            factor=None,
            columns={},
            expand=block.expand.keep(sent, received).renumbered(column, places(received)),
            fold=None,
            halo=None if block.halo is None else block.halo[received],
            edges=None,
            closed_edges=None,
        )

    def _own_columns(self, name: str) -> BoolArray:
        """Return whether each own row has the type `name`: bool[num_inputs]."""
        own: BoolArray = self.column_type[: self.block.num_inputs] == self.types.names.index(name)
        return own
