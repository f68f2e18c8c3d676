"""The graph of a plan with types as layers see it: all relations below each other.

One product with the stack is the product of every relation, and one exchange: a row that several
relations need at a rank travels once, and its gradients are added before they travel back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from plancc.graph.types import Relation, Types
from plancc.plan.exchange import Int64Array, offsets
from plancc_runtime.kernels.edges import Pattern
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import ColumnsAtHand, LocalGraph
from plancc_runtime.layouts.relation import TypedBlock
from plancc_runtime.layouts.resources import Resources


class StackGraph(LocalGraph):
    """Products have the rows of every relation's destination, relation after relation.

    Parameters:
        block: Of the union of all types, of a row plan; its inputs stand type after type. It has
            the vertices of halo rows.

    Attributes:
        inputs_of, outputs_of (dict of str to slice): Own rows of every type, in a layer's input and
            output.
        stack_of (dict of relation to slice): Rows of every relation in a product.
    """

    def __init__(self, block: Block, types: Types, resources: Resources) -> None:
        typed = TypedBlock.of(block, types, resources.transport)
        super().__init__(typed.stack(types.relations, resources.transport), resources)
        self.types, self._union = types, block
        self._halo_type = typed.column_type[block.num_inputs :]
        names, sizes = types.names, range(len(types.names) + 1)
        for rows in (typed.column_type[: block.num_inputs], typed.row_type):
            assert (np.diff(rows) >= 0).all(), "rows stand type after type"
        of_inputs, of_outputs = (
            dict(zip(names, map(slice, *zip(*pairwise(ends), strict=True)), strict=True))
            for ends in (
                np.searchsorted(typed.column_type[: block.num_inputs], sizes).tolist(),
                np.searchsorted(typed.row_type, sizes).tolist(),
            )
        )
        self.inputs_of: dict[str, slice] = of_inputs
        self.outputs_of: dict[str, slice] = of_outputs
        self.stack_of: dict[Relation, slice] = {}
        first = 0
        for relation in types.relations:
            size = self.num_outputs_of(relation[2])
            self.stack_of[relation] = slice(first, first + size)
            first += size
        self._of_relations: dict[tuple[Relation, ...], Pattern] = {}

    def at_hand(self, halo: Tensor | None = None) -> ColumnsAtHand:
        return StackAtHand(self, halo)

    @property
    def row_type(self) -> Tensor:
        """Number of the type of every input: int64[num_inputs]."""
        sizes = torch.tensor([each.stop - each.start for each in self.inputs_of.values()])
        number = torch.arange(len(sizes)).repeat_interleave(sizes)
        return number.to(self.resources.device)

    def num_outputs_of(self, name: str) -> int:
        """Own rows of a type in a layer's output."""
        rows = self.outputs_of[name]
        return int(rows.stop - rows.start)

    @property
    def num_outputs_of_types(self) -> int:
        """Own rows of all types in a layer's output."""
        return sum(map(self.num_outputs_of, self.outputs_of))

    def targets_of(self, name: str, columns: Tensor) -> Tensor:
        """Own rows of a type that are outputs, from its rows of `columns_by_type`."""
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
            of_type = self.outputs_of[relation[2]]
            inside = outputs[(outputs >= of_type.start) & (outputs < of_type.stop)]
            found.append(inside - of_type.start + rows.start)
        return np.concatenate(found)

    def columns_by_type(self, columns: Tensor) -> dict[str, Tensor]:
        """What `columns` returned, by type, own rows first: Tensor[columns of the type, ...]."""
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
        """Halo rows of every type, by their places."""
        kinds = range(len(self.inputs_of))
        rows = [torch.from_numpy(np.flatnonzero(self._halo_type == k)) for k in kinds]
        return [each.to(self.resources.device) for each in rows]

    def edges_of(self, relation: Relation) -> slice:
        """The nonzeros of a relation among those of the stack."""
        rows, row_ptr = self.stack_of[relation], self._block.row_ptr
        return slice(int(row_ptr[rows.start]), int(row_ptr[rows.stop]))

    def pattern_of(self, relations: tuple[Relation, ...]) -> Pattern:
        """The nonzeros of relations, each with rows and columns of its own.

        Columns of a source are those of `columns_by_type`, and stand once for every relation from
        it: with q relations, column c of the n-th is q c + n. So do the rows of a destination.
        """
        if relations not in self._of_relations:
            block, row, column = self._block, [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
            number, sizes = np.zeros(block.num_columns, np.int64), dict[str, int]()
            for k, (name, own) in enumerate(self.inputs_of.items()):
                of_type = np.arange(own.start, own.stop)
                halo = block.num_inputs + np.flatnonzero(self._halo_type == k)
                of_type = np.concatenate([of_type, halo])
                number[of_type], sizes[name] = np.arange(len(of_type)), len(of_type)
            columns, num_columns = _side_by_side(relations, 0, sizes)
            outputs = {name: self.num_outputs_of(name) for name in self.outputs_of}
            rows, num_rows = _side_by_side(relations, 2, outputs)
            for each in relations:
                of_stack, (first, step) = self.stack_of[each], rows[each]
                row_ptr = block.row_ptr[of_stack.start : of_stack.stop + 1]
                own_rows = first + step * np.arange(len(row_ptr) - 1)
                row.append(np.repeat(own_rows, np.diff(row_ptr)))
                first, step = columns[each]
                column.append(first + step * number[block.column[row_ptr[0] : row_ptr[-1]]])
            key = np.concatenate(row)
            self._of_relations[relations] = Pattern.from_csr(
                offsets(np.bincount(key, minlength=num_rows)),
                np.concatenate(column)[np.argsort(key, kind="stable")],
                num_columns,
                self.resources.device,
            )
        return self._of_relations[relations]


class StackAtHand(ColumnsAtHand, StackGraph):
    """A stack whose halo rows are at hand."""


def _side_by_side(
    relations: tuple[Relation, ...], end: int, sizes: Mapping[str, int]
) -> tuple[dict[Relation, tuple[int, int]], int]:
    """First place and step of every relation, side by side with others of its type; the total."""
    found, total = dict[Relation, tuple[int, int]](), 0
    for name, size in sizes.items():
        of_type = [each for each in relations if each[end] == name]
        found |= {each: (total + n, len(of_type)) for n, each in enumerate(of_type)}
        total += size * len(of_type)
    return found, total
