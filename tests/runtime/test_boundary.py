"""Boundary sampling and its rivals: the matrices that all ranks sample, put together densely.

That each draw is the one that its seed says, `test_sampled_passes` compares with Python's integers.
"""

import numpy as np
import reference
import torch
from cases import some, turns
from runs import on_ranks

from plancc.plan.layers import COEFFICIENTS
from plancc_runtime.layouts import matrices
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.boundary import draw, ready_to_draw
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions

N, EPOCHS = 40, 1000


def a_matrix() -> np.ndarray:
    """Directed, with a diagonal, values of all sizes."""
    rng = np.random.default_rng(4)
    a = (rng.random((N, N)) < 0.12) * rng.uniform(0.2, 2, (N, N))
    np.fill_diagonal(a, rng.uniform(0.2, 2, N))
    return a


A = a_matrix()
OWNER = np.random.default_rng(5).integers(0, 4, N)
BOUNDARY = OWNER[:, None] != OWNER[None, :]
ADDED = np.eye(N, dtype=bool)


def blocks_of(options: TrainOptions, owner: np.ndarray = OWNER) -> list[Block]:
    """The blocks of all ranks, as `ready_to_draw` leaves them."""
    num_parts = int(owner.max()) + 1
    header, parts = reference.make_parts(A, owner, num_parts)

    def work(transport):
        block = Block.of_part(parts[transport.rank], header.self_loops)
        return ready_to_draw(block, options.sampling, transport)

    return on_ranks(num_parts, work)


def sampled(blocks: list[Block], options: TrainOptions, epoch: int) -> list[Block]:
    return [draw(block, options.sampling, rank, epoch).block for rank, block in enumerate(blocks)]


def dense_of(blocks: list[Block]) -> np.ndarray:
    """The whole matrix, by what the *senders* say the halo rows are."""
    whole = np.zeros((N, N))
    for rank, block in enumerate(blocks):
        vertices = [block.inputs]
        for k, peer in enumerate(block.expand.receive.peer.tolist()):
            sender = blocks[peer]
            (message,) = np.flatnonzero(sender.expand.send.peer == rank)
            rows = sender.expand.send.row[
                sender.expand.send.row_ptr[message] : sender.expand.send.row_ptr[message + 1]
            ]
            assert (
                len(rows)
                == block.expand.receive.row_ptr[k + 1] - block.expand.receive.row_ptr[k]
                > 0
            )
            vertices.append(sender.inputs[rows])
        columns = np.concatenate(vertices)
        assert len(columns) == block.num_columns
        row = np.repeat(block.inputs, np.diff(block.row_ptr))
        np.add.at(whole, (row, columns[block.column]), block.value)
    sends = {(r, q) for r, b in enumerate(blocks) for q in b.expand.send.peer.tolist()}
    assert sends == {(q, r) for r, b in enumerate(blocks) for q in b.expand.receive.peer.tolist()}
    return whole


RATES = {"boundary_sampling": BOUNDARY, "boundary_edge_sampling": BOUNDARY, "drop_edge": ~ADDED}


@turns(name=["mean", "sum"], rate=RATES)
def test_coefficients_of_a_sample_are_those_of_the_whole_scaled(name, rate):
    options = TrainOptions(**{rate: 0.5})
    blocks = blocks_of(options)
    edges = (A != 0) & ~ADDED
    whole = edges / np.maximum(edges.sum(axis=1, keepdims=True), 1) if name == "mean" else edges
    found = dense_of([b.with_coefficients(name) for b in sampled(blocks, options, 2)])
    kept = (dense_of(sampled(blocks, options, 2)) != 0) & ~ADDED
    np.testing.assert_array_equal(found != 0, kept)
    scale = np.where(RATES[rate], 2.0, 1.0)
    np.testing.assert_allclose(found, whole * kept * scale, rtol=1e-12)


ALL = dict.fromkeys(RATES, 0.7)
EACH = [{name: 0.5} for name in RATES]


@some(lambda rates, group: group == 2 or rates is ALL, rates=(*EACH, ALL), group=(2, 10000))
def test_products_are_those_of_the_sampled_matrix(rates, group, monkeypatch):
    """One graph per rank gives those of all epochs, whose halo rows differ."""
    monkeypatch.setattr(matrices, "GROUP_NONZEROS", group)
    options = TrainOptions(**rates)
    blocks = blocks_of(options)
    h, g = np.random.default_rng(6).normal(size=(2, N, 3))

    def work(transport):
        block = blocks[transport.rank]
        graph = LocalGraph(block, Resources(transport, torch.float64))
        mine = [torch.from_numpy(x[block.inputs]) for x in (h, g)]
        answers = {}
        for epoch in range(3):
            part = graph.sampled(draw(block, options.sampling, transport.rank, epoch))
            for name in COEFFICIENTS:
                x = mine[0].clone().requires_grad_()
                y = part.product(x, name)
                y.backward(mine[1])
                answers[epoch, name] = y.detach().numpy(), x.grad.numpy()
        return answers

    answers = on_ranks(4, work)
    for epoch, name in answers[0]:
        kept = [block.with_coefficients(name) for block in sampled(blocks, options, epoch)]
        dense = dense_of(kept)
        for block, (y, x_grad) in zip(blocks, (a[epoch, name] for a in answers), strict=True):
            np.testing.assert_allclose(y, (dense @ h)[block.inputs], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(x_grad, (dense.T @ g)[block.inputs], rtol=1e-12, atol=1e-12)


def test_a_rate_of_zero_leaves_nothing_of_it():
    for name in ("boundary_sampling", "boundary_edge_sampling"):
        options = TrainOptions(**{name: 0.0})
        alone = sampled(blocks_of(options), options, 0)
        assert all(
            len(b.expand.send.peer) == len(b.expand.receive.peer) == b.num_halo == 0 for b in alone
        )
        np.testing.assert_array_equal(dense_of(alone), A * ~BOUNDARY)
    options = TrainOptions(drop_edge=0.0)
    np.testing.assert_array_equal(dense_of(sampled(blocks_of(options), options, 0)), A * ADDED)
