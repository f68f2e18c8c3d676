"""What relations and types of a plan move, beside sets of vertices."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
import sealing

import plancc
from plancc.graph.convert import as_graph
from plancc.graph.types import Types
from plancc.graph.vertexdata import DataByType
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.relations import relation_traffic, type_traffic
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify
from plancc.report.plans import report

PARTS = 3


@pytest.fixture(scope="module", params=["hp", "fine-grain"])
def plan(request) -> plancc.Plan:
    given = {
        ("user", "buys", "item"): sp.random(20, 30, 0.1, "csr", rng=1),
        ("item", "like", "item"): sp.random(20, 20, 0.1, "csr", rng=2),
    }
    return plancc.compile(given, request.param, PARTS, normalize="none")


def moved_of(plan: plancc.Plan, relation) -> set[tuple[str, int, int]]:
    """(step, vertex, part) of every row that the nonzeros of a relation need moved."""
    graph, owners, types = graph_of(plan), owners_of(plan), plan.header.types
    source, _, destination = relation
    columns, of_rows = types.vertices(source), types.vertices(destination)
    rows = np.repeat(np.arange(graph.num_vertices), graph.row_nonzeros())
    held = owners.rows[rows] if owners.nonzeros is None else owners.nonzeros
    found = set()
    for i, j, m in zip(rows.tolist(), graph.indices.tolist(), held.tolist(), strict=True):
        if of_rows.start <= i < of_rows.stop and columns.start <= j < columns.stop:
            found |= {("expand", j, m)} if owners.rows[j] != m else set()
            found |= {("fold", i, m)} if owners.rows[i] != m else set()
    return found


def test_a_relation_moves_the_rows_that_its_nonzeros_need(plan):
    types = plan.header.types
    assert types.names == ("user", "item")
    assert tuple(each.relation for each in relation_traffic(plan)) == types.relations
    for each in relation_traffic(plan):
        expected = moved_of(plan, each.relation)
        assert each.volume == len(expected)
        owner = plan.owner()
        talk = {(step, owner[v], m) for step, v, m in expected}
        assert each.messages == len(talk)
        for step, rows in each.steps.items():
            received = [m if step == "expand" else owner[v] for s, v, m in expected if s == step]
            assert rows.received.tolist() == np.bincount(received, minlength=PARTS).tolist()


def test_a_row_of_a_type_travels_once_for_all_relations(plan):
    every = set().union(*(moved_of(plan, each) for each in plan.header.types.relations))
    for each in type_traffic(plan):
        at = plan.header.types.vertices(each.name)
        assert each.volume == sum(at.start <= v < at.stop for _, v, _ in every)
        rows = np.bincount(plan.owner()[at], minlength=PARTS)
        assert each.row_imbalance == pytest.approx(rows.max() / rows.mean() - 1)
    assert sum(each.volume for each in type_traffic(plan)) == plan.metrics().volume


@pytest.fixture
def with_data(plan) -> plancc.Plan:
    """Features of users, 30 x 2, and labels of items."""
    users = plancc.VertexData(features=np.arange(60, dtype=np.float32).reshape(30, 2))
    data = {"user": users, "item": plancc.VertexData(labels=np.arange(20, dtype=np.int32))}
    by_type = DataByType.of(data, plan.header.types, np.arange(50))
    return replace(plan, vertex_data=plancc.VertexData(by_type=by_type).take(plan.global_id))


def test_every_rank_reads_the_data_of_its_rows(with_data, tmp_path):
    path = tmp_path / "plan.h5"
    content = with_data.save(path)
    assert plancc.load(path).content_sha256() == content
    plancc.verify_file(path)
    for ranks in range(1, PARTS + 1):
        for rank in range(ranks):
            _, part = read_rank_slice(path, rank, ranks)
            of_type, ids = part.vertex_data.of_type, part.global_id
            users, items = ids[ids < 30], ids[ids >= 30] - 30
            assert of_type["user"].features.tolist() == [[2 * v, 2 * v + 1] for v in users]
            assert of_type["item"].labels.tolist() == items.tolist()
    assert report(path).vertex_data == ["features of user", "labels of item"]


@pytest.mark.parametrize("plan", ["hp"], indirect=True)
@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("rows/type_ptr", lambda a: a - np.eye(2, 4, 1, int), "out of range"),
        ("rows/type_ptr", lambda a: a * [[1], [2]], "out of range"),
        ("rows/type_ptr", lambda a: a[:1], "is of size 1 x 4; the header asks for 2 x 4"),
        ("rows/type_ptr", None, "rows/type_ptr is missing"),
        ("vertex_data/labels_of_1", lambda a: a[1:], "is of size 19; the header asks for 20"),
        ("vertex_data/labels_of_1", lambda a: 0 * a - 9, "labels are classes or -1: there is -9"),
    ],
)
def test_wrong_data_of_types_are_refused(with_data, tmp_path, name, change, words):
    path = tmp_path / "plan.h5"
    with_data.save(path)
    with h5py.File(path, "r+") as file:
        array = file[name][()]
        del file[name]
        if change is not None:
            file[name] = change(array)
    sealing.seal(path)
    for read in (plancc.load, lambda at: read_rank_slice(at, 0, PARTS)):
        with pytest.raises(plancc.PlanError, match=words):
            read(path)


@pytest.fixture(scope="module", params=["hp", "fine-grain"])
def parallel(request) -> tuple[plancc.Plan, dict]:
    """Items like and dislike items; `cites` has users in place of the sources."""
    given = {
        ("item", name, "item"): sp.random(20, 20, 0.3, "csr", rng=seed)
        for seed, name in enumerate(("like", "dislike"))
    }
    given["user", "buys", "item"] = sp.random(20, 30, 0.1, "csr", rng=5)
    return plancc.compile(given, request.param, PARTS), given


def test_a_plan_says_the_relation_of_every_nonzero(parallel, tmp_path):
    plan, given = parallel
    path = tmp_path / "plan.h5"
    content = plan.save(path)
    assert plancc.load(path).content_sha256() == content
    plancc.verify_file(path)
    assert verify(plancc.load(path), as_graph(given))
    other = given | {("item", "like", "item"): given["item", "dislike", "item"]}
    with pytest.raises(plancc.PlanError, match=r"vertex|nonzero"):
        verify(plancc.load(path), as_graph(other))
    assert [each.nonzeros for each in relation_traffic(plan)] == [m.nnz for m in given.values()]
    if plan.fold is None:
        refined = plancc.refine(path, "volume", budget=1)
        assert verify(refined, as_graph(given))
    swapped = plan.with_columns(relation=np.where(plan.relation < 2, 1 - plan.relation % 2, 2))
    for wrong, words in (
        (swapped.relation, "relations of one row and column ascend"),
        (plan.relation + 1, "every nonzero has a relation"),
    ):
        plan.with_columns(relation=wrong.astype(np.uint16)).save(path)
        with pytest.raises(plancc.PlanError, match=words):
            plancc.verify_file(path)


def test_nonzeros_of_no_relation_are_found(plan, tmp_path):
    types = plan.header.types
    short = Types(types.counts, types.relations[:1])
    header = replace(plan.header, types=short)
    path = tmp_path / "plan.h5"
    replace(plan, header=header).save(path)
    with pytest.raises(plancc.PlanError, match="every nonzero has a relation: nonzero"):
        plancc.verify_file(path)


@pytest.mark.parametrize("plan", ["hp"], indirect=True)
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("types", '[["user",30],["item",21]]', "types have 51 vertices, but the plan has 50"),
        ("types", '[["user", 30],["item",20]]', "are not types and relations"),
        ("relations", '[["user","buys","thing"]]', "type 'thing' is unknown"),
        ("relations", None, "are not types and relations"),
    ],
)
def test_a_header_whose_types_do_not_fit_is_refused(plan, tmp_path, name, text, words):
    path = tmp_path / "plan.h5"
    plan.save(path)
    with h5py.File(path, "r+") as file:
        del file.attrs[name]
        if text is not None:
            file.attrs.create(name, np.bytes_(text.encode()))
    with pytest.raises(plancc.PlanError, match=words):
        plancc.load(path)
