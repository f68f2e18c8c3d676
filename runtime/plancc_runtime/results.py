"""What a run leaves behind: per epoch, per step and altogether."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.clock import PHASES
from plancc.plan.values import Header
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc_runtime.layouts.pipeline import Pipelining

TIMES = (*PHASES, "communication", "other", "total")
WORDS_SENT = 1  # place of the counter in `Traffic.as_array`
STEP = {
    **{"drawing": "draw", "masks": "mask", "features": "features", "packing": "pack"},
    **{"products": "spmm", "dense": "dense", "reduce": "allreduce", "waiting": "wait"},
    "other": "other",
}
"""Parts of a mini-batch's step, and their phases."""


@dataclass(frozen=True, kw_only=True)
class SplitMetrics:
    """Metrics of the labelled vertices of every split that has any, over all ranks.

    Attributes:
        accuracy: Share of the vertices whose class, or with several labels whose set of classes, is
            found.
        f1_micro: F1 of all classes together; with one label per vertex, the accuracy.
        f1_macro: Mean F1 of the classes that occur among the labels or the predictions.
        auc, ap: Means over the classes that have one, if the metric is one of these.
        rmse, mae, r2: Of real numbers: root of the mean squared error, mean absolute error, and 1 -
            squared error / variance of the split's targets; means over the targets.
        mrr, hits_10, hits_20, hits_50, hits_100: Of links: mean reciprocal rank among negatives,
            and Hits@K (`plancc_runtime.curves.areas`).
    """

    accuracy: dict[str, float] = field(default_factory=dict)
    f1_micro: dict[str, float] = field(default_factory=dict)
    f1_macro: dict[str, float] = field(default_factory=dict)
    auc: dict[str, float] = field(default_factory=dict)
    ap: dict[str, float] = field(default_factory=dict)
    rmse: dict[str, float] = field(default_factory=dict)
    mae: dict[str, float] = field(default_factory=dict)
    r2: dict[str, float] = field(default_factory=dict)
    mrr: dict[str, float] = field(default_factory=dict)
    hits_10: dict[str, float] = field(default_factory=dict)
    hits_20: dict[str, float] = field(default_factory=dict)
    hits_50: dict[str, float] = field(default_factory=dict)
    hits_100: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scores(SplitMetrics):
    """The metrics, and what epochs do not have of every split.

    Attributes:
        loss: Mean, as `plancc_runtime.nn.loss` has it.
        class_shares: Share of the vertices that are of each class.
        auc_of_classes, ap_of_classes: Of each class against the others, as of `curves.areas`; of
            two classes, of the second.
    """

    loss: dict[str, float] = field(default_factory=dict)
    class_shares: dict[str, list[float]] = field(default_factory=dict)
    auc_of_classes: dict[str, list[float | None]] = field(default_factory=dict)
    ap_of_classes: dict[str, list[float | None]] = field(default_factory=dict)

    def without_classes(self) -> Scores:
        """The same without the figures of single classes, which may be many."""
        return replace(self, class_shares={}, auc_of_classes={}, ap_of_classes={})


@dataclass(frozen=True, kw_only=True)
class Epoch(SplitMetrics):
    """One epoch over all ranks; its figures are of its forward pass, before its update.

    It has the metrics of the kind of targets, metrics of curves if they are asked for; none
    where the epoch was not evaluated. The accuracy of an epoch in mini-batches then has "train"
    alone, over the same targets as the loss, if there were any.

    Attributes:
        epoch: From 0; a row that stands for no epoch has their number.
        loss: Mean over the labelled training vertices, with dropout and what else belongs to
            training; with mini-batches, over the targets of all its steps, each as its step saw it.
        learning_rate: 0 where there was no update.
        val_loss: Mean over the labelled validation vertices; None where the epoch was not
            evaluated.
        seconds_max, seconds_mean: Per phase ("communication", "spmm", "dense", "allreduce",
            "other", "total"), over ranks.
        words_sent, messages_sent, bytes_sent: Rows of H and G (on process grids, nonzeros of A and
            rows for W too) on the wire, summed over ranks, counted by the transport.
        words_sent_max, messages_sent_max: Counts of the rank that sends most.
        words_reduced: Words that every rank hands to all-reduces, counted apart: weight gradients,
            loss, scores, sums of batch norms, of every mini-batch the counts that its line has and
            its targets, unless all batches have the same number, and of 1.5D grids the sums over
            copies.
        evaluation_seconds, evaluation_words: Seconds of the slowest rank, and words of all ranks,
            in an evaluation that needed a separate pass; apart from all figures above.
        volume_per_step: Mean of `BatchStep.volume`; None without mini-batches.
        step_seconds: Seconds of a step, mean over ranks and steps, by the parts in `STEP`, which
            add up to the step's. "reduce" is that of the rank that waits least in it; "waiting" is
            for messages and, in reductions, for the slowest rank.
    """

    epoch: int
    loss: float
    learning_rate: float
    val_loss: float | None
    seconds_max: dict[str, float]
    seconds_mean: dict[str, float]
    words_sent: int
    messages_sent: int
    bytes_sent: int
    words_sent_max: int
    messages_sent_max: int
    words_reduced: int
    evaluation_seconds: float
    evaluation_words: int
    volume_per_step: float | None = None
    step_seconds: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)  # there may be very many
class BatchStep:
    """One mini-batch over all ranks.

    Attributes:
        number: Number of the batch over all epochs, from 0.
        loss: Mean over its targets; 0 if there are none.
        targets: Labelled training vertices whose output counts.
        vertices: That take part in any block.
        volume, messages: Rows moved, and ordered pairs of ranks that talk, in one exchange of every
            block: summed over the blocks, as the transport counted them in the forward pass.
        words_sent: In all exchanges of rows in the step, forward and backward.
        words_drawn: Words of bits by which owners tell each other which rows the batch needs.
    """

    number: int
    loss: float
    targets: int
    vertices: int = 0
    volume: int = 0
    messages: int = 0
    words_sent: int = 0
    words_drawn: int = 0


@dataclass(frozen=True)
class Figures:
    """Words that one training epoch moves, forward and back, over all ranks.

    Without the set-up, evaluations and reductions; a word is one number of any type.

    Attributes:
        plain: Without any pass, as Demirci et al. 2022 execute it: for a GCN volume x sum of
            (d_{k-1} + d_k). The volume of an edge plan is that of both steps. Of process grids, as
            Tripathy et al. 2020 does.
        words: With the passes up to each one that is on and changes the number, in the order
            of `PASSES`.
        planned: With all of them. Where epochs sample (`TrainOptions.sampling`), the mean number:
            the others belong to an epoch that keeps all.
        reduced: With all of them, words that ranks put into all-reductions of products: the sums
            over the copies of a 1.5D grid. Apart from `planned`.
    """

    plain: int
    words: dict[str, int]
    planned: int
    reduced: int = 0

    def with_more(self, words: int) -> Figures:
        """The same with words that no pass changes: of links, by the negatives of epoch 0."""
        of_passes = {name: each + words for name, each in self.words.items()}
        return Figures(self.plain + words, of_passes, self.planned + words, self.reduced)


@dataclass(frozen=True)
class Setup:
    """What is done once, before the first epoch.

    Attributes:
        seconds: The slowest rank's.
        words_sent, messages_sent, bytes_sent: Summed over ranks.
    """

    seconds: float
    words_sent: int
    messages_sent: int
    bytes_sent: int


@dataclass(frozen=True)
class RunOutline:
    """What is known of a run before its first epoch, the same on all ranks.

    Attributes:
        kernel: Kernel of local products.
        passes_off: Passes that were asked for and do not fit the other options: why.
        figures: Words of one epoch as the passes that avoid communication leave them; None for
            mini-batches.
        dims: d_0..d_L.
        split_sizes: Labelled vertices per split.
        replaced_masks: Splits whose masks `split` drew anew.
        target: Kind of targets: "class", "classes" or "numbers" (`plancc_runtime.targets`).
        metrics: Metrics that are printed: the first in the table of epochs, all of several at the
            end.
        sampler: Sampler of mini-batches, with its options; empty for full batch.
        drawn_by: "owners" or "everywhere", and why where `draw` could have it otherwise; empty
            likewise.
        steps_per_epoch: 0 for full batch.
        pipelining: The pipeline of a feature plan, if it has one.
        remarks: Sentences on data that teach little (`plancc_runtime.remarks`).
        exchange: How rows travel: "flat", "nodes" or "relays" (`plancc_runtime.nodes`).
        resumed_from: The checkpoint that the run goes on from; "" if from none.
        first_epoch: The epochs before this run.
        ended: Whether these were all that the options ask for.
    """

    header: Header
    options: TrainOptions
    num_ranks: int
    threads: int
    dims: list[int]
    split_sizes: dict[str, int]
    replaced_masks: list[str]
    random_features: bool
    random_labels: bool
    target: str
    metrics: tuple[str, ...]
    kernel: str
    setup: Setup
    passes_off: dict[str, str]
    figures: Figures | None
    sampler: str
    drawn_by: str
    steps_per_epoch: int
    pipelining: Pipelining | None
    remarks: list[str]
    exchange: str
    resumed_from: str
    first_epoch: int
    ended: bool

    @property
    def num_learnt(self) -> int:
        """Vertices that are predicted: all, or all of the target type."""
        types, target = self.header.types, self.options.target
        return self.header.num_vertices if types is None or target is None else types.counts[target]


@dataclass(frozen=True)
class TrainResult(RunOutline):
    """What a run leaves behind, the same on all ranks.

    Attributes:
        epochs: Those that this run made: from where it resumed to where it stopped.
        final: One more forward pass with the weights that training ends with, apart from the
            epochs.
        best_epoch: With early stopping, how many epochs the weights have seen that training went
            back to.
        weights (dict of str to array): Every parameter of the network, by its name.
        network: Which network they belong to (`plancc_runtime.saved.Description`), ready for JSON.
        steps: Steps of all epochs.
        remarks (list of str): The outline's, then sentences on a run that did not learn, and
            what to try.
        predicted: How many vertices are predicted to be of every class; None if that was not asked
            for, and empty of numbers.
        auc_of_classes, ap_of_classes: As of `Scores`, of the final weights.
    """

    epochs: list[Epoch]
    final: Epoch
    weights: dict[str, np.ndarray]
    network: dict[str, Any]
    best_epoch: int | None = None
    steps: list[BatchStep] = field(default_factory=list)
    predicted: list[int] | None = None
    auc_of_classes: dict[str, list[float | None]] = field(default_factory=dict)
    ap_of_classes: dict[str, list[float | None]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON; the route by its two kinds."""
        result = asdict(replace(self, weights={}))
        del result["weights"]
        route = result["header"].pop("route")
        topology = route and route["topology"]
        result["header"] |= {"topology": topology, "relays": bool(route) and topology is None}
        result["hops"] = result.pop("exchange") != "flat"
        return result


@dataclass(frozen=True)
class Spent:
    """Seconds per phase, and what was added to the counters of `Traffic`, on one rank."""

    seconds: dict[str, float]
    traffic: np.ndarray


@dataclass(frozen=True)
class Measure:
    """One epoch as one rank saw it; loss and scores are over all ranks.

    Attributes:
        spent, evaluating: In the epoch, and in a separate evaluation if there was one.
    """

    epoch: int
    loss: float
    learning_rate: float
    scores: Scores
    spent: Spent
    evaluating: Spent | None = None
    volume_per_step: float = 0.0
    steps: int = 0

    def seconds(self) -> list[float]:
        """Seconds of every phase, and of the evaluation."""
        evaluation = 0.0 if self.evaluating is None else self.evaluating.seconds["total"]
        return [*(self.spent.seconds[phase] for phase in TIMES), evaluation]

    def traffic(self) -> list[int]:
        """Counters of `Traffic`, and the words of the evaluation."""
        words = 0 if self.evaluating is None else self.evaluating.traffic[WORDS_SENT]
        return [*self.spent.traffic.tolist(), int(words)]


def spent_by_all(spent: Spent, transport: Transport) -> Setup:
    """The set-up over all ranks. Collective."""
    seconds, traffic = np.array([spent.seconds["total"]]), spent.traffic[:3].copy()
    transport.allreduce_max(seconds)
    transport.allreduce_sum(traffic)
    messages, words, num_bytes = traffic.tolist()
    return Setup(float(seconds[0]), words, messages, num_bytes)


def scores_of(epoch: Epoch) -> dict[str, dict[str, float]]:
    """The metrics that an epoch has, by name and split."""
    return {
        each.name: found for each in fields(SplitMetrics) if (found := getattr(epoch, each.name))
    }


def summarise(measures: Sequence[Measure], transport: Transport) -> list[Epoch]:
    """Sums and maxima over ranks, once for all `measures`, one at least. Collective."""
    seconds_max = np.array([each.seconds() for each in measures])
    traffic_sum = np.array([each.traffic() for each in measures])
    least = -seconds_max[:, TIMES.index("allreduce")]
    seconds_mean = seconds_max[:, : len(TIMES)].copy()
    traffic_max = traffic_sum.copy()
    transport.allreduce_max(seconds_max)
    transport.allreduce_max(least)
    transport.allreduce_max(traffic_max)
    transport.allreduce_sum(seconds_mean)
    transport.allreduce_sum(traffic_sum)
    seconds_mean /= transport.size
    result = []
    for k, measure in enumerate(measures):
        scores, steps = measure.scores, measure.steps
        messages, words, num_bytes = traffic_sum[k, :3].tolist()
        messages_max, words_max, _ = traffic_max[k, :3].tolist()
        *slowest, evaluation_seconds = seconds_max[k].tolist()
        mean = dict(zip(TIMES, seconds_mean[k].tolist(), strict=True))
        result.append(
            Epoch(
                epoch=measure.epoch,
                loss=measure.loss,
                learning_rate=measure.learning_rate,
                val_loss=scores.loss.get("val"),
                **{each.name: getattr(scores, each.name) for each in fields(SplitMetrics)},
                seconds_max=dict(zip(TIMES, slowest, strict=True)),
                seconds_mean=mean,
                words_sent=words,
                messages_sent=messages,
                bytes_sent=num_bytes,
                words_sent_max=words_max,
                messages_sent_max=messages_max,
                words_reduced=int(traffic_max[k, 7]),
                evaluation_seconds=evaluation_seconds,
                evaluation_words=int(traffic_sum[k, -1]),
                volume_per_step=measure.volume_per_step if steps else None,
                step_seconds=_of_step(mean, -least[k], steps) if steps else None,
            )
        )
    return result


def _of_step(mean: dict[str, float], reduce: float, steps: int) -> dict[str, float]:
    """`Epoch.step_seconds`, from the phases of an epoch; `reduce`: of who waits least in it."""
    found = {name: mean[phase] for name, phase in STEP.items()}
    found |= {"reduce": reduce, "waiting": found["waiting"] + found["reduce"] - reduce}
    return {name: float(seconds / steps) for name, seconds in found.items()}
