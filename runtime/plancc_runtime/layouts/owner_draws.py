"""Mini-batches that are drawn by owners of rows: a rank has its slice and nothing else.

What the sampler `neighbour` keeps of a row is a function of seed, step, hop and the row alone. So
the owner draws it, and tells the owners of halo rows which of these it uses:

    hop    this rank's rows of the hop keep nonzeros
           the owners of halo rows are told which are used (`row_numbers.RowBits`)
           own columns, and rows that others use, are the rows of the next hop

The rows that others use are also those that travel. A share is that which `batch_mask` cuts out of
the same batch, byte for byte.
"""

from __future__ import annotations

import numpy as np

from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.parts import Part
from plancc.sampling import SHOWN, Population
from plancc.sampling.counter import key_of
from plancc.sampling.kernels import distinct
from plancc.sampling.neighbour import NeighbourSampler
from plancc.sampling.owned import OwnedRows
from plancc_runtime.layouts.batch_mask import KeptBlock, LocalBatch, halo_rows
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import RowBits, send_numbers


class OwnerDraws:
    """Batches of a sampler whose blocks owners draw.

    Parameters as of `plancc_runtime.layouts.draws.draws_of`; attributes as of `Draws` there. Beside
    the slice it holds what `OwnedRows` does, 4 bytes for every own row and 8 for every halo
    row. A step costs what this rank's share of the batch does, and a word for every 1,024 rows
    that may travel.
    """

    def __init__(
        self,
        part: Part,
        sampler: NeighbourSampler,
        population: Population,
        seed: int,
        transport: Transport,
    ) -> None:
        self._part, self._sampler, self._seed = part, sampler, seed
        self.alone = transport.size == 1
        sent = part.global_id[part.expand.send.row]
        self.halo: Int32Array = send_numbers(part.expand, sent, transport)
        vertices = np.concatenate([part.global_id, self.halo])
        draws_training = population.train_mask is not None
        self._owned = OwnedRows(population, draws_training, part.row_ptr, part.column, vertices)
        self._used = RowBits(part.expand.reversed(), transport)
        # KeptBlock from batch to batch: numbers of own rows and of halo rows in a block.
        self._number = np.empty(part.num_rows, np.int32)
        self._slot = np.empty(part.num_halo, np.int32)

    @staticmethod
    def expected(
        sampler: NeighbourSampler, num_vertices: int, nonzeros_per_row: float
    ) -> tuple[float, int]:
        """Nonzeros of a batch, if vertices are met twice only when all are met, and rounds."""
        rows, nonzeros = float(min(sampler.batch_size, num_vertices)), 0.0
        for fanout in sampler.fanouts:
            nonzeros += rows * min(fanout + 1, nonzeros_per_row)
            rows = min(rows * min(fanout + 1, nonzeros_per_row), num_vertices)
        return nonzeros, 2 * len(sampler.fanouts)

    def local(self, number: int) -> LocalBatch:
        """This rank's share of a batch. Collective."""
        part, sampler = self._part, self._sampler
        key = key_of(self._seed, SHOWN, number)
        seeds = rows = sampler.seeds_of_owner(self._owned, key)
        drawn, rows_of_hop = [], [rows]
        for hop in range(sampler.num_blocks):
            block = sampler.block_of_owner(self._owned, rows, hop, key)
            received = distinct(halo_rows(block.nonzeros, part.column, part.num_rows))
            sent = self._used.tell(received)
            columns = part.column[block.nonzeros]
            own = columns[columns < part.num_rows]
            rows = distinct(np.concatenate([own, part.expand.send.row[sent]])).astype(np.int64)
            drawn.append((block, received, sent))
            rows_of_hop.append(rows)
        found: Int64Array = distinct(np.concatenate(rows_of_hop))
        self._number[found] = np.arange(len(found), dtype=np.int32)
        targets = np.zeros(len(found), np.bool_)
        targets[self._number[seeds]] = True
        kept = []
        for block, received, sent in reversed(drawn):
            of_rows = np.repeat(self._number[block.rows], np.diff(block.ptr))
            kept.append(KeptBlock(block.nonzeros, of_rows, block.factors, received, sent))
        return LocalBatch.of(part, found, targets, kept, (self._number, self._slot))
