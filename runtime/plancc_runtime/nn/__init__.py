"""Layers, losses and what stands between layers; one convolution per module, in `MODELS`."""

from __future__ import annotations

from plancc.registry import Registry

MODELS = Registry(
    "model of the network",
    "plancc.networks",
    {
        "gcn": "plancc_runtime.nn.gcn:GCNConv",
        "sage": "plancc_runtime.nn.sage:SAGEConv",
        "gin": "plancc_runtime.nn.gin:GINConv",
        "gat": "plancc_runtime.nn.gat:GATConv",
    },
)
