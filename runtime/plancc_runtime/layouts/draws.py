"""Draws of mini-batches: every rank draws whole batches, or every rank draws for its own rows only.

If *owners draw*, a rank needs its slice only, not the whole graph. With the sampler `neighbour`, a
function of seed, step, hop and row decides which nonzeros of the row are kept:

    hop    this rank draws the nonzeros of its rows in the hop
           this rank tells the owners of halo rows which rows it needs (`row_numbers.RowBits`)
           rows of the next hop: own columns of these nonzeros, and own rows that other ranks need

With the sampler `walk`, the next vertex of a walk is a function of seed, batch, first vertex, step
and row:

    step   every walk that is on row i of this rank moves to a vertex j with a nonzero (i, j)
           this rank tells the owners of halo rows which walks reached them (`row_numbers.RowLists`)
    then   owners tell the readers of a halo row whether it was visited (`row_numbers.RowBits`)
           nonzeros between visited rows are kept
           this rank tells the owners of halo rows which rows it needs, as above

A rank's share is the same, byte for byte, as if `batch_mask` selected it from the whole batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from plancc.clock import Clock
from plancc.errors import InputError
from plancc.kernel import njit
from plancc.memory import available_memory
from plancc.plan.exchange import Int32Array, Int64Array, offsets
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.sampling import SHOWN, Population, Sampler, draw
from plancc.sampling.counter import key_of
from plancc.sampling.kernels import ascending, distinct
from plancc.sampling.neighbour import NeighbourSampler
from plancc.sampling.owned import OwnedRows
from plancc.sampling.walk import WalkSampler
from plancc_runtime.layouts.batch_mask import (
    BatchMask,
    KeptBlock,
    LocalBatch,
    RowsOfBlocks,
    between,
    columns_of,
)
from plancc_runtime.layouts.batch_seeds import SeedDraws, Seeds
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import halo_vertices
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import Rounds, RowBits, RowLists

S = TypeVar("S", bound=Sampler)
PER_NONZERO = 300e-9
"""Seconds to draw a nonzero of another rank's row, and to find that this rank does not have it.

Measured on one core: 180 to 700 ns, in batches of 600 to 130,000 nonzeros."""
PER_MESSAGE = 20e-6
"""Seconds to send a message of bits over shared memory, without the time of its words."""
PER_WORD = 2e-9
"""Seconds to send and read a word of bits."""


class Draws(ABC, Generic[S]):
    """Draws this rank's share of every mini-batch of a sampler.

    Every rank draws the whole mini-batch, or *owners draw*: each rank draws only from its own rows.

    Parameters:
        part: The slice of a row plan. Part k must be on rank k.
        population: Vertices to draw from. It lacks the pattern of nonzeros if owners draw.
        clock: Clock that counts the time of the draws under the name "draw".
        seeds: Draws the seed vertices if owners draw; None if the sampler draws them.

    Attributes:
        halo (int32[num_halo]): Vertices of the halo rows of the slice.
        alone: Whether a rank may call `share` alone, since `share` is not collective.
    """

    halo: Int32Array
    alone: bool

    def __init__(
        self,
        part: Block,
        sampler: S,
        population: Population,
        seed: int,
        transport: Transport,
        clock: Clock,
        seeds: SeedDraws | None = None,
    ) -> None:
        self._part, self._sampler, self._seed, self._clock = part, sampler, seed, clock
        self._seeds = seeds
        self._begin(population, transport)

    @abstractmethod
    def _begin(self, population: Population, transport: Transport) -> None:
        """Prepare the data that `share` needs for every mini-batch. Collective."""

    @abstractmethod
    def share(self, number: int, which: RowsOfBlocks = "all") -> Rounds[LocalBatch]:
        """Draw this rank's share of mini-batch `number` in rounds of messages.

        `which`: see `RowsOfBlocks`. A draw must end before the next draw starts. Collective, except
        if `self.alone` is true.
        """


class WholeDraws(Draws[Sampler]):
    """Draws in which every rank draws whole mini-batches."""

    alone = True

    def _begin(self, population: Population, transport: Transport) -> None:
        self._population, self._mask = population, BatchMask(self._part, transport)
        self.halo = self._mask.halo

    def share(self, number: int, which: RowsOfBlocks = "all") -> Rounds[LocalBatch]:
        yield from ()
        with self._clock("draw"):
            batch = draw(self._sampler, self._population, self._seed, number)
        return self._mask.local(batch, self._clock, which)


class OwnerDraws(Draws[S]):
    """Draws of mini-batches in which every rank draws the nonzeros of its own rows.

    Besides the slice, a rank holds its `OwnedRows` and 8 bytes per halo row.
    """

    def _begin(self, population: Population, transport: Transport) -> None:
        part, sampler = self._part, self._sampler
        self.alone = transport.size == 1
        self.halo = halo_vertices(part, transport)
        self._part = replace(part, halo=self.halo)
        vertices = np.concatenate([part.inputs, self.halo])
        draws_training = sampler.of_training and population.train_mask is not None
        matrix = part.row_ptr, part.column, vertices
        column = part.columns.get(getattr(sampler, "column", ""))
        self._owned = OwnedRows(population, draws_training, *matrix, column)
        self._used = RowBits(part.expand.reversed(), transport)
        self._slot = np.empty(part.num_halo, np.int32)  # scratch memory for `KeptBlock.of`

    @staticmethod
    @abstractmethod
    def expected(sampler: S, num_vertices: int, nonzeros_per_row: float) -> tuple[float, int]:
        """Return the expected number of nonzeros of a whole mini-batch, and of rounds to draw it.

        In a round, every rank exchanges messages with all its peers once.
        """


class NeighbourDraws(OwnerDraws[NeighbourSampler]):
    """Draws in which owners draw the neighbours of their rows.

    A rank needs 4 bytes per own row, and sends one bit per halo row for every layer.
    """

    def _begin(self, population: Population, transport: Transport) -> None:
        super()._begin(population, transport)
        self._number = np.empty(self._part.num_inputs, np.int32)  # number of own rows in a batch

    @staticmethod
    def expected(
        sampler: NeighbourSampler, num_vertices: int, nonzeros_per_row: float
    ) -> tuple[float, int]:
        rows, nonzeros = float(min(sampler.batch_size, num_vertices)), 0.0
        for fanout in sampler.fanouts:  # assumes that no vertex is drawn twice before all are
            nonzeros += rows * min(fanout + 1, nonzeros_per_row)
            rows = min(rows * min(fanout + 1, nonzeros_per_row), num_vertices)
        return nonzeros, 2 * len(sampler.fanouts)

    def share(self, number: int, which: RowsOfBlocks = "all") -> Rounds[LocalBatch]:
        part, sampler = self._part, self._sampler
        key = key_of(self._seed, SHOWN, number)
        given: Seeds | None = None
        if self._seeds is not None:
            given = yield from self._seeds.drawn(sampler, number)
        with self._clock("draw"):
            seeds = sampler.seeds_of_owner(self._owned, key) if given is None else given.rows
        drawn, rows_of_hop = [], [seeds]
        for hop in range(sampler.num_blocks):
            with self._clock("draw"):
                rows = distinct(rows_of_hop[-1])
                block = sampler.block_of_owner(self._owned, rows, hop, key)
                if given is not None:
                    block = given.kept(block, part.column, self._owned.arrays[0])
            columns, own, halo = columns_of(block.nonzeros, part.column, part.num_inputs)
            received = distinct(halo)
            sent = yield from self._used.tell(received)
            drawn.append((block, columns, received, sent))
            kept_rows = [rows] * bool(sampler.column)
            rows_of_hop.append(np.concatenate([own, part.expand.send.row[sent], *kept_rows]))
        found: Int64Array = distinct(np.concatenate(rows_of_hop))
        self._number[found] = np.arange(len(found), dtype=np.int32)
        targets = np.zeros(len(found), np.bool_)
        targets[self._number[seeds]] = True
        kept = []
        for block, columns, received, sent in reversed(drawn):
            of_rows = np.repeat(self._number[block.rows], np.diff(block.ptr))
            kept.append(KeptBlock(block.nonzeros, of_rows, columns, block.factors, received, sent))
        scratch = self._number, self._slot
        return replace(LocalBatch.of(part, found, targets, kept, scratch, which), seeds=given)


class WalkDraws(OwnerDraws[WalkSampler]):
    """Draws in which owners continue the walks that are on their rows.

    A rank needs 12 bytes per own row, and 4 per halo row and per sent row. A walk that moves to
    another rank sends two words.
    """

    def _begin(self, population: Population, transport: Transport) -> None:
        super()._begin(population, transport)
        part, send = self._part, self._part.expand.send
        self._crossing = RowLists(part.expand.reversed(), transport)
        self._visited = RowBits(part.expand, transport)
        self._sent_ptr = offsets(np.bincount(send.row, minlength=part.num_inputs))
        self._sent = np.argsort(send.row, kind="stable").astype(np.int32)  # sorted by own row
        # Numbers of own and halo rows in the batch; between two batches all are -1.
        self._number = np.full(part.num_inputs + part.num_halo, -1, np.int32)

    @staticmethod
    def expected(
        sampler: WalkSampler, num_vertices: int, nonzeros_per_row: float
    ) -> tuple[float, int]:
        length = sampler.walk_length
        return float(sampler.num_roots * (length + 1)), 2 * length + 4

    def share(self, number: int, which: RowsOfBlocks = "all") -> Rounds[LocalBatch]:
        part, numbers = self._part, self._number
        own = yield from self._rows_visited(key_of(self._seed, SHOWN, number))
        halo = yield from self._visited.tell(ascending(_listed(self._sent_ptr, self._sent, own)))
        members = np.concatenate([own, part.num_inputs + halo])
        numbers[members] = np.arange(len(members), dtype=np.int32)
        nonzeros, rows, _ = between(part.row_ptr, part.column, own, numbers)
        columns, _, halo = columns_of(nonzeros, part.column, part.num_inputs)
        received = distinct(halo)
        sent = yield from self._used.tell(received)
        block = KeptBlock(nonzeros, rows, columns, None, received, sent)
        targets = np.ones(len(own), np.bool_)
        batch = LocalBatch.of(part, own, targets, [block], (numbers, self._slot), which)
        numbers[members] = -1
        return batch

    def _rows_visited(self, key: np.uint64) -> Rounds[Int64Array]:
        """Return the own rows that a mini-batch's walks visit, ascending: int64[m]. Collective.

        Parameters:
            key: Random key of the mini-batch.
        """
        part, sampler = self._part, self._sampler
        with self._clock("draw"):
            roots = sampler.roots(self._owned.num_vertices, key)
            rows = self._owned.chosen(roots)
        walks = np.flatnonzero(rows >= 0)
        rows = rows[walks]
        visited = [rows]
        for step in range(sampler.walk_length):
            with self._clock("draw"):
                columns = sampler.columns_of_owner(self._owned, rows, roots[walks], step, key)
            leaves = columns >= part.num_inputs
            stays = (columns >= 0) & ~leaves
            sent, came = yield from self._crossing.tell(
                columns[leaves] - part.num_inputs, walks[leaves]
            )
            rows = np.concatenate([columns[stays], part.expand.send.row[sent]]).astype(np.int64)
            walks = np.concatenate([walks[stays], came])
            visited.append(rows)
        found: Int64Array = distinct(np.concatenate(visited))
        return found


@njit(cache=True, nogil=True)
def _listed(ptr: Any, numbers: Any, rows: Any) -> Any:
    """Return the lists of some rows, one after another: int64[m].

    Row k has the list ``numbers[ptr[k]:ptr[k + 1]]``.
    """
    found = np.empty((ptr[rows + 1] - ptr[rows]).sum(), dtype=np.int64)
    size = 0
    for row in rows:
        for a in range(ptr[row], ptr[row + 1]):
            found[size] = numbers[a]
            size += 1
    return found


BY_OWNERS: dict[type[Sampler], type[Any]] = {
    NeighbourSampler: NeighbourDraws,
    WalkSampler: WalkDraws,
}
"""Classes of `OwnerDraws`, by the class of the sampler for which owners can draw.

A subclass of one of these samplers may draw in another way. Owners draw for a subclass only if it
sets `Sampler.owners_draw`; the subclass must then sample neighbours."""


def draws_of(
    part: Block,
    sampler: Sampler,
    population: Population,
    seed: int,
    transport: Transport,
    by_owners: bool,
    clock: Clock,
    seeds: SeedDraws | None = None,
) -> Draws[Any]:
    """Return the object that draws this rank's share of every mini-batch. Collective.

    If owners draw (`by_owners`), the caller must have called `check_draw`.
    """
    kind: type[Any] = WholeDraws
    if by_owners:
        kind = BY_OWNERS[NeighbourSampler if sampler.owners_draw else type(sampler)]
    draws: Draws[Any] = kind(part, sampler, population, seed, transport, clock, seeds)
    return draws


def check_draw(choice: str, sampler: Sampler) -> None:
    """Raise InputError if the sampler cannot draw as the option `draw` says.

    `choice` is "auto", "everywhere" or "owners".
    """
    if choice == "everywhere" and sampler.owners_draw:
        raise InputError(f"`draw` everywhere: only row owners draw {sampler.owners_draw}")
    if choice == "owners" and not (sampler.owners_draw or type(sampler) in BY_OWNERS):
        names = ", ".join(each.name for each in BY_OWNERS)
        raise InputError(
            f"`draw` owners: only samplers {names} let each rank draw for its own rows; sampler "
            f"'{sampler.name}' draws whole batches on every rank; leave `draw` out"
        )


def owners_draw(
    choice: str, sampler: Sampler, part: Part, header: Header, transport: Transport
) -> tuple[bool, str]:
    """Return whether each rank draws only for its own rows, and the reason for this. Collective.

    If not, every rank draws whole mini-batches. The reason is "" if only one way is possible.
    `choice` is "auto", "everywhere" or "owners". With "auto", owners draw if this is predicted to
    be faster, or if the machine lacks memory for the whole graph's pattern on each rank.
    """
    if sampler.owners_draw:
        return True, ""
    if choice != "auto" or type(sampler) not in BY_OWNERS:
        return choice == "owners", "as `draw` says" if choice != "auto" else ""
    most = transport.largest(part.expand.receive.num_messages, part.num_halo)
    n, nnz = header.num_vertices, header.num_nonzeros
    quicker, why = owners_are_quicker(sampler, n, nnz, transport.size, most)
    pattern, left = 8 * (n + 1) + 4 * nnz, available_memory()
    wanted = pattern * transport.ranks_here()
    if transport.any(left is not None and wanted > left) and not quicker:
        mib = f"{pattern / 2**20:,.0f} MiB"
        return True, f"the graph's pattern takes {mib} on every rank, more than is free; {why}"
    return quicker, why


def owners_are_quicker(
    sampler: Sampler, num_vertices: int, num_nonzeros: int, num_ranks: int, most: Sequence[int]
) -> tuple[bool, str]:
    """Return whether owners draw a mini-batch more quickly than every rank draws it whole.

    Also return a phrase with the times ("" for one rank). `most` has maxima over the ranks:
    messages that a rank receives, and halo rows.
    """
    messages, bits = most
    per_row = num_nonzeros / max(num_vertices, 1)
    nonzeros, rounds = BY_OWNERS[type(sampler)].expected(sampler, num_vertices, per_row)
    saved = PER_NONZERO * nonzeros * (1 - 1 / num_ranks)
    needed = rounds * (PER_MESSAGE * messages + PER_WORD * bits / 32)
    own, every = f"{1e3 * needed:#.3g} ms", f"{1e3 * saved:#.3g} ms"
    why = f"predicted {own} a step, against {every} if every rank samples all rows"
    if saved < needed:
        why = f"predicted {every} a step, against {own} if each rank samples its own rows"
    return bool(saved >= needed), why if num_ranks > 1 else ""
