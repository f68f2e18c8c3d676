"""The words of an epoch, before it is executed. Knows networks and graphs; must not know layouts.

What layers ask of their graphs follows from the network, what travels for it from the graphs
(`LayerGraph.counts`), and both are added up here: for all layouts, samples and mini-batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from plancc.plan.exchange import Int64Array
from plancc_runtime.layouts.layer_graph import LayerGraph, Request
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.requests import asked_of_graphs
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
    asked = requests_of(network, graphs[0])
    words = np.zeros(len(graphs), np.int64)
    for k, (conv, graph) in enumerate(zip(network.convs, graphs, strict=True)):
        if plain:
            forward, back = conv.plain_widths(first=k == 0)
        else:
            forward, back = conv.widths()
            if k == 0 and conv.moves_input:  # no gradient goes back to the features
                back = 0
        products = [each for each in asked[k] if each.kind == "product"]
        others = [each for each in asked[k] if each.kind != "product"]
        values = products[0].coefficients if products else "plan"
        if not (fixed and k == 0):
            others.append(Request("product", forward, False, values))
            others.append(Request("product", back, True, values))
        counts = [graph.counts(each) for each in others]
        words[k] = sum(
            int((each.words_reduced if reduced else each.words_sent)[0]) for each in counts
        )
    return words


def requests_of(network: Network, graph: LayerGraph) -> list[list[Request]]:
    """What an epoch asks of graphs such as this one, layer by layer; not collective.

    Empty where rows travel in products only, whose widths the layers know.
    """
    if isinstance(graph, LocalGraph):
        return [[] for _ in network.convs]

    def forward(graphs: Sequence[LayerGraph]) -> Tensor:
        return network(graphs, next(network.parameters()).new_empty(0, network.dims[0]))

    mode = network.training
    network.eval()
    found = asked_of_graphs(forward, list(network.parameters()), len(network.convs))
    network.train(mode)
    return found
