"""Optimisers, learning-rate schedules, and what validation says of both. Knows parameters and
losses; must not know graphs, ranks or files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from plancc_runtime.options import TrainOptions

STEPS = (1 / 2, 3 / 4)  # of the epochs, after which "step" lowers the rate
STEP_FACTOR = 0.1
PLATEAU = 5  # evaluations without a better validation loss, after which "plateau" does
PLATEAU_FACTOR = 0.5


def make_optimizer(
    parameters: Sequence[nn.Parameter], options: TrainOptions
) -> torch.optim.Optimizer:
    """SGD, Adam (Kingma and Ba 2015) or AdamW, with torch's default decay rates."""
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kind[options.optimizer](parameters, lr=options.lr, weight_decay=options.weight_decay)


def learning_rate(options: TrainOptions, epoch: int, drops: int) -> float:
    """The learning rate of an epoch.

    Parameters
    ----------
    options : TrainOptions
        ``schedule`` "none": always ``lr``. "step": a tenth of it after a half of the epochs, and a
        hundredth after three quarters. "cosine": from ``lr`` down to 0 as half a cosine
        (Loshchilov and Hutter 2017). "plateau": halved whenever the validation loss was not better
        in `PLATEAU` evaluations.
    epoch : int
    drops : int
        `Validation.drops`.
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
    """The best validation loss so far, and its weights.

    Attributes
    ----------
    loss : float or None
        None before the first evaluation.
    epoch : int
        Number of epochs that the best weights had seen.
    since : int
        Evaluations since.
    drops : int
        How often there were another `PLATEAU` of them.
    weights : dict of str to Tensor
        Parameters and buffers of the network then.
    """

    loss: float | None = None
    epoch: int = 0
    since: int = 0
    drops: int = 0
    weights: dict[str, Tensor] | None = None

    def see(self, loss: float, epoch: int, network: nn.Module) -> None:
        """Take note of the validation loss that the network has after `epoch` epochs."""
        if self.loss is None or loss < self.loss:
            self.loss, self.epoch, self.since = loss, epoch, 0
            self.weights = {name: value.clone() for name, value in network.state_dict().items()}
            return
        self.since += 1
        self.drops += self.since % PLATEAU == 0
