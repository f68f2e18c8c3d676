"""The stages of a training run on one rank; `plancc_runtime.train` calls them in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from os import fspath
from os.path import exists
from typing import TYPE_CHECKING

import numpy as np
import torch

from plancc.errors import InputError, PlanccError, Stopped
from plancc.files import check_target
from plancc_runtime.devices import own_device
from plancc_runtime.execution.choice import agree, check_widths, execution_of
from plancc_runtime.layouts.order import order_rows
from plancc_runtime.layouts.pipeline import pipelining
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import is_finite
from plancc_runtime.metrics import METRICS
from plancc_runtime.networks import make_network
from plancc_runtime.nn.network import Network
from plancc_runtime.nodes import exchange_of, with_exchange
from plancc_runtime.optim import Validation, learning_rate
from plancc_runtime.options import TrainOptions
from plancc_runtime.remarks import option_remarks, remarks, sampler_remarks
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
from plancc_runtime.slices import Opened, rows_of_rank
from plancc_runtime.tasks import task_of
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.transport.base import Transport
from plancc_runtime.workspace import return_memory

if TYPE_CHECKING:
    from plancc_runtime.checkpoint import Checkpoints
    from plancc_runtime.logs import LogWriter
    from plancc_runtime.outputs import Outputs

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.float32}
"""For each value of the option `dtype`: the dtype of weights and sums."""


class Run:
    """A training run on one rank. Its methods are collective unless they say otherwise.

    The constructor raises all errors of options and data; only `prepare` finds a damaged plan.
    """

    def __init__(
        self,
        opened: Opened,
        options: TrainOptions,
        transport: Transport,
        task: LearningTask | None = None,
    ) -> None:
        self.header, self.content, self.transport = opened.header, opened.content, transport
        self._name, self._drawn_by = opened.name or "the plan", ""
        with transport.agreement():
            self._task = task = task or task_of(self.header, options)
            self._drawn = drawn = agree(opened.plan, task, transport.size)
            rows = task.joined(opened.rows, self._name)
            self._opened: Opened | None = replace(opened, rows=rows)
            self.options = options = replace(options, target=task.target)
        cores = transport.cores_per_rank()
        self._threads = options.threads or cores
        torch.set_num_threads(self._threads)
        self._remarks = [
            *sampler_remarks(opened, options, transport),
            *task.remarks(),
            *([drawn.remark] if drawn is not None and drawn.remark else []),
            *option_remarks(options, task.between, cores),
        ]
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
        self.rows = rows_of_rank(self.header, rows)
        self._data = task.load(rows, self._resources, self._name)
        with transport.agreement():
            check_widths(task, self._data)
            task.check_data(self._data, self._name)
        dtype, clock = self._resources.dtype, self._resources.clock
        network = make_network(options, self._data, transport, dtype, task.network)
        self._learner = task.learner(network, options, transport, clock)
        with transport.agreement():
            self._validated = task.is_validated(self._data)
        self._best, self._first = Validation(), 0
        self._checkpoints: Checkpoints | None = None
        if options.checkpoint is not None:
            from plancc_runtime.checkpoint import Checkpoints

            self._checkpoints = Checkpoints(options, self.content, transport)
            self._first, self._best = self._checkpoints.begin(self._learner)
        self._log: LogWriter | None = None
        with transport.agreement():
            if options.log is not None and transport.rank == 0:
                check_target(options.log)
        self._outline: RunOutline | None = None
        self._measures = list[Measure]()
        self._steps: list[BatchStep] = []
        self._done = self._first

    def prepare(self) -> None:
        """Read the rank's slice, set up the execution, and measure the cost of the set-up."""
        options, transport, opened = self.options, self.transport, self._opened
        assert opened is not None
        part = with_exchange(self.header, opened.read(transport), options.exchange, transport)
        part = order_rows(part, options.row_order, options.pipeline, transport)
        part = self._task.ordered(part)
        moved = transport.any(not np.array_equal(part.global_id, opened.rows.global_id))
        plan, self._opened = opened.plan, None
        del opened
        if moved:
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
                drawn = drawn.whole(plan, self._task, by_owners)
            if options.log is not None and transport.rank == 0:
                from plancc_runtime.logs import FORMER, LogWriter

                known = {"plan": self.content, "drawn_by": self._drawn_by}
                if not self._first and exists(log := fspath(options.log)):
                    self._remarks.append(f"{log}: the log of an earlier run is {log}{FORMER} now")
                self._log = LogWriter(options.log, self._first, known)
        before = self._learner.start()
        self._learner.hold(part, self.header, self._resources)
        drawn = drawn and drawn.begun(self._task, self._learner, part, self._resources)
        self._execution = execution_of(self._task, part, self._data, self._resources, drawn)
        del part
        self._data = self._execution.prepare(self._learner.network)
        return_memory()
        self._setup = self._learner.measure(before)

    def _use_features(self) -> None:
        """Standardise the features with the network's statistics, which may come from a file."""
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
        """Standardised features of own rows, sorted by type; readable only before `prepare`."""
        data = self._data
        x, kind = self.network.standardized(data.features, data.where), data.row_type
        return x if kind is None else x[kind.argsort(stable=True)]

    @property
    def outputs(self) -> Outputs:
        """The network's outputs, to be written or scored; readable only after `prepare`."""
        from plancc_runtime.outputs import Outputs

        return Outputs(self._task, self._learner, self._execution, self._data, self.rows)

    def outline(self) -> RunOutline:
        """Return the facts of the run before its first epoch; only after `prepare`.

        Collective at the first call."""
        if self._outline is None:
            network, execution, data = self._learner.network, self._execution, self._data
            figures = execution.figures(network)
            if figures is not None:
                figures = figures.with_more(self._learner.words(0))
            grid = self.header.grid
            copies = 1 if grid is None else grid.copies  # every copy counts every vertex
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
        """Run all epochs, then write a checkpoint; for parameters and errors see `train.trained`.

        The run ends early if the validation loss did not fall for `patience` evaluations.
        """
        try:
            self._loop(report, stop)
        finally:
            self.close()

    def close(self) -> None:
        """Release the folder of checkpoints, so that other runs may use it. Not collective."""
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
        """Whether the last `patience` evaluations did not improve the value that `_see` records."""
        patience = self.options.patience
        return patience is not None and self._best.since >= patience

    def _save(self) -> None:
        """Write a checkpoint if the run has checkpoints."""
        if self._checkpoints is not None:
            self._checkpoints.save(self._learner, self._done, self._best)

    def _stop_if_asked(self, stop: Callable[[], str]) -> None:
        """Save a checkpoint and raise `Stopped` if any rank was asked to stop."""
        if not self.transport.any(bool(stop())):
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
        """Run one epoch; return its costs and loss, and its scores if it is to be evaluated.

        Scores that training outputs cannot give come from a separate evaluation before the epoch.
        """
        learner, execution, every = self._learner, self._execution, self.options.eval_every
        where, scores, evaluating = f"epoch {epoch}", None, None
        evaluated = every > 0 and epoch % every == 0
        # words that scores exchange must not count as words of the epoch
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
        """Record the validation value after `epoch` epochs (`_followed`), if the run has one."""
        if self._validated:
            self._best.see(self._followed(scores), epoch, self._learner.network)

    def _followed(self, scores: Scores) -> float:
        """Return the validation value of the option `metric`, negated if higher is better."""
        metric = METRICS[self.options.metric]
        found: dict[str, float] = getattr(scores, metric.fields[-1])
        if "val" not in found:
            raise InputError(
                f"`metric` {self.options.metric}: is not defined, as every class has all or none "
                "of the validation vertices; choose another metric, or give `split`"
            )
        return metric.lowered(found["val"])

    def finish(self) -> TrainResult:
        """Return all figures of the run; early stopping restores and scores the best weights."""
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
        if not data.random_labels:  # random labels teach nothing
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
            drawing=self._execution.drawing,
            auc_of_classes=final.scores.auc_of_classes,
            ap_of_classes=final.scores.ap_of_classes,
        )

    def _final_pass(self) -> Measure:
        """Return scores and costs of a forward pass with the network's present weights."""
        before = self._learner.start()
        where = f"epoch {self._done}"
        scores = self._learner.evaluate(self._execution.whole(), self._data, where)
        spent = self._learner.measure(before)
        return Measure(self._done, scores.loss["train"], 0.0, scores, spent)
