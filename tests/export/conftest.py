"""A plan whose matrix, owners and vertex data are known without it."""

from pathlib import Path

import numpy as np
import pytest

import plancc
from plancc.graph.graph import Graph
from plancc.graph.vertexdata import VertexData

NUM_VERTICES, NUM_PARTS = 61, 4


class Case:
    """A directed weighted graph with isolated vertices, owners dealt at random, and its plan.

    Attributes:
        matrix (float64[n, n]): The normalised matrix, computed densely: row i needs column j.
        owner: int[n].
        data (dict of str to array): Vertex data by vertex.
        ids (int64[n]): The source's own ids.
    """

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        n = NUM_VERTICES
        weights = rng.integers(1, 9, (n, n)) * (rng.random((n, n)) < 0.07)
        weights[:, 7] = weights[7] = weights[:, 20] = 0
        self.owner = rng.integers(0, NUM_PARTS, n).astype(np.int32)
        self.ids = np.sort(rng.choice(1000, n, replace=False)).astype(np.int64)
        draw = rng.random(n)
        self.data = {
            "features": rng.standard_normal((n, 3)).astype(np.float32),
            "labels": rng.integers(-1, 5, n).astype(np.int32),
            "train_mask": draw < 0.5,
            "val_mask": (draw >= 0.5) & (draw < 0.7),
            "test_mask": draw >= 0.7,
            "clusters": rng.integers(0, 6, n).astype(np.int32),
        }
        row, column = np.nonzero(weights)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))])
        graph = Graph(
            ptr.astype(np.int64),
            column.astype(np.int32),
            weights[row, column].astype(np.float64),
            directed=True,
            original_ids=self.ids,
        )
        np.savetxt(folder / "owner.part", self.owner, fmt="%d")
        self.plan = plancc.compile(
            graph,
            "file",
            NUM_PARTS,
            normalize="row",
            part=folder / "owner.part",
            data=VertexData(**self.data),
            value_dtype="float64",
        )
        self.path = folder / "plan.h5"
        self.plan.save(self.path)
        with_loops = weights + np.eye(n)
        self.matrix = with_loops / with_loops.sum(axis=1, keepdims=True)
        self.reference = folder / "reference.npz"
        np.savez(
            self.reference, matrix=self.matrix, owner=self.owner, original_id=self.ids, **self.data
        )


@pytest.fixture(scope="session")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("case"))
