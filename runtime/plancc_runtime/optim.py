"""Optimisers and learning-rate schedules, by name: torch's own. Knows parameters only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from plancc_runtime.options import TrainOptions


def make_optimizer(
    parameters: Sequence[nn.Parameter], options: TrainOptions
) -> torch.optim.Optimizer:
    """SGD, Adam (Kingma and Ba 2015) or AdamW, with torch's default decay rates."""
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kind[options.optimizer](parameters, lr=options.lr, weight_decay=options.weight_decay)
