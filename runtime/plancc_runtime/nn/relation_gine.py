"""The isomorphism network with features of edges, for graphs with types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from plancc.plan.convolutions import GINEOptions
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.stack import StackGraph
from plancc_runtime.nn.conv import drawn
from plancc_runtime.nn.edges import edge_features_of, messages, scaled
from plancc_runtime.nn.operators import aggregate
from plancc_runtime.nn.relations import RelationConv, narrow, stack_graph


class _Maps(nn.Module):
    """The maps of a relation; of a type to which none leads, those of vertices are used alone."""

    def __init__(
        self, d_source: int, width: int, hidden: int, d_out: int, options: GINEOptions
    ) -> None:
        super().__init__()
        has_bias = options.has_bias
        self.source: nn.Module = nn.Identity()
        if d_source != width:
            self.source = nn.Linear(d_source, width, bias=False)
        self.edge = nn.Linear(options.edge_width, width, has_bias)
        self.first = nn.Linear(width, hidden, has_bias)
        self.out = nn.Linear(hidden, d_out, has_bias)


class RelationGINEConv(RelationConv):
    """GINE in every relation: PyTorch Geometric's HeteroConv of GINEConv, a sum over relations.

    Where a source is of another width than its destination, its rows are mapped to that width
    first. A type to which no relation leads has an MLP of its own rows.
    """

    Options = GINEOptions

    def _make(self, random: np.random.Generator) -> None:
        types, options, made = self.types, self.options, list[_Maps]()
        self._alone = [name for name in types.wanted if not types.into(name)]
        for source, _, name in (*types.relations, *((name, "", name) for name in self._alone)):
            width = types.widths[name]
            hidden = options.width(width, self.d_out, self.last)
            maps = _Maps(types.widths[source], width, hidden, self.d_out, options)
            made.append(drawn(maps, random))
        self.maps: Sequence[_Maps] = nn.ModuleList(made)  # type: ignore[assignment]
        eps = torch.zeros((), dtype=torch.float64)
        self.eps = nn.Parameter(eps) if options.trains_eps else eps.item()

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
    ) -> Tensor:
        stack, types = stack_graph(graph), self.types
        of_type = stack.columns_by_type(stack.columns(x) if fixed is None else fixed)
        outputs = {}
        for name in types.wanted:
            own = (1 + self.eps) * narrow(stack.targets_of(name, of_type[name]), types.widths[name])
            sums = [(self.maps[k], own + self._sums(stack, k, of_type)) for k in types.into(name)]
            sums = sums or [(self.maps[len(types.relations) + self._alone.index(name)], own)]
            y = None
            for k, (maps, z) in enumerate(sums, 1):
                hidden = stack.linear(z, maps.first.weight.T, maps.first.bias, True)
                last = rectified and k == len(sums)
                y = stack.linear(hidden, maps.out.weight.T, maps.out.bias, last, onto=y)
            assert y is not None
            outputs[name] = y
        return self._joined(stack, outputs, of_type[types.wanted[0]])

    def _sums(self, stack: StackGraph, k: int, of_type: dict[str, Tensor]) -> Tensor:
        """The sums of messages in relation k: Tensor[rows of the destination, its width]."""
        relation = self.types.relations[k]
        pattern, nonzeros = stack.pattern_of((relation,)), stack.edges_of(relation)
        columns = narrow(of_type[relation[0]], self.types.widths[relation[0]])
        of_edges = self.maps[k].edge(edge_features_of(stack)[nonzeros])
        found = scaled(messages(pattern, self.maps[k].source(columns), of_edges), stack, nonzeros)
        return aggregate(pattern, found, found, "copy_e")
