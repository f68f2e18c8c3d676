"""The interface between the training loop and an execution.

An execution runs epochs. By default an epoch is a full batch: a forward and a backward pass over
the graphs of the layers (`View`), and one update.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from plancc.errors import PlanccError
from plancc_runtime.data import LocalData
from plancc_runtime.execution.figures import figures_of, stages_counted, steps_remark
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner
from plancc_runtime.nn.network import Network
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import BatchStep, Figures, Scores
from plancc_runtime.views import View

RateOf = Callable[[Scores | None], float]
"""Function that returns the learning rate of an epoch, from the scores of its evaluation.

The scores are None if the epoch is not evaluated."""


@dataclass(frozen=True)
class EpochResult:
    """Results of an epoch.

    Attributes:
        loss: Mean loss over all targets.
        rate: Learning rate.
        scores: Scores of the outputs that training computed; None if these were not evaluated.
        steps: Results of the mini-batches; empty for a full batch.
    """

    loss: float
    rate: float
    scores: Scores | None = None
    steps: Sequence[BatchStep] = ()


class Execution(ABC):
    """Executes the epochs of a run.

    Parameters:
        misfits: For every pass that does not fit the options or the layout, the reason why.

    Attributes:
        kernel: Name of the kernel of local products.
        off (dict of str to str): Reasons why requested passes are off, by pass.
        evaluates (bool): Whether a training epoch computes the same outputs as an evaluation; known
            after `prepare`.
        sampler (str): Sampler of mini-batches, with its options; "" for a full batch.
        steps_per_epoch (int): Number of mini-batches per epoch; 0 for a full batch.
        alike (bool): Whether all epochs compute the same products and send equally long messages.
        remarks (list of str): Remarks for the user on the layers, known after the first epoch.
        drawing (str): Whether mini-batches are made between or during steps, and why, or "".
        repeats (bool): Whether an epoch may run again from the same weights, because no messages
            are in flight after it.
    """

    sampler = ""
    steps_per_epoch = 0
    alike = True
    drawing = ""
    repeats = True

    def __init__(
        self, data: LocalData, options: TrainOptions, resources: Resources, misfits: dict[str, str]
    ) -> None:
        self._data, self._options, self._resources = data, options, resources
        self._transport, self.kernel = resources.transport, resources.kernel_name
        self.off = {name: why for name, why in misfits.items() if name in options.passes}
        self._passes = [name for name in options.passes if name not in self.off]
        self.evaluates = options.norm != "batch"
        self._whole = self._training = View([])
        self.remarks: list[str] = []
        self._counts = True  # whether the first epoch counts its words by layer

    def _set_graph(self, graph: LayerGraph) -> None:
        """Make all layers use `graph`, in training and in evaluation."""
        self._whole = self._training = View([graph] * self._options.layers)

    @abstractmethod
    def prepare(self, network: Network) -> LocalData:
        """Prepare all epochs, before the first epoch; return the data to train with. Collective.

        If no layer reads the features afterwards, the data have features of 0 rows.
        """

    def whole(self) -> View:
        """Return the view of all rows, for evaluation. Not collective."""
        return self._whole

    def view(self, epoch: int) -> View:
        """Return the view (the graphs of the layers) for training in an epoch. Collective."""
        return self._training

    def epoch(
        self, learner: Learner, data: LocalData, number: int, evaluate: bool, rate_of: RateOf
    ) -> EpochResult:
        """Execute one epoch on the data that `prepare` returned. Collective.

        `evaluate`: whether to score the outputs; possible only if `evaluates` is true.
        """
        where, view, transport = f"epoch {number}", self.view(number), self._transport
        with stages_counted(learner.network, transport) if self._counts else nullcontext() as sent:
            loss, outputs = learner.gradients(view, data, number, where)
        if sent is not None:
            self._counts = False
            self.remarks += filter(None, [steps_remark(learner.network, view, sent, transport)])
        scores = learner.scores(outputs, self.whole(), data, where) if evaluate else None
        del outputs  # the next epoch uses their memory
        rate = rate_of(scores)
        learner.update(rate)
        return EpochResult(loss, rate, scores)

    @contextmanager
    def epochs(self) -> Iterator[None]:
        """Return the context in which all epochs are executed. Collective.

        When it ends, also by an error on all ranks, all messages in flight are received: a buffer
        in flight must not be freed.
        """
        try:
            yield
        except PlanccError as error:
            if error is self._transport.agreed_error:
                self.finish()
            raise
        self.finish()

    def finish(self) -> None:  # noqa: B027
        """Receive all messages in flight; by default there are none. Collective."""

    def figures(self, network: Network) -> Figures | None:
        """Return the words that an epoch sends, with and without the passes. Collective.

        Call `prepare` first. The result is None if the words are known only after the epoch.
        """
        return figures_of(network, self._passes, self._whole, self._training, self._transport)

    def _fix_input(self, view: View, network: Network, data: LocalData) -> LocalData:
        """Store in `view.fixed` what the first layer reads instead of the features. Collective.

        Return the data to train with; its features have 0 rows if no layer will read them again.
        """
        view.fixed = network.fixed(view.graphs[0], data.features)
        view.graphs[0].release_buffers()  # these buffers are as wide as the features
        if network.convs[0].reads_input or self._options.residual:
            return data
        view.x = data.features.new_empty(0, data.features.shape[1])
        return replace(data, features=view.x)
