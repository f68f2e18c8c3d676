"""Epochs with `fold` "none" or "delayed", in which every rank computes with its clones.

Clones are a rank's copies of all rows and columns of its nonzeros (`layouts.clones`). Evaluation
uses the exact product of the whole plan, so scores depend on the weights only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from plancc_runtime.data import LocalData
from plancc_runtime.execution.figures import figures_of
from plancc_runtime.execution.full_batch import FullBatch
from plancc_runtime.layouts.clones import CloneGraph, Delay, DelayedSums, clones_of, with_leaves
from plancc_runtime.nn.network import Network
from plancc_runtime.options import DELAY
from plancc_runtime.results import Figures
from plancc_runtime.views import View


class LateFolds(FullBatch):
    """Full-batch epochs with clones: copies of other ranks' vertices (see `layouts.clones`).

    With the pass `constant`, the delayed partial sums of the features are sent only once.
    """

    _delay: Delay | None = None
    _sums: Sequence[DelayedSums] = ()

    def prepare(self, network: Network) -> LocalData:
        self.evaluates = False
        options, transport, constant = self._options, self._transport, "constant" in self._passes
        self._network = network
        clones = clones_of(self._block, transport)
        if options.fold == "none":
            clones = clones.alone()
        else:
            self._delay = Delay(clones, options.delay or DELAY, self._resources)
            self.alike = self.repeats = self._counts = False  # every bin moves other words
        layers = range(options.layers)
        self._sums = [
            DelayedSums(self._delay, returns=k < layers[-1], constant=constant and k == 0)
            for k in layers
            if self._delay is not None
        ]
        graphs = [
            CloneGraph(
                clones,
                self._resources,
                last=k == layers[-1],
                sums=self._sums[k] if self._sums else None,
                constant=constant and k == 0,
            )
            for k in layers
        ]
        view = View(graphs, x=with_leaves(clones, self._data.features, transport))
        self._training = view
        if constant and self._delay is None:
            self._fix(settled=True)
        return super().prepare(network)

    def view(self, epoch: int) -> View:
        """Return the graphs on which an epoch trains. Collective; call for all epochs in order."""
        if self._delay is not None:
            self._delay.epoch = epoch
            if "constant" in self._passes and epoch <= self._settled:
                self._fix(settled=epoch == self._settled)
        return self._training

    @property
    def _settled(self) -> int:
        """Index of the last epoch in which partial sums of the features, or their totals, arrive.

        If the delay is r epochs, the partial sums of every vertex have been sent after epoch r - 1.
        All ranks have the totals of their copies 2 r epochs later (`layouts.clones`).
        """
        assert self._delay is not None
        return 3 * self._delay.epochs - 1

    def finish(self) -> None:
        for sums in self._sums:
            sums.finish()

    def figures(self, network: Network) -> Figures:
        """Return the mean number of words per epoch, over r (the delay) epochs.

        In these epochs, every vertex that has copies on other ranks sends rows once.

        With the pass `constant`, partial sums of features are not counted. Other passes change
        nothing, since no gradients of rows are sent.
        """
        on = [name for name in self._passes if name == "constant"]
        return figures_of(network, on, self._training, self._training, self._transport)

    def _fix(self, settled: bool) -> None:
        """Compute what the first layer reads instead of the features: the result of `Conv.fixed`.

        `settled`: whether the call is the last, which frees buffers and unused features.
        """
        view, graph = self._training, self._training.graphs[0]
        assert view.x is not None
        view.fixed = None  # frees the old tensor
        view.fixed = self._network.fixed(graph, view.x)
        if not settled:
            return
        graph.release_buffers()
        for sums in self._sums[:1]:
            sums.finish()
        if not (self._network.convs[0].reads_input or self._options.residual):
            view.x = torch.empty(0, view.x.shape[1], dtype=view.x.dtype, device=view.x.device)
