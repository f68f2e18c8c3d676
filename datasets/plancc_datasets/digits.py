"""Scikit-learn's digits: 1,797 images of 8 x 8 pixels in 10 classes; similar images are joined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.errors import BackendUnavailable
from plancc.fields import check_options, option
from plancc.graph.canonical import build_graph
from plancc.graph.vertexdata import VertexData
from plancc_datasets.dataset import Dataset, describe, seed_option, split_masks


@dataclass(frozen=True)
class Digits:
    """k-nearest-neighbour graph of handwritten digits (real images, features and classes).

    Vertices i and j are joined if one is among the `neighbors` nearest images of the other, in
    Euclidean distance; of two equally near images, the one with the smaller number is taken.
    Features are the pixels, in [0, 1]. Masks: 20 % train, 20 % validation, 60 % test, with these
    shares in every class.
    """

    neighbors: int = option(10, "nearest images", at_least=1, at_most=1796, python_only=True)
    seed: int = seed_option("random seed of the masks")

    def build(self) -> Dataset:
        check_options(self)
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise BackendUnavailable(
                "dataset 'digits' needs scikit-learn: pip install 'plancc[datasets]'"
            ) from error
        pixels, classes = load_digits(return_X_y=True)
        n = len(pixels)
        # distances are whole numbers below 2**53, so ties are exact on every machine
        square = (pixels**2).sum(axis=1)
        distance = square[:, None] + square[None, :] - 2 * (pixels @ pixels.T)
        np.fill_diagonal(distance, np.inf)
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.neighbors]
        row = np.repeat(np.arange(n), self.neighbors)
        graph = build_graph(n, row, nearest.ravel(), symmetrize=True, source=describe(self))
        labels = classes.astype(np.int32)
        masks = split_masks(labels, np.random.default_rng(self.seed))
        return Dataset(graph, VertexData((pixels / 16).astype(np.float32), labels, **masks))
