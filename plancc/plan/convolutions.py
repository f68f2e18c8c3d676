"""Options of plancc's convolutions, and the steps of one layer that follow from the options.

A third party's convolution derives the class of its options from `ConvOptions`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar, Self

from plancc.errors import BackendError, InputError, PlanccError
from plancc.fields import check_options, option, type_in_words
from plancc.plan.layers import (
    Activation,
    Aggregate,
    Attention,
    Bias,
    BothWays,
    GatherNeighbours,
    Linear,
    Maximum,
    OwnLinear,
    Steps,
    adjoint,
    input_at_hand,
    placed,
    project_first,
    steps_problem,
)
from plancc.registry import check_choice, place_of
from plancc.text import shown

ORDERS = ("auto", "aggregate-first", "project-first", "paper")
PARAMETRIZATIONS = ("pyg", "paper")
AGGREGATORS = ("mean", "sum", "max", "gcn")
KINDS = {"int": int, "float": int | float, "bool": bool, "str": str}
"""Python types of options, by annotation. Options with other annotations are not checked."""
of_model = partial(option, section="Model")


@dataclass(frozen=True)
class ConvOptions:
    """Options that every convolution has. A convolution with more options defines a subclass.

    Attributes:
        parametrization: Which parameters a layer has, and how they are initialised. "pyg": the
            defaults of PyTorch Geometric's layer of the same name (torch_geometric 2.8.1). "paper":
            the equations of the model's paper, initialised as Glorot and Bengio (2010) propose.
        bias: Whether linear maps have a bias. If None, `parametrization` decides.
        paper_bias: Whether the equations of the model's paper have biases.
        printed: Names of the options that are printed together with a prediction.
    """

    parametrization: str = of_model(
        "pyg",
        "parameters of the layers and how they are drawn. pyg: as in PyTorch Geometric's layers of "
        "the same name. paper: as in the model's paper",
        more="See `plancc.plan.convolutions.ConvOptions`.",
        choices=PARAMETRIZATIONS,
    )
    bias: bool | None = of_model(None, "bias of the layers", otherwise="as `parametrization` says")

    paper_bias: ClassVar[bool] = False
    printed: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def read(cls, choices: Mapping[str, Any], of: str) -> Self:
        """Return options with the given values; strings are parsed as JSON unless the type is str.

        InputError is raised for unknown names and for values that are not allowed.
        """
        known = {each.name: type_in_words(each) for each in fields(cls)}
        found = dict(choices)
        for name, value in choices.items():
            check_choice(f"option of {of}", name, sorted(known))
            kind = known[name]
            if isinstance(value, str) and kind != "str":
                try:
                    found[name] = json.loads(value)
                except (ValueError, RecursionError):
                    raise _no_option(name, value, kind) from None
            if not _is_of_kind(found[name], kind):
                raise _no_option(name, value, kind)
        return cls(**found)

    @property
    def has_bias(self) -> bool:
        """Whether the linear maps of a layer have a bias."""
        if self.bias is not None:
            return self.bias
        return self.parametrization == "pyg" or self.paper_bias

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        """Return steps of a layer's forward pass; raise InputError if the options do not fit."""
        raise InputError(f"{type(self).__name__} does not define `steps`, the steps of a layer")

    def both_ways(
        self, widths: tuple[int, int], last: bool, first: bool, fixed: bool, after: Steps = ()
    ) -> BothWays:
        """Return the steps of a layer's forward pass and of its backward pass, in an epoch.

        `fixed`: whether pass "constant" computes, before training, what needs no weights.
        `after` are steps that the network adds after the layer.
        """
        steps = [*self._checked_steps(*widths, last), *after]
        forward = placed(input_at_hand(steps) if fixed else steps)
        return BothWays(forward, adjoint(self._transposed(forward), first))

    def _checked_steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        """Return the result of `steps`; raise BackendError, with file and line, if it is wrong."""
        where = f"steps of {type(self).__name__} ({place_of(type(self).steps)})"
        try:
            found = self.steps(d_in, d_out, last)
        except PlanccError:
            raise
        except Exception as error:  # a third party's code may raise anything
            raise BackendError(f"{where}: {type(error).__name__}: {error}") from error
        if problem := steps_problem(found, d_in):
            raise BackendError(f"{where}: {problem}")
        return found

    def _transposed(self, forward: Steps) -> Steps:
        """Return steps with the result of `forward`; the backward pass runs their adjoints."""
        return forward

    def with_order(self, order: str) -> Self:
        """Return a copy of these options with another order of the product A H W.

        A convolution without the option `order` returns its options unchanged.
        """
        return self

    def _with_bias(self, columns: int) -> Steps:
        return [Bias(columns)] if self.has_bias else []

    def title(self, name: str) -> str:
        """Return the name of the model `name` as tables and messages show it."""
        return name.upper() if CONVOLUTIONS.get(name) is type(self) else name


@dataclass(frozen=True)
class ProductOptions(ConvOptions):
    """Options of a convolution that computes the product A H W.

    Attributes:
        order: Order of the product. "aggregate-first": (A H) W. "project-first": A (H W). "auto":
            the order that moves fewer columns, min(d_in, d_out). "paper": Algorithms 1 and 2 of
            Demirci et al. 2022, which move d_in columns in the forward pass and d_out columns in
            the backward pass.
    """

    order: str = option("auto", choices=ORDERS)

    def with_order(self, order: str) -> Self:
        return replace(self, order=order)

    def _transposed(self, forward: Steps) -> Steps:
        return project_first(forward) if self.order == "paper" else forward

    def in_order(self, d_in: int, d_out: int, coefficients: str) -> Steps:
        """Return the steps that compute A H W, in the order that the option `order` names."""
        steps = [Aggregate(d_in, coefficients), Linear(d_in, d_out)]
        narrower = self.order == "auto" and d_out < d_in
        return project_first(steps) if narrower or self.order == "project-first" else steps


@dataclass(frozen=True)
class GCNOptions(ProductOptions):
    """Options of the graph convolution (Kipf and Welling 2017)."""

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        return [*self.in_order(d_in, d_out, "plan"), *self._with_bias(d_out)]


@dataclass(frozen=True)
class SAGEOptions(ProductOptions):
    """Options of GraphSAGE (Hamilton et al. 2017).

    Attributes:
        aggregator: A name in `AGGREGATORS`. The aggregator "gcn" has no separate weights for a
            vertex's own row.
    """

    aggregator: str = of_model("mean", "For sage: aggregator", choices=AGGREGATORS)
    printed: ClassVar[tuple[str, ...]] = ("aggregator",)

    @property
    def coefficients(self) -> str:
        """Which values A has: a name in `COEFFICIENTS`. Aggregator "max" ignores the values."""
        return "closed-mean" if self.aggregator == "gcn" else self.aggregator

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        steps = self.in_order(d_in, d_out, self.coefficients)
        if self.aggregator == "max":
            steps = [GatherNeighbours(d_in), Maximum(d_in), Linear(d_in, d_out)]
        own = [] if self.aggregator == "gcn" else [OwnLinear(d_in, d_out)]
        return [*steps, *own, *self._with_bias(d_out)]

    def title(self, name: str) -> str:
        return f"GraphSAGE ({self.aggregator})"


@dataclass(frozen=True)
class GINOptions(ProductOptions):
    """Options of the graph isomorphism network (Xu et al. 2019).

    Attributes:
        train_eps: Whether eps, which starts at 0, is trained. None means that it is trained only if
            the option `parametrization` is "paper".
    """

    train_eps: bool | None = None
    paper_bias: ClassVar[bool] = True

    @property
    def trains_eps(self) -> bool:
        return self.parametrization != "pyg" if self.train_eps is None else self.train_eps

    def width(self, d_in: int, d_out: int, last: bool) -> int:
        """Return the number of columns between the two linear maps of the MLP.

        In the last layer, this is the larger of `d_in` and `d_out`: if there were few columns, the
        ReLU could soon turn all values into 0.
        """
        return max(d_in, d_out) if last else d_out

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        width = self.width(d_in, d_out, last)
        return [
            *self.in_order(d_in, width, "sum"),
            OwnLinear(d_in, width, shared=True),
            *([Bias(1)] if self.trains_eps else []),
            *self._with_bias(width),
            Activation(width),
            Linear(width, d_out),
            *self._with_bias(d_out),
        ]


@dataclass(frozen=True)
class GATOptions(ConvOptions):
    """Options of the graph attention network (Velickovic et al. 2018).

    Attributes:
        heads: Number of attention heads; the last layer averages the heads.
        attention_dropout: Probability, in [0, 1), that training drops an attention weight.
    """

    heads: int = of_model(
        1,
        "For gat: attention heads; each has 1/heads of the width of a layer",
        at_least=1,
        at_most=2**31 - 1,
    )
    attention_dropout: float = of_model(
        0.0, "For gat: dropout of the weights of attention", metavar="P", at_least=0, below=1
    )
    printed: ClassVar[tuple[str, ...]] = ("heads",)

    def head_width(self, d_out: int, last: bool, option: str = "the width") -> int:
        """Return the number of columns of one attention head.

        Except in the last layer, `heads` must divide `d_out`; else an InputError proposes a value
        for `option`.
        """
        if not last and d_out % self.heads:
            raise InputError(
                f"`heads` {self.heads}: does not divide the width {d_out} of a layer; for {d_out} "
                f"columns in each head, set {option} to {self.heads * d_out}"
            )
        return d_out if last else d_out // self.heads

    def steps(self, d_in: int, d_out: int, last: bool) -> Steps:
        columns = self.heads * self.head_width(d_out, last)
        attention = Attention(columns, self.heads)
        return [
            Linear(d_in, columns),
            GatherNeighbours(columns),
            attention,
            *self._with_bias(d_out),
        ]

    def title(self, name: str) -> str:
        return f"GAT ({self.heads} head{'s' * (self.heads > 1)})"


CONVOLUTIONS: dict[str, type[ConvOptions]] = {
    "gcn": GCNOptions,
    "sage": SAGEOptions,
    "gin": GINOptions,
    "gat": GATOptions,
}
"""Classes of options of plancc's own convolutions, by the name of the model."""


@dataclass(frozen=True)
class Convolution:
    """The kind of convolution that a network uses in all its layers, with its options.

    Attributes:
        name: A model of `plancc-run`.
        weights: Number of trained parameters of a network with vertex types; None: the number is
            the sum over the steps of the layers.
    """

    name: str = "gcn"
    options: ConvOptions = field(default_factory=GCNOptions)
    weights: int | None = None

    def __str__(self) -> str:
        return self.options.title(self.name)

    def as_dict(self) -> dict[str, Any]:
        """Return the name, and the options that commands print, ready for JSON."""
        options = self.options
        return {"name": self.name, **{name: getattr(options, name) for name in options.printed}}


def _is_of_kind(value: Any, kind: str) -> bool:
    """Return whether `value` fits an option's type `kind`; unknown types accept every value."""
    plain = kind.removesuffix(" | None")
    if plain not in KINDS or (value is None and kind != plain):
        return True
    return isinstance(value, KINDS[plain]) and isinstance(value, bool) == (plain == "bool")


def _no_option(name: str, value: Any, kind: str) -> InputError:
    words = {"int": "a whole number", "float": "a number", "bool": "true or false"}
    wanted = words.get(kind.removesuffix(" | None"), "text")
    return InputError(f"{name} '{shown(value)}': give {wanted}")
