"""How every layer of `torch_geometric.nn.conv` is made and called on one directed graph.

A case is (how the layer is made, what its forward takes). What it takes are names of tensors of
`case_tensors` in the order of the call, "name=tensor" by keyword; or a function of the layer and
those tensors by name. The name of a case is that of the class, with more words where a class has
several.
"""

from typing import Any

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch_geometric import nn

W, OUT, EDGE, TYPES = 8, 6, 3, 2
RELATIONS = [("v", "a", "v"), ("v", "b", "v")]
METADATA = (["v"], RELATIONS)
PNA = {
    "aggregators": ["mean", "min", "max", "std"],
    "scalers": ["identity", "amplification", "attenuation", "linear", "inverse_linear"],
    "deg": torch.tensor([3, 5, 9, 12, 8, 4]),
}


def mlp(d_in: int, d_out: int = OUT) -> Any:
    layers = (torch_nn.Linear(d_in, 5), torch_nn.Tanh(), torch_nn.Linear(5, d_out))
    return torch_nn.Sequential(*layers)


class Called(torch_nn.Module):
    """A model that calls its layer as the case says."""

    def __init__(self, layer: torch_nn.Module, call: Any) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, **tensors: Tensor) -> Tensor:
        if callable(self.call):
            return self.call(self.layer, **tensors)
        words = [each.split("=") for each in self.call.split()]
        named = {word[0]: tensors[word[1]] for word in words if len(word) == 2}
        return self.layer(*(tensors[word[0]] for word in words if len(word) == 1), **named)


def case_tensors(vertices: int, edges: int, seed: int = 5) -> tuple[dict, dict]:
    """Tensors by vertex, and by edge in the order of (target, source)."""
    draw = torch.Generator().manual_seed(seed)
    like = {"generator": draw, "dtype": torch.float64}

    def kinds(count: int) -> Tensor:
        return torch.randint(TYPES, (count,), generator=draw)

    by_vertex = {
        "x": torch.randn(vertices, W, **like),
        "x_0": torch.randn(vertices, W, **like),
        "pos": torch.randn(vertices, 3, **like),
        "normal": torch_nn.functional.normalize(torch.randn(vertices, 3, **like)),
        "vertex_weight": torch.rand(vertices, **like) + 0.5,
        "node_type": kinds(vertices),
        "colours": kinds(vertices),
        "batch": torch.randint(3, (vertices,), generator=draw),
    }
    by_edge = {
        "edge_weight": torch.rand(edges, **like) + 0.2,
        "edge_attr": torch.rand(edges, EDGE, **like),
        "edge_type": kinds(edges),
    }
    return by_vertex, by_edge


def signed(layer: Any, x: Tensor, edge_index: Tensor, edge_type: Tensor, **_: Tensor) -> Tensor:
    return layer(x, edge_index[:, edge_type == 0], edge_index[:, edge_type == 1])


def hetero(layer: Any, x: Tensor, edge_index: Tensor, edge_type: Tensor, **_: Tensor) -> Tensor:
    edges = {r: edge_index[:, edge_type == k] for k, r in enumerate(RELATIONS)}
    return layer({"v": x}, edges)["v"]


def jumping(layer: Any, x: Tensor, edge_index: Tensor, **_: Tensor) -> Tensor:
    return layer(x.view(-1, 2, W // 2), edge_index)


def hypergraph(
    layer: Any, x: Tensor, edge_index: Tensor, vertex_weight: Tensor, **_: Tensor
) -> Any:
    """One hyperedge per vertex: of the sources of its edges."""
    return layer(x, edge_index, vertex_weight, hyperedge_attr=x, num_edges=x.size(0))


def of_class(name: str) -> str:
    return name.split()[0]


x, w, a, t = "x edge_index", "x edge_index edge_weight", "x edge_index edge_attr", "edge_type"
x_0, pos = "x x_0 edge_index edge_weight", "x pos edge_index"

CASES: dict[str, tuple[Any, Any]] = {
    "SimpleConv": (lambda: nn.SimpleConv("mean", combine_root="self_loop"), w),
    "SimpleConv cat": (lambda: nn.SimpleConv("sum", combine_root="cat"), w),
    "GCNConv": (lambda: nn.GCNConv(W, OUT, improved=True, cached=True), w),
    "GCNConv bare": (lambda: nn.GCNConv(W, OUT, normalize=False), x),
    "ChebConv": (lambda: nn.ChebConv(W, OUT, 3), w),
    "ChebConv rw": (lambda: nn.ChebConv(W, OUT, 3, "rw"), w),
    "ChebConv plain": (lambda: nn.ChebConv(W, OUT, 3, None), w),
    "SAGEConv": (lambda: nn.SAGEConv(W, OUT), x),
    "SAGEConv lstm": (lambda: nn.SAGEConv(W, OUT, "lstm"), x),
    "SAGEConv many": (lambda: nn.SAGEConv(W, OUT, ["max", "std"], True, project=True), x),
    "GraphConv": (lambda: nn.GraphConv(W, OUT, "max"), w),
    "GatedGraphConv": (lambda: nn.GatedGraphConv(W, 2), w),
    "ResGatedGraphConv": (lambda: nn.ResGatedGraphConv(W, OUT, edge_dim=EDGE), a),
    "GATConv": (lambda: nn.GATConv(W, 3, heads=2, edge_dim=EDGE, residual=True), a),
    "GATConv mean": (lambda: nn.GATConv(W, 3, heads=2, concat=False), x),
    "GATv2Conv": (lambda: nn.GATv2Conv(W, 3, heads=2, edge_dim=EDGE, share_weights=True), a),
    "TransformerConv": (lambda: nn.TransformerConv(W, 3, 2, beta=True, edge_dim=EDGE), a),
    "AGNNConv": (nn.AGNNConv, x),
    "TAGConv": (lambda: nn.TAGConv(W, OUT), w),
    "GINConv": (lambda: nn.GINConv(mlp(W), train_eps=True), x),
    "GINEConv": (lambda: nn.GINEConv(mlp(W), train_eps=True, edge_dim=EDGE), a),
    "ARMAConv": (lambda: nn.ARMAConv(W, OUT, num_stacks=2, num_layers=2), w),
    "SGConv": (lambda: nn.SGConv(W, OUT, K=2, cached=True), w),
    "SSGConv": (lambda: nn.SSGConv(W, OUT, 0.1, K=2), w),
    "APPNP": (lambda: nn.APPNP(3, 0.1), w),
    "MFConv": (lambda: nn.MFConv(W, OUT, max_degree=4), x),
    "RGCNConv": (lambda: nn.RGCNConv(W, OUT, TYPES), f"{x} {t}"),
    "RGCNConv blocks": (lambda: nn.RGCNConv(W, OUT, TYPES, num_blocks=2), f"{x} {t}"),
    "FastRGCNConv": (lambda: nn.FastRGCNConv(W, OUT, TYPES, num_bases=2), f"{x} {t}"),
    "RGATConv": (lambda: nn.RGATConv(W, 3, TYPES, heads=2, edge_dim=EDGE), f"{x} {t} edge_attr"),
    "RGATConv within": (
        lambda: nn.RGATConv(W, 3, TYPES, attention_mechanism="within-relation"),
        f"{x} {t}",
    ),
    "SignedConv": (lambda: nn.SignedConv(W, OUT, first_aggr=True), signed),
    "SignedConv deep": (lambda: nn.SignedConv(W // 2, OUT, first_aggr=False), signed),
    "DNAConv": (lambda: nn.DNAConv(W // 2, heads=2, groups=2), jumping),
    "PointNetConv": (lambda: nn.PointNetConv(mlp(W + 3), mlp(OUT)), pos),
    "GMMConv": (lambda: nn.GMMConv(W, OUT, EDGE, 2), a),
    "GMMConv own": (lambda: nn.GMMConv(W, OUT, EDGE, 2, separate_gaussians=True), a),
    "SplineConv": (lambda: nn.SplineConv(W, OUT, EDGE, 3), a),  # with `spline_basis` below
    "NNConv": (lambda: nn.NNConv(W, OUT, mlp(EDGE, W * OUT), "mean"), a),
    "CGConv": (lambda: nn.CGConv(W, EDGE, batch_norm=True), a),
    "EdgeConv": (lambda: nn.EdgeConv(mlp(2 * W)), x),
    "PPFConv": (lambda: nn.PPFConv(mlp(W + 4)), "x pos normal edge_index"),
    "FeaStConv": (lambda: nn.FeaStConv(W, OUT, heads=2), x),
    "PointTransformerConv": (lambda: nn.PointTransformerConv(W, OUT, attn_nn=mlp(OUT)), pos),
    "HypergraphConv": (lambda: nn.HypergraphConv(W, OUT), hypergraph),
    "HypergraphConv node": (lambda: nn.HypergraphConv(W, 3, True, heads=2), hypergraph),
    "HypergraphConv edge": (lambda: nn.HypergraphConv(W, 3, True, "edge", 2), hypergraph),
    "LEConv": (lambda: nn.LEConv(W, OUT), w),
    "PNAConv": (lambda: nn.PNAConv(W, OUT, **PNA, edge_dim=EDGE, towers=2), a),
    "ClusterGCNConv": (lambda: nn.ClusterGCNConv(W, OUT, diag_lambda=0.2), x),
    "GENConv": (
        lambda: nn.GENConv(
            W, OUT, learn_t=True, msg_norm=True, learn_msg_scale=True, edge_dim=EDGE
        ),
        a,
    ),
    "GENConv powermean": (lambda: nn.GENConv(W, OUT, "powermean", learn_p=True), x),
    "GCN2Conv": (lambda: nn.GCN2Conv(W, 0.1, 0.5, 1, shared_weights=False), x_0),
    "WLConv": (nn.WLConv, "colours edge_index"),
    "WLConvContinuous": (nn.WLConvContinuous, w),
    "FiLMConv": (lambda: nn.FiLMConv(W, OUT, TYPES), f"{x} {t}"),
    "SuperGATConv": (lambda: nn.SuperGATConv(W, 3, heads=2).eval(), x),  # training draws edges
    "SuperGATConv dot": (lambda: nn.SuperGATConv(W, 3, 2, attention_type="SD").eval(), x),
    "FAConv": (lambda: nn.FAConv(W), "x x_0 edge_index"),
    "FAConv weighted": (lambda: nn.FAConv(W, normalize=False), x_0),
    "EGConv": (lambda: nn.EGConv(W, OUT, ["symnorm", "max", "std"], num_heads=2), x),
    "PDNConv": (lambda: nn.PDNConv(W, OUT, EDGE, 5), a),
    "GeneralConv": (lambda: nn.GeneralConv(W, OUT, EDGE, heads=2, attention=True), a),
    "GeneralConv dot": (
        lambda: nn.GeneralConv(
            W, OUT, directed_msg=False, attention=True, attention_type="dot_product"
        ),
        x,
    ),
    "HEATConv": (
        lambda: nn.HEATConv(W, OUT, TYPES, TYPES, 4, EDGE, 4, heads=2),
        "x edge_index node_type edge_type edge_attr",
    ),
    "HeteroConv": (
        lambda: nn.HeteroConv(
            {RELATIONS[0]: nn.SAGEConv(W, OUT), RELATIONS[1]: nn.GATConv(W, OUT)}
        ),
        hetero,
    ),
    "HANConv": (lambda: nn.HANConv(W, OUT, METADATA, heads=2), hetero),
    "HGTConv": (lambda: nn.HGTConv(W, OUT, METADATA, heads=2), hetero),
    "LGConv": (nn.LGConv, w),
    "PointGNNConv": (lambda: nn.PointGNNConv(mlp(W, 3), mlp(W + 3), mlp(OUT, W)), pos),
    "GPSConv": (lambda: nn.GPSConv(W, nn.GINConv(mlp(W, W)), heads=2, attn_type="performer"), x),
    "AntiSymmetricConv": (lambda: nn.AntiSymmetricConv(W, num_iters=2), x),
    "DirGNNConv": (lambda: nn.DirGNNConv(nn.GCNConv(W, OUT)), x),
    "DirGNNConv sage": (lambda: nn.DirGNNConv(nn.SAGEConv(W, OUT, "max")), x),
    "DirGNNConv attention": (lambda: nn.DirGNNConv(nn.GATv2Conv(W, OUT)), x),
    "MixHopConv": (lambda: nn.MixHopConv(W, OUT), w),
    "MeshCNNConv": (lambda: nn.MeshCNNConv(W, OUT), x),  # on a graph of four edges to a vertex
}

KERNELS = "needs a package whose kernels on a CUDA device read the graph as one device has it"
NEIGHBOURS = "searches the nearest of all vertices inside its forward"
REFUSED_CALLS: dict[str, tuple[Any, Any]] = {
    "SuperGATConv": (lambda: nn.SuperGATConv(W, 3, heads=2), x),  # training draws edges
    "GPSConv": (lambda: nn.GPSConv(W, nn.GINConv(mlp(W, W)), heads=2), x),  # attention to all
}
"""What raises; layers that need packages that are not installed are not made here."""
EXACT_WITH = {
    "GPSConv": "exact with attn_type='performer'; attention over all vertices is refused",
    "HypergraphConv": "exact with num_edges as the size of a tensor, one hyperedge per vertex",
    "SuperGATConv": "exact after eval(); in training it draws edges, which is refused",
}
"""Layers that are exact with some options alone."""
REFUSED = {
    "CuGraphSAGEConv": KERNELS,
    "CuGraphGATConv": KERNELS,
    "CuGraphRGCNConv": KERNELS,
    "FusedGATConv": KERNELS,
    "GravNetConv": NEIGHBOURS,
    "DynamicEdgeConv": NEIGHBOURS,
    "XConv": NEIGHBOURS,
    "PANConv": "multiplies the adjacency matrix with itself, as a SparseTensor",
}


def spline_basis(
    pseudo: Tensor, kernel_size: Tensor, is_open_spline: Tensor, degree: int
) -> tuple[Tensor, Tensor]:
    """Those of open splines of degree 1, as pyg-lib has them: [edges, 2^dim], in torch alone."""
    place = pseudo * (kernel_size - 1)
    low = place.detach().floor().clamp(max=kernel_size - 2).to(place.dtype)
    share, basis, index = place - low, place.new_ones(place.size(0), 1), 0
    stride = 1
    for d, size in enumerate(kernel_size.tolist()):
        corner = torch.stack([1 - share[:, d], share[:, d]], dim=1)
        basis = (corner[:, :, None] * basis[:, None]).flatten(1)
        above = (low[:, d, None].long() + torch.arange(2)) * stride
        index = (above[:, :, None] + (index[:, None] if d else 0)).flatten(1)
        stride *= size
    return basis, index


def spline_weighting(x: Tensor, weight: Tensor, basis: Tensor, index: Tensor) -> Tensor:
    return torch.einsum("ei,ekio,ek->eo", x, weight[index], basis)
