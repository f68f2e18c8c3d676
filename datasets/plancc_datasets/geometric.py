"""Random geometric graphs, which are similar to meshes: few edges join one half to the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.fields import check_options, option
from plancc.graph.canonical import build_graph
from plancc.graph.vertexdata import VertexData
from plancc_datasets.dataset import COUNT, Dataset, describe, seed_option


@dataclass(frozen=True)
class Geometric:
    """Points drawn uniformly in the unit square; two points closer than the radius are joined.

    The graph is undirected.

    Features: the two coordinates, float32[n, 2].
    """

    num_vertices: int = option(4096, "number of points", **COUNT)
    radius: float = option(
        0.0, "largest distance of joined points; 0: a mean degree of about 8", at_least=0, at_most=2
    )
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        from scipy.spatial import cKDTree

        n = self.num_vertices
        # mean degree = n * area of the disc; with few points the disc is larger than the square
        radius = self.radius or min(np.sqrt(8 / (np.pi * n)), np.sqrt(2))
        points = np.random.default_rng(self.seed).random((n, 2))
        pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
        graph = build_graph(n, *pairs.T, symmetrize=True, source=describe(self))
        return Dataset(graph, VertexData(features=points.astype(np.float32)))
