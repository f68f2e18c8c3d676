"""A rank's share of the graph with its edges as PyTorch Geometric has them."""

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
    """What networks of PyTorch Geometric read of the graph (`plancc_runtime.pyg`).

    Attributes:
        num_vertices (int): Vertices of the whole graph.
        plan_header (Header): The plan's.
        types (Types or None): Of a plan with types, whose union this graph is
            (`plancc_runtime.typed.TypedGraph`).
        dtype (torch.dtype): Type of the plan's values, and of every x.
        device: Device of every tensor.
    """

    def __init__(self, block: Block, resources: Resources, header: Header) -> None:
        super().__init__(block, resources)
        self.plan_header, self.num_vertices = header, header.num_vertices
        self.types = header.types
        self.dtype, self.device = resources.dtype, resources.device
        self._edge_index: Tensor | None = None  # no cached property: these hold a lock of the class

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
        """Own rows."""
        return self.num_inputs

    @property
    def num_halo(self) -> int:
        """Rows of other ranks that this one needs."""
        return self.block.num_halo

    def local_edge_index(self, nonzeros: str = "edges") -> Tensor:
        """Local columns and rows of the nonzeros, as PyTorch Geometric has its edges.

        Parameters:
            nonzeros: As in `aggregate`.

        Returns:
            int64[2, nonzeros]: Row 0: column (the source, [own rows | halo rows]); row 1: row (the
                target; in an edge plan [own rows | folded rows], those of other ranks). In CSR
                order.
        """
        check_choice("nonzeros", nonzeros, NONZEROS)
        pattern = self.local_pattern(nonzeros)
        return torch.stack([pattern.rows.index.to(torch.int64), pattern.row])

    @property
    def edge_index(self) -> Tensor:
        """Ends of this rank's edges as `local_edge_index` numbers them: int64[2, edges].

        Row after row, each by the sources' vertices: an order that does not depend on the ranks.
        Collective when it is first asked for.
        """
        if self._edge_index is None:
            column, row = self.local_edge_index()
            order = self.column_vertices().long()[column].argsort(stable=True)
            self._edge_order = order[row[order].argsort(stable=True)]
            self._edge_index = torch.stack([column, row])[:, self._edge_order]
        return self._edge_index

    @property
    def edge_weight(self) -> Tensor:
        """Weights of the edges, Tensor[edges], in the order of `edge_index`; collective likewise.

        Raises:
            InputError: If the plan has normalised values in their place.
        """
        if self.plan_header.normalization != "none":
            raise InputError(
                f"the plan has values that '{self.plan_header.normalization}' normalised, not "
                "weights: compile it with normalize 'none'"
            )
        return self.edge_values()[self._order_of_edges()]

    @property
    def edge_attr(self) -> Tensor | None:
        """Features of edges, Tensor[edges, width], or None; as `edge_weight`."""
        found = self.edge_features
        return None if found is None else found[self._order_of_edges()]

    @property
    def edge_type(self) -> Tensor | None:
        """Number of the relation of every edge, int64[edges], or None without types.

        In the order of `edge_index`, and collective.
        """
        if self.types is None:
            return None
        found = torch.from_numpy(TypedBlock.of(self.block, self.types, self.transport).relation)
        return found.long().to(self.device)[self._order_of_edges()]

    def _order_of_edges(self) -> Tensor:
        """The place of every edge of `edge_index` in `local_edge_index`."""
        assert self.edge_index is not None
        return self._edge_order

    def edge_values(self, nonzeros: str = "edges") -> Tensor:
        """The plan's values, Tensor[nonzeros], in the order of `local_edge_index`."""
        check_choice("nonzeros", nonzeros, NONZEROS)
        block = self.block.with_nonzeros(nonzeros)
        values = self._of_edges(block.value, self.resources.dtype)
        assert values is not None
        return values
