"""Runs the program of a sparse product (`plancc.plan.products`) on one rank.

These rules fix the order of messages and local products; a program that needs another order raises
InputError:

- A gather, which sends rows to the ranks that read them, starts first. The first product that reads
  gathered rows reads them piece by piece, in the order of the peers; a transposed product waits for
  all rows.
- A scatter sends partial sums to the rows' owners, piece by piece, as the last product computes
  them. Received sums are added at the end.
- All other products are computed while the messages are in flight.
- A broadcast matrix, or a matrix summed at the owners, may move piece by piece: one piece is in use
  while the next is in flight.
- A step that shares rows in a group of ranks, such as an all-reduce, waits for all earlier steps.

Terms are summed in the order of steps and peers, so results have the same bits in every run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from typing import Any, NamedTuple

from torch import Tensor

from plancc.errors import InputError
from plancc.plan.products import (
    AllGather,
    AllReduce,
    Broadcast,
    Gather,
    Multiply,
    Program,
    Reduce,
    ReduceScatter,
    Replicate,
    ScatterAdd,
    Step,
    adjoint,
    without_messages,
)
from plancc_runtime.layouts.halo import HaloExchange, RowMover, at_rows
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.matrices import Blocks, TransposedPiece
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Group
from plancc_runtime.workspace import converted, empty


@dataclass(frozen=True)
class Action:
    """One action of a rank.

    Attributes:
        what: "start" or "finish" messages, "multiply", "send" or "add" rows of a scatter, or
            "share" (carry out a collective of a group of ranks).
        step: The step of the program to which the action belongs.
        comes: Step that moves rows which a product reads as they arrive; None: none are awaited.
        leaves: Step that sends a product's rows as they are computed; None: no rows are sent.
    """

    what: str
    step: Step
    comes: Gather | Broadcast | None = None
    leaves: ScatterAdd | Reduce | None = None


def actions_of(steps: Sequence[Step], overlap: bool, idle: Container[str] = ()) -> Iterator[Action]:
    """Yield a rank's actions for the steps, in the order that the module's rules give.

    Without `overlap`, each message ends before the next step. Steps named in `idle` are left out.
    """
    for here, group in groupby(steps, _is_piecewise):
        alike = [step for step in group if step.moves and step.name not in idle]
        yield from (_ordered(alike, overlap) if here else (Action("share", s) for s in alike))


@cache
def checked(program: Program) -> Program:
    """Return the program; raise InputError if a step breaks the module's rules."""
    for here, steps in groupby(program, _is_piecewise):
        alike = [*steps]
        for k, step in enumerate(alike if here else ()):
            fault = _fault(step, alike[:k], alike[k + 1 :])
            if fault:
                what = f"{type(step).__name__} '{step.name}' from '{step.source}'"
                raise InputError(f"program: {what} to '{step.target}': {fault}")
    return program


@cache
def _actions(
    program: Program, back: bool, is_local: bool, overlap: bool, idle: frozenset[str]
) -> list[Action]:
    """Return the actions of a program or, if `back`, of its adjoint, without steps named in `idle`.

    If `is_local`, steps that send messages are left out too.
    """
    steps = without_messages(program) if is_local else program
    return list(actions_of(checked(adjoint(steps)) if back else steps, overlap, idle))


def _is_piecewise(step: Step) -> bool:
    return isinstance(step, Multiply | Gather | ScatterAdd | Broadcast | Reduce)


def _fault(step: Step, before: Sequence[Step], after: Sequence[Step]) -> str:
    """Return why a step breaks the module's rules on the order of steps, or ""."""
    comes, leaves = isinstance(step, Gather | Broadcast), isinstance(step, ScatterAdd | Reduce)
    left = [each for each in before if isinstance(each, ScatterAdd | Reduce)]
    source, target = f"'{step.source}'", f"'{step.target}'"
    makers = [s for s in before if isinstance(s, Multiply) and s.target == step.source]
    takers = [s for s in after if isinstance(s, Multiply) and s.source == step.target]
    two = "; split the program into two"
    if step.source in {each.target for each in left}:
        return f"{source} is complete only after the last product{two}"
    if comes and step.source in {each.target for each in before}:
        return f"its messages start before {source} is made{two}"
    if comes and step.target in {s.source for s in before} | {s.target for s in (*before, *after)}:
        return f"{target} is read before this step, or also made by another step{two}"
    if step.source in {s.source for s in left} and leaves:
        return f"another step also sends {source}{two}"
    if step.target in {each.source for each in left}:
        return f"an earlier step has sent {target} to other ranks{two}"
    if leaves and not makers:
        return f"no earlier product makes {source}"
    if isinstance(step, ScatterAdd) and not any(
        isinstance(s, Multiply) and s.target == step.target for s in (*before, *after)
    ):
        return f"no product makes {target}, to which this step adds rows"
    if isinstance(step, Broadcast) and [s.transposed for s in takers] != [False]:
        return f"exactly one product, not transposed, must read the pieces of {target}"
    if isinstance(step, Reduce) and [s.transposed for s in makers] != [True]:
        return f"exactly one product, transposed, must make the pieces of {source}"
    return ""


def _ordered(steps: Sequence[Step], overlap: bool) -> Iterator[Action]:
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
            if comes is not None and step.transposed:  # pieces belong to the product's target
                yield Action("finish", comes)
                comes = None
            if (overlap and step.transposed and last[step.target] is step) or (
                step.target in in_turn
            ):
                leaves = leaving.get(step.target)
            yield Action("multiply", step, comes, leaves)
        elif isinstance(step, ScatterAdd) and overlap and not last[step.source].transposed:
            yield Action("send", step)
    for come in coming.values() if overlap else ():  # no product reads these rows
        yield Action("finish", come)
    for leave in leaving.values():
        if not overlap and isinstance(leave, ScatterAdd):
            yield Action("send", leave)
        yield Action("add", leave)


class SharedRows(NamedTuple):
    """Rows that the ranks of a group share in one step.

    Attributes:
        rows: For every member of the group, its number of rows.
        place: Range of this rank's rows among the rows of all members.
        root: Index in the group of the rank whose rows the others copy.
        idle: Whether the step is left out because source and target are the same tensor.
    """

    group: Group
    rows: list[int]
    place: slice = slice(0)
    root: int = 0
    idle: bool = False


class Executor:
    """Runs the program of a product, or its adjoint, with one rank's matrices and exchanges.

    Raises InputError if the program needs another order of steps than the module describes; the
    adjoint is checked when it first runs.

    Parameters:
        blocks: The matrix of each product, in pieces, by the step's name and whether the step
            multiplies by the transposed matrix.
        movers: The exchange of each step that moves rows, by the step's name.
        shared: By the step's name, for each step in which the ranks of a group share rows: the
            group, and which rows they share.
    """

    def __init__(
        self,
        program: Program,
        blocks: Blocks,
        movers: Mapping[str, RowMover[Any]],
        resources: Resources,
        shared: Mapping[str, SharedRows] | None = None,
    ) -> None:
        self._program, self._blocks = checked(program), blocks
        self._movers, self._shared = movers, shared or {}
        self._clock, self._overlap = resources.clock, resources.overlap
        self._filled = {  # by name of a step: the space whose memory is the step's message buffers
            step.name: step.target if isinstance(step, Gather) else step.source
            for step in program
            if isinstance(step, Gather | ScatterAdd)
        }

    def with_blocks(self, blocks: Blocks, movers: Mapping[str, RowMover[Any]]) -> Executor:
        """Return a copy with `movers` as its only exchanges, and with `blocks`.

        The copy keeps the blocks for whose keys `blocks` has none.
        """
        other = copy(self)
        other._blocks, other._movers = self._blocks | blocks, movers
        return other

    def lay_out_transposes(self) -> None:
        """Lay out the transposed matrices now, instead of in the first run of the adjoint."""
        for piece in chain(*self._blocks.values()):
            if isinstance(piece, TransposedPiece):
                piece.lay_out()

    def run(self, given: Mapping[str, Tensor], back: bool = False) -> None:
        """Run the steps of the program or, if `back`, of its adjoint. Collective.

        `given` has the tensor of every *space* (`plancc.plan.products`), such as "x"; targets are
        overwritten. `given` must not have spaces that move piece by piece. If it has halo rows and
        folded rows, nothing is sent, and the call is not collective.
        """
        filled = set(self._filled.values())
        is_local = bool(filled) and filled <= given.keys()
        actions = self._actions_of(back, is_local)
        buffers, spaces, made = {}, {**given}, set[str]()
        for name, each in () if is_local else self._movers.items():
            buffers[name] = each.buffers_for(given["x"].shape[1])
            if name in self._filled:
                spaces[self._filled[name]] = buffers[name].halo
        for action in actions:
            step = action.step
            if isinstance(step, Multiply):
                self._multiply(action, step, spaces, buffers, add=step.target in made)
                made.add(step.target)
                continue
            if action.what == "share":
                self._share(step, spaces[step.source], spaces[step.target])
                continue
            mover, buffer = self._movers[step.name], buffers[step.name]
            if action.what == "start":
                mover.send_rows(spaces[step.source], buffer)
            elif action.what == "add":
                mover.add_arrived(spaces[step.target], buffer)
            else:  # "send" and "finish" occur only with a `HaloExchange`
                assert isinstance(mover, HaloExchange)
                if action.what == "send":
                    mover.send_all_back(buffer)
                else:
                    mover.take(buffer)

    def _actions_of(self, back: bool, is_local: bool) -> list[Action]:
        movers: dict[str, Any] = {**self._movers, **self._shared}
        idle = frozenset(name for name, each in movers.items() if each.idle)
        return _actions(self._program, back, is_local, self._overlap, idle)

    def _share(self, step: Step, source: Tensor, target: Tensor) -> None:
        """Run a step in which the ranks of a group share rows. Collective in the group."""
        group, rows, place, root, _ = self._shared[step.name]
        if isinstance(step, AllGather):
            target[place] = source
        with self._clock("wait"):
            match step:
                case AllGather():
                    group.allgather(target.split(rows))
                case ReduceScatter():
                    group.reduce_scatter_sum(source.split(rows))
                case AllReduce():
                    group.allreduce_sum(target)
                case Replicate():
                    group.broadcast(target, root)
        if isinstance(step, ReduceScatter):
            target.copy_(source[place])

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
            add = add or not step.transposed  # the next pieces are added to the same target
        if not (pieces or add or step.transposed):
            spaces[step.target].zero_()


class ProgramGraph(LayerGraph):
    """A graph whose products are run by an `Executor`, in the dtype of `resources`."""

    resources: Resources

    @abstractmethod
    def lay_out(self, coefficients: str) -> Executor:
        """Return the executor of products with A, which is made on first use and kept.

        `coefficients` names the values of A (`plancc.plan.layers.COEFFICIENTS`).
        """

    def spaces(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Return the tensor of every space (named buffer) of a product, for `Executor.run`.

        x is the space "x" and y the space "y"; the method of a layout may return further spaces.
        """
        return {"x": x, "y": y}

    def multiplied(self, x: Tensor, coefficients: str, back: bool = False) -> Tensor:
        """Return A x or, if `back`, A^T x, computed in `resources.dtype`. Collective."""
        rows = converted(x, self.resources.dtype).contiguous()
        out = empty(self.num_inputs if back else self.num_outputs, x.shape[1], rows)
        executor = self.lay_out(coefficients)
        executor.run(self.spaces(*((out, rows) if back else (rows, out))), back)
        return converted(out, x.dtype)
