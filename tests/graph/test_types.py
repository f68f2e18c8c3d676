"""Graphs of types: their union, where they are read from, what is refused."""

import os
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from graph_helpers import refused
from scipy.io import mmwrite

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_graph, as_source
from plancc.graph.formats import read_graph, write_graph
from plancc.graph.normalize import normalize
from plancc.graph.types import Types
from plancc.graph.union import block_of
from plancc.models.weights import constraints

WRITES = ("author", "writes", "paper")
CITES, BY = ("paper", "cites", "paper"), ("paper", "by", "author")
HEAD = """
[types]
author = 4
paper = 6
"""


def relations() -> dict:
    writes = sp.random(6, 4, 0.5, "csr", rng=1)
    return {WRITES: writes, CITES: sp.random(6, 6, 0.4, "csr", rng=2), BY: sp.csr_array(writes.T)}


def same(graph, expected: dict) -> None:
    """The graph has these matrices as relations, and nothing else."""
    assert graph.types.relations == tuple(expected)
    for relation, matrix in expected.items():
        assert block_of(graph, relation).toarray() == pytest.approx(matrix.toarray())
    assert graph.num_nonzeros == sum(matrix.nnz for matrix in expected.values())


def test_relations_are_blocks_of_the_union():
    graph = as_graph(relations())
    same(graph, relations())
    assert graph.types.counts == {"author": 4, "paper": 6}
    assert graph.types.vertices("paper") == slice(4, 10)
    assert graph.types.type_of(np.array([0, 3, 4, 9])).tolist() == [0, 0, 1, 1]
    assert graph.types.relation_of(np.array([4, 5, 0, 0]), np.array([0, 9, 4, 1])).tolist() == [
        *(0, 1, 2, -1)
    ]
    assert not as_graph({k: relations()[k] for k in (WRITES, BY)}).directed


def test_an_edge_index_needs_counts_and_has_no_values():
    graph = as_graph({"a": 2, "b": 3, ("a", "to", "b"): np.array([[0, 1], [2, 2]])})
    assert graph.values is None
    assert block_of(graph, ("a", "to", "b")).toarray().tolist() == [[0, 0], [0, 0], [1, 1]]


def test_what_is_in_no_relation_is_said():
    given = {"a": 2, "b": 3, ("a", "to", "b"): np.array([[0, 1], [2, 2]])}
    with pytest.warns(PlanccWarning, match="2 of 3 vertices of type 'b' have no edges"):
        as_graph(given)
    with pytest.warns(PlanccWarning, match="relation 'b by a' has no edges"):
        as_graph(given | {("b", "by", "a"): np.zeros((2, 0), int)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({("a", "to", "b"): np.zeros((2, 0), int)}, "type 'a' has; add an entry 'a': count"),
        ({"a": 1, "b": 1, ("a", "to", "b"): np.array([[0], [1]])}, "'1' of type 'b' is out of"),
        ({"a": 0, "b": 1, ("a", "to", "b"): np.zeros((2, 0), int)}, "type 'a' has '0' vertices"),
        ({"a": 2, ("a", "to", "b"): sp.eye_array(3)}, "the matrix has 3 vertices of type 'a'"),
        ({("a", "b"): sp.eye_array(3)}, "is not a relation; give three strings"),
        ({("a", "x\n", "b"): sp.eye_array(3)}, "give printable text"),
        ({("a", "x", "b"): sp.csr_array((3, 2)) * np.nan, "b": 4}, "the matrix has 3"),
    ],
)
def test_wrong_relations(given, words):
    with pytest.raises(InputError) as caught:
        as_graph(given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("file", ["a.mtx", "csr.npz", "csc.npz", "coo.npz"])
def test_a_rectangular_matrix_has_two_types(tmp_path, file, turned):
    a = sp.random(5, 3, 0.5, rng=4)
    path = tmp_path / file
    if file == "a.mtx":
        mmwrite(path, a)
    else:
        sp.save_npz(path, a.asformat(file[:3]))
    graph = read_graph(path, transpose=turned)
    same(graph, {("columns", "A", "rows"): a.T if turned else a})
    assert [*graph.types.counts] == ["rows", "columns"]
    refused(lambda each: read_graph(each, symmetrize=True), path, "cannot be symmetric", names="a")
    with pytest.raises(InputError, match="cannot hold the types"):
        write_graph(graph, tmp_path / "b.mtx")


def folder(path, **files: str) -> str:
    """A folder of the relations in these files; the text of types.toml."""
    text = HEAD
    for (source, name, destination), matrix in relations().items():
        file = files.get(name, f"{name}.mtx")
        if file.endswith(".mtx"):
            mmwrite(path / file, matrix)
        elif file.endswith(".npz"):
            sp.save_npz(path / file, matrix)
        else:
            coo = matrix.tocoo()
            lines = zip(*coo.coords, coo.data, strict=True)
            (path / file).write_text("".join(f"{i} {j} {float(v)!r}\n" for i, j, v in lines))
        text += f'[[relations]]\nsource = "{source}"\nname = "{name}"\n'
        text += f'destination = "{destination}"\nfile = "{file}"\n'
    (path / "types.toml").write_text(text)
    return text


def test_a_folder_names_types_and_relations(tmp_path):
    folder(tmp_path, cites="cites.npz", by="by.txt")
    graph = read_graph(tmp_path)
    same(graph, relations())
    assert graph.source.format == "relations"
    other = graph.source.sha256
    mmwrite(tmp_path / "writes.mtx", relations()[WRITES] * 2)
    assert read_graph(tmp_path).source.sha256 != other


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[types]", "[kinds]", "a table [types] of counts"),
        ("author = 4", "author = 5", "the matrix is 6 x 4, but there are 6 destination"),
        ("author = 4", "author = ", "not TOML"),
        ("author = 4", f"author = {'[' * 100_000}", "not TOML"),
        ('name = "by"', "name = 3", "is not a relation"),
        ('name = "by"', "", "relation 3 needs source, name, destination and file"),
        ("by.mtx", "../by.mtx", "'../by.mtx' is not a file inside the folder"),
        ("by.mtx", "no.mtx", "'no.mtx' is not a file inside the folder"),
        ('"by"', '"cites"', "the matrix"),
        ('source = "author"', 'source = "editor"', "types.toml: relation 'editor writes paper': t"),
        ("author = 4", "author = -4", "types.toml: type 'author' has '-4' vertices"),
        ("author = 4", "author = true", "types.toml: type 'author' has 'True' vertices"),
        ("author = 4", "author = {}", "types.toml: type 'author' has no count"),
    ],
)
def test_wrong_folders(tmp_path, old, new, words):
    text = folder(tmp_path)
    (tmp_path / "types.toml").write_text(text.replace(old, new))
    if words == "the matrix":  # names of relations may repeat
        assert read_graph(tmp_path).types.relations[2] == ("paper", "cites", "author")
        return
    with pytest.raises(InputError) as caught:
        read_graph(tmp_path)
    assert words in str(caught.value)


def test_a_folder_speaks_of_its_own_types_and_keys(tmp_path):
    folder(tmp_path)
    mmwrite(tmp_path / "writes.mtx", sp.coo_array(([1.0], ([0], [1])), shape=(6, 4)))
    mmwrite(tmp_path / "by.mtx", sp.coo_array((4, 6)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        read_graph(tmp_path)
    assert len(said) == 2, [str(each.message) for each in said]
    assert "3 of 4 vertices of type 'author' have no edges" in str(said[1].message)
    np.save(tmp_path / "x.npy", np.ones((4, 2), np.float32))
    text = (tmp_path / "types.toml").read_text()
    text = text.replace("author = 4", 'author = {count = 4, feature = "x.npy"}')
    (tmp_path / "types.toml").write_text(text)
    words = "types.toml: type 'author' has a key 'feature', which is not a name of vertex data"
    with pytest.raises(InputError, match=words):
        as_source(str(tmp_path))
    data = as_source(str(tmp_path), keys={"features": "feature"})[1]
    assert data.of_type["author"].features.shape == (4, 2)


@pytest.mark.parametrize("weighted", [False, True])
def test_relations_may_share_their_types(weighted):
    """Entry (1, 0) is twice in x, with sum 0 where there are values, and in y."""
    x, y = np.array([[0, 0, 2], [1, 1, 0]]), np.array([[0, 1], [1, 1]])
    given = {"a": 3, ("a", "x", "a"): x, ("a", "y", "a"): y}
    if weighted:
        x = sp.coo_array(([1.0, -1, 5], x[::-1]), shape=(3, 3))
        y = sp.coo_array(([2.0, 4], y[::-1]), shape=(3, 3))
        given |= {("a", "x", "a"): x, ("a", "y", "a"): y}
    graph = as_graph(given)
    assert graph.types.are_parallel
    rows = np.repeat(np.arange(3), graph.row_nonzeros()).tolist()
    found = list(zip(rows, graph.indices.tolist(), graph.relation.tolist(), strict=True))
    assert found == [(0, 2, 0)] + [(1, 0, 0)] * (not weighted) + [(1, 0, 1), (1, 1, 1)]
    if weighted:
        assert graph.values.tolist() == [5, 2, 4]
        assert graph.source.weight_range == "-1 to 5, repeated entries summed: 1"
        assert block_of(graph, ("a", "y", "a")).toarray()[1].tolist() == [2, 4, 0]
    scaled = normalize(graph, "row", dtype=np.float64).values.tolist()
    assert scaled == ([1, 1 / 3, 2 / 3] if weighted else [1, 1, 0.5, 0.5])
    with pytest.raises(InputError, match="a process grid multiplies with their sum"):
        plancc.compile(given, "cagnet-1d", 2)


def test_types_have_vertex_data_of_their_own(tmp_path):
    random = np.random.default_rng(0)
    x, y = random.random((4, 3), np.float32), np.arange(6) % 2
    given = relations() | {"author": {"x": x}, "paper": {"y": y, "train_idx": [1, 5]}}
    text = folder(tmp_path)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    text = text.replace("author = 4", 'author = {count = 4, features = "x.npy"}')
    (tmp_path / "types.toml").write_text(text.replace("= 6", '= {count = 6, labels = "y.npy"}'))
    for graph, data in (
        as_source(given),
        as_source(relations(), {name: given[name] for name in ("author", "paper")}),
        as_source(os.fspath(tmp_path)),
    ):
        same(graph, relations())
        assert [*data.of_type] == ["author", "paper"]
        turned = data.take(np.arange(10)[::-1]).of_type
        assert np.asarray(turned["author"].features).tolist() == x[::-1].tolist()
        assert turned["paper"].labels.tolist() == y[::-1].tolist()
        assert data.sizes().items() >= {"features of author": 3, "classes of paper": 2}.items()
    assert not as_source(given, data=False)[1].of_type
    assert as_source(given, data)[1].sizes() == data.sizes()
    (tmp_path / "types.toml").write_text(text.replace("x.npy", "z.npy"))
    with pytest.raises(InputError, match=r"features of type 'author': 'z.npy' is not a file"):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"author": {"x": np.ones((5, 1))}}, "type 'author': key 'x' has '5' rows, but the gr"),
        ({"editor": {"x": np.ones((5, 1))}}, "type 'editor': is unknown; types are "),
        ({"author": np.ones((4, 1))}, "type 'author': give a mapping of names to arrays"),
        ({"author": {"x": [[1.0]] * 4}, "paper": 3}, "type 'paper': give a mapping of names to a"),
        ({"paper": {"y": np.full(6, -2)}}, "type 'paper': key 'y' holds '-2'"),
    ],
)
def test_wrong_data_by_type(data, words):
    with pytest.raises(InputError) as caught:
        as_source(relations(), data)
    assert words in str(caught.value)
    if "-2" in words:
        with pytest.raises(InputError, match="`data=False` leaves the vertex data out"):
            as_source(relations() | data)


def test_a_column_of_a_table_may_be_called_as_a_type(tmp_path):
    table = tmp_path / "data.csv"
    table.write_text("paper,labels\n" + "".join(f"7,{k}\n" for k in range(10)))
    with pytest.warns(PlanccWarning, match="ignored: 'paper'"):
        assert as_source(relations(), table)[1].labels.tolist() == [*range(10)]


def test_rows_by_id_of_a_type_are_aligned():
    """But beside an edge_index rows are in its order, as in a graph of one type."""
    x, ids = np.arange(6, dtype=np.float32)[:, None], np.array([3, 0, 5, 1, 2, 4])
    given = {"x": x[ids], "id": ids, "y": ids % 3, "train_idx": [5]}
    for obj, data in ((relations(), {"paper": given}), (relations() | {"paper": given}, None)):
        found = as_source(obj, data)[1].of_type["paper"]
        assert found.features.tolist() == x.tolist()
        assert found.labels.tolist() == [0, 1, 2] * 2
        assert np.flatnonzero(found.train_mask).tolist() == [5]
    with pytest.raises(InputError, match="type 'paper': key 'id': vertex '0' of the graph has no"):
        as_source(relations(), {"paper": given | {"id": ids + 2}})
    with pytest.warns(PlanccWarning, match="type 'paper': key 'id': ids count from 1 here, the gr"):
        found = as_source(relations(), {"paper": given | {"id": ids + 1, "train_idx": [6]}})[1]
    assert found.of_type["paper"].features.tolist() == x.tolist()
    with pytest.warns(PlanccWarning, match="type 'paper': ignored: 'id'"):
        found = as_source(relations(), {"paper": given, BY: {}})[1].of_type["paper"]
    assert found.features.tolist() == x[ids].tolist()


def test_a_type_has_as_many_vertices_as_rows():
    x = sp.random_array((6, 2), density=0.5, rng=1)
    pair = np.array([[0, 5], [3, 1]])
    given = {"author": 4, ("paper", "by", "author"): pair}
    for data in ({"train_idx": np.arange(3), "x": x.toarray()}, {"x": x}):
        graph = as_graph(given | {"paper": data})
        assert graph.types.counts["paper"] == 6
    with pytest.raises(InputError, match="type 'paper': key 'x' is sparse; make it dense"):
        as_source(given | {"paper": {"x": x}})


@pytest.mark.parametrize("key", ["weight", "weights"])
def test_weights_are_of_all_types_together(key):
    words = f"type 'paper': key '{key}': weights of only some .*; `weights` expects one vector"
    with pytest.raises(InputError, match=words):
        as_source(relations() | {"paper": {key: np.ones(6)}})
    plan = plancc.compile(relations(), num_parts=2, balance="weights", weights=np.arange(10))
    assert plan.num_parts == 2


@pytest.mark.parametrize("how", ["row", "sym"])
def test_relations_are_normalised_by_themselves(how):
    graph = normalize(as_graph(relations()), how, dtype=np.float64)
    for relation, matrix in relations().items():
        a = matrix.toarray()
        rows, columns = (np.where(s == 0, 1, s) for s in (a.sum(1), a.sum(0)))
        scale = rows[:, None] if how == "row" else np.sqrt(np.outer(rows, columns))
        assert block_of(graph, relation).toarray() == pytest.approx(a / scale)
    negative = {WRITES: -relations()[WRITES]}
    with pytest.raises(InputError, match=r"relation 'author writes paper': the weights of vertex"):
        normalize(as_graph(negative), how)


def test_rows_of_every_type_are_balanced():
    found = constraints(as_graph(relations()), "nnz,rows")
    assert [*found] == ["nnz", "rows author", "rows paper"]
    assert found["rows author"].tolist() == [1] * 4 + [0] * 6
    assert found["rows paper"].tolist() == [0] * 4 + [1] * 6


@pytest.mark.parametrize(
    ("types", "relations"),
    [
        ('[["a", 1]]', '[["a","b","a"]]'),
        ('[["a",1]]', "[]"),
        ('[["a",1]]', '[["a","b"]]'),
        ('[["a",1],["a",2]]', '[["a","b","a"]]'),
        ('[["a",1.0]]', '[["a","b","a"]]'),
        ('{"a":1}', '[["a","b","a"]]'),
        ("[" * 100_000, "[]"),
        ("", ""),
    ],
)
def test_other_texts_are_no_types(types, relations):
    with pytest.raises(InputError):
        Types.parse(types, relations)


def test_types_are_what_their_texts_say():
    types = Types({"ä \"b'": 3, "c": 1}, (("c", "d\\", "ä \"b'"),))
    assert Types.parse(*types.texts()) == types
    assert all(text.isascii() for text in types.texts())
    assert types.relation("d\\") == types.relation(("c", "d\\", "ä \"b'")) == types.relations[0]
