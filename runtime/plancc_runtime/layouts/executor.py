"""The steps of a product on one rank. Knows programs, exchanges and pieces of matrices; must not
know layouts or layers.

Overlap is a rule, not code. Messages of a gather start at once; the first product that reads what
they bring takes it piece by piece, in the order of the peers, or waits for all of it where its
pieces are those of its target. Rows that are scattered leave piece by piece as the last product
makes them; what arrives of other ranks is added at the end. So what
stands between is multiplied while rows travel. Sums are made in the order of the steps and of the
peers, not of arrival: the same inputs on the same number of ranks give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from plancc.plan.products import Gather, Multiply, ScatterAdd, Step
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.layouts.halo import Buffers, HaloExchange, complete
from plancc_runtime.layouts.resources import Resources

ALL = slice(None)


class BlockPiece(NamedTuple):
    """A piece of a block, laid out for a product in one direction.

    Attributes
    ----------
    matrix : SparseMatrix
    messages : range
        Messages that bring its source or, transposed, take its target; empty: none do.
    source, target : slice
        Their rows in the spaces.
    rows : Tensor int64[m] or None
        Where its rows belong in the target, if it has only those with nonzeros.
    """

    matrix: SparseMatrix
    messages: range = range(0)
    source: slice = ALL
    target: slice = ALL
    rows: Tensor | None = None


@dataclass(frozen=True)
class Action:
    """One thing that a rank does.

    Attributes
    ----------
    what : str
        "start" or "finish" the messages of a gather, "multiply", "send" the rows of a scatter, or
        "add" those of others.
    step : Step
    comes : Gather or None
        Of a product: whose rows it takes as they arrive.
    leaves : ScatterAdd or None
        Of a product: what its rows leave by as they are made.
    """

    what: str
    step: Step
    comes: Gather | None = None
    leaves: ScatterAdd | None = None


def actions_of(program: Sequence[Step], overlap: bool) -> Iterator[Action]:
    """What a rank does for a program, by the rule of the module; without `overlap` one by one."""
    coming = {step.target: step for step in program if isinstance(step, Gather)}
    leaving = {step.source: step for step in program if isinstance(step, ScatterAdd)}
    last = {step.target: step for step in program if isinstance(step, Multiply)}
    for gather in coming.values():
        yield Action("start", gather)
        if not overlap:
            yield Action("finish", gather)
    for step in program:
        if isinstance(step, Multiply):
            comes, leaves = coming.pop(step.source, None) if overlap else None, None
            if comes is not None and step.transposed:  # pieces are those of its target
                yield Action("finish", comes)
                comes = None
            if overlap and step.transposed and last[step.target] is step:
                leaves = leaving.get(step.target)
            yield Action("multiply", step, comes, leaves)
        elif isinstance(step, ScatterAdd) and overlap and not last[step.source].transposed:
            yield Action("send", step)
    for gather in coming.values() if overlap else ():  # nothing read it
        yield Action("finish", gather)
    for scatter in leaving.values():
        if not overlap:
            yield Action("send", scatter)
        yield Action("add", scatter)


class Executor:
    """A program of one rank, with what it works on.

    Parameters
    ----------
    program : sequence of Step
    blocks : mapping of (str, bool) to sequence of BlockPiece
        The pieces of every block, and (True) of its transpose.
    exchanges : mapping of str to HaloExchange
        By the names of the steps.
    resources : Resources
    """

    def __init__(
        self,
        program: Sequence[Step],
        blocks: Mapping[tuple[str, bool], Sequence[BlockPiece]],
        exchanges: Mapping[str, HaloExchange[Any]],
        resources: Resources,
    ) -> None:
        self._blocks, self._exchanges, self._clock = blocks, exchanges, resources.clock
        idle = {name for name, exchange in exchanges.items() if exchange.idle}
        steps = [s for s in program if isinstance(s, Multiply) or s.name not in idle]
        self._actions = list(actions_of(steps, resources.overlap))

    def run(self, spaces: Mapping[str, Tensor], buffers: Mapping[str, Buffers]) -> None:
        """Run the steps. Collective.

        Parameters
        ----------
        spaces : mapping of str to Tensor[rows, width]
            The targets of steps are overwritten.
        buffers : mapping of str to Buffers
            Those of the exchanges, of the same width.
        """
        made: set[str] = set()
        for action in self._actions:
            step = action.step
            if isinstance(step, Multiply):
                self._multiply(action, step, spaces, buffers, add=step.target in made)
                made.add(step.target)
                continue
            exchange, buffer = self._exchanges[step.name], buffers[step.name]
            if action.what == "start":
                exchange.send_rows(spaces[step.source], buffer)
            elif action.what == "finish":
                exchange.finish(buffer)
                exchange.received(ALL, buffer)
            elif action.what == "send":
                exchange.send_all_back(buffer)
            else:
                exchange.add_arrived(spaces[step.target], buffer)

    def _multiply(
        self,
        action: Action,
        step: Multiply,
        spaces: Mapping[str, Tensor],
        buffers: Mapping[str, Buffers],
        add: bool,
    ) -> None:
        pieces = self._blocks[step.name, step.transposed]
        source, target, leaves = spaces[step.source], spaces[step.target], action.leaves
        if action.comes is not None:
            here = self._arriving(action.comes.name, pieces, buffers)
        else:
            here = ((piece, _rows(source, piece.source)) for piece in pieces)
        if leaves is not None:
            exchange, buffer = self._exchanges[leaves.name], buffers[leaves.name]
            exchange.start_back(buffer)
        for piece, rows in here:
            out = _rows(target, piece.target)
            with self._clock("spmm"):
                piece.matrix.multiply(rows, out, add=add, rows=piece.rows)
            if leaves is not None:
                exchange.send_back(piece.messages, piece.target, buffer)
        if leaves is not None:
            exchange.sent_back(buffer)

    def _arriving(
        self, name: str, pieces: Sequence[BlockPiece], buffers: Mapping[str, Buffers]
    ) -> Iterator[tuple[BlockPiece, Tensor]]:
        """The pieces and their rows, each once its messages are here; then the end of the round."""
        exchange, buffer = self._exchanges[name], buffers[name]
        arrived = complete(exchange.arrivals(buffer), pieces)
        while True:
            with self._clock("wait"):
                piece = next(arrived, None)
            if piece is None:
                break
            yield piece, exchange.received(piece.source, buffer)
        exchange.finish(buffer)


def _rows(x: Tensor, at: slice) -> Tensor:
    return x if at is ALL else x[at]
