"""The network, and how a pass over a view changes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
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
from plancc_runtime.optim import clip_gradients, optimizer_of
from plancc_runtime.options import TrainOptions
from plancc_runtime.repeated import Repeated
from plancc_runtime.results import Scores, Spent
from plancc_runtime.targets import ClassTarget
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View, place_of

if TYPE_CHECKING:
    from plancc.sampling import Sampler
    from plancc_runtime.layouts.seeds import SeedDraws

AT_ONCE = 1 << 19
"""Numbers that are looked at at once."""
Splits = dict[str, tuple[Tensor, Tensor]]
SMALL = 1 << 18
"""Vertices up to which a device waits for the starts of kernels."""
UNTRAINED = (
    "the outputs are not finite before the first step: look for large numbers among the features, "
    "which `standardize_features` scales, and among the initial weights (`init`)"
)
_Pass = tuple[Tensor, Tensor, list[Tensor | None]]
"""The share of the loss, the outputs without gradient, and the gradients of the parameters."""


class Learner:
    """The network, and how one pass over a view changes it.

    Attributes:
        optimizer: SGD, Adam or AdamW.
        is_trained: Whether steps have changed the weights, here or in the run that this resumes.
        exchanges: Whether ranks exchange anything for `scores`, beside sums.
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
        self._splits: WeakKeyDictionary[View, dict[str, _Split]] = WeakKeyDictionary()

    def hold(
        self, part: Part, header: Header, resources: Resources, sampler: Sampler | None
    ) -> SeedDraws | None:
        """Keep what the loss reads of this rank's slice, before the first pass. Collective.

        Parameters:
            sampler: Of mini-batches.

        Returns:
            The seeds of mini-batches, if the sampler does not draw them.
        """
        return None

    def words(self, epoch: int) -> int:
        """Words that all ranks send in an epoch beside those of the layers. Collective."""
        return 0

    def gradients(self, view: View, data: LocalData, step: int, where: str) -> tuple[float, Tensor]:
        """A training pass, forward and back; `update` follows. Collective.

        Parameters:
            step: Number of the update, for dropout.
            where: What the pass is called if it goes wrong.

        Returns:
            loss (float): Mean over the training vertices of all ranks.
            outputs (Tensor[outputs of the view, classes]): Outputs of this rank, without gradient.
        """
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
        if self.options.recompute and self.network.convs:  # a class of the user's has none
            from plancc_runtime.nn.recompute import recomputed

            network = partial(recomputed, self.network)
        outputs = network(view.graphs, view.rows_of(data.features), view.fixed, step)
        if not outputs.requires_grad:
            raise InputError(
                "the outputs of the network do not depend on its weights: let its forward run "
                "without `torch.no_grad`, and without `detach` of what it returns"
            )
        self.clock.enter("loss")
        share = self._share(outputs, view, data, step)
        with torch.autograd.set_multithreading_enabled(False):  # messages from one thread
            share.backward()
        return share.detach(), outputs.detach(), [w.grad for w in self._parameters]

    def _share(self, outputs: Tensor, view: View, data: LocalData, step: int) -> Tensor:
        """This rank's share of the loss. Collective; parameters are those of `gradients`."""
        training = self._split("train", view, data)
        learnt = training.rows_of(outputs)
        return data.target.share_of_loss(learnt, training.labels, data.totals["train"])

    def _is_repeated(self, view: View, data: LocalData) -> bool:
        """Whether the starts of kernels are what a pass over this view waits for, and it may be
        recorded: nothing is drawn, sent or timed."""
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
        """Change the weights along the last `gradients`, at this learning rate."""
        with self.clock("dense"):
            if self.options.clip_norm is not None:  # of all ranks: the gradients are summed
                clip_gradients(self._parameters, self.options.clip_norm)
            self.optimizer.step(rate)
            self.is_trained = True
        self.clock.enter("")

    def evaluate(self, view: View, data: LocalData, where: str) -> Scores:
        """Scores of all splits from a pass of its own, as in use: without dropout. Collective."""
        return self.scores(self.outputs(view, data), view, data, where)

    def outputs(self, view: View, data: LocalData, kept: dict[int, Tensor] | None = None) -> Tensor:
        """Outputs of a view's rows, as in use; `kept` as of `Network.forward`. Collective."""
        self.network.eval()
        with torch.no_grad(), self.clock("dense"):
            x = view.rows_of(data.features)
            found: Tensor = self.network(view.graphs, x, view.fixed, kept=kept)
        return found

    def scores(self, outputs: Tensor, view: View, data: LocalData, where: str) -> Scores:
        """Scores of all splits, over those of their vertices that the view has. Collective."""
        target = data.target
        with self.clock("dense"):
            splits = self._of_splits(outputs, view, data)
            counts = np.stack(
                [target.count(*own, data.totals[name]) for name, own in splits.items()]
            )
        with self.clock("allreduce"):
            self.transport.allreduce_sum(counts)
        if not np.isfinite(counts).all():
            self._end_diverged(counts[0, 0], where, view, data)
        scores = Scores()
        for name, numbers in zip(splits, counts, strict=True):
            if size := data.split_sizes[name]:
                for each, value in target.scores(numbers, size).items():
                    getattr(scores, each)[name] = value
        with self.clock("allreduce"):
            self._rank(scores, splits, data)
        return scores

    def _of_splits(self, outputs: Tensor, view: View, data: LocalData) -> Splits:
        """Outputs that are scored, and what is right for them, of every split. Collective."""
        splits = {name: self._split(name, view, data) for name in data.splits}
        return {name: (each.rows_of(outputs), each.labels) for name, each in splits.items()}

    def _rank(self, scores: Scores, splits: Splits, data: LocalData) -> None:
        """Add the scores that compare all outputs with each other, if asked for. Collective.

        They are the areas under curves of all classes, and their means over the classes that have
        one; of none there is no mean.
        """
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
        """Raise on all ranks that the loss is not finite, and where that comes from. Collective.

        Plans hold finite numbers, and all ranks have the same weights. A rank whose features or
        values of A are not finite, or whose weights alone, has a fault of its own. Otherwise
        training diverged, or no step was taken yet.
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
        if alike and not self.is_trained:  # features are finite, A X in their place perhaps not
            why = UNTRAINED
        elif alike and not ranks[1]:
            why = f"try a smaller `lr` than {self.options.lr:g}"
        elif not all(whole):
            names = ("values of the matrix", "features", "weights of the network")
            why = f"{names[whole.index(False)]} of this rank are not finite"
        said = f"the loss of {where} is {loss}: {why}"
        self.transport.agree(PlanccError(said) if why else None)

    def num_found(self, outputs: Tensor, view: View, data: LocalData) -> int:
        """Training vertices of this rank that `outputs` are right for."""
        training = self._split("train", view, data)
        return data.target.num_found(training.rows_of(outputs), training.labels)

    def state(self) -> list[Tensor]:
        """A copy of all that `update` and training passes change."""
        return [tensor.detach().clone() for tensor in self._changing()]

    def restore(self, state: list[Tensor]) -> None:
        """Go back to an earlier `state`."""
        with torch.no_grad():
            for tensor, before in zip(self._changing(), state, strict=True):
                tensor.copy_(before)

    def _changing(self) -> list[Tensor]:
        parameters = list(self.network.state_dict().values())
        return [*parameters, *(t for each in self.optimizer.state for t in each.values())]

    def start(self) -> np.ndarray:
        """Restart the clock; the traffic so far."""
        self.clock.restart()
        return self.transport.traffic.as_array()

    def measure(self, before: np.ndarray) -> Spent:
        """What was spent since `start`."""
        return Spent(self.clock.read(), self.transport.traffic.as_array() - before)

    def _split(self, name: str, view: View, data: LocalData) -> _Split:
        """Where a view has the vertices of a split; looked up once per view."""
        known = self._splits.setdefault(view, {})
        if name not in known:
            rows, places = place_of(data.splits[name], view.outputs)
            size = len(data.labels) if view.outputs is None else len(view.outputs)
            known[name] = _Split(None if len(places) == size else places, data.labels[rows])
        return known[name]

    def _reduce(self, share: Tensor) -> float:
        """Sum the gradients (Algorithm 2, line 13) and, with them, the loss. Collective."""
        self.clock.enter("update")
        with self.clock("allreduce"):
            for w in self._parameters:
                if w.grad is None:
                    w.grad = torch.zeros_like(w)
            if self.transport.size == 1:
                return share.item()
            gradients = [w.grad.reshape(-1) for w in self._parameters if w.grad is not None]
            both = torch.cat([*gradients, share.reshape(1)])
            self.transport.allreduce_sum(both)
            *pieces, loss = both.split([*(w.numel() for w in self._parameters), 1])
            for w, piece in zip(self._parameters, pieces, strict=True):
                w.grad = piece.view_as(w)
            return loss.item()


def is_finite(x: Tensor) -> bool:
    """Whether all numbers are finite, some at a time: no matrix is made of the answers."""
    return all(bool(piece.isfinite().all()) for piece in x.reshape(-1).split(AT_ONCE))


class _Split:
    """The vertices of a split among the outputs of a view, and their labels.

    Parameters:
        places (int64[m] or None): None: all outputs, which then need not be copied.
        labels: Tensor[m, ...].
    """

    def __init__(self, places: Tensor | None, labels: Tensor) -> None:
        self._places, self.labels = places, labels

    def rows_of(self, outputs: Tensor) -> Tensor:
        """The outputs of these vertices."""
        return outputs if self._places is None else outputs.index_select(0, self._places)
