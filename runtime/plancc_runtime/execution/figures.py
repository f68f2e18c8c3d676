"""The words of an epoch, before it is executed.

Layers say their steps, graphs what travels for a step (`LayerGraph.counts`). Both are added up
here: for all layouts, samples and mini-batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.plan.words import Counts
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.nn.network import Network
from plancc_runtime.options import PASSES
from plancc_runtime.results import Figures
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View


def figures_of(
    network: Network, passes: Sequence[str], whole: View, live: View, transport: Transport
) -> Figures:
    """Words of an epoch over all ranks, with and without the passes. Collective.

    Parameters
    ----------
    network : Network
    passes : sequence of str
        Those that are on; all but "overlap" change the number.
    whole, live : View
        What epochs work on without and with the pass "dead-rows".
    transport : Transport
    """
    on = [name for name in PASSES if name in passes and name != "overlap"]
    counted = [words_of_pass(network, whole.graphs, plain=True)]
    for number in range(len(on) + 1):
        done = on[:number]
        graphs = live.graphs if "dead-rows" in done else whole.graphs
        counted.append(words_of_pass(network, graphs, fixed="constant" in done))
    counted.append(words_of_pass(network, graphs, fixed="constant" in on, reduced=True))
    sent = np.array(counted)
    transport.allreduce_sum(sent)
    cycles = [graph.cycle for graph in live.graphs]
    plain, *words, reduced = (
        sum(round(n / cycle) for n, cycle in zip(of_layers, cycles, strict=True))
        for of_layers in sent.tolist()
    )
    return Figures(plain, dict(zip(on, words[1:], strict=True)), words[-1], reduced)


def words_of_pass(
    network: Network,
    graphs: Sequence[LayerGraph],
    *,
    plain: bool = False,
    fixed: bool = False,
    reduced: bool = False,
) -> Int64Array:
    """Words that this rank sends in a training pass, by layer: int64[layers].

    Not collective, once products were made on these graphs.

    Parameters
    ----------
    network : Network
    graphs : sequence of LayerGraph
        One per layer, as in a `View`; a whole cycle of theirs is counted.
    plain : bool
        Whether products move what they do without any pass.
    fixed : bool
        Whether what the first layer needs of the features is at hand.
    reduced : bool
        Whether to count what it puts into all-reductions of products instead.
    """
    words = np.zeros(len(graphs), np.int64)
    for k, graph in enumerate(graphs):
        found = Counts.zero(1)
        for step in chain(*network.both_ways(k, fixed and k == 0, plain)):
            if not step.at_hand:
                found.add(graph.counts(step))
        words[k] = (found.words_reduced if reduced else found.words_sent)[0]
    return words
