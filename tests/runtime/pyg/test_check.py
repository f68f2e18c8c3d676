"""`check`: a model on all ranks beside one rank, and models that differ."""

import pytest

pytest.importorskip("torch_geometric")

import torch
from on_ranks import opened, seeded
from torch_geometric.nn import BatchNorm, GATv2Conv, GCNConv

from plancc.errors import InputError
from plancc_runtime.pyg import check, distributed
from plancc_runtime.transport.local import run_ranks


class Scaled(torch.nn.Module):
    """Wrong on purpose: a number of this rank reaches the rows."""

    def forward(self, x):
        return x * (1 + int(x.size(0)))


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

    with pytest.raises(InputError, match=r"rank 2 has other numbers in 'last\.bias'"):
        run_ranks(3, work, 60)


def test_edge_plans_are_refused():
    import worlds

    plan = worlds.plan("directed", "edge", 1)

    def work(transport):
        import plancc_runtime

        graph = plancc_runtime.open((plan.header, plan.part(0)), transport, torch.float64)
        distributed(torch.nn.Identity(), graph)

    with pytest.raises(InputError, match="edge plan spreads"):
        run_ranks(1, work, 60)
