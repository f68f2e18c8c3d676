"""Graph convolutions of a network: what travels for them and what they compute. Knows widths only.

Names are those of the runtime (`plancc-run --model`). Rows that a layer moves, in columns, per
epoch:

==================  ====================================  ==================================
model               forward                               back
==================  ====================================  ==================================
gcn, sage           as of `plancc.predict.passes`
sage, maximum       d_in                                  d_in; nothing in the first layer
gat                 all heads: d_out, in the last layer   the same
                    heads x d_out
any, first layer,   nothing                               nothing
pass constant
==================  ====================================  ==================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from plancc.errors import InputError
from plancc.predict.passes import moved_widths
from plancc.registry import check_choice

AGGREGATORS = ("mean", "sum", "max", "gcn")
"""How GraphSAGE aggregates; "gcn" has no second W."""


@dataclass(frozen=True)
class Convolution:
    """The convolution of all layers of a network."""

    @property
    def takes_maximum(self) -> bool:
        """Whether a layer has the element-wise maximum over neighbours in place of a sum."""
        return False

    @property
    def has_own_weight(self) -> bool:
        """Whether the row of a vertex itself is multiplied by a second W."""
        return False

    @property
    def scores(self) -> int:
        """Weights of a sum, for every nonzero, that follow from the rows (attention)."""
        return 0

    @property
    def attends(self) -> bool:
        """Whether there are such scores."""
        return self.scores > 0

    @property
    def name(self) -> str:
        """As in `CONVOLUTIONS`."""
        return next(name for name, kind in CONVOLUTIONS.items() if kind is type(self))

    def moved_widths(self, dims: Sequence[int], passes: Sequence[str]) -> list[tuple[int, int]]:
        """Columns of the rows that every layer moves forward and back, with these passes.

        Raises
        ------
        InputError
            If heads do not divide a width that they share.
        """
        return moved_widths(dims, passes)

    def projected(self, dims: Sequence[int]) -> list[int]:
        """Columns of H W in every layer; InputError as of `moved_widths`."""
        return list(dims[1:])

    def weights(self, dims: Sequence[int]) -> int:
        """Weights of the network, with a bias for every layer."""
        matrices = 2 if self.has_own_weight else 1
        scores = 2 if self.attends else 0
        return sum(
            (matrices * d_in + scores) * columns + d_out
            for (d_in, d_out), columns in zip(pairwise(dims), self.projected(dims), strict=True)
        )


@dataclass(frozen=True)
class GCN(Convolution):
    """Kipf and Welling 2017."""

    def __str__(self) -> str:
        return "GCN"


@dataclass(frozen=True)
class SAGE(Convolution):
    """Hamilton et al. 2017.

    Attributes
    ----------
    aggregator : str
        One of `AGGREGATORS`.
    """

    aggregator: str = "mean"

    def __post_init__(self) -> None:
        check_choice("aggregator", self.aggregator, AGGREGATORS)

    def __str__(self) -> str:
        return f"GraphSAGE ({self.aggregator})"

    @property
    def takes_maximum(self) -> bool:
        return self.aggregator == "max"

    @property
    def has_own_weight(self) -> bool:
        return self.aggregator != AGGREGATORS[-1]

    def moved_widths(self, dims: Sequence[int], passes: Sequence[str]) -> list[tuple[int, int]]:
        if not self.takes_maximum:
            return moved_widths(dims, passes)
        widths = [(d_in, d_in if layer else 0) for layer, d_in in enumerate(dims[:-1])]
        return _constant(widths, passes)


@dataclass(frozen=True)
class GAT(Convolution):
    """Costs of a graph attention layer (Velickovic et al. 2018).

    Attributes
    ----------
    heads : int
        They are concatenated, and averaged in the last layer. InputError below 1.
    """

    heads: int = 1

    def __post_init__(self) -> None:
        if self.heads < 1:
            raise InputError(f"`heads` {self.heads}: at least 1 is needed")

    @property
    def scores(self) -> int:
        return self.heads

    def __str__(self) -> str:
        return f"GAT ({self.heads} head{'s' * (self.heads > 1)})"

    def moved_widths(self, dims: Sequence[int], passes: Sequence[str]) -> list[tuple[int, int]]:
        return _constant([(columns, columns) for columns in self.projected(dims)], passes)

    def projected(self, dims: Sequence[int]) -> list[int]:
        *widths, last = dims[1:]
        for width in widths:
            if width % self.heads:
                raise InputError(
                    f"`heads` {self.heads}: must divide the width {width} of a layer, which they "
                    f"share: for {width} columns in each, give the width {self.heads * width}"
                )
        return [*widths, self.heads * last]


def _constant(widths: list[tuple[int, int]], passes: Sequence[str]) -> list[tuple[int, int]]:
    """Without the first layer's, whose inputs are at hand with the pass "constant"."""
    return [(0, 0), *widths[1:]] if "constant" in passes else widths


DEFAULT_CONVOLUTION = GCN()
CONVOLUTIONS: dict[str, type[Convolution]] = {"gcn": GCN, "sage": SAGE, "gat": GAT}
