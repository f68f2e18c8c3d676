"""An epoch layer by layer, whatever the layout.

Layers say their steps (`plancc.plan.layers`); a `Scheduler` has the operations of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, starmap

import numpy as np

from plancc.errors import InputError
from plancc.plan.convolutions import ConvOptions
from plancc.plan.exchange import Int64Array
from plancc.plan.layers import (
    Activation,
    Aggregate,
    Attention,
    GatherNeighbours,
    LayerStep,
    Linear,
    Maximum,
    OwnLinear,
    WholeRows,
)
from plancc.predict.memory import Memory
from plancc.predict.passes import layers_of
from plancc.predict.schedule import AllReduceOperation, DenseProduct, Elementwise, Operation, Place

ACTIVATION_WORDS = 2
"""Words read and written per element by an activation, in place."""
GRADIENT_WORDS = 3
"""Words read and written per element by the gradient of an activation, a product."""
LOSS_WORDS = 10
"""Words read and written per output by the loss: softmax and logarithm, forward and back."""
LOSS_CALLS = 8
"""Operations of the loss."""
OWN_WORDS = {"forward": 4, "back": 6}
"""Words per output that sums of two products with W take as long as; fitted."""
UPDATE_WORDS = 3
"""Words read and written per weight by gradient descent."""


class Scheduler(ABC):
    """The operations of a layout's products.

    Attributes
    ----------
    num_ranks : int
    rows : int64[num_ranks]
        Rows of H at every rank between products.
    """

    num_ranks: int
    rows: Int64Array

    @abstractmethod
    def product(self, layer: int, step: Aggregate) -> Iterator[Operation]:
        """A x, or back A^T g."""

    def outputs(self, layer: int) -> Int64Array:
        """Rows of every rank in the output of a layer: int64[num_ranks]."""
        return self.rows

    def inputs(self, layer: int) -> Int64Array:
        """Rows of every rank in the input of a layer: int64[num_ranks]."""
        return self.rows

    def columns(self, width: int) -> int | Int64Array:
        """Columns of a matrix of this width that every rank holds between products."""
        return width

    def operations(self, layer: int, step: LayerStep) -> Iterator[Operation]:
        """The operations of a step of a layer, from 1; InputError if its kind is not predicted."""
        if step.at_hand:
            yield from self.at_hand(layer, step)
            return
        place = Place(layer, step.direction, "dense")
        match step:
            case Aggregate():
                yield from self.product(layer, step)
            case Linear():
                yield from self.linear(layer, step)
                if isinstance(step, OwnLinear):
                    words = self.outputs(layer) * self.columns(step.columns)
                    yield Elementwise(place, words=OWN_WORDS[step.direction] * words)
            case GatherNeighbours():
                yield from self.gather(layer, step)
            case Maximum():
                yield from self.maximum(layer, step)
            case Attention():
                yield from self.attention(layer, step)
            case Activation():
                words = self.outputs(layer) * self.columns(step.columns)
                each = GRADIENT_WORDS if step.back else ACTIVATION_WORDS
                yield Elementwise(place, words=each * words)
            case WholeRows(back=False):
                yield from self.whole_rows(layer, step.columns)

    def at_hand(self, layer: int, step: LayerStep) -> Iterator[Operation]:
        """What an epoch does though a step's result is at hand."""
        yield from ()

    def linear(self, layer: int, step: Linear) -> Iterator[Operation]:
        """x W; back, the gradients of W and of x."""
        place, back = Place(layer, step.direction, "dense"), step.back
        yield from self.gathered(layer, step.direction, step.columns if back else step.inner)
        for _ in range(2 if back and not step.of_weights else 1):
            yield DenseProduct(
                place,
                rows=self.rows_of(layer, step.rows),
                inner=self.columns(step.inner) if back else step.inner,
                columns=step.columns if back else self.columns(step.columns),
            )

    def gather(self, layer: int, step: GatherNeighbours) -> Iterator[Operation]:
        """Rows of neighbours, or their gradients back to the owners; InputError if none travel."""
        raise InputError(
            "this layer gathers rows of neighbours: it is predicted for plans of layout row only"
        )

    def maximum(self, layer: int, step: Maximum) -> Iterator[Operation]:
        """The element-wise maximum over gathered rows, or its gradient."""
        yield from ()

    def attention(self, layer: int, step: Attention) -> Iterator[Operation]:
        """Scores and sums of attention, or their gradients."""
        yield from ()

    def rows_of(self, layer: int, which: str) -> Int64Array:
        """`Linear.rows` of every rank: int64[num_ranks]."""
        return self.outputs(layer) if which == "outputs" else self.inputs(layer)

    def gathered(self, layer: int, direction: str, width: int) -> Iterator[Operation]:
        """Operations that make whole rows of a matrix of this width, for a product with W."""
        yield from ()

    def whole_rows(self, layer: int, width: int) -> Iterator[Operation]:
        """Operations that make whole rows of the outputs."""
        yield from ()

    def check_width(self, width: int) -> None:  # noqa: B027
        """InputError if a matrix of this width has too few columns; by default none has."""

    @abstractmethod
    def memory(self, dims: Sequence[int]) -> Memory:
        """Bytes of every rank at its worst moment, of float32."""


def epoch(
    scheduler: Scheduler,
    dims: Sequence[int],
    passes: Sequence[str],
    options: ConvOptions | None = None,
) -> list[Operation]:
    """All operations of an epoch: forward, back, update; the layers are those of `layers_of`."""
    layers = list(enumerate(layers_of(dims, passes, options), 1))
    for width in dims:
        scheduler.check_width(width)
    weights = sum(step.weights for _, layer in layers for step in layer.forward)
    number, last = len(layers), Place(len(layers), "forward", "dense")
    loss = LOSS_WORDS * scheduler.outputs(number) * dims[-1]
    forward = ((k, step) for k, layer in layers for step in layer.forward)
    back = ((k, step) for k, layer in reversed(layers) for step in layer.back)
    return [
        *chain.from_iterable(starmap(scheduler.operations, forward)),
        Elementwise(last, words=loss, calls=LOSS_CALLS),
        *chain.from_iterable(starmap(scheduler.operations, back)),
        *_update(scheduler, weights),
    ]


def _update(scheduler: Scheduler, weights: int) -> Iterator[Operation]:
    if scheduler.num_ranks > 1:
        yield AllReduceOperation(
            Place(0, "update", "all-reduce"),
            ranks=np.arange(scheduler.num_ranks)[None],
            words=np.array([weights + 1]),  # the loss travels with them
        )
    yield Elementwise(
        Place(0, "update", "dense"),
        words=np.full(scheduler.num_ranks, UPDATE_WORDS * weights),
    )
