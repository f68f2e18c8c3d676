"""An epoch of a GCN layer by layer, whatever the layout. Knows widths and passes; no plan.

A `Scheduler` has the operations of a layout's products with A and with W. Their order, and what the
passes leave out, stand here (`plancc.predict.passes` has the widths):

    forward    aggregate first: A, W       project first: W, A       constant first layer: W
    back       W, A                        A, W                      W
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array
from plancc.predict.convolutions import DEFAULT_CONVOLUTION, Convolution
from plancc.predict.memory import Memory
from plancc.predict.passes import PASSES
from plancc.predict.schedule import AllReduce, DenseProduct, Elementwise, Operation, Place
from plancc.registry import check_choice

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


@dataclass(frozen=True)
class Layer:
    """One layer of an epoch.

    Attributes
    ----------
    number : int
        From 1.
    d_in, d_out : int
    forward, back : int
        Columns of the product with A in both directions; 0: there is none.
    project_first : bool
    projected : int
        Columns of H W.
    convolution : Convolution
    """

    number: int
    d_in: int
    d_out: int
    forward: int
    back: int
    project_first: bool
    projected: int
    convolution: Convolution

    @property
    def projects(self) -> bool:
        """Whether rows are multiplied by W before they travel."""
        return self.convolution.attends or (self.project_first and self.forward > 0)

    def dense(self, direction: str) -> Place:
        """The place of its dense products."""
        return Place(self.number, direction, "dense")


def layers_of(
    dims: Sequence[int], passes: Sequence[str], convolution: Convolution = DEFAULT_CONVOLUTION
) -> list[Layer]:
    """The layers of these widths d_0..d_L; InputError if there is no such pass."""
    for name in passes:
        check_choice("pass", name, PASSES)
    if len(dims) < 2 or min(dims) < 1:
        raise InputError(f"dims {list(dims)}: give at least two widths from 1")
    may_project = "order" in passes and not convolution.takes_maximum
    moved, projected = convolution.moved_widths(dims, passes), convolution.projected(dims)
    return [
        Layer(number, d_in, d_out, *widths, may_project and d_out < d_in, columns, convolution)
        for number, ((d_in, d_out), widths, columns) in enumerate(
            zip(pairwise(dims), moved, projected, strict=True), 1
        )
    ]


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
    def product(self, layer: int, direction: str, width: int) -> Iterator[Operation]:
        """A x, or back A^T g, of so many columns."""

    def outputs(self, layer: int) -> Int64Array:
        """Rows of every rank in the output of a layer: int64[num_ranks]."""
        return self.rows

    def inputs(self, layer: int) -> Int64Array:
        """Rows of every rank in the input of a layer: int64[num_ranks]."""
        return self.rows

    def columns(self, width: int) -> int | Int64Array:
        """Columns of a matrix of this width that every rank holds between products."""
        return width

    def linear(self, layer: Layer) -> Iterator[Operation]:
        """x W."""
        yield from self.gathered(layer, "forward", layer.d_in)
        yield DenseProduct(
            layer.dense("forward"),
            rows=self.multiplied(layer),
            inner=layer.d_in,
            columns=self.columns(layer.projected),
        )

    def linear_back(self, layer: Layer) -> Iterator[Operation]:
        """The gradients of W, and of x but in the first layer."""
        yield from self.gathered(layer, "back", layer.d_out)
        for _ in range(1 if layer.number == 1 else 2):
            yield DenseProduct(
                layer.dense("back"),
                rows=self.multiplied(layer),
                inner=self.columns(layer.d_in),
                columns=layer.projected,
            )

    def own_linear(self, layer: Layer, direction: str) -> Iterator[Operation]:
        """The products of rows with a second W, without those of the neighbours."""
        for _ in range(2 if direction == "back" and layer.number > 1 else 1):
            yield DenseProduct(
                layer.dense(direction),
                rows=self.outputs(layer.number),
                inner=layer.d_in,
                columns=layer.d_out,
            )
        words = OWN_WORDS[direction] * self.outputs(layer.number) * layer.d_out
        yield Elementwise(layer.dense(direction), words=words)

    def maximum(self, layer: Layer, direction: str) -> Iterator[Operation]:
        """The element-wise maximum over neighbours, or its gradient; InputError if there is none.

        Only where it is not at hand (`Layer.forward`).
        """
        raise InputError("aggregator 'max' is predicted for row plans only")

    def attention(self, layer: Layer, direction: str) -> Iterator[Operation]:
        """Scores and sums of graph attention, or their gradients; InputError if there is none."""
        raise InputError("model 'gat' is predicted for row plans only")

    def multiplied(self, layer: Layer) -> Int64Array:
        """Rows of the products with W: int64[num_ranks]."""
        return self.inputs(layer.number) if layer.projects else self.outputs(layer.number)

    def gathered(self, layer: Layer, direction: str, width: int) -> Iterator[Operation]:
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
    convolution: Convolution = DEFAULT_CONVOLUTION,
) -> list[Operation]:
    """All operations of an epoch: forward, back, update."""
    layers = layers_of(dims, passes, convolution)
    for width in dims:
        scheduler.check_width(width)
    return [
        *_forward(scheduler, layers),
        *_back(scheduler, layers),
        *_update(scheduler, convolution.weights(dims)),
    ]


def _forward(scheduler: Scheduler, layers: Sequence[Layer]) -> Iterator[Operation]:
    for layer in layers:
        if layer.projects:
            yield from scheduler.linear(layer)
        yield from _aggregated(scheduler, layer, "forward", layer.forward)
        if not layer.projects:
            yield from scheduler.linear(layer)
        if layer.convolution.has_own_weight:
            yield from scheduler.own_linear(layer, "forward")
        if layer is not layers[-1]:
            words = scheduler.outputs(layer.number) * scheduler.columns(layer.d_out)
            yield Elementwise(layer.dense("forward"), words=ACTIVATION_WORDS * words)
    last = layers[-1]
    yield from scheduler.whole_rows(last.number, last.d_out)
    words = LOSS_WORDS * scheduler.outputs(last.number) * last.d_out
    yield Elementwise(last.dense("forward"), words=words, calls=LOSS_CALLS)


def _back(scheduler: Scheduler, layers: Sequence[Layer]) -> Iterator[Operation]:
    for layer in reversed(layers):
        if layer is not layers[-1]:
            words = scheduler.outputs(layer.number) * scheduler.columns(layer.d_out)
            yield Elementwise(layer.dense("back"), words=GRADIENT_WORDS * words)
        # as Demirci et al. 2022 have it, S = A^T G comes first: d_out columns
        narrow = layer.back == layer.d_out and not layer.convolution.takes_maximum
        product_first = narrow or layer.convolution.attends
        if product_first:
            yield from _aggregated(scheduler, layer, "back", layer.back)
        yield from scheduler.linear_back(layer)
        if layer.convolution.has_own_weight:
            yield from scheduler.own_linear(layer, "back")
        if not product_first:
            yield from _aggregated(scheduler, layer, "back", layer.back)


def _aggregated(
    scheduler: Scheduler, layer: Layer, direction: str, width: int
) -> Iterator[Operation]:
    """What a layer makes of the rows of neighbours, or the gradients of these."""
    if layer.convolution.attends:
        yield from scheduler.attention(layer, direction)
    elif width and layer.convolution.takes_maximum:
        yield from scheduler.maximum(layer, direction)
    elif width:
        yield from scheduler.product(layer.number, direction, width)


def _update(scheduler: Scheduler, weights: int) -> Iterator[Operation]:
    if scheduler.num_ranks > 1:
        yield AllReduce(
            Place(0, "update", "all-reduce"),
            ranks=np.arange(scheduler.num_ranks)[None],
            words=np.array([weights + 1]),  # the loss travels with them
        )
    yield Elementwise(
        Place(0, "update", "dense"),
        words=np.full(scheduler.num_ranks, UPDATE_WORDS * weights),
    )
