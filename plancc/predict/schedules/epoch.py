"""An epoch layer by layer, whatever the layout.

Layers say their steps (`plancc.plan.layers`); a `Scheduler` has the operations of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
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
    RowStep,
    WholeRows,
)
from plancc.plan.products import AllReduce, Multiply, Program, ScatterAdd, Step, adjoint
from plancc.plan.words import AllReduceWords, Collective, Transfer
from plancc.predict.memory import Memory
from plancc.predict.passes import layers_of
from plancc.predict.schedule import (
    DenseProduct,
    Elementwise,
    Operation,
    Place,
    PointToPoint,
    Work,
)

Moved = Mapping[str, Sequence[tuple[str, Work]]]
"""By names of a program: what is moved, in which of `plancc.predict.schedule.STEPS`; hop by hop."""
PACK_WORDS = 2
"""Words read and written per word that is sent from a copy."""
ADD_WORDS = 3
"""Words read and written per word that is added where it arrives."""

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
    """What the steps of a layout's program are on all ranks.

    Attributes
    ----------
    num_ranks : int
    rows : int64[num_ranks]
        Rows of H at every rank between products.
    """

    num_ranks: int
    rows: Int64Array

    @abstractmethod
    def program(self, layer: int) -> Program:
        """The product of a layer, from 1, forward."""

    @abstractmethod
    def moved(self, layer: int, step: Aggregate) -> Moved:
        """What the steps of the program move, as it moves it forward, by their names."""

    @abstractmethod
    def multiplied(self, layer: int, step: Aggregate) -> Iterator[Work]:
        """All local products of the program at once, and what prepares their matrices."""

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
                    yield Operation(place, Elementwise(OWN_WORDS[step.direction] * words))
            case GatherNeighbours() | Maximum() | Attention():
                yield from self.of_neighbours(layer, step)
            case Activation():
                words = self.outputs(layer) * self.columns(step.columns)
                each = GRADIENT_WORDS if step.back else ACTIVATION_WORDS
                yield Operation(place, Elementwise(each * words))
            case WholeRows(back=False):
                yield from self.whole_rows(layer, step.columns)

    def product(self, layer: int, step: Aggregate) -> Iterator[Operation]:
        """A x, or back A^T g: the steps of the program, whose products are made at once."""
        program = adjoint(self.program(layer)) if step.back else self.program(layer)
        moved, products = self.moved(layer, step), self.multiplied(layer, step)
        for each in program:
            yield from self.moving(layer, step.direction, each, moved)
            if isinstance(each, Multiply):  # the first one: no product is left for others
                place = Place(layer, step.direction, "multiply")
                yield from (Operation(place, work) for work in products)

    def moving(self, layer: int, direction: str, step: Step, moved: Moved) -> Iterator[Operation]:
        """What a step of the program moves, with what is packed or added for messages."""
        works = moved.get(step.name, ()) if step.moves else ()
        for name, work in works[::-1] if isinstance(step, ScatterAdd) else works:
            place = Place(layer, direction, name)
            if is_of_one(work) and not isinstance(step, AllReduce):
                continue
            if step.reverse and isinstance(work, Transfer):
                work = work.reversed()
            yield Operation(place, work)
            if isinstance(work, PointToPoint):
                yield Operation(place, _copied(work))

    def at_hand(self, layer: int, step: LayerStep) -> Iterator[Operation]:
        """What an epoch does though a step's result is at hand."""
        yield from ()

    def linear(self, layer: int, step: Linear) -> Iterator[Operation]:
        """x W; back, the gradients of W and of x."""
        place, back = Place(layer, step.direction, "dense"), step.back
        yield from self.gathered(layer, step.direction, step.columns if back else step.inner)
        product = DenseProduct(
            rows=self.rows_of(layer, step.rows),
            inner=self.columns(step.inner) if back else step.inner,
            columns=step.columns if back else self.columns(step.columns),
        )
        for _ in range(2 if back and not step.of_weights else 1):
            yield Operation(place, product)

    def of_neighbours(self, layer: int, step: RowStep) -> Iterator[Operation]:
        """Gathered rows of neighbours, or a step that takes them; InputError if none travel."""
        raise InputError(
            "this layer gathers rows of neighbours: it is predicted for plans of layout row only"
        )

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
        Operation(last, Elementwise(loss, LOSS_CALLS)),
        *chain.from_iterable(starmap(scheduler.operations, back)),
        *_update(scheduler, weights),
    ]


def _update(scheduler: Scheduler, weights: int) -> Iterator[Operation]:
    ranks = np.arange(scheduler.num_ranks)[None]
    if scheduler.num_ranks > 1:  # the loss travels with them
        summed = AllReduceWords(ranks, words=np.array([weights + 1]))
        yield Operation(Place(0, "update", "all-reduce"), summed)
    updated = np.full(scheduler.num_ranks, UPDATE_WORDS * weights)
    yield Operation(Place(0, "update", "dense"), Elementwise(updated))


def is_of_one(work: Work) -> bool:
    """Whether it is a collective of groups of one rank, which moves nothing."""
    return isinstance(work, Collective) and work.members == 1


def _copied(messages: PointToPoint) -> Elementwise:
    """What is packed, and added where it arrives.

    Copies are made of what the owners send, and they add what comes back. Where rows are kept for
    other epochs, both ends do both.
    """
    rows, (owners, others) = messages.pairs.step, (PACK_WORDS, ADD_WORDS)
    if messages.reverse:
        owners, others = others, owners
    words = owners * rows.sent + messages.is_late * others * rows.received
    return Elementwise(words * messages.width)
