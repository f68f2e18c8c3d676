"""MeshGraphNet (Pfaff et al., ICLR 2021): encode, update vertices and edges in layers, decode.

Maps are Linear, ReLU, Linear, and a LayerNorm but for the decoder, as in NVIDIA's PhysicsNeMo; all
hidden layers and edges have one width. Rows of edges go from layer to layer beside those of
vertices, so that all layers have the same edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from plancc.graph.types import Relation
from plancc.plan.convolutions import MeshGraphNetOptions
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import local_graph
from plancc_runtime.nn.conv import Conv, drawn
from plancc_runtime.nn.edges import MLP, EdgeBlock, EdgeUpdate, edge_features_of, scaled
from plancc_runtime.nn.operators import aggregate
from plancc_runtime.nn.relations import RelationConv, stack_graph


class EncodingConv(Conv):
    """A layer that is told whether it is the first, which encodes vertices and edges.

    Parameters:
        first: Whether this is the first layer.
        others: As of `Conv`.
    """

    Options = MeshGraphNetOptions
    carries_edges: ClassVar[bool] = True
    first: bool

    def __init__(self, d_in: int, d_out: int, *, first: bool = False, **others: Any) -> None:
        object.__setattr__(self, "first", first)  # `_make` reads it
        super().__init__(d_in, d_out, **others)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        return x


class MeshGraphNetConv(EncodingConv):
    """One layer; the first one encodes vertices and edges, the last one decodes vertices."""

    whole_rows: ClassVar[bool] = True
    reads_values: ClassVar[bool] = False

    def _make(self, random: np.random.Generator) -> None:
        width = self.options.width(self.d_in, self.d_out, self.last, self.first)
        if self.first:
            self.encoder = drawn(MLP(self.d_in, width), random)
            self.edge_encoder = drawn(MLP(self.options.edge_width, width), random)
        self.block = drawn(EdgeBlock(width), random)
        if self.last:
            self.decoder = drawn(MLP(width, width, self.d_out), random)

    def forward(  # type: ignore[override]
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
        edges: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Rows of vertices and of edges. Collective.

        Parameters:
            x: Tensor[num_inputs, d_in].
            edges (Tensor[edges, width]): From the layer before; in the first one features,
                Tensor[edges, edge_width], by default `graph.edge_features`.

        Returns:
            Tensor[num_outputs, d_out], Tensor[edges, width]
        """
        graph = local_graph(graph, "model meshgraphnet")
        if self.first:
            x = self.encoder(x)
            edges = self.edge_encoder(edge_features_of(graph) if edges is None else edges)
        assert edges is not None
        y, edges = self.block(graph, x, edges)
        return self.decoder(y) if self.last else y, edges


class RelationMeshGraphNetConv(EncodingConv, RelationConv):
    """The same for vertices of several types.

    Every type and every relation has maps of its own; the map of a vertex takes its row beside the
    sums of all relations that lead to it, as that of mesh and world edges does (Equation 1).
    """

    rectifies = False

    def _make(self, random: np.random.Generator) -> None:
        types = self.types
        self.width = width = self.options.width(self.d_in, self.d_out, self.last, self.first)
        read = {*types.wanted, *(source for source, *_ in types.relations)}
        self._read = [name for name in types.widths if name in read]
        if self.first:
            self.encoders = nn.ModuleList(
                drawn(MLP(types.widths[name], width), random) for name in self._read
            )
            self.edge_encoders = nn.ModuleList(
                drawn(MLP(self.options.edge_width, width), random) for _ in types.relations
            )
        self.updates = nn.ModuleList(drawn(EdgeUpdate(width), random) for _ in types.relations)
        self.vertices = nn.ModuleList(
            drawn(MLP((1 + len(types.into(name))) * width, width), random) for name in types.wanted
        )
        if self.last:
            self.decoders = nn.ModuleList(
                drawn(MLP(width, width, self.d_out), random) for _ in types.wanted
            )

    def forward(  # type: ignore[override]
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
        edges: Mapping[Relation, Tensor] | None = None,
    ) -> tuple[Tensor, dict[Relation, Tensor]]:
        stack, types = stack_graph(graph), self.types
        if self.first:
            x = self._encoded(stack.inputs_of, x)
        of_type = stack.columns_by_type(stack.columns(x))
        own = {name: stack.targets_of(name, of_type[name]) for name in types.wanted}
        totals, found = {name: [rows] for name, rows in own.items()}, dict[Relation, Tensor]()
        for k, relation in enumerate(types.relations):
            source, _, destination = relation
            pattern, update = stack.pattern_of((relation,)), self.updates[k]
            nonzeros = stack.edges_of(relation)
            assert isinstance(update, EdgeUpdate)
            before = None if edges is None else edges[relation]
            if before is None:
                before = self.edge_encoders[k](edge_features_of(stack)[nonzeros])
            ends = update.source(of_type[source]), update.target(own[destination])
            found[relation] = after = update(pattern, *ends, before)
            added = scaled(after, stack, nonzeros)
            totals[destination].append(aggregate(pattern, added, added, "copy_e"))
        y = {}
        for k, (name, rows) in enumerate(own.items()):
            y[name] = self.vertices[k](*totals[name], onto=rows)
            if self.last:
                y[name] = self.decoders[k](y[name])
        return self._joined(stack, y, x), found

    def _encoded(self, inputs_of: Mapping[str, slice], x: Tensor) -> Tensor:
        """Encoded rows of all types that are read; 0 of others."""
        encoders = dict(zip(self._read, self.encoders, strict=True))
        return torch.cat(
            [
                encoders[name](x[rows, : self.types.widths[name]])
                if name in encoders
                else x.new_zeros(rows.stop - rows.start, self.width)
                for name, rows in inputs_of.items()
            ]
        )
