"""How epochs on process grids are executed: the full batch, layouts "grid" and "feature".

Knows a rank's slice and options; must not know losses or files. Of the passes of `execution`, order
and constant are as there, and overlap has the next piece under way while one is multiplied. Dead
rows are not left out: whole blocks of rows travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc_runtime.clock import Clock
from plancc_runtime.data import LocalData
from plancc_runtime.execution.full_batch import Figures, quickest_kernel, with_fixed_input
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.feature import FeatureGraph
from plancc_runtime.layouts.grid import GridGraph
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.rehearsal import Operation, rehearse
from plancc_runtime.layouts.replicated import ReplicatedGraph
from plancc_runtime.nn.network import Network
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View


def grid_graph(
    part: Part, header: Header, transport: Transport, dtype: torch.dtype, **execution: Any
) -> GridGraph:
    """The graph of a plan of layout "grid"; arguments as of `GridGraph`. Collective."""
    kind = ReplicatedGraph if header.grid and header.grid.scheme == "1.5d" else GridGraph
    return kind(part, header, transport, dtype, **execution)


class GridExecution:
    """The views of the epochs, and of evaluation; what `execution.Execution` is for other layouts.

    Attributes
    ----------
    part : Part
        Without vertex data and nonzeros.
    header : Header
    evaluates : bool
        Whether the outputs of a training pass are those of an evaluation.
    kernel : str
        Of local products, the measured one for "auto".
    off : dict of str to str
        Passes that were asked for and do not fit the options: why.
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
        nothing = type(part.vertex_data)()  # `data` has what is needed of it
        self.part, self.header = replace(part, vertex_data=nothing, grid=None), header
        self._data, self._options, self._transport = data, options, transport
        device = data.labels.device
        grid = header.grid
        assert grid is not None
        width = options.hidden  # of what a rank multiplies with
        if grid.splits_columns or grid.scheme == "feature":
            width = max(1, width // grid.columns)
        execution: dict[str, Any] = {
            "clock": clock,
            "overlap": "overlap" in options.passes,
            "kernel": options.kernel,
            "device": device,
        }
        self.graph: GridGraph | FeatureGraph
        if header.layout == "feature":
            assert part.grid is not None
            assert part.grid.block is not None
            place = torch.device("cpu") if options.aggregate_on == "cpu" else device
            if options.kernel == "auto":
                block = Block.of_part(part.grid.block, header.self_loops)
                execution["kernel"] = quickest_kernel(block, dtype, width, place)
            self.graph = FeatureGraph(
                part, header, transport, dtype, wire=options.wire, options=options, **execution
            )
            self.kernel = execution["kernel"]
        else:
            self.graph = grid_graph(part, header, transport, dtype, **execution)
            if options.kernel == "auto":
                block = self.graph.block()
                self.graph.kernel = quickest_kernel(block, dtype, width, device)
            self.kernel = self.graph.kernel
        self.off = {name: why for name, why in _misfits(options).items() if name in options.passes}
        self._passes = [name for name in options.passes if name not in self.off]
        self._whole = View([self.graph] * options.layers)
        self.evaluates = (
            options.norm != "batch" and options.dropout == 0 and options.first_dropout == 0
        )

    def prepare(self, network: Network) -> LocalData:
        """What is done once, before the first epoch. Collective.

        Returns
        -------
        LocalData
            To train with from here on: without features where nothing reads them any more.
        """
        data = self._data
        del self._data  # the features may go
        if "constant" in self._passes:
            data = with_fixed_input(self._whole, network, data, self._options)
        if isinstance(self.graph, GridGraph):
            asked = self._rehearsed(network, "constant" in self._passes)
            for operation in (each for layer in asked for each in layer):
                if operation.kind == "product":
                    self.graph.lay_out(operation.coefficients)
        return data

    def whole(self) -> View:
        """Every row, for evaluation; not collective."""
        return self._whole

    def view(self, epoch: int) -> View:
        """What the training pass of an epoch works on; not collective."""
        return self._whole

    def figures(self, network: Network) -> Figures:
        """Words per epoch, with and without the passes. Collective."""
        asked = self._rehearsed(network, fixed=False)
        sent = [self._sent(asked, plain=network), self._sent(asked)]
        if "constant" in self._passes:
            sent.append(self._sent(self._rehearsed(network, fixed=True)))
        totals = np.array(sent, np.int64)
        self._transport.allreduce_sum(totals)
        plain, *others = totals.tolist()
        words = dict(zip(("order", "constant"), others, strict=False))
        return Figures(plain=plain, words=words, planned=others[-1])

    def epochs(self) -> AbstractContextManager[None]:
        """A block around all epochs: nothing is under way at its end."""
        return nullcontext()

    def _rehearsed(self, network: Network, fixed: bool) -> list[list[Operation]]:
        """What an epoch asks of the graph, layer by layer."""

        def forward(graphs: Sequence[LayerGraph]) -> Tensor:
            weight = next(network.parameters())
            x = weight.new_empty(0, network.dims[0])
            return network(graphs, x, x if fixed else None)

        mode = network.training
        network.eval()
        found = rehearse(forward, list(network.parameters()), len(network.convs))
        network.train(mode)
        return found

    def _sent(self, asked: list[list[Operation]], plain: Network | None = None) -> int:
        """Words that this rank sends; products as in the plain execution of a network, if given."""
        total = 0
        for k, operations in enumerate(asked):
            if plain is not None:
                widths = plain.convs[k].plain_widths(first=k == 0)
                name = next(each.coefficients for each in operations if each.kind == "product")
                operations = [each for each in operations if each.kind != "product"]
                operations += [
                    Operation("product", width, back, name)
                    for width, back in zip(widths, (False, True), strict=True)
                ]
            total += sum(map(self._words, operations))
        return total

    def _words(self, operation: Operation) -> int:
        if isinstance(self.graph, GridGraph):
            return self.graph.words_sent(operation)
        return self.graph.planned_words(operation.width) if operation.kind == "product" else 0


def _misfits(options: TrainOptions) -> dict[str, str]:
    """The passes that do not fit these options, or any grid, and why."""
    off = {"dead-rows": "it is for row plans that are executed by messages"}
    if options.first_dropout > 0:
        off["constant"] = "dropout changes the features in every epoch"
    return off
