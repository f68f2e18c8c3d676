"""The steps of a training run, which `train` puts in order. All are collective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from hashlib import sha256
from os import PathLike, fspath
from os.path import exists
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from plancc.errors import InputError, PlanccError, Stopped
from plancc.files import check_target
from plancc.registry import check_choice
from plancc.text import shown
from plancc_runtime.data import LocalData
from plancc_runtime.devices import own_device
from plancc_runtime.execution.choice import check_layout, check_widths, execution_of, network_class
from plancc_runtime.execution.figures import words_of_outputs
from plancc_runtime.gathering import Ids, RowsOfRank
from plancc_runtime.kernels.spmm import KERNELS
from plancc_runtime.layouts.order import in_order
from plancc_runtime.layouts.pipeline import pipelining
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import is_finite
from plancc_runtime.logs import FORMER, LogWriter
from plancc_runtime.metrics import METRICS
from plancc_runtime.nn import option_names
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.nodes import check_exchange, exchange_of, with_exchange
from plancc_runtime.optim import Validation, learning_rate
from plancc_runtime.options import FULL, WATCHFUL, TrainOptions
from plancc_runtime.predictions import check_finite, save_predictions
from plancc_runtime.remarks import WITH_LABELS, of_options, of_sampler, remarks
from plancc_runtime.results import (
    BatchStep,
    Measure,
    RunOutline,
    Scores,
    TrainResult,
    spent_by_all,
    summarise,
)
from plancc_runtime.saved import Description
from plancc_runtime.slices import Opened, Slice, rows_of_rank
from plancc_runtime.targets import Target
from plancc_runtime.tasks import LearningTask, task_of
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.messages import name_ranks
from plancc_runtime.views import place_of
from plancc_runtime.weights import read_description, read_weights
from plancc_runtime.workspace import return_memory

if TYPE_CHECKING:
    from plancc_runtime.checkpoint import Checkpoints
    from plancc_runtime.execution.drawn import Drawn

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
"""Types of weights and sums."""
OF_NETWORKS = ("model", "activation", "norm", "residual", "dropout", "standardize_features")
"""Options that networks have under the same names."""


def agree(plan: str | PathLike[str] | Slice, task: LearningTask, num_ranks: int) -> Drawn | None:
    """Whether plan and options fit each other; mini-batches, if there are any; not collective.

    Parameters:
        task: Of a header as `slices.as_run` has it.

    Raises:
        InputError: If they do not.
    """
    header, options = task.header, task.options
    if options.kernel != "auto":
        check_choice("kernel", options.kernel, KERNELS)
    check_layout(task)
    check_exchange(header, options.exchange, num_ranks)
    if not options.mini_batches:
        return None
    from plancc_runtime.execution.drawn import chosen_batches

    return chosen_batches(plan, task)


def remarks_on_plan(plan: Opened, options: TrainOptions, transport: Transport) -> list[str]:
    """What the plan is for, if the options leave it open and it is not what they train."""
    if options.mini_batches or options.batch_size == FULL:
        return []
    with transport.agreement():
        recorded = plan.sampler if transport.rank == 0 else ""
    return of_sampler(transport.gather(recorded)[0])


class Run:
    """A training run on one rank.

    What it refuses, it refuses when it is made, before the first kernel is called; but for a
    damaged plan, which `prepare` reads.
    """

    def __init__(
        self,
        opened: Opened,
        options: TrainOptions,
        transport: Transport,
        task: LearningTask | None = None,
    ) -> None:
        header, rows, self.content = opened.header, opened.rows, opened.content
        self.header, self.options, self.transport = header, options, transport
        self._name = opened.name or "the plan"
        self._opened: Opened | None = opened
        with transport.agreement():
            self._task = task = task or task_of(header, options)
            self._drawn = agree(opened.plan, task, transport.size)
            rows = task.joined(rows, self._name)
            self._opened = replace(opened, rows=rows)
            self.options = options = replace(options, target=task.target)
        self._remarks = [*remarks_on_plan(opened, options, transport), *task.remarks()]
        self._drawn_by = ""
        if self._drawn is not None and self._drawn.remark:
            self._remarks.append(self._drawn.remark)
        cores = transport.cores_per_rank()
        self._threads = options.threads or cores
        self._remarks += of_options(options, task.between, cores)
        torch.set_num_threads(self._threads)
        with transport.agreement():
            device = own_device(options.device, transport)
        self._resources = Resources(
            transport,
            DTYPES[options.dtype],
            transport.clock(),
            overlap="overlap" in options.passes,
            wire=options.row_wire,
            kernel=options.kernel,
            device=device,
        )
        self.rows = rows_of_rank(header, rows)
        self._data = task.load(rows, self._resources, self._name)
        with transport.agreement():
            check_widths(task, self._data)
            if self._data.random_labels and options.predict is not None:
                raise InputError(
                    f"`predict` {fspath(options.predict)}: {self._name} has no labels, and random "
                    f"ones predict nothing; {WITH_LABELS}; weights that are trained already need "
                    "no labels: plancc predict takes them"
                )
        dtype, clock = self._resources.dtype, self._resources.clock
        network = make_network(options, self._data, transport, dtype, task.network)
        self._learner = task.learner(network, options, transport, clock)
        with transport.agreement():
            self._validated = _is_validated(options, self._data, task.unvalidated)
        self._best, self._first = Validation(), 0
        self._checkpoints: Checkpoints | None = None
        if options.checkpoint is not None:
            from plancc_runtime.checkpoint import Checkpoints

            self._checkpoints = Checkpoints(options, self.content, transport)
            try:
                if options.resume:
                    self._first, self._best = self._checkpoints.load(self._learner)
            except BaseException:
                self._checkpoints.close()
                raise
        self._log: LogWriter | None = None
        with transport.agreement():
            if options.log is not None and transport.rank == 0:
                check_target(options.log)
        self._outline: RunOutline | None = None
        self._measures = list[Measure]()
        self._steps: list[BatchStep] = []
        self._done = self._first

    def prepare(self) -> None:
        """Read the rank's slice, and set up the execution; what that takes is measured."""
        options, transport, opened = self.options, self.transport, self._opened
        assert opened is not None
        part = with_exchange(self.header, opened.read(transport), options.exchange, transport)
        part = in_order(part, options.row_order, options.pipeline, transport)
        part = self._task.ordered(part)
        moved = np.array([not np.array_equal(part.global_id, opened.rows.global_id)], np.int8)
        transport.allreduce_max(moved)
        plan, self._opened = opened.plan, None
        del opened
        if moved[0]:
            self.rows = rows_of_rank(self.header, part)
            self._data = self._task.load(part, self._resources, self._name)
        self._exchange = exchange_of(self.header, part)
        self._pipelining = pipelining(part.grid, options.pipeline)
        self._use_features()
        drawn, self._drawn = self._drawn, None
        if drawn is not None:
            from plancc_runtime.layouts.draws import owners_draw

            by_owners, why = owners_draw(options.draw, drawn.sampler, part, self.header, transport)
            self._drawn_by = ("owners" if by_owners else "everywhere") + f": {why}" * bool(why)
        with transport.agreement():
            if drawn is not None:
                drawn = drawn.whole(plan, options.seed, by_owners)
            if options.log is not None and transport.rank == 0:
                known = {"plan": self.content, "drawn_by": self._drawn_by}
                if not self._first and exists(log := fspath(options.log)):
                    self._remarks.append(f"{log}: the log of an earlier run is {log}{FORMER} now")
                self._log = LogWriter(options.log, self._first, known)
        before = self._learner.start()
        directory = self._learner.hold(part, self.header, self._resources)
        drawn = drawn and replace(drawn, directory=directory)
        self._execution = execution_of(self._task, part, self._data, self._resources, drawn)
        del part
        self._data = self._execution.prepare(self._learner.network)
        return_memory()
        self._setup = self._learner.measure(before)

    def _use_features(self) -> None:
        """Standardise features by what the network has now, which may come from a file."""
        network, data = self._learner.network, self._data
        features = network.standardized(data.features, data.where)
        with self.transport.agreement():
            if not is_finite(features):
                raise PlanccError(
                    f"{self._name}: features of this rank are not finite after normalisation"
                )
        if self.options.dtype == "bfloat16":
            features = features.to(torch.bfloat16)
        self._data = replace(data, features=features)

    @property
    def network(self) -> Network:
        return self._learner.network

    @property
    def features(self) -> torch.Tensor:
        """Features of own rows as the network takes them, type after type; before `prepare`."""
        data = self._data
        x, kind = self.network.standardized(data.features, data.where), data.row_type
        return x if kind is None else x[kind.argsort(stable=True)]

    def outline(self) -> RunOutline:
        """What is known before the first epoch; after `prepare`. Collective at the first call."""
        if self._outline is None:
            network, execution, data = self._learner.network, self._execution, self._data
            figures = execution.figures(network)
            if figures is not None:
                figures = figures.with_more(self._learner.words(0))
            grid = self.header.grid
            copies = 1 if grid is None else grid.copies  # that count every vertex
            self._outline = RunOutline(
                header=self.header,
                options=self.options.with_plain_paths(),
                num_ranks=self.transport.size,
                threads=self._threads,
                dims=network.dims,
                split_sizes={split: size // copies for split, size in data.split_sizes.items()},
                replaced_masks=data.replaced_masks,
                random_features=data.random_features,
                random_labels=data.random_labels,
                target=data.target.name,
                metrics=data.target.shown(self.options.metric),
                kernel=execution.kernel,
                setup=spent_by_all(self._setup, self.transport),
                passes_off=execution.off,
                figures=figures,
                sampler=execution.sampler,
                drawn_by=self._drawn_by,
                steps_per_epoch=execution.steps_per_epoch,
                pipelining=self._pipelining,
                remarks=[
                    *self._remarks,
                    *(self._checkpoints.remarks if self._checkpoints is not None else ()),
                    *self._task.remarks_on(data),
                ],
                exchange=self._exchange,
                resumed_from="" if self._checkpoints is None else self._checkpoints.source,
                first_epoch=self._first,
                ended=self._first >= self.options.epochs or self._is_past_best(),
            )
        return self._outline

    def loop(self, report: Callable[[Measure], None] | None, stop: Callable[[], str] = str) -> None:
        """Run all epochs, or stop when the validation loss stops falling.

        Parameters and errors are those of `train.trained`.
        """
        try:
            self._loop(report, stop)
        finally:
            self.close()

    def close(self) -> None:
        """Let other runs have the folder of checkpoints; not collective."""
        if self._checkpoints is not None:
            self._checkpoints.close()

    def _loop(self, report: Callable[[Measure], None] | None, stop: Callable[[], str]) -> None:
        options = self.options
        with self._execution.epochs():
            for epoch in range(self._first, options.epochs):
                if self._is_past_best():
                    break
                if self._checkpoints is not None:
                    self._stop_if_asked(stop)
                measure = self.epoch(epoch)
                self._done = epoch + 1
                scores = measure.scores.without_classes()
                self._measures.append(replace(measure, scores=scores))
                if options.log is not None:
                    [row] = summarise([measure], self.transport)
                    with self.transport.agreement():
                        if self._log is not None:
                            self._log.write(row)
                if options.every and self._done % options.every == 0:
                    self._save()
                if report is not None:
                    report(measure)
            self._save()

    def _is_past_best(self) -> bool:
        """Whether the validation loss has not fallen for as long as the patience lasts."""
        patience = self.options.patience
        return patience is not None and self._best.since >= patience

    def _save(self) -> None:
        """Write a checkpoint, if there are any."""
        if self._checkpoints is not None:
            self._checkpoints.save(self._learner, self._done, self._best)

    def _stop_if_asked(self, stop: Callable[[], str]) -> None:
        """Save a checkpoint and raise `Stopped` if any rank was asked to stop."""
        asked = np.array([bool(stop())], np.int8)
        self.transport.allreduce_max(asked)  # counts no words
        if not asked[0]:
            return
        reason = next(name for name in self.transport.gather(stop()) if name)
        self._save()
        if self._log is not None:
            self._log.close()
        self.transport.agree(
            Stopped(
                f"stopped by {reason} after {self._done} of {self.options.epochs} epochs; resume "
                "with `resume`"
            )
        )

    def epoch(self, epoch: int) -> Measure:
        """One epoch, and an evaluation: of its training pass if that can be scored, or before."""
        learner, execution, every = self._learner, self._execution, self.options.eval_every
        where, scores, evaluating = f"epoch {epoch}", None, None
        evaluated = every > 0 and epoch % every == 0
        # scores that are exchanged are no words of an epoch
        of_training = execution.evaluates and not learner.exchanges
        if evaluated and not of_training:
            before = learner.start()
            scores = learner.evaluate(execution.whole(), self._data, where)
            evaluating = learner.measure(before)
            self._see(scores, epoch)

        def rate_of(found: Scores | None) -> float:
            if found is not None:
                self._see(found, epoch)
            return learning_rate(self.options, epoch, self._best.drops)

        before = learner.start()
        scored = evaluated and of_training
        result = execution.epoch(learner, self._data, epoch, scored, rate_of)
        self._steps += result.steps
        volume = sum(step.volume for step in result.steps) / max(len(result.steps), 1)
        found, spent = scores or result.scores or Scores(), learner.measure(before)
        figures = epoch, result.loss, result.rate, found, spent, evaluating
        return Measure(*figures, volume, len(result.steps))

    def _see(self, scores: Scores, epoch: int) -> None:
        """Take note of the validation loss after an epoch."""
        if self._validated:
            self._best.see(self._followed(scores), epoch, self._learner.network)

    def _followed(self, scores: Scores) -> float:
        """The validation loss, or the metric that stands in its place; lower is better.

        Raises:
            InputError: On all ranks, of an area under a curve that no class has.
        """
        metric = METRICS[self.options.metric]
        found: dict[str, float] = getattr(scores, metric.fields[-1])
        if "val" not in found:
            raise InputError(
                f"`metric` {self.options.metric}: is not defined for the validation vertices, "
                "since all or none of them are of each class; follow another, or give `split`"
            )
        return metric.lowered(found["val"])

    def predict(
        self,
        path: str | PathLike[str],
        embeddings: int | None,
        ids: Ids | None,
        kind: type[Target] | None = None,
        known: dict[str, np.ndarray] | None = None,
        wanted: npt.NDArray[np.int64] | None = None,
    ) -> list[int]:
        """Write what the network says of all vertices, with its weights as they are.

        Parameters:
            path, ids: As of `predictions.save_predictions`.
            embeddings: Layer, from 1, whose outputs are written too.
            kind: What the network says of a vertex; by default what the run learns.
            known (dict of str to array, optional): Columns of `predictions.known_of`; by default
                those of the run's own data, of links those of the plan.
            wanted (int64[m], optional): Vertices to write, in this order, instead of all: those of
                the training split of all ranks. `ids` and `known` are theirs.

        Returns:
            How many vertices are predicted to be of every class; empty of numbers.
        """
        kept = {} if embeddings is None else {embeddings: torch.empty(0)}
        view = self._execution.whole() if wanted is None else self._execution.view(0)
        outputs = self._learner.outputs(view, self._data, kept)
        embedding, rows = None if embeddings is None else kept[embeddings], self.rows
        if wanted is not None:
            mine, places = place_of(self._data.splits["train"], view.outputs)
            rows, outputs = rows.among(mine.cpu().numpy(), wanted), outputs[places]
            if embedding is not None and embeddings is not None:
                for graph in view.graphs[embeddings:]:
                    embedding = graph.targets(embedding)
                embedding = embedding[places]
        else:
            learnt, (rows, ids) = rows.within(self._task.learnt)[0], self.of_learnt(ids)
            if known is None:
                found = self._task.known(self._data)
                known = {name: each[learnt] for name, each in found.items()}
            if len(learnt) < len(outputs):
                outputs = outputs[learnt]
                embedding = None if embedding is None else embedding[learnt]
        kind = kind or type(self._data.target)
        return save_predictions(
            path, rows, outputs, embedding, kind, ids, self.transport, known or {}
        )

    def score(self, pairs: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], torch.Tensor]:
        """`LinkLearner.score` by the weights as they are. Collective."""
        learner: Any = self._learner
        outputs = learner.outputs(self._execution.whole(), self._data)
        places, found = learner.score(outputs, pairs)
        return places, found

    def words_of_outputs(self) -> tuple[int, int]:
        """Words that all ranks send for outputs of training vertices, and of all. Collective."""
        views = self._execution.view(0), self._execution.whole()
        words = [words_of_outputs(self._learner.network, view.graphs) for view in views]
        counts = np.array(words, np.int64)
        self.transport.allreduce_sum(counts)
        few, all_rows = counts.tolist()
        return few, all_rows

    def of_learnt(self, ids: Ids | None) -> tuple[RowsOfRank, Ids | None]:
        """This rank's rows that `predictions` are of, and its share of their ids."""
        learnt = self._task.learnt
        return self.rows.within(learnt)[1], ids and ids.within(learnt)

    def predictions(self) -> dict[str, np.ndarray]:
        """Columns as of `Target.predictions`, with real numbers as float32. Collective.

        Raises:
            PlanccError: On all ranks, if an output is not finite.
        """
        outputs = self._learner.outputs(self._execution.whole(), self._data)
        with self.transport.agreement():
            check_finite(outputs)
        found = self._data.target.predictions(
            outputs.detach()[self.rows.within(self._task.learnt)[0]]
        )
        return {
            name: (each.float() if each.is_floating_point() else each).cpu().numpy()
            for name, each in found.items()
        }

    def finish(self) -> TrainResult:
        """Scores of the final weights, or of the best ones, which stay; all figures of the run."""
        network, transport = self._learner.network, self.transport
        final, best_epoch = self._final_pass(), None
        if self.options.patience is not None:
            self._best.see(self._followed(final.scores), self._done, network)
            best_epoch = self._best.epoch
            if best_epoch != self._done:
                assert self._best.weights is not None
                network.load_state_dict(self._best.weights)
                final = self._final_pass()
        if self._log is not None:
            self._log.close()
        data = self._data
        self._measures.append(final)
        *epochs, last = summarise(self._measures, transport)
        said = []
        if not data.random_labels:  # they teach nothing
            of_plan = not data.random_features
            said = remarks(self.options, epochs, final.scores, of_plan, type(data.target))
        outline = self.outline()
        known = {each.name: getattr(outline, each.name) for each in fields(outline)}
        known["remarks"] = [*outline.remarks, *self._execution.remarks, *said]
        return TrainResult(
            **known,
            epochs=epochs,
            final=last,
            best_epoch=best_epoch,
            weights={k: w.detach().cpu().numpy() for k, w in network.state_dict().items()},
            network=Description.of(
                network,
                normalize_features=self.options.normalize_features,
                target=data.target.name,
                random_labels=data.random_labels and self._done > 0,
            ).to_dict(),
            steps=self._steps,
            auc_of_classes=final.scores.auc_of_classes,
            ap_of_classes=final.scores.ap_of_classes,
        )

    def _final_pass(self) -> Measure:
        """Scores of the weights as they are."""
        before = self._learner.start()
        where = f"epoch {self._done}"
        scores = self._learner.evaluate(self._execution.whole(), self._data, where)
        spent = self._learner.measure(before)
        return Measure(self._done, scores.loss["train"], 0.0, scores, spent)


def _is_validated(options: TrainOptions, data: LocalData, lacking: str) -> bool:
    """Whether the best validation loss is kept.

    Raises:
        InputError: If an option needs one, and there are no validation vertices.
    """
    there = data.split_sizes.get("val", 0) > 0
    needed = [f"`patience` {options.patience}"] * (options.patience is not None)
    needed += [f"`schedule` {options.schedule}"] * (options.schedule in WATCHFUL)
    if needed and not there:
        raise InputError(f"{needed[0]}: {lacking}")
    return there and (bool(needed) or options.checkpoint is not None)


def make_network(
    options: TrainOptions,
    data: LocalData,
    transport: Transport,
    dtype: torch.dtype,
    of_task: Mapping[str, Any] | None = None,
) -> Network:
    """The network of these options, the same on all ranks. Collective.

    Parameters:
        of_task: Fields of `NetworkOptions`.

    Raises:
        InputError: If the model cannot be made so, or the initial weights do not fit it.
    """
    hidden = [options.hidden] * (options.layers - 1)
    declared = option_names(options.model, "types" in (of_task or {}))
    with transport.agreement():
        network = network_class(options.model)(
            [data.num_features, *hidden, data.num_classes],
            NetworkOptions(
                conv=options.conv_options(declared),
                input_dropout=options.first_dropout,
                **{name: getattr(options, name) for name in OF_NETWORKS},
                **(of_task or {}),
            ),
            options.seed,
            dtype,
        ).to(data.features.device)
    if network.standardization is not None:
        network.standardization.fit(data.features, transport, data.where)
    with transport.agreement():
        if options.init is not None:
            _initialise(network, options.init)
    state = network.state_dict()
    values = b"".join(w.cpu().numpy().tobytes() for w in state.values())
    found = transport.ranks_by_value(sha256(values).hexdigest())
    if len(found) > 1:
        whose = " are not those of ".join(map(name_ranks, found.values()))
        if options.init is not None:
            said = f"{fspath(options.init)}: the initial weights (`init`) of {whose}"
        else:
            said = f"the initial weights that `seed` {options.seed} gives on {whose}"
            said += "; are their libraries, features or plans different?"
        transport.agree(InputError(said))
    return network


def _initialise(network: Network, path: str | PathLike[str]) -> None:
    """Set the weights from a file; what standardises features too, where it is there.

    Raises:
        InputError: If they are of another model or other widths, or were trained on standardised
            features and this is not.
    """
    description, there = read_description(path)
    model = None if description is None else description.get("model")
    if isinstance(model, str) and model != network.options.model:
        raise InputError(
            f"{fspath(path)}: these weights are of model {shown(model, 40)}, and this run has "
            f"{network.options.model}; set `model`"
        )
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    known = {name for name in there if name.startswith("standardization.")}
    own = {k: shape for k, shape in shapes.items() if not k.startswith("standardization.")}
    given = read_weights(path, own)  # first: of another network nothing else is worth saying
    if known and network.standardization is None:
        raise InputError(
            f"{fspath(path)}: these weights are of standardised features; set "
            "`standardize_features` too"
        )
    if known:
        given |= read_weights(path, {k: shape for k, shape in shapes.items() if k not in own})
    network.load_state_dict({k: torch.from_numpy(w) for k, w in given.items()}, strict=bool(known))
