"""Links of plans: with the owners of their sources, behind an exchange of their own."""

from dataclasses import replace

import numpy as np
import pytest
import worlds

import plancc
from plancc.errors import PlanError
from plancc.graph.links import random_links, withheld, without
from plancc.plan.links import places_of
from plancc.plan.slices import read_rank_slice
from plancc.refinement import with_part
from plancc_runtime.layouts.order import reordered

LINKS = {
    "train": [[0, 1, 1, 40], [2, 3, 1, 0]],
    "val": [[4, 9], [5, 5]],
    "val_target_negative": [[7, 8], [1, 1]],
    "test": [[6], [7]],
    "test_target_negative": [[0, 39]],
}
EXPECTED = {
    0: [(0, 2), (1, 3), (1, 1), (40, 0)],
    1: [(4, 5), (9, 5)],
    2: [(6, 7)],
    3: [(4, 7), (4, 8), (9, 1), (9, 1)],
    4: [(6, 0), (6, 39)],
}


def linked(layout, parts=4):
    """A plan of the layout with `LINKS`."""
    from plancc.graph.links import read_links
    from plancc.plan.lowering import with_links

    links = read_links(LINKS, worlds.graph("directed"))
    return with_links(worlds.plan("directed", layout, parts), *links.columns(), links.per_link)


def pairs_of(vertices, links):
    found = {kind: {} for kind in EXPECTED}
    for pair, kind, number in zip(vertices.T.tolist(), links.kind, links.number, strict=True):
        found[kind][int(number)] = tuple(pair)
    return {kind: [each[k] for k in sorted(each)] for kind, each in found.items()}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    found = {layout: tmp_path_factory.mktemp("plans") / layout for layout in ("row", "edge")}
    for layout, path in found.items():
        linked(layout).save(path)
    return found


@pytest.mark.parametrize("layout", ["row", "edge"])
def test_links_are_with_the_owners_of_their_sources(layout, files):
    plan = plancc.load(files[layout])
    plancc.verify(plan)
    received = plan.exchanges["links"].receive
    ends = np.stack(places_of(plan.links, plan.part_ptr, 0, received))
    assert pairs_of(plan.global_id[ends], plan.links) == EXPECTED
    owner = plan.owner()
    assert (owner[plan.global_id[ends[0]]] == plan.links.part()).all()
    needed = {(owner[u], v) for each in EXPECTED.values() for u, v in each if owner[u] != owner[v]}
    assert received.volume == len(needed)
    assert plan.metrics() == worlds.plan("directed", layout).metrics()


@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("layout", ["row", "edge"])
def test_slices_have_the_links_of_their_rows(layout, ranks, files):
    """Also of several parts on a rank, and with their rows in another order."""
    parts = [read_rank_slice(files[layout], rank, ranks)[1] for rank in range(ranks)]
    for turned in (False, True):
        if turned:
            interior = [np.arange(part.num_interior)[::-1] for part in parts]
            rest = [np.arange(part.num_interior, part.num_rows) for part in parts]
            orders = map(np.concatenate, zip(interior, rest, strict=True))
            parts = [reordered(*each) for each in zip(parts, orders, strict=True)]
        ends = []
        for rank, part in enumerate(parts):
            arrives = part.link_exchange.receive
            halo = [  # what the peers send to this rank, as they number it
                parts[peer].global_id[parts[peer].link_exchange.send.message(rank)]
                for peer in arrives.peer
            ]
            vertex = np.concatenate([part.global_id, *halo])
            ends.append(vertex[np.stack([part.links.source, part.links.target])])
        columns = [np.concatenate([getattr(p.links, n) for p in parts]) for n in ("kind", "number")]
        every = replace(parts[0].links, kind=columns[0], number=columns[1])
        assert pairs_of(np.concatenate(ends, axis=1), every) == EXPECTED


def test_refining_keeps_the_links():
    plan = linked("row")
    part = worlds.owners(worlds.N, plan.num_parts, seed=8)
    moved = with_part(plan, part)
    plancc.verify(moved)
    ends = places_of(moved.links, moved.part_ptr, 0, moved.exchanges["links"].receive)
    assert pairs_of(moved.global_id[np.stack(ends)], moved.links) == EXPECTED
    assert (moved.owner() == part).all()


@pytest.mark.parametrize("disjoint", [0.0, 0.5])
def test_a_plan_with_links_is_that_of_its_graph(disjoint):
    graph = worlds.graph("undirected")
    plan = plancc.compile(
        graph, num_parts=2, model="rp", link_split=(0.2, 0.1), disjoint_train_ratio=disjoint
    )
    plancc.verify(plan, graph)
    other = random_links(graph, (0.2, 0.1), 99)
    with pytest.raises(PlanError, match="nonzeros"):
        plancc.verify(plan, without(graph, withheld(other, 0, 0)[1]))


@pytest.mark.parametrize(
    ("name", "place", "value", "words"),
    [
        ("source", 0, 99, "owners of sources have the links: link 0 has 99"),
        ("target", 1, -1, "parts have the targets of their links: link 1 has -1"),
        ("target", slice(None), 0, "rows received for links are used: row 0 is unused"),
        ("kind", 2, 5, "links have a known kind: link 2 has 5"),
        ("number", 0, -1, "links have numbers: link 0 has -1"),
        ("source", 9, 4, "negatives of a link have its source: link 9 has 4"),
        ("number", 0, 7, "every link has its number: number . of kind . does not occur once"),
    ],
)
def test_damaged_links_are_found(name, place, value, words, tmp_path):
    plan = linked("row")
    array = getattr(plan.links, name).copy()
    array[place] = value
    damaged = replace(plan, links=replace(plan.links, **{name: array}))
    damaged.save(tmp_path / "plan.h5")
    with pytest.raises(PlanError, match=words):
        plancc.load(tmp_path / "plan.h5")
    if value != 7:  # all ranks together see that
        with pytest.raises(PlanError, match=words.partition(":")[0]):
            [read_rank_slice(tmp_path / "plan.h5", rank, 4) for rank in range(4)]


def test_negatives_are_as_many_as_the_header_says():
    plan = linked("row")
    with pytest.raises(PlanError, match="2 links have 4 negatives, not 3 each"):
        plancc.verify(replace(plan, header=replace(plan.header, links=3)))
    with pytest.raises(PlanError, match="a link has -1 negatives"):
        plancc.verify(replace(plan, header=replace(plan.header, links=-1)))
