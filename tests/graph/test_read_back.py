"""Features of every reader of vertex data, from their file through a plan and back, row by row.

Every row tells whose it is, so that a row of another vertex is seen.
"""

import gzip
import warnings
from dataclasses import dataclass, field
from typing import Any

import h5py
import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from cases import turns
from graph_helpers import put_sparse, write_parquet

import plancc
from plancc.errors import InputError, PlanccWarning

pytestmark = pytest.mark.filterwarnings("ignore::plancc.errors.PlanccWarning")


def features(ids):
    """Three numbers that say which id a row is of; none is zero."""
    ids = np.asarray(ids, np.int64)
    return np.stack([ids + 1, (ids * 7919) % 4093 + 1, ids // 3 - 1000], axis=1).astype(np.float32)


@dataclass(frozen=True)
class Ids:
    """An edge list, how it is read, and the ids that its vertices then have."""

    edges: tuple[tuple[int, int], ...]
    vertices: tuple[int, ...]
    reading: dict[str, Any] = field(default_factory=dict)


IDS = {
    "whole": Ids(((4, 0), (0, 1), (3, 2), (5, 4), (2, 1)), (0, 1, 2, 3, 4, 5)),
    "holes": Ids(((90, 7), (7, 20), (20, 3), (41, 90)), (3, 7, 20, 41, 90)),
    "holes kept": Ids(((6, 1), (1, 0), (4, 6)), tuple(range(7)), {"keep_ids": True}),
    "from one": Ids(((5, 1), (1, 2), (2, 3), (4, 5)), (1, 2, 3, 4, 5)),
    "from one kept": Ids(((5, 1), (1, 2), (2, 3), (4, 5)), tuple(range(6)), {"keep_ids": True}),
    "trailing": Ids(((3, 0), (0, 1), (1, 2)), tuple(range(9)), {"num_vertices": 9}),
    "holes and trailing": Ids(((5, 2), (2, 1)), tuple(range(8)), {"num_vertices": 8}),
    "large": Ids(((2**40, 5), (5, 77), (77, 2**40)), (5, 77, 2**40)),
}


def as_text(rows, mark, names=None):
    lines = [",".join(names)] if names else []
    lines += [",".join(repr(float(x)) if x % 1 else str(int(x)) for x in row) for row in rows]
    return "\n".join(lines).replace(",", mark) + "\n"


def npz(path, x, ids):
    np.savez(path, features=x, **({} if ids is None else {"ids": ids}))


def sparse_npz(path, x, ids):
    m = sp.csr_array(x)
    held = {f"feat_{name}": getattr(m, name) for name in ("indptr", "indices", "data", "shape")}
    np.savez(path, **held, **({} if ids is None else {"id": ids}))


def npy(path, x, ids):
    np.save(path, x)


def table(path, x, ids):
    names, rows = ["f0", "f1", "f2"], x.tolist()
    if ids is not None:  # the column of ids is in the midst, features are out of order
        names = ["f2", "id", "f0", "f1"]
        rows = [[row[2], each, row[0], row[1]] for each, row in zip(ids, rows, strict=True)]
    text = as_text(rows, "\t" if ".tsv" in path.name else ",", names).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def unnamed(path, x, ids):
    path.write_text(as_text(x.tolist(), ","))


def parquet(path, x, ids):
    held = {"x": x.tolist()} | ({} if ids is None else {"id": np.asarray(ids)})
    write_parquet(path, held)


def parquet_columns(path, x, ids):
    held = {f"feat_{k}": x[:, k] for k in (2, 0, 1)} | ({} if ids is None else {"ids": ids})
    write_parquet(path, held, row_group_size=2)


BESIDE = {
    "a.npz": npz,
    "sparse.npz": sparse_npz,
    "a.csv": table,
    "a.tsv": table,
    "a.csv.gz": table,
    "a.parquet": parquet,
    "columns.parquet": parquet_columns,
    "a.npy": npy,
    "unnamed.csv": unnamed,
}
"""Writers of files that hold features and no graph."""
NO_IDS = ("a.npy", "unnamed.csv")
"""Those that have no place for ids."""


def read_back(plan, path):
    """Features of every id, by way of a plan file."""
    plan.save(path)
    found = plancc.load(path)
    ids = found.global_id if found.original_id is None else found.original_id[found.global_id]
    return dict(zip(ids.tolist(), found.vertex_data.features.tolist(), strict=True))


def expected(ids):
    return dict(zip(ids, features(ids).tolist(), strict=True))


@turns(
    given=[(name, by_id) for name in BESIDE for by_id in (False, True)[: 2 - (name in NO_IDS)]],
    case=IDS,
)
def test_beside_an_edge_list(given, case, tmp_path):
    name, by_id = given
    write, ids = BESIDE[name], IDS[case]
    (tmp_path / "g.txt").write_text("".join(f"{u} {v}\n" for u, v in ids.edges))
    graph = plancc.read_graph(tmp_path / "g.txt", **ids.reading)
    rows = np.array(ids.vertices)
    if by_id:  # in another order, among rows of ids that do not occur
        rows = np.random.default_rng(len(case)).permutation([*rows, max(rows) + 1, max(rows) + 5])
    write(tmp_path / name, features(rows), rows if by_id else None)
    plan = plancc.compile(graph, "block", 2, data=tmp_path / name)
    assert read_back(plan, tmp_path / "plan.h5") == expected(ids.vertices)


@turns(more=[-1, 1], case=IDS, name=BESIDE)
def test_a_row_too_many_or_too_few_is_refused(name, case, more, tmp_path):
    """Rows without ids are of all vertices or of none: nothing is shifted, cut or filled."""
    ids = IDS[case]
    (tmp_path / "g.txt").write_text("".join(f"{u} {v}\n" for u, v in ids.edges))
    graph = plancc.read_graph(tmp_path / "g.txt", **ids.reading)
    BESIDE[name](tmp_path / name, features(range(len(ids.vertices) + more)), None)
    with pytest.raises(InputError, match=r"rows|the graph \d+ vertices"):
        plancc.compile(graph, "block", 2, data=tmp_path / name)


EDGES = np.array([(4, 1), (1, 0), (6, 4), (0, 6)])
"""There are 9 vertices; 2, 3 and 5 are holes, 7 and 8 are at the end without an edge."""
N = 9


def matrix():
    return sp.csr_array((np.ones(len(EDGES)), EDGES.T), (N, N))


def pt(path):
    x = torch.tensor(features(range(N)))
    torch.save({"edge_index": torch.tensor(EDGES.T.copy()), "x": x}, path)


def edge_index_npz(path):
    np.savez(path, edge_index=EDGES.T, num_nodes=N, features=features(range(N)))


def csr_npz(path):
    m = matrix()
    np.savez(path, indptr=m.indptr, indices=m.indices, num_nodes=N, features=features(range(N)))


def h5ad(path):
    with h5py.File(path, "w") as file:
        file["X"] = features(range(N))
        put_sparse(file, "obsp/connectivities", matrix())


def ogb(path):
    for name, rows in {
        "edge": EDGES,
        "num-node-list": [[N]],
        "num-edge-list": [[len(EDGES)]],
        "node-feat": features(range(N)),
    }.items():
        (path / "raw").mkdir(parents=True, exist_ok=True)
        text = as_text(np.asarray(rows).tolist(), ",")
        (path / f"raw/{name}.csv.gz").write_bytes(gzip.compress(text.encode()))


WITHIN = {
    "a.pt": pt,
    "edges.npz": edge_index_npz,
    "csr.npz": csr_npz,
    "a.h5ad": h5ad,
    "ogbn_small": ogb,
}
"""Writers of sources that hold a graph and its features."""


@turns(name=WITHIN, apart=[False, True])
def test_within_a_graph(name, apart, tmp_path):
    """Rows stay with holes and the last vertices; also as the data of another file's graph."""
    WITHIN[name](tmp_path / name)
    graph, data = tmp_path / name, None
    if apart:
        (tmp_path / "g.txt").write_text("".join(f"{u} {v}\n" for u, v in EDGES))
        graph, data = plancc.read_graph(tmp_path / "g.txt", num_vertices=N), tmp_path / name
    plan = plancc.compile(graph, "block", 2, data=data)
    assert read_back(plan, tmp_path / "plan.h5") == expected(range(N))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npz"])
def test_ids_that_are_words(name, tmp_path):
    """Rows named by words are refused, not taken in their order."""
    (tmp_path / "g.txt").write_text("0 1\n1 2\n")
    words, x = ["b", "c", "a"], features(range(3))
    if name == "a.csv":
        rows = zip(words, x.tolist(), strict=True)
        lines = [f"{each},{row[0]},{row[1]},{row[2]}" for each, row in rows]
        (tmp_path / name).write_text("\n".join(["id,f0,f1,f2", *lines]) + "\n")
    else:
        BESIDE[name](tmp_path / name, x, words)
    with pytest.raises(InputError, match=rf"{name}.*(id|line)"):
        plancc.compile(tmp_path / "g.txt", "block", 1, data=tmp_path / name)


def test_rows_without_ids_follow_the_vertices_and_say_so(tmp_path):
    graph, x = networkx.Graph([(2, 0), (0, 3), (3, 1)]), features(range(4))
    npz(tmp_path / "x.npz", x, None)
    said = r"x.npz: rows without ids are read in the graph's order of vertices \(2, 0, 3, 1\); "
    with pytest.warns(PlanccWarning, match=said):
        plan = plancc.compile(graph, "block", 2, data=tmp_path / "x.npz")
    rows = dict(zip([2, 0, 3, 1], x.tolist(), strict=True))
    assert read_back(plan, tmp_path / "plan.h5") == rows
    npz(tmp_path / "x.npz", x, range(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanccWarning)
        plan = plancc.compile(graph, "block", 2, data=tmp_path / "x.npz")
    assert read_back(plan, tmp_path / "plan.h5") == expected(range(4))
