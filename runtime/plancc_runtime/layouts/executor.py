"""The steps of a product on one rank. Knows programs, and what moves rows and multiplies; must not
know layouts or layers.

Overlap is a rule, not code. Messages of a gather start at once; the first product that reads what
they bring takes it piece by piece, in the order of the peers, or waits for all of it where its
pieces are those of its target. Rows that are scattered leave piece by piece as the last product
makes them; what arrives of other ranks is added at the end. So what stands between is multiplied
while rows travel. Pieces that are broadcast, or summed at their owners, are never all here: a
product takes or makes them in turn, while the next one travels. A step of a whole group waits for
all before it. Sums are made in the order of the steps and of the peers, not of arrival: the same
inputs on the same number of ranks give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from torch import Tensor

from plancc.plan.products import (
    Broadcast,
    Gather,
    Multiply,
    Program,
    Reduce,
    ScatterAdd,
    Step,
    adjoint,
    without_messages,
)
from plancc_runtime.layouts.halo import ALL, HaloExchange, RowMover, at_rows
from plancc_runtime.layouts.matrices import Blocks
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.shared_rows import SharedRows


@dataclass(frozen=True)
class Action:
    """One thing that a rank does.

    Attributes
    ----------
    what : str
        "start" or "finish" the messages of a gather, "multiply", "send" the rows of a scatter, or
        "add" those of others; "share" rows with a group.
    step : Step
    comes : Gather, Broadcast or None
        Of a product: whose rows it takes as they arrive.
    leaves : ScatterAdd, Reduce or None
        Of a product: what its rows leave by as they are made.
    """

    what: str
    step: Step
    comes: Gather | Broadcast | None = None
    leaves: ScatterAdd | Reduce | None = None


def actions_of(program: Sequence[Step], overlap: bool) -> Iterator[Action]:
    """What a rank does for a program, by the rule of the module; without `overlap` one by one."""
    by_pieces = Multiply, Gather, ScatterAdd, Broadcast, Reduce
    for here, steps in groupby(program, lambda step: isinstance(step, by_pieces)):
        alike = [*steps]
        yield from _by_pieces(alike, overlap) if here else (Action("share", s) for s in alike)


def _by_pieces(steps: Sequence[Step], overlap: bool) -> Iterator[Action]:
    coming = {step.target: step for step in steps if isinstance(step, Gather | Broadcast)}
    leaving = {step.source: step for step in steps if isinstance(step, ScatterAdd | Reduce)}
    last = {step.target: step for step in steps if isinstance(step, Multiply)}
    in_turn = {s.target for s in coming.values() if isinstance(s, Broadcast)}
    in_turn |= {s.source for s in leaving.values() if isinstance(s, Reduce)}
    for come in coming.values():
        yield Action("start", come)
        if not overlap and come.target not in in_turn:
            yield Action("finish", come)
    for step in steps:
        if isinstance(step, Multiply):
            comes = leaves = None
            if overlap or step.source in in_turn:
                comes = coming.pop(step.source, None)
            if comes is not None and step.transposed:  # pieces are those of its target
                yield Action("finish", comes)
                comes = None
            if (overlap and step.transposed and last[step.target] is step) or (
                step.target in in_turn
            ):
                leaves = leaving.get(step.target)
            yield Action("multiply", step, comes, leaves)
        elif isinstance(step, ScatterAdd) and overlap and not last[step.source].transposed:
            yield Action("send", step)
    for come in coming.values() if overlap else ():  # nothing read it
        yield Action("finish", come)
    for leave in leaving.values():
        if not overlap and isinstance(leave, ScatterAdd):
            yield Action("send", leave)
        yield Action("add", leave)


class Executor:
    """A program of one rank, with what it works on; runs it and its adjoint.

    Parameters
    ----------
    program : Program
    blocks : Blocks
    movers : mapping of str to RowMover
        By the names of the steps.
    resources : Resources
    shared : mapping of str to SharedRows
        Rows of groups, likewise.
    """

    def __init__(
        self,
        program: Program,
        blocks: Blocks,
        movers: Mapping[str, RowMover[Any]],
        resources: Resources,
        shared: Mapping[str, SharedRows] | None = None,
    ) -> None:
        self._program, self._blocks = program, blocks
        self._movers, self._shared = movers, shared or {}
        self._clock, self._overlap = resources.clock, resources.overlap
        self._actions: dict[tuple[bool, bool], list[Action]] = {}

    def with_blocks(self, blocks: Blocks, movers: Mapping[str, RowMover[Any]]) -> Executor:
        """The same with other movers, and some other blocks."""
        other = copy(self)
        other._blocks, other._movers, other._actions = self._blocks | blocks, movers, {}
        return other

    def run(
        self,
        spaces: Mapping[str, Tensor],
        buffers: Mapping[str, Any] | None,
        back: bool = False,
    ) -> None:
        """Run the steps, of the adjoint if `back`. Collective, with buffers.

        Parameters
        ----------
        spaces : mapping of str to Tensor[rows, width]
            But those of pieces in turn. The targets of steps are overwritten.
        buffers : mapping of str to Buffers, or None
            Those of the movers, of the same width; overwritten. None: nothing travels, and spaces
            have all that else would.
        back : bool
        """
        made: set[str] = set()
        for action in self._actions_of(back, at_hand=buffers is None):
            step = action.step
            if isinstance(step, Multiply):
                self._multiply(action, step, spaces, buffers or {}, add=step.target in made)
                made.add(step.target)
                continue
            if action.what == "share":
                self._shared[step.name].run(step, spaces, self._clock)
                continue
            assert buffers is not None
            mover, buffer = self._movers[step.name], buffers[step.name]
            if action.what == "start":
                mover.send_rows(spaces[step.source], buffer)
            elif action.what == "add":
                mover.add_arrived(spaces[step.target], buffer)
            else:  # of messages only
                assert isinstance(mover, HaloExchange)
                if action.what == "send":
                    mover.send_all_back(buffer)
                else:
                    mover.finish(buffer)
                    mover.received(ALL, buffer)

    def _actions_of(self, back: bool, at_hand: bool) -> list[Action]:
        if (back, at_hand) not in self._actions:
            steps = without_messages(self._program) if at_hand else self._program
            idle = {name for name, mover in self._movers.items() if mover.idle}
            idle |= {name for name, rows in self._shared.items() if rows.idle}
            steps = adjoint(steps) if back else steps
            steps = tuple(s for s in steps if s.moves and s.name not in idle)
            self._actions[back, at_hand] = list(actions_of(steps, self._overlap))
        return self._actions[back, at_hand]

    def _multiply(
        self,
        action: Action,
        step: Multiply,
        spaces: Mapping[str, Tensor],
        buffers: Mapping[str, Any],
        add: bool,
    ) -> None:
        pieces = self._blocks[step.name, step.transposed]
        comes, leaves = action.comes, action.leaves
        if comes is not None:
            out = spaces[step.target]
            arriving = self._movers[comes.name].arriving(pieces, buffers[comes.name])
            here = ((piece, rows, out) for piece, rows in arriving)
        elif leaves is not None:
            x = spaces[step.source]
            leaving = self._movers[leaves.name].leaving(
                pieces, spaces[leaves.target], buffers[leaves.name]
            )
            here = ((piece, x, room) for piece, room in leaving)
        else:
            x, out = spaces[step.source], spaces[step.target]
            here = ((p, at_rows(x, p.source), at_rows(out, p.target)) for p in pieces)
        for piece, rows, room in here:
            with self._clock("spmm"):
                piece.multiply(rows, room, add)
            add = add or not step.transposed  # pieces of its source, into one target
        if not (pieces or add or step.transposed):
            spaces[step.target].zero_()
