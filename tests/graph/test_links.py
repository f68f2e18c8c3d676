"""Links of a graph: random, of files, folders and objects; the messages that are left."""

from types import SimpleNamespace

import numpy as np
import pytest
import worlds
from scipy.sparse import csr_array

import plancc as compiler
from plancc.errors import InputError, PlanccWarning
from plancc.graph.links import KINDS, random_links, read_links, withheld, without
from plancc.graph.read_source import read_source

PAIRS = {
    "train": [[0, 1], [2, 3]],
    "val": [[4], [5]],
    "val_negative": [[1, 2], [7, 8]],
    "test": [[6], [7]],
    "test_negative": [[0], [9]],
}


def edges(graph):
    target = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return {*zip(graph.indices.tolist(), target.tolist(), strict=True)}


def pairs(links, kind):
    return [*zip(*links.pairs[kind].tolist(), strict=True)]


@pytest.mark.parametrize("name", ["directed", "undirected"])
def test_random_links_split_the_edges(name):
    graph = worlds.graph(name)
    links = random_links(graph, (0.2, 0.3), 5)
    every = [each for kind in KINDS[:3] for each in pairs(links, kind)]
    ways = every + ([] if graph.directed else [(v, u) for u, v in every])
    assert sorted(ways) == sorted((u, v) for u, v in edges(graph) if u != v)
    for kind, share in (("val", 0.2), ("test", 0.3)):
        found = pairs(links, f"{kind}_negative")
        assert len(found) == len(pairs(links, kind)) == int(share * len(every))
        assert not {*found, *((v, u) for u, v in found if not graph.directed)} & edges(graph)
    assert all(
        (a == b).all()
        for a, b in zip(
            links.pairs.values(), random_links(graph, (0.2, 0.3), 5).pairs.values(), strict=True
        )
    )


@pytest.mark.parametrize("disjoint", [0, 0.4])
@pytest.mark.parametrize("name", ["directed", "undirected"])
def test_edges_of_held_links_carry_no_messages(name, disjoint):
    graph = worlds.graph(name)
    links = random_links(graph, (0.2, 0.3), 5)
    kept, away = withheld(links, disjoint, 5)
    carrying = without(graph, away)
    away = {each for kind in KINDS[1:3] for each in pairs(links, kind)}
    if disjoint:
        assert len(pairs(kept, "train")) == int(disjoint * len(pairs(links, "train")))
        assert {*pairs(kept, "train")} < {*pairs(links, "train")}
        away |= {*pairs(kept, "train")}
    away |= set() if graph.directed else {(v, u) for u, v in away}
    assert edges(carrying) == edges(graph) - away
    dense, left = (
        csr_array((g.values, g.indices, g.indptr), (worlds.N, worlds.N)).toarray()
        for g in (graph, carrying)
    )
    assert (left == np.where(left != 0, dense, 0)).all()


def read(source):
    return read_links(source, worlds.graph("directed"))


def test_sources(tmp_path):
    """A mapping, an archive, what RandomLinkSplit returns, and folders of OGB say the same."""
    torch = pytest.importorskip("torch")
    expected = read(PAIRS)
    np.savez(tmp_path / "links.npz", **PAIRS)
    objects = []
    for split in ("train", "val", "test"):
        negative = PAIRS.get(f"{split}_negative", [[3], [3]])
        label = torch.tensor([1.0] * len(PAIRS[split][0]) + [0.0] * len(negative[0]))
        pair = torch.tensor([a + b for a, b in zip(PAIRS[split], negative, strict=True)])
        objects.append(SimpleNamespace(edge_label_index=pair, edge_label=label))
    found = [read(tmp_path / "links.npz"), read(tuple(objects))]
    for form in ("pt", "csv"):
        folder = tmp_path / form
        (folder / "raw").mkdir(parents=True)
        (folder / "raw" / "edge.csv").write_text("0,1\n")
        for split, name in (("train", "train"), ("val", "valid"), ("test", "test")):
            at = folder / "split" / "time"
            tables = {"edge": PAIRS[split], "edge_neg": PAIRS.get(f"{split}_negative", [[1], [2]])}
            if form == "pt":
                at.mkdir(parents=True, exist_ok=True)
                held = {key: torch.tensor(each).T for key, each in tables.items()}
                torch.save(held, at / f"{name}.pt")
                continue
            (at / name).mkdir(parents=True)
            for key, (sources, targets) in tables.items():
                lines = (f"{u},{v}\n" for u, v in zip(sources, targets, strict=True))
                (at / name / f"{key}.csv").write_text("".join(lines))
        found.append(read(folder))
    for each in found:
        assert each.per_link == 0
        for kind in KINDS:
            assert each.pairs[kind].tolist() == expected.pairs[kind].tolist(), kind


def test_negatives_of_every_link(tmp_path):
    """As ogbl-citation2 lies on disk."""
    torch = pytest.importorskip("torch")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "edge.csv").write_text("0,1\n")
    at = tmp_path / "split" / "time"
    at.mkdir(parents=True)
    for name in ("train", "valid", "test"):
        held = {"source_node": torch.tensor([4, 6]), "target_node": torch.tensor([5, 7])}
        if name != "train":
            held["target_node_neg"] = torch.arange(6).reshape(2, 3)
        torch.save(held, at / f"{name}.pt")
    links = read(tmp_path)
    assert links.per_link == 3
    assert pairs(links, "val_negative") == [*zip([4] * 3 + [6] * 3, range(6), strict=True)]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (7, "'int' has no links"),
        ("links.csv", "links are read only from .npz"),
        ({**PAIRS, "valid": [[0], [1]]}, "'valid' is unknown; choose from train, val,"),
        ({**PAIRS, "train": [[0.5], [1]]}, r"train is of float64, shape \[2, 1\]; give integers"),
        ({**PAIRS, "test": [[0, 1, 2]]}, r"shape \[1, 3\]; give integers of shape \[2, links\]"),
        ({**PAIRS, "val": [[0], [41]]}, "val: vertex '41' is out of range 0..40"),
        ({"train": [[0], [1]], "val": [[0], [1]]}, "val has links but no negatives; give val_neg"),
        ({**PAIRS, "train": np.zeros((2, 0), int)}, "there are no training links"),
        ({**PAIRS, "test_target_negative": [[1], [2]]}, "2 rows, but test has 1 links"),
        ({**PAIRS, "test_target_negative": [[1, 2]]}, "0 and 2 negatives each"),
        ([SimpleNamespace()] * 3, "the data of train have no edge_label_index and edge_label"),
    ],
)
def test_refused(source, words):
    with pytest.raises(InputError, match=words):
        read(source)


def test_held_links_that_are_learnt_too_are_said():
    with pytest.warns(PlanccWarning, match="1 of 2 validation and test links are training links"):
        read({**PAIRS, "train": [[0, 6], [2, 7]]})


def test_shares_that_leave_nothing_for_training():
    words = "`link_split` 0.5,0.5: give shares of validation and"
    with pytest.raises(InputError, match=words):
        compiler.compile(worlds.graph("directed"), num_parts=2, link_split=(0.5, 0.5))


@pytest.mark.parametrize(
    ("matrix", "shares", "words"),
    [
        (np.eye(3), (0.4, 0.4), "has no edges to split"),
        (np.ones((3, 3)), (0.4, 0.4), "2 negatives are needed, but only 0 pairs of vertices have"),
        (np.ones((3, 3)), (0, 0.3), "0.3: this share of 3 edges is less than one link"),
    ],
)
def test_graphs_that_cannot_be_split(matrix, shares, words):
    with pytest.raises(InputError, match=words):
        random_links(worlds.graph_of(matrix), shares, 0)


def test_graphs_of_types_are_refused():
    graph = compiler.as_graph({"a": 2, "b": 2, ("a", "to", "b"): np.array([[0, 1], [1, 0]])})
    with pytest.raises(
        InputError, match="link prediction is not supported for graphs with vertex types"
    ):
        compiler.compile(graph, num_parts=1, link_split=(0.1, 0.1))


TIMED = "0 1 100\n1 2 200\n2 3 300\n3 4 400\n4 5 500\n5 0 600\n0 1 900\n1 0 50\n2 5 0\n3 0 700\n"
EARLIEST = {(0, 1): 50, (1, 2): 200, (2, 3): 300, (3, 4): 400, (4, 5): 500, (0, 5): 600}
EARLIEST |= {(2, 5): 0, (0, 3): 700}


def timed(tmp_path, times, shares=(0.2, 0.3), **reading):
    (tmp_path / "graph.txt").write_text(TIMED)
    read = read_source(tmp_path / "graph.txt", None, times, **reading)
    assert read.times is not None
    return read.graph, random_links(read.graph, shares, 1, read.times.first)


@pytest.mark.parametrize("of", ["values", "file", "array"])
def test_the_latest_edges_are_test_links(tmp_path, of):
    column = [int(line.split()[2]) for line in TIMED.splitlines()]
    (tmp_path / "times.csv").write_text("".join(f"{each}\n" for each in column))
    times = {"values": "values", "file": tmp_path / "times.csv", "array": np.array(column)}[of]
    graph, links = timed(tmp_path, times, symmetrize=True, pattern=of != "values")
    assert graph.num_nonzeros == 2 * len(EARLIEST)  # one of time 0 stays
    assert graph.values is None
    latest = sorted(EARLIEST, key=EARLIEST.get)
    for split, wanted in zip(KINDS[:3], (latest[:5], latest[5:6], latest[6:]), strict=True):
        assert {tuple(sorted(each)) for each in pairs(links, split)} == {*wanted}
    assert len(pairs(links, "test_negative")) == 2


def test_links_of_one_time_stay_together(tmp_path):
    with pytest.warns(PlanccWarning, match=r"44.4% of the links are for test, from time 2 on$"):
        _, links = timed(tmp_path, [1, 1, 1, 1, 2, 2, 1, 2, 2, 1], (0, 0.2), pattern=True)
    assert sorted(pairs(links, "test")) == [(0, 1), (0, 5), (5, 2), (5, 4)]
    assert len(pairs(links, "train")) == 5


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([1] * 9, "9 times, but the graph has 10 edges"),
        ([1.0] * 9 + [np.nan], r"the time of edge 9 \(counted from 0\) is not finite"),
        ([[1, 2]] * 10, "give a number per edge"),
        ([1] * 8 + [2] * 2, "have 2 different times, too few for `link_split` 0.2,0.3"),
        ("nowhere.npy", "nowhere.npy: no such file"),
    ],
)
def test_refused_times(tmp_path, times, words):
    with pytest.raises(InputError, match=words):
        timed(tmp_path, times)
    with pytest.raises(InputError, match="`link_times` values: the edges have no values; give"):
        timed(tmp_path, "values", pattern=True)
    with pytest.raises(InputError, match="the graph has no vertex data; drop `split`"):
        compiler.compile(tmp_path / "graph.txt", "hp", 2, split="time")
    with pytest.raises(InputError, match="`link_times` needs shares of links"):
        compiler.compile(tmp_path / "graph.txt", "hp", 2, link_times="values")
