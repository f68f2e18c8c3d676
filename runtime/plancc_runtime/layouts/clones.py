"""DistGNN's vertex clones: ranks compute with copies of vertices (Md et al. 2021, Section 5).

A rank has a *clone* of every vertex that is a row or a column of its nonzeros: own rows are
*roots*; halo rows and folded rows, of other ranks' vertices, are *leaves*. From the clones' rows h,
the rank computes a row z for each clone, and applies the dense layer to z.

                     own rows   leaves                      z = P h + s h
                   +----------+--------+
        own rows   |          |        |    P: the nonzeros of this rank
                   +----------+--------+    s: factor of each clone's own h; 0 for a root whose
        leaves     |          |        |       diagonal nonzero is in P already
                   +----------+--------+

In variant 0c, no row is sent. In variant cd-r (`DelayedSums`), vertices with leaves are divided
into r bins. In the turns of bin k (epochs e with e % r = k), leaves send partial sums P h to the
root. In epoch e + r, the root adds them to its z, and sends z, the *total*, to the leaves:

    epoch     e             e + r                         e + 2 r
    leaf      P h ----.                            .----> z = z of the root
    root               `--> z = P h + s h + sums -'

Between turns, a clone uses the row that it received last. The backward pass sends nothing:
received rows are constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plancc.kernel import njit
from plancc.plan.exchange import (
    BoolArray,
    Exchange,
    Int32Array,
    Int64Array,
    Side,
    nonzeros_of,
    places,
    runs,
)
from plancc.plan.layers import Aggregate, LayerStep
from plancc.plan.products import Program, adjoint, clone_program
from plancc.plan.words import RowMessages
from plancc.sampling.counter import mix
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.kernels.rows import add_rows
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.halo import Halo, MessageBuffers
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.matrices import both_ways, matrix_of
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import send_numbers
from plancc_runtime.workspace import empty


@dataclass(frozen=True, eq=False)
class Clones:
    """One rank's clones: its own rows (*roots*), and copies of others' rows (*leaves*).

    Attributes:
        block: The matrix P, with a row and a column per clone [own rows | leaves]. Its edge counts
            (`Block.edges`) include the edges on other ranks.
        num_own: Number of own rows.
        trees: Exchange that sends roots and receives leaves; messages are sorted by vertex.
        diagonal (float64[clones]): Diagonal nonzero of the vertex in the plan's matrix, or 0.
    """

    block: Block
    num_own: int
    trees: Exchange
    diagonal: npt.NDArray[np.float64]

    def alone(self) -> Clones:
        """Return these clones, with the edges of every row counted on this rank only.

        Means divide by these counts in variant 0c (`--fold none`), which sends no rows.
        """
        block = self.block
        assert block.edges is not None
        assert block.closed_edges is not None
        edges = np.diff(block.without_added_diagonal().row_ptr)
        in_p = (np.arange(len(edges)) < self.num_own) & (block.closed_edges == block.edges)
        return replace(self, block=replace(block, edges=edges, closed_edges=edges + ~in_p))

    def partial(self, coefficients: str, own_only: bool) -> Block:
        """Return `block` with the values `coefficients`; only its own rows if `own_only`."""
        block = self.block
        if coefficients != "plan":
            edges = block.without_added_diagonal()
            value = np.repeat(self._per_edge(coefficients), np.diff(edges.row_ptr))
            block = replace(edges, value=value)
        if own_only:
            nonzeros = slice(block.row_ptr[self.num_own])
            block = replace(
                block,
                outputs=np.arange(self.num_own),
                row_ptr=block.row_ptr[: self.num_own + 1],
                column=block.column[nonzeros],
                value=block.value[nonzeros],
            )
        return block

    def own_coefficients(self, coefficients: str) -> npt.NDArray[np.float64] | None:
        """Return s of the module's formula ``z = P h + s h``: float64[clones]; None if it is 0."""
        leaf = np.arange(len(self.diagonal)) >= self.num_own
        if coefficients == "plan":
            return np.where(leaf, self.diagonal, 0)
        if coefficients != "closed-mean":
            return None
        assert self.block.edges is not None
        assert self.block.closed_edges is not None
        in_p = ~leaf & (self.block.closed_edges == self.block.edges)
        return np.where(in_p, 0, self._per_edge(coefficients))

    def _per_edge(self, coefficients: str) -> npt.NDArray[np.float64]:
        if coefficients == "sum":
            return np.ones(len(self.diagonal))
        counts = self.block.closed_edges if coefficients == "closed-mean" else self.block.edges
        assert counts is not None
        return 1 / np.maximum(counts, 1)


def clones_of(block: Block, transport: Transport) -> Clones:
    """Return the clones of a rank, from its block of an edge plan. Collective.

    Owners send 4 bytes per halo row and folded row, and three float64 numbers per leaf
    (clone of another rank's vertex).
    """
    if block.edges is None:
        block = with_whole_rows(block, transport)
    assert block.edges is not None
    assert block.closed_edges is not None
    num_own = block.num_inputs
    trees, leaves, leaf = _trees_of(block, transport)
    num_clones = num_own + len(leaves)

    # The clone of every own, halo and folded row.
    clone = np.concatenate([np.arange(num_own), num_own + leaf])
    local_row = np.delete(clone, np.s_[num_own : num_own + block.num_halo])
    degree = np.diff(block.row_ptr)
    row_ptr = np.zeros(num_clones + 1, np.int64)
    row_ptr[local_row + 1] = degree
    _, taken = nonzeros_of(block.row_ptr, np.argsort(local_row))

    row = np.repeat(np.arange(len(degree)), degree)
    on_diagonal = np.flatnonzero((block.column == row) & (row < num_own))
    figures = np.zeros((num_clones, 3))
    figures[row[on_diagonal], 0] = block.value[on_diagonal]
    figures[:num_own, 1], figures[:num_own, 2] = block.edges[:num_own], block.closed_edges[:num_own]
    figures[num_own:] = send_numbers(trees, figures[trees.send.row], transport)
    diagonal, edges, closed_edges = figures.T.copy()
    return Clones(
        block=Block(
            inputs=np.concatenate([block.inputs, leaves]),
            outputs=None,
            row_ptr=np.cumsum(row_ptr),
            column=clone[block.column[taken]].astype(np.int32),
            value=block.value[taken],
            expand=Exchange.nothing(),
            self_loops=block.self_loops,
            edges=edges.astype(np.int64),
            closed_edges=closed_edges.astype(np.int64),
        ),
        num_own=num_own,
        trees=trees,
        diagonal=diagonal,
    )


def _trees_of(block: Block, transport: Transport) -> tuple[Exchange, Int32Array, Int64Array]:
    """Return the exchange between roots (owners' rows) and leaves (copies), and this rank's leaves.

    The leaves are two arrays: the vertex of every leaf, sorted by owner, then vertex,
    int32[leaves]; and the index of the leaf of every halo row, then of every folded row,
    int64[halo rows + folded rows]. Collective.
    """
    fold = block.fold
    assert fold is not None
    steps = block.expand, fold.reversed()  # in both, owners send
    sent = [block.inputs[step.send.row] for step in steps]
    came = [send_numbers(step, rows, transport) for step, rows in zip(steps, sent, strict=True)]
    needed = [_keys(step.receive, rows) for step, rows in zip(steps, came, strict=True)]
    owned = [_keys(step.send, rows) for step, rows in zip(steps, sent, strict=True)]
    leaves, leaf = np.unique(np.concatenate(needed), return_inverse=True)
    copies, first = np.unique(np.concatenate(owned), return_index=True)
    rows = np.concatenate([step.send.row for step in steps])[first]
    trees = Exchange(Side.of_rank(*runs(copies >> 32), rows), Side.of_rank(*runs(leaves >> 32)))
    return trees, (leaves & _VERTEX).astype(np.int32), leaf


def with_leaves(clones: Clones, x: Tensor, transport: Transport) -> Tensor:
    """Return own rows, then rows of leaves (copies), which owners send: Tensor[clones, width].

    Collective.
    """
    halo = Halo(clones.trees, len(x), Resources(transport, x.dtype, device=x.device))
    return torch.cat([x, halo.expand(x, halo.buffers(x.shape[1]))])


class CloneGraph(LocalGraph):
    """The graph of a layer in which every rank computes with its clones (see the module).

    Products send rows only in training with variant cd-r, in which `sums` is given. Then products
    are collective.

    Parameters:
        last: Whether this is the last layer, whose outputs are own rows only.
        sums: Delayed partial sums, and totals (complete sums), from other ranks; None if no rows
            are sent.
        constant: Whether x is the same in all products; with `sums`, a product is then computed
            once.
    """

    def __init__(
        self,
        clones: Clones,
        resources: Resources,
        *,
        last: bool = False,
        sums: DelayedSums | None = None,
        constant: bool = False,
    ) -> None:
        block = clones.partial("plan", own_only=True) if last else clones.block
        super().__init__(block, resources)
        self._clones, self._sums = clones, sums
        self._constant = constant and sums is not None  # without sums there is one product only
        self._own_only = last and sums is None
        self._partial: dict[str, tuple[Sequence[SparseMatrix], Tensor | None]] = {}
        self._product: Tensor | None = None

    def multiplied(self, x: Tensor, coefficients: str, back: bool = False) -> Tensor:
        """Return z = P x + s x or, if `back`, P^T x + s x, without autograd.

        P has the nonzeros of this rank; s is the factor of each clone's own row (see the module).
        If the constructor got `sums`, the forward product is collective: it sends partial sums, and
        uses those that it received in earlier epochs.
        """
        both, itself = self._partial_of(coefficients)
        x, num_own = x.contiguous(), self._clones.num_own
        rows = num_own if self._own_only else self._block.num_inputs
        if back and len(x) < rows:  # gradients of the last layer's leaves are 0
            x = torch.cat([x, x.new_zeros(rows - len(x), x.shape[1])])
        if self._product is None or back:
            out = empty(self._block.num_inputs if back else rows, x.shape[1], x)
            with self.resources.clock("spmm"):
                both[back].multiply(x, out)
            if self._constant and not back:
                self._product, out = out, out.clone()
        else:
            out = self._product.clone()
        late = None if back else self._sums
        if late is not None:
            late.exchange(out[num_own:])
        if not back and len(out) > self.num_outputs:
            out = out[: self.num_outputs].clone()
        if itself is not None:
            some = min(len(x), len(out))
            out[:some].addcmul_(x[:some], itself[:some])
        if late is not None:
            late.complete(out)
        return out

    @property
    def cycle(self) -> int:  # type: ignore[override]
        return 1 if self._sums is None else self._sums.cycle

    def program(self, step: LayerStep) -> Program:
        if not isinstance(step, Aggregate):
            return ()
        sums = self._sums
        program = clone_program(sums is not None, returns=sums is not None and sums.returns)
        return adjoint(program) if step.back else program

    def moved(self, step: LayerStep) -> dict[str, list[RowMessages]]:
        assert isinstance(step, Aggregate)
        bins = [] if self._sums is None else self._sums.bins
        return {"trees": [RowMessages(each.halo.steps[0], step.columns) for each in bins]}

    def release_buffers(self) -> None:
        super().release_buffers()
        self._product = None

    def _partial_of(self, coefficients: str) -> tuple[Sequence[SparseMatrix], Tensor | None]:
        """Return P and its transpose, laid out for products, and s; see the module's symbols.

        P has this rank's nonzeros. s has the factor of each clone's own row; None if all are 0.
        """
        if coefficients not in self._partial:
            block = self._clones.partial(coefficients, self._own_only)
            both = both_ways(matrix_of(block), self.resources)
            itself = self._clones.own_coefficients(coefficients)
            column = None
            if itself is not None:
                column = torch.from_numpy(itself[:, None]).to(
                    self.resources.device, self.resources.dtype
                )
            self._partial[coefficients] = both, column
        return self._partial[coefficients]


@dataclass(frozen=True, eq=False)
class Bin:
    """Vertices whose leaves (copies on other ranks) send their partial sums in the same epochs.

    Attributes:
        halo: The exchange between the roots (owners' rows) and the leaves of the bin.
        roots (int64[m]): Own rows in the bin that have leaves on other ranks.
        leaves (int64[l]): This rank's leaves in the bin, numbered among all its leaves.
    """

    halo: Halo
    roots: Tensor
    leaves: Tensor


class Delay:
    """The bins of vertices, which send in different epochs, and the current epoch.

    The layers of a rank share one instance.

    Parameters:
        epochs: r, at least 1: the delay of a message in epochs, and the number of bins.

    Attributes:
        epoch (int): Epoch of the next products, from 0; the caller sets it.
        bins (list of Bin): Vertices of bin k send messages in every epoch e with e % r = k.
    """

    def __init__(self, clones: Clones, epochs: int, resources: Resources) -> None:
        self.num_own, self.epochs, self.epoch = clones.num_own, epochs, 0
        trees, vertices = clones.trees, clones.block.inputs
        sent = bin_of(vertices[trees.send.row], epochs)
        received = bin_of(vertices[self.num_own :], epochs)
        self.bins = [_bin(trees, sent == k, received == k, resources) for k in range(epochs)]


def _bin(trees: Exchange, sent: BoolArray, received: BoolArray, resources: Resources) -> Bin:
    """Return the `Bin` of the chosen roots (own rows) and leaves (copies of other ranks' rows).

    Parameters:
        trees: The exchange between all roots and leaves; see `_trees_of`.
        sent (bool[sent rows of `trees`]): Whether each sent root belongs to the bin.
        received (bool[leaves]): Whether each leaf belongs to the bin.
    """
    kept = trees.keep(sent, received)
    roots = np.unique(kept.send.row)
    number = np.zeros(roots.max(initial=-1) + 1, np.int32)
    number[roots] = np.arange(len(roots))
    exchange = kept.renumbered(number, places(received))
    return Bin(
        halo=Halo(exchange, len(roots), resources),
        roots=_on(resources, roots),
        leaves=_on(resources, np.flatnonzero(received)),
    )


def _on(resources: Resources, rows: npt.NDArray[np.integer]) -> Tensor:
    return torch.from_numpy(rows.astype(np.int64)).to(resources.device)


@dataclass(eq=False)
class _Turns:
    """Rows that one bin of vertices (`Delay`) has received in one layer, and rows in flight.

    Attributes:
        up, down: Buffers of partial sums that go to roots (own rows), and of totals that go to
            leaves (copies); None while no buffer is needed.
        sums (Tensor[roots, width] or None): Added to the roots' rows; None until sums arrive.
        totals (Tensor[leaves, width] or None): Replace the leaves' rows; None until totals arrive.
        next_sums, next_totals: Received rows that replace `sums` and `totals` when the bin's
            vertices send again.
        rising, falling: Whether messages of `up`, or of `down`, are in flight.
    """

    up: MessageBuffers | None = None
    down: MessageBuffers | None = None
    sums: Tensor | None = None
    totals: Tensor | None = None
    next_sums: Tensor | None = None
    next_totals: Tensor | None = None
    rising: bool = False
    falling: bool = False

    def take(self) -> None:
        """Replace `sums` by `next_sums`, and `totals` by `next_totals`, unless these are None."""
        if self.next_sums is not None:
            self.sums, self.next_sums = self.next_sums, None
        if self.next_totals is not None:
            self.totals, self.next_totals = self.next_totals, None


class DelayedSums:
    """Sends partial sums of one layer to owners, and totals back; both are used r epochs later.

    r is the delay (Md et al. 2021, Algorithm 4). A vertex is a *root* on its owner; its copies on
    other ranks are *leaves*. Leaves send partial sums, whose total the root sends back.

    Parameters:
        returns: Whether roots send totals to leaves. The last layer needs none.
        constant: Whether the partial sums never change, and are sent only once.
    """

    def __init__(self, delay: Delay, *, returns: bool, constant: bool = False) -> None:
        self._delay, self.returns, self.constant = delay, returns, constant
        self.bins = delay.bins
        self._turns: list[_Turns] = []
        self._arrived = False

    @property
    def cycle(self) -> int:
        """Number of epochs between two exchanges of the same vertex's sums."""
        return self._delay.epochs

    def exchange(self, partial: Tensor) -> None:
        """Receive rows for the vertices of this epoch's bin, and send partial sums of their leaves.

        Collective. Vertices are divided into bins, and every epoch exchanges the rows of one bin.
        A leaf is this rank's copy of another rank's vertex. `partial` has the partial sums of all
        leaves: Tensor[leaves, width].
        """
        delay, number = self._delay, self._delay.epoch % self._delay.epochs
        if not self._turns:
            self._turns = [_Turns() for _ in delay.bins]
        now, turn = delay.bins[number], self._turns[number]
        self._receive(now, turn)
        self._arrived = turn.next_sums is not None
        turn.take()
        if not self.constant or delay.epoch < delay.epochs:
            turn.up = turn.up or now.halo.buffers(partial.shape[1])
            torch.index_select(partial, 0, now.leaves, out=turn.up.halo)
            now.halo.send_all_back(turn.up)
            turn.rising = True

    def complete(self, z: Tensor) -> None:
        """Add received sums to the roots' rows of z, and put received totals in the leaves' rows.

        Roots (own rows), leaves (rows of other ranks' vertices), bins and totals are explained in
        the module. The bin whose turn it is also sends its roots' rows to the leaves. Before the
        call, z is P h + s h. Collective; called after `exchange`.
        """
        delay = self._delay
        for each, turn in zip(delay.bins, self._turns, strict=True):
            if turn.sums is not None:
                add_rows(z, each.roots, turn.sums)
        number = delay.epoch % delay.epochs
        if self._arrived and self.returns:
            now, turn = delay.bins[number], self._turns[number]
            turn.down = turn.down or now.halo.buffers(z.shape[1])
            now.halo.send_rows(z[now.roots], turn.down)
            turn.falling = True
        for each, turn in zip(delay.bins, self._turns, strict=True):
            if turn.totals is not None:
                z[delay.num_own + each.leaves] = turn.totals

    def finish(self) -> None:
        """Receive all messages that are in flight, and drop all received rows. Collective."""
        for each, turn in zip(self._delay.bins, self._turns, strict=False):
            self._receive(each, turn)
        self._turns = []

    def _receive(self, each: Bin, turn: _Turns) -> None:
        if turn.rising and turn.up is not None:
            turn.next_sums = turn.up.halo.new_zeros(len(each.roots), turn.up.halo.shape[1])
            each.halo.add_arrived(turn.next_sums, turn.up)
        if turn.falling and turn.down is not None:
            turn.next_totals = each.halo.take(turn.down).clone()
        turn.rising = turn.falling = False
        if self.constant:  # free the buffers: they are as wide as the features, and unused now
            turn.up = turn.down = None


def bin_of(vertices: Int32Array, num_bins: int) -> Int64Array:
    """Return the bin of every vertex, a hash below `num_bins`: int64[vertices].

    Rows of the vertices in one bin are exchanged in the same epochs.
    """
    return (_mixed(vertices) % np.uint64(num_bins)).astype(np.int64)


@njit(cache=True, nogil=True)
def _mixed(vertices: Any) -> Any:
    out = np.empty(len(vertices), np.uint64)
    for k in range(len(vertices)):
        out[k] = mix(np.uint64(vertices[k]))
    return out


_VERTEX = 2**32 - 1


def _keys(side: Side, vertices: Int32Array) -> Int64Array:
    """Return a key for every row that the messages of `side` carry: int64[rows].

    High 32 bits: peer. Low 32 bits: vertex. So keys sort rows by peer, then by vertex.
    """
    return side.peer_of_row().astype(np.int64) << 32 | vertices
