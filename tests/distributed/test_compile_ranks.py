"""Compiling on several ranks: the same plan for any number of them, and what one process makes.

What ranks make is compared with one process: the lowering of the same owners, the traffic of a
random partition, the volume of a search.
"""

import json
import os
import shutil
import threading
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cases import turns
from scipy.sparse import csr_array

import plancc
from plancc.cost.owners import traffic
from plancc.distributed import clusters, kernels, nets, writing
from plancc.distributed.compile import compile_folder
from plancc.distributed.ranks import Ranks
from plancc.distributed.share import read_share
from plancc.distributed.sweeps import sweep
from plancc.errors import InputError, OutputError, PlanccWarning
from plancc.graph.convert import as_source
from plancc.graph.csr import MappedGraph, write_csr, write_data
from plancc.graph.graph import Source
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.plan.reader import load
from plancc.plan.verify import verify_file
from plancc.predict.forecast import RECORDED
from plancc.search.presets import OnRanks
from plancc_runtime.transport.local import LocalTransport, run_ranks
from plancc_runtime.transport.single import SingleTransport

N = 400


def communities(seed=1, n=N, groups=20, directed=False, ids=False):
    """A graph whose vertices have most of their neighbours in their group; some are alone."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    pair = rng.integers(0, n - 5, (2, 30 * n))
    near = (group[pair[0]] == group[pair[1]]) | (rng.random(pair.shape[1]) < 0.02)
    pair = pair[:, near]
    graph = plancc.as_graph((n, pair))
    if not directed:
        both = np.concatenate([pair, pair[::-1]], axis=1)
        graph = plancc.as_graph((n, both))
    fields = {"directed": directed, "source": Source("made", format="csr")}
    if ids:
        fields["original_ids"] = np.arange(n)[::-1] * 7
    return plancc.Graph(graph.indptr, graph.indices, **fields)


def folder_of(graph, path, data=None):
    path.mkdir()
    write_csr(graph, path)
    for name, array in ({} if data is None else vars(data)).items():
        if array is not None:
            np.save(path / f"{name}.npy", array)
    return path


def on_ranks(ranks, folder, output, parts, **options):
    """What rank 0 says, after all did the same."""

    def work(transport):
        return compile_folder(transport, folder, output, num_parts=parts, **options)

    if ranks == 1:
        return work(SingleTransport())
    found = run_ranks(ranks, work, 180)
    assert all(each.content_sha256 == found[0].content_sha256 for each in found)
    assert all(each.metrics == found[0].metrics for each in found)
    return found[0]


def check_forecast(provenance, expected):
    """What ranks predict is what one process does."""
    for name in RECORDED:
        value = expected[name]
        known = value if isinstance(value, str) else pytest.approx(value, rel=1e-12)
        assert provenance[name] == known, name


@pytest.mark.parametrize("directed", [False, True])
def test_any_number_of_ranks_makes_the_plan_that_one_process_makes_of_the_owners(
    directed, tmp_path, monkeypatch
):
    monkeypatch.setattr(clusters, "ON_RANKS", OnRanks(many_links=2000))
    graph = communities(directed=directed, ids=True)
    data = VertexData(
        features=np.random.default_rng(0).random((N, 3)).astype(np.float32),
        labels=np.arange(N, dtype=np.int32) % 5,
        train_mask=np.arange(N) % 2 == 0,
    )
    folder = folder_of(graph, tmp_path / "graph", data)
    sizes = (1, 3, 8) if directed else (1, 3)
    found = {ranks: on_ranks(ranks, folder, tmp_path / f"{ranks}.h5", 8) for ranks in sizes}
    assert len({each.content_sha256 for each in found.values()}) == 1
    assert len({each.provenance["source_sha256"] for each in found.values()}) == 1
    plan = load(tmp_path / "3.h5")
    assert verify_file(tmp_path / "3.h5", graph)
    same = plancc.compile(folder, "file", 8, part=plan.owner())
    assert same.content_sha256() == plan.content_sha256() == found[1].content_sha256
    assert same.metrics() == plan.metrics() == found[3].metrics
    assert same.baseline == plan.baseline == found[3].baseline
    assert plan.original_id.tolist() == graph.original_ids.tolist()
    assert plan.vertex_data.labels.tolist() == same.vertex_data.labels.tolist()
    assert [found[ranks].provenance["ranks"] for ranks in sizes[1:]] == list(sizes[1:])
    provenance = found[sizes[-1]].provenance
    check_forecast(provenance, same.provenance)
    assert provenance["started_from"].endswith("seed 1")
    rows = np.bincount(plan.owner(), minlength=8)
    assert rows.max() <= 1.01 * 50 + 1
    assert plan.metrics().nonzero_imbalance <= 0.11


def roads(side):
    """A grid without a third of its edges: parts have short boundaries."""
    rng, v = np.random.default_rng(1), np.arange(side * side).reshape(side, side)
    across, down = ((v[:, :-1], v[:, 1:]), (v[:-1], v[1:]))
    pair = np.concatenate([[end.ravel() for end in each] for each in (across, down)], axis=1)
    pair = pair[:, rng.random(pair.shape[1]) < 0.65]
    graph = plancc.as_graph((side * side, np.concatenate([pair, pair[::-1]], axis=1)))
    source = Source("made", format="csr")
    return plancc.Graph(graph.indptr, graph.indices, directed=False, source=source)


@cache
def searched(kind):
    """A graph, and the volume of a search by one process."""
    graph = roads(50) if kind == "roads" else communities(3, 1500, 180)
    return graph, plancc.compile(graph, "hp", 12, effort="fast").metrics().volume


@turns(kind=["communities", "roads"], corridor=[0, 300, 10**6], links=[100, 10**6])
def test_the_volume_is_that_of_a_search(kind, corridor, links, tmp_path, monkeypatch):
    """Whether rank 0 has the whole graph, clusters, a corridor, or all ranks nothing but sweeps."""
    given = OnRanks(many_links=links, corridor=corridor, most_pins=10**6 if corridor else 0)
    for module in (clusters, nets):
        monkeypatch.setattr(module, "ON_RANKS", given)
    (graph, alone), most = searched(kind), 1.05 if kind == "roads" else 1.15
    found = on_ranks(2, folder_of(graph, tmp_path / "graph"), tmp_path / "p.h5", 12)
    assert found.metrics.volume <= (most if corridor == 10**6 else 1.35) * alone
    assert found.metrics.volume < 0.5 * found.baseline.volume
    assert not found.warnings


@pytest.mark.parametrize("directed", [False, True])
def test_nets_of_labels_cost_what_the_rows_of_all_vertices_do(directed, tmp_path, monkeypatch):
    """For clusters in any order, and for a corridor, whose other vertices stay in their parts."""
    monkeypatch.setattr(nets, "ON_RANKS", OnRanks(corridor=120))
    rng, graph, n, p = np.random.default_rng(3), roads(10), 100, 4
    if directed:
        pair = np.stack([np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices])
        graph = plancc.as_graph((n, pair[:, rng.random(pair.shape[1]) < 0.8]))
    owner = (np.arange(n) * p // n).astype(np.int32)
    files, weight = (
        MappedGraph.open(folder_of(graph, tmp_path / "graph")),
        np.ones((n, 1), np.int64),
    )
    scattered = rng.permutation(np.arange(n) // 3).astype(np.int32)

    def work(transport):
        how = {"normalization": "none", "self_loops": False, "dtype": "float32"}
        ranks = Ranks(transport)
        share, *_ = read_share(files, ranks, name="made", **how)
        near = nets.corridor(ranks, share, owner)
        return [(each, nets.nets_between(ranks, share, each, weight)) for each in (scattered, near)]

    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    for label, problem in run_ranks(3, work, 180)[0]:
        of_labels = rng.integers(0, p, problem.num_vertices).astype(np.int32)
        fine = [
            {of_labels[label[j]], *of_labels[label[rows[graph.indices == j]]]} for j in range(n)
        ]
        pins = np.split(problem.pins, problem.net_ptr[1:-1])
        coarse = [len(set(of_labels[each])) - 1 for each in pins]
        assert problem.net_costs @ coarse == sum(map(len, fine)) - n
        assert (np.bincount(label) == problem.vertex_weights[:, 0]).all()
    parts = [set(owner[label == each]) for each in range(problem.num_vertices)]
    assert max(map(len, parts)) == 1
    assert p < problem.num_vertices < n


@turns(normalize=["sym", "row", "none"], self_loops=[True, False])
def test_normalised_rows_are_those_of_one_process(normalize, self_loops, tmp_path):
    rng = np.random.default_rng(5)
    dense = np.where(rng.random((60, 60)) < 0.1, rng.uniform(0.5, 2, (60, 60)), 0)
    dense[7] = dense[:, 7] = 0
    folder = folder_of(plancc.as_graph(csr_array(dense)), tmp_path / "graph")
    settings = {"normalize": normalize, "self_loops": self_loops, "value_dtype": "float64"}
    found = on_ranks(3, folder, tmp_path / "p.h5", 4, model="block", **settings)
    alone = plancc.compile(folder, "block", 4, **settings)
    assert found.content_sha256 == alone.content_sha256()
    assert found.metrics == alone.metrics()
    assert found.baseline == alone.baseline
    raised = np.count_nonzero(dense.diagonal())
    counts = f"self loops of the source raised by the identity: {raised}" if self_loops else None
    assert found.provenance.get("source_counts") == counts


def test_weights_that_float32_does_not_keep_are_counted_over_all_ranks(tmp_path):
    values = np.tile([1.0, 1e-46, 2.0**24 + 1], 20)  # a rank of three has some of each
    rows = np.arange(60)
    matrix = csr_array((values, (rows, (rows + 1) % 60)), shape=(60, 60))
    folder = folder_of(plancc.as_graph(matrix), tmp_path / "graph")
    settings = {"model": "block", "normalize": "none", "self_loops": False}
    with pytest.warns(PlanccWarning) as told:
        on_ranks(3, folder, tmp_path / "p.h5", 3, **settings)
    keeps = "`value_dtype` float64 keeps them"
    assert [str(each.message) for each in told] == [
        f"graph: 20 weights are 0 in float32 and left out: {keeps}",
        f"graph: 20 weights above 16,777,216 lose digits in float32: {keeps}",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanccWarning)
        on_ranks(3, folder, tmp_path / "q.h5", 3, value_dtype="float64", **settings)


def test_random_rows_are_those_of_one_process(tmp_path):
    folder = folder_of(communities(), tmp_path / "graph")
    found = on_ranks(2, folder, tmp_path / "p.h5", 7, model="rp")
    assert found.content_sha256 == plancc.compile(folder, "rp", 7).content_sha256()


def typed_folder(path, weighted=False):
    """Users rate items and buy some of them; items are like others; both have data of their own."""
    rng, value = np.random.default_rng(8), (lambda m: m) if weighted else (lambda m: m != 0)
    shape = {"rates": (120, 80), "buys": (120, 80), "rated": (80, 120), "like": (80, 80)}
    ends = {"rates": "iu", "buys": "iu", "rated": "ui", "like": "ii"}
    relations = {
        (ends[name][0], name, ends[name][1]): csr_array(
            value(np.where(rng.random(size) < 0.05, rng.uniform(0.5, 2, size), 0))
        )
        for name, size in shape.items()
    }
    data = {
        "u": {"x": rng.random((120, 3)), "y": np.arange(120) % 4},
        "i": {"x": np.eye(80)[:, :5]},
    }
    graph, of_types = as_source(relations | data)
    path.mkdir()
    write_csr(graph, path)
    write_data(of_types, path)
    return path, relations | data


@pytest.mark.parametrize(("how", "weighted"), [("sym", True), ("row", False), ("none", True)])
def test_a_graph_of_types_gives_the_plan_of_one_process(how, weighted, tmp_path):
    folder, relations = typed_folder(tmp_path / "graph", weighted)
    given = {"model": "block", "normalize": how, "value_dtype": "float64"}
    alone = plancc.compile(relations, num_parts=6, **given)
    for ranks in (1, 3):
        found = on_ranks(ranks, folder, tmp_path / f"{ranks}.h5", 6, **given)
        assert found.content_sha256 == alone.content_sha256()
        assert (found.metrics, found.baseline) == (alone.metrics(), alone.baseline)
        check_forecast(found.provenance, alone.provenance)
    again = load(tmp_path / "3.h5")
    assert again.header.types == alone.header.types
    assert again.relation.tolist() == alone.relation.tolist()
    assert verify_file(tmp_path / "3.h5", plancc.read_graph(folder))


@pytest.mark.parametrize("directed", [False, True])
def test_links_give_the_plan_of_one_process(directed, tmp_path):
    """Drawn by a seed, or of a file with negatives of every link; edges of some are left out."""
    graph, rng = communities(directed=directed), np.random.default_rng(2)
    folder, given = folder_of(graph, tmp_path / "graph"), {"link_split": (0.2, 0.1)}
    if directed:
        row = np.repeat(np.arange(N), np.diff(graph.indptr))
        pairs = np.stack([graph.indices, row])[:, rng.permutation(graph.num_nonzeros)]
        cuts = np.split(pairs, [500, 600, 650], axis=1)
        of_links = dict(zip(("train", "val", "test"), cuts, strict=False))
        of_links |= {
            f"{k}_target_negative": rng.integers(0, N, (m, 3))
            for k, m in (("val", 100), ("test", 50))
        }
        np.savez(tmp_path / "links.npz", **of_links)
        given = {"links": tmp_path / "links.npz"}
    given |= {"model": "block", "disjoint_train_ratio": 0.3}
    alone = plancc.compile(folder, num_parts=7, **given)
    for ranks in (1, 3):
        found = on_ranks(ranks, folder, tmp_path / f"{ranks}.h5", 7, **given)
        assert found.content_sha256 == alone.content_sha256()
        assert (found.metrics, found.baseline) == (alone.metrics(), alone.baseline)
        assert found.provenance["link_seed"] == alone.provenance["link_seed"]
    assert verify_file(tmp_path / "3.h5", graph)


def test_types_are_searched_for_on_ranks(tmp_path):
    folder, _ = typed_folder(tmp_path / "graph")
    found = {ranks: on_ranks(ranks, folder, tmp_path / f"{ranks}.h5", 4) for ranks in (2, 3)}
    assert found[2].content_sha256 == found[3].content_sha256
    plan = load(tmp_path / "3.h5")
    same = plancc.compile(folder, "file", 4, part=plan.owner())
    assert same.content_sha256() == plan.content_sha256()
    assert found[3].metrics.volume < found[3].baseline.volume
    for vertices in (slice(0, 120), slice(120, 200)):
        rows = np.bincount(plan.owner()[vertices], minlength=4)
        assert rows.max() <= 1.05 * rows.mean() + 1


def test_unequal_parts(tmp_path):
    folder = folder_of(communities(), tmp_path / "graph")
    found = on_ranks(2, folder, tmp_path / "p.h5", 4, capacities=(3.0, 1.0, 1.0, 1.0))
    plan = load(tmp_path / "p.h5")
    machine = SearchOptions(capacities=(3.0, 1.0, 1.0, 1.0)).machine
    same = plancc.compile(folder, "file", 4, part=plan.owner(), machine=machine)
    check_forecast(found.provenance, same.provenance)
    rows = np.bincount(plan.owner())
    assert abs(rows[0] - N / 2) <= 3
    assert rows[1:].max() <= N / 6 + 3


def test_parts_are_numbered_for_nodes_as_by_one_process(tmp_path):
    folder = folder_of(roads(20), tmp_path / "graph")
    part = np.array([0, 4, 1, 5, 2, 6, 3, 7], np.int32)[np.arange(400) // 50]
    given = {"part": part, "topology": "2x4"}
    found = on_ranks(3, folder, tmp_path / "p.h5", 8, model="file", **given)
    same = plancc.compile(folder, "file", 8, exchange="flat", **given)
    assert found.content_sha256 == same.content_sha256()
    assert (same.owner() != part).any()
    assert found.provenance["topology"] == same.provenance["topology"] == "2x4"
    check_forecast(found.provenance, same.provenance)


@pytest.mark.parametrize("p", [1, N])
def test_as_few_and_as_many_parts_as_possible(p, tmp_path):
    folder = folder_of(communities(), tmp_path / "graph")
    found = on_ranks(1, folder, tmp_path / "p.h5", p)
    assert verify_file(tmp_path / "p.h5")
    assert (found.metrics.volume == 0) == (p == 1)


def test_a_graph_without_edges(tmp_path):
    """No sweep moves a row, and parts are even all the same."""
    graph = plancc.Graph(np.zeros(101, np.int64), np.empty(0, np.int32), directed=False)
    folder = folder_of(graph, tmp_path / "graph")
    found = on_ranks(3, folder, tmp_path / "p.h5", 3, capacities=(2, 1, 1))
    assert found.metrics.volume == 0
    assert not found.warnings
    assert np.bincount(load(tmp_path / "p.h5").owner()).tolist() == pytest.approx(
        [50, 25, 25], abs=1
    )
    assert verify_file(tmp_path / "p.h5")


REFUSED = {
    "model": ({"model": "gp"}, "model 'gp' is only compiled by one process"),
    "grid": ({"model": "cagnet-1d"}, "model 'cagnet-1d' is only compiled by one process"),
    "objective": ({"objective": "time"}, "minimise only the volume"),
    "effort": ({"effort": "best"}, "only support effort fast"),
    "budget": ({"budget": 3}, "`budget` is only for a compile by one process"),
    "links": ({"links": "none.npz"}, "none.npz: no such file"),
    "edges": ({"edge_features": "source"}, "`edge_features` is only for a compile by one process"),
    "hops": ({"topology": "2x2", "exchange": "nodes"}, "nodes: is only for a compile by one"),
    "reading": ({"symmetrize": True}, "`symmetrize` is only for a compile by one process"),
    "balance": ({"balance": "nnz,train"}, "balance 'nnz,train': several ranks only balance"),
    "ranks": ({"num_parts": 2}, "3 ranks are too many for 2 parts"),
    "parts": ({"num_parts": N + 1}, "every part needs at least one vertex"),
    "memory": ({"memory": 10**7}, "on each of 3 ranks, but `memory` is 10 MiB for a rank"),
    "normalisation": ({"normalize": "x"}, "normalization"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_several_ranks_do_not_do_is_said_by_all(name, tmp_path):
    settings, sentence = REFUSED[name]
    folder = folder_of(communities(), tmp_path / "graph")
    settings = {"num_parts": 4} | settings
    with pytest.raises(InputError, match=sentence.replace("(", r"\(")):
        on_ranks(3, folder, tmp_path / "p.h5", settings.pop("num_parts"), **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def spoil(name, at, value):
    def work(folder):
        array = np.load(folder / name)
        array[at] = value
        np.save(folder / name, array)

    return work


SPOILT = {
    "index": (spoil("indices.npy", -1, 10**6), r"entry \d+ is '1000000', out of range 0\.\.399"),
    "order": (spoil("indices.npy", 1, 0), "columns of a row do not ascend"),
    "offsets": (spoil("indptr.npy", 5, 10**6), r"indptr\.npy: does not ascend"),
    "head": (lambda folder: (folder / "graph.json").write_text("{"), r"graph\.json: is not JSON"),
    "missing": (lambda folder: (folder / "indices.npy").unlink(), "a folder, but in none of"),
    "shorter": (lambda f: np.save(f / "indices.npy", np.zeros(3, np.int32)), "does not ascend"),
    "zero": (lambda f: np.save(f / "values.npy", np.zeros(entries(f))), "some values are zero"),
    "NaN": (lambda f: np.save(f / "values.npy", np.full(entries(f), np.nan)), "not a finite"),
    "negative": (lambda f: np.save(f / "values.npy", -np.ones(entries(f))), "of vertex 0 "),
    "labels": (lambda f: np.save(f / "labels.npy", np.zeros(3, np.int64)), "labels"),
}


def entries(folder):
    return len(np.load(folder / "indices.npy"))


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_with_a_folder_is_said_by_all(name, tmp_path):
    work, sentence = SPOILT[name]
    folder = folder_of(communities(), tmp_path / "graph")
    work(folder)
    with pytest.raises(InputError, match=sentence):
        on_ranks(3, folder, tmp_path / "p.h5", 4)
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_vertex_data_are_remarked_on_once(tmp_path):
    mask = np.ones(N, bool)
    folder = folder_of(
        communities(), tmp_path / "graph", VertexData(train_mask=mask, val_mask=mask)
    )
    with pytest.warns(PlanccWarning, match="400 vertices are in 'train_mask'") as told:
        on_ranks(3, folder, tmp_path / "p.h5", 4, model="block")
    assert len(told) == 1


def test_a_pattern_that_is_not_as_symmetric_as_its_head_says(tmp_path):
    folder = folder_of(communities(directed=True), tmp_path / "graph")
    (folder / "graph.json").write_text('{"directed": false}')
    with pytest.raises(InputError, match=r"graph\.json: .*\(i, j\) have no \(j, i\)"):
        on_ranks(2, folder, tmp_path / "p.h5", 4)


def column_changed(folder):
    other = shutil.copytree(folder, folder.with_name("other"))
    indptr, indices = (np.load(other / f"{name}.npy") for name in ("indptr", "indices"))
    row = np.flatnonzero(np.diff(indptr) > 0)[5]
    at = indptr[row + 1] - 1  # the last of its row
    indices[at] += 1 if indices[at] < N - 1 else -1
    np.save(other / "indices.npy", indices)
    return other


DIFFERENT = {
    "parts": (
        {"num_parts": 5},
        "`num_parts` is 4 on ranks 0, 2, 5 on rank 1; give all ranks the same",
    ),
    "model": ({"model": "rp"}, "`model` is hp on ranks 0, 2, rp on rank 1"),
    "seed": ({"seed": 7}, "`seed` is 1 on ranks 0, 2, 7 on rank 1"),
    "output": ({"output": "other.h5"}, r"`output` is .*p\.h5 on ranks 0, 2, .*other\.h5 on"),
    "graph": ({"folder": column_changed}, "rank 1 reads a different graph from rank 0"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_ranks_that_are_told_different_things(name, tmp_path):
    """No rank waits for ever, or takes what another was told."""
    told, sentence = DIFFERENT[name]
    folder = folder_of(communities(), tmp_path / "graph")
    usual = {"folder": folder, "output": tmp_path / "p.h5", "num_parts": 4}
    other = {key: value(folder) if callable(value) else value for key, value in told.items()}

    def work(transport):
        return compile_folder(transport, **usual | (other if transport.rank == 1 else {}))

    with pytest.raises(InputError, match=sentence):
        run_ranks(3, work, 180)
    assert not [*tmp_path.glob("*.h5")]


def test_folders_of_the_same_content_are_the_same(tmp_path):
    folder = folder_of(communities(), tmp_path / "graph")
    folders = folder, shutil.copytree(folder, tmp_path / "copy")
    found = run_ranks(
        2, lambda t: compile_folder(t, folders[t.rank], tmp_path / "p.h5", num_parts=4), 180
    )
    assert found[0].provenance["source_sha256"] == plancc.read_graph(folder).source.sha256


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "g.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n1 1 0\n")
    with pytest.raises(InputError, match="make one with: plancc convert"):
        on_ranks(2, tmp_path / "g.mtx", tmp_path / "p.h5", 2)
    with pytest.raises(InputError, match="none: no such file"):
        on_ranks(2, tmp_path / "none", tmp_path / "p.h5", 2)


@pytest.mark.filterwarnings("ignore:.*rows without ids", "ignore:.*slower than")
@pytest.mark.parametrize("blind", [(), (1,), (1, 2)], ids=["all", "two", "alone"])
def test_ranks_fill_in_one_file(blind, tmp_path, monkeypatch):
    """Or rank 0 does for those that do not see it: block by block, in which no byte differs."""
    monkeypatch.setattr(writing, "BLOCK_BYTES", 100)
    blinded(monkeypatch, blind)
    if blind:  # the file is on another computer
        monkeypatch.setattr(LocalTransport, "ranks_here", lambda transport: 1)
    features = np.random.default_rng(0).random((N, 3)).astype(np.float32)
    ids = np.array([f"v{k % 7}{k}".encode() for k in range(N)])
    graph = replace(communities(ids=True), original_ids=ids)
    folder = folder_of(graph, tmp_path / "graph", VertexData(features=features))
    found = on_ranks(3, folder, tmp_path / "3.h5", 7, model="block")
    alone = plancc.compile(folder, "block", 7)
    assert verify_file(tmp_path / "3.h5", graph)
    assert found.content_sha256 == alone.content_sha256()
    arrays = load(tmp_path / "3.h5").arrays()
    for name, array in alone.arrays().items():
        np.testing.assert_array_equal(arrays[name], array)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.h5", "graph"]


def blinded(monkeypatch, ranks):
    """Keep the file of rank 0 from the threads of these ranks."""
    opened = os.open

    def work(path, flags, *mode, **options):
        if str(path).endswith(".tmp.h5") and threading.current_thread().name in {
            f"rank {each}" for each in ranks
        }:
            raise FileNotFoundError(path)
        return opened(path, flags, *mode, **options)

    monkeypatch.setattr(writing.os, "open", work)


@pytest.mark.parametrize("blind", [(), (1,)], ids=["itself", "by rank 0"])
def test_a_full_disk(blind, tmp_path, monkeypatch):
    """The plan that was there stays, and nothing else."""
    folder = folder_of(communities(), tmp_path / "graph")
    on_ranks(1, folder, tmp_path / "p.h5", 4, model="rp")
    before = (tmp_path / "p.h5").read_bytes()
    blinded(monkeypatch, blind)
    write = os.pwrite

    def full(file, content, place):
        if place > len(before) // 2:
            raise OSError(28, "No space left on device")
        return write(file, content[:50], place)  # as the system may, too

    monkeypatch.setattr(writing.os, "pwrite", full)
    with pytest.raises(OutputError, match=r"cannot write .*p\.h5: the disk is full"):
        on_ranks(3, folder, tmp_path / "p.h5", 4, model="block")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", "p.h5"]
    assert (tmp_path / "p.h5").read_bytes() == before


def test_sweeps_alone_lower_the_volume(tmp_path):
    """Random owners, on rows of every rank: the whole search would hide sweeps that fail."""
    graph, parts = communities(), 5
    files = MappedGraph.open(folder_of(graph, tmp_path / "graph"))
    owner = np.random.default_rng(3).integers(0, parts, N).astype(np.int32)
    limits = Balance.parse("rows").limits(graph, parts, 0.1)

    def volume(owner):
        return traffic(graph, Owners(owner), parts).sent.sum()

    def work(transport):
        ranks = Ranks(transport)
        how = {"normalization": "none", "self_loops": False, "dtype": np.float32}
        share, *_ = read_share(files, ranks, name="graph", **how)
        return sweep(ranks, share, owner, limits, seed=1)

    for found in run_ranks(3, work, 180):
        assert volume(found) < 0.5 * volume(owner)
        assert limits.overload(limits.load(found)) == 0


@pytest.mark.parametrize("num_parts", [3, 40, 40000])
def test_parts_of_nets_by_sets(num_parts):
    rng = np.random.default_rng(2)
    dense = rng.random((30, 30)) < 0.2
    base, own = 10, dense[:, 10:25]  # nets 10..24
    net_ptr = np.concatenate([[0], own.sum(axis=0).cumsum()])
    pins = np.nonzero(own.T)[1].astype(np.int32)
    owner = rng.integers(0, num_parts, 30).astype(np.int32)
    ptr, entry = kernels.parts_of_nets(base, net_ptr, pins, owner, num_parts)
    assert entry.dtype == (np.uint16 if num_parts < 40000 else np.uint32)
    for net in range(15):
        members = {base + net, *pins[net_ptr[net] : net_ptr[net + 1]].tolist()}
        parts = [owner[v] for v in members]
        expected = {2 * part + (parts.count(part) == 1) for part in parts}
        assert set(entry[ptr[net] : ptr[net + 1]].tolist()) == expected


def test_what_a_move_saves_is_the_difference_of_the_volumes():
    rng = np.random.default_rng(7)
    n, p = 24, 3
    dense = rng.random((n, n)) < 0.15
    indptr = np.concatenate([[0], dense.sum(axis=1).cumsum()])
    indices = np.nonzero(dense)[1].astype(np.int32)
    nets = np.nonzero(dense.T)[1].astype(np.int32)
    net_ptr = np.concatenate([[0], dense.sum(axis=0).cumsum()])
    owner = rng.integers(0, p, n).astype(np.int32)

    def volume(owner):
        return len(kernels.parts_of_nets(0, net_ptr, nets, owner, p)[1]) - n

    def brute(owner):
        pins = [{j, *np.flatnonzero(dense[:, j])} for j in range(n)]
        return sum(len({owner[v] for v in each}) - 1 for each in pins)

    assert volume(owner) == brute(owner)
    ptr, entry = kernels.parts_of_nets(0, net_ptr, nets, owner, p)
    free = np.full((p, 1), np.inf)
    bounds = kernels.Bounds(free, np.zeros((p, 1)), free, np.ones(p))
    weight = np.ones((n, 1), np.int64)
    load = np.bincount(owner, minlength=p)[:, None]
    part, saved, gain = kernels.wanted_parts(
        np.arange(n), 0, indptr, indices, np.arange(n, dtype=np.int32), ptr, entry, owner, weight,
        load, bounds,
    )  # fmt: skip
    assert (part >= 0).sum() > 3
    for v in range(n):
        best = min(brute(np.where(np.arange(n) == v, q, owner)) for q in range(p) if q != owner[v])
        if part[v] >= 0:
            after = owner.copy()
            after[v] = part[v]
            assert brute(owner) - brute(after) == saved[v] == gain[v]
            assert brute(after) == best
        else:
            assert best >= brute(owner)


def test_graph_json_need_not_say_the_direction(tmp_path):
    folder = folder_of(communities(), tmp_path / "graph")
    head = json.loads((folder / "graph.json").read_text())
    del head["directed"]
    (folder / "graph.json").write_text(json.dumps(head))
    found = on_ranks(2, folder, tmp_path / "p.h5", 4)
    assert verify_file(tmp_path / "p.h5")
    assert found.metrics.volume < found.baseline.volume
