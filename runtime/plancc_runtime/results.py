"""Results of a run: per epoch, per step and altogether."""

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
        accuracy: Share of the vertices whose class (or set of classes) is predicted correctly.
        f1_micro: F1 of all classes together; with one label per vertex, the accuracy.
        f1_macro: Mean F1 of the classes that occur among the labels or the predictions.
        auc, ap: Means over the classes for which they are defined, if the metric is one of these.
        rmse, mae, r2: For real numbers: root of the mean squared error, mean absolute error, and 1
            - squared error / variance of the split's targets; means over the targets.
        mrr, hits_10, hits_20, hits_50, hits_100: For links: mean reciprocal rank among negatives,
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
    """The metrics of every split, with its loss and its figures of single classes.

    Attributes:
        loss: Mean loss (`plancc_runtime.nn.loss`).
        class_shares: Share of the vertices in each class.
        auc_of_classes, ap_of_classes: Each class against the others (`curves.areas`); of two
            classes, only the second.
    """

    loss: dict[str, float] = field(default_factory=dict)
    class_shares: dict[str, list[float]] = field(default_factory=dict)
    auc_of_classes: dict[str, list[float | None]] = field(default_factory=dict)
    ap_of_classes: dict[str, list[float | None]] = field(default_factory=dict)

    def without_classes(self) -> Scores:
        """Return the scores without the figures of single classes, which may be many."""
        return replace(self, class_shares={}, auc_of_classes={}, ap_of_classes={})


@dataclass(frozen=True, kw_only=True)
class Epoch(SplitMetrics):
    """One epoch over all ranks; its scores belong to the weights before its update.

    It has the metrics of the kind of targets, and metrics of curves if they are asked for. An epoch
    that was not evaluated has no metrics; in mini-batches it then has the accuracy of "train"
    alone, over the same targets as the loss, if there were any.

    Attributes:
        epoch: Number from 0; in a row for the final weights, the number of epochs.
        loss: Mean over the labelled training vertices, in training mode (with dropout). With
            mini-batches, mean over the targets of all its steps, before each step's update.
        learning_rate: Learning rate; 0 if there was no update.
        val_loss: Mean over the labelled validation vertices; None if the epoch was not evaluated.
        seconds_max, seconds_mean: Seconds by phase ("communication", "spmm", "dense", "allreduce",
            "other", "total"), over ranks.
        words_sent, messages_sent, bytes_sent: Sums over ranks of sent rows of H and G (on process
            grids also nonzeros of A and rows for W), as the transport counts them.
        words_sent_max, messages_sent_max: Counts of the rank that sends most.
        words_reduced: Words that every rank hands to all-reduces, counted apart: weight gradients,
            loss, scores and sums of batch norms; for every mini-batch the counts of its line, and
            of its targets unless all batches have the same number; on 1.5D grids the sums over
            copies.
        evaluation_seconds, evaluation_words: Seconds of the slowest rank, and words of all ranks,
            in an evaluation that needed a separate pass; in no other figure.
        volume_per_step: Mean of `BatchStep.volume`; None without mini-batches.
        step_seconds: Mean seconds of a step over ranks and steps, by the parts in `STEP`, which add
            up to the whole step. "reduce" is the time of the rank that waits least in reductions;
            "waiting" is for messages and, in reductions, for the slowest rank.
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
        loss: Mean loss over the batch's targets; 0 if there are none.
        targets: Number of labelled training vertices whose output the loss counts.
        vertices: Number of vertices in any block.
        volume, messages: Rows moved, and ordered pairs of ranks that exchange messages, in one
            exchange of every block; sums over the blocks, counted in the forward pass.
        words_sent: Words of all exchanges of rows in the step, forward and backward.
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
    """Words that one training epoch moves, forward and backward, over all ranks.

    Set-up, evaluations and reductions are left out; a word is one number of any type.

    Attributes:
        plain: Words without any pass, as in Demirci et al. 2022: for a GCN volume x sum of
            (d_{k-1} + d_k). The volume of an edge plan is the volume of both steps. On process
            grids, as in Tripathy et al. 2020.
        words: Words with all passes up to and including a pass, for each pass that is on and
            changes the number, in the order of `PASSES`.
        planned: Words with all passes. If epochs sample the boundary (`TrainOptions.sampling`), the
            mean; the other figures belong to an epoch that keeps all rows.
        reduced: Words that ranks put into all-reductions of products with all passes: the sums over
            the copies of a 1.5D grid. They are not in `planned`.
    """

    plain: int
    words: dict[str, int]
    planned: int
    reduced: int = 0

    def with_more(self, words: int) -> Figures:
        """Return the figures with words added that no pass changes: the words of links."""
        of_passes = {name: each + words for name, each in self.words.items()}
        return Figures(self.plain + words, of_passes, self.planned + words, self.reduced)


@dataclass(frozen=True)
class Setup:
    """Cost of the set-up before the first epoch.

    Attributes:
        seconds: Seconds of the slowest rank.
        words_sent, messages_sent, bytes_sent: Sums over ranks.
    """

    seconds: float
    words_sent: int
    messages_sent: int
    bytes_sent: int


@dataclass(frozen=True)
class RunOutline:
    """Facts of a run before its first epoch, the same on all ranks.

    Attributes:
        kernel: Kernel of local products.
        passes_off: Passes that were asked for and do not fit the other options, with the reason.
        figures: Words of one epoch, by the passes that avoid communication; None for mini-batches.
        dims: Widths d_0..d_L.
        split_sizes: Number of labelled vertices by split.
        replaced_masks: Splits whose masks in the plan `split` replaced.
        target: Kind of targets: "class", "classes" or "numbers" (`plancc_runtime.targets`).
        metrics: Metrics that are printed: the first in the table of epochs, and all at the end if
            there are several.
        sampler: Sampler of mini-batches, with its options; empty for full batch.
        drawn_by: "owners" or "everywhere", with the reason if `draw` allows both; empty for full
            batch.
        steps_per_epoch: Number of steps of an epoch; 0 for full batch.
        pipelining: The pipeline of a feature plan, if it has one.
        remarks: Remarks on data and options (`plancc_runtime.remarks`).
        exchange: How rows travel: "flat", "nodes" or "relays" (`plancc_runtime.nodes`).
        resumed_from: The checkpoint from which the run resumes; "" if it does not resume.
        first_epoch: Number of epochs before this run.
        ended: Whether these were all epochs that the options ask for.
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
        """Number of vertices that are predicted: all, or all of the target type."""
        types, target = self.header.types, self.options.target
        return self.header.num_vertices if types is None or target is None else types.counts[target]


@dataclass(frozen=True)
class TrainResult(RunOutline):
    """The result of a run, the same on all ranks.

    Attributes:
        epochs: The epochs of this run, from where it resumed to where it stopped.
        final: One more forward pass with the final weights, apart from the epochs.
        best_epoch: With early stopping, the number of epochs that the final weights have seen.
        weights (dict of str to array): Every parameter of the network, by its name.
        network: Description of the network (`plancc_runtime.saved.Description`), ready for JSON.
        steps: Steps of all epochs.
        drawing: When mini-batches were drawn and why, if the first steps have tried both ways
            ("beside steps: ..." or "between steps: ..."); else "".
        remarks (list of str): Remarks of the outline, then on a run that did not learn.
        predicted: Number of vertices predicted for every class. None if no predictions were asked
            for; empty for real numbers.
        auc_of_classes, ap_of_classes: See `Scores`; of the final weights.
    """

    epochs: list[Epoch]
    final: Epoch
    weights: dict[str, np.ndarray]
    network: dict[str, Any]
    best_epoch: int | None = None
    steps: list[BatchStep] = field(default_factory=list)
    drawing: str = ""
    predicted: list[int] | None = None
    auc_of_classes: dict[str, list[float | None]] = field(default_factory=dict)
    ap_of_classes: dict[str, list[float | None]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the weights, ready for JSON; the route as two keys."""
        result = asdict(replace(self, weights={}))
        del result["weights"]
        route = result["header"].pop("route")
        topology = route and route["topology"]
        result["header"] |= {"topology": topology, "relays": bool(route) and topology is None}
        result["hops"] = result.pop("exchange") != "flat"
        return result


@dataclass(frozen=True)
class Spent:
    """Seconds by phase, and the increase of the counters of `Traffic`, on one rank."""

    seconds: dict[str, float]
    traffic: np.ndarray


@dataclass(frozen=True)
class Measure:
    """One epoch as one rank measured it; loss and scores are over all ranks.

    Attributes:
        spent, evaluating: Cost of the epoch, and of a separate evaluation; None if there was none.
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
        """Return the seconds of every phase, and of the evaluation."""
        evaluation = 0.0 if self.evaluating is None else self.evaluating.seconds["total"]
        return [*(self.spent.seconds[phase] for phase in TIMES), evaluation]

    def traffic(self) -> list[int]:
        """Return the counters of `Traffic`, and the words of the evaluation."""
        words = 0 if self.evaluating is None else self.evaluating.traffic[WORDS_SENT]
        return [*self.spent.traffic.tolist(), int(words)]


def spent_by_all(spent: Spent, transport: Transport) -> Setup:
    """Return the cost of the set-up over all ranks. Collective."""
    seconds, traffic = np.array([spent.seconds["total"]]), spent.traffic[:3].copy()
    transport.allreduce_max(seconds)
    transport.allreduce_sum(traffic)
    messages, words, num_bytes = traffic.tolist()
    return Setup(float(seconds[0]), words, messages, num_bytes)


def scores_of(epoch: Epoch) -> dict[str, dict[str, float]]:
    """Return the metrics that an epoch has, by name and split."""
    return {
        each.name: found for each in fields(SplitMetrics) if (found := getattr(epoch, each.name))
    }


def summarise(measures: Sequence[Measure], transport: Transport) -> list[Epoch]:
    """Return epochs with sums and maxima over ranks, for one or more `measures`. Collective."""
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
                step_seconds=_step_seconds(mean, -least[k], steps) if steps else None,
            )
        )
    return result


def _step_seconds(mean: dict[str, float], reduce: float, steps: int) -> dict[str, float]:
    """Return `Epoch.step_seconds`; `reduce`: seconds of the rank that waits least in reductions."""
    found = {name: mean[phase] for name, phase in STEP.items()}
    found |= {"reduce": reduce, "waiting": found["waiting"] + found["reduce"] - reduce}
    return {name: float(seconds / steps) for name, seconds in found.items()}
