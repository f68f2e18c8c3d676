"""The training passes of `--fold none` and `--fold delayed`: every rank computes with its clones.

Knows a rank's block of an edge plan and options; must not know losses or files. Evaluation has the
exact product of the whole plan, so that scores are those of the weights.
"""

from __future__ import annotations

import numpy as np
import torch

from plancc_runtime.clock import Clock
from plancc_runtime.data import LocalData
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.clones import CloneGraph, Delay, DelayedSums, clones_of, with_leaves
from plancc_runtime.nn.network import Network
from plancc_runtime.options import DELAY, TrainOptions
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View


class CloneEpochs:
    """The views of the training passes. Collective: leaves are found, and get their features.

    Parameters
    ----------
    block : Block
        Of an edge plan.
    network : Network
    data : LocalData
        With features.
    options : TrainOptions
        With another fold than "sync".
    transport : Transport
    dtype : torch.dtype
    clock : Clock
    kernel : str
        Of local products.
    constant : bool
        Whether the first layer's product of the features is made once; what of it comes late is
        then sent once.
    """

    def __init__(
        self,
        block: Block,
        network: Network,
        data: LocalData,
        options: TrainOptions,
        transport: Transport,
        dtype: torch.dtype,
        clock: Clock,
        kernel: str,
        constant: bool,
    ) -> None:
        self._network, self._transport, self._constant = network, transport, constant
        device = data.labels.device
        clones = clones_of(block, transport)
        if options.fold == "none":
            clones = clones.alone()
        self._num_leaves = clones.num_leaves
        self._delay = None
        if options.fold == "delayed":
            epochs = options.delay or DELAY
            self._delay = Delay(clones, epochs, transport, dtype, clock, options.wire, device)
        layers = range(options.layers)
        self._sums = [
            DelayedSums(self._delay, returns=k < layers[-1], constant=constant and k == 0)
            for k in layers
            if self._delay is not None
        ]
        graphs = [
            CloneGraph(
                *(clones, transport, dtype, clock, kernel, device),
                last=k == layers[-1],
                sums=self._sums[k] if self._sums else None,
                constant=constant and k == 0,
            )
            for k in layers
        ]
        self._reads_features = network.convs[0].reads_input or options.residual
        self._view = View(graphs, x=with_leaves(clones, data.features, transport))
        if constant and self._delay is None:
            self._fix(settled=True)

    def view(self, epoch: int) -> View:
        """What the training pass of an epoch works on; epochs follow each other. Collective."""
        if self._delay is not None:
            self._delay.epoch = epoch
            # a bin's turn is at most epoch r - 1, and 2 r epochs later its leaves have all
            last = 3 * self._delay.epochs - 1
            if self._constant and epoch <= last:
                self._fix(settled=epoch == last)
        return self._view

    def words(self) -> list[int]:
        """Words that a layer's products move in an epoch, over all ranks: int[layers]. Collective.

        Of bins of different sizes the mean. As if the first layer's were not constant.
        """
        rows = np.array([self._num_leaves], np.int64)
        self._transport.allreduce_sum(rows)
        if self._delay is None:
            return [0] * len(self._network.convs)
        last = len(self._network.convs) - 1
        return [
            round(int(rows[0]) * conv.widths()[0] * (1 if k == last else 2) / self._delay.epochs)
            for k, conv in enumerate(self._network.convs)
        ]

    def finish(self) -> None:
        """Receive what is under way, once training is over. Collective."""
        for sums in self._sums:
            sums.finish()

    def _fix(self, settled: bool) -> None:
        """Compute what the first layer needs of the features, for the last time if `settled`."""
        view, graph = self._view, self._view.graphs[0]
        assert view.x is not None
        view.fixed = None  # the one before it may go
        view.fixed = self._network.fixed(graph, view.x)
        if not settled:
            return
        graph.release_buffers()
        for sums in self._sums[:1]:
            sums.finish()
        if not self._reads_features:
            view.x = torch.empty(0, view.x.shape[1], dtype=view.x.dtype, device=view.x.device)
