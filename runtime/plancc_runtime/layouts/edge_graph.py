"""A rank's share of the graph, with edges in the format of PyTorch Geometric."""

from __future__ import annotations

import torch
from torch import Tensor

from plancc.errors import InputError
from plancc.plan.values import Header
from plancc.registry import check_choice
from plancc_runtime.layouts.block import NONZEROS, Block
from plancc_runtime.layouts.boundary import Sample
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.relation import TypedBlock
from plancc_runtime.layouts.resources import Resources


class EdgeGraph(LocalGraph):
    """The graph that networks of PyTorch Geometric read (`plancc_runtime.pyg`).

    Attributes:
        num_vertices (int): Number of vertices of the whole graph.
        types (Types or None): Vertex types and relations; the graph has the edges of all relations.
        dtype (torch.dtype): Type of the plan's values, and of all features of vertices.
    """

    def __init__(self, block: Block, resources: Resources, header: Header) -> None:
        super().__init__(block, resources)
        self.plan_header, self.num_vertices = header, header.num_vertices
        self.types = header.types
        self.dtype, self.device = resources.dtype, resources.device
        # No cached property: it would hold a lock of the class in a collective.
        self._edge_index: Tensor | None = None

    def sampled(self, sample: Sample) -> EdgeGraph:
        graph = super().sampled(sample)
        assert isinstance(graph, EdgeGraph)
        graph._edge_index = None
        return graph

    @property
    def rank(self) -> int:
        return self.transport.rank

    @property
    def num_ranks(self) -> int:
        return self.transport.size

    @property
    def num_rows(self) -> int:
        """Number of own rows."""
        return self.num_inputs

    @property
    def num_halo(self) -> int:
        """Number of halo rows."""
        return self.block.num_halo

    def local_edge_index(self, nonzeros: str = "edges") -> Tensor:
        """Return sources [0] and targets [1] of this rank's nonzeros in CSR order: int64[2, m].

        Sources are numbered [own rows | halo rows], targets [own rows] or, in an edge plan, [own
        rows | folded rows]. For `nonzeros`, see `Block.with_nonzeros`.
        """
        check_choice("nonzeros", nonzeros, NONZEROS)
        pattern = self.local_pattern(nonzeros)
        return torch.stack([pattern.rows.index.to(torch.int64), pattern.row])

    @property
    def edge_index(self) -> Tensor:
        """Sources and targets of the edges, as local row numbers: int64[2, edges].

        The numbers are those of `local_edge_index`: own rows, then halo or folded rows. Edges are
        sorted by target row, then by the source's vertex. Collective on first use.
        """
        if self._edge_index is None:
            column, row = self.local_edge_index()
            order = self.column_vertices().long()[column].argsort(stable=True)
            self._edge_order = order[row[order].argsort(stable=True)]
            self._edge_index = torch.stack([column, row])[:, self._edge_order]
        return self._edge_index

    @property
    def edge_weight(self) -> Tensor:
        """Weights of the edges, Tensor[edges], in the order of `edge_index`.

        Collective on first use. InputError if the plan's values were normalised, which loses the
        weights.
        """
        if self.plan_header.normalization != "none":
            raise InputError(
                f"the plan has normalised values ('{self.plan_header.normalization}'), not the "
                "edge weights; compile it with normalize 'none'"
            )
        return self.edge_values()[self._order_of_edges()]

    @property
    def edge_attr(self) -> Tensor | None:
        """Features of the edges, Tensor[edges, width], in the order of `edge_index`.

        None if the plan has no features of edges. Collective on first use.
        """
        found = self.edge_features
        return None if found is None else found[self._order_of_edges()]

    @property
    def edge_type(self) -> Tensor | None:
        """Relation of every edge, int64[edges], in the order of `edge_index`. Collective.

        None if the plan has no types.
        """
        if self.types is None:
            return None
        found = torch.from_numpy(TypedBlock.of(self.block, self.types, self.transport).relation)
        return found.long().to(self.device)[self._order_of_edges()]

    def _order_of_edges(self) -> Tensor:
        """Return the position in `local_edge_index` of every edge of `edge_index`: int64[edges]."""
        assert self.edge_index is not None
        return self._edge_order

    def edge_values(self, nonzeros: str = "edges") -> Tensor:
        """Return the values of the nonzeros, Tensor[n], in the order of `local_edge_index`."""
        check_choice("nonzeros", nonzeros, NONZEROS)
        block = self.block.with_nonzeros(nonzeros)
        values = self._edge_tensor(block.value, self.resources.dtype)
        assert values is not None
        return values
