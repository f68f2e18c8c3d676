"""`plancc.patch`: the plan of a changed graph; the matrix from sets of edges, moves from owners."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import seeds

import plancc
from plancc.errors import InputError
from plancc.graph.union import block_of
from plancc.patching import moves_of
from plancc.plan.matrix import ends_of, ends_of_links, matrix_of, source_graph_of, typed_graph_of

N, P = 120, 4


def edges_of(seed: int, directed: bool) -> set[tuple[int, int]]:
    """Edges between vertices of near numbers, and a few others, without loops."""
    rng = np.random.default_rng(seed)
    pairs = {(int(u), int(min(N - 1, u + d))) for u, d in rng.integers(0, (N, 6), (4 * N, 2))}
    pairs |= {(int(u), int(v)) for u, v in rng.integers(0, N, (30, 2))}
    pairs = {(u, v) for u, v in pairs if u != v}
    return pairs if directed else pairs | {(v, u) for u, v in pairs}


def graph_of_edges(edges: set[tuple[int, int]], ids: np.ndarray) -> plancc.Graph:
    """A graph whose vertex k has id ``ids[k]``, built without plancc's readers."""
    row, column = (np.searchsorted(ids, end) for end in np.array(sorted(edges)).T)
    matrix = sp.csr_array((np.ones(len(row), np.int8), (row, column)), shape=(len(ids),) * 2)
    directed = (matrix != matrix.T).nnz > 0
    own = None if (ids == np.arange(len(ids))).all() else ids
    return plancc.Graph(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        directed=directed,
        original_ids=own,
    )


def quiet_compile(graph: plancc.Graph, model: str = "hp", **options: object) -> plancc.Plan:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plancc.compile(graph, model, P, effort="fast", **options)


def write(path, edges) -> str:
    path.write_text("# changes\n" + "".join(f"{u} {v}\n" for u, v in sorted(edges)))
    return str(path)


@pytest.mark.parametrize("seed", seeds(8, quick=4))
def test_lists_of_edges(seed, tmp_path):
    """Matrix and vertex numbers are those of the changed edges; moves lead to the new owners."""
    rng, directed, own_ids = np.random.default_rng(seed), seed % 2 == 1, seed % 4 > 1
    ids = 3 * np.arange(N) + 5 if own_ids else np.arange(N)
    edges = {(int(ids[u]), int(ids[v])) for u, v in edges_of(seed, directed)}
    how = {"normalize": ("sym", "row", "none")[(seed + 1) % 3], "self_loops": seed % 4 != 3}
    plan = quiet_compile(graph_of_edges(edges, ids), **how)
    listed = sorted(edges)
    gone = {listed[k] for k in rng.choice(len(listed), 9, replace=False)}
    new_ids = [4, 400, 401] if own_ids else [N, N + 1, N + 2]
    more = {(new_ids[0], int(ids[7])), (new_ids[1], new_ids[2]), (int(ids[0]), int(ids[-1]))}
    more -= edges
    gone_both = gone if directed else gone | {(v, u) for u, v in gone}
    more_both = more if directed else more | {(v, u) for u, v in more}
    lists = {name: write(tmp_path / f"{name}.txt", each) for name, each in
             (("add", more), ("remove", gone))}  # fmt: skip
    if seed == 1:  # arrays do as well
        lists["add"] = np.array(sorted(more))
    better = plancc.patch(plan, max_moves=0.05, **lists)
    every = np.sort(np.concatenate([ids, new_ids]))
    wanted = plancc.compile(
        graph_of_edges((edges - gone_both) | more_both, every), "block", P, **how
    )
    difference = matrix_of(better) - matrix_of(wanted)
    assert abs(difference).max() == 0
    found = np.arange(len(every)) if better.original_id is None else better.original_id
    np.testing.assert_array_equal(found, every)

    moves = moves_of(plan, better)
    owner = dict(zip(ids.tolist(), plan.owner().tolist(), strict=True))
    for vertex, before, after in moves.tolist():
        assert owner.get(vertex, -1) == before != after
        owner[vertex] = after
    assert [owner[each] for each in every.tolist()] == better.owner().tolist()
    old = moves[moves[:, 1] >= 0]
    assert len(old) == better.provenance["rows_moved"] <= 0.05 * N
    assert better.provenance["rows_added"] == 3
    assert better.provenance["patched_from"] == plan.content_sha256()
    plancc.verify(better, graph_of_edges((edges - gone_both) | more_both, every))


def test_a_whole_graph_with_data_and_vertices_that_are_gone():
    edges, rng = edges_of(5, False), np.random.default_rng(2)
    data = {"features": rng.random((N, 3), np.float32), "labels": rng.integers(0, 3, N),
            "train_mask": rng.random(N) < 0.5}  # fmt: skip
    plan = quiet_compile(graph_of_edges(edges, np.arange(N)), data=data, balance="rows,train")
    gone = {7, 8, 90}
    left = np.array([v for v in range(N) if v not in gone])
    changed = {(u, v) for u, v in edges if u not in gone and v not in gone}
    better = plancc.patch(plan, graph_of_edges(changed, left))
    assert better.provenance["rows_removed"] == 3
    own = better.original_id[better.global_id]
    np.testing.assert_array_equal(better.vertex_data.features, data["features"][own])
    np.testing.assert_array_equal(better.vertex_data.train_mask, data["train_mask"][own])
    assert {tuple(row) for row in moves_of(plan, better).tolist() if row[2] < 0} == {
        (v, int(plan.owner()[v]), -1) for v in gone
    }
    # and back: those vertices are new, and need data
    whole = graph_of_edges(edges, np.arange(N))
    with pytest.raises(InputError, match=r"3 vertices are new.*features 3|3 vertices are new"):
        plancc.patch(better, whole)
    again = plancc.patch(better, whole, data=data)
    np.testing.assert_array_equal(again.vertex_data.labels, data["labels"][again.global_id])
    assert again.provenance["patched_from"] == better.content_sha256()


def test_moves_are_the_most_useful_and_never_more_than_asked():
    """More moves never leave more rows to be moved, and none leave all owners."""
    plan = plancc.compile(graph_of_edges(edges_of(3, False), np.arange(N)), "rp", P)
    edge = [[0, 1]] if (0, 1) not in edges_of(3, False) else [[0, 119]]
    volumes = []
    for share in (0.0, 0.02, 0.1, 1.0):
        better = plancc.patch(plan, add=edge, max_moves=share, epsilon=0.3)
        moved = np.count_nonzero(better.owner() != plan.owner())
        assert moved <= share * N
        volumes.append(better.metrics().volume)
    assert volumes == sorted(volumes, reverse=True)
    assert volumes[1] < volumes[0]
    assert volumes[-1] < 0.8 * volumes[0]
    same = plancc.patch(plan, add=edge, max_moves=0.1, epsilon=0.3)
    assert (
        same.content_sha256()
        == plancc.patch(plan, add=edge, max_moves=0.1, epsilon=0.3).content_sha256()
    )


@pytest.mark.parametrize("normalize", ["sym", "row", "none"])
def test_loops_are_told(normalize):
    """Own loops of the source, also in rows of nothing else that others need."""
    dense = np.zeros((5, 5))
    dense[[0, 1, 2, 2, 3, 4], [1, 1, 2, 0, 1, 3]] = 1
    plan = plancc.compile(sp.csr_array(dense), "block", 2, normalize=normalize)
    found = source_graph_of(plan)
    told = sp.csr_array((np.ones(found.num_nonzeros), found.indices, found.indptr), shape=(5, 5))
    if normalize == "row":  # there the row of vertex 1 is 1, with a loop and without
        dense[1, 1] = 0
    np.testing.assert_array_equal(told.toarray(), dense)


def test_ids_in_no_order():
    """A source may number its vertices as it likes; the changed graph has them in order."""
    edges, name = edges_of(2, True), np.random.default_rng(1).permutation(N) + 10
    given = replace(graph_of_edges(edges, np.arange(N)), original_ids=name)
    edge = next((u, v) for u, v in sorted(edges))
    better = plancc.patch(quiet_compile(given), remove=[[name[edge[0]], name[edge[1]]]])
    wanted = {(int(name[u]), int(name[v])) for u, v in edges - {edge}}
    plancc.verify(better, graph_of_edges(wanted, np.sort(name)))


def slow_volume(edges: set[tuple[int, int]], owner: np.ndarray) -> int:
    """Rows moved, from sets: a part needs v if it has a row with v, and does not own it."""
    return len({(int(owner[u]), v) for u, v in edges if owner[u] != owner[v]})


def test_a_new_row_goes_where_it_costs_least():
    """No other part would cost fewer rows, counted from sets; parts have room."""
    for seed in range(6):
        edges, rng = edges_of(seed, seed % 2 == 0), np.random.default_rng(seed)
        plan = plancc.compile(graph_of_edges(edges, np.arange(N)), "block", P)
        more = {(N, int(v)) for v in rng.choice(N, 7, replace=False)}
        if seed % 2:
            more |= {(v, u) for u, v in more}
        better = plancc.patch(plan, add=np.array(sorted(more)), max_moves=0, epsilon=0.5)
        tried = [slow_volume(edges | more, np.append(plan.owner(), part)) for part in range(P)]
        assert better.metrics().volume == min(tried)
        assert slow_volume(edges | more, better.owner()) == min(tried) < max(tried)


def test_weights_need_a_matrix_that_keeps_them():
    matrix = sp.csr_array(np.array([[0, 2.5, 0], [2.5, 0, 4], [0, 4, 0]]))
    plain = plancc.compile(matrix, "block", 2, normalize="none")
    np.testing.assert_array_equal(source_graph_of(plain).values, [2.5, 2.5, 4, 4])
    better = plancc.patch(plain, remove=[[0, 1]], add=[[2, 0, 0.5]])
    wanted = np.array([[1, 0, 0.5], [0, 1, 4], [0.5, 4, 1]])
    np.testing.assert_array_equal(matrix_of(better).toarray(), wanted)
    for add, says in (
        ([[0, 2]], "needs a weight"),
        ([[0, 2, 0]], "weight 0"),
        ([[0, 2, 1], [2, 0, 3]], "twice"),
    ):
        with pytest.raises(InputError, match=says):
            plancc.patch(plain, add=add)
    scaled = plancc.compile(matrix, "block", 2)
    with pytest.raises(InputError, match="give the whole graph"):
        plancc.patch(scaled, remove=[[0, 1]])


COUNTS = {"author": 60, "paper": 80}
WRITES, LIKES = ("author", "writes", "paper"), ("author", "likes", "paper")
CITES = ("paper", "cites", "paper")


def relations(seed: int) -> dict:
    """Edges by relation as rows ``destination source``, in no order; two of them are parallel."""
    rng, found = np.random.default_rng(seed), {}
    for relation in (WRITES, CITES, LIKES):
        pairs = rng.integers(0, (COUNTS[relation[2]], COUNTS[relation[0]]), (200, 2))
        found[relation] = np.unique(pairs, axis=0)
    return found


def typed(counts: dict, edges: dict) -> dict:
    return counts | {relation: pairs.T[::-1] for relation, pairs in edges.items()}


@pytest.mark.parametrize("normalize", ["row", "sym", "none"])
def test_typed_plans_by_relation(normalize):
    """The matrix is that of the changed relations; a new paper has data; moves say the type."""
    edges = relations(4)
    data = {n: {"features": np.arange(k, dtype=np.float32)[:, None]} for n, k in COUNTS.items()}
    plan = quiet_compile(typed(COUNTS, edges), normalize=normalize, data=data)
    gone = {"likes": edges[LIKES][:5], WRITES: edges[WRITES][7:9]}
    more = {"writes": [[80, 3], [80, 59]], CITES: np.array([[80, 80]])}
    changed = {
        WRITES: np.concatenate([np.delete(edges[WRITES], [7, 8], 0), more["writes"]]),
        CITES: np.concatenate([edges[CITES], more[CITES]]),
        LIKES: edges[LIKES][5:],
    }
    counts = COUNTS | {"paper": 81}
    with pytest.raises(InputError, match=r"1 vertices are new.*features of paper"):
        plancc.patch(plan, add=more, remove=gone)
    data["paper"]["features"] = np.arange(81, dtype=np.float32)[:, None]
    better = plancc.patch(plan, add=more, remove=gone, data=data)
    wanted = plancc.compile(typed(counts, changed), "block", P, normalize=normalize, data=False)
    assert better.header == replace(wanted.header, directed=better.header.directed)
    for relation in (WRITES, CITES, LIKES):
        blocks = (block_of(typed_graph_of(each), relation) for each in (better, wanted))
        assert abs(next(blocks) - next(blocks)).max() == 0
    own = better.vertex_data.of_type["paper"].features[:, 0]
    papers = better.global_id[better.global_id >= 60] - 60
    np.testing.assert_array_equal(own, papers)
    first, owner = {"author": 0, "paper": 60}, plan.owner()
    for type_number, row, before, after in moves_of(plan, better).tolist():
        at = [*first.values()][type_number] + row
        assert (owner[at] if at < 140 else -1) == before
        assert better.owner()[at] == after != before
    whole = plancc.patch(plan, typed(counts, changed), data=data)
    assert whole.content_sha256() == better.content_sha256()
    fewer = changed | {CITES: changed[CITES][:-1], WRITES: changed[WRITES][:-2]}
    back = plancc.patch(better, typed(COUNTS, fewer))
    assert back.provenance["rows_removed"] == 1
    assert len(back.vertex_data.of_type["paper"].features) == 80
    for options, says in (
        ({"add": [[0, 1]]}, "the plan has types; give edges by relation"),
        ({"add": {"reads": [[0, 1]]}}, "relation 'reads' is unknown"),
        ({"add": {"writes": [[82, 1]]}}, "the id of the next new vertex must be 80"),
        ({"remove": {"writes": [[80, 1]]}}, "edge '80 1' is not in the graph"),
        ({"graph": {**COUNTS, WRITES: edges[WRITES].T[::-1]}}, "types, relations"),
    ):
        with pytest.raises(InputError, match=says):
            plancc.patch(plan, **options)


@pytest.mark.parametrize("names", [[b"bo", b"zoe", b"al"], [7, 900_000_000_000, 3]])
def test_typed_plans_by_their_ids(names):
    """Authors have ids, some of which papers have too; papers count from 0 or have others."""
    ids = [name.decode() if isinstance(name, bytes) else name for name in names]
    writes = [(0, 0), (1, 0), (1, 2), (2, 1)]  # paper, author

    def given(authors: list, papers: list, edges: list) -> dict:
        ends = np.array(edges).T[::-1]
        of = {"author": {"n_id": authors}, "paper": {"n_id": papers}}
        as_arrays = {n: {"num_nodes": len(each["n_id"]), **each} for n, each in of.items()}
        return as_arrays | {WRITES: ends}

    plan = plancc.compile(given(ids, ids[::-1], writes), "block", 2, normalize="none")
    new = "carl" if isinstance(names[0], bytes) else 5
    kinds = np.array([[ids[2], new], [ids[0], new]])
    gone = np.array([[ids[1], ids[2]]])
    better = plancc.patch(plan, add={WRITES: kinds}, remove={WRITES: gone})
    right = {(ids[::-1][p], ids[a]) for p, a in writes} - {(ids[1], ids[2])}
    right |= {(ids[2], new), (ids[0], new)}
    rows, columns = ends_of(better)
    known = [each.decode() if isinstance(each, bytes) else each for each in better.original_id]
    assert {(known[i], known[j]) for i, j in zip(rows, columns, strict=True)} == right
    assert better.header.types.counts == {"author": 4, "paper": 3}
    assert sorted(known[:4], key=str) == sorted([*ids, new], key=str)
    moves = [row for row in moves_of(plan, better).tolist() if row[2] == -1]
    assert moves == [[0, new, -1, better.owner()[known.index(new)]]]
    whole = given([*ids, new], ids[::-1], [*(e for e in writes if e != (1, 2)), (0, 3), (2, 3)])
    assert plancc.patch(plan, whole).provenance["rows_added"] == 1


@pytest.mark.parametrize(("model", "directed"), [("medium-grain", True), ("fine-grain", False)])
def test_edge_plans(model, directed):
    """Few old nonzeros and rows have another part; the rows moved are counted from sets."""
    edges, ids = edges_of(6, directed), np.arange(N)
    plan = quiet_compile(graph_of_edges(edges, ids), model, normalize="none")
    hub = {(3, int(v)) for v in range(40, 100, 3)} - edges
    gone = set(sorted(edges)[::40])
    both = (lambda pairs: pairs) if directed else (lambda pairs: pairs | {(v, u) for u, v in pairs})
    more = hub | {(N, 5)}
    lists = {"add": np.array(sorted(more)), "remove": np.array(sorted(gone - more))}
    better = plancc.patch(plan, **lists, max_moves=0.05, epsilon=0.2)
    changed = (edges - both(gone)) | both(more)
    plancc.verify(better, graph_of_edges(changed, np.arange(N + 1)))

    def parts(of: plancc.Plan) -> dict[tuple[int, int], int]:
        row, column = ends_of(of)
        part = of.all_parts.part_of_nonzero()
        return dict(zip(zip(row.tolist(), column.tolist(), strict=True), part, strict=True))

    old, new = parts(plan), parts(better)
    moved = sum(new[each] != old[each] for each in old.keys() & new.keys())
    assert moved <= 0.05 * len(new)
    assert np.count_nonzero(better.owner()[:N] != plan.owner()) <= 0.05 * N
    assert better.provenance["rows_moved"] == np.count_nonzero(better.owner()[:N] != plan.owner())
    owner = better.owner()
    needs = {(p, j) for (_, j), p in new.items() if owner[j] != p}
    folds = {(p, i) for (i, _), p in new.items() if owner[i] != p}
    metrics = better.metrics()
    assert (metrics.volume, metrics.fold_volume) == (len(needs) + len(folds), len(folds))
    with pytest.raises(InputError, match="edge plans only balance nonzeros"):
        plancc.patch(plan, **lists, balance="rows")


def test_links_grids_and_features_of_edges():
    edges = edges_of(2, False)
    graph = graph_of_edges(edges, np.arange(N))
    (u, v), (free, w) = min(edges), next((0, w) for w in range(9, N) if (0, w) not in edges)
    ends = np.array(sorted(edges))[5:45].T
    hidden = max(edges)
    pairs = {"train": ends, "test": np.array([hidden]).T, "test_negative": [[5], [3]]}
    linked = quiet_compile(graph, links=pairs)
    better = plancc.patch(linked, add=[[free, w], [N, 4]], remove=[[u, v]])
    changed = (edges - {(u, v), (v, u)}) | {(free, w), (w, free)}
    more = changed | {(N, 4), (4, N)}
    whole = plancc.patch(linked, graph_of_edges(more, np.arange(N + 1)))  # no message tells it
    assert whole.content_sha256() == better.content_sha256()
    told = more - {hidden, hidden[::-1]}
    plancc.verify(better, graph_of_edges(told, np.arange(N + 1)))
    for each in (linked, better):
        order = np.lexsort((each.links.number, each.links.kind))
        np.testing.assert_array_equal(ends_of_links(each)[:, order][:, :40], ends)
    left = np.arange(1, N)
    fewer = graph_of_edges({e for e in edges if 0 not in e}, left)
    with pytest.raises(InputError, match="links end at vertices that were removed"):
        plancc.patch(linked, fewer)

    for model in ("cagnet-2d", "cagnet-1.5d"):
        on_grid = quiet_compile(graph, model, blocks="hp", normalize="none")
        better = plancc.patch(on_grid, add=[[free, w]], remove=[[u, v]])
        assert better.header.grid == on_grid.header.grid
        plancc.verify(
            better, graph_of_edges(edges - {(u, v), (v, u)} | {(free, w), (w, free)}, np.arange(N))
        )

    directed = graph_of_edges(edges_of(2, True), np.arange(N))
    rows = np.repeat(np.arange(N), directed.row_nonzeros())
    features = np.stack([rows, directed.indices], axis=1).astype(np.float32)
    plan = quiet_compile(directed, edge_features=features)
    better = plancc.patch(plan, remove=[[rows[0], directed.indices[0]]])
    found = np.stack(ends_of(better), axis=1)
    off = found[:, 0] != found[:, 1]
    np.testing.assert_array_equal(better.edge_features[off], found[off])
    with pytest.raises(InputError, match="1 nonzeros are new, but the plan has features of edges"):
        plancc.patch(plan, add=[[rows[0], N - 1]])
    more = graph_of_edges(edges_of(2, True) | {(int(rows[0]), N - 1)}, np.arange(N))
    own = np.full((more.num_nonzeros, 3), 7, np.float32)
    better = plancc.patch(plan, more.with_columns(edge_features=own))
    assert np.unique(better.edge_features[np.not_equal(*ends_of(better))], axis=0).tolist() == [
        [7, 7, 7]
    ]


def test_what_is_refused(tmp_path):
    edges = edges_of(4, False)
    plan = quiet_compile(graph_of_edges(edges, np.arange(N)))
    u, v = min(edges)
    there, free = f"{u} {v}", next((0, w) for w in range(9, N) if (0, w) not in edges)
    (tmp_path / "bad.txt").write_text(f"# two\n{free[0]} {free[1]}\n{there}\n")
    bad = str(tmp_path / "bad.txt")
    cases = [
        ({"add": bad}, f"bad.txt, line 3: the edge is in the graph already.*'{there}'"),
        ({"remove": bad}, f"bad.txt, line 2: the edge is not in the graph: '0 {free[1]}'"),
        ({"add": [[0, N + 4]]}, f"the id of the next new vertex must be {N}"),
        ({"remove": [[0, N]]}, "is not in the graph"),
        ({"add": [[0, free[1], 2]]}, "has a weight, but the graph has no weights"),
        ({"add": [[0.5, 1]]}, "whole numbers"),
        ({"add": [0, 1]}, "shape"),
        ({}, "give either the changed graph"),
        ({"graph": graph_of_edges(edges, np.arange(N)), "add": [[0, 1]]}, "either the changed"),
        ({"add": [[0, N]], "max_moves": 1.5}, "at most 1"),
        ({"graph": graph_of_edges(edges, np.arange(N) + 1000)}, "no vertex in common"),
    ]
    for options, says in cases:
        with pytest.raises(InputError, match=says):
            plancc.patch(plan, **options)
