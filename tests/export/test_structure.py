"""What `plancc export --to` writes, read back without the frameworks."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import plancc
from plancc.errors import BackendUnavailable, InputError, OutputError, PlanccWarning
from plancc.export import EXPORTS, Export, export

DATA = {"features": "feat", "labels": "label", "clusters": "cluster"}
DATA |= {mask: mask for mask in ("train_mask", "val_mask", "test_mask")}


def test_plan_json_says_what_the_files_do_not(case, tmp_path):
    export(case.plan, "petsc", tmp_path / "out")
    about = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert about["content_sha256"] == case.plan.content_sha256()
    assert about["normalization"] == "row"
    assert about["self_loops"] is True
    assert about["num_parts"] == 4
    assert about["provenance"]["model"] == "file"


def test_dgl_chunked(case, tmp_path):
    folder = tmp_path / "chunked"
    export(case.plan, "dgl-chunked", folder)
    about = json.loads((folder / "partition_meta.json").read_text())
    assert about == {"version": "1.0.0", "num_parts": 4, "algo_name": "metis"}
    assert np.array_equal(np.loadtxt(folder / "_N.txt", dtype=int), case.owner)
    meta = json.loads((folder / "metadata.json").read_text())
    assert meta["num_nodes_per_type"] == [61]
    assert [sum(meta["num_nodes_per_chunk"][0])] == meta["num_nodes_per_type"]
    ends = [np.loadtxt(folder / f, dtype=int) for f in meta["edges"]["_N:_E:_N"]["data"]]
    assert [len(each) for each in ends] == meta["num_edges_per_chunk"][0]
    source, target = np.concatenate(ends).T
    weight = _chunks(folder, meta["edge_data"]["_N:_E:_N"]["weight"])
    matrix = np.zeros_like(case.matrix)
    np.add.at(matrix, (target, source), weight)
    np.testing.assert_allclose(matrix, case.matrix, rtol=1e-15)
    nodes = meta["node_data"]["_N"]
    for key, name in DATA.items():
        np.testing.assert_array_equal(_chunks(folder, nodes[name]), case.data[key])
    np.testing.assert_array_equal(_chunks(folder, nodes["original_id"]), case.ids)


def _chunks(folder: Path, told) -> np.ndarray:
    return np.concatenate([np.load(folder / name) for name in told["data"]])


def test_petsc(case, tmp_path):
    folder = tmp_path / "petsc"
    export(case.plan, "petsc", folder)
    order = _index_set(folder / "ordering.is")
    raw = (folder / "matrix.petsc").read_bytes()
    class_id, rows, columns, nnz = np.frombuffer(raw, ">i4", 4)
    assert (class_id, rows, columns) == (1211216, 61, 61)
    assert nnz == np.count_nonzero(case.matrix)
    count = np.frombuffer(raw, ">i4", rows, 16)
    index = np.frombuffer(raw, ">i4", nnz, 16 + 4 * rows)
    value = np.frombuffer(raw, ">f8", nnz, 16 + 4 * (rows + nnz))
    matrix = np.zeros_like(case.matrix)
    matrix[np.repeat(np.arange(rows), count), index] = value
    np.testing.assert_allclose(matrix, case.matrix[np.ix_(order, order)], rtol=1e-15)
    per_rank = _index_set(folder / "rows_per_rank.is")
    np.testing.assert_array_equal(case.owner[order], np.repeat(np.arange(4), per_rank))
    starts = np.concatenate([[0], np.cumsum(per_rank)])
    for rank in range(4):
        used = np.flatnonzero(matrix[starts[rank] : starts[rank + 1]].any(axis=0))
        own = (used >= starts[rank]) & (used < starts[rank + 1])
        np.testing.assert_array_equal(_index_set(folder / "halo" / f"{rank}.is"), used[~own])
    raw = (folder / "features.petsc").read_bytes()
    assert np.frombuffer(raw, ">i4", 4).tolist() == [1211216, 61, 3, -1]
    features = np.frombuffer(raw, ">f8", 183, 16).reshape(61, 3)
    np.testing.assert_array_equal(features, case.data["features"][order])
    with np.load(folder / "vertex_data.npz") as data:
        for name in ("labels", "clusters", "train_mask", "val_mask", "test_mask"):
            np.testing.assert_array_equal(data[name], case.data[name][order])
        np.testing.assert_array_equal(data["original_id"], case.ids[order])


def _index_set(path: Path) -> np.ndarray:
    numbers = np.frombuffer(path.read_bytes(), ">i4")
    assert numbers[:2].tolist() == [1211218, len(numbers) - 2]
    return numbers[2:].astype(np.int64)


def test_hypre(case, tmp_path):
    folder = tmp_path / "hypre"
    export(case.plan, "hypre", folder)
    with np.load(folder / "vertex_data.npz") as data:
        order = data["vertex"]
        np.testing.assert_array_equal(data["features"], case.data["features"][order])
    wanted, first = case.matrix[np.ix_(order, order)], 0
    comms = [_comm(folder / f"comm.{rank:05d}") for rank in range(4)]
    starts = np.concatenate([[0], np.cumsum(np.bincount(case.owner, minlength=4))])
    for rank, comm in enumerate(comms):
        lines = (folder / f"matrix.{rank:05d}").read_text().splitlines()
        last = int(starts[rank + 1]) - 1
        assert list(map(int, lines[0].split())) == [first, last, first, last]
        entries = np.array([line.split() for line in lines[1:]], dtype=float)
        matrix = np.zeros_like(wanted)
        matrix[entries[:, 0].astype(int), entries[:, 1].astype(int)] = entries[:, 2]
        np.testing.assert_allclose(matrix[first : last + 1], wanted[first : last + 1], rtol=1e-15)
        for k, peer in enumerate(comm["recv_procs"]):
            theirs = comms[peer]
            at = theirs["send_procs"].index(rank)
            begin, end = theirs["send_map_starts"][at : at + 2]
            sent = starts[peer] + np.array(theirs["send_map_elmts"][begin:end])
            begin, end = comm["recv_vec_starts"][k : k + 2]
            np.testing.assert_array_equal(sent, comm["col_map_offd"][begin:end])
        used = np.flatnonzero(wanted[first : last + 1].any(axis=0))
        np.testing.assert_array_equal(comm["col_map_offd"], used[(used < first) | (used > last)])
        first = last + 1


def _comm(path: Path) -> dict[str, list[int]]:
    found = {}
    for line in path.read_text().splitlines():
        name, length, *numbers = line.split()
        assert int(length) == len(numbers)
        found[name] = list(map(int, numbers))
    return found


def test_pyg_partition_is_read_without_pickled_code(case, tmp_path):
    torch = pytest.importorskip("torch")
    folder = tmp_path / "partition"
    export(case.plan, "pyg-partition", folder)
    assert json.loads((folder / "META.json").read_text())["num_parts"] == 4
    np.testing.assert_array_equal(torch.load(folder / "node_map.pt", weights_only=True), case.owner)
    edge_map = torch.load(folder / "edge_map.pt", weights_only=True)
    matrix = np.zeros_like(case.matrix)
    for rank in range(4):
        part = folder / f"part_{rank}"
        graph = torch.load(part / "graph.pt", weights_only=True)
        edges = torch.load(part / "edge_feats.pt", weights_only=True)
        nodes = torch.load(part / "node_feats.pt", weights_only=True)
        assert torch.equal(edges["global_id"], graph["edge_id"])
        assert (edge_map[graph["edge_id"]] == rank).all()
        row, col = graph["row"].numpy(), graph["col"].numpy()
        assert (np.diff(col) >= 0).all()
        matrix[col, row] = edges["feats"]["edge_attr"][:, 0]
        vertex = nodes["global_id"].numpy()
        assert sorted(vertex) == np.flatnonzero(case.owner == rank).tolist()
        np.testing.assert_array_equal(nodes["feats"]["x"], case.data["features"][vertex])
        np.testing.assert_array_equal(nodes["feats"]["y"], case.data["labels"][vertex])
        np.testing.assert_array_equal(nodes["feats"]["original_id"], case.ids[vertex])
    np.testing.assert_allclose(matrix, case.matrix, rtol=1e-15)


def test_a_plan_without_vertex_data_and_with_an_empty_part(tmp_path):
    from plancc.graph.graph import Graph
    from plancc.graph.owners import Owners
    from plancc.plan.lowering import lower

    ptr, indices = np.array([0, 1, 2, 3]), np.array([1, 2, 0], np.int32)
    graph = Graph(ptr, indices, np.array([1.0, 2.0, 3.0], np.float32))
    plan = lower(
        graph, Owners(np.array([0, 2, 2], np.int32)), 3, normalization="none", self_loops=False
    )
    for target in ("dgl-chunked", "petsc", "hypre"):
        export(plan, target, tmp_path / target)
    assert (tmp_path / "hypre" / "matrix.00001").read_text() == "1 0 1 0\n"
    assert _comm(tmp_path / "hypre" / "comm.00001")["col_map_offd"] == []
    assert len(_index_set(tmp_path / "petsc" / "halo" / "1.is")) == 0


def test_errors(case, tmp_path, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        export(case.plan, "petsc", tmp_path / "full")
    with pytest.raises(OutputError, match="a file has this name; choose another name"):
        export(case.plan, "petsc", tmp_path / "full" / "mine")
    with pytest.raises(OutputError, match="does not exist"):
        export(case.plan, "petsc", tmp_path / "none" / "x")
    (tmp_path / "empty").mkdir()
    export(case.plan, "petsc", tmp_path / "empty")
    assert (tmp_path / "empty" / "plan.json").exists()
    monkeypatch.setattr("plancc.export.target.find_spec", lambda name: None)
    with pytest.raises(BackendUnavailable, match=r"needs dgl; .* torch==2\.2\.1 .*numpy<2"):
        export(case.plan, "distdgl", tmp_path / "x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full"]


def test_an_edge_plan_is_refused(tmp_path):
    import networkx as nx

    with pytest.warns(PlanccWarning):
        plan = plancc.compile(nx.karate_club_graph(), "medium-grain", 4)
    with pytest.raises(InputError, match="spreads the nonzeros of rows over several parts"):
        export(plan, "petsc", tmp_path / "x")


def test_nothing_is_left_of_an_export_that_fails(case, tmp_path, monkeypatch):
    def write(plan, folder):
        (folder / "half").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(EXPORTS._targets, "mine", f"{__name__}:MINE")
    monkeypatch.setattr(sys.modules[__name__], "MINE", Export("mine", write), raising=False)
    with pytest.raises(OutputError, match="the disk is full"):
        export(case.plan, "mine", tmp_path / "x")
    assert not list(tmp_path.iterdir())
