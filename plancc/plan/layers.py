"""The steps of a layer: what it moves and computes, for the runtime's figures and for predictions.

A layer lists the steps of its forward pass. Its backward pass is the reversed list of their
adjoints. Passes that avoid work are edits of the list.
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
        back: Whether it is the adjoint, a step of the backward pass.
        at_hand: Whether its result is computed once, before the first epoch.
    """

    back: bool = field(default=False, kw_only=True)
    at_hand: bool = field(default=False, kw_only=True)

    @property
    def weights(self) -> int:
        """Numbers that it trains."""
        return 0

    @property
    def direction(self) -> str:
        """The pass that it belongs to."""
        return "back" if self.back else "forward"

    def adjoint(self) -> Self:
        """Return the step from gradients of its result to gradients of what it reads."""
        return replace(self, back=not self.back)


@dataclass(frozen=True)
class RowStep(LayerStep):
    """A step that keeps the number of columns."""

    columns: int


@dataclass(frozen=True)
class Aggregate(RowStep):
    """The product A x: needed rows of x travel, and in an edge plan partial sums.

    Attributes:
        coefficients: Values of A: a name in `COEFFICIENTS`.
    """

    coefficients: str = "plan"


@dataclass(frozen=True)
class GatherNeighbours(RowStep):
    """Needed rows travel, and stand behind own ones: the columns of A."""


@dataclass(frozen=True)
class Maximum(RowStep):
    """The element-wise maximum over gathered neighbours; in an edge plan partial ones travel."""


@dataclass(frozen=True)
class Attention(RowStep):
    """Sums over gathered neighbours, weighted by scores of both ends, one for every head."""

    heads: int = 1

    @property
    def weights(self) -> int:
        return 2 * self.columns


@dataclass(frozen=True)
class Linear(LayerStep):
    """The product x W of every row.

    Attributes:
        inner, columns: Shape of W.
        rows: "inputs" of the layer, "columns" of A or "outputs"; "": `placed` tells by the list.
        of_weights: Whether the adjoint has the gradient of W alone.
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
    """The product of the layer's own input and W, added to what the steps before give.

    Attributes:
        shared: Whether W is that of the `Linear` before.
    """

    rows: str = "outputs"
    shared: bool = False

    @property
    def weights(self) -> int:
        return 0 if self.shared else super().weights


@dataclass(frozen=True)
class Bias(RowStep):
    """Trained numbers, a number a column, that are added to every row or multiply it."""

    @property
    def weights(self) -> int:
        return self.columns


@dataclass(frozen=True)
class Activation(RowStep):
    """An element-wise function of every row."""


@dataclass(frozen=True)
class WholeRows(RowStep):
    """All columns of every row, where ranks hold slices of them."""


Steps = Sequence[LayerStep]
OF_GATHERED = Maximum | Attention
"""Steps that take gathered rows."""
COEFFICIENTS = ("plan", "mean", "sum", "closed-mean")
"""Values of A in a product (`plancc_runtime.layouts.block.Block.with_coefficients`)."""


def steps_problem(steps: object, d_in: int) -> str:
    """Return what is wrong with a layer's steps for inputs of this width, or ""."""
    if not isinstance(steps, list | tuple) or not steps:
        return f"give a list of steps of plancc.plan.layers, not {steps!r}"
    width, before = d_in, None
    for step in steps:
        if not isinstance(step, LayerStep):
            return f"{step!r} is no step of plancc.plan.layers"
        if isinstance(step, Aggregate) and step.coefficients not in COEFFICIENTS:
            return f"coefficients '{step.coefficients}': choose from {', '.join(COEFFICIENTS)}"
        if isinstance(step, OF_GATHERED) and not isinstance(before, GatherNeighbours):
            return f"{type(step).__name__} takes gathered rows: GatherNeighbours comes before it"
        columns = width
        if isinstance(step, Aggregate | GatherNeighbours | OF_GATHERED):
            columns = step.columns
        elif type(step) is Linear:
            columns = step.inner
        if columns != width:
            return f"{step!r} reads {columns} columns, where there are {width}"
        if isinstance(step, Linear):
            width = step.columns
        before = step
    return ""


class BothWays(NamedTuple):
    """The steps of a layer in an epoch."""

    forward: Steps
    back: Steps


def adjoint(steps: Steps, first: bool) -> Steps:
    """Return the adjoints in reversed order, less what only the input of a first layer needs."""
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
    """Return the steps of A (x W) for the steps of (A x) W; W passes one product."""
    found = list(steps)
    for k, (product, linear) in enumerate(pairwise(steps)):
        if type(product) is Aggregate and type(linear) is Linear and not product.at_hand:
            found[k : k + 2] = linear, replace(product, columns=linear.columns)
    return found


def moved_first(steps: Steps) -> list[LayerStep]:
    """Return the steps with a linear map after the product or gathered rows that follow it.

    This is (A x) W for A (x W).
    """
    match steps[:2]:
        case [Linear(inner=inner) as linear, (Aggregate() | GatherNeighbours()) as moving] if (
            type(linear) is Linear
        ):
            return [replace(moving, columns=inner), linear, *steps[2:]]
    return [*steps]


def input_at_hand(steps: Steps) -> Steps:
    """Return the steps, moved rows first, if all that comes before the first weights is known."""
    found = moved_first(steps)
    for k, step in enumerate(found):
        if step.weights:
            break
        found[k] = replace(step, at_hand=True)
    return found


def placed(steps: Steps) -> Steps:
    """Return the steps with the rows of every linear map."""
    found: list[LayerStep] = []
    rows = "inputs"
    for step in steps:
        if isinstance(step, GatherNeighbours):
            rows = "columns"
        elif isinstance(step, Aggregate | OF_GATHERED):
            rows = "outputs"
        elif isinstance(step, Linear) and not step.rows:
            step = replace(step, rows=rows)
        found.append(step)
    return found


def moved_columns(steps: Steps) -> int:
    """Return the columns of all rows that travel."""
    moving = (
        step
        for step in steps
        if isinstance(step, Aggregate | GatherNeighbours) and not step.at_hand
    )
    return sum(step.columns for step in moving)
