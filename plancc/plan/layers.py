"""The steps of a layer: which rows are sent, and what is computed, for figures and predictions.

A backward pass runs the adjoints of the layer's steps in reversed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Self


@dataclass(frozen=True)
class LayerStep:
    """One step of a layer.

    Attributes:
        back: Whether the step is an adjoint, which runs in the backward pass.
        at_hand: Whether the result is computed only once, before the first epoch.
    """

    back: bool = field(default=False, kw_only=True)
    at_hand: bool = field(default=False, kw_only=True)

    @property
    def weights(self) -> int:
        """Number of trained parameters in the step."""
        return 0

    @property
    def direction(self) -> str:
        """ "back" if the step belongs to the backward pass, else "forward"."""
        return "back" if self.back else "forward"

    def adjoint(self) -> Self:
        """Return the step that turns gradients of the result into gradients of the input."""
        return replace(self, back=not self.back)


@dataclass(frozen=True)
class RowStep(LayerStep):
    """A step whose result has as many columns as its input."""

    columns: int


@dataclass(frozen=True)
class Aggregate(RowStep):
    """The product A x: an expand of x before it and, in an edge plan, a fold after it.

    Attributes:
        coefficients: Name of A's values in `COEFFICIENTS`.
    """

    coefficients: str = "plan"


@dataclass(frozen=True)
class GatherNeighbours(RowStep):
    """Receive halo rows and append them to the own rows: one row for each local column of A."""


@dataclass(frozen=True)
class Maximum(RowStep):
    """The element-wise maximum over the gathered rows of a vertex's neighbours.

    In an edge plan, other ranks send partial maxima to the owners.
    """


@dataclass(frozen=True)
class Attention(RowStep):
    """For every head, a sum of gathered neighbour rows; both ends of an edge give its weight."""

    heads: int = 1

    @property
    def weights(self) -> int:
        return 2 * self.columns


@dataclass(frozen=True)
class Linear(LayerStep):
    """The product x W.

    Attributes:
        inner, columns: Number of rows and of columns of W.
        rows: Rows of x: "inputs" or "outputs" of the layer, local "columns" of A, or "" (not set).
        of_weights: Whether the adjoint computes only the gradient of W.
    """

    inner: int
    columns: int
    rows: str = ""
    of_weights: bool = field(default=False, kw_only=True)

    @property
    def weights(self) -> int:
        return self.inner * self.columns


@dataclass(frozen=True)
class OwnLinear(Linear):
    """The product x W, added to the result of the previous step. x: own rows of the layer's input.

    Attributes:
        shared: Whether W is the same matrix as in the previous `Linear`.
    """

    rows: str = "outputs"
    shared: bool = False

    @property
    def weights(self) -> int:
        return 0 if self.shared else super().weights


@dataclass(frozen=True)
class Bias(RowStep):
    """A trained vector, one number per column, which is added to or multiplied with every row."""

    @property
    def weights(self) -> int:
        return self.columns


@dataclass(frozen=True)
class Activation(RowStep):
    """An element-wise function of every row."""


@dataclass(frozen=True)
class WholeRows(RowStep):
    """Send all columns of every row to ranks that hold only some of the columns."""


Steps = Sequence[LayerStep]
GATHER_READERS = Maximum | Attention
"""Steps that read gathered rows."""
COEFFICIENTS = ("plan", "mean", "sum", "closed-mean")
"""Names for values of A in a product (`plancc_runtime.layouts.block.Block.with_coefficients`)."""


def steps_problem(steps: object, d_in: int) -> str:
    """Return what is wrong with a layer's steps, which may be any object; "" if nothing is."""
    if not isinstance(steps, list | tuple) or not steps:
        return f"give a list of steps of plancc.plan.layers, not {steps!r}"
    width, before = d_in, None
    for step in steps:
        if not isinstance(step, LayerStep):
            return f"{step!r} is not a step of plancc.plan.layers"
        if isinstance(step, Aggregate) and step.coefficients not in COEFFICIENTS:
            return f"coefficients '{step.coefficients}': choose from {', '.join(COEFFICIENTS)}"
        if isinstance(step, GATHER_READERS) and not isinstance(before, GatherNeighbours):
            return f"{type(step).__name__} needs gathered rows; put GatherNeighbours first"
        columns = width
        if isinstance(step, Aggregate | GatherNeighbours | GATHER_READERS):
            columns = step.columns
        elif type(step) is Linear:
            columns = step.inner
        if columns != width:
            return f"{step!r} reads {columns} columns, but its input has {width}"
        if isinstance(step, Linear):
            width = step.columns
        before = step
    return ""


class BothWays(NamedTuple):
    """The steps of a layer's forward and backward pass in an epoch."""

    forward: Steps
    back: Steps


def adjoint(steps: Steps, first: bool) -> Steps:
    """Return the adjoints of the steps in reversed order.

    In the network's first layer (`first`), steps before the first step with weights get no adjoint.
    """
    found: list[LayerStep] = []
    trained = not first
    for step in steps:
        if isinstance(step, Linear):
            reads_input = isinstance(step, OwnLinear)
            step = replace(step, of_weights=not trained or (first and reads_input))
        trained = trained or step.weights > 0
        if trained:
            found.append(step.adjoint())
    return found[::-1]


def project_first(steps: Steps) -> Steps:
    """Turn (A x) W into A (x W): swap a product with A and the product with W that follows it."""
    found = list(steps)
    for k, (product, linear) in enumerate(pairwise(steps)):
        if type(product) is Aggregate and type(linear) is Linear and not product.at_hand:
            found[k : k + 2] = linear, replace(product, columns=linear.columns)
    return found


def moved_first(steps: Steps) -> list[LayerStep]:
    """Turn A (x W) into (A x) W, if the first step is linear and the second sends rows."""
    match steps[:2]:
        case [Linear(inner=inner) as linear, (Aggregate() | GatherNeighbours()) as moving] if (
            type(linear) is Linear
        ):
            return [replace(moving, columns=inner), linear, *steps[2:]]
    return [*steps]


def input_at_hand(steps: Steps) -> Steps:
    """Return the steps, with the exchange of the layer's input first.

    The steps before the first weights are marked `at_hand`, since their results never change.
    """
    found = moved_first(steps)
    for k, step in enumerate(found):
        if step.weights:
            break
        found[k] = replace(step, at_hand=True)
    return found


def placed(steps: Steps) -> Steps:
    """Return the steps, with `Linear.rows` set in every linear map."""
    found: list[LayerStep] = []
    rows = "inputs"
    for step in steps:
        if isinstance(step, GatherNeighbours):
            rows = "columns"
        elif isinstance(step, Aggregate | GATHER_READERS):
            rows = "outputs"
        elif isinstance(step, Linear) and not step.rows:
            step = replace(step, rows=rows)
        found.append(step)
    return found


def moved_columns(steps: Steps) -> int:
    """Return the columns of sent rows, summed over the steps that every epoch repeats."""
    moving = (
        step
        for step in steps
        if isinstance(step, Aggregate | GatherNeighbours) and not step.at_hand
    )
    return sum(step.columns for step in moving)
