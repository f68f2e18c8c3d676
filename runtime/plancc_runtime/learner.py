"""The network, and how a pass over a view changes it. Knows views; must not know plans or files."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from plancc.errors import PlanccError
from plancc_runtime.clock import Clock
from plancc_runtime.data import LocalData
from plancc_runtime.nn.loss import cross_entropy
from plancc_runtime.nn.network import Network
from plancc_runtime.optim import make_optimizer
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import Measure
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View, place_of


class Learner:
    """The network, and how one pass over a view changes it."""

    def __init__(
        self, network: Network, options: TrainOptions, transport: Transport, clock: Clock
    ) -> None:
        self.network, self.options, self.transport, self.clock = network, options, transport, clock
        self._parameters = list(network.parameters())
        self._optimizer = make_optimizer(self._parameters, options)

    def update(
        self, view: View, data: LocalData, step: int, where: str
    ) -> tuple[float, dict[str, float]]:
        """A training pass and an update. Collective.

        Returns
        -------
        loss : float
            Mean over the training vertices of all ranks.
        accuracy : dict of str to float
            Per split, over those of its vertices that the view has.
        """
        self.network.train()
        with self.clock("dense"):
            self._optimizer.zero_grad()
            logits = self.network(view.graphs, view.rows_of(data.features), view.fixed, step)
            share, score = self._score(logits, view, data)
            share.backward()
        self._reduce_gradients()
        loss, accuracy = self._agreed(score, data, where)
        with self.clock("dense"):
            self._optimizer.step()
        return loss, accuracy

    def final(self, view: View, data: LocalData, where: str) -> tuple[float, dict[str, float]]:
        """Loss and accuracy of all splits, without an update. Collective."""
        self.network.eval()
        with torch.no_grad(), self.clock("dense"):
            logits = self.network(view.graphs, view.rows_of(data.features), view.fixed)
            _, score = self._score(logits, view, data)
        return self._agreed(score, data, where)

    def evaluate(self, view: View, data: LocalData) -> dict[str, float]:
        """Accuracy of all splits. Collective."""
        return self.final(view, data, "an evaluation")[1]

    def start(self) -> np.ndarray:
        """Restart the clock; the traffic so far."""
        self.clock.restart()
        return self.transport.traffic.as_array()

    def measure(self, before: np.ndarray, loss: float, accuracy: dict[str, float]) -> Measure:
        """What happened since `start`."""
        return Measure(
            loss=loss,
            accuracy=accuracy,
            seconds=self.clock.read(),
            traffic=self.transport.traffic.as_array() - before,
        )

    def _score(self, logits: Tensor, view: View, data: LocalData) -> tuple[Tensor, np.ndarray]:
        """This rank's share of the loss, and with it the numbers to be summed over ranks."""
        size = max(data.split_sizes["train"], 1)  # a mini-batch may have nothing to learn
        rows, places = place_of(data.splits["train"], view.outputs)
        share = cross_entropy(logits, data.labels, rows, places, size)
        found = logits.detach().argmax(dim=1)
        hits = []
        for split in data.splits.values():
            rows, places = place_of(split, view.outputs)
            hits.append(int((found[places] == data.labels[rows]).sum()))
        return share, np.array([share.item(), *hits], np.float64)

    def _reduce_gradients(self) -> None:
        """Sum the gradients over all ranks (Algorithm 2, line 13). Collective."""
        with self.clock("allreduce"):
            gradients = [
                torch.zeros_like(w) if w.grad is None else w.grad for w in self._parameters
            ]
            flat = torch.cat([g.reshape(-1) for g in gradients])
            self.transport.allreduce_sum(flat)
            pieces = flat.split([w.numel() for w in self._parameters])
            for w, piece in zip(self._parameters, pieces, strict=True):
                w.grad = piece.view_as(w)

    def _agreed(
        self, score: np.ndarray, data: LocalData, where: str
    ) -> tuple[float, dict[str, float]]:
        """Loss and accuracies over all ranks. Collective."""
        with self.clock("allreduce"):
            self.transport.allreduce_sum(score)
        if not np.isfinite(score[0]):  # every rank sees the same sum
            self.transport.agree(_diverged(score[0], where, self.options.lr))
        sizes = data.split_sizes
        hits = zip(sizes, score[1:].tolist(), strict=True)
        return float(score[0]), {split: hit / sizes[split] for split, hit in hits if sizes[split]}


def _diverged(loss: float, where: str, lr: float) -> PlanccError:
    return PlanccError(f"the loss of {where} is {loss}: try a smaller --lr than {lr:g}")
