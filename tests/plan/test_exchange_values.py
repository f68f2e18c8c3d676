"""An exchange is a 0/1 matrix for every pair of parts; each of its methods is an identity of it."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plancc.plan.exchange import Exchange, Side, offsets, places

ROWS = 6


def exchange_of(moved, parts):
    """From {(sender, receiver): rows}, as a plan has it: rows by their numbers at the sender."""

    def side(first, second):
        messages = sorted((first(pair), second(pair), rows) for pair, rows in moved.items())
        counts = np.bincount([m for m, _, _ in messages], minlength=parts)
        return Side(
            offsets(counts),
            np.array([n for _, n, _ in messages], np.int32),
            offsets(np.array([len(rows) for _, _, rows in messages], np.int64)),
            np.array([r for _, _, rows in messages for r in rows], np.int32),
        )

    return Exchange(
        side(lambda pair: pair[0], lambda p: p[1]), side(lambda p: p[1], lambda p: p[0])
    )


def ones(exchange):
    """Every 1: (sender, receiver, its number at the sender, its number at the receiver)."""
    send, receive = exchange.send, exchange.receive

    def entries(side, sends):
        for m in range(len(side.ptr) - 1):
            for k in range(side.ptr[m], side.ptr[m + 1]):
                n = int(side.peer[k])
                rows = side.row[side.row_ptr[k] : side.row_ptr[k + 1]].tolist()
                yield ((m, n) if sends else (n, m)), rows

    sent, received = dict(entries(send, True)), dict(entries(receive, False))
    assert sent.keys() == received.keys()
    assert all(sent.values())  # no message is empty
    for side in (send, receive):
        for m in range(len(side.ptr) - 1):
            peers = side.peer[side.ptr[m] : side.ptr[m + 1]]
            assert (np.diff(peers) > 0).all()
    return {
        (*pair, i, j)
        for pair, rows in sent.items()
        for i, j in zip(rows, received[pair], strict=True)
    }


@st.composite
def exchanges(draw):
    num_parts = draw(st.integers(1, 5))
    pairs = [(m, n) for m in range(num_parts) for n in range(num_parts) if m != n]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    rows = st.sets(st.integers(0, ROWS - 1), min_size=1).map(sorted)
    return exchange_of({pair: draw(rows) for pair in chosen}, num_parts), num_parts


def agreed(draw, exchange):
    """A mask of both sides that keeps the same rows."""
    kept = {one: draw(st.booleans()) for one in sorted(ones(exchange))}
    send, receive = exchange.send, exchange.receive
    sent = [
        kept[m, n, r, r]
        for m, n, r in zip(send.part_of_row(), send.peer_of_row(), send.row, strict=True)
    ]
    received = [
        kept[n, m, r, r]
        for m, n, r in zip(receive.part_of_row(), receive.peer_of_row(), receive.row, strict=True)
    ]
    return np.array(sent, np.bool_), np.array(received, np.bool_), kept


@given(exchanges())
def test_reversed_is_the_transposed(case):
    exchange, _ = case
    assert ones(exchange.reversed()) == {(n, m, j, i) for m, n, i, j in ones(exchange)}
    assert ones(exchange.reversed().reversed()) == ones(exchange)


@given(exchanges(), st.data())
def test_keep_is_a_mask(case, data):
    exchange, _ = case
    sent, received, kept = agreed(data.draw, exchange)
    left = exchange.keep(sent, received)
    assert ones(left) == {one for one, stays in kept.items() if stays}
    assert left.send.volume == left.receive.volume == sent.sum()
    assert ones(exchange.keep(np.flatnonzero(sent), np.flatnonzero(received))) == ones(left)


@given(exchanges(), st.permutations(range(ROWS)), st.permutations(range(ROWS)))
def test_renumbered_permutes_rows_and_columns(case, sent, received):
    exchange, _ = case
    found = ones(exchange.renumbered(np.array(sent), np.array(received)))
    assert found == {(m, n, sent[i], received[j]) for m, n, i, j in ones(exchange)}
    only = ones(exchange.renumbered(received=np.array(received)))
    assert only == {(m, n, i, received[j]) for m, n, i, j in ones(exchange)}


@given(exchanges(), st.data())
def test_some_parts_have_their_messages(case, data):
    exchange, parts = case
    first, last = sorted(data.draw(st.tuples(st.integers(0, parts), st.integers(0, parts))))
    some = exchange.of_parts(first, last)
    whole = ones(exchange)
    sent = {
        (m + first, int(n), int(r))
        for m, n, r in zip(
            some.send.part_of_row(), some.send.peer_of_row(), some.send.row, strict=True
        )
    }
    assert sent == {(m, n, i) for m, n, i, _ in whole if first <= m < last}
    assert some.receive.volume == sum(first <= n < last for _, n, _, _ in whole)
    assert len(some.send.ptr) == len(some.receive.ptr) == last - first + 1


@given(exchanges(), st.data())
def test_merged_has_every_row_between_two_ranks_once(case, data):
    exchange, parts = case
    cuts = data.draw(st.sets(st.integers(1, parts - 1))) if parts > 1 else set()
    ranks = np.array([0, *sorted(cuts), parts])
    rank_of = np.repeat(np.arange(len(ranks) - 1), np.diff(ranks))
    part_ptr = np.arange(parts + 1) * ROWS
    expected = {
        (rank_of[m], rank_of[n], m * ROWS + i)
        for m, n, i, _ in ones(exchange)
        if rank_of[m] != rank_of[n]
    }
    found, arrived = set(), set()
    for rank, (first, last) in enumerate(pairwise(ranks)):
        some = exchange.of_parts(first, last)
        owner = first + some.send.part_of_row(), some.receive.peer_of_row()
        placed = Exchange(
            *(
                side.called(part_ptr[owners] + side.row)
                for side, owners in zip((some.send, some.receive), owner, strict=True)
            )
        )
        merged = placed.merged(rank, ranks)
        for n, rows in merged.send.split(merged.send.row):
            assert (np.diff(rows) > 0).all()
            found |= {(rank, n, row) for row in rows.tolist()}
        for m, rows in merged.receive.split(merged.receive.row):
            assert (np.diff(rows) > 0).all()
            arrived |= {(m, rank, row) for row in rows.tolist()}
    assert found == arrived == expected


def test_of_one_rank():
    peer, row_ptr = np.array([1, 4], np.int32), np.array([0, 2, 3])
    side = Side.of_rank(peer, row_ptr)
    assert side.row.tolist() == [0, 1, 2]
    assert side.message(1).tolist() == [0, 1]
    assert side.message(4).tolist() == [2]
    assert side.message(3).tolist() == []
    lists = side.split(np.arange(5) * 10, np.array([0, 2, 2, 5]))
    assert [(n, values.tolist()) for n, values in lists] == [(1, [0, 10]), (4, [20, 30, 40])]
    alone = Exchange.nothing()
    assert alone.send.num_messages == alone.receive.volume == 0


@pytest.mark.parametrize("kept", [[], [True], [False, True, True, False, True]])
def test_places_among_those_that_are_kept(kept):
    kept = np.array(kept, np.bool_)
    assert places(kept)[kept].tolist() == list(range(kept.sum()))
