"""R-MAT graphs (Chakrabarti, Zhan, Faloutsos, 2004): skewed degrees, like social networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.errors import InputError
from plancc.fields import check_options, option
from plancc.graph.canonical import build_graph
from plancc_datasets.dataset import FINE_SHARE, Dataset, describe, seed_option


@dataclass(frozen=True)
class Rmat:
    """Directed R-MAT graph with 2**scale vertices; an edge that is drawn twice is one nonzero.

    ``edge_factor * 2**scale`` edges are drawn. For each edge, a quadrant of the matrix is chosen at
    random, then a quadrant of this quadrant, and so on, `scale` times. The upper left, upper right,
    lower left and lower right quadrants have the probabilities a, b, c and 1 - a - b - c.
    """

    scale: int = option(14, "the graph has 2**scale vertices", at_least=1, at_most=28)
    edge_factor: int = option(16, "edges drawn per vertex", at_least=1, at_most=4096)
    a: float = option(0.57, "probability of the upper left quadrant", **FINE_SHARE)
    b: float = option(0.19, "probability of the upper right quadrant", **FINE_SHARE)
    c: float = option(0.19, "probability of the lower left quadrant", **FINE_SHARE)
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        total = self.a + self.b + self.c
        if total > 1 + 1e-12:
            raise InputError(f"options 'a', 'b', 'c' must add up to at most 1, not '{total:g}'")
        n = 1 << self.scale
        m = n * self.edge_factor
        # one random 16-bit number per edge and bit; each quadrant is a range of this number
        ends = np.round(np.cumsum([self.a, self.b, self.c]) * 65536)
        to_b, to_c, to_d = (int(min(end, 65536)) for end in ends)
        rng = np.random.default_rng(self.seed)
        row = np.zeros(m, np.int32)
        col = np.zeros(m, np.int32)
        block = 1 << 20
        for start in range(0, m, block):  # in blocks of edges, which bounds the memory
            r, c = row[start : start + block], col[start : start + block]
            for _ in range(self.scale):
                draw = rng.integers(0, 65536, len(r), dtype=np.uint16)
                lower = draw >= to_c
                r <<= 1
                r |= lower
                c <<= 1
                c |= ((draw >= to_b) & ~lower) | (draw >= to_d)
        return Dataset(build_graph(n, row, col, source=describe(self)))
