"""Memory that a compile is predicted to take, and the refusal where there is less."""

from contextlib import nullcontext

import numpy as np
import pytest

import plancc
from benchmarks.generated import extreme
from plancc.errors import InputError
from plancc.graph.canonical import build_graph
from plancc.graph.normalize import normalize
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.owners import memory
from plancc.owners.memory import allowed_memory, mirrored_share
from plancc.search.effort import search
from plancc.search.footprint import ProblemSizes, nets, shown, work
from plancc.search.footprint import matrix as matrix_bytes
from plancc.search.footprint import state as state_bytes
from plancc.search.rows import RowJob
from plancc.search.starts import is_uneven
from plancc_datasets import load_dataset

SIZES = ProblemSizes(1_000_000, 20_000_000, mapped=True)


def test_more_effort_takes_no_less():
    peaks = [
        work(SIZES, effort, clustered).peak
        for effort, clustered in (("", False), ("fast", True), ("fast", False), ("balanced", False))
    ]
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[1] < peaks[-1]


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
    search(matrix, 16, SearchOptions(effort="fast"), limits=limits)
    job, state = jobs[-1]
    of_matrix = bytes_of(vars(matrix).values(), vars(roads).values())
    assert of_matrix == pytest.approx(matrix_bytes(sizes), rel=0.1)
    of_nets = bytes_of(job.nets, [job.degrees])
    assert of_nets == pytest.approx(nets(sizes), rel=0.02)
    of_state = bytes_of(state, [job.record.found().owner])
    assert 0.5 * state_bytes(sizes) < of_state < state_bytes(sizes)  # cuts take the rest


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
    assert mirrored_share(build_graph(3, np.array([1, 2]), np.array([2, 0]))) == 0  # beside a row
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


@pytest.mark.parametrize(
    ("name", "model", "asked", "effort", "ways"),
    [
        (
            *("extreme", "hp", "balanced", "balanced"),
            r", or use `effort` fast \(... MiB\), or have ranks",
        ),
        ("sbm", "hp", "balanced", "balanced", ", or have ranks"),  # whose efforts take the same
        ("sbm", "hp", "fast", "fast", r", or have .* together: mpirun -n R plancc compile FOLDER$"),
        ("sbm", "rp", None, "", ", or have ranks"),
        ("sbm", "medium-grain", "fast", "balanced", "$"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_search(name, model, asked, effort, ways):
    graph = extreme() if name == "extreme" else load_dataset(name).graph
    n = graph.num_vertices
    sizes = ProblemSizes(
        n, graph.num_nonzeros + n, constraints=1 + (model == "hp"), uneven=name == "extreme"
    )
    peak = work(sizes, effort, False).peak
    seen = []

    def compiled(memory):
        seen.clear()
        return plancc.compile(graph, model, 4, effort=asked, memory=memory, observer=stage)

    def stage(name):
        seen.append(name)
        return nullcontext()

    assert compiled(peak).provenance["predicted_memory"] == peak
    with pytest.raises(InputError, match=f"nonzeros need .* `memory` is .*: raise it{ways}"):
        compiled(peak - 1)
    assert seen == ["load"]
