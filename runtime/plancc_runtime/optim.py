"""Optimisers, sums of gradients over ranks, learning-rate schedules, the best validation loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.base import Transport

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
Tensors = list[Tensor]
STEPS = (1 / 2, 3 / 4)  # shares of the epochs after which schedule "step" lowers the rate
STEP_FACTOR = 0.1
PLATEAU = 5  # evaluations without improvement after which schedule "plateau" lowers the rate
PLATEAU_FACTOR = 0.5


class SGD:
    """Stochastic gradient descent: v <- momentum v + g + decay w, then w <- w - rate v.

    Without momentum this is Equation 4 of Demirci et al. 2022; with momentum, the heavy ball of
    Polyak (1964), with v as in PyTorch. torch's optimisers are not used: they import torch's
    compiler, which costs each rank seconds and 76 MB.

    Attributes:
        state: For every parameter, the tensors kept between steps, by name.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], decay: float, momentum: float = 0.0
    ) -> None:
        self._parameters: Tensors = list(parameters)
        self._decay, self._momentum = decay, momentum
        self.state: list[dict[str, Tensor]] = [self._start(w.detach()) for w in self._parameters]

    def _start(self, w: Tensor) -> dict[str, Tensor]:
        return {"momentum": torch.zeros_like(w)} if self._momentum else {}

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for w in self._parameters:
            w.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Change the parameters by their gradients; `rate` is the learning rate.

        Each operation handles all parameters at once, so that a device starts few kernels.
        """
        gradients: Tensors = [w.grad for w in self._parameters if w.grad is not None]
        assert len(gradients) == len(self._parameters)
        if self._decay:
            gradients = [*torch._foreach_add(gradients, self._parameters, alpha=self._decay)]
        self._change(gradients, rate)

    def _change(self, gradients: Tensors, rate: float) -> None:
        if self._momentum:
            momentum = self._kept("momentum")
            torch._foreach_mul_(momentum, self._momentum)
            torch._foreach_add_(momentum, gradients)
            gradients = momentum
        torch._foreach_sub_(self._parameters, gradients, alpha=rate)

    def _kept(self, name: str) -> Tensors:
        return [state[name] for state in self.state]


class Adam(SGD):
    """Adam (Kingma and Ba 2015, Algorithm 1), with the paper's default decay rates."""

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        super().__init__(parameters, decay)

    def _start(self, w: Tensor) -> dict[str, Tensor]:
        steps = torch.zeros((), dtype=torch.int64)
        return {"steps": steps, "mean": torch.zeros_like(w), "square": torch.zeros_like(w)}

    def _change(self, gradients: Tensors, rate: float) -> None:
        mean, square = self._kept("mean"), self._kept("square")
        steps = max(int(each.add_(1)) for each in self._kept("steps"))  # all are the same
        torch._foreach_lerp_(mean, gradients, 1 - BETA1)
        torch._foreach_mul_(square, BETA2)
        torch._foreach_addcmul_(square, gradients, gradients, value=1 - BETA2)
        root = torch._foreach_div(square, 1 - BETA2**steps)
        torch._foreach_sqrt_(root)
        torch._foreach_add_(root, EPSILON)
        torch._foreach_mul_(root, 1 - BETA1**steps)  # rate / (1 - BETA1**steps) may be no float32
        torch._foreach_addcdiv_(self._parameters, mean, root, value=-rate)


class AdamW(Adam):
    """Adam with decoupled decay ``w <- w - rate * decay * w`` (Loshchilov and Hutter 2019)."""

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        super().__init__(parameters, 0)
        self._decoupled_decay = decay

    def _change(self, gradients: Tensors, rate: float) -> None:
        torch._foreach_mul_(self._parameters, 1 - rate * self._decoupled_decay)
        super()._change(gradients, rate)


OPTIMIZERS: dict[str, type[SGD]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW}


def optimizer_of(options: TrainOptions, parameters: Sequence[nn.Parameter]) -> SGD:
    """Return a new optimiser, of the kind that the options name, for these parameters."""
    own = {"momentum": options.momentum} if options.momentum else {}
    return OPTIMIZERS[options.optimizer](parameters, options.weight_decay, **own)


def clip_gradients(parameters: Sequence[nn.Parameter], most: float) -> None:
    """Scale all gradients by one factor so that their common norm is at most `most`.

    Pascanu et al. (2013), Algorithm 1, with the 1e-6 of `torch.nn.utils.clip_grad_norm_`. The norm
    is summed in float64 and in a fixed order, so that all ranks use the same factor.
    """
    gradients = [w.grad for w in parameters if w.grad is not None]
    arrays = (g.detach().cpu().numpy() for g in gradients)
    norm = math.sqrt(sum(float(np.square(a, dtype=np.float64).sum()) for a in arrays))
    scale = most / (norm + 1e-6)
    if scale < 1:
        for g in gradients:
            g.mul_(scale)


def sum_gradients(parameters: Iterable[nn.Parameter], transport: Transport) -> None:
    """Replace every gradient by its sum over all ranks, in one all-reduce. Collective.

    A missing gradient counts as zero. Source: Demirci et al. 2022, Algorithm 2, line 13.
    """
    sum_together(gradients_of([w for w in parameters if w.requires_grad]), transport)


def copy_from_first(tensors: Sequence[Tensor], transport: Transport) -> None:
    """Copy the values of rank 0 to all ranks. Collective."""
    with torch.no_grad():
        if transport.rank > 0:
            for tensor in tensors:
                tensor.zero_()
        # float64 represents the values of all dtypes that occur, also of counters
        values = [tensor.double() for tensor in tensors]
        sum_together(values, transport)
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)


def gradients_of(parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return the gradients of the parameters; a missing gradient is set to zeros first."""
    for w in parameters:
        if w.grad is None:
            w.grad = torch.zeros_like(w)
    return [w.grad for w in parameters if w.grad is not None]


def sum_together(tensors: Sequence[Tensor], transport: Transport) -> None:
    """Replace tensors of one dtype by their sums over all ranks, in one all-reduce. Collective."""
    if not tensors:
        return
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    transport.allreduce_sum(flat)
    pieces = flat.split([tensor.numel() for tensor in tensors])
    for tensor, piece in zip(tensors, pieces, strict=True):
        tensor.copy_(piece.view_as(tensor))


def learning_rate(options: TrainOptions, epoch: int, drops: int) -> float:
    """Return the learning rate of an epoch by the schedule in `options`, which begins at ``lr``.

    "cosine" is half a cosine down to 0 (Loshchilov and Hutter 2017); "plateau" halves ``lr``
    `drops` times.
    """
    done = epoch / max(options.epochs, 1)
    factor = {
        "none": 1.0,
        "step": STEP_FACTOR ** sum(done >= share for share in STEPS),
        "cosine": (1 + math.cos(math.pi * done)) / 2,
        "plateau": PLATEAU_FACTOR**drops,
    }[options.schedule]
    return options.lr * factor


@dataclass
class Validation:
    """The best validation loss so far, and the weights that reached it.

    Attributes:
        loss: The best loss or, if another metric chooses the best epoch, a number that falls as
            the metric improves.
        epoch: Number of epochs after which the best loss was reached.
        since: Number of evaluations since the best evaluation.
        drops: How often `PLATEAU` evaluations in a row did not improve the loss.
        weights: Parameters and buffers of the network at the best evaluation.
    """

    loss: float | None = None
    epoch: int = 0
    since: int = 0
    drops: int = 0
    weights: dict[str, Tensor] | None = None

    def see(self, loss: float, epoch: int, network: nn.Module) -> None:
        """Record `loss` after `epoch` epochs; if it is the best, copy the weights."""
        if self.loss is None or loss < self.loss:
            self.loss, self.epoch, self.since = loss, epoch, 0
            self.weights = {name: value.clone() for name, value in network.state_dict().items()}
            return
        self.since += 1
        self.drops += self.since % PLATEAU == 0
