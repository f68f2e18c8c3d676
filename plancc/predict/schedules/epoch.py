"""The operations of an epoch, layer by layer, for every layout.

Layers list their steps (`plancc.plan.layers`), and layouts list the steps of a product
(`plancc.plan.products`). A `Scheduler` lists the work of every rank in these steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from plancc.errors import InputError
from plancc.plan.convolutions import Convolution
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
from plancc.predict.schedule import DenseProduct, Elementwise, Operation, Place, PointToPoint, Work
from plancc.predict.schedules.links import LinkTables

Works = Mapping[str, Sequence[Work]]
"""Forward work of each step of a program, by the step's name; an entry for every hop."""
PRODUCTS = "products"
"""Name of all local products together, and of the work that prepares their matrices."""
COLLECTIVES = "collectives"
"""Step of an epoch that has the collectives: operations of a group of ranks, such as broadcasts."""
PACK_WORDS = 2
"""Words read and written per word that is copied to be sent."""
ADD_WORDS = 3
"""Words read and written per word that is added on arrival."""

ACTIVATION_WORDS = 2
"""Words read and written per element by an activation, in place."""
GRADIENT_WORDS = 3
"""Words read and written per element by the gradient of an activation."""
LOSS_WORDS = 10
"""Words read and written per output by the loss (softmax and logarithm), in both passes."""
LOSS_CALLS = 8
"""Operations of the loss."""
OWN_WORDS = {"forward": 4, "back": 6}
"""Words per output that take as long as adding two products with W; fitted to measurements."""
UPDATE_WORDS = 3
"""Words read and written per weight by gradient descent."""


class Scheduler(ABC):
    """Base class of schedulers, which say how much work all ranks have in the steps of an epoch.

    Attributes:
        rows (int64[num_ranks]): Rows of H that every rank holds between products.
    """

    num_ranks: int
    rows: Int64Array

    @abstractmethod
    def program(self, layer: int) -> Program:
        """Return the program (list of steps) of a layer's forward product.

        Layers are counted from 1.
        """

    @abstractmethod
    def works(self, layer: int, step: Aggregate) -> Works:
        """Return the work of a layer's product on all ranks.

        Keys are the names of the program's steps that send something, and `PRODUCTS`.
        """

    @abstractmethod
    def memory(self, dims: Sequence[int]) -> Memory:
        """Return, for every rank, the largest memory needed at any time, in bytes, for float32."""

    def outputs(self, layer: int) -> Int64Array:
        """Return how many rows of a layer's output every rank has: int64[num_ranks]."""
        return self.rows

    def rows_of(self, layer: int, which: str) -> Int64Array:
        """Return how many rows every rank multiplies in a step `Linear` with ``rows=which``."""
        return self.rows

    def columns(self, width: int) -> int | Int64Array:
        """Return how many columns of a matrix of this width every rank holds between products."""
        return width

    def check_width(self, width: int) -> None:  # noqa: B027
        """Raise InputError if this width is too small for the grid. By default, do nothing."""

    def gathered(self, width: int) -> Sequence[Work]:
        """Return the work that collects whole rows of x, of `width` columns, for a product x W.

        The result is empty if every rank holds all columns of its rows.
        """
        return ()

    def whole_rows(self, width: int) -> Sequence[Work]:
        """Return the work that collects whole output rows; empty if ranks hold all columns."""
        return ()

    def begun(self, width: int) -> Iterator[tuple[str, Work]]:
        """Yield the pairs (step, work) before the first layer, whose input has `width` columns."""
        yield from ()

    def operations(self, layer: int, step: LayerStep) -> Iterator[tuple[str, Work]]:
        """Yield pairs (name in `STEPS`, work) for one step of a layer; the first layer is 1."""
        if step.at_hand:
            yield from self.known_result(layer, step)
            return
        match step:
            case Aggregate():
                yield from self.product(layer, step)
            case Linear():
                yield from self.linear(layer, step)
            case GatherNeighbours() | Maximum() | Attention():
                yield from self.neighbour_rows(layer, step)
            case Activation():
                words = self.outputs(layer) * self.columns(step.columns)
                each = GRADIENT_WORDS if step.back else ACTIVATION_WORDS
                yield "dense", Elementwise(each * words)
            case WholeRows(back=False):
                for work in self.whole_rows(step.columns):
                    yield COLLECTIVES, work

    def known_result(self, layer: int, step: LayerStep) -> Iterator[tuple[str, Work]]:
        """Yield (name, work), if any, for a step whose result is the same in all epochs."""
        yield from ()

    def product(self, layer: int, step: Aggregate) -> Iterator[tuple[str, Work]]:
        """Yield (step, work) for A x in the forward pass, or for A^T g in the backward pass.

        The work of all local products is yielded at the first local product.
        """
        program = adjoint(self.program(layer)) if step.back else self.program(layer)
        works = self.works(layer, step)
        products = iter(works[PRODUCTS])
        for each in program:
            yield from moving(each, works)
            if isinstance(each, Multiply):  # the first one takes all products
                yield from (("multiply", work) for work in products)

    def linear(self, layer: int, step: Linear) -> Iterator[tuple[str, Work]]:
        """Yield (step, work) for x W or, in the backward pass, for the gradients of W and x.

        If `step.of_weights` is true, the gradient of x is left out.
        """
        back = step.back
        for work in self.gathered(step.columns if back else step.inner):
            yield COLLECTIVES, work
        product = DenseProduct(
            rows=self.rows_of(layer, step.rows),
            inner=self.columns(step.inner) if back else step.inner,
            columns=step.columns if back else self.columns(step.columns),
        )
        for _ in range(2 if back and not step.of_weights else 1):
            yield "dense", product
        if isinstance(step, OwnLinear):
            words = self.outputs(layer) * self.columns(step.columns)
            yield "dense", Elementwise(OWN_WORDS[step.direction] * words)

    def neighbour_rows(self, layer: int, step: RowStep) -> Iterator[tuple[str, Work]]:
        """Yield (step, work) for a step that copies neighbours' rows, or reduces the copies."""
        raise InputError(
            "layers that gather rows of neighbours are predicted for row plans only; use a row plan"
        )


def moving(step: Step, works: Works) -> Iterator[tuple[str, Work]]:
    """Yield (step, work) of a step that sends rows: its messages, and copying or adding rows."""
    moved = works.get(step.name, ()) if step.moves else ()
    for work in moved[::-1] if isinstance(step, ScatterAdd) else moved:
        # Nothing moves within one rank, but a run counts the words of a sum of one rank.
        if is_of_one(work) and not isinstance(step, AllReduce):
            continue
        if step.reverse and isinstance(work, Transfer):
            work = work.reversed()
        name = work.step if isinstance(work, PointToPoint) else COLLECTIVES
        yield name, work
        if isinstance(work, PointToPoint):
            yield name, _copied(work)


def epoch(
    scheduler: Scheduler,
    dims: Sequence[int],
    passes: Sequence[str],
    convolution: Convolution,
    links: LinkTables | None = None,
) -> list[Operation]:
    """Return all operations of an epoch; with `links`, the loss comes from scores of links."""
    layers = list(enumerate(layers_of(dims, passes, convolution.options), 1))
    for width in dims:
        scheduler.check_width(width)
    weights = convolution.weights
    if weights is None:
        weights = sum(step.weights for _, layer in layers for step in layer.forward)
    loss = LOSS_WORDS * scheduler.outputs(len(layers)) * dims[-1]
    link_works: list[tuple[str, Work]] = []
    if links is not None:
        loss, link_works = LOSS_WORDS * links.scored, [*links.works(dims[-1])]
        weights += links.weights(dims[-1])
    forward = [(k, step) for k, layer in layers for step in layer.forward]
    back = [(k, step) for k, layer in reversed(layers) for step in layer.back]
    ranks = np.arange(scheduler.num_ranks)

    def placed(steps: Sequence[tuple[int, LayerStep]]) -> Iterator[Operation]:
        for layer, step in steps:
            for name, work in scheduler.operations(layer, step):
                yield Operation(Place(layer, step.direction, name), work)

    found = [
        *(Operation(Place(0, "batch", name), work) for name, work in scheduler.begun(dims[0])),
        *placed(forward),
        *(Operation(Place(0, "links", step), work) for step, work in link_works),
        Operation(Place(len(layers), "forward", "dense"), Elementwise(loss, LOSS_CALLS)),
        *placed(back),
    ]
    if len(ranks) > 1:  # the loss travels with the gradients
        summed = AllReduceWords(ranks[None], words=np.array([weights + 1]))
        found.append(Operation(Place(0, "update", "all-reduce"), summed))
    updated = np.full(len(ranks), UPDATE_WORDS * weights)
    return [*found, Operation(Place(0, "update", "dense"), Elementwise(updated))]


def is_of_one(work: Work) -> bool:
    """Return whether the work is a collective in groups of one rank, which sends nothing."""
    return isinstance(work, Collective) and work.members == 1


def _copied(messages: PointToPoint) -> Elementwise:
    """Return the owners' work of copying sent rows or, in reverse, of adding arriving sums.

    The other ranks' work, which is to add the rows or, in reverse, to copy the sums, is included
    only if the rows are for a later epoch.
    """
    rows, (owners, others) = messages.pairs.step, (PACK_WORDS, ADD_WORDS)
    if messages.reverse:
        owners, others = others, owners
    words = owners * rows.sent + messages.is_late * others * rows.received
    return Elementwise(words * messages.width)
