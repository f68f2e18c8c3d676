"""Classes as users have them in a file of their own, right ones and wrong ones."""

import threading

import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import BatchNorm, GATv2Conv, GCNConv, GraphConv, HeteroConv, RGCNConv

ALONE = {"add_self_loops": False}


class Net(nn.Module):
    def __init__(self, in_channels, out_channels, hidden=6, rate=0.0):
        super().__init__()
        self.first, self.norm = GATv2Conv(in_channels, hidden), BatchNorm(hidden)
        self.last, self.rate = GCNConv(hidden, out_channels), rate

    def forward(self, x, edge_index, edge_weight=None):
        x = torch.relu(self.norm(self.first(x, edge_index)))
        x = functional.dropout(x, self.rate, self.training)
        weight = None if edge_weight is None else edge_weight.abs()
        return functional.log_softmax(self.last(x, edge_index, weight), dim=-1)


class Numbers(Net):
    def forward(self, x, edge_index):
        return self.last(torch.tanh(self.first(x, edge_index)), edge_index)


class Typed(nn.Module):
    def __init__(self, in_channels, out_channels, metadata, hidden=6):
        super().__init__()
        first = {
            r: GATv2Conv((in_channels[r[0]], in_channels[r[2]]), hidden, **ALONE)
            for r in metadata[1]
        }
        self.first = HeteroConv(first)
        self.norms = nn.ModuleDict({name: BatchNorm(hidden) for name in metadata[0]})
        last = {r: GraphConv((-1, -1), out_channels) for r in metadata[1] if r[2] == "paper"}
        self.last = HeteroConv(last)

    def forward(self, x_dict, edge_index_dict, edge_weight_dict=None):
        x_dict = self.first(x_dict, edge_index_dict)
        x_dict = {name: self.norms[name](x).relu() for name, x in x_dict.items()}
        return self.last(x_dict, edge_index_dict, edge_weight_dict=edge_weight_dict)


class Relations(nn.Module):
    def __init__(self, in_channels, out_channels, num_relations, hidden=6):
        super().__init__()
        self.first = RGCNConv(in_channels, hidden, num_relations, num_bases=2)
        self.last = RGCNConv(hidden, out_channels, num_relations)

    def forward(self, x, edge_index, edge_type):
        return self.last(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


class Papers(Typed):
    """Outputs of one type alone, in no dict; what a check finds to be wrong on purpose."""

    def forward(self, x_dict, edge_index_dict, edge_weight_dict):
        x_dict = {name: x * (1 + len(range(x.size(0)))) for name, x in x_dict.items()}
        return super().forward(x_dict, edge_index_dict, edge_weight_dict)["paper"]


class Venues(Typed):
    def __init__(self, in_channels, out_channels, metadata):
        super().__init__(in_channels, out_channels, metadata)
        del self.last

    def forward(self, x_dict, edge_index_dict):
        return {"venue": x_dict["venue"]}


class Dicts(Net):
    def forward(self, x_dict, edge_index_dict):
        return x_dict


class Kinds(Net):
    def forward(self, x, edge_index, edge_type):
        return x


class Depends(Net):
    """Wrong on purpose: the length of a range, this rank's number of rows, reaches the rows."""

    def forward(self, x, edge_index):
        return super().forward(x * (1 + len(range(x.size(0)))), edge_index)


class Edges(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.last = GATv2Conv(d_in, d_out, edge_dim=2)

    def forward(self, x, edge_index, edge_attr):
        return self.last(x, edge_index, edge_attr)


class Needs(Net):
    def __init__(self, in_channels, out_channels, depth, width):
        super().__init__(in_channels, out_channels, width)


class Positions(Net):
    def forward(self, x, edge_index, pos, batch):
        return x


class Data(Net):
    def forward(self, data):
        return data.x


class Lazy(nn.Module):
    def __init__(self, out_channels):
        super().__init__()
        self.unused = GCNConv(-1, out_channels)

    def forward(self, x, edge_index):
        return x


class Wide(Net):
    def forward(self, x, edge_index):
        return torch.cat([x, x], dim=1)


class Unmade(Net):
    def __init__(self, in_channels, out_channels):
        raise ValueError("there is no such width")


class Fails(Net):
    def forward(self, x, edge_index):
        return self.last(x, edge_index)


class FailsBack(Net):
    def forward(self, x, edge_index):
        self.last.bias.register_hook(lambda gradient: gradient[99])
        return super().forward(x, edge_index)


class Sorts(Net):
    def forward(self, x, edge_index):
        return super().forward(x.sort(dim=0)[0], edge_index)


class NoGradient(Net):
    @torch.no_grad()
    def forward(self, x, edge_index):
        return super().forward(x, edge_index)


class Plain:
    pass


def function(in_channels):
    return None


class Differs(Net):
    """Made otherwise on each rank but the first, which are threads."""

    def __init__(self, in_channels, out_channels):
        super().__init__(in_channels, out_channels)
        self.last.bias.data += not threading.current_thread().name.endswith("0")
