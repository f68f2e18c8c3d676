"""Generated graphs of benchmarks and tests: crawls, and extreme shapes where programs fail."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from plancc.graph.canonical import build_graph
from plancc.graph.graph import Graph

Entries = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
SIZES = 0.8
"""Exponent of the Pareto distribution of pages per host."""
LARGEST = 0.04
"""Share of all pages that one host may have."""
NEAR = 64
"""Pages before a page from which its prototype is drawn."""
SHAPES = (
    "star",
    "hubs",
    "clique",
    "row",
    "column",
    "empty",
    "loops",
    "components",
    "duplicates",
    "path",
)
HUBS = 10
"""Vertices that all others are joined to, in shape hubs."""
COPIES = 3
"""How often every entry is given, in shape duplicates."""


def web(
    pages: int = 10_000, links: float = 5.0, copy: float = 0.6, outside: float = 0.1, seed: int = 0
) -> Graph:
    """Make pages and links of a crawl.

    Directed copying model (Kumar et al. 2000) whose pages lie in hosts (Kamvar et al. 2003). Pages
    are numbered host by host, as crawls sort them. Each links to the first page of its host. Its
    other links copy the one at the same place of an earlier page nearby with probability `copy`;
    else they go to a page of the host, or with probability `outside` to one that another page of
    the crawl links to. So hosts are dense blocks, and pages of many links lie between them.

    Parameters:
        links: Average links of a page.
    """
    n = pages
    rng = np.random.default_rng(seed)
    first = _hosts(n, rng)
    count = np.minimum(rng.geometric(1 / links, n), 1000)
    ptr = np.concatenate([[0], np.cumsum(count)])
    total = int(ptr[-1])
    page = np.repeat(np.arange(n), count)
    place = np.arange(total) - ptr[page]
    kind, dice, far = rng.random(total), rng.random(total), rng.random(total)
    near = page - 1 - (dice * np.minimum(NEAR, page - first[page])).astype(np.int64)
    copied = (kind < copy) & (near >= first[page]) & (place < count[near])
    home = (first[page] + dice * (page - first[page] + 1)).astype(np.int64)
    leaves = ~copied & (kind > 1 - (1 - copy) * outside) & (page > 0)
    target = np.where(place == 0, first[page], home)
    source = np.where(copied & (place > 0), ptr[near] + place, -1)
    earlier = (far * ptr[page]).astype(np.int64)  # a link of any page before
    source = np.where(leaves, earlier, source)
    while True:  # follow copies to where they began: each points to an earlier link
        follow = source >= 0
        if not follow.any():
            break
        at = source[follow]
        target[follow] = target[at]
        source[follow] = source[at]
    return build_graph(n, page, target, symmetrize=False)


def _hosts(n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw hosts: the first page of the host of every page, int64[n]."""
    sizes, left = list[int](), n
    while left > 0:
        most = max(LARGEST * n, 1)
        drawn = np.minimum(1 + rng.pareto(SIZES, 1024), most).astype(np.int64)
        for size in drawn:
            sizes.append(min(int(size), left))
            left -= sizes[-1]
            if left == 0:
                break
    rng.shuffle(sizes)
    return np.repeat(np.cumsum(sizes) - sizes, sizes)


def extreme(shape: str = "star", vertices: int = 1000) -> Graph:
    """Make a graph of n vertices of an extreme shape, one of `SHAPES`.

    ==========  ==================================================================================
    star        vertex 0 is joined to all others
    hubs        the first 10 vertices are joined to all others
    clique      all vertices are joined to all others
    row         row 0 is full, every other one has the next vertex
    column      column 0 is full, every other one has the vertex before
    empty       no entry
    loops       the diagonal
    components  two paths without an edge between them
    duplicates  a path, every entry of which is given three times
    path        every vertex is joined to the next
    ==========  ==================================================================================
    """
    row, col = _entries(shape, vertices)
    return build_graph(
        vertices,
        row,
        col,
        directed=shape not in ("clique", "empty", "loops"),
        symmetrize=shape in ("star", "hubs", "components", "duplicates", "path"),
    )


def _entries(shape: str, n: int) -> Entries:
    every, zeros = np.arange(n), np.zeros(n, dtype=np.int64)
    path = every[:-1], every[1:]
    match shape:
        case "star":
            return zeros[1:], every[1:]
        case "hubs":
            hubs = min(HUBS, n)
            row, col = np.repeat(np.arange(hubs), n), np.tile(every, hubs)
            return row[row < col], col[row < col]
        case "clique":
            row, col = np.repeat(every, n), np.tile(every, n)
            return row[row != col], col[row != col]
        case "row":
            return np.append(zeros, path[0]), np.append(every, path[1])
        case "column":
            return np.append(every, path[1]), np.append(zeros, path[0])
        case "loops":
            return every, every
        case "components":
            joined = path[1] != n // 2
            return path[0][joined], path[1][joined]
        case "duplicates":
            return np.tile(path[0], COPIES), np.tile(path[1], COPIES)
        case "path":
            return path
    return zeros[:0], zeros[:0]
