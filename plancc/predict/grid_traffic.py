"""Words that one product A H moves on a process grid, by what they are.

Knows schedules; no file, no machine, no training. A broadcast of m words among g ranks is g - 1
times m words, as the runtime counts it.
"""

from __future__ import annotations

from dataclasses import dataclass

from plancc.plan.layers import Aggregate
from plancc.plan.words import Transfer
from plancc.predict.schedule import (
    AllGatherOperation,
    AllReduceOperation,
    AllToAllOperation,
    BroadcastOperation,
)
from plancc.predict.schedules import Tables, scheduler_of


@dataclass(frozen=True)
class ProductTraffic:
    """Words of one product, forward, sent by all ranks.

    Attributes
    ----------
    width : int
        Columns of H.
    rows : int
        Rows of H: broadcasts within process columns, or messages where needed rows travel.
    sums : int
        Sums of the product that are scattered over the layers of a 3d grid.
    swapped : int
        Rows made into slices of columns before the product, and back after it (feature).
    reduced : int
        Words that ranks put into all-reductions over the copies (1.5d).
    matrix : int
        Blocks of A, broadcast within process rows (2d, 3d): a word per value, one for its column,
        and one for every row of a piece and its end.
    """

    width: int
    rows: int = 0
    sums: int = 0
    swapped: int = 0
    reduced: int = 0
    matrix: int = 0


def product_traffic(tables: Tables, width: int) -> ProductTraffic:
    """Words of one product (Tripathy et al. 2020, Algorithms 1 to 3; Wan et al. 2025, Algorithm 2).

    Parameters
    ----------
    tables : Tables
        Tables of a grid plan; their `blocks` make no difference to sums over ranks.
    width : int
        Columns of H.
    """
    words: dict[str, int] = {}
    for each in scheduler_of(tables).product(1, Aggregate(width)):
        if not isinstance(each, Transfer):
            continue
        counts, kind = each.counts(tables.num_ranks), _kind(each)
        moved = int(counts.words_sent.sum())
        if isinstance(each, AllReduceOperation):  # with oneself nothing is
            moved = int(counts.words_reduced.sum()) * (each.members > 1)
        words[kind] = words.get(kind, 0) + moved
    return ProductTraffic(width, **words)


def _kind(transfer: Transfer) -> str:
    """The attribute of `ProductTraffic` that has its words."""
    if isinstance(transfer, BroadcastOperation) and transfer.of_matrix:
        return "matrix"
    return {
        AllGatherOperation: "sums",
        AllToAllOperation: "swapped",
        AllReduceOperation: "reduced",
    }.get(type(transfer), "rows")
