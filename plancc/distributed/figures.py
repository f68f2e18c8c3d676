"""Figures of a plan whose parts are on several ranks."""

from __future__ import annotations

import numpy as np

from plancc.cost.owners import BASELINE_SEED
from plancc.distributed.kernels import count_traffic, pairs, parts_of_nets
from plancc.distributed.lowering import OwnParts
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import Int64Array, Share
from plancc.models.random import random_owner
from plancc.plan.metrics import Metrics, StepTraffic, Traffic, summarize
from plancc.plan.rank_parts import block_of_parts

NETS_AT_ONCE = 1 << 20
"""Nets whose messages are looked at together."""


def metrics_of(ranks: Ranks, parts: OwnParts) -> Metrics:
    """The figures of the plan, on every rank. Collective."""
    first, last = (int(each) for each in parts.bounds[ranks.rank : ranks.rank + 2])
    ends = parts.row_ptr[parts.part_ptr[first : last + 1] - parts.part_ptr[first]]
    nonzeros = ranks.concatenated(np.diff(ends))
    step = StepTraffic.of(parts.expand)
    of_all = StepTraffic(*(ranks.concatenated(each) for each in step))
    return summarize(Traffic(np.diff(parts.part_ptr), nonzeros, *of_all))


def random_metrics(ranks: Ranks, share: Share, num_parts: int) -> Metrics:
    """Those of the baseline (`plancc.cost.owners.random_traffic`). Collective."""
    n = len(share.degree)
    owner = random_owner(n, num_parts, BASELINE_SEED)
    ptr, entry = parts_of_nets(share.first, share.net_ptr, share.pins, owner, num_parts)
    sent, received = (
        ranks.sums(each) for each in count_traffic(share.first, ptr, entry, owner, num_parts)
    )
    talking: Int64Array = np.empty(0, dtype=np.int64)
    for start in range(0, len(ptr) - 1, NETS_AT_ONCE):
        stop = min(start + NETS_AT_ONCE, len(ptr) - 1)
        some = pairs(share.first, ptr, entry, owner, num_parts, start, stop)
        talking = np.union1d(talking, some)
    cuts = np.searchsorted(talking, block_of_parts(num_parts, ranks.size)[1:-1] * num_parts)
    talking = np.unique(np.concatenate(ranks.swapped(np.split(talking, cuts))))
    messages_sent, messages_received = (
        ranks.sums(np.bincount(of, minlength=num_parts))
        for of in (talking // num_parts, talking % num_parts)
    )
    rows = np.bincount(owner, minlength=num_parts)
    nonzeros = np.zeros(num_parts, dtype=np.int64)
    np.add.at(nonzeros, owner, share.degree)
    return summarize(Traffic(rows, nonzeros, sent, received, messages_sent, messages_received))
