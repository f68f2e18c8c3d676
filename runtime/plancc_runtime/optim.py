"""How weights follow their gradients. The same on every rank, so nothing is communicated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    def step(self, gradients: list[Tensor]) -> None:
        """Update the weights in place."""


class SGD:
    """W <- W - lr Delta W (Equation 4)."""

    def __init__(self, weights: list[Tensor], lr: float) -> None:
        self._weights, self._lr = weights, lr

    def step(self, gradients: list[Tensor]) -> None:
        for w, g in zip(self._weights, gradients, strict=True):
            w.sub_(g, alpha=self._lr)


class Adam:
    """Adam (Kingma and Ba 2015, Algorithm 1), with their default decay rates."""

    def __init__(self, weights: list[Tensor], lr: float) -> None:
        self._weights, self._lr = weights, lr
        self._mean = [torch.zeros_like(w) for w in weights]
        self._square = [torch.zeros_like(w) for w in weights]
        self._steps = 0

    def step(self, gradients: list[Tensor]) -> None:
        self._steps += 1
        beta1, beta2, epsilon = 0.9, 0.999, 1e-8
        correct1, correct2 = 1 - beta1**self._steps, 1 - beta2**self._steps
        state = zip(self._weights, gradients, self._mean, self._square, strict=True)
        for w, g, mean, square in state:
            mean.lerp_(g, 1 - beta1)
            square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            w.addcdiv_(mean, (square / correct2).sqrt_().add_(epsilon), value=-self._lr / correct1)


OPTIMIZERS: dict[str, Callable[[list[Tensor], float], Optimizer]] = {"sgd": SGD, "adam": Adam}
