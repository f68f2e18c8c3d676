"""Counts how many words an epoch sends, before the epoch is executed.

Layers list their steps, and graphs count the words of a step (`LayerGraph.counts`).
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
    """Return the words that all ranks send in an epoch, with and without `passes`. Collective.

    `whole`, `live`: views of an epoch without and with the pass "dead-rows".
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
    """Return the words that this rank sends in each layer, forward and backward: int64[layers].

    If messages differ between epochs, the result is the sum over a cycle (`LayerGraph.cycle`).
    Collective if no products have been computed on the graphs yet.

    Parameters:
        graphs: Graph of every layer, as in a `View`.
        plain: Whether the pass "order" is off.
        fixed: Whether the first layer's exchange was before the epoch, and is not counted.
        reduced: Whether to count the words of all-reduces instead of the words sent.
    """
    words = np.zeros(len(graphs), np.int64)
    for k, graph in enumerate(graphs):
        found = _counts(graph, chain(*network.both_ways(k, fixed and k == 0, plain)))
        words[k] = (found.words_reduced if reduced else found.words_sent)[0]
    return words


def words_of_outputs(network: Network, graphs: Sequence[LayerGraph]) -> int:
    """Return the number of words that this rank sends in a forward pass. Not collective.

    If messages differ between epochs, the result is the mean over a cycle (`LayerGraph.cycle`).
    """
    words = 0
    for k, graph in enumerate(graphs):
        words += int(_counts(graph, network.both_ways(k)[0]).words_sent[0]) // graph.cycle
    return words


def _counts(graph: LayerGraph, steps: Iterable[LayerStep]) -> Counts:
    """Return this rank's traffic in a layer's steps, except steps with `LayerStep.at_hand`."""
    found = Counts.zero(1)
    for step in steps:
        if not step.at_hand:
            found.add(graph.counts(step))
    return found


@contextmanager
def stages_counted(network: Network, transport: Transport) -> Iterator[Counter[str]]:
    """Context manager that counts this rank's words in every stage (`Network.entered`)."""
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
    """Compare the words `sent` in training on `view` with the words that `Options.steps` predicts.

    Collective. Return a remark on the first layer whose counts differ, or "".
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
