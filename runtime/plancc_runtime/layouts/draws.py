"""Where mini-batches are drawn: by the owners of rows, or whole on every rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from plancc.clock import Clock
from plancc.errors import InputError
from plancc.memory import available_memory
from plancc.plan.exchange import Int32Array
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.sampling import Population, Sampler, draw
from plancc.sampling.neighbour import NeighbourSampler
from plancc.sampling.walk import WalkSampler
from plancc_runtime.layouts.batch_mask import BatchMask, LocalBatch, RowsOfBlocks
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.owner_draws import NeighbourDraws, WalkDraws
from plancc_runtime.layouts.seeds import SeedDraws
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import Rounds

BY_OWNERS: dict[type[Sampler], type[Any]] = {
    NeighbourSampler: NeighbourDraws,
    WalkSampler: WalkDraws,
}
"""Samplers whose rows owners can draw. Of those derived from them, which may draw otherwise, only
the ones with `Sampler.owners_draw`, which are of neighbours."""
PER_NONZERO = 300e-9
"""Seconds for a nonzero of other ranks' rows, which is drawn and then looked for in vain: on one
core, batches of 600 to 130,000 nonzeros, 180 to 700 ns."""
PER_MESSAGE = 20e-6
"""Seconds for a message of bits beside its words, one of an empty round over shared memory."""
PER_WORD = 2e-9
"""Seconds for a word of bits, to be sent and read."""


class Draws(Protocol):
    """This rank's shares of all batches.

    Attributes:
        halo (int32[num_halo]): Vertices of the halo rows of the slice.
        alone: Whether `share` is not collective.
    """

    halo: Int32Array
    alone: bool

    def share(self, number: int, which: RowsOfBlocks = "all") -> Rounds[LocalBatch]:
        """This rank's share of a batch; one is drawn at a time."""


class WholeDraws:
    """Batches that every rank draws whole; parameters as of `draws_of`."""

    alone = True

    def __init__(
        self,
        part: Block,
        sampler: Sampler,
        population: Population,
        seed: int,
        transport: Transport,
        clock: Clock,
    ) -> None:
        self._sampler, self._population, self._seed = sampler, population, seed
        self._clock = clock
        self._mask = BatchMask(part, transport)
        self.halo = self._mask.halo

    def share(self, number: int, which: RowsOfBlocks = "all") -> Rounds[LocalBatch]:
        """This rank's share of a batch; not collective."""
        yield from ()
        with self._clock("draw"):
            batch = draw(self._sampler, self._population, self._seed, number)
        return self._mask.local(batch, self._clock, which)


def draws_of(
    part: Block,
    sampler: Sampler,
    population: Population,
    seed: int,
    transport: Transport,
    by_owners: bool,
    clock: Clock,
    seeds: SeedDraws | None = None,
) -> Draws:
    """This rank's shares of the batches of a sampler. Collective.

    Parameters:
        part: The slice of a row plan, whose peers must be the ranks.
        population: Owners need no pattern.
        by_owners: Whether owners shall draw, who can (`check_draw`).
        clock: Gets the time of "draw".
        seeds: Those of the task; owners draw.
    """
    given = part, sampler, population, seed, transport, clock
    if not by_owners:
        return WholeDraws(*given)
    kind = BY_OWNERS[NeighbourSampler if sampler.owners_draw else type(sampler)]
    draws: Draws = kind(*given, seeds)
    return draws


def check_draw(choice: str, sampler: Sampler) -> None:
    """InputError if owners shall draw for a sampler that they cannot draw for."""
    if choice == "everywhere" and sampler.owners_draw:
        raise InputError(
            f"`draw` everywhere: {sampler.owners_draw} are drawn by owners; leave it out"
        )
    if choice == "owners" and not (sampler.owners_draw or type(sampler) in BY_OWNERS):
        names = ", ".join(each.name for each in BY_OWNERS)
        raise InputError(
            f"`draw` owners: is for samplers {names}, whose rows are drawn one by one; batches of "
            f"sampler '{sampler.name}' are drawn everywhere"
        )


def owners_draw(
    choice: str, sampler: Sampler, part: Part, header: Header, transport: Transport
) -> tuple[bool, str]:
    """Whether owners draw: as `choice` has it, or if it is quicker by prediction. Collective.

    Owners save the share of the batch that others draw, and need a message to every peer and from
    every peer in every round. They draw too where patterns of all ranks of a machine would take
    more memory than is free.

    Returns:
        bool, str: The text says why; it is empty where owners could not draw, or are one rank.
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
        return True, f"the pattern takes {mib} on every rank, more than is free; {why}"
    return quicker, why


def owners_are_quicker(
    sampler: Sampler, num_vertices: int, num_nonzeros: int, num_ranks: int, most: Sequence[int]
) -> tuple[bool, str]:
    """Whether one of `BY_OWNERS` is, and why; `most`: the most messages and halo rows of a rank."""
    messages, bits = most
    per_row = num_nonzeros / max(num_vertices, 1)
    nonzeros, rounds = BY_OWNERS[type(sampler)].expected(sampler, num_vertices, per_row)
    saved = PER_NONZERO * nonzeros * (1 - 1 / num_ranks)
    needed = rounds * (PER_MESSAGE * messages + PER_WORD * bits / 32)
    why = f"predicted {1e3 * saved:.3g} ms a step to draw for others, {1e3 * needed:.3g} ms to ask"
    return bool(saved >= needed), why if num_ranks > 1 else ""
