"""Networks of several types of vertices on ranks, beside one process."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
import worlds
from convolutions import mlp
from on_ranks import Place, compare, edges_into, on_ranks, opened, seeded
from torch import Tensor
from torch_geometric import nn

import plancc_runtime
from plancc.errors import InputError
from plancc.graph.convert import graph_of_relations
from plancc.graph.owners import Owners
from plancc.plan.lowering import lower
from plancc_runtime.pyg import check, distributed
from plancc_runtime.transport.local import run_ranks

COUNTS = {"author": 14, "paper": 23, "venue": 5}
WIDTHS = {"author": 5, "paper": 7, "venue": 4}
OUT, EDGE = 6, 3
WRITES, CITES, LIKES, IN, BY = (
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "likes", "paper"),
    ("paper", "in", "venue"),
    ("paper", "by", "author"),
)
RANKS = (1, 3)


class TypedWorld(NamedTuple):
    """As of `World`: edges by relation, tensors by type and relation. Rank 2 has no venues."""

    edges: dict[Any, Tensor]
    tensors: dict[Place, Tensor]

    def ends(self, graph: Any = None) -> Any:
        return self.edges if graph is None else graph.edge_index_dict

    def mine(self, graph: Any = None) -> dict[Any, Tensor]:
        of = {k: torch.arange(n) if graph is None else graph.vertices(k) for k, n in COUNTS.items()}
        return of | {r: edges_into(of[r[2]], e[1], COUNTS[r[2]]) for r, e in self.edges.items()}

    def called(self, net: Any, ends: Any, tensors: dict[Place, Tensor]) -> dict[Any, Tensor]:
        given = {
            name: {key: x for (n, key), x in tensors.items() if n == name} for name, _ in tensors
        }
        return {k: x for k, x in net(ends, **given).items() if x is not None}

    def parts(self, ranks: int) -> Any:
        return _parts(len(self.edges), ranks)

    def open_plan(self, plan: Any, **how: Any) -> Any:
        return plancc_runtime.open_typed(plan, **how)


class Union(TypedWorld):
    """The same vertices as one type, with a number for the relation of every edge."""

    def ends(self, graph: Any = None) -> Any:
        if graph is not None:
            return graph.edge_index, graph.edge_type
        first = dict(zip(COUNTS, np.cumsum([0, *COUNTS.values()]).tolist(), strict=False))
        pairs = self.edges.items()
        ends = torch.cat([e + torch.tensor([[first[r[0]]], [first[r[2]]]]) for r, e in pairs], 1)
        kinds = torch.cat([torch.full((e.shape[1],), k) for k, (_, e) in enumerate(pairs)])
        return ends, kinds

    def mine(self, graph: Any = None) -> dict[Any, Tensor]:
        return {"": torch.arange(sum(COUNTS.values())) if graph is None else graph.vertices.long()}

    def called(self, net: Any, ends: Any, tensors: dict[Place, Tensor]) -> dict[Any, Tensor]:
        return {"": net(tensors["x", ""], *ends)}

    def open_plan(self, plan: Any, **how: Any) -> Any:
        return plancc_runtime.open(plan, **how)


@cache
def world(relations: int = 4, union: bool = False) -> TypedWorld:
    """Of 4 relations none leads to authors. Papers often like those that they cite."""
    draw, edges = torch.Generator().manual_seed(3), {}
    for relation in (WRITES, CITES, LIKES, IN, BY)[:relations]:
        there = torch.rand(COUNTS[relation[2]], COUNTS[relation[0]], generator=draw) < 0.15
        if relation == LIKES:
            target, source = edges[CITES][:, ::2].flip(0)
            there[target, source] = True
        edges[relation] = there.nonzero().flip(1).t()
    like = {"generator": draw, "dtype": torch.float64}
    if union:
        return Union(edges, {("x", ""): torch.randn(sum(COUNTS.values()), 7, **like)})
    tensors = {("x_dict", k): torch.randn(n, WIDTHS[k], **like) for k, n in COUNTS.items()}
    for relation, ends in edges.items():
        tensors["edge_attr_dict", relation] = torch.rand(ends.shape[1], EDGE, **like)
    return TypedWorld(edges, tensors)


def owners(ranks: int) -> np.ndarray:
    owner = worlds.owners(sum(COUNTS.values()), ranks)
    owner[-COUNTS["venue"] :] %= max(ranks - 1, 1)
    return owner


@cache
def _parts(relations: int, ranks: int) -> Any:
    """Values are numbers of nonzeros from 1, and features of edges their multiples."""
    edges = {r: ends.numpy() for r, ends in world(relations).edges.items()}
    graph = graph_of_relations(COUNTS | edges)
    values = np.arange(1.0, graph.num_nonzeros + 1)
    features = np.stack([values, 2 * values], axis=1).astype(np.float32)
    graph = replace(graph, values=values, edge_features=features)
    plan = lower(graph, Owners(owners(ranks), None), ranks, normalization="none", self_loops=False)
    return plan.header, [plan.part(m) for m in range(ranks)]


@pytest.fixture(autouse=True)
def _float64():
    held = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(held)


class Net(torch.nn.Module):
    """A layer that is called with dicts, of some relations with features of edges."""

    def __init__(self, layer, with_features=()):
        super().__init__()
        self.layer, self.with_features = layer, with_features

    def forward(self, edge_index_dict, x_dict, edge_attr_dict):
        more = {"edge_attr_dict": {r: edge_attr_dict[r] for r in self.with_features}}
        return self.layer(x_dict, edge_index_dict, **(more if self.with_features else {}))


def hetero(aggr):
    widths = {r: (WIDTHS[r[0]], WIDTHS[r[2]]) for r in (WRITES, IN)}
    convs = {
        WRITES: nn.SAGEConv(widths[WRITES], OUT, "max"),
        CITES: nn.GATv2Conv(7, 3, heads=2, edge_dim=EDGE),
        LIKES: nn.TransformerConv(7, OUT, edge_dim=EDGE),
        IN: nn.GATConv(widths[IN], 3, heads=2, edge_dim=EDGE, add_self_loops=False),
    }
    return Net(nn.HeteroConv(convs, aggr), (CITES, LIKES, IN))


class Homogeneous(torch.nn.Module):
    """What `to_hetero` takes apart."""

    def __init__(self):
        super().__init__()
        self.first = nn.SAGEConv((-1, -1), OUT)
        self.norm = nn.BatchNorm(OUT)
        self.last = nn.GATv2Conv((-1, -1), 3, heads=2, add_self_loops=False)

    def forward(self, x, edge_index):
        return self.last(self.norm(self.first(x, edge_index)).relu(), edge_index)


def to_hetero(aggr):
    net = nn.to_hetero(Homogeneous(), ([*COUNTS], [*world(5).edges]), aggr)
    x, edges = {k: torch.ones(3, w) for k, w in WIDTHS.items()}, torch.zeros(2, 2).long()
    net(x, dict.fromkeys(world(5).edges, edges))  # which gives all weights their sizes
    return Net(net)


class Relational(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.RGCNConv(7, OUT, 4)
        self.last = nn.FastRGCNConv(OUT, OUT, 4, num_bases=2)

    def forward(self, x, edge_index, edge_type):
        return self.last(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


class Stacked(torch.nn.Module):
    """Two layers of HGT or HAN, of which the latter have what types have reached."""

    def __init__(self, kind, **how):
        super().__init__()
        metadata = [*COUNTS], [*world(5).edges]
        self.layers = torch.nn.ModuleList(
            kind(width, OUT, metadata, heads=2, **how) for width in (WIDTHS, OUT)
        )

    def forward(self, x_dict, edge_index_dict):
        for layer in self.layers:
            x_dict = {k: x.tanh() for k, x in layer(x_dict, edge_index_dict).items()}
        return x_dict


class EdgeMessages(nn.MessagePassing):
    """Messages of both ends and of the edge, and sums that go back to sources."""

    def __init__(self, d_in):
        super().__init__("mean")
        self.mlp = mlp(sum(d_in) + EDGE)

    def forward(self, x, edge_index, edge_attr):
        return self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_i, x_j, edge_attr):
        return self.mlp(torch.cat([x_i, x_j, edge_attr], -1))


class Custom(torch.nn.Module):
    """Messages, norms, means, degrees and plain indexing by type."""

    def __init__(self):
        super().__init__()
        self.writes = EdgeMessages((WIDTHS["author"], WIDTHS["paper"]))
        self.norms = torch.nn.ModuleDict({k: torch.nn.BatchNorm1d(w) for k, w in WIDTHS.items()})
        self.among = nn.GCNConv(7, OUT)

    def forward(self, edge_index_dict, x_dict, edge_attr_dict):
        x = {k: self.norms[k](x) - x.mean(0) / x.size(0) for k, x in x_dict.items()}
        pair = x["author"], x["paper"]
        papers = self.writes(pair, edge_index_dict[WRITES], edge_attr_dict[WRITES])
        papers = papers + self.among(
            x["paper"], torch.cat([edge_index_dict[CITES], edge_index_dict[LIKES]], 1)
        )
        source, target = edge_index_dict[IN]
        venues = x["venue"].new_zeros(x["venue"].size(0), OUT).index_add(0, target, papers[source])
        told = x["paper"].new_zeros(x["paper"].size(0)).index_add(0, source, x["venue"][target, 0])
        wrote = torch.zeros_like(x["author"]).index_add(
            0, edge_index_dict[WRITES][0], x["paper"][edge_index_dict[WRITES][1], :5]
        )
        return {"paper": papers * told[:, None], "venue": venues / venues.std(), "author": wrote}


NETWORKS = {
    **{f"HeteroConv {a}": (lambda a=a: hetero(a), {}) for a in ("sum", "mean", "max", "cat", None)},
    **{f"to_hetero {a}": (lambda a=a: to_hetero(a), {"relations": 5}) for a in ("sum", "max")},
    "RGCNConv": (Relational, {"union": True}),
    "HANConv": (lambda: Net(nn.HANConv(WIDTHS, OUT, ([*COUNTS], [*world().edges]), heads=2)), {}),
    "HANConv deep": (lambda: Net(Stacked(nn.HANConv)), {"relations": 5}),
    "HGTConv": (lambda: Net(nn.HGTConv(WIDTHS, OUT, ([*COUNTS], [*world().edges]), heads=2)), {}),
    "HGTConv deep": (lambda: Net(Stacked(nn.HGTConv)), {"relations": 5}),
    "custom": (Custom, {}),
}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore:There exist node types")
def test_networks_of_types(name, ranks):
    make, of_world = NETWORKS[name]
    compare(make, ranks, world(**of_world))


def test_edges_and_their_numbers_are_by_relation():
    relation = _parts(4, 1)[1][0].relation

    def work(transport):
        graph = opened(world(), transport)
        mine = world().mine(graph)
        for k, each in enumerate(world().edges):
            weights = torch.from_numpy(np.flatnonzero(relation == k) + 1.0)[mine[each]]
            assert torch.equal(graph.edge_weight_dict[each], weights)
            assert torch.equal(graph.edge_attr_dict[each][:, 1], 2 * weights)
            source, target = graph.edge_index_dict[each]
            first = graph.types.vertices(each[0]).start
            ends = graph.column_vertices(each[0])[source] - first, graph.vertices(each[2])[target]
            assert torch.equal(torch.stack(ends), world().edges[each][:, mine[each]])

    run_ranks(3, work, 60)


class Wrong(torch.nn.Module):
    """A stride of this rank's memory reaches the rows."""

    def forward(self, x_dict, edge_index_dict):
        return {k: x * (1 + x.t().contiguous().stride(0)) for k, x in x_dict.items()}


@pytest.mark.parametrize("ranks", RANKS)
def test_check_of_networks_of_types(ranks):
    def work(transport):
        graph = opened(world(), transport)
        leaves = {p: x[world().mine(graph)[p[1]]] for p, x in world().tensors.items()}
        checked = []

        def called(model):
            world().called(lambda *a, **k: checked.append(check(model, graph, *a, **k)) or {},
                           graph.edge_index_dict, leaves)  # fmt: skip

        called(seeded(lambda: hetero("sum")))
        called(seeded(lambda: Net(nn.HGTConv(WIDTHS, OUT, ([*COUNTS], [*world().edges]), 2))))
        called(Net(Wrong()))
        return checked

    for exact, hgt, wrong in run_ranks(ranks, work, 60):
        assert exact.exact, str(exact)
        assert hgt.exact, str(hgt)
        assert wrong.exact == (ranks == 1)


def test_words_are_those_that_messages_of_a_relation_read_once():
    def make():
        convs = {r: nn.SAGEConv((WIDTHS[r[0]], WIDTHS[r[2]]), OUT) for r in (CITES, LIKES, IN)}
        more = {WRITES: nn.GATv2Conv((5, 7), OUT, add_self_loops=False)}
        return Net(nn.HeteroConv(convs | more))

    def work(transport):
        graph = opened(world(), transport)
        net, x = distributed(seeded(make), graph), world().tensors
        x = {k: x["x_dict", k][graph.vertices(k)] for k in COUNTS}
        net(graph.edge_index_dict, x, None)  # ranks agree on the messages
        before = transport.traffic.as_array()
        net(graph.edge_index_dict, x, None)
        return transport.traffic.as_array() - before

    owner = dict(zip(COUNTS, np.split(owners(3), np.cumsum([*COUNTS.values()])), strict=False))

    def moved(*relations):
        found = set()
        for source, name, end in relations:
            sources, targets = world().edges[source, name, end].numpy()
            to = owner[end][targets]
            pairs = np.stack([sources, to])[:, owner[source][sources] != to]
            found |= {*map(tuple, pairs.T.tolist())}
        return len(found)

    words = moved(CITES, LIKES, IN) * WIDTHS["paper"] + moved(WRITES) * OUT
    assert sum(each[1] for each in run_ranks(3, work, 180)) == words


class Mixed(torch.nn.Module):
    """Rows of several types in one tensor, or at ends of another."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, edge_index_dict, x_dict, edge_attr_dict):
        return {"paper": self.how(x_dict, edge_index_dict)}


REFUSED = {
    "rows of two types": lambda x, e: torch.cat([x["author"][:, :4], x["venue"]]),
    "sum of two types": lambda x, e: x["author"][:, :4] + x["venue"],
    "ends of another type": lambda x, e: x["author"][e[CITES][0]],
    "sums at another type": lambda x, e: x["author"].index_add(0, e[CITES][1], x["paper"]),
    "edges of two types": lambda x, e: torch.cat([e[WRITES], e[CITES]], 1),
    "most of two types": lambda x, e: x["author"] * e[WRITES].max(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_of_different_types_do_not_mix(name):
    with pytest.raises(InputError):
        on_ranks(lambda: Mixed(REFUSED[name]), 3, world())
