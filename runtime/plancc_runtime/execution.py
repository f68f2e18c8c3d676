"""How full-batch epochs are executed: the passes that avoid communication, and boundary sampling.

Knows a rank's slice and options; must not know losses or files.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from plancc.plan.plan import Header, Part
from plancc_runtime.clock import Clock
from plancc_runtime.data import LocalData
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn.network import Network
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View


class Execution:
    """The views of the epochs, and of evaluation.

    Attributes
    ----------
    evaluates : bool
        Whether the outputs of a training pass are those of all rows, as an evaluation has them.
    """

    def __init__(
        self,
        part: Part,
        header: Header,
        data: LocalData,
        options: TrainOptions,
        transport: Transport,
        dtype: torch.dtype,
        clock: Clock,
    ) -> None:
        self.part, self.header = part, header
        self._features, self._options = data.features, options
        overlap = "overlap" in options.passes
        block = Block.of_part(part, header.self_loops)

        def graph(block: Block) -> LocalGraph:
            return LocalGraph(block, transport, dtype, clock, overlap)

        self.graph = graph
        self._whole = View([graph(block)] * options.layers)
        self.evaluates = (
            not options.mini_batches and options.dropout == 0 and options.first_dropout == 0
        )

    def whole(self, network: Network) -> View:
        """Every row, for evaluation. Collective."""
        return self._with_constant(network, self._whole)

    def view(self, network: Network, epoch: int) -> View:
        """What the training pass of an epoch works on. Collective."""
        if self._options.first_dropout > 0:
            return replace(self._whole, fixed=None)
        return self._with_constant(network, self._whole)

    def _with_constant(self, network: Network, view: View) -> View:
        if "constant" in self._options.passes and view.fixed is None:
            view.fixed = network.fixed(view.graphs[0], view.rows_of(self._features))
        return view
