"""The blocks of relations: rows of one type, columns of another, and the messages between them.

        own sources   halo rows
      +-------------+-----------+
own   |             |           |   of a rank's block the rows of the destination, the own
dest. |             |           |   columns of the source, and the halo columns and folded rows
      +-------------+-----------+   that nonzeros of the relation use
folded|             |           |
      +-------------+-----------+
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plancc.errors import PlanError
from plancc.graph.types import Relation, Types
from plancc.plan.exchange import Int64Array, offsets, places
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.boundary import halo_vertices
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers


@dataclass(frozen=True, eq=False)
class TypedBlock:
    """A rank's block, and what its rows and columns are of.

    Attributes
    ----------
    block : Block
    types : Types
    row_type : int64[num_local_rows], column_type : int64[num_columns]
        Number of the type.
    relation : int64[nonzeros]
        Number of the relation.
    """

    block: Block
    types: Types
    row_type: Int64Array
    column_type: Int64Array
    relation: Int64Array

    @classmethod
    def of(cls, block: Block, types: Types, transport: Transport) -> TypedBlock:
        """What the rows and columns of a plan's slice are of. Collective.

        Raises
        ------
        PlanError
            On all ranks, for a nonzero that is of no relation.
        """
        columns = np.concatenate([block.inputs, halo_vertices(block, transport)])
        rows = block.inputs
        if block.fold is not None:
            copies = block.fold.reversed()
            folded = send_numbers(copies, block.inputs[copies.send.row], transport)
            rows = np.concatenate([rows, folded])
        of_rows = np.repeat(rows, np.diff(block.row_ptr))
        relation = types.relation_of(of_rows, columns[block.column])
        with transport.agreement():
            if (relation < 0).any():
                raise PlanError("the plan has a nonzero that is of no relation: compile it again")
        return cls(block, types, types.type_of(rows), types.type_of(columns), relation)

    def own_rows(self, name: str) -> Int64Array:
        """Own rows that are of a type, ascending."""
        of_type = self.row_type[: self.block.num_inputs] == self.types.names.index(name)
        return np.flatnonzero(of_type)

    def block_of(self, relation: Relation, transport: Transport) -> Block:
        """The block of a relation, without hops. Collective.

        Its inputs are the own rows of the source, its outputs those of the destination; only rows
        that its nonzeros use are received and folded.
        """
        block, n = self.block, self.block.num_inputs
        source, _, destination = relation
        nonzeros = self.relation == self.types.relations.index(relation)
        own_columns, own_rows = (self.own_rows(each) for each in (source, destination))
        used = np.zeros(block.num_columns, np.bool_)
        used[block.column[nonzeros]] = True
        sent = send_numbers(block.expand.reversed(), used[n:], transport)
        received = used[n:]
        used[:n] = False
        used[own_columns] = True
        column = places(used)
        degree = np.diff(offsets(nonzeros)[block.row_ptr])
        kept_rows = np.zeros(block.num_local_rows, np.bool_)
        kept_rows[n:] = degree[n:] > 0
        fold = block.fold
        if fold is not None:
            folded = kept_rows[n:].copy()
            arriving = send_numbers(fold, folded, transport)
            own = np.zeros(n, np.bool_)
            own[own_rows] = True
            fold = fold.keep(folded, arriving).renumbered(places(folded), places(own))
        kept_rows[own_rows] = True
        outputs: npt.NDArray[np.int64] | None = None
        if source != destination:  # rows that are no inputs
            outputs = np.full(len(own_rows), -1)
        made = replace(
            block,
            inputs=block.inputs[own_columns],
            outputs=outputs,
            row_ptr=offsets(degree[kept_rows]),
            column=column[block.column[nonzeros]],
            value=block.value[nonzeros],
            expand=block.expand.keep(sent, received).renumbered(column, places(received)),
            fold=fold,
            route=None,
            fold_route=None,
            edges=None,
            closed_edges=None,
        )
        return with_whole_rows(made, transport)
