"""Full-batch epochs of row and edge plans, with boundary sampling and these passes:

    order       every layer sends H or H W, whichever has fewer columns (`nn.conv`)
    constant    the features are exchanged only once, and no gradients of features are sent; if the
                boundary is sampled, a rank keeps the features of all halo rows
    dead-rows   rows that no labelled training vertex depends on are dropped (`layouts.live`)
    overlap     own rows are multiplied while messages are in flight (`layouts.executor`)

All passes are exact up to rounding. A row's samples are the same whether passes are on or off
(`layouts.boundary`). A pass that does not fit the options is off; `Execution.off` has the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from plancc.plan.exchange import Int64Array
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc_runtime.data import LocalData
from plancc_runtime.execution.figures import figures_of, words_of_pass
from plancc_runtime.execution.protocol import Execution
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.boundary import BoolArray, draw, expected_rows, ready_to_draw
from plancc_runtime.layouts.halo import halo_vertices
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.live import isolated, live_blocks, live_halo
from plancc_runtime.layouts.local import LocalGraph, local_graph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.nn.conv import Conv
from plancc_runtime.nn.network import Network
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import Figures
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.views import View

DROPS_FEATURES = (
    "dropout changes the features in every epoch; `input_dropout` 0 leaves them as they are"
)
"""Reason why the pass "constant" is off."""


class FullBatch(Execution):
    """Full-batch epochs of a row or edge plan. See `choice.execution_of` for the parameters."""

    def __init__(
        self, task: LearningTask, part: Part, data: LocalData, resources: Resources
    ) -> None:
        header, options = task.header, task.options
        super().__init__(data, options, resources, _misfits(options, header))
        part = replace(part, vertex_data=type(part.vertex_data)())  # `data` replaces vertex data
        block = with_whole_rows(Block.of_part(part, header.self_loops), self._transport)
        self._header, self._task = header, task
        self._block = task.checked(block, resources)
        if options.sampling.active:
            self._block = ready_to_draw(self._block, options.sampling, self._transport)
        self._set_graph(self._graph_of(self._block))
        self._columns: Columns | None = None
        self.evaluates &= not options.sampling.active
        self.alike = not options.sampling.active

    def _graph_of(self, block: Block) -> LocalGraph:
        return self._task.graph(block, self._resources)

    def prepare(self, network: Network) -> LocalData:
        data = self._data
        del self._data  # lets the features be freed
        constant, sampled = "constant" in self._passes, self._options.sampling.active
        self.evaluates &= not network.draws
        if self._block.halo is None and any(conv.draws for conv in network.convs):
            halo = halo_vertices(self._block, self._transport)

            self._block = replace(self._block, halo=halo)
            self._set_graph(self._graph_of(self._block))
        fixed = constant and not sampled
        if fixed:
            data = self._fix_input(self._whole, network, data)
        if "dead-rows" in self._passes:
            self._leave_out_dead_rows(data, network.convs[0] if fixed else None)
        if constant and sampled:
            self._columns = self._features_of_columns(data)
        return data

    def view(self, epoch: int) -> View:
        sampling = self._options.sampling
        if not sampling.active:
            return self._training
        live, rank = self._training, self._transport.rank
        samples = {  # one sample per graph: layers that share a graph share its sample
            graph: draw(graph.block, sampling, rank, epoch) for graph in _local(live.graphs)
        }
        drawn = {graph: graph.sampled(sample) for graph, sample in samples.items()}
        graphs = [drawn[graph] for graph in _local(live.graphs)]
        if self._columns is None:
            return replace(live, graphs=graphs)
        first = _local(live.graphs)[0]
        x = self._columns.kept(samples[first].received)
        return replace(live, graphs=[graphs[0].with_halo(), *graphs[1:]], x=x)

    def figures(self, network: Network) -> Figures | None:
        figures = figures_of(network, self._passes, self._whole, self._training, self._transport)
        sampling = self._options.sampling
        if not sampling.active:
            return figures
        live = _local(self._training.graphs)
        expected = np.array(
            [
                words_of_pass(network, live, fixed=self._columns is not None),
                [expected_rows(graph.block, sampling) for graph in live],
                [graph.block.expand.send.volume for graph in live],
            ]
        )
        self._transport.allreduce_sum(expected)
        words, kept, rows = expected
        return replace(figures, planned=round(float((words * kept / np.maximum(rows, 1)).sum())))

    def _features_of_columns(self, data: LocalData) -> Columns:
        """Return the features of own rows and halo rows that the first layer reads. Collective."""
        own = self._training.rows_of(data.features)
        return Columns(own, self._halo_features(own))

    def _halo_features(self, own: Tensor) -> Tensor:
        """Return the features of halo rows: Tensor[num_halo, width]. Collective.

        Parameters:
            own: Features of own rows.
        """
        graph = _local(self._training.graphs)[0]
        with torch.no_grad():
            halo = graph.halo(own.to(graph.resources.dtype)).to(own.dtype)
        graph.release_buffers()  # these buffers are as wide as the features
        return halo

    def _leave_out_dead_rows(self, data: LocalData, fixed_by: Conv | None) -> None:
        """Make the view for training leave out dead rows, if any rank has one. Collective.

        Dead rows are rows that no training vertex needs (`layouts.live`). `fixed_by`: the first
        layer, if the view holds what it computes without weights (`Conv.fixed`); else None.
        """
        whole, block = self._whole, self._block
        wanted = data.splits["train"].cpu().numpy()
        blocks, rows = live_blocks(block, wanted, self._options.layers, self._transport)
        if not self._transport.any(any(live is not block for live in blocks)):
            return
        self.evaluates = False
        fixed = whole.fixed
        if fixed is not None and fixed_by is not None and blocks[0] is not block:
            if fixed_by.fixed_rows == "outputs":  # the layer then reads own outputs only
                taken = rows[0] = rows[1]
                blocks[0] = isolated(block, taken) if len(taken) < block.num_inputs else block
            elif fixed_by.fixed_rows == "columns":
                taken = np.concatenate([rows[0], live_halo(block, rows[1])])
            else:
                taken = rows[0]
            if fixed_by.fixed_rows == "outputs":
                taken = _local(whole.graphs)[0].rows_of_product(taken)
            if len(taken) < len(fixed):
                fixed = fixed[torch.from_numpy(taken).to(fixed.device)]
        device = data.labels.device

        def on_device(numbers: Int64Array) -> torch.Tensor:
            return torch.from_numpy(numbers).to(device)

        graph = whole.graphs[0]
        view = View(
            [graph if live is block else self._graph_of(live) for live in blocks],
            inputs=None if len(rows[0]) == block.num_inputs else on_device(rows[0]),
            outputs=on_device(rows[-1]),
            fixed=fixed,
        )
        view.x = view.rows_of(data.features) if whole.x is None else whole.x
        self._training = view


def _misfits(options: TrainOptions, header: Header) -> dict[str, str]:
    """Return, for every pass that does not fit the options or the layout, the reason why."""
    off = dict[str, str]()
    sampled = options.sampling.active or options.mini_batches
    if options.first_dropout > 0 and not sampled:
        off["constant"] = DROPS_FEATURES
    if options.norm == "batch" and options.epochs:
        off["dead-rows"] = "norm batch computes statistics over all rows"
    if options.fold == "delayed":
        off["order"] = "the fold delays partial sums of a layer's input, not of its projection"
    if header.layout != "row":
        off["dead-rows"] = "an edge plan has rows whose nonzeros are on other ranks"
    return off


class Columns:
    """Features of own rows, [num_inputs, width], and of all halo rows, [num_halo, width]."""

    def __init__(self, own: Tensor, halo: Tensor) -> None:
        self._own, self._halo = own, halo
        self._held = own  # memory of the result; it grows with the number of kept halo rows

    def kept(self, received: BoolArray) -> Tensor:
        """Return the features of own rows and of the halo rows for which `received` is true.

        `received` is bool[num_halo]. The tensor, [num_columns, width], is valid until the next
        call.
        """
        rows = torch.from_numpy(np.flatnonzero(received)).to(self._halo.device)
        own, size = len(self._own), len(self._own) + len(rows)
        if size > len(self._held):
            room = min(own + len(self._halo), size + len(rows) // 4)
            self._held = self._own.new_empty(room, self._own.shape[1])
            self._held[:own] = self._own
        torch.index_select(self._halo, 0, rows, out=self._held[own:size])
        return self._held[:size]


def _local(graphs: Sequence[LayerGraph]) -> list[LocalGraph]:
    return [local_graph(graph, "sampling") for graph in graphs]
