"""Random geometric graphs: mesh-like, with small separators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.fields import option
from plancc.graph.canonical import build_graph
from plancc.graph.vertexdata import VertexData
from plancc_datasets.dataset import Dataset, check_integer, check_number, check_seed, describe


@dataclass(frozen=True)
class Geometric:
    """Points drawn evenly in the unit square, joined where closer than a radius; undirected.

    Features: the two coordinates, float32[n, 2].
    """

    num_vertices: int = option(4096, "number of points")
    radius: float = option(0.0, "largest distance of joined points; 0: a mean degree of about 8")
    seed: int = option(0, "random seed")

    def build(self) -> Dataset:
        check_integer("num_vertices", self.num_vertices, 1)
        check_number("radius", self.radius, 0, 2)
        check_seed(self.seed)
        from scipy.spatial import cKDTree

        n = self.num_vertices
        # mean degree = n * area of the disc; with few points the disc leaves the square
        radius = self.radius or min(np.sqrt(8 / (np.pi * n)), np.sqrt(2))
        points = np.random.default_rng(self.seed).random((n, 2))
        pairs = cKDTree(points).query_pairs(radius, output_type="ndarray")
        graph = build_graph(
            n, pairs[:, 0], pairs[:, 1], symmetrize=True, source=describe("geometric", self)
        )
        return Dataset(graph, VertexData(features=points.astype(np.float32)))
