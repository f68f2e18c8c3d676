"""A learner: the network of a run with its optimiser; it trains and evaluates the network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from plancc.clock import Clock
from plancc.errors import InputError, PlanccError
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc_runtime.curves import areas
from plancc_runtime.data import LocalData
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.metrics import RANKED
from plancc_runtime.nn.network import Network
from plancc_runtime.optim import clip_gradients, gradients_of, optimizer_of, sum_together
from plancc_runtime.options import TrainOptions
from plancc_runtime.repeated import Repeated
from plancc_runtime.results import Scores, Spent
from plancc_runtime.targets import ClassTarget
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View, place_of

AT_ONCE = 1 << 19
"""How many numbers of a tensor `is_finite` checks at a time."""
Splits = dict[str, tuple[Tensor, Tensor]]
SMALL = 1 << 18
"""Largest number of vertices for which the work of a step on a CUDA device is recorded.

With few vertices, a kernel takes less time than its start."""
UNTRAINED = (
    "the outputs are not finite before the first step: look for large numbers among the features, "
    "which `scale_features` columns scales, and among the initial weights (`init`)"
)
_Pass = tuple[Tensor, Tensor, list[Tensor | None]]
"""This rank's share of the loss, the outputs without gradient, and the parameters' gradients."""


class Learner:
    """The network of a run with its optimiser; its methods train and evaluate the network.

    Attributes:
        is_trained: Whether steps have changed the weights, in this run or the run it resumes.
        exchanges: Whether the method `scores` sends messages other than all-reduces.
    """

    exchanges = False

    def __init__(
        self, network: Network, options: TrainOptions, transport: Transport, clock: Clock
    ) -> None:
        self.network, self.options, self.transport, self.clock = network, options, transport, clock
        self._parameters = list(network.parameters())
        self.exchanges = self.exchanges or options.metric in RANKED
        self.optimizer, self.is_trained = optimizer_of(options, self._parameters), False
        self._last: tuple[View, LocalData, Repeated[_Pass]] | None = None
        self._places = WeakKeyDictionary[View, dict[str, tuple[Tensor | None, Tensor]]]()

    def hold(self, part: Part, header: Header, resources: Resources) -> None:
        """Keep the data of this rank's slice that the loss needs; called before epoch 0.

        Collective.
        """

    def words(self, epoch: int) -> int:
        """Return the words that all ranks send in an epoch for the loss alone. Collective."""
        return 0

    def gradients(self, view: View, data: LocalData, step: int, where: str) -> tuple[float, Tensor]:
        """Compute gradients; return all ranks' mean loss, and this rank's outputs. Collective."""
        if not self.network.training:
            self.network.train()
        with self.clock("dense"):
            if self._is_repeated(view, data):
                if self._last is None or self._last[0] is not view or self._last[1] is not data:
                    work = partial(self._pass, view, data, step)
                    self._last = view, data, Repeated(work)
                share, outputs, gradients = self._last[2]()
                for w, g in zip(self._parameters, gradients, strict=True):
                    w.grad = g
            else:
                share, outputs, _ = self._pass(view, data, step)
        loss = self._reduce(share)
        if not np.isfinite(loss):  # every rank sees the same sum
            self._end_diverged(loss, where, view, data)
        return loss, outputs

    def _pass(self, view: View, data: LocalData, step: int) -> _Pass:
        self.optimizer.zero_grad()
        network: Callable[..., Tensor] = self.network
        if self.options.recompute and self.network.convs:  # a user's class has no `convs`
            from plancc_runtime.nn.recompute import recomputed

            network = partial(recomputed, self.network)
        outputs = network(view.graphs, view.rows_of(data.features), view.fixed, step)
        if not outputs.requires_grad:
            raise InputError(
                "the outputs of the network do not depend on its weights; let its forward run "
                "without `torch.no_grad`, and return tensors without `detach`"
            )
        self.clock.enter("loss")
        share = self._share(outputs, view, data, step)
        with torch.autograd.set_multithreading_enabled(False):  # one thread sends all messages
            self.network.backward(share)
        return share.detach(), outputs.detach(), [w.grad for w in self._parameters]

    def _share(self, outputs: Tensor, view: View, data: LocalData, step: int) -> Tensor:
        """Return this rank's share of the loss. Collective; for parameters see `gradients`."""
        learnt = self._taken("train", outputs, view, data)
        return data.target.share_of_loss(*learnt, data.totals["train"])

    def _is_repeated(self, view: View, data: LocalData) -> bool:
        """Whether `gradients` may replay a CUDA graph because all steps run the same kernels."""
        return (
            data.labels.device.type == "cuda"
            and len(data.labels) <= SMALL
            and self.transport.size == 1
            and not self.network.draws
            and self.network.entered is None
            and self.options.aggregate_on == "device"
            and all(graph.cycle == 1 for graph in view.graphs)
        )

    def update(self, rate: float) -> None:
        """Change the weights by the gradients that the method `gradients` has computed.

        `rate` is the learning rate.
        """
        with self.clock("dense"):
            if self.options.clip_norm is not None:  # gradients are sums over all ranks
                clip_gradients(self._parameters, self.options.clip_norm)
            self.optimizer.step(rate)
            self.is_trained = True
        self.clock.enter("")

    def evaluate(self, view: View, data: LocalData, where: str) -> Scores:
        """Run the network forward without dropout. Return the scores of all splits. Collective."""
        return self.scores(self.outputs(view, data), view, data, where)

    def outputs(self, view: View, data: LocalData, kept: dict[int, Tensor] | None = None) -> Tensor:
        """Return the network's outputs for this rank's rows in the view; no dropout. Collective.

        `kept`: see `Network.forward`.
        """
        self.network.eval()
        with torch.no_grad(), self.clock("dense"):
            x = view.rows_of(data.features)
            found: Tensor = self.network(view.graphs, x, view.fixed, kept=kept)
        return found

    def scores(self, outputs: Tensor, view: View, data: LocalData, where: str) -> Scores:
        """Return the scores of every split for this rank's outputs of `view`. Collective."""
        target = data.target
        with self.clock("dense"):
            splits = self._split_outputs(outputs, view, data)
            counts = np.stack([target.count(*own, data.totals[key]) for key, own in splits.items()])
        with self.clock("allreduce"):
            self.transport.allreduce_sum(counts)
        scores = Scores()
        for name, numbers in zip(splits, counts, strict=True):
            wrong = numbers[~np.isfinite(numbers)]
            if len(wrong):
                self._end_diverged(wrong[0], f"split {name} in {where}", view, data)
            if size := data.split_sizes[name]:
                for each, value in target.scores(numbers, size).items():
                    getattr(scores, each)[name] = value
        with self.clock("allreduce"):
            self._rank(scores, splits, data)
        return scores

    def _split_outputs(self, outputs: Tensor, view: View, data: LocalData) -> Splits:
        """Return, for each split, the outputs that are scored, and their labels. Collective."""
        return {name: self._taken(name, outputs, view, data) for name in data.splits}

    def _rank(self, scores: Scores, splits: Splits, data: LocalData) -> None:
        """Add areas under curves to the scores if the option `metric` is an area. Collective."""
        target = data.target
        if not isinstance(target, ClassTarget) or self.options.metric not in RANKED:
            return
        found = areas([target.ranking(*each) for each in splits.values()], self.transport)
        for metric, by_split in zip(RANKED, found, strict=True):
            for split, of_classes in zip(splits, by_split, strict=True):
                there = of_classes[~np.isnan(of_classes)]
                getattr(scores, f"{metric}_of_classes")[split] = [
                    None if np.isnan(each) else each for each in of_classes.tolist()
                ]
                if len(there):
                    getattr(scores, metric)[split] = float(there.mean())

    def _end_diverged(self, loss: float, where: str, view: View, data: LocalData) -> None:
        """Raise PlanccError on all ranks, with the reason why the loss is not finite. Collective.

        If no rank's weights are finite, training has diverged; if only some ranks' weights are not
        finite, these ranks are at fault.
        """
        held = [data.features, *(x for x in (view.x, view.fixed) if x is not None)]
        whole = [
            all(graph.is_finite() for graph in view.graphs),
            all(map(is_finite, held)),
            all(map(is_finite, self._parameters)),
        ]
        ranks, why = np.array([not each for each in whole], np.int64), ""
        self.transport.allreduce_sum(ranks)
        alike = not ranks[0] and ranks[2] in (0, self.transport.size)
        if alike and not self.is_trained:  # features are finite, but perhaps not A X in their place
            why = UNTRAINED
        elif alike and not ranks[1]:
            why = f"try a smaller `lr` than {self.options.lr:g}"
        elif not all(whole):
            names = ("values of the matrix", "features", "weights of the network")
            why = f"{names[whole.index(False)]} of this rank are not finite"
        said = f"the loss of {where} is {loss}: {why}"
        self.transport.agree(PlanccError(said) if why else None)

    def num_found(self, outputs: Tensor, view: View, data: LocalData) -> int:
        """Return how many of this rank's training vertices in the view have correct outputs."""
        return data.target.num_found(*self._taken("train", outputs, view, data))

    def state(self) -> list[Tensor]:
        """Return copies of all tensors that a training step changes: weights, optimiser state."""
        return [tensor.detach().clone() for tensor in self._changing()]

    def restore(self, state: list[Tensor]) -> None:
        """Set weights and optimiser state to the copies that the method `state` returned."""
        with torch.no_grad():
            for tensor, before in zip(self._changing(), state, strict=True):
                tensor.copy_(before)

    def _changing(self) -> list[Tensor]:
        parameters = list(self.network.state_dict().values())
        return [*parameters, *(t for each in self.optimizer.state for t in each.values())]

    def start(self) -> np.ndarray:
        """Restart the clock. Return this rank's traffic so far (`Traffic.as_array`)."""
        self.clock.restart()
        return self.transport.traffic.as_array()

    def measure(self, before: np.ndarray) -> Spent:
        """Return this rank's time and traffic since the call of `start` that returned `before`."""
        return Spent(self.clock.read(), self.transport.traffic.as_array() - before)

    def _taken(
        self, name: str, outputs: Tensor, view: View, data: LocalData
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs and the labels of the vertices in the split `name`."""
        known = self._places.setdefault(view, {})
        if name not in known:
            rows, places = place_of(data.splits[name], view.outputs)
            known[name] = None if len(places) == len(outputs) else places, data.labels[rows]
        at, labels = known[name]
        return outputs if at is None else outputs.index_select(0, at), labels

    def _reduce(self, share: Tensor) -> float:
        """Sum gradients and loss over all ranks in one all-reduce; return the loss. Collective.

        Source: Demirci et al. 2022, Algorithm 2, line 13.
        """
        self.clock.enter("update")
        with self.clock("allreduce"):
            gradients = gradients_of(self._parameters)
            if self.transport.size > 1:
                sum_together([*gradients, share], self.transport)
            return share.item()


def is_finite(x: Tensor) -> bool:
    """Return whether all numbers are finite. The check reads piece by piece, to save memory."""
    return all(bool(piece.isfinite().all()) for piece in x.reshape(-1).split(AT_ONCE))
