"""Memory that a compile is predicted to take, and what is given up where there is less."""

from contextlib import nullcontext

import numpy as np
import pytest

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.canonical import build_graph
from plancc.graph.normalize import normalize
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.owners import memory
from plancc.owners.memory import allowed_memory, mirrored_share
from plancc.passes.presets import PROPAGATION
from plancc.plan.verify import verify
from plancc.search import search
from plancc.search.footprint import ProblemSizes, fitting, metis, nets, shown, ways, work
from plancc.search.footprint import matrix as matrix_bytes
from plancc.search.footprint import state as state_bytes
from plancc.search.presets import MemoryTerms
from plancc.search.rows import RowJob
from plancc.search.starts import is_uneven
from plancc_datasets import load_dataset

SIZES = ProblemSizes(1_000_000, 20_000_000, mapped=True)


def test_every_way_takes_less_than_the_one_before():
    for effort in ("balanced", "best"):
        found = list(ways(SIZES, effort))
        assert [(each.effort, each.clustered, each.on_disk) for each in found] == [
            (effort, False, False),
            (effort, True, False),
            ("fast", True, False),
            ("fast", True, True),
        ]
        peaks = [each.peak for each in found]
        assert peaks == sorted(peaks, reverse=True)
    found = list(ways(SIZES, ""))
    assert [(each.effort, each.on_disk) for each in found] == [("", False), ("", True)]
    assert found[0].peak > found[1].peak


@pytest.mark.parametrize("more", ["rows", "nonzeros", "data"])
def test_more_of_anything_takes_more(more):
    larger = ProblemSizes(**vars(SIZES) | {more: 2 * getattr(SIZES, more) + 1})
    for effort in ("", "fast", "balanced"):
        assert work(larger, effort, False).peak > work(SIZES, effort, False).peak


def test_the_undirected_graph_of_a_directed_one_has_more_links():
    one_way = ProblemSizes(SIZES.rows, SIZES.nonzeros, mirrored=0.0)
    assert (
        work(ProblemSizes(SIZES.rows, SIZES.nonzeros), "fast", True).peak
        > work(SIZES, "fast", True).peak
    )
    assert SIZES.links == SIZES.nonzeros - SIZES.rows
    assert one_way.links == 2 * SIZES.links


def test_the_first_way_that_fits_is_taken():
    every = list(ways(SIZES, "balanced"))
    for way in every:
        assert fitting(SIZES, "balanced", way.peak).peak == way.peak
    assert fitting(SIZES, "balanced", None) == every[0]
    with pytest.raises(InputError, match=r"1,000,000 rows and 20,000,000 nonzeros need .* MiB"):
        fitting(SIZES, "balanced", every[-1].peak - 1)
    with pytest.raises(InputError, match="memory"):
        fitting(SIZES, "balanced", every[0].peak - 1, only=True)


def streets(side: int):
    """A graph of streets side by side, as roads: vertices have 2.5 neighbours."""
    number = np.arange(side * side).reshape(side, side)
    across = np.random.default_rng(1).random((side - 1, side)) < 0.25
    row = np.concatenate([number[:, :-1].ravel(), number[:-1][across]])
    column = np.concatenate([number[:, 1:].ravel(), number[1:][across]])
    return build_graph(side * side, row, column, symmetrize=True)


def bytes_of(*values) -> int:
    """Bytes of the different arrays in tuples of arrays."""
    arrays = {id(array): array for value in values for array in value if hasattr(array, "nbytes")}
    return sum(array.nbytes for array in arrays.values())


def test_arrays_of_a_road_take_what_is_predicted(monkeypatch):
    roads, jobs = streets(120), []
    n = roads.num_vertices
    sizes = ProblemSizes(n, roads.num_nonzeros + n, uneven=False)

    def noted(job, step, begin, state):
        jobs.append((job, state))
        return kept(job, step, begin, state)

    kept = RowJob.note_state
    monkeypatch.setattr(RowJob, "note_state", noted)
    matrix = normalize(roads)
    limits = Balance.parse("nnz:0.1,rows").limits(matrix, 16, 0.01)
    plain, lean = (
        search(matrix, 16, SearchOptions(effort="fast", lean=lean), limits=limits).volume
        for lean in (False, True)
    )
    assert lean < 1.05 * plain
    job, state = jobs[-1]
    of_matrix = bytes_of(vars(matrix).values(), vars(roads).values())
    assert of_matrix == pytest.approx(matrix_bytes(sizes), rel=0.1)
    of_nets = bytes_of(job.nets, [job.degrees])
    assert of_nets == pytest.approx(nets(sizes), rel=0.02)
    of_state = bytes_of(state, [job.record.found().owner, job.clusters.label])
    assert 0.5 * state_bytes(sizes) < of_state < state_bytes(sizes)  # cuts take the rest
    graph = job.clusters.graph
    taken = metis(graph.num_vertices, len(graph.indices), False)
    taken += bytes_of(vars(graph).values())
    assert (
        len(graph.indices) <= sizes.links / PROPAGATION.few_links
    )  # those of pairs of rows: more than half
    assert taken < 1.5 * MemoryTerms.cluster_link * sizes.links


def test_clusters_that_there_is_no_memory_for():
    matrix = normalize(streets(60))
    for room, words in ((None, "of clusters"), (1000, "random")):
        options = SearchOptions(effort="fast", lean=True, room=room)
        assert words in search(matrix, 4, options).tried[0].step


def test_sizes_are_shown_in_round_units():
    assert shown(5 * 2**20) == "5 MiB"
    assert shown(12 * 2**30) == "12.0 GiB"


def test_the_share_of_mirrored_nonzeros():
    rng = np.random.default_rng(1)
    row, column = rng.integers(0, 3000, (2, 20_000))
    one_way = build_graph(3000, np.minimum(row, column), np.maximum(row, column))
    both = build_graph(3000, np.concatenate([row, column]), np.concatenate([column, row]))
    assert mirrored_share(one_way) < 0.05
    assert mirrored_share(both) == 1.0
    assert mirrored_share(build_graph(3, row[:0], row[:0])) == 1.0


def test_degrees_count_columns_of_directed_graphs(monkeypatch):
    monkeypatch.setattr(memory, "BLOCK", 2)
    row, column = np.array([0, 0, 1, 3]), np.array([1, 2, 2, 2])
    np.testing.assert_array_equal(memory.degrees(build_graph(4, row, column)), [2, 2, 3, 1])
    assert not is_uneven(np.array([2, 2, 3, 1]))
    assert is_uneven(np.array([1, 1, 1, 1, 1, 1, 20]))
    both = build_graph(4, row, column, symmetrize=True)
    np.testing.assert_array_equal(memory.degrees(both), [2, 2, 3, 1])


def test_the_default_is_less_than_there_is(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    monkeypatch.setattr(memory, "held_memory", lambda: 10**8)
    assert allowed_memory() == 990_000_000
    assert allowed_memory(5) == 5
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert allowed_memory() is None


def test_a_search_gives_up_what_does_not_fit_and_says_so():
    graph = load_dataset("sbm", num_features=1).graph
    sizes = ProblemSizes(2048, graph.num_nonzeros + 2048, uneven=False)
    every = list(ways(sizes, "balanced"))
    whole = plancc.compile(graph, "hp", 4, memory=every[0].peak)
    assert whole.provenance["effort"] == "balanced"
    assert whole.provenance["predicted_memory"] == every[0].peak
    with pytest.warns(PlanccWarning, match="partitioners are given clusters"):
        plan = plancc.compile(graph, "hp", 4, memory=every[0].peak - 1)
    verify(plan)
    tried = plan.provenance["tried"]
    assert "of clusters" in tried or "random" in tried
    assert "effort balanced takes about" in plan.provenance["warnings"]
    seen = []

    def stage(name):
        seen.append(name)
        return nullcontext()

    with pytest.raises(InputError, match=r"`memory` is .* give that much, or have ranks compile"):
        plancc.compile(graph, "hp", 4, memory=every[-1].peak - 1, observer=stage)
    assert seen == ["load"]
