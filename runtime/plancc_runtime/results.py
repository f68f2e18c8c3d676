"""Results of a run: figures of every epoch, of every step, and of the whole run."""

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
"""Portions of the time of a step with a mini-batch: for each name in results, the clock's phase."""


@dataclass(frozen=True, kw_only=True)
class SplitMetrics:
    """Metrics of every split, over the labelled vertices of all ranks.

    Attributes map splits to values; splits without labelled vertices are missing.

    Attributes:
        accuracy: Share of the vertices whose class (or set of classes) is predicted correctly.
        f1_micro: F1 of all classes together; with one label per vertex, the accuracy.
        f1_macro: Mean F1 of the classes that occur among the labels or the predictions.
        auc, ap: ROC area and average precision, each the mean over the classes for which it is
            defined; computed for classes only if option `metric` is one of the two.
        rmse, mae, r2: Root mean square and mean absolute error, R2; means over targets.
        mrr, hits_10, hits_20, hits_50, hits_100: Mean reciprocal rank and Hits@K of links.
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
    """The metrics and the loss of every split, with figures of single classes.

    Attributes:
        loss: Mean loss (`plancc_runtime.nn.loss`).
        class_shares: Share of the split's vertices in each class.
        auc_of_classes, ap_of_classes: AUC and average precision of each class, or only of the
            second if there are two classes. None for a class without a value.
    """

    loss: dict[str, float] = field(default_factory=dict)
    class_shares: dict[str, list[float]] = field(default_factory=dict)
    auc_of_classes: dict[str, list[float | None]] = field(default_factory=dict)
    ap_of_classes: dict[str, list[float | None]] = field(default_factory=dict)

    def without_classes(self) -> Scores:
        """Return the scores without figures of single classes, of which there may be many."""
        return replace(self, class_shares={}, auc_of_classes={}, ap_of_classes={})


@dataclass(frozen=True, kw_only=True)
class Epoch(SplitMetrics):
    """Figures of one epoch over all ranks; metrics are computed before the epoch's update.

    An epoch that was not evaluated has no metrics. But with mini-batches, every epoch has the
    accuracy of "train" over the targets that the loss counts.

    Attributes:
        epoch: Index of the epoch, from 0; for the final weights, the number of epochs.
        loss: Mean training loss, with dropout; with mini-batches, before each step's update.
        learning_rate: Learning rate; 0 if there was no update.
        val_loss: Mean loss over labelled validation vertices; None if not evaluated.
        seconds_max, seconds_mean: Seconds of each phase, such as "spmm", over ranks.
        words_sent, messages_sent, bytes_sent: What all ranks sent: rows of activations and
            gradients. On process grids, also nonzeros of A, and rows for products with weights.
        words_sent_max, messages_sent_max: Counts of the rank that sends most.
        words_reduced: Words that every rank contributes to all-reduces, such as weight gradients,
            loss and scores; not in `words_sent`. On 1.5D grids, also sums of products.
        evaluation_seconds, evaluation_words: Cost of a separate evaluation, which no other figure
            includes.
        volume_per_step: Mean of `BatchStep.volume`; None without mini-batches.
        step_seconds: Mean seconds of each portion (key of `STEP`) of a step; None without
            mini-batches. Waiting for the slowest rank in all-reduces is in "waiting", not in
            "reduce".
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
        number: Index of the batch over all epochs, from 0.
        loss: Mean loss over the batch's targets; 0 if there are none.
        targets: Number of labelled training vertices whose output the loss counts.
        vertices: Number of vertices that occur in any block of the batch.
        volume, messages: Rows and messages of the forward pass.
        words_sent: Words of all exchanges of rows in the step, forward and backward.
        words_drawn: Words sent to draw the batch; bits in them say which halo rows are needed.
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

    Words of set-up, evaluations and all-reduces are left out.

    Attributes:
        plain: Words without any pass, as in Demirci et al. 2022: for a GCN, the volume times the
            sum of all layers' input and output widths. On grids, as in Tripathy et al. 2020.
        words: For each pass that changes the words: words with this and all earlier `PASSES`.
        planned: Words with all passes; the expected number if epochs sample the boundary.
        reduced: Words for all-reduces of products on 1.5D grids; not in `planned`.
    """

    plain: int
    words: dict[str, int]
    planned: int
    reduced: int = 0

    def with_more(self, words: int) -> Figures:
        """Return the figures with `words` of link prediction added to all figures but `reduced`."""
        of_passes = {name: each + words for name, each in self.words.items()}
        return Figures(self.plain + words, of_passes, self.planned + words, self.reduced)


@dataclass(frozen=True)
class Setup:
    """Cost of the set-up before the first epoch.

    `seconds` are those of the slowest rank; the other attributes are sums over the ranks.
    """

    seconds: float
    words_sent: int
    messages_sent: int
    bytes_sent: int


@dataclass(frozen=True)
class RunOutline:
    """Facts of a run before its first epoch, the same on all ranks.

    Attributes:
        passes_off: Chosen passes that the run cannot use, with the reason.
        figures: Words of one epoch, with and without passes; None for mini-batches.
        split_sizes: Number of labelled vertices by split.
        replaced_masks: Splits whose masks in the plan were replaced by random masks.
        target: Kind of targets: "class", "classes" or "numbers" (`plancc_runtime.targets`).
        metrics: Names of the printed metrics; the table of epochs shows the first.
        sampler: Sampler of mini-batches, with its options; empty for full batch.
        drawn_by: Who draws mini-batches: "owners" or "everywhere", perhaps with the reason; empty
            for full batch.
        steps_per_epoch: Number of steps of an epoch; 0 for full batch.
        pipelining: The pipeline of a feature plan; None if the run has none.
        exchange: How rows are exchanged: "flat", "nodes" or "relays" (`plancc_runtime.nodes`).
        resumed_from: The checkpoint from which the run resumes, or "".
        ended: Whether no epoch is left, as earlier runs trained all or stopped early.
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
        """Number of vertices that the network predicts: all, or all of the type `target`."""
        types, target = self.header.types, self.options.target
        return self.header.num_vertices if types is None or target is None else types.counts[target]


@dataclass(frozen=True)
class TrainResult(RunOutline):
    """The result of a run, the same on all ranks.

    Attributes:
        epochs: The epochs that this run trained; a resumed run has only the later epochs.
        final: Scores and costs of one more forward pass, with the final weights.
        best_epoch: Number of epochs that led to the final weights; None without early stopping.
        weights: Every parameter and buffer of the network, by its name.
        network: Description of the network (`plancc_runtime.saved.Description`), ready for JSON.
        drawing: Whether mini-batches were drawn "beside steps" or "between steps", with the times
            of both; empty if the run did not try both.
        predicted: Vertices predicted in every class; empty for real numbers, None if not asked.
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
        """Return all figures, ready for JSON, without weights.

        In the dict's header, "topology" and "relays" replace "route". In the dict itself, "hops"
        (whether rows were sent in hops) replaces "exchange".
        """
        result = asdict(replace(self, weights={}))
        del result["weights"]
        route = result["header"].pop("route")
        topology = route and route["topology"]
        result["header"] |= {"topology": topology, "relays": bool(route) and topology is None}
        result["hops"] = result.pop("exchange") != "flat"
        return result


@dataclass(frozen=True)
class Spent:
    """Time and traffic of one rank.

    `traffic` has the increase of each counter of `Traffic`, in the order of `Traffic.as_array`.
    """

    seconds: dict[str, float]
    traffic: np.ndarray


@dataclass(frozen=True)
class Measure:
    """Cost of one epoch, and of its evaluation, on one rank; and the epoch's loss and scores."""

    epoch: int
    loss: float
    learning_rate: float
    scores: Scores
    spent: Spent
    evaluating: Spent | None = None
    volume_per_step: float = 0.0
    steps: int = 0

    def seconds(self) -> list[float]:
        """Return the seconds of every phase in `TIMES`, then of the evaluation."""
        evaluation = 0.0 if self.evaluating is None else self.evaluating.seconds["total"]
        return [*(self.spent.seconds[phase] for phase in TIMES), evaluation]

    def traffic(self) -> list[int]:
        """Return the counters of `Traffic` for the epoch, then the words sent in its evaluation."""
        words = 0 if self.evaluating is None else self.evaluating.traffic[WORDS_SENT]
        return [*self.spent.traffic.tolist(), int(words)]


def spent_by_all(spent: Spent, transport: Transport) -> Setup:
    """Return the set-up's time and traffic on all ranks; `spent` has this rank's. Collective."""
    seconds, traffic = np.array([spent.seconds["total"]]), spent.traffic[:3].copy()
    transport.allreduce_max(seconds)
    transport.allreduce_sum(traffic)
    messages, words, num_bytes = traffic.tolist()
    return Setup(float(seconds[0]), words, messages, num_bytes)


def scores_of(epoch: Epoch) -> dict[str, dict[str, float]]:
    """Return the metrics that an epoch has values of: name of the metric -> split -> value."""
    values = {each.name: getattr(epoch, each.name) for each in fields(SplitMetrics)}
    return {name: value for name, value in values.items() if value}


def summarise(measures: Sequence[Measure], transport: Transport) -> list[Epoch]:
    """Return, for each measure, an epoch with sums, means and maxima over ranks. Collective."""
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
    """Return `Epoch.step_seconds`: mean seconds of each portion of a step, such as "products".

    `mean` has seconds by phase; `reduce` has the all-reduce seconds of the rank that waits least.
    """
    found = {name: mean[phase] for name, phase in STEP.items()}
    found |= {"reduce": reduce, "waiting": found["waiting"] + found["reduce"] - reduce}
    return {name: float(seconds / steps) for name, seconds in found.items()}
