"""What is no file is refused before it is opened, and what a source may cost follows its size."""

import gzip
import os
import re
import socket
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from cases import long, turns
from click.testing import CliRunner
from scipy import sparse

import plancc
from plancc.errors import InputError
from plancc.files import check_input, open_file, read_toml, sha256_of
from plancc.graph import bounds
from plancc.graph.bounds import VERTICES, VERTICES_PER_BYTE
from plancc.graph.formats import reading_of
from plancc.graph.npz import Archive, map_array
from plancc.graph.partvector import read_part_vector
from plancc.graph.vertexdata import VertexData
from plancc.graph.vertexsources import read_vertex_data
from plancc.models.capacities import read_capacities
from plancc.plan.slices import read_rank_slice
from plancc_cli.group import command as plancc_command
from plancc_lab.report.runs import read_log, read_timeline
from plancc_lab.study.study import open_kept
from plancc_runtime.data import load_data
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.single import SingleTransport

READERS = {
    **{"graph.mtx": plancc.read_graph, "graph.mtx.gz": plancc.read_graph},
    **{"graph.graph": plancc.read_graph, "graph.txt": plancc.read_graph},
    **{"graph.npz": plancc.read_graph, "graph.pt": plancc.read_graph},
    **{"graph.h5ad": plancc.read_graph, "graph.parquet": plancc.read_graph},
    **{"graph.graphml": plancc.read_graph, "graph.gml": plancc.read_graph},
    **{"graph.net": plancc.read_graph, "data.npz": lambda path: read_vertex_data(path, 4)},
    "data.npy": lambda path: read_vertex_data(path, 4),
    "data.csv": lambda path: read_vertex_data(path, 4),
    **{"data.parquet": lambda path: read_vertex_data(path, 4), "array.npy": map_array},
    **{"parts": read_part_vector, "parts.json": read_part_vector, "capacities": read_capacities},
    **{"machine.toml": read_toml, "log.jsonl": read_log, "trace.json": read_timeline},
    **{"anything": sha256_of, "opened": open_file, "checked": check_input},
}


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        made.bind(path.name)
        os.chdir(here)


OTHERS = {
    "named pipe": _pipe,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
}


@turns(name=READERS, what=OTHERS)
def test_only_files_are_opened(tmp_path, name, what):
    path = tmp_path / name
    OTHERS[what](path)
    with pytest.raises(InputError) as caught:
        READERS[name](path)
    assert str(caught.value) == f"{path}: is not a regular file but a {what}"


def test_a_folder_of_parts_with_a_pipe(tmp_path):
    pytest.importorskip("pyarrow")
    _pipe(tmp_path / "part-0.parquet")
    with pytest.raises(InputError, match="named pipe"):
        plancc.read_graph(tmp_path, "parquet")


def test_a_pipe_is_no_target_of_kept_rows(tmp_path):
    _pipe(tmp_path / "rows")
    with pytest.raises(plancc.OutputError, match="not a regular file"):
        open_kept(tmp_path / "rows")


def test_links_to_files_are_files(tmp_path):
    (tmp_path / "a.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n"
    )
    (tmp_path / "b.mtx").symlink_to("a.mtx")
    assert plancc.read_graph(tmp_path / "b.mtx").num_nonzeros == 1


def test_names_that_are_none(tmp_path):
    for name in ("nul\0", "x" * 5000):
        with pytest.raises(InputError):
            check_input(tmp_path / name)


def _header(order: int) -> str:
    return f"%%MatrixMarket matrix coordinate pattern general\n{order} {order} 1\n1 1\n"


def test_vertices_of_a_header_follow_the_size(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(_header(2**31 - 1))
    with pytest.raises(InputError) as caught:
        plancc.read_graph(path)
    for words in (str(path), "2147483647", str(path.stat().st_size), "`allow_large`"):
        assert words in str(caught.value)
    path.write_text(_header(VERTICES))
    assert plancc.read_graph(path).num_vertices == VERTICES
    many = VERTICES + VERTICES_PER_BYTE * 100
    path.write_text(_header(many))
    with pytest.raises(InputError, match="allow_large"):
        plancc.read_graph(path)
    assert plancc.read_graph(path, allow_large=True).num_vertices == many


def test_the_number_of_vertices_that_the_user_names_is_right(tmp_path):
    (tmp_path / "a.txt").write_text("0 1\n")
    count = VERTICES + 10**5
    assert plancc.read_graph(tmp_path / "a.txt", num_vertices=count).num_vertices == count
    (tmp_path / "a.txt").write_text(f"0 {2 * VERTICES}\n")
    with pytest.raises(InputError, match="allow_large"):
        plancc.read_graph(tmp_path / "a.txt", keep_ids=True)


def test_a_long_shape_is_refused_in_a_short_sentence(tmp_path):
    matrix = sparse.csr_array(np.eye(3))
    np.savez_compressed(
        tmp_path / "a.npz",
        format=b"csr",
        shape=np.zeros(10**6, np.int64),
        data=matrix.data,
        indices=matrix.indices,
        indptr=matrix.indptr,
    )
    with pytest.raises(InputError, match="'shape' must have 2 entries") as caught:
        plancc.read_graph(tmp_path / "a.npz")
    assert len(str(caught.value)) < 500


@pytest.fixture
def unpacked(monkeypatch):
    """1 MiB in place of the many that a file of any size may become."""
    monkeypatch.setattr(bounds, "UNPACKED", 1 << 20)
    return 1 << 20


def test_arrays_expand_within_bounds(tmp_path, unpacked):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros(unpacked // 2 * 3, np.uint8), y=np.arange(5))
    with pytest.raises(InputError, match=r"key 'x' takes .* can only hold .*`allow_large`"):
        Archive(path)["x"]
    assert Archive(path)["y"].tolist() == list(range(5))
    with pytest.raises(InputError, match="`allow_large`"):
        read_vertex_data(path, unpacked // 2 * 3)


def test_text_expands_within_bounds(tmp_path, unpacked):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"0 1\n" + b"#\n" * unpacked))
    with pytest.raises(InputError, match=r"its content takes .*`allow_large`"):
        plancc.read_graph(path)
    assert plancc.read_graph(path, allow_large=True).num_nonzeros == 1


@pytest.mark.parametrize(("key", "number"), [("labels", 2**31 - 1), ("clusters", 2**31 - 1)])
def test_numbers_of_classes_and_clusters(tmp_path, key, number):
    path = tmp_path / "a.npz"
    np.savez(path, **{key: np.array([0, 1, number, 2])})
    wrong = {"labels": rf"vertex 2 is '{number}'", "clusters": rf"holds '{number}' in row 2"}
    with pytest.raises(InputError, match=wrong[key]):
        read_vertex_data(path, 4)
    np.savez(path, **{key: np.array([0, 1, 1000, 2])})
    assert getattr(read_vertex_data(path, 4), key).max() == 1000
    if key == "labels":
        np.savez(path, labels=np.array([0, 1, 2000, 2]))
        assert read_vertex_data(path, 4, allow_large=True).labels.max() == 2000


def test_a_zip_of_another_version(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3))
    data = bytearray(path.read_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 6] = 93
    path.write_bytes(data)
    with pytest.raises(InputError):
        Archive(path)["x"]
    assert zipfile.is_zipfile(path)


@pytest.mark.parametrize(
    "patch", [None, (16, bytes(16)), (24, b"\xf0"), pytest.param((16, b"\0\0"), marks=long)]
)
def test_a_heap_without_end(tmp_path, patch, monkeypatch):
    path, matrix = tmp_path / "a.h5ad", sparse.csr_array(np.eye(3))
    with h5py.File(path, "w") as file:
        group = file.create_group("obsp/connectivities")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", (3, 3)
        for key in ("data", "indices", "indptr"):
            group[key] = getattr(matrix, key)
    if patch is None:
        assert plancc.read_graph(path).num_nonzeros == 3
        return
    data = bytearray(path.read_bytes())
    place = data.index(b"GCOL") + patch[0]
    data[place : place + len(patch[1])] = patch[1]
    path.write_bytes(data)
    monkeypatch.setattr("plancc.guarded_child.CPU_SECONDS", 2)
    with pytest.raises(InputError, match=r"the file is damaged|cannot be read as .h5ad"):
        plancc.read_graph(path)


def test_reading_options_with_an_open_quote():
    with pytest.raises(InputError, match="cannot be read"):
        reading_of("columns='a")
    assert reading_of("num_vertices=" + "9" * 5000) == {}


def test_settings_are_small(tmp_path):
    (tmp_path / "a.toml").write_text("a." * 10**5 + "a = 1")
    with pytest.raises(InputError, match="more than 50 levels"):
        read_toml(tmp_path / "a.toml")
    (tmp_path / "a.toml").write_text("a = [" + "1.5, " * 10**4 + "]")
    assert len(read_toml(tmp_path / "a.toml")["a"]) == 10**4
    (tmp_path / "a.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read_toml(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("threads", "said"), [(0, "at least 1"), (1025, "at most 1024"), (10**6, "at most 1024")]
)
def test_threads_are_bounded(threads, said):
    with pytest.raises(InputError, match=f"`threads` {threads}: must be {said}"):
        plancc.compile(sparse.csr_array(np.eye(3)), "block", 2, threads=threads)
    with pytest.raises(InputError, match=f"must be {said}"):
        TrainOptions(threads=threads)


def test_the_command_line_bounds_threads():
    answer = CliRunner().invoke(plancc_command, ["calibrate", "--threads", "1000000"])
    assert answer.exit_code == 2
    assert "1<=x<=1024" in answer.output
    answer = CliRunner().invoke(plancc_command, ["refine", "--threads", "1000000"])
    assert str(answer.exception) == "--threads 1000000: must be at most 1024"


def test_names_of_files_are_printable(tmp_path):
    path = tmp_path / "\x1b[31m.h5"
    plancc.compile(sparse.csr_array(np.eye(3)), "block", 2).save(path)
    answer = CliRunner().invoke(plancc_command, ["verify", str(path)])
    assert answer.exit_code == 0
    assert "\N{REPLACEMENT CHARACTER}[31m.h5: valid" in answer.output
    assert "\x1b" not in answer.output


def test_labels_of_a_plan_ask_for_no_gigabytes(tmp_path):
    path, most = tmp_path / "plan.h5", 1024 + 16 * 3
    plan = plancc.compile(sparse.csr_array(np.eye(3)), "block", 2)
    for label, words in ((2**31 - 1, "up to '2147483647'"), (most, f"'{most}'"), (most - 1, "")):
        data = VertexData(labels=np.array([0, -1, label], np.int32))
        replace(plan, vertex_data=data).save(path)
        _, part = read_rank_slice(path, 0, 1)
        load = partial(load_data, part, SingleTransport(), torch.float32, plan=str(path))
        if words:
            with pytest.raises(InputError, match=words):
                load(options=TrainOptions())
            for command in ("simulate", "rehearse"):
                answer = CliRunner().invoke(plancc_command, [command, str(path)])
                assert isinstance(answer.exception, InputError), command
                assert re.search(words, str(answer.exception)), command
            said = CliRunner().invoke(plancc_command, ["inspect", str(path)])
            assert said.exit_code == 0
            assert "number the classes from 0, or give dims to" in " ".join(said.output.split())
        if label <= most:
            given = ["simulate", str(path), "--dims", f"4,{label + 1}"]
            assert CliRunner().invoke(plancc_command, given).exit_code == 0
            trained = load(options=TrainOptions(classes=label + 1))
            assert trained.num_classes == label + 1
