"""What a run leaves behind: per epoch, per step and altogether. Knows no training."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from plancc.plan.plan import Header
from plancc_runtime.clock import PHASES
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.base import Transport

TIMES = (*PHASES, "communication", "other", "total")


@dataclass(frozen=True)
class Epoch:
    """One epoch over all ranks; loss and accuracy are of its forward pass, before its update.

    Attributes
    ----------
    loss : float
        Mean softmax cross-entropy over the labelled training vertices; with mini-batches, over
        the targets of all its steps, each as its step saw it.
    accuracy : dict of str to float
        Per split that there is ("train", "val", "test"), over its labelled vertices. With
        mini-batches "train" alone, over the same targets as the loss; empty if there were none.
    seconds_max, seconds_mean : dict of str to float
        Per phase ("communication", "spmm", "dense", "allreduce", "other", "total"), over ranks.
    words_sent, messages_sent, bytes_sent : int
        Rows of H and G on the wire, summed over ranks, counted by the transport.
    words_sent_max, messages_sent_max : int
        Of the rank that sends most.
    words_reduced : int
        Words that every rank hands to all-reduces (weight gradients, loss, and of every
        mini-batch the number of targets), counted apart.
    volume_per_step : float or None
        Mean of `Step.volume`; None without mini-batches.
    """

    epoch: int
    loss: float
    accuracy: dict[str, float]
    seconds_max: dict[str, float]
    seconds_mean: dict[str, float]
    words_sent: int
    messages_sent: int
    bytes_sent: int
    words_sent_max: int
    messages_sent_max: int
    words_reduced: int
    volume_per_step: float | None = None


@dataclass(frozen=True)
class Step:
    """One mini-batch over all ranks.

    Attributes
    ----------
    number : int
        Of the batch: over all epochs, from 0.
    loss : float
        Mean over its targets; 0 if there are none.
    targets : int
        Labelled training vertices whose output counts.
    vertices : int
        That take part in any block.
    volume, messages : int
        Rows moved, and ordered pairs of ranks that talk, in one exchange of every block: summed
        over the blocks, as the transport counted them in the forward pass.
    words_sent : int
        In all exchanges of the step, forward and backward.
    """

    number: int
    loss: float
    targets: int
    vertices: int
    volume: int
    messages: int
    words_sent: int


@dataclass(frozen=True)
class TrainResult:
    """What a run leaves behind, the same on all ranks.

    Attributes
    ----------
    final : Epoch
        One more forward pass with the trained weights, apart from the epochs; its `epoch` is
        their number.
    dims : list of int
        d_0..d_L.
    split_sizes : dict of str to int
        Labelled vertices per split.
    weights : dict of str to array
        Every parameter of the network, by its name.
    sampler : str
        Of the mini-batches, with its options; empty for full batch.
    steps_per_epoch : int
        0 for full batch.
    steps : list of Step
        Of all epochs.
    """

    header: Header
    options: TrainOptions
    num_ranks: int
    threads: int
    dims: list[int]
    split_sizes: dict[str, int]
    random_features: bool
    random_labels: bool
    epochs: list[Epoch]
    final: Epoch
    weights: dict[str, np.ndarray]
    sampler: str = ""
    steps_per_epoch: int = 0
    steps: list[Step] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON."""
        result = asdict(replace(self, weights={}))
        del result["weights"]
        return result


@dataclass(frozen=True)
class Measure:
    """One epoch as one rank saw it; loss and accuracy are those of all ranks."""

    loss: float
    accuracy: dict[str, float]
    seconds: dict[str, float]
    traffic: np.ndarray


def summarise(measures: list[Measure], transport: Transport) -> list[Epoch]:
    """Sums and maxima over ranks, once for all epochs. Collective."""
    seconds_mean = np.array([[m.seconds[t] for t in TIMES] for m in measures])
    seconds_max = seconds_mean.copy()
    traffic_sum = np.array([m.traffic for m in measures])
    traffic_max = traffic_sum.copy()
    transport.allreduce_max(seconds_max)
    transport.allreduce_max(traffic_max)
    transport.allreduce_sum(seconds_mean)
    transport.allreduce_sum(traffic_sum)
    seconds_mean /= transport.size
    result = []
    for k, m in enumerate(measures):
        messages, words, num_bytes = traffic_sum[k, :3].tolist()
        messages_max, words_max, _ = traffic_max[k, :3].tolist()
        result.append(
            Epoch(
                epoch=k,
                loss=m.loss,
                accuracy=m.accuracy,
                seconds_max=dict(zip(TIMES, seconds_max[k].tolist(), strict=True)),
                seconds_mean=dict(zip(TIMES, seconds_mean[k].tolist(), strict=True)),
                words_sent=words,
                messages_sent=messages,
                bytes_sent=num_bytes,
                words_sent_max=words_max,
                messages_sent_max=messages_max,
                words_reduced=int(traffic_max[k, 7]),
            )
        )
    return result
