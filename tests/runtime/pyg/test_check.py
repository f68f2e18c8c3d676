"""`check`: a model on all ranks beside one rank, and models that differ."""

import pytest

pytest.importorskip("torch_geometric")

import io
from copy import deepcopy

import numpy as np
import torch
import worlds
from on_ranks import opened, seeded, world
from torch_geometric.data import Data
from torch_geometric.nn import BatchNorm, GATv2Conv, GCNConv

import plancc_runtime
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.plan.lowering import lower
from plancc_runtime.pyg import check, distributed
from plancc_runtime.transport.local import run_ranks


class Scaled(torch.nn.Module):
    """Wrong on purpose: the length of a range, this rank's number of rows, reaches the rows."""

    def forward(self, x):
        return x * (1 + len(range(x.size(0))))


class Net(torch.nn.Module):
    def __init__(self, between):
        super().__init__()
        self.first, self.norm, self.between = GATv2Conv(8, 6), BatchNorm(6), between
        self.last = GCNConv(6, 3)

    def forward(self, x, edge_index, edge_weight):
        x = torch.relu(self.norm(self.first(x, edge_index)))
        x = torch.nn.functional.dropout(self.between(x), 0.5, self.training)
        return self.last(x, edge_index, edge_weight)


def agreement(between, ranks):
    def work(transport):
        graph = opened("directed", transport)
        x = torch.sin(graph.vertices.double()[:, None] * torch.arange(1.0, 9))
        model = seeded(lambda: Net(between))
        weights = graph.edge_weight.abs()
        return check(model, graph, x, graph.edge_index, edge_weight=weights)

    found = run_ranks(ranks, work, 60)
    assert all(each == found[0] for each in found)
    return found[0]


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_model_that_is_exact(ranks):
    found = agreement(torch.nn.Identity(), ranks)
    assert found.exact, str(found)
    assert not found.first_layer
    assert {"first.att", "norm.module.weight", "last.lin.weight"} <= found.gradients.keys()


def test_a_model_that_is_wrong_is_told_with_the_layer():
    found = agreement(Scaled(), 3)
    assert not found.exact
    assert found.first_layer == "between"
    assert found.outputs > 0.01


def test_ranks_whose_models_differ_are_named():
    def work(transport):
        graph = opened("directed", transport)
        model = seeded(lambda: Net(torch.nn.Identity()))
        if transport.rank == 2:
            model.last.bias.data += 1
        distributed(model, graph)(torch.zeros(graph.num_rows, 8), graph.edge_index, None)

    with pytest.raises(InputError, match=r"rank 2 has other values in the network's 'last\.bias'"):
        run_ranks(3, work, 60)


def test_a_rank_without_rows():
    owner = np.arange(len(world())) % 2  # of three ranks
    matrix = worlds.graph_of(world().matrix)
    plan = lower(matrix, Owners(owner.astype(np.int32), None), 3, normalization="none",
                 self_loops=False)  # fmt: skip

    def work(transport):
        torch.set_num_threads(1)
        part = plan.header, plan.part(transport.rank)
        graph = plancc_runtime.open(part, transport, torch.float64, threads=1)
        x = torch.sin(graph.vertices.double()[:, None] * torch.arange(1.0, 9))
        model = seeded(lambda: Net(torch.nn.Dropout(0.5)).double())
        assert check(model, graph, x, graph.edge_index, None).exact
        net = distributed(model, graph)
        with torch.inference_mode():
            out = net(x, graph.edge_index, None)
        net(x, graph.edge_index, None).sum().backward()
        return len(out)

    assert run_ranks(3, work, 60)[2] == 0


def test_arguments_that_do_not_fit_are_named():
    def work(transport, given):
        graph = opened("directed", transport)
        x = torch.zeros(graph.num_rows, 8)
        net = distributed(seeded(lambda: Net(torch.nn.Identity())), graph)
        with pytest.raises(InputError) as refused:
            net(*given(graph, x))
        return str(refused.value)

    for given, sentence in (
        (lambda g, x: (x[1:], g.edge_index, None), "`x` has shapes"),
        (lambda g, x: (x, g.edge_index + 99, None), "`edge_index` has numbers that are not local"),
        (lambda g, x: (Data(x=x, edge_index=g.edge_index), None, None), "an argument is a Data,"),
        (lambda g, x: (x[:1, :3], None, None), "no argument of the network has"),
    ):
        found = run_ranks(2, lambda transport, given=given: work(transport, given), 60)
        assert all(each.startswith(sentence) for each in found), found


def test_shapes_that_are_new_on_one_rank_alone():
    """All ranks look again then, and none waits for another."""

    def work(transport):
        graph = opened("directed", transport)
        net = distributed(seeded(lambda: Net(torch.nn.Identity())).eval(), graph)
        net.forward = net._marked  # what arguments are, alone
        x = torch.ones(graph.num_rows, 8)
        net({"x": x, "more": torch.zeros(3, 5)})
        with pytest.raises(InputError) as refused:
            net({"x": x, "more": torch.zeros(3 + transport.rank, 5)})
        return str(refused.value)

    assert all("`more` has shapes" in each for each in run_ranks(2, work, 30))


def test_a_model_that_has_cached_its_edges():
    def work(transport):
        graph = opened("directed", transport)
        x = torch.sin(graph.vertices.double()[:, None] * torch.arange(1.0, 9))
        model = seeded(lambda: GCNConv(8, 3, cached=True).double())
        out = distributed(model, graph)(x, graph.edge_index)
        assert torch.equal(out, distributed(deepcopy(model), graph)(x, graph.edge_index))
        torch.save(model, io.BytesIO())
        return check(model, graph, x, graph.edge_index).exact

    assert all(run_ranks(3, work, 60))


def test_samples_over_one_graph():
    def work(transport):
        graph, powers = opened("directed", transport), torch.arange(3.0)[:, None, None]
        x = torch.sin(graph.vertices.double()[:, None] * torch.arange(1.0, 9)) * powers
        return check(seeded(lambda: GCNConv(8, 3, node_dim=-2)), graph, x, graph.edge_index)

    found = run_ranks(3, work, 60)[0]
    assert found.exact, str(found)


def test_edge_plans_are_refused():
    plan = worlds.plan("directed", "edge", 1)

    def work(transport):
        graph = plancc_runtime.open((plan.header, plan.part(0)), transport, torch.float64)
        distributed(torch.nn.Identity(), graph)

    with pytest.raises(InputError, match="edge plan, which spreads"):
        run_ranks(1, work, 60)
