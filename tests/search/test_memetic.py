"""Effort best: a population that stays diverse, and what it is given to combine."""

from dataclasses import replace

import numpy as np
import pytest
from cases import long
from search_helpers import best_of, check, graph_of, small_graph

from plancc.graph.owners import Owners
from plancc.options import SearchOptions
from plancc.search import memetic
from plancc.search.effort import search
from plancc.search.memetic import Choice, Members
from plancc.search.record import Member, Record


def member(volume, *spread, overload=0.0):
    owner = np.zeros(1, dtype=np.int32)
    return Member(overload, volume, volume, Owners(owner), np.array(spread, dtype=np.int32))


COST = np.array([1, 1, 10])
ALIKE = replace(memetic.EVOLUTION, alike=np.inf, growing_share=0.0)


def test_a_child_replaces_the_most_similar_of_those_that_are_worse():
    best, like, far = member(5, 1, 1, 1), member(9, 1, 2, 1), member(8, 5, 5, 1)
    population = Members(COST, size=3, members=[best, like, far])
    child = member(7, 1, 3, 1)
    assert population.add(child)
    assert population.members == [best, child, far]
    assert not population.add(member(10, 9, 9, 9))  # worse than all
    other = member(4, 4, 5, 1)
    assert population.add(other)  # better than all, most like `far`
    assert population.members == [best, child, other]
    over = member(1, 2, 2, 2, overload=0.1)
    assert not population.add(over)  # balance comes first


def test_a_population_is_alike_where_its_members_cost_the_same_nets():
    population = Members(np.ones(1000, dtype=np.int64))
    one = np.ones(1000, dtype=np.int32)
    two = one.copy()
    two[:10] = 2
    population.add(member(990, *one))
    population.add(member(1000, *two))
    assert population.alike()
    far = one.copy()
    far[:500] = 3
    population.add(member(2000, *far))
    assert not population.alike()


@pytest.mark.parametrize("name", ["grid", pytest.param("rmat", marks=long)])
@pytest.mark.usefixtures("one_round")
def test_same_seed_same_plan_without_a_budget(name):
    """By one thread and by two."""
    one, _ = best_of(name)
    two = search(small_graph(name), 8, SearchOptions(effort="best", threads=2, seed=3))
    assert one.owners.rows.tobytes() == two.owners.rows.tobytes()
    assert sorted(t.step for t in one.tried) == sorted(t.step for t in two.tried)


@pytest.mark.parametrize("name", ["grid", pytest.param("rmat", marks=long)])
def test_best_begins_with_the_steps_of_balanced(name):
    result, told = best_of(name)
    assert check(result, small_graph(name), 8) == 0
    assert told == result.tried
    balanced = search(small_graph(name), 8, SearchOptions(effort="balanced", seed=3))
    steps, more = (
        [(trial.step, trial.overload, trial.volume) for trial in each.tried]
        for each in (balanced, result)
    )
    assert more[: len(steps)] == steps
    assert len(more) > len(steps)
    reached, further = (min(each[1:] for each in tried) for tried in (steps, more))
    assert further <= reached


def test_ways_that_pay_are_taken_more_often():
    rng, choice = np.random.default_rng(1), Choice.of(3)
    taken = np.zeros(3)
    for _ in range(300):
        way = choice.draw(rng)
        taken[way] += 1
        choice.learn(way, rng.random() < (0.1, 0.7, 0.3)[way])
    assert taken[1] > 2 * max(taken[0], taken[2])
    for _ in range(100):
        choice.learn(1, False)  # what once paid is given up
    assert choice.draw(rng) != 1


def test_of_equally_good_owners_the_order_of_steps_does_not_matter():
    found = []
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        record = Record()
        for k in order:
            owners = Owners(np.array([k, 1, 1 - k], dtype=np.int32))
            record.add("step", 0.0, Member(0.0, 3 if k < 2 else 4, 3, owners))
        found.append(record.found().owners.rows.tolist())
        assert sum(trial.best for trial in record.trials) <= 2
    assert found == [[0, 1, 1]] * 3


def test_members_are_those_of_all_partitioners():
    pytest.importorskip("kaminpar")
    result, _ = best_of("grid")
    begun = {" ".join(trial.step.split()[:-2]) for trial in result.tried}
    assert {
        *("metis volume kway", "metis cut kway", "kaminpar cut strong", "mtkahypar quality"),
        *("mtkahypar default", "mtkahypar highest-quality"),
    } <= begun
    assert any(trial.step.startswith("combined") for trial in result.tried)


class Seen(Exception):
    pass


def test_a_population_that_is_alike_starts_again(monkeypatch):
    monkeypatch.setattr(memetic, "EVOLUTION", ALIKE)
    matrix = small_graph("grid")

    def report(trial):
        if "kway seed" in trial.step and (seed := int(trial.step.split()[-1])) > 100:
            assert seed <= 200  # these have children before others are looked for
            monkeypatch.setattr(memetic, "EVOLUTION", replace(ALIKE, alike=0.0))
        elif memetic.EVOLUTION is not ALIKE and trial.step.startswith(("combined ", "mutated ")):
            raise Seen

    with pytest.raises(Seen):
        search(matrix, 4, SearchOptions(effort="best", budget=60.0), report=report)
    monkeypatch.setattr(memetic, "EVOLUTION", ALIKE)
    result = search(matrix, 4, SearchOptions(effort="best"))  # ends instead
    check(result, matrix, 4)
    assert result.tried[-1].step == "polished"
    assert not any("combined " in trial.step for trial in result.tried)  # "combined 1"


def test_without_time_for_new_members_the_old_ones_have_children(monkeypatch):
    monkeypatch.setattr(memetic, "EVOLUTION", ALIKE)
    monkeypatch.setattr(memetic, "_again", lambda *_: [])
    steps = []

    def report(trial):
        steps.append(trial.step)
        later = steps[steps.index("polished") :] if "polished" in steps else []
        if sum("combined" in step or "mutated" in step for step in later) == 3:
            raise Seen

    options = SearchOptions(effort="best", budget=60.0)
    with pytest.raises(Seen):
        search(small_graph("grid"), 4, options, report=report)


def test_nothing_is_looked_for_where_no_row_moves():
    ring = np.roll(np.eye(25), 1, axis=0)
    matrix = graph_of(np.kron(np.eye(4), ring))
    result = search(matrix, 4, SearchOptions(effort="best", budget=30.0))
    check(result, matrix, 4)
    assert min(trial.volume for trial in result.tried if trial.overload == 0) == 0
    assert not any("combined" in each.step or "mutated" in each.step for each in result.tried)
