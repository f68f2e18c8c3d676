"""Pages and links of a crawl: hosts of all sizes, navigation inside, copied links between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from plancc.errors import InputError
from plancc.fields import check_options, option
from plancc.graph.canonical import build_graph
from plancc.graph.graph import MAX_VERTICES
from plancc_datasets.dataset import COUNT, SHARE, Dataset, describe, seed_option

SIZES = 0.8
"""Exponent of the Pareto distribution of pages per host."""
LARGEST = 0.04
"""Share of all pages that one host may have."""
NEAR = 64
"""Pages before a page from which its prototype is drawn."""


@dataclass(frozen=True)
class Web:
    """Directed copying model (Kumar et al. 2000) whose pages lie in hosts (Kamvar et al. 2003).

    Pages are numbered host by host, as crawls sort them. Each links to the first page of its host.
    Its other links copy the one at the same place of an earlier page nearby with probability
    `copy`; else they go to a page of the host, or with probability `outside` to one that another
    page of the crawl links to. So hosts are dense blocks, and pages of many links lie between them.
    """

    pages: int = option(10_000, "number of pages", **COUNT)
    links: float = option(5.0, "average links of a page", at_least=1, at_most=1000)
    copy: float = option(0.6, "probability that a link is copied", **SHARE)
    outside: float = option(0.1, "probability that a new link leaves the host", **SHARE)
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        n = self.pages
        if n > MAX_VERTICES:
            raise InputError(f"option 'pages' is '{n}'; at most {MAX_VERTICES}")
        rng = np.random.default_rng(self.seed)
        first = self._hosts(rng)
        count = np.minimum(rng.geometric(1 / self.links, n), 1000)
        ptr = np.concatenate([[0], np.cumsum(count)])
        total = int(ptr[-1])
        page = np.repeat(np.arange(n), count)
        place = np.arange(total) - ptr[page]
        kind, dice, far = rng.random(total), rng.random(total), rng.random(total)
        near = page - 1 - (dice * np.minimum(NEAR, page - first[page])).astype(np.int64)
        copied = (kind < self.copy) & (near >= first[page]) & (place < count[near])
        home = (first[page] + dice * (page - first[page] + 1)).astype(np.int64)
        leaves = ~copied & (kind > 1 - (1 - self.copy) * self.outside) & (page > 0)
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
        graph = build_graph(n, page, target, symmetrize=False, source=describe(self))
        return Dataset(graph)

    def _hosts(self, rng: np.random.Generator) -> np.ndarray:
        """First page of the host of every page."""
        n, sizes, left = self.pages, [], self.pages
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
