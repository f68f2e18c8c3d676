"""Zachary's karate club (W. W. Zachary, 1977), from networkx."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.fields import check_options
from plancc.graph.canonical import build_graph
from plancc.graph.vertexdata import VertexData
from plancc_datasets.dataset import Dataset, describe, seed_option, split_masks


@dataclass(frozen=True)
class Karate:
    """The 34 members of a club that split in two, and their 78 friendships, without weights.

    Features: one-hot member number, float32[34, 34]; labels: 0 for "Mr. Hi", 1 for "Officer".
    """

    seed: int = seed_option("random seed of the masks")

    def build(self) -> Dataset:
        check_options(self)
        import networkx

        club = networkx.karate_club_graph()
        edges = np.array(list(club.edges), dtype=np.int32)
        n = club.number_of_nodes()
        graph = build_graph(n, *edges.T, symmetrize=True, source=describe(self))
        clubs = np.array([name for _, name in club.nodes(data="club")])
        labels = (clubs == "Officer").astype(np.int32)
        masks = split_masks(labels, np.random.default_rng(self.seed))
        return Dataset(graph, VertexData(np.eye(n, dtype=np.float32), labels, **masks))
