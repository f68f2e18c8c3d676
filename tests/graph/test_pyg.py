"""Graphs of PyTorch Geometric. Files are made by torch and by the library, and read without it."""

import copyreg
import sys
import warnings

import numpy as np
import pytest
from graph_helpers import entries, refused

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.formats import read_graph
from plancc.graph.types import Types
from plancc.graph.vertexsources import read_vertex_data

torch = pytest.importorskip("torch")
REGISTERS = hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint")
newer = pytest.mark.skipif(not REGISTERS, reason="before torch 2.6 a file holds tensors only")

# edges 0 -> 1, 1 -> 2, 3 -> 2: row 1 needs 0, row 2 needs 1 and 3; vertex 4 is isolated
EDGES = {(1, 0): 0.5, (2, 1): 2.0, (2, 3): 3.0}
X = np.arange(10, dtype=np.float32).reshape(5, 2)


def tensors(**others):
    return {
        "edge_index": torch.tensor([[0, 1, 3], [1, 2, 2]]),
        "edge_attr": torch.tensor([[0.5], [2.0], [3.0]]),
        "x": torch.tensor(X),
        "y": torch.tensor([[0], [1], [2], [1], [0]]),
        "train_mask": torch.tensor([1, 1, 0, 0, 0], dtype=torch.bool),
    } | others


class Anything:
    """An object with attributes, as a Data is."""

    def __init__(self, **held):
        vars(self).update(held)


def check(plan):
    """A plan of one part of the graph above."""
    order = plan.global_id
    np.testing.assert_array_equal(plan.vertex_data.features, X[order])
    assert plan.vertex_data.labels.tolist() == np.array([0, 1, 2, 1, 0])[order].tolist()
    assert plan.vertex_data.train_mask.tolist() == (order < 2).tolist()


@pytest.mark.parametrize("kind", [dict, Anything])
def test_objects(kind):
    obj = kind(**tensors())
    graph = plancc.as_graph(obj)
    assert entries(graph) == EDGES
    assert (graph.num_vertices, graph.directed, graph.source.format) == (5, True, "pyg")
    check(plancc.compile(obj, "block", 2))
    plan = plancc.compile(obj, "block", 2, data=False)
    assert plan.vertex_data.features is None


IDS = [70, 10, 50, 20, 9_000_000_000]


@pytest.mark.parametrize("name", ["n_id", "ids"])
@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.filterwarnings("error::plancc.errors.PlanccWarning")
def test_ids_of_vertices(tmp_path, name, saved):
    """They are the plan's, beside rows in their order; data of others join by them."""
    obj = tensors(**{name: torch.tensor(IDS)})
    if saved:
        torch.save(obj, tmp_path / "a.pt")
        obj = tmp_path / "a.pt"
    plan = plancc.compile(obj, "block", 2)
    assert plan.original_id.tolist() == IDS
    check(plan)
    np.savez(tmp_path / "b.npz", id=IDS[::-1], y=np.arange(5)[::-1])
    plan = plancc.compile(obj, "block", 1, data=tmp_path / "b.npz")
    assert plan.vertex_data.labels[np.argsort(plan.global_id)].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "ids", [[1, 1, 2, 3, 4], [-1, 0, 1, 2, 3], [0.0, 9, 8, 7, 6], ["a", "b", "c", "d", "a"]]
)
def test_ids_that_are_none(ids):
    held = tensors(ids=ids if isinstance(ids[0], str) else torch.tensor(ids))
    with pytest.warns(PlanccWarning, match="ignored: 'ids'; vertices.* are numbered by row"):
        plan = plancc.compile(held, "block", 1)
    assert plan.original_id is None


@pytest.mark.filterwarnings("error::plancc.errors.PlanccWarning")
@pytest.mark.parametrize("make", [list, np.array])
def test_ids_that_are_names(make):
    names = ["zoë", "b", "a", "x", "9"]
    plan = plancc.compile(tensors(ids=make(names)), "block", 2)
    assert plan.original_id.tolist() == [name.encode() for name in names]
    check(plan)


@pytest.mark.filterwarnings("error::plancc.errors.PlanccWarning")
def test_ids_that_number_the_rows():
    assert plancc.compile(tensors(n_id=torch.arange(5)), "block", 1).original_id is None


def test_names_in_a_list_are_not_taken():
    with pytest.warns(PlanccWarning, match="ignored: 'names'$"):
        plancc.compile(tensors(names=list("abcde"), others=list("abcd")), "block", 1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.pt"


@pytest.mark.parametrize(
    "held",
    [
        lambda: tensors(),
        lambda: [tensors()],
        lambda: (tensors(), None),
        lambda: (tensors(), {"x": torch.tensor([0, 5]), "edge_index": torch.tensor([0, 3])}),
        lambda: tensors(edge_weight=torch.tensor([0.5, 2, 3]), edge_attr=torch.zeros(3, 9)),
        lambda: tensors(num_nodes=5, x=torch.tensor(X)),
        lambda: tensors(edge_index=None, adj_t=torch.sparse_coo_tensor(
            [[1, 2, 2], [0, 1, 3]], [0.5, 2.0, 3.0], (5, 5))),
        pytest.param(lambda: {key: t.numpy() for key, t in tensors().items()}, marks=newer),
    ],
)  # fmt: skip
def test_files(path, held):
    torch.save(held(), path)
    graph = read_graph(path)
    assert entries(graph) == EDGES
    assert (graph.num_vertices, graph.source.format) == (5, "pyg")
    check(plancc.compile(path, "block", 2))
    assert entries(read_graph(path, transpose=True)) == {(j, i): w for (i, j), w in EDGES.items()}
    both = read_graph(path, symmetrize=True, pattern=True)
    assert entries(both) == dict.fromkeys([*EDGES, *((j, i) for i, j in EDGES)], 1)


def test_names_of_ones_own(path):
    torch.save({"pairs": torch.tensor([[0], [1]]), "emb": torch.tensor(X), "num_nodes": 5}, path)
    keys = {"graph": "pairs", "features": "emb"}
    graph = read_graph(path, keys=keys)
    assert entries(graph) == {(1, 0): 1}
    np.testing.assert_array_equal(read_vertex_data(path, graph, keys=keys).features, X)
    with pytest.raises(InputError, match="'edge_index' is missing; there are 'pairs', 'emb'"):
        read_graph(path)


def test_what_is_left_out_or_guessed_is_said(path):
    torch.save({"edge_index": torch.tensor([[0], [6]])}, path)
    with pytest.warns(PlanccWarning, match="the graph gets 7 vertices"):
        assert read_graph(path).num_vertices == 7
    torch.save(tensors(edge_attr=torch.zeros(3, 4)), path)
    with pytest.warns(PlanccWarning, match="'edge_attr' has 4 columns and is left out"):
        assert read_graph(path).values is None


def test_labels_of_a_graph_are_not_its_vertices(path):
    """`y` of one row, and no features: the edges say how many vertices there are."""
    few = {"edge_index": torch.tensor([[0, 1], [1, 6]]), "y": torch.tensor([1])}
    torch.save(few, path)
    words = "'y' has 1 rows, and 'edge_index' names vertex 6, so the rows are not taken"
    with pytest.warns(PlanccWarning, match=words), pytest.warns(PlanccWarning, match="7 vertices"):
        assert read_graph(path).num_vertices == 7
    torch.save(few | {"train_mask": torch.ones(9, dtype=torch.bool), "x": torch.ones(8, 2)}, path)
    assert read_graph(path).num_vertices == 8
    torch.save(few | {"train_mask": torch.ones(9, dtype=torch.bool)}, path)
    assert read_graph(path).num_vertices == 9
    torch.save(few | {"x": torch.ones(5, 2)}, path)
    with pytest.raises(InputError, match=r"'6' is out of range 0\.\.4"):
        read_graph(path)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_whole_numbers_of_edges_may_be_types(path, shape):
    kinds = torch.tensor([1, 2, 3]).reshape(shape)
    torch.save(tensors(edge_attr=kinds), path)
    words = "'edge_attr' is read as weights .*, 1 to 3: whole numbers may be types .*`pattern`"
    with pytest.warns(PlanccWarning, match=words):
        assert entries(read_graph(path)) == {(1, 0): 1, (2, 1): 2, (2, 3): 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_graph(path, pattern=True).values is None
        torch.save(tensors(edge_attr=None, edge_weight=torch.tensor([1, 2, 3])), path)
        assert entries(read_graph(path)) == {(1, 0): 1, (2, 1): 2, (2, 3): 3}


@newer
@pytest.mark.parametrize("members", ["by value", "by getattr"])
@pytest.mark.parametrize("there", [True, False])
def test_the_real_library(path, tmp_path, monkeypatch, there, members):
    """What it saves is read whether the library is there or not, by Python 3.11.2 too."""
    from torch_geometric import data
    from torch_geometric.data.storage import AttrType
    from torch_geometric.transforms import ToSparseTensor

    dispatch = {"by getattr": lambda each: (getattr, (AttrType, each.name))}
    dispatch |= {"by value": lambda each: (AttrType, (each.value,))}
    monkeypatch.setitem(copyreg.dispatch_table, AttrType, dispatch[members])
    made = data.Data(**tensors())
    torch.save(made, path)
    hetero = data.HeteroData()
    hetero["a"].x = torch.eye(2)
    hetero["b"].num_nodes = 3
    hetero["a", "to", "b"].edge_index = torch.tensor([[0, 1], [1, 0]])
    hetero["a", "to", "b"].edge_weight = torch.tensor([2.0, 3.0])
    hetero["a", "is", "a"].edge_index = torch.tensor([[1], [0]])
    torch.save(hetero, tmp_path / "h.pt")
    torch.save(hetero.to_dict(), tmp_path / "d.pt")
    torch.save(ToSparseTensor(attr="edge_attr")(data.Data(**tensors())), tmp_path / "t.pt")
    torch.save((tensors(), None, type(made)), tmp_path / "of_old.pt")

    class OfOne(data.InMemoryDataset):
        raw_file_names = ()
        processed_file_names = ("data.pt",)

        def process(self):
            self.save([made], self.processed_paths[0])

    OfOne(str(tmp_path))
    registered = torch.serialization.get_safe_globals()
    with monkeypatch.context() as patch:
        for name in [] if there else list(sys.modules):
            if name.partition(".")[0] == "torch_geometric":
                patch.setitem(sys.modules, name, None)
        for file in (
            path,
            tmp_path / "processed/data.pt",
            tmp_path / "t.pt",
            tmp_path / "of_old.pt",
        ):
            assert entries(read_graph(file)) == EDGES
            check(plancc.compile(file, "block", 2))
        found = [read_graph(tmp_path / file) for file in ("h.pt", "d.pt")]
    assert set(registered) == set(torch.serialization.get_safe_globals())
    assert entries(plancc.as_graph(made)) == EDGES
    check(plancc.compile(made, "block", 2))
    for each in (*found, *map(plancc.as_graph, (hetero, hetero.to_dict()))):
        assert entries(each) == {(3, 0): 2, (2, 1): 3, (0, 1): 1}
        assert each.types == Types({"a": 2, "b": 3}, (("a", "to", "b"), ("a", "is", "a")))
    for each in (tmp_path / "h.pt", hetero, hetero.to_dict()):
        data = plancc.compile(each, "block", 2).vertex_data
        assert data.sizes() == {"features of a": 2}
        assert data.of_type["a"].features.tolist() == [[1, 0], [0, 1]]


class Hostile:
    def __reduce__(self):
        return (print, ("executed",))


class OfModule:
    def __reduce__(self):
        return (getattr, (torch.Tensor, "__init__"))


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (tensors(edge_index=torch.zeros(3, 3, dtype=torch.long)), "must be (2, edges), not (3, 3)"),
        (tensors(edge_index=torch.zeros(3, 2, dtype=torch.long)), "not (3, 2): transpose it"),
        (tensors(edge_index=torch.ones(2, 3)), "must be integers, not 'float32'"),
        (tensors(edge_index=torch.tensor([[0, -1, 0], [0, 1, 1]])),
         "'-1' is out of range 0..4 (1 of 3 entries): vertices are numbered from 0"),
        ({"edge_index": torch.tensor([[0], [5]]), "num_nodes": 5},
         "'edge_index'[1, 0]: vertex '5' is out of range 0..4 (1 of 1 entries): 'num_nodes' is 5"),
        (tensors(edge_index=torch.tensor([[0], [5]])), "'x' has 5 rows; give a row for every v"),
        (tensors(edge_index=torch.tensor([[0], [5]]), y=torch.arange(6)),
         "(1 of 1 entries): 'x' has 5 rows, 'y' 6; give a row for every vertex"),
        (tensors(edge_index=torch.tensor([[0], [5]]), num_nodes=5),
         "(1 of 1 entries): 'num_nodes' is 5; give the number of all vertices"),
        (tensors(edge_attr=torch.ones(2)), "'edge_attr' of shape (2,) must have one value"),
        (tensors(edge_attr=torch.full((3, 1), torch.nan)), "'nan' is not a finite number"),
        (tensors(num_nodes=2**40), f"has {2**40} vertices; the limit"),
        (tensors(num_nodes=0), "the graph has no vertices"),
        (tensors(edge_index=None, adj_t=torch.eye(5)), "holds"),
        (tensors(edge_index=None, adj_t=3), "'adj_t' is not a square sparse tensor"),
        ({"x": torch.eye(2)}, "'edge_index' is missing; there are 'x'"),
        (torch.eye(3), "holds a 'Tensor', not a graph"),
        (Hostile(), "it holds an object of"),
        (OfModule(), "it holds an object of 'getattr'"),
    ],
)  # fmt: skip
def test_refused(path, held, words, capsys):
    torch.save(held, path)
    if words == "holds":  # a dense adj_t of ones is a sparse one
        assert entries(read_graph(path)) == {(i, i): 1 for i in range(5)}
        return
    refused(read_graph, path, words, names=path.name)
    assert "executed" not in capsys.readouterr().out


def claimed(tensor, *shape):
    """A tensor of one stored number."""
    return tensor.reshape(-1)[:1].as_strided(shape, [0] * len(shape))


@pytest.mark.parametrize(
    "held",
    [
        lambda: tensors(x=claimed(torch.ones(1), 2**36)),
        lambda: tensors(x=claimed(torch.ones(1), 5, 2**36)),
        lambda: tensors(edge_index=claimed(torch.zeros(1, dtype=torch.long), 2, 2**36)),
        lambda: [{"x": {"deep": claimed(torch.ones(1), 5)}}],
        lambda: tensors(edge_index=None, adj_t=torch.sparse_coo_tensor(
            claimed(torch.zeros(1, dtype=torch.long), 2, 7), claimed(torch.ones(1), 7), (5, 5))),
    ],
)  # fmt: skip
def test_claims_of_what_is_not_stored(path, held):
    torch.save(held(), path)
    for read in (read_graph, lambda path: read_vertex_data(path, 5)):
        with pytest.raises(
            InputError, match=r"data\.pt: a tensor of shape .* are stored; save tensor"
        ):
            read(path)


def test_a_tensor_without_data(tmp_path):
    torch.save(
        {"edge_index": torch.empty(2, 4, dtype=torch.int64, device="meta")}, tmp_path / "a.pt"
    )
    with pytest.raises(InputError, match=r"a\.pt: a meta tensor of shape \(2, 4\) has no data"):
        read_graph(tmp_path / "a.pt")


def test_a_matrix_with_wrong_offsets(path):
    good = torch.tensor([0, 1, 2]), torch.tensor([0, 1]), torch.ones(2)
    matrix = torch.sparse_csr_tensor(*good, (2, 2))
    matrix.crow_indices()[2] = 2**40
    torch.save({"adj_t": matrix}, path)
    with pytest.raises(InputError, match="not a file of tensors that can be read"):
        read_graph(path)


def test_damage(path):
    torch.save(tensors(), path)
    data = path.read_bytes()
    for end in (1, 7, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        with pytest.raises(InputError, match=r"can be read: it is damaged or cut off$"):
            read_graph(path)


@pytest.mark.parametrize("held", [np.array([0, 1, 3, 1, 2, 2]), X], ids=["edges", "features"])
def test_numbers_that_were_changed_are_seen(path, held):
    """torch itself does not compare the checksums of the archive."""
    torch.save(tensors(), path)
    data = path.read_bytes()
    assert data.count(held.tobytes()) == 1
    path.write_bytes(data.replace(held.tobytes(), bytes(held.nbytes)))
    with pytest.raises(InputError, match=r"it is damaged: the checksum of '.*' is wrong"):
        read_graph(path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"edges,of,a,table\n" * 9, "it does not look like a file of torch.save"),
        (b"\x80\x02}q\x00", "it is damaged or cut off"),
    ],
)
def test_what_no_torch_wrote(path, data, words):
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_graph(path)
    assert str(caught.value) == f"{path}: not a file of tensors that can be read: {words}"
