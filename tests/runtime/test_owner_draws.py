"""Batches that owners draw, against the same batches drawn as a whole and masked to the slice."""

import json
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
import reference
import worlds
from cases import seeds, turns

import plancc.plan.population
import plancc_runtime
from plancc.clock import Clock
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.lowering import lower
from plancc.plan.population import population_of
from plancc.plan.reader import load
from plancc.sampling import SHOWN, make_sampler
from plancc.sampling.counter import below, bits, key_of
from plancc_runtime.execution import mini_batches
from plancc_runtime.layouts.batch_mask import BatchMask
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.draws import BY_OWNERS, NeighbourDraws, WalkDraws
from plancc_runtime.learner import Learner
from plancc_runtime.options import DRAWS, PASSES, TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.row_numbers import finished


def random_plan(random, n, parts):
    """Rows of any length; owners at random, so that rows do not ascend by vertex."""
    a = random.random((n, n)) < random.choice([0.02, 0.1, 0.6], (n, 1))
    if random.random() < 0.7:
        a = reference.normalised(a)
    owner = random.integers(0, parts, n).astype(np.int32)
    plan = lower(
        worlds.graph_of(a.astype(float)),
        Owners(owner),
        parts,
        normalization="none",
        self_loops=False,
    )
    if random.random() < 0.5:
        return plan
    mask = random.random(n) < 0.4
    mask[random.integers(n)] = True
    return replace(plan, vertex_data=VertexData(train_mask=mask).take(plan.global_id))


def arrays_of(value):
    """All arrays of a share, in order; None where there is none."""
    if isinstance(value, np.ndarray) or value is None or isinstance(value, int):
        return [value]
    if isinstance(value, list | dict):
        each_of = value.values() if isinstance(value, dict) else value
        return [array for each in each_of for array in arrays_of(each)]
    if hasattr(value, "__dataclass_fields__"):
        return [a for f in fields(value) for a in arrays_of(getattr(value, f.name))]
    return [value]


@pytest.mark.parametrize("name", ["neighbour", "walk"])
@pytest.mark.parametrize("seed", seeds(12, 3))
def test_shares_are_those_of_the_whole_batch_byte_for_byte(seed, name):
    random = np.random.default_rng(seed)
    n, parts = int(random.integers(20, 120)), int(random.integers(1, 6))
    plan = random_plan(random, n, parts)
    population = population_of(plan)
    fanouts = tuple(int(f) for f in random.choice([1, 2, 3, 70, 10**6], random.integers(1, 4)))
    way = {"fanouts": fanouts} if name == "neighbour" else {"walk_length": len(fanouts)}
    wanted = make_sampler(name, n, batch_size=int(random.integers(1, n)), **way)
    sampler, _ = wanted.fitted(population)

    def shares(transport):
        part = Block.of_part(plan.part(transport.rank), True)
        mask = BatchMask(part, transport)
        bare = replace(population, indptr=None, indices=None)
        draws = BY_OWNERS[type(sampler)](part, sampler, bare, seed, transport, Clock())
        np.testing.assert_array_equal(draws.halo, mask.halo)
        for number in range(3):
            whole = mask.local(sampler.batch(population, seed, number))
            yield whole, finished(draws.share(number))

    rows = 0
    for batches in run_ranks(parts, lambda transport: list(shares(transport))):
        for whole, own in batches:
            for a, b in zip(arrays_of(whole), arrays_of(own), strict=True):
                assert type(a) is type(b)
                np.testing.assert_array_equal(a, b)
                assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
            rows += len(own.rows)
    assert rows


NEIGHBOURS = {"sampler": "neighbour", "batch_size": 40, "fanouts": (3, 2)}
WALKS = {"sampler": "walk", "batch_size": 60, "sampler_options": {"walk_length": 3}}
OPTIONS = {
    **{"hidden": 8, "dtype": "float64"},
    **{"epochs": 2, "seed": 3, "threads": 1, "eval_every": 0, "model": "sage"},
}


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory):
    """A plan of 8 parts with features, labels and a training mask."""
    random = np.random.default_rng(4)
    n, parts = 150, 8
    a = reference.normalised(random.random((n, n)) < 0.05)
    plan = lower(
        worlds.graph_of(a),
        Owners(random.integers(0, parts, n).astype(np.int32)),
        parts,
        normalization="none",
        self_loops=False,
    )
    data = VertexData(
        features=random.standard_normal((n, 128)).astype(np.float32),
        labels=random.integers(0, 5, n).astype(np.int32),
        train_mask=random.random(n) < 0.6,
    )
    path = tmp_path_factory.mktemp("owners") / "plan.h5"
    replace(plan, vertex_data=data.take(plan.global_id)).save(path)
    return path


def trained(path, p, drawn=NEIGHBOURS, **options):
    options = TrainOptions(**OPTIONS | drawn | options)
    return run_ranks(p, lambda transport: train(path, options, transport), 180)


@turns(drawn=[WALKS, NEIGHBOURS], passes=[(), PASSES], p=[4])
def test_training_is_the_same_whoever_draws(plan_file, p, passes, drawn):
    """Losses and words of rows to the bit on the same ranks, losses to rounding on any number."""
    [one] = trained(plan_file, 1, drawn, draw="everywhere", passes=passes)
    whole = trained(plan_file, p, drawn, draw="everywhere", passes=passes)[0]
    own = trained(plan_file, p, drawn, draw="owners", passes=passes)[0]
    bits = [step.words_drawn for step in own.steps]
    assert (min(bits) > 0) == (p > 1)
    assert [replace(step, words_drawn=0) for step in own.steps] == whole.steps
    drawn = np.sum(np.split(np.array(bits), len(own.epochs)), axis=1)
    for words, ours, theirs in zip(drawn, own.epochs, whole.epochs, strict=True):
        assert ours.words_sent - theirs.words_sent == words
    losses = [[step.loss for step in result.steps] for result in (own, one)]
    np.testing.assert_allclose(*losses, rtol=1e-10)


def test_few_features_are_kept_as_if_every_rank_drew(plan_file):
    """Which halo rows are used most is counted by all ranks, also if one alone lacks room."""
    room = 128 * 8 * 30
    whole, own = (trained(plan_file, 3, draw=d, feature_cache=room) for d in DRAWS[:0:-1])
    assert [replace(step, words_drawn=0) for step in own[0].steps] == whole[0].steps


def test_auto_is_owners_where_patterns_of_all_ranks_are_too_large(plan_file, monkeypatch):
    def drawn_by(left):
        monkeypatch.setattr("plancc_runtime.layouts.draws.available_memory", lambda: left)
        found = trained(plan_file, 3, batch_size=1, fanouts=(1, 1), steps=1)
        return found[0].drawn_by

    header = load(plan_file).header
    patterns = 3 * (8 * (header.num_vertices + 1) + 4 * header.num_nonzeros)
    assert drawn_by(patterns).startswith("everywhere: predicted ")
    assert drawn_by(patterns - 1).startswith("owners: the graph's pattern takes 0 MiB on every")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 1, "fanouts": (1, 1)}, "everywhere: predicted "),
        ({"batch_size": 90, "fanouts": (40, 40), "draw": "everywhere"}, "everywhere: as `draw` "),
        ({"draw": "owners"}, "owners: as `draw` says"),
        ({"sampler": "uniform", "fanouts": None}, "everywhere"),
    ],
)
def test_who_draws_is_said(plan_file, tmp_path, options, said):
    log = tmp_path / "run.jsonl"
    result = trained(plan_file, 3, log=log, steps=1, **options)[0]
    assert result.drawn_by.startswith(said)
    assert [json.loads(line)["drawn_by"] for line in log.open()] == 2 * [result.drawn_by]


def test_an_eighth_of_own_features_is_kept_by_default(plan_file, monkeypatch):
    def words(**options):
        result = trained(plan_file, 3, hidden=200, **options)[0]
        return sum(step.words_sent for step in result.steps)

    largest = words(feature_cache=2**24)
    assert words() == largest
    monkeypatch.setattr(mini_batches, "LEAST_CACHE", 0)
    assert words(feature_cache=0) > words() > largest


@pytest.mark.parametrize("passes", [(), ("overlap",), ("overlap", "constant")])
def test_two_batches_are_under_way_within_an_epoch(plan_file, monkeypatch, passes):
    """When batches are begun, and where their rounds go on: between the layers of the steps."""
    events = {0: [], 1: []}
    share, gradients = NeighbourDraws.share, Learner.gradients

    def seen(self, number, *which):
        rank = self._used._transport.rank
        events[rank].append(("draw", number))
        rounds = share(self, number, *which)
        while True:
            try:
                next(rounds)
            except StopIteration as end:
                return end.value
            yield
            events[rank].append("round")

    def step(self, view, data, number, where):
        events[self.transport.rank].append(("step", number))
        return gradients(self, view, data, number, where)

    monkeypatch.setattr(NeighbourDraws, "share", seen)
    monkeypatch.setattr(Learner, "gradients", step)
    trained(plan_file, 2, draw="owners", steps=4, passes=passes)
    assert events[0] == events[1]
    within = [event for event in events[0] if event != "round"]
    if "overlap" not in passes:
        assert within == [(what, k) for k in range(8) for what in ("draw", "step")]
        return
    order = "d0 d1 d2 s0 d3 s1 s2 s3 d4 d5 d6 s4 d7 s5 s6 s7"
    assert [what[0] + str(k) for what, k in within] == order.split()
    at = events[0].index(("step", 0))
    assert events[0][at : at + 5] == [("step", 0), *["round"] * 4]


def test_ranks_that_draw_otherwise_are_refused(plan_file):
    def work(transport):
        graph = plancc_runtime.open(plan_file, transport, threads=1)
        draw = ("owners", "everywhere", "everywhere")[transport.rank]
        options = {"batch_size": 40, "fanouts": (3, 2), "draw": draw}
        with pytest.raises(
            InputError, match="`draw` is everywhere on ranks 1, 2, owners on rank 0"
        ):
            next(graph.batches("neighbour", **options))

    run_ranks(3, work)


@pytest.mark.parametrize("drawn", [NEIGHBOURS, WALKS], ids=["neighbour", "walk"])
def test_a_rank_reads_no_pattern_of_others(plan_file, monkeypatch, drawn):
    """Where owners draw; the other way reads it."""
    monkeypatch.setattr(plancc.plan.population, "_read_pattern", None)
    trained(plan_file, 3, drawn, draw="owners")
    with pytest.raises(TypeError):
        trained(plan_file, 3, drawn, draw="everywhere")


def words_of_bits(side, told):
    """A word for 1,024 rows of a message, and one for 32 rows if one of them is told."""
    words = 0
    for first, end in pairwise(side.row_ptr):
        words += -(-(end - first) // 1024) + len(
            {(k - first) // 32 for k in told if first <= k < end}
        )
    return words


def test_words_of_walks(plan_file):
    """Two for a walk that crosses, one a message in every step, and two rounds of bits."""
    plan = load(plan_file)
    population, parts = population_of(plan), range(plan.num_parts)
    part_of = np.empty(plan.num_vertices, int)
    part_of[plan.global_id] = np.repeat(parts, np.diff(plan.part_ptr))
    sampler = make_sampler("walk", plan.num_vertices, batch_size=60, walk_length=3)
    key, crossed, visited = key_of(5, SHOWN, 0), 0, set()
    for root in sampler.roots(plan.num_vertices, key):
        i = root
        visited.add(i)
        for step in range(3):
            columns = population.indices[population.indptr[i] : population.indptr[i + 1]]
            others = columns[columns != i]
            if len(others):
                j = others[below(np.uint64(bits(np.uint64(bits(key, root)), step)), len(others))]
                crossed += part_of[i] != part_of[j]
                i = j
            visited.add(i)
    expected = 2 * crossed + 3 * sum(plan.part(m).expand.receive.num_messages for m in parts)

    def work(transport):
        part = plan.part(transport.rank)
        draws = WalkDraws(Block.of_part(part, False), sampler, population, 5, transport, Clock())
        before = transport.traffic.words_sent
        batch, send = finished(draws.share(0)), part.expand.send
        assert set(part.global_id[batch.rows]) <= visited
        told = [k for k, row in enumerate(send.row) if part.global_id[row] in visited]
        bits = words_of_bits(send, told) + words_of_bits(part.expand.receive, batch.halos[0])
        return transport.traffic.words_sent - before - bits, len(batch.rows)

    words, rows = np.array(run_ranks(plan.num_parts, work)).T
    assert words.sum() == expected > 0
    assert rows.sum() == len(visited)
