"""The words of an epoch, counted before it is executed.

Layers list their steps, and graphs count the words of a step (`LayerGraph.counts`). This module
adds the words up, for all layouts, samples and mini-batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.plan.layers import LayerStep
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
    """Return the words of an epoch over all ranks, with and without the passes. Collective.

    Parameters:
        passes: Passes that are on; all but "overlap" change the number of words.
        whole, live: Views of an epoch without and with the pass "dead-rows".
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
    """Return the words that this rank sends in a training pass, by layer: int64[layers].

    Not collective, if products were made on these graphs before.

    Parameters:
        graphs: Graph of every layer, as in a `View`. The words of a whole cycle are counted.
        plain: Whether no pass is on.
        fixed: Whether the first layer's fixed part of the features is known.
        reduced: Whether to count instead the words that enter all-reductions of products.
    """
    words = np.zeros(len(graphs), np.int64)
    for k, graph in enumerate(graphs):
        found = _counts(graph, chain(*network.both_ways(k, fixed and k == 0, plain)))
        words[k] = (found.words_reduced if reduced else found.words_sent)[0]
    return words


def words_of_outputs(network: Network, graphs: Sequence[LayerGraph]) -> int:
    """Return the words that this rank sends in a forward pass; a mean over the cycle.

    Not collective. The parameters are those of `words_of_pass`.
    """
    words = 0
    for k, graph in enumerate(graphs):
        words += int(_counts(graph, network.both_ways(k)[0]).words_sent[0]) // graph.cycle
    return words


def _counts(graph: LayerGraph, steps: Iterable[LayerStep]) -> Counts:
    """Return this rank's traffic for the steps of a layer."""
    found = Counts.zero(1)
    for step in steps:
        if not step.at_hand:
            found.add(graph.counts(step))
    return found


@contextmanager
def stages_counted(network: Network, transport: Transport) -> Iterator[Counter[str]]:
    """Count the words that this rank sends in every stage of a training pass (`Network.entered`).

    The counts are complete when the context ends.
    """
    found, usual = Counter[str](), network.entered
    stage, before = "", transport.traffic.words_sent

    def enter(name: str) -> None:
        nonlocal stage, before
        sent = transport.traffic.words_sent
        found[stage] += sent - before
        stage, before = name, sent
        if usual is not None:
            usual(name)

    network.entered = enter
    try:
        yield found
    finally:
        network.entered = usual
        found[stage] += transport.traffic.words_sent - before


def steps_remark(network: Network, view: View, sent: Counter[str], transport: Transport) -> str:
    """Return a remark on the first layer that sends other words than its steps, or "".

    Collective.

    Parameters:
        view: View of the training pass.
        sent: Words of its stages, from `stages_counted`.
    """
    wrong = ""
    for k, graph in enumerate(view.graphs):
        both = network.both_ways(k, fixed=k == 0 and view.fixed is not None)
        for way, steps in zip(("forward", "back"), both, strict=True):
            told, counted = int(_counts(graph, steps).words_sent[0]), sent[f"layer {k + 1} {way}"]
            if told != counted and not wrong:
                wrong = (
                    f"layer {k + 1} ({type(network.convs[k]).__name__}) sends {counted:,} words "
                    f"{way} on rank {transport.rank}, but its steps say {told:,}; list its "
                    "messages in `Options.steps`, else its words and predictions are wrong"
                )
    found = transport.any(bool(wrong))
    return next(filter(None, transport.gather(wrong))) if found else ""
