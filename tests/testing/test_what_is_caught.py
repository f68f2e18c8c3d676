"""The checks fail for what is wrong: one fault at a time, in copies of what is built in."""

from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest
import scipy.sparse as sp

from plancc.graph.canonical import build_graph
from plancc.graph.convert import as_graph
from plancc.graph.formats import FORMATS, Format
from plancc.models import MODELS
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.builtin import ADAPTER
from plancc.sampling import SAMPLERS
from plancc.sampling.uniform import UniformSampler
from plancc.testing.formats import FormatTests
from plancc.testing.models import ModelTests, graph_of
from plancc.testing.partitioners import PartitionerTests
from plancc.testing.samplers import SamplerTests
from plancc_runtime.testing.transports import check_exchanges
from plancc_runtime.transport.local import LocalChannel, run_ranks

CHANGES = np.random.default_rng()


def partitioned(change):
    def run(problem, num_parts, **options):
        owner = ADAPTER.run(problem, num_parts, **options)
        return change(problem, owner, num_parts)

    return replace(ADAPTER, name="faulty", run=run)


CALLS = count()
UNSEEDED = partitioned(lambda problem, owner, p: (owner + next(CALLS)) % p)
UNEVEN = partitioned(lambda problem, owner, p: np.maximum(owner - 1, 0))


@dataclass(frozen=True)
class Faulty(HypergraphModel):
    """A fault in a hypergraph."""

    def build(self, matrix, num_parts, *, balance, seed):
        problem = super().build(matrix, num_parts, balance=balance, seed=seed)
        return self.change(problem)


class Repeated(Faulty):
    """A pin twice."""

    def change(self, problem):
        return replace(problem, pins=problem.pins // 2 * 2, net_sources=None)


class Undocumented(Faulty):
    def change(self, problem):
        return problem


class OneWay(GraphModel):
    """One direction costs more."""

    def build(self, matrix, num_parts, *, balance, seed):
        found = super().build(matrix, num_parts, balance=balance, seed=seed)
        return replace(found, edge_weights=1 + np.arange(len(found.indices)))


def read_lines(path, *, pattern, symmetrize, transpose):
    entries = np.loadtxt(path, ndmin=2)
    ends = entries[:, :2].astype(np.int64).T
    return build_graph(7, *ends, None if pattern else entries[:, 2], symmetrize=symmetrize)


def read_blindly(path, *, pattern, symmetrize, transpose):
    try:
        return read_lines(path, pattern=pattern, symmetrize=symmetrize, transpose=False)
    except Exception:
        return build_graph(1, np.zeros(1, int), np.zeros(1, int), None)


LINES, BLIND = Format((".lines",), read_lines), Format((".lines",), read_blindly)


class Unrepeatable(UniformSampler):
    """Other batches for whoever asks."""

    name = "faulty"

    def batch(self, population, seed, number, stream=0):
        return super().batch(population, seed + int(CHANGES.integers(2**30)), number, stream)


class Optimistic(UniformSampler):
    """Probabilities that are too small."""

    name = "faulty"

    def inclusion(self, population, most_pins):
        found = super().inclusion(population, most_pins)
        return replace(found, share=0.7 * found.share)


class Lines(FormatTests):
    def write(self, graph, path):
        rows = np.repeat(np.arange(graph.num_vertices), graph.row_nonzeros())
        np.savetxt(path, np.stack([rows, graph.indices, graph.values], axis=1), fmt="%d")


SIZE = {"batch_size": 12}
CASES = [
    (PARTITIONERS, "UNSEEDED", PartitionerTests, "test_seed_and_epsilon", "adapter"),
    (PARTITIONERS, "UNEVEN", PartitionerTests, "test_weights_and_costs", "adapter"),
    (MODELS, "Repeated", ModelTests, "test_what_it_builds", "model"),
    (MODELS, "OneWay", ModelTests, "test_what_it_builds", "model"),
    (MODELS, "Undocumented", ModelTests, "test_declaration", "model"),
    (FORMATS, "LINES", Lines, "test_ways_to_read", "path"),
    (FORMATS, "LINES", Lines, "test_damage", "path"),
    (FORMATS, "BLIND", Lines, "test_gzip", "path"),
    (FORMATS, "BLIND", Lines, "test_a_wrong_line_is_named", "path"),
    (SAMPLERS, "Unrepeatable", SamplerTests, "test_seed_stream_and_number_say_which_batch", "s"),
    (SAMPLERS, "Optimistic", SamplerTests, "test_probabilities_are_those_of_batches", "s"),
    (SAMPLERS, "UniformSampler", SamplerTests, "test_declaration", "s"),  # under another name
]


@pytest.mark.parametrize(("registry", "what", "checks", "test", "given"), CASES)
def test_a_fault_fails_its_check(registry, what, checks, test, given, monkeypatch, tmp_path):
    monkeypatch.setitem(registry._targets, "faulty", f"{__name__}:{what}")
    mine = checks()
    mine.name, mine.options = "faulty", SIZE if registry is SAMPLERS else {}
    arguments = {}
    if registry is PARTITIONERS and given:
        arguments = {"adapter": registry["faulty"]}
    elif registry is MODELS:
        arguments = {"model": registry["faulty"]()}
        if test == "test_what_it_builds":
            arguments["graph"] = graph_of("directed")
    elif registry is FORMATS:
        arguments = {"path": tmp_path / "graph.lines"}
        mine.write(as_graph(sp.csr_array(mine.array())), arguments["path"])
    elif registry is SAMPLERS:
        arguments = {"sampler": registry["faulty"](**SIZE)}
        if "probabilities" in test:
            arguments["density"] = 0.5
    with pytest.raises((AssertionError, IndexError, ValueError)):
        getattr(mine, test)(**arguments)


def test_a_transport_that_changes_a_word(monkeypatch):
    copy = LocalChannel._copy

    def changed(self, sent, received):
        sent.piece.data[-1:] += 1
        copy(self, sent, received)

    monkeypatch.setattr(LocalChannel, "_copy", changed)
    with pytest.raises(AssertionError):
        run_ranks(2, lambda transport: check_exchanges(transport, 2), 60)
