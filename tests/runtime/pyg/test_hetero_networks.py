"""Networks of several types of vertices on ranks, beside one process."""

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
import worlds
from cases import some
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
OUT, EDGE, RANKS = 6, 3, (1, 3)
WRITES, CITES, LIKES = (
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "likes", "paper"),
)
IN, BY = ("paper", "in", "venue"), ("paper", "by", "author")
NEAR = ("paper", "near", "paper")
"""Between papers of the same rank."""
METADATA = [*COUNTS], [WRITES, CITES, LIKES, IN, BY]
CUT = [*COUNTS], [WRITES, CITES, LIKES, IN]
"""No relation leads to authors."""


pytestmark = pytest.mark.usefixtures("float64")


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


def union(edges: dict[Any, Tensor]) -> tuple[Tensor, Tensor]:
    """The same edges between vertices of one type, with a number for the relation of each."""
    first = dict(zip(COUNTS, np.cumsum([0, *COUNTS.values()]).tolist(), strict=False))
    pairs = edges.items()
    ends = torch.cat([e + torch.tensor([[first[r[0]]], [first[r[2]]]]) for r, e in pairs], 1)
    return ends, torch.cat([torch.full((e.shape[1],), k) for k, (_, e) in enumerate(pairs)])


@cache
def world(relations: int = 4) -> TypedWorld:
    """The first so many relations: BY alone leads to authors. Papers often like those they cite."""
    draw, edges = torch.Generator().manual_seed(3), {}
    like = {"generator": draw, "dtype": torch.float64}
    for relation in (WRITES, CITES, LIKES, IN, BY, NEAR)[:relations]:
        there = torch.rand(COUNTS[relation[2]], COUNTS[relation[0]], **like) < 0.15
        if relation == LIKES:
            target, source = edges[CITES][:, ::2].flip(0)
            there[target, source] = True
        if relation == NEAR:
            of = torch.from_numpy(owners(3))[COUNTS["author"] :][: COUNTS["paper"]]
            there = of[:, None] == of
        edges[relation] = there.nonzero().flip(1).t()
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
    graph = replace(graph, values=values).with_columns(edge_features=features)
    plan = lower(graph, Owners(owners(ranks), None), ranks, normalization="none", self_loops=False)
    return plan.header, [plan.part(m) for m in range(ranks)]


class Net(torch.nn.Module):
    """Layers that are called with dicts: of features, of edges, of their features."""

    def __init__(self, layers, call=lambda layers, x, e, a: layers(x, e)):
        super().__init__()
        self.layers, self.call = layers, call

    def forward(self, edge_index_dict, x_dict, edge_attr_dict):
        return self.call(self.layers, x_dict, edge_index_dict, edge_attr_dict)


def hetero(aggr):
    convs = {
        WRITES: nn.GeneralConv((5, 7), OUT, EDGE, "max"),
        CITES: nn.GATv2Conv(7, 3, heads=2, edge_dim=EDGE),
        LIKES: nn.TransformerConv(7, OUT, edge_dim=EDGE),
        IN: nn.GATConv((7, 4), 3, heads=2, edge_dim=EDGE, add_self_loops=False),
    }
    return Net(nn.HeteroConv(convs, aggr), lambda layer, x, e, a: layer(x, e, edge_attr_dict=a))


def to_hetero(aggr):
    net = nn.GAT((-1, -1), OUT, 2, v2=True, add_self_loops=False, norm="batch", heads=2)
    net = nn.to_hetero(net, METADATA, aggr)
    edges = dict.fromkeys(METADATA[1], torch.zeros(2, 2).long())
    net({k: torch.ones(3, w) for k, w in WIDTHS.items()}, edges)  # all weights have sizes then
    return Net(net)


def two(kind):
    def call(layers, x, e, a):
        for layer in layers:
            x = {k: y.tanh() for k, y in layer(x, e).items()}
        return x

    layers = (kind(width, OUT, METADATA, heads=2) for width in (WIDTHS, OUT))
    return Net(torch.nn.ModuleList(layers), call)


def own():
    """Messages, norms, means, degrees and plain indexing by type; sums at sources."""
    norms = {k: torch.nn.BatchNorm1d(width) for k, width in WIDTHS.items()}

    def call(layers, x, e, a):
        x = {k: layers[k](y) - y.mean(0) / y.size(0) for k, y in x.items()}
        papers = layers["writes"]((x["author"], x["paper"]), e[WRITES], a[WRITES])
        papers = papers + layers["among"](x["paper"], torch.cat([e[CITES], e[LIKES]], 1))
        source, target = e[IN]
        venues = x["venue"].new_zeros(x["venue"].size(0), 7).index_add(0, target, papers[source])
        told = x["paper"].new_zeros(x["paper"].size(0)).index_add(0, source, x["venue"][target, 0])
        wrote = torch.zeros_like(x["author"])
        wrote = wrote.index_add(0, e[WRITES][0], x["paper"][e[WRITES][1], :5])
        return {"paper": papers * told[:, None], "venue": venues / venues.std(), "author": wrote}

    layers = {"writes": nn.CGConv((5, 7), EDGE), "among": nn.GCNConv(7, 7)}
    return Net(torch.nn.ModuleDict(norms | layers), call)


def near_first():
    """Sums of rows of this rank, and then of the same rows of others too."""

    def call(_, x, e, a):
        ends = e[NEAR], torch.cat([e[CITES], e[LIKES]], 1)
        return {"paper": sum(
            torch.zeros_like(x["paper"]).index_add(0, k[1], x["paper"][k[0]]) for k in ends
        )}  # fmt: skip

    return Net(torch.nn.Identity(), call)


NETWORKS = {
    **{f"HeteroConv {a}": (lambda a=a: hetero(a), 4) for a in ("sum", "mean", "max", "cat", None)},
    **{f"to_hetero {a}": (lambda a=a: to_hetero(a), 5) for a in ("sum", "max")},
    "HANConv": (lambda: Net(nn.HANConv(WIDTHS, OUT, CUT, heads=2)), 4),
    "HANConv twice": (lambda: two(nn.HANConv), 5),
    "HGTConv": (lambda: Net(nn.HGTConv(WIDTHS, OUT, CUT, heads=2)), 4),
    "HGTConv twice": (lambda: two(nn.HGTConv), 5),
    "own": (own, 4),
    "rows of this rank first": (near_first, 6),
}


@some(
    lambda name, ranks: ranks > 1 or name in ("HeteroConv sum", "own"), name=NETWORKS, ranks=RANKS
)
def test_networks_of_types(name, ranks):
    make, relations = NETWORKS[name]
    compare(make, ranks, world(relations))


def test_edges_and_their_numbers_are_by_relation():
    relation = _parts(4, 1)[1][0].relation

    def work(transport):
        graph = opened(world(), transport)
        mine = world().mine(graph)
        for k, each in enumerate(CUT[1]):
            weights = torch.from_numpy(np.flatnonzero(relation == k) + 1.0)[mine[each]]
            assert torch.equal(graph.edge_weight_dict[each], weights)
            assert torch.equal(graph.edge_attr_dict[each][:, 1], 2 * weights)
            source, target = graph.edge_index_dict[each]
            sources = graph.column_vertices(each[0]) - graph.types.vertices(each[0]).start
            ends = torch.stack([sources[source], graph.vertices(each[2])[target]])
            assert torch.equal(ends, world().edges[each][:, mine[each]])

    run_ranks(3, work, 60)


def wrong(_, x, e, a):
    """The length of a range, this rank's number of rows, reaches the rows."""
    return {k: y * (1 + len(range(y.size(0)))) for k, y in x.items()}


@pytest.mark.parametrize("ranks", RANKS)
def test_check_of_networks_of_types(ranks):
    def work(transport):
        graph = opened(world(), transport)
        mine = world().mine(graph)
        x, a = ({k: y[mine[k]] for (n, k), y in world().tensors.items() if n == name}
                for name in ("x_dict", "edge_attr_dict"))  # fmt: skip
        hgt = Net(nn.HGTConv(WIDTHS, OUT, CUT))
        for model in (hetero("sum"), hgt, Net(torch.nn.Identity(), wrong)):
            graph.union.sync_parameters(model)
            found = check(model, graph, graph.edge_index_dict, x, edge_attr_dict=a)
            assert found.exact == (ranks == 1 or model.call is not wrong), str(found)

    run_ranks(ranks, work, 60)


def test_words_are_those_that_messages_of_a_relation_read_once():
    owner = dict(zip(COUNTS, np.split(owners(3), np.cumsum([*COUNTS.values()])), strict=False))

    def make():
        convs = {r: nn.SAGEConv((7, WIDTHS[r[2]]), OUT) for r in (CITES, LIKES, IN)}
        return nn.HeteroConv(convs | {WRITES: nn.GATv2Conv((5, 7), OUT, add_self_loops=False)})

    def work(transport):
        graph, x = opened(world(), transport), world().tensors
        net = distributed(seeded(make), graph)
        x = {k: x["x_dict", k][graph.vertices(k)] for k in COUNTS}
        net(x, graph.edge_index_dict)  # ranks agree on the messages
        before = transport.traffic.as_array()
        net(x, graph.edge_index_dict)
        return transport.traffic.as_array() - before

    def moved(*relations):
        ends = {(r, s, owner[r[2]][t]) for r in relations for s, t in world().edges[r].t().tolist()}
        return len({(s, rank) for r, s, rank in ends if owner[r[0]][s] != rank})

    words = moved(CITES, LIKES, IN) * WIDTHS["paper"] + moved(WRITES) * OUT
    assert sum(each[1] for each in run_ranks(3, work, 180)) == words


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
    def call(_, x, e, a):
        return {"paper": REFUSED[name](x, e)}

    with pytest.raises(InputError):
        on_ranks(lambda: Net(torch.nn.Identity(), call), 3, world())
