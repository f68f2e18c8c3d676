"""The *stack*: one matrix with the rows of all relations of a typed plan, one below the other.

One product computes the products of all relations. A row that several relations need is sent once,
and the sum of its gradients is sent back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from plancc.graph.types import Relation, Types
from plancc.plan.exchange import Int64Array
from plancc_runtime.kernels.edges import Pattern
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import GraphWithHalo, LocalGraph
from plancc_runtime.layouts.relation import TypedBlock
from plancc_runtime.layouts.resources import Resources


class StackGraph(LocalGraph):
    """The graph of the *stack*: the matrices of all relations, one below the other.

    `block` must come from a row plan, know the vertices of its halo rows, and have its inputs
    sorted by type.

    Attributes:
        inputs_of, outputs_of (dict of str to slice): Range of each type's own rows in a layer's
            input, and in its output.
        stack_of (dict of Relation to slice): Range of every relation's rows in a product.
    """

    def __init__(self, block: Block, types: Types, resources: Resources) -> None:
        typed = TypedBlock.of(block, types, resources.transport)
        super().__init__(typed.stack(), resources)
        self.types, self._union = types, block
        self._halo_type = typed.column_type[block.num_inputs :]
        names, sizes = types.names, range(len(types.names) + 1)
        for rows in (typed.column_type[: block.num_inputs], typed.row_type):
            assert (np.diff(rows) >= 0).all(), "rows are not sorted by type"
        input_rows, output_rows = (
            dict(zip(names, map(slice, *zip(*pairwise(ends), strict=True)), strict=True))
            for ends in (
                np.searchsorted(typed.column_type[: block.num_inputs], sizes).tolist(),
                np.searchsorted(typed.row_type, sizes).tolist(),
            )
        )
        self.inputs_of: dict[str, slice] = input_rows
        self.outputs_of: dict[str, slice] = output_rows
        self.stack_of: dict[Relation, slice] = {}
        first = 0
        for relation in types.relations:
            size = self.num_outputs_of(relation[2])
            self.stack_of[relation] = slice(first, first + size)
            first += size
        self._of_relation: dict[Relation, Pattern] = {}

    def with_halo(self, halo: Tensor | None = None) -> GraphWithHalo:
        return StackWithHalo(self, halo)

    @property
    def row_type(self) -> Tensor:
        """For every input row, the position of its type among all types: int64[num_inputs]."""
        sizes = torch.tensor([each.stop - each.start for each in self.inputs_of.values()])
        number = torch.arange(len(sizes)).repeat_interleave(sizes)
        return number.to(self.resources.device)

    def num_outputs_of(self, name: str) -> int:
        """Return the number of this rank's rows that a layer computes for vertex type `name`."""
        rows = self.outputs_of[name]
        return int(rows.stop - rows.start)

    def targets_of(self, name: str, columns: Tensor) -> Tensor:
        """Return the rows of `columns` that belong to the layer's outputs of type `name`.

        `columns` comes from `columns_by_type`: own rows of this type, then halo rows.
        """
        size = self.num_outputs_of(name)
        if self._union.outputs is None:
            return columns if len(columns) == size else columns[:size]
        places = self._rows[self.outputs_of[name]] - self.inputs_of[name].start
        return columns.index_select(0, places)

    @property
    def places(self) -> Tensor | None:
        return None if self._union.outputs is None else self._rows

    @cached_property
    def _rows(self) -> Tensor:
        return torch.from_numpy(self._union.output_places()).to(self.resources.device)

    def rows_of_product(self, outputs: Int64Array) -> Int64Array:
        found = [np.zeros(0, np.int64)]
        for relation, rows in self.stack_of.items():
            type_rows = self.outputs_of[relation[2]]
            inside = outputs[(outputs >= type_rows.start) & (outputs < type_rows.stop)]
            found.append(inside - type_rows.start + rows.start)
        return np.concatenate(found)

    def columns_by_type(self, columns: Tensor) -> dict[str, Tensor]:
        """Split a result of `columns` by type; in each tensor, own rows come before halo rows."""
        sizes = [rows.stop - rows.start for rows in self.inputs_of.values()]
        *own, halo = columns.split([*sizes, len(columns) - sum(sizes)])
        found = dict(zip(self.inputs_of, own, strict=True))
        for k, name in enumerate(self.inputs_of):
            rows = self._halo_rows[k]
            if len(rows):
                found[name] = torch.cat([found[name], halo.index_select(0, rows)])
        return found

    @cached_property
    def _halo_rows(self) -> list[Tensor]:
        """For every type, the positions of its rows among the halo rows: list of int64[...]."""
        kinds = range(len(self.inputs_of))
        rows = [torch.from_numpy(np.flatnonzero(self._halo_type == k)) for k in kinds]
        return [each.to(self.resources.device) for each in rows]

    def split_by_relation(self, product: Tensor) -> dict[Relation, Tensor]:
        """Return views of a product's rows by relation: Tensor[rows of the relation, ...]."""
        sizes = [self.num_outputs_of(relation[2]) for relation in self.stack_of]
        return dict(zip(self.stack_of, product.split(sizes), strict=True))

    def outputs_by_type(self, rows: Tensor) -> dict[str, Tensor]:
        """Return views of the output rows by type: Tensor[outputs of the type, ...]."""
        sizes = [self.num_outputs_of(name) for name in self.outputs_of]
        return dict(zip(self.outputs_of, rows.split(sizes), strict=True))

    def joined(self, rows: Mapping[str, Tensor], like: Tensor, width: int) -> Tensor:
        """Return the output rows of all types, one type after another: Tensor[outputs, width].

        Rows of a type that is missing in `rows` are 0; `like` gives their device and dtype.
        """
        return torch.cat(
            [
                rows[name] if name in rows else like.new_zeros(self.num_outputs_of(name), width)
                for name in self.outputs_of
            ]
        )

    def edges_of(self, relation: Relation) -> slice:
        """Return the range of a relation's nonzeros in the stack."""
        rows, row_ptr = self.stack_of[relation], self._block.row_ptr
        return slice(int(row_ptr[rows.start]), int(row_ptr[rows.stop]))

    def pattern_of(self, relation: Relation) -> Pattern:
        """Return the pattern of a relation; columns are numbered as in `columns_by_type`."""
        if relation not in self._of_relation:
            block, kind = self._block, [*self.inputs_of].index(relation[0])
            own, rows = self.inputs_of[relation[0]], self.stack_of[relation]
            halo = block.num_inputs + np.flatnonzero(self._halo_type == kind)
            columns = np.concatenate([np.arange(own.start, own.stop), halo])
            number = np.zeros(block.num_columns, np.int64)
            number[columns] = np.arange(len(columns))
            edges = self.edges_of(relation)
            row_ptr = block.row_ptr[rows.start : rows.stop + 1] - edges.start
            self._of_relation[relation] = Pattern.from_csr(
                row_ptr, number[block.column[edges]], len(columns), self.resources.device
            )
        return self._of_relation[relation]


class StackWithHalo(GraphWithHalo, StackGraph):
    """A stack of relations whose inputs include the halo rows, so that no rows are sent."""


class RelationGraph(LocalGraph):
    """The graph of one relation, for a layer that gets its source rows from `Conv.fixed`.

    The source rows were computed before training, so both inputs and outputs of this graph are rows
    of the destination type.
    """

    def __init__(self, stack: StackGraph, relation: Relation) -> None:
        self.resources, self.transport = stack.resources, stack.transport
        self._stack, self._relation, self._copies = stack, relation, None

    @property
    def num_inputs(self) -> int:
        return self._stack.num_outputs_of(self._relation[2])

    @property
    def num_outputs(self) -> int:
        return self.num_inputs

    @property
    def places(self) -> Tensor | None:
        return None

    def local_pattern(self, nonzeros: str) -> Pattern:
        return self._stack.pattern_of(self._relation)

    def _part(self, stacked: Tensor | None) -> Tensor | None:
        return None if stacked is None else stacked[self._stack.edges_of(self._relation)]

    def edge_column(self, name: str, dtype: torch.dtype | None = None) -> Tensor | None:
        return self._part(self._stack.edge_column(name, dtype))

    @property
    def edge_factors(self) -> Tensor | None:
        return self._part(self._stack.edge_factors)
