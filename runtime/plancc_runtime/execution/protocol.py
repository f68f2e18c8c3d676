"""What the training loop asks of an execution.

An execution *prepares* itself once, then executes one epoch after the other. The default is that
of a full batch: an epoch is one pass over a view, and one update.
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
"""The learning rate of an epoch, from its scores where it was evaluated."""


@dataclass(frozen=True)
class EpochResult:
    """What an epoch leaves behind.

    Attributes:
        loss, rate: Mean loss over all targets, and learning rate.
        scores: Scores of the training pass, if it has any.
        steps: Mini-batches.
    """

    loss: float
    rate: float
    scores: Scores | None = None
    steps: Sequence[BatchStep] = ()


class Execution(ABC):
    """How the epochs of a run are executed.

    Parameters:
        misfits: Passes that do not fit the options or the layout: why.

    Attributes:
        kernel: Kernel of local products.
        off (dict of str to str): Passes that were asked for and do not fit: why.
        evaluates (bool): Whether the outputs of a training pass are those of all rows, as an
            evaluation has them; known after `prepare`.
        sampler (str): The sampler of mini-batches, with its options; empty for a full batch.
        steps_per_epoch (int): Mini-batches per epoch; 0 for a full batch.
        alike (bool): Whether all epochs make the same products and send the same messages, but for
            their numbers.
        remarks (list of str): What the first epoch shows of the layers.
        repeats (bool): Whether an epoch may be executed again, from the same weights; not if it
            leaves messages under way.
    """

    sampler = ""
    steps_per_epoch = 0
    alike = True
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
        self._counts = True  # the words of the first epoch, by layer

    def _set_graph(self, graph: LayerGraph) -> None:
        """Let all layers work on this graph, in training and in evaluation."""
        self._whole = self._training = View([graph] * self._options.layers)

    @abstractmethod
    def prepare(self, network: Network) -> LocalData:
        """What is done once, before the first epoch. Collective.

        Returns:
            Data to train with from here on: without features where nothing reads them any more.
        """

    def whole(self) -> View:
        """Every row, for evaluation; not collective."""
        return self._whole

    def view(self, epoch: int) -> View:
        """What the training pass of an epoch works on. Collective."""
        return self._training

    def epoch(
        self, learner: Learner, data: LocalData, number: int, evaluate: bool, rate_of: RateOf
    ) -> EpochResult:
        """One epoch. Collective.

        Parameters:
            data: What `prepare` returned.
            number: Number of the epoch.
            evaluate: Whether the training pass is scored; only if `evaluates`.
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
        """A block around all epochs: what is under way at its end is received. Collective.

        So it is after an error that all ranks raise, as a buffer must outlive its round.
        """
        try:
            yield
        except PlanccError as error:
            if error is self._transport.agreed_error:
                self.finish()
            raise
        self.finish()

    def finish(self) -> None:  # noqa: B027
        """Receive what is under way; by default nothing is. Collective."""

    def figures(self, network: Network) -> Figures | None:
        """Words per epoch, with and without the passes; after `prepare`. Collective.

        None where every step draws what it moves.
        """
        return figures_of(network, self._passes, self._whole, self._training, self._transport)

    def _fix_input(self, view: View, network: Network, data: LocalData) -> LocalData:
        """Let a view keep what the first layer needs of the features. Collective.

        Returns:
            Without features where nothing reads them any more.
        """
        view.fixed = network.fixed(view.graphs[0], data.features)
        view.graphs[0].release_buffers()  # as wide as the features
        if network.convs[0].reads_input or self._options.residual:
            return data
        view.x = data.features.new_empty(0, data.features.shape[1])
        return replace(data, features=view.x)
