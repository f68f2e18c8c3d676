"""Links of mini-batches for link prediction.

The owner of a link's source has the link, and gets the target's row from the target's owner. The
seed vertices of a mini-batch are the ends of its links and of its negatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from plancc.plan.exchange import Exchange, Int32Array, Int64Array, offsets
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.sampling.kernels import distinct
from plancc.sampling.negatives import ends_of_negatives
from plancc.sampling.owned import OwnedBlock
from plancc_runtime.layouts.batch_seeds import Seeds
from plancc_runtime.layouts.ends import Directory, Ends, columns_of_rows
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.row_numbers import Rounds, send_numbers, sending_lists


@dataclass(frozen=True, eq=False)
class LinkBatch(Seeds):
    """This rank's share of a mini-batch for link prediction.

    `rows` has the own rows that are ends of a link or a negative of any rank. In the mean loss, a
    negative counts as much as a link.

    Attributes:
        ends: Links, then negatives, whose sources are own rows. Rows are numbered by their
            positions in `rows`; received targets follow.
        num_links: Number of links in `ends`.
        apart (int64[2, k] or None): Nonzeros that blocks leave out: row, and vertex of the column.
    """

    ends: Ends
    num_links: int
    apart: Int64Array | None = None

    def kept(self, block: OwnedBlock, column: Int32Array, vertices: Int32Array) -> OwnedBlock:
        """Return the block without the nonzeros that the attribute `apart` lists.

        Parameters:
            block: Nonzeros of one owner's matrix, given by their positions in it.
            column: Local column of every nonzero of the owner's matrix.
            vertices: Vertex of every local column.
        """
        if self.apart is None:
            return block
        vertex = vertices[column[block.nonzeros]]
        keys = np.repeat(block.rows, np.diff(block.ptr)) << 32 | vertex
        kept = np.isin(keys, self.apart[0] << 32 | self.apart[1], invert=True)
        return OwnedBlock(
            block.rows,
            offsets(kept)[block.ptr],
            block.nonzeros[kept],
            None if block.factors is None else block.factors[kept],
        )


class LinkBatches:
    """Draws the training links of a slice, one mini-batch after another.

    The constructor is collective. If the option `exclude_links` is set, a mini-batch's blocks leave
    out the edges of its links, in both directions.
    """

    def __init__(
        self,
        part: Part,
        header: Header,
        directory: Directory,
        resources: Resources,
        options: TrainOptions,
    ) -> None:
        links, exchange = part.links, part.link_exchange
        assert links is not None
        assert exchange is not None
        self._directory, self._seed = directory, options.seed
        self._resources, self._num_rows = resources, part.num_rows
        self._apart, self._header = options.exclude_links, header
        self._vertices = part.global_id.astype(np.int64)
        self._order = np.argsort(self._vertices)
        self._ascending = self._vertices[self._order]
        transport = resources.transport
        sent = np.stack([exchange.send.row, part.global_id[exchange.send.row]], axis=1)
        halo = send_numbers(exchange, sent, transport)
        own = np.stack([np.arange(part.num_rows), part.global_id], axis=1)
        ranks = [np.full(part.num_rows, transport.rank), exchange.receive.peer_of_row()]
        chosen = np.flatnonzero(links.kind == 0)  # training links, in order of their numbers
        self._number, self._source = links.number[chosen], links.source[chosen].astype(np.int64)
        target = links.target[chosen]
        self._rank = np.concatenate(ranks)[target].astype(np.int64)
        self._row, self._target = np.concatenate([own, halo])[target].T.astype(np.int64)

    def drawn(self, sampler: Any, number: int) -> Rounds[LinkBatch]:
        """Draw this rank's share of the mini-batch with index `number` in the run. Collective."""
        rows = self._num_rows
        links, negatives, epoch = sampler.numbers(self._seed, number)
        _, own = _found(links, self._number)
        total = sampler.negatives * sampler.num_links
        source, rank, row = self._ends_of(negatives, total, epoch)
        source = np.concatenate([self._source[own], source])
        column, exchange = columns_of_rows(
            np.concatenate([self._rank[own], rank]),
            np.concatenate([self._row[own], row]),
            rows,
            self._resources.transport,
        )
        apart = None
        if self._apart:
            apart = yield from self._set_apart(own, column[: len(own)], exchange)
        seeds = distinct(np.concatenate([source, column[column < rows], exchange.send.row]))
        column = np.where(column < rows, np.searchsorted(seeds, column), len(seeds) + column - rows)
        send = exchange.send.called(np.searchsorted(seeds, exchange.send.row).astype(np.int32))
        kept = Exchange(send, exchange.receive)
        ends = Ends(np.searchsorted(seeds, source), column, kept, len(seeds), self._resources)
        pairs = len(links) + len(negatives)
        return LinkBatch(seeds, len(links), pairs, ends, len(own), apart)

    def _ends_of(self, negatives: Int64Array, total: int, epoch: int) -> tuple[Int64Array, ...]:
        """Return the mini-batch's negatives whose sources this rank owns. Collective.

        The three arrays, int64[pairs], hold each source's row, each target's owner, and the
        target's row on this owner.
        `negatives` are indices among the `total` negatives of the epoch.
        """
        n = self._directory.num_vertices
        source, target = ends_of_negatives(negatives, n, total, (self._seed, epoch))
        mine, at = _found(source, self._ascending)
        vertices, place = np.unique(target[mine], return_inverse=True)
        rank, row = self._directory.places(vertices)
        return self._order[at], rank[place], row[place]

    def _set_apart(
        self, own: Int64Array, column: Int64Array, exchange: Exchange
    ) -> Rounds[Int64Array]:
        """Return `LinkBatch.apart`: for links u to v, nonzeros (u, v) and (v, u) in own rows.

        Collective. `own` has this rank's links, as positions among its training links. `column` has
        the links' targets: own rows, then halo rows, which `exchange` fetches.
        """
        source, target = self._source[own], self._target[own]
        vertex, rows = self._vertices[source], self._num_rows
        here, away = column < rows, np.flatnonzero(column >= rows)
        away = away[np.argsort(column[away], kind="stable")]
        sizes = np.bincount(column[away] - rows, minlength=exchange.receive.volume)
        ptr, told = yield from sending_lists(
            exchange.reversed(),
            offsets(sizes),
            vertex[away].astype(np.int32),
            self._resources.transport,
        )
        pairs = [
            np.stack([column[here], vertex[here]]),
            np.stack([np.repeat(exchange.send.row, np.diff(ptr)), told]),
            np.stack([source, target]),  # also the reverse edge of the link, in directed graphs too
        ]
        found: Int64Array = np.concatenate(pairs, axis=1).astype(np.int64)
        if self._header.self_loops:  # a diagonal entry is no edge
            found = found[:, self._vertices[found[0]] != found[1]]
        return found


def _found(numbers: Int64Array, ascending: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the positions, in both arrays, of their common numbers: int64[k] each."""
    at = np.searchsorted(ascending, numbers)
    inside = np.flatnonzero(at < len(ascending))
    found = inside[ascending[at[inside]] == numbers[inside]]
    return found, at[found]
