"""Vertex data of people's daily work: every row is its vertex's, or it is said, or refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_helpers import write_parquet
from input_case import Case, parquet, run_case

N = 12
RING = f"%%MatrixMarket matrix coordinate pattern general\n{N} {N} {N}\n" + "".join(
    f"{i + 1} {(i + 1) % N + 1}\n" for i in range(N)
)
FROM_7 = "".join(f"{i + 7} {(i + 1) % N + 7}\n" for i in range(N))
"""The ring as an edge list of the ids 7..18."""
ORDER = [(5 * i + 3) % N for i in range(N)]
"""Whose the rows of shuffled tables are."""
FEATURES = np.array([[v, 10 * v] for v in range(N)], np.float32)
LABELS = np.arange(N) % 3


def of_data(name: str, content: Any, file: str = "t.csv", more: str = "", **says: Any) -> Case:
    """The ring with vertex data of this content."""
    words = f"compile g.mtx --data {file} {more} PLAIN"
    return Case(name, {"g.mtx": RING, file: content}, words, **says)


def table(
    name: str, *, first: int = 0, order: Any = ORDER, others: str = "f0,f1,label", mark: str = ","
) -> str:
    """Rows of features and labels with an id, under a line of names; without where `name` is
    None."""
    words = {"f0": lambda v: v, "f1": lambda v: 10 * v, "label": lambda v: v % 3}
    columns = others.split(",")
    lines = [[name, *columns]] if name is not None else []
    lines += [[v + first, *(words[each](v) for each in columns)] for v in order]
    return "".join(mark.join(map(str, line)) + "\n" for line in lines)


def by(name: str) -> Callable[[Path], object]:
    """The same columns, with ids of this name."""
    features = {"f0": FEATURES[ORDER, 0], "f1": FEATURES[ORDER, 1]}
    return parquet(**features, label=LABELS[ORDER], **{name: ORDER})


def parts(count: int, pattern: str, columns: Callable[[np.ndarray], dict[str, Any]]) -> Any:
    """Write a folder of parts, each with a twelfth of what `columns` makes of 0..N-1."""

    def write(path: Path) -> None:
        path.mkdir()
        for k, of in enumerate(np.array_split(np.arange(N), count)):
            write_parquet(path / pattern.format(k), columns(of))

    return write


def of_pandas(path: Path, start: int, step: int) -> None:
    """Write the rows f0 = 0..N-1 with a RangeIndex, as DataFrame.to_parquet does."""
    arrow = pytest.importorskip("pyarrow")
    files = pytest.importorskip("pyarrow.parquet")
    ends = {"start": start, "stop": start + step * N, "step": step}
    head = {"index_columns": [{"kind": "range", "name": None, **ends}], "columns": []}
    table = arrow.table({"f0": np.arange(N, dtype=np.float32)})
    files.write_table(table.replace_schema_metadata({"pandas": json.dumps(head)}), path)


def saved(name: str, **arrays: Any) -> Callable[[Path], object]:
    return lambda path: np.savez(path, **arrays)


def features_and_id(of: np.ndarray) -> dict[str, Any]:
    return {"f0": FEATURES[of, 0], "f1": FEATURES[of, 1], "id": of}


def features_only(of: np.ndarray) -> dict[str, Any]:
    return {"f0": FEATURES[of, 0], "f1": FEATURES[of, 1]}


RIGHT = {"features": FEATURES, "labels": LABELS}
BY_LINE = {"features": FEATURES[ORDER], "labels": LABELS[ORDER]}
IN_LINE = {"features": FEATURES}
TAKEN_BY_NUMBERS = "its 12 files are read by the numbers in their names, 'part.2.parquet'"

CASES = [
    *(
        of_data(f"C13 rows by the column {name!r}", table(name), rows=RIGHT,
             silent=("warning: t.csv",))
        for name in (
            *("id", "ids", "ID", "Id", "node_id", "nodeId", "NODE_ID", "vertex_id", "index"),
            *("nid", "node", "vertex", "Unnamed: 0", ""),
        )
    ),
    *(
        of_data(f"C13 rows by the column {name!r} of Parquet", by(name), "t.parquet",
             rows=RIGHT, silent=("ignored:",))
        for name in ("node_id", "ID", "index", "__index_level_0__")
    ),
    of_data("C13 another name", table("person"),
         refused="t.csv: column 'person' holds every vertex once|--key id=person|--key id="),
    of_data("C13 another name in Parquet", by("person"), "t.parquet",
         refused="t.parquet: column 'person' holds every vertex once"),
    of_data("C13 another name that is said", table("person"), more="--key id=person", rows=RIGHT,
         silent=("ignored:",)),
    of_data("C13 by line", table("node_id"), more="--key id=", says=("ignored: 'node_id'",),
         rows=BY_LINE),
    of_data("C13 a name that is not there", table("node_id"), more="--key id=nodes",
         refused="key 'nodes' is missing in t.csv"),
    of_data("C13 ascending under another name", table("person", order=range(N)), rows=RIGHT),
    Case("C13 in tabs, of ids of the source", {"g.txt": FROM_7,
         "t.tsv": table("Node_ID", first=7, mark="\t")}, "compile g.txt --data t.tsv PLAIN",
         rows=RIGHT),
    of_data("C13 an id that is not the graph's", table("node_id").replace("\n11,", "\n99,"),
         refused="t.csv: key 'node_id': vertex '11' of the graph has no row (1 of 12"),
    of_data("C13 an index of other rows is none", table("index", first=700, order=range(N)),
         says=("ignored: 'index'",), rows=RIGHT),
    of_data("C13 a column of text beside it", "node,f0,f1\n" + "".join(f"n{v},{v},{10 * v}\n"
         for v in range(N)), says=("ignored: 'node'",), rows=IN_LINE),
    of_data("C13 an archive goes by its order, and says so",
         saved("t", features=FEATURES, node_id=np.array(ORDER)), "t.npz",
         says=("t.npz: ignored: 'node_id'; --key id=node_id reads rows by it",), rows=IN_LINE),
    of_data("C13 an archive by a name", saved("t", features=FEATURES[ORDER],
         node_id=np.array(ORDER)), "t.npz", more="--key id=node_id", rows=IN_LINE),
    of_data("C14 ids from 1 under their name", table("id", first=1),
         says=("t.csv: key 'id': ids count from 1 here, the graph's from 0: -1 is",), rows=RIGHT),
    of_data("C14 ids from 1 with one too many", table("id", first=1) + "13,0,0,0\n",
         refused="vertex '0' of the graph has no row|ids count from 1 here, the graph's from 0"),
    *(
        of_data(f"C14 without names, ids from {first}", table(None, first=first, others="f0,f1"),
             says=(f"t.csv: the first column holds {first}..{first + 11}, every vertex once",),
             rows=IN_LINE)
        for first in (0, 1)
    ),
    Case("C14 without names, ids of the source", {"g.txt": FROM_7,
         "t.csv": table(None, first=7, others="f0,f1")}, "compile g.txt --data t.csv PLAIN",
         says=("t.csv: the first column holds 7..18, every vertex once",), rows=IN_LINE),
    of_data("C14 id,label without names", table(None, first=1, others="label"),
         says=("t.csv: the first column holds 1..12",), rows={"labels": LABELS}),
    of_data("C14 without names, by line", table(None, others="label"), more="--key id=",
         rows={"features": np.array([[v, v % 3] for v in ORDER], np.float32)}),
    of_data("C14 without names, no ids", "".join(f"{v + 0.5},{v}\n" for v in range(N)),
         rows={"features": np.array([[v + 0.5, v] for v in range(N)], np.float32)},
         silent=("first column",)),
    of_data("C12 parts by their numbers", parts(12, "part.{}.parquet", features_only), "d.parquet",
         says=(f"d.parquet: {TAKEN_BY_NUMBERS} before 'part.10.parquet'",), rows=IN_LINE),
    of_data("C12 a folder of another name", parts(12, "{}.parquet", features_only), "nodes",
         says=("nodes: its 12 files are read by the numbers in their names, '2.parquet' before",),
         rows=IN_LINE),
    Case("C12 parts with ids", {"g.mtx": RING,
         "d.parquet": parts(12, "part.{}.parquet", features_and_id)}, "--data d.parquet/",
         rows=IN_LINE, silent=("files are read",)),
    of_data("C12 parts with leading zeros", parts(12, "part-{:05}.parquet", features_only),
         "d.parquet", rows=IN_LINE, silent=("files are read",)),
    Case("C12 edges in parts and their features", {"g": parts(12, "part.{}.parquet",
         lambda of: {"u": of, "v": (of + 1) % N}), "e.npy": lambda path: np.save(path,
         np.arange(N, dtype=np.float32))}, "compile g --edge-features e.npy PLAIN",
         says=(f"g: {TAKEN_BY_NUMBERS}|data of edges",),
         check=lambda folder: edge_k_has_k(folder)),
    Case("C12 edges in parts alone", {"g": parts(12, "part.{}.parquet",
         lambda of: {"u": of, "v": (of + 1) % N})}, entries={(i, (i + 1) % N): 1.0
         for i in range(N)}, silent=("files are read",)),
]  # fmt: skip


TOML = """[types]
grid = {count = 6, features = "grid.npy"}
mesh = {count = 12, features = "mesh.npy", labels = "labels.npy"}
"""
ARRAYS = {
    "t/grid.npy": lambda path: np.save(path, np.ones((6, 1))),
    "t/mesh.npy": lambda path: np.save(path, FEATURES),
    "t/labels.npy": lambda path: np.save(path, LABELS),
}
RELATION = '[[relations]]\nsource = "{}"\nname = "{}"\ndestination = "{}"\nfile = "{}"\n'


def types(*relations: tuple[str, str, str, list[tuple[int, int]]], toml: str = TOML) -> Any:
    """A folder with a types.toml; edges are (source, destination)."""
    files: dict[str, Any] = {"t/types.toml": toml, **ARRAYS}
    for k, (source, name, end, edges) in enumerate(relations):
        files["t/types.toml"] += RELATION.format(source, name, end, f"{k}.txt")
        files[f"t/{k}.txt"] = "".join(f"{v} {u}\n" for u, v in edges)
    return files


def half(path: Path) -> None:
    torch = pytest.importorskip("torch")
    ring = torch.arange(N)
    edges = torch.stack([ring, (ring + 1) % N])
    torch.save({"edge_index": edges, "x": torch.tensor(FEATURES).bfloat16()}, path)


RING_OF_MESH = ("mesh", "m2m", "mesh", [(i, (i + 1) % N) for i in range(N)])
DOWN = [(i % 6, i) for i in range(N)]
TO_MESH, TO_GRID = ("grid", "g2m", "mesh", DOWN), ("mesh", "m2g", "grid", [(v, u) for u, v in DOWN])
OF_TYPES = [
    Case("entries of relations that are there twice, or 0",
         {**types(RING_OF_MESH, TO_GRID),
         "t/1.txt": "0 0 2\n0 0 3\n0 7 0\n" + "".join(f"{v % 6} {v} 1\n" for v in range(1, N))},
         says=("of relation 'mesh m2g grid' repeated entries summed: 1|"
         "of relation 'mesh m2g grid' entries of value 0 left out (--pattern keeps them): 1",)),
    Case("pairs of a relation that are there twice", {**types(RING_OF_MESH, TO_MESH, TO_GRID),
         "t/2.txt": "0 0\n" * 2 + "".join(f"{v % 6} {v}\n" for v in range(1, N))},
         says=("matrix: of every relation A; of relation 'mesh m2g grid' repeated entries merged: "
         "1",)),
    Case("files that types.toml does not name", {**types(RING_OF_MESH), "t/likes.txt": "0 0\n",
         "t/user.npy": b"x", "t/README.txt": "x"},
         says=("t: ignored: 'likes.txt', 'user.npy', which types.toml does not name",)),
    Case("a file of other rows", {**types(RING_OF_MESH, TO_MESH, TO_GRID),
         "t/mesh.npy": lambda path: np.save(path, FEATURES[1:])},
         refused="t/mesh.npy: features of type 'mesh' have 11 rows, but types.toml says 12 "
         "vertices"),
    Case("types that are as they should be", types(RING_OF_MESH, TO_MESH, TO_GRID),
         silent=("warning: t: ",)),
    Case("C24 ids of the union", types(RING_OF_MESH, TO_GRID,
         ("grid", "g2m", "mesh", [(u, 6 + u) for u in range(6)])),
         says=("relation 'grid g2m mesh': no edge has a vertex of 'mesh' below 6|subtract 6",)),
    Case("C24 beyond the type", types(RING_OF_MESH, ("grid", "g2m", "mesh",
         [(u, 7 + u) for u in range(6)])),
         refused="a vertex of type 'mesh' is out of range 0..11: '12'"),
    Case("M10 ids from 1", types(("mesh", "m2m", "mesh",
         [(i, i + 1) for i in range(1, N - 1)] + [(N - 1, 1)])),
         says=("t: vertex 0 of every type has no edges|subtract 1",),
         silent=("--keep-ids", "--num-vertices")),
    Case("F11 no relation to the labels", types(TO_GRID),
         says=("no relation leads to 'mesh', which has labels|the reverse of 'mesh m2g grid'",)),
    Case("C23 a source that nothing updates", types(RING_OF_MESH, TO_MESH),
         says=("no relation leads to 'grid', so that neighbours do not update it",)),
    Case("F11 a reverse with the ends of its twin", types(RING_OF_MESH, TO_MESH, TO_GRID,
         ("mesh", "rev_m2m", "mesh", RING_OF_MESH[3])),
         says=("relation 'mesh rev_m2m mesh' has the edges of relation 'mesh m2m mesh'",)),
    Case("F11 a reverse that is turned", types(*(RING_OF_MESH, TO_MESH, TO_GRID),
         ("mesh", "rev_m2m", "mesh", [(v, u) for u, v in RING_OF_MESH[3]])),
         silent=("warning: t: ",)),
    Case("a type without features", types(RING_OF_MESH, TO_MESH, TO_GRID,
         toml=TOML.replace(', features = "grid.npy"', "")),
         says=("no features of 'grid': plancc-run refuses",)),
]  # fmt: skip
SEEN = """[types]
users = 3
item = 2
[[relations]]
source = "users"
name = "seen"
destination = "item"
file = "e.{}"
"""


def seen(names: str, edges: list[tuple[int, int]], packed: bool = False) -> Any:
    """A folder of one relation, whose file has these names and edges."""
    kind = "parquet" if packed else "csv"
    lines = f"{names}\n" + "".join(f"{u},{v}\n" for u, v in edges)
    columns = dict(zip(names.split(","), np.array(edges).reshape(-1, 2).T, strict=True))
    content = parquet(**columns) if packed else lines
    return {"t/types.toml": SEEN.format(kind), f"t/e.{kind}": content}


# users 0, 1, 2 are vertices 0, 1, 2; items 3 and 4
BY_USERS = [(0, 0), (1, 0), (0, 1)]
BY_ITEMS = [(v, u) for u, v in BY_USERS]
OF_USERS = {(3, 0): 1.0, (3, 1): 1.0, (4, 0): 1.0}
BY_NAMES = [
    *(
        Case(f"A1: {names}{' of Parquet' * packed}", seen(names, edges, packed), entries=OF_USERS,
             silent=("read by their names",))
        for names, edges, packed in (
            ("user,item", BY_USERS, False),
            ("user_id,item_id", BY_USERS, True),
            ("source,target", BY_USERS, False),
            ("target,source", BY_ITEMS, False),
            ("src,dst", BY_USERS, True),
            ("item,user", BY_ITEMS, False),
            ("itemId,userId", BY_ITEMS, True),
            ("row,col", BY_ITEMS, False),
            ("a,b", BY_ITEMS, False),
        )
    ),
    Case("columns of a relation", {**seen("a,b", BY_ITEMS),
         "t/e.csv": "item,user,rating,time\n0,0,5,9\n1,1,3,9\n"},
         refused="t/e.csv: which columns are the edges? Leave columns out, or name them source"),
    Case("ignored columns of a relation", {**seen("a,b", []),
         "t/e.csv": "source,target,kind,at\n0,0,5,9\n1,0,3,9\n0,1,2,8\n"},
         says=("e.csv: ignored: 'kind', 'at'",), silent=("--columns",), entries=OF_USERS),
    Case("sizes before a relation", {**seen("a,b", []),
         "t/e.csv": "2,3,3\n0,0,1\n0,1,1\n1,0,1\n"}, refused="e.csv, line 1|out of range "
         "0..1: '2': vertices count from 0 within their type (put #"),
    Case("A1: a user beyond the type", seen("user,item", [(0, 0), (3, 1)]),
         refused="e.csv, line 3|a vertex of type 'users' is out of range 0..2: '3'"),
]  # fmt: skip
KINDS = [
    of_data("M5 a wrong row is the file's, whose ids are shuffled",
         saved("t", id=np.array(ORDER), x=np.where(np.arange(N) == 2, np.inf, 1.0)[:, None]),
         "t.npz", refused="'inf' in row 2, column 0 (counted from 0)"),
    Case("M5 a label by its id", {"g.txt": FROM_7, "t.csv": table("id",
         first=7).replace("\n9,2,20,2", "\n9,2,20,5000")}, "compile g.txt --data t.csv PLAIN",
         refused="the label of vertex 9 "),
    Case("M5 weights of a vertex by its id", {"g.txt": "1000 1001 -2\n1001 1000 1\n"},
         "compile g.txt --normalize row -p 1 -o p.h5",
         refused="the weights of vertex 1000 (with its self loop"),
    of_data("labels that are real", saved("t", x=FEATURES, label=LABELS.astype(float)), "t.npz",
         refused="key 'label' must be a list of integers, not 'float64'|y.long()"),
    of_data("masks that overlap", saved("t", x=FEATURES, val_mask=LABELS == 0,
         test_mask=LABELS < 2), "t.npz", says=("4 vertices are in 'val_mask' and in 'test_mask'",)),
    Case("M10 bfloat16", {"g.pt": half}, rows={"features": FEATURES}),
    of_data("M10 labels from 1", saved("t", x=FEATURES, y=LABELS + 1), "t.npz",
         says=("labels: the classes 1..3 occur, 0 does not",)),
    Case("M8 weights of 0", {"g.mtx": RING, "w.txt": "0\n" * N},
         "compile g.mtx --weights w.txt PLAIN", says=("all are 0",)),
    *(
        Case(f"weights by ids from {first}", {"g.mtx": RING,
             "w.csv": "".join(f"{v + first},{v + 2}\n" for v in ORDER)},
             "compile g.mtx --weights w.csv PLAIN", says=(said,), silent=("first column",) if first
             else ("warning: w.csv", "first column"))
        for first, said in ((0, ""), (1, "ids count from 1 here, the graph's from 0"))
    ),
    *(
        of_data(f"an index of the rows, {name!r}, beside ids",
             "".join(f"{k + first - 1 if k else name},{line}\n" for k,
             line in enumerate(table("id").splitlines())), rows=RIGHT, silent=("warning: t.csv",))
        for name, first in (("", 0), ("Unnamed: 0", 0), ('""', 1))
    ),
    Case("lists of vertices where ids are others", {"g.txt": FROM_7,
         "t.npz": saved("t", x=FEATURES, train_idx=np.arange(7, 9))},
         "compile g.txt --data t.npz PLAIN",
         says=("t.npz: the vertices of 'train_idx' are read as vertex numbers|ids (7, 8, 9, 10",),
         rows={"train_mask": (np.arange(N) == 7) | (np.arange(N) == 8)}),
    *(
        Case(f"names of vertices under another name, {order[:3]}",
             {"g.txt": "".join(f"v{i} v{(i + 1) % 9}\n" for i in range(9)),
             "t.csv": "who,town,f0\n" + "".join(f"v{v},x,{v}\n" for v in order)},
             f"compile g.txt --data t.csv {more} PLAIN", refused=words, rows={} if words
             else {"features": np.arange(9, dtype=np.float32)[:, None]},
             silent=("warning: t.csv: rows", "'who'"))
        for order, more, words in (
            (range(9), "", ""),
            (range(8, -1, -1), "", "t.csv: column 'who' holds every vertex once|--key id=who"),
            (range(8, -1, -1), "--key id=who", ""),
        )
    ),
    Case("names of vertices under another name in Parquet",
         {"g.txt": "".join(f"v{i} v{(i + 1) % N}\n" for i in range(N)),
         "t.parquet": parquet(town=[None] * N, who=[f"v{v}" for v in ORDER], f0=ORDER)},
         "compile g.txt --data t.parquet PLAIN",
         refused="t.parquet: column 'who' holds every vertex once|--key id=who"),
    *(
        of_data(f"a range of pandas from {start}", lambda path, start=start,
             step=step: of_pandas(path, start, step), "t.parquet", says=(said,), silent=() if said
             else ("warning: t.parquet",), rows={"features": np.arange(N, dtype=np.float32)[::step,
             None]})
        for start, step, said in ((0, 1, ""), (N - 1, -1, ""), (700, 1, "ignored: 'index'"))
    ),
    *(
        of_data(f"an empty {name}", table("id").replace(*pair, 1),
             refused=f"t.csv, line 2: column '{name}' is empty; give every row a number, as fillna")
        for name, pair in (("f0", ("\n3,3,", "\n3,,")), ("label", (",0\n", ",\n")))
    ),
    of_data("a mask of words", "id,train_mask\n" + "".join(f"{v},yes\n" for v in range(N)),
         refused="t.csv, line 2: not a table of numbers: 'yes' in column 'train_mask' (masks "
         "hold 0"),
    Case("ids of text without a line of names", {"g.csv": "ann,bob\nbob,ann\n",
         "t.csv": "bob,4,1\nann,1,0\n"}, "compile g.csv --data t.csv PLAIN",
         refused="t.csv, line 1: the line is neither numbers only nor names of|as id,f0,label"),
    Case("numbers of rows beside names", {"g.csv": "ann,bob\nbob,ann\n", "t.csv": "0,4\n1,5\n"},
         "compile g.csv --data t.csv PLAIN",
         says=("t.csv: the first column holds row numbers, but is read as a feature",),
         rows={"features": np.array([[0, 4], [1, 5]], np.float32)}),
    of_data("what is seldom meant, of a table",
         "label,train_mask,val_mask\n" + "1,1,1\n" + "2,1,0\n" * (N - 1),
         says=("warning: t.csv: labels: the classes 1..2 occur, 0 does not",
         "warning: t.csv: 1 vertices are in 'train_mask' and in 'val_mask'")),
    Case("weights of names", {"g.csv": "a,b\nb,c\nc,d\nd,a\n",
         "w.csv": "id,weight\nd,1\na,1\nc,1\nb,1000\n"},
         "compile g.csv --weights w.csv --normalize none --effort fast -p 2 -o p.h5",
         says=("the heaviest vertex weighs 1000",)),
    Case("rows without ids of ids with gaps", {"g.txt": "10 20\n20 30\n30 10\n",
         "t.csv": "f0\n1\n2\n3\n"}, "compile g.txt --data t.csv PLAIN",
         says=("t.csv: rows without ids are read in the graph's order of vertices (10, 20, 30)",)),
    Case("a row more than ids from 1", {"g.txt": "1 2\n2 3\n", "t.csv": "f0\n1\n1\n1\n1\n"},
         "compile g.txt --data t.csv PLAIN",
         refused="graph has 3 vertices: vertices count from 0 here, and the graph's ids from 1"),
    of_data("labels of words", "id,label\n" + "".join(f"{v},cat\n" for v in range(N)),
         refused="line 2: not a table of numbers: 'cat' in column 'label'|pandas.factorize"),
]  # fmt: skip


def edge_k_has_k(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "p.h5", "r") as file:
        row = file["rows/global_id"][:]
        np.testing.assert_array_equal(file["matrix/edge_features"][:, 0], row)


@pytest.mark.parametrize("case", [*CASES, *OF_TYPES, *BY_NAMES, *KINDS], ids=str)
def test_a_row_is_its_vertex(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)


def test_a_patch_says_what_it_does_not_take(tmp_path, monkeypatch):
    for name, features in (("g", FEATURES), ("same", FEATURES), ("new", FEATURES + 1)):
        pair = np.stack([np.arange(N), (np.arange(N) + 1 + (name != "g")) % N])
        np.savez(tmp_path / f"{name}.npz", edge_index=pair, num_nodes=N, x=features)
    run_case(Case("plan", {}, "compile g.npz PLAIN"), tmp_path, monkeypatch)
    for words, says in (
        ("same.npz", ()),
        ("new.npz", ("new.npz: the features that it holds differ from the plan's|--data",)),
        ("new.npz --data new.npz", ()),
    ):
        silent = () if says else ("differ from the plan's",)
        command = f"patch p.h5 --graph {words} -o q.h5"
        run_case(Case(words, {}, command, says, silent=silent), tmp_path, monkeypatch)
