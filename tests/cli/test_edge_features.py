"""Features of edges in plans, beside a dictionary of the edges that a source lists."""

import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cli_helpers import ok

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.canonical import build_graph
from plancc.graph.convert import as_source
from plancc.graph.edge_features import OF_SOURCE
from plancc.graph.folders import to_folder
from plancc.graph.listed_edges import EdgeFeatures, ListedEdges, with_features
from plancc.plan.matrix import ends_of
from plancc_runtime import open as open_plan
from plancc_runtime import open_typed
from plancc_runtime.transport.local import run_ranks

N, WIDTH = 30, 3
BUYS, LIKES, MADE = ("user", "buys", "item"), ("user", "likes", "item"), ("item", "of", "item")


def listed(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct edges in any order, sources first, and their features."""
    random = np.random.default_rng(seed)
    places = random.permutation(rows * columns)[: rows * columns // 8]
    edges = np.stack([places % columns, places // columns])
    return edges, random.standard_normal((len(places), WIDTH)).astype(np.float32)


def by_ends(edges: np.ndarray, features: np.ndarray) -> dict[tuple[int, int], list[float]]:
    return dict(zip(zip(*edges.tolist(), strict=True), features.tolist(), strict=True))


@pytest.fixture
def edges():
    return listed(N, N, 1)


@pytest.fixture(scope="module")
def relations():
    """Relations, two of them between the same types, and features of two of them."""
    given = {BUYS: listed(20, N, 2), LIKES: listed(20, N, 3), MADE: listed(20, 20, 4)}
    graph = {"user": N, "item": 20} | {name: pair for name, (pair, _) in given.items()}
    return given, graph, {name: given[name][1] for name in (BUYS, LIKES)}


def check_plan(plan, edges, features):
    """Every nonzero has the features of its edge; a loop that was added zeros."""
    wanted = by_ends(edges, features)
    for row, column, found in zip(*ends_of(plan), plan.edge_features, strict=True):
        assert found.tolist() == wanted.get((column, row), [0.0] * WIDTH)
        assert row == column or (column, row) in wanted


@pytest.mark.parametrize("model", ["hp", "fine-grain"])
def test_an_edge_has_its_features_on_any_number_of_ranks(model, edges, tmp_path):
    pair, features = edges
    plan = plancc.compile((N, pair), model, 5, edge_features=features)
    check_plan(plan, pair, features)
    plan.save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5")

    def of_rank(transport):
        graph = open_plan(tmp_path / "plan.h5", transport=transport)
        columns, rows = graph.local_edge_index()
        ends = (
            graph.column_vertices()[columns],
            graph.local_rows(graph.vertices[:, None].float())[rows, 0],
        )
        return [each.tolist() for each in (*ends, graph.edge_features)]

    loops = pair[0] == pair[1]
    for ranks in (1, 2, 5):
        every = run_ranks(ranks, of_rank, 30)
        found = [(ends, of) for each in every for *ends, of in zip(*each, strict=True)]
        assert len(found) == np.count_nonzero(~loops)
        wanted = by_ends(pair, features)
        assert all(wanted[tuple(ends)] == of for ends, of in found)


def test_a_plan_of_other_owners_keeps_them(edges):
    pair, features = edges
    plan = plancc.compile((N, pair), "block", 3, edge_features=features)
    check_plan(plancc.refine(plan), pair, features)
    assert plan.content_sha256() != plancc.compile((N, pair), "block", 3).content_sha256()


def test_relations_have_features(relations, tmp_path):
    given, graph, features = relations
    plan = plancc.compile(graph, num_parts=4, normalize="row", edge_features=features)
    plan.save(tmp_path / "plan.h5")

    def of_rank(transport):
        typed = open_typed(tmp_path / "plan.h5", transport=transport)
        found = {}
        for relation in (BUYS, LIKES, MADE):
            source, _, destination = relation
            of, (columns, rows) = typed.relation(relation), typed.edges(relation)
            first = typed.types.vertices(source).start
            vertices = of.column_vertices()[columns] - first
            ends = vertices, typed.vertices(destination)[rows]
            found[relation] = [each.tolist() for each in (*ends, typed.edge_features(relation))]
        return found

    for ranks in (1, 3):
        every = run_ranks(ranks, of_rank, 30)
        for relation, (pair, own) in given.items():
            wanted = by_ends(pair, own if relation in features else np.zeros_like(own))
            found = {
                tuple(ends): of for each in every for *ends, of in zip(*each[relation], strict=True)
            }
            assert found == wanted


def test_files_list_their_edges_in_any_order(edges, relations, tmp_path):
    pair, features = edges
    matrix = sp.coo_array((np.ones(pair.shape[1]), (pair[1], pair[0])), shape=(N, N))
    scipy.io.mmwrite(tmp_path / "graph.mtx", matrix, field="pattern")
    np.save(tmp_path / "e.npy", features)
    how = ("-p", 3, "--model", "block", "--edge-features", tmp_path / "e.npy")
    said = ok("compile", tmp_path / "graph.mtx", *how, "-o", tmp_path / "plan.h5")
    assert f"vertex data: none; edge features {WIDTH}" in said
    check_plan(plancc.load(tmp_path / "plan.h5"), pair, features)
    ok("compile", tmp_path / "graph.mtx", *how, "--transpose", "-o", tmp_path / "back.h5")
    check_plan(plancc.load(tmp_path / "back.h5"), pair[::-1], features)

    given, graph, of_relations = relations
    text = ["[types]", f"user = {N}", "item = 20"]
    for k, (name, (each, own)) in enumerate(given.items()):
        text += ["[[relations]]", *(f'{a} = "{b}"' for a, b in zip(ENDS, name, strict=True))]
        text += [f'file = "{k}.tsv"'] + [f'edge_features = "{k}.npy"'] * (name in of_relations)
        np.savetxt(tmp_path / f"{k}.tsv", each[::-1].T, "%d", "\t")
        np.save(tmp_path / f"{k}.npy", own)
    (tmp_path / "types.toml").write_text("\n".join(text))
    how = {"model": "block", "num_parts": 3, "normalize": "row"}
    expected = plancc.compile(graph, edge_features=of_relations, **how)
    hetero = {"user": {"num_nodes": N}, "item": {"num_nodes": 20}} | {
        name: {"edge_index": each} | ({"edge_attr": own} if name in of_relations else {})
        for name, (each, own) in given.items()
    }
    for source in (str(tmp_path), hetero | {"_global_store": {}}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", ".*is left out")
            found = plancc.compile(source, edge_features=OF_SOURCE, **how)
        assert found.content_sha256() == expected.content_sha256()
    with pytest.warns(PlanccWarning, match="'edge_features' is left out"):
        to_folder(tmp_path, tmp_path / "folder")


ENDS = ("source", "name", "destination")


def test_features_of_half_a_symmetric_matrix_are_of_both_entries(tmp_path):
    lower = np.array([[2, 3, 3, 3], [1, 1, 2, 3]])
    lines = "\n".join(f"{i} {j}" for i, j in lower.T)
    head = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 4\n"
    (tmp_path / "graph.mtx").write_text(f"{head}{lines}\n")
    features = np.arange(4 * WIDTH, dtype=np.float32).reshape(4, WIDTH)
    plan = plancc.compile(str(tmp_path / "graph.mtx"), "block", 1, edge_features=features)
    both = np.concatenate([lower, lower[::-1]], axis=1) - 1
    check_plan(plan, both, np.concatenate([features, features]))


def test_vertices_may_be_more_than_the_root_of_what_their_numbers_hold():
    n = 100_000
    row, column = np.array([[n - 1, 7, n - 2], [5, n - 1, n - 3]], np.int32)
    features = np.arange(3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)
    matrix = sp.coo_array((np.ones(3), (row, column)), shape=(n, n))
    graph, _ = as_source(matrix, edge_features=features)
    assert graph.edge_features.tolist() == features[[1, 2, 0]].tolist()
    listed = ListedEdges(row, column)
    both = build_graph(n, row, column, symmetrize=True)
    found = with_features(both, EdgeFeatures(listed, features), "", symmetrize=True)
    assert found.edge_features.sum() == 2 * features.sum()


def bad(edges, relations):
    """Graph, features, and what is said of them."""
    pair, features = edges
    twice = np.concatenate([pair, pair[:, :2]], axis=1)
    of_relations = relations[2]
    wrong = features.copy()
    wrong[4, 1] = np.nan
    count = pair.shape[1]
    return [
        ((N, twice), features, f"{count:,} rows of features, but the graph has "
                   f"{count + 2} edges \\({count} nonzeros after"),
        ((3, np.array([[1, 2], [0, 1]])), features[:1], "1 rows of features"),
        ((N, twice), np.concatenate([features, features[:2]]), "2 of .* are listed twice"),
        ((N, pair), wrong, "edge 4 .* not finite"),
        ((N, pair), features.astype(str), "give a row of numbers for every edge"),
        ((N, pair), OF_SOURCE, "the source has no features of edges"),
        ((N, pair), "features.csv", "give features as .npy, or 'source'"),
        (relations[1], features, "give features by relation"),
        ((N, pair), of_relations, "the graph has no types"),
        (relations[1], of_relations | {BUYS: features[:, :1]}, "same number of columns"),
        (relations[1], {BUYS: features[:5]}, "'user buys item': there are 5 rows"),
    ]  # fmt: skip


def test_process_grids_keep_none(edges):
    with pytest.raises(InputError, match="a process grid holds none"):
        plancc.compile((N, edges[0]), "cagnet-2d", 4, edge_features=edges[1])


def test_wrong_features_get_one_sentence(edges, relations):
    for graph, features, said in bad(edges, relations):
        with pytest.raises(InputError, match=said):
            plancc.compile(graph, "block", 3, edge_features=features)
