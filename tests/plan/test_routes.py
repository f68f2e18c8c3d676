"""Hops between nodes: tables, files, slices of ranks and damage, against plain sets and scipy."""

from dataclasses import replace
from functools import cache

import h5py
import numpy as np
import plan_helpers
import pytest
import scipy.sparse as sp
import sealing
from cases import long, turns
from hypothesis import given
from hypothesis import strategies as st

import plancc
from plancc.errors import InputError, PlanError
from plancc.graph.owners import Owners
from plancc.plan.lowering import lower
from plancc.plan.matrix import matrix_of
from plancc.plan.plan_invariants import plan_invariants
from plancc.plan.routed import Routed
from plancc.plan.routes import with_routes
from plancc.plan.slices import read_rank_slice
from plancc.plan.topology import HOPS, Topology
from plancc.plan.values import Exchanges
from plancc.plan.verify import verify

SHAPES = ("4x3", "3x4", "1x12", "12x1", "2x4+1x3+1x1", "1x1+1x11")
PARTS = 12


def shapes(*quick):
    """All shapes; those that are not named are `long`."""
    return [shape if shape in quick else pytest.param(shape, marks=long) for shape in SHAPES]


@cache
def plan_for(topology: str, *, edges: bool = False, seed: int = 0, n: int = 60):
    """A routed plan of random owners, and its matrix."""
    rng = np.random.default_rng(seed)
    array = plan_helpers.random_array(rng, n, 0.15)
    graph = plan_helpers.graph_of(array, dtype=np.float64)
    rows = rng.integers(0, PARTS, n).astype(np.int32)
    nonzeros = None
    if edges:
        row = np.repeat(np.arange(n), np.diff(graph.indptr))
        nonzeros = rng.integers(0, PARTS, graph.num_nonzeros).astype(np.int32)
        diagonal = row == graph.indices
        nonzeros[diagonal] = rows[row[diagonal]]
    plan = lower(graph, Owners(rows, nonzeros), PARTS, normalization="none", self_loops=False)
    if topology.startswith("relays "):
        *_, groups, most = topology.split()
        return with_routes(plan, Topology.parse(groups), int(most)), array
    return with_routes(plan, Topology.parse(topology)), array


@pytest.mark.parametrize("edges", [False, True], ids=["rows", "edges"])
@pytest.mark.parametrize("shape", shapes("3x4", "2x4+1x3+1x1", "1x12"))
def test_hops_bring_every_row_once_to_every_node(shape, edges):
    plan, _ = plan_for(shape, edges=edges)
    verify(plan)


@pytest.mark.parametrize("edges", [False, True], ids=["rows", "edges"])
@pytest.mark.parametrize("most", [2, 3])
def test_relays_bring_every_row_once_in_few_hops(most, edges):
    plan, _ = plan_for(f"relays 2x5+1x2 {most}", edges=edges)
    verify(plan)
    routed, _ = plan_for("3x4", edges=edges)
    assert with_routes(plan, Topology.parse("3x4")).content_sha256() == routed.content_sha256()
    for step in ("expand", "fold") if edges else ("expand",):
        after = {  # hops that a row took to each part
            (m, place): 0
            for m in range(PARTS)
            for place in range(plan.part_ptr[m], plan.part_ptr[m + 1])
        }
        for tables in plan.exchanges.hops(step):
            ends = zip(tables.send.part_of_row(), tables.send.peer_of_row(), strict=True)
            moved = [(int(q), int(m)) for q, m in ends], tables.send.row.tolist()
            came = {}
            for (q, m), place in zip(*moved, strict=True):
                came[m, place] = after[q, place] + 1
            after |= came
        assert max(after.values()) <= most


def test_relays_share_the_rows_of_a_hub():
    """Rows of part 0 go to all: straight it sends them 11 times, over relays as its peers do."""
    array = np.zeros((48, 48))
    array[:, :4] = 1.0
    graph = plan_helpers.graph_of(array, dtype=np.float64)
    owner = Owners(np.repeat(np.arange(12, dtype=np.int32), 4))
    flat = lower(graph, owner, PARTS, normalization="none", self_loops=False)
    assert flat.send.rows_per_part().max() == 44
    hops = with_routes(flat, Topology.parse("4x3"), 2).exchanges.hops("expand")
    assert sum(hop.send.rows_per_part() for hop in hops).max() == 20  # 3 relays, 2 of its group
    assert sum(hop.receive.rows_per_part() for hop in hops).max() == 4


def product_of_slices(parts, x):
    """A x by the hops of every rank's slice, in plain numpy."""
    own = [x[part.global_id] for part in parts]
    stage = []
    for part, rows in zip(parts, own, strict=True):
        stage.append(np.full(part.expand.route.stage_ptr()[-1], np.nan))
        stage[-1][: len(part.expand.route.own)] = rows[part.expand.route.own]
    for number in range(3):
        for part in parts:
            hop = part.expand.route.hops[number]
            for k, peer in enumerate(hop.send.peer.tolist()):
                rows = hop.send.row[hop.send.row_ptr[k] : hop.send.row_ptr[k + 1]]
                values = (own if number == 0 else stage)[part.index][rows]
                there = parts[peer].expand.route
                at = there.hops[number].receive.peer.tolist().index(part.index)
                first, last = there.hops[number].receive.row_ptr[at : at + 2]
                begin = there.stage_ptr()[number + 1]
                stage[peer][begin + first : begin + last] = values
    found = np.zeros(len(x))
    for part, rows, held in zip(parts, own, stage, strict=True):
        columns = np.concatenate([rows, held[part.expand.route.at]])
        shape = len(part.row_ptr) - 1, len(columns)
        local = sp.csr_array((part.value, part.column, part.row_ptr), shape) @ columns
        found[part.global_id] += local[: part.num_rows]
    return found


@pytest.mark.parametrize("shape", shapes("3x4"))
def test_slices_of_ranks_bring_the_rows_of_the_product(shape, tmp_path):
    plan, array = plan_for(shape, n=80)
    plan.save(tmp_path / "plan.h5")
    x = np.random.default_rng(1).standard_normal(80)
    first = np.concatenate([[0], np.cumsum(plan.header.topology.ranks())])
    for ranks in (12, 6, 4, 3):
        parts = [read_rank_slice(tmp_path / "plan.h5", k, ranks)[1] for k in range(ranks)]
        blocks = np.arange(ranks + 1) * PARTS // ranks
        if not np.isin(first, blocks).all():  # a rank has parts of several nodes
            assert all(not isinstance(part.expand, Routed) for part in parts)
            continue
        np.testing.assert_allclose(product_of_slices(parts, x), array @ x, atol=1e-12)


@given(plan_helpers.cases(), st.integers(0, 2**32 - 1))
def test_any_plan_and_topology(case, seed):
    graph, owner, num_parts = case
    rng = np.random.default_rng(seed)
    cuts = np.flatnonzero(np.append(rng.random(num_parts - 1) < 0.4, True)) + 1
    sizes = np.diff(np.concatenate([[0], cuts]))
    topology = Topology.parse("+".join(f"1x{size}" for size in sizes))
    flat = plan_helpers.lowered(graph, owner, num_parts)
    x, expected = rng.standard_normal(graph.num_vertices), matrix_of(flat)
    matrix = sp.csr_array((expected.data, expected.indices, expected.indptr), expected.shape)
    relays = [with_routes(flat, topology, most) for most in (2, 3)]
    for plan in (with_routes(flat, topology), *relays):
        assert [problem for _, problem in plan_invariants(plan) if problem] == []
        parts = [plan.part(m) for m in range(num_parts)]
        np.testing.assert_allclose(product_of_slices(parts, x), matrix @ x, atol=1e-4)


@pytest.mark.parametrize("edges", [True, pytest.param(False, marks=long)], ids=["edges", "rows"])
@pytest.mark.parametrize("shape", ["3x4", "relays 3x4 2"])
def test_a_file_has_the_same_hops(shape, edges, tmp_path):
    plan, _ = plan_for(shape, edges=edges)
    content = plan.save(tmp_path / "plan.h5")
    header = replace(plan.header, route=None)
    straight = {step: plan.exchanges[step] for step in header.steps()}
    assert content != replace(plan, header=header, exchanges=Exchanges(straight)).content_sha256()
    found = plancc.load(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5")
    assert found.header == plan.header
    for key, array in plan.arrays().items():
        np.testing.assert_array_equal(found.arrays()[key], array)
    hops = [name for name in plan.arrays() if name.startswith(("expand_", "fold_"))]
    assert len(hops) == 3 * 8 * (2 if edges else 1)


def test_the_carriers_of_a_node_differ():
    plan, _ = plan_for("3x4", n=400)
    for end in ("send", "receive"):
        table = getattr(plan.exchanges["expand_cross"], end)
        carried = table.messages_per_part().reshape(3, 4)
        assert carried.sum(axis=1).tolist() == [2, 2, 2]
        assert carried.max() == 1


@pytest.mark.parametrize(
    ("text", "groups", "shown"),
    [
        ("4x8", ((4, 8),), "4x8"),
        ("1x2+1x2+3x1", ((2, 2), (3, 1)), "2x2+3x1"),
        ("1x3", ((1, 3),), "1x3"),
    ],
)
def test_topologies(text, groups, shown):
    topology = Topology.parse(text)
    assert (topology.groups, str(topology)) == (groups, shown)
    assert topology.num_ranks == len(topology.node_of_rank()) == topology.ranks().sum()
    assert topology.nodes == len(topology.ranks())


@pytest.mark.parametrize(
    "text",
    [
        *("", "4", "4x", "x4", "0x4", "4x0", "4x8+", "-1x4", "4x8x2", "4*8", "4 x 8", "4X8"),
        *("4x8\n", "\N{ARABIC-INDIC DIGIT FOUR}x8", "9" * 5000 + "x1"),
    ],
)
def test_what_is_no_topology(text):
    with pytest.raises(InputError, match="give nodes x ranks per node"):
        Topology.parse(text)


def test_a_topology_of_other_ranks_is_refused():
    plan, _ = plan_for("3x4")
    with pytest.raises(InputError, match="topology 3x5 has 15 ranks"):
        with_routes(plan, Topology.parse("3x5"))


def changed(plan, hop, **fields):
    """The plan with other arrays in both tables of a hop."""
    step = plan.exchanges[f"expand_{hop}"]
    step = replace(step, **{end: replace(getattr(step, end), **f) for end, f in fields.items()})
    return plan_helpers.with_steps(plan, **{f"expand_{hop}": step})


def without_row(plan, hop):
    """The plan whose first long message of a hop lacks its last row, at both ends."""
    step = plan.exchanges[f"expand_{hop}"]
    sizes = np.diff(step.send.row_ptr)
    k = int(np.flatnonzero(sizes > 1)[0])
    sender = int(np.searchsorted(step.send.ptr, k, side="right")) - 1
    receiver = int(step.send.peer[k])
    of = slice(step.receive.ptr[receiver], step.receive.ptr[receiver + 1])
    back = int(step.receive.ptr[receiver] + np.flatnonzero(step.receive.peer[of] == sender)[0])
    fields = {}
    for end, message in (("send", k), ("receive", back)):
        table = getattr(step, end)
        row_ptr = table.row_ptr.copy()
        row = np.delete(table.row, row_ptr[message + 1] - 1)
        row_ptr[message + 1 :] -= 1
        fields[end] = {"row_ptr": row_ptr, "row": row}
    return changed(plan, hop, **fields)


def slice_error(path, rank):
    """What is wrong with a rank's slice; "" if nothing is."""
    try:
        read_rank_slice(path, rank, PARTS)
    except PlanError as error:
        return str(error)
    return ""


@turns(hop=HOPS, shape=["3x4", "relays 3x4 3"])
def test_a_row_that_is_missing_is_found(shape, hop, tmp_path):
    plan, _ = plan_for(shape, n=200)
    broken = without_row(plan, hop)
    with pytest.raises(PlanError, match="row"):
        verify(broken)
    path = tmp_path / "plan.h5"
    broken.save(path)
    with pytest.raises(PlanError, match="row"):
        plancc.load(path)
    assert any("row" in slice_error(path, rank) for rank in range(PARTS))


@pytest.mark.parametrize("hop", HOPS)
def test_a_row_that_one_end_has_otherwise_is_found(hop):
    plan, _ = plan_for("3x4", n=200)
    table = plan.exchanges[f"expand_{hop}"].send
    row, last = table.row.copy(), table.row_ptr[1:] - 1
    row[last[np.flatnonzero(row[last] < plan.num_vertices - 1)[0]]] = plan.num_vertices - 1
    broken = changed(plan, hop, send={"row": row})
    with pytest.raises(PlanError, match=r"hops of the expand: .* does not have|_spread tables"):
        verify(broken)
    assert any(problem for _, problem in plan_invariants(broken))


def test_two_messages_between_nodes_are_found():
    one, _ = plan_for("3x4", n=200)
    two, _ = plan_for("6x2", n=200)  # the same owners: its messages cross from node to node too
    hops = {f"expand_{hop}": two.exchanges[f"expand_{hop}"] for hop in HOPS}
    broken = plan_helpers.with_steps(one, **hops)
    with pytest.raises(PlanError, match="hops of the expand stay inside nodes or cross them"):
        verify(broken)
    assert any(problem for _, problem in plan_invariants(broken))


@pytest.fixture(scope="module")
def routed(tmp_path_factory):
    path = tmp_path_factory.mktemp("routed") / "plan.h5"
    plan_for("3x4")[0].save(path)
    return path.read_bytes()


def sealed(path, edit):
    """The file after `edit`, with digests that say nothing of it."""
    with h5py.File(path, "r+") as file:
        edit(file)
    sealing.seal(path)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda f: f.attrs.__delitem__("topology"), "without the attribute 'topology'"),
        (lambda f: f.attrs.__setitem__("topology", np.bytes_("3x5")), "has 15 ranks"),
        (lambda f: f.attrs.__setitem__("topology", np.bytes_("many")), "give nodes x ranks"),
        (lambda f: f.attrs.__setitem__("topology", np.bytes_("1x4+2x4")), "write '3x4'"),
        (lambda f: f.attrs.__setitem__("topology", np.bytes_("4x3")), "node|nodes"),
        (lambda f: f.__delitem__("expand_cross"), "expand_cross"),
        (lambda f: f.attrs.__setitem__("relays", 2), "attribute 'relays' is not 1"),
        (lambda f: f.attrs.__setitem__("relays", 1), "both relays and topology '3x4'"),
    ],
)
def test_headers_that_lie(edit, words, routed, tmp_path):
    (tmp_path / "plan.h5").write_bytes(routed)
    sealed(tmp_path / "plan.h5", edit)
    with pytest.raises(PlanError, match=words):
        plancc.load(tmp_path / "plan.h5")


@pytest.mark.parametrize("how", [{"topology": "2x2", "exchange": "nodes"}, {"exchange": "relays"}])
def test_refine_keeps_hops(how):
    graph = plan_helpers.graph_of(np.ones((40, 40)), dtype=np.float64)
    plan = plancc.compile(graph, "rp", 4, normalize="none", **how)
    better = plancc.refine(plan, objective="volume")
    assert better.header == plan.header
    assert better.header.route
    verify(better)
