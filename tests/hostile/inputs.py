"""Files of graphs and of vertex data, of every format, damaged: bytes, numbers, lines, members.

Where a damaged file is read all the same, and the format is a simple one, a reader of a few lines
that shares no code with plancc's must find the same nonzeros.
"""

import gzip
import io
import json
import math
import re
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .attack import Case, Finding
from .damage import damaged, damaged_text
from .odd_files import (
    TRACE,
    damaged_member,
    evil_files,
    npy,
    npz,
    odd_archive,
    odd_array,
    odd_table,
)

N = 6
EDGES = ((0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3), (5, 0), (0, 5))
Entries = dict[tuple[int, int], float]
TEXTS = {
    "graph.mtx": (
        "%%MatrixMarket matrix coordinate real general\n% a comment\n"
        f"{N} {N} {len(EDGES)}\n" + "".join(f"{i + 1} {j + 1} {i + 0.5}\n" for i, j in EDGES)
    ),
    "pattern.mtx": (
        f"%%MatrixMarket matrix coordinate pattern symmetric\n{N} {N} 3\n2 1\n3 2\n6 1\n"
    ),
    "whole.mtx": f"%%MatrixMarket matrix coordinate integer general\n{N} {N} 2\n2 1 3\n3 2 -7\n",
    "graph.txt": "# a comment\n" + "".join(f"{i} {j}\n" for i, j in EDGES),
    "weights.csv": "source,target,weight\n" + "".join(f"{i},{j},{i + 1.5}\n" for i, j in EDGES),
    "graph.graph": "% a comment\n6 4 1\n2 3 6 5\n1 3 3 2\n2 2\n5 1\n4 1\n1 5\n",
    "graph.gml": (
        "graph [\n directed 1\n"
        + "".join(f" node [ id {i} ]\n" for i in range(N))
        + "".join(f" edge [ source {i} target {j} weight 2.5 ]\n" for i, j in EDGES)
        + "]\n"
    ),
    "graph.net": (
        f"*Vertices {N}\n"
        + "".join(f'{i + 1} "v{i}"\n' for i in range(N))
        + "*Arcs\n"
        + "".join(f"{i + 1} {j + 1} 2.5\n" for i, j in EDGES)
    ),
    "graph.graphml": (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
        '<key id="w" for="edge" attr.name="weight" attr.type="double"/>\n'
        '<graph edgedefault="directed">\n'
        + "".join(f'<node id="n{i}"/>\n' for i in range(N))
        + "".join(
            f'<edge source="n{i}" target="n{j}"><data key="w">2.5</data></edge>\n' for i, j in EDGES
        )
        + "</graph></graphml>\n"
    ),
    "named.data.csv": (
        "f0,f1,label,train_mask\n" + "".join(f"{i}.5,1,{i % 3},True\n" for i in range(N))
    ),
    "plain.data.tsv": "".join(f"{i}\t{i * i}\n" for i in range(N)),
    "graph.part.3": "".join(f"{i % 3}\n" for i in range(N)),
    "capacities.txt": "# of three parts\n1\n2\n0.5\n",
}
"""Texts by their names. Those with ``.data.`` in them hold vertex data."""
FOLDERS = ("ogbn/",)
"""Names of folders that are read as a whole."""
MAPPING = "orig_nids.npy"
"""What a partition of DistDGL has beside its description."""
SHARES = {".h5ad": 0.15, ".parquet": 3.0, ".json": 2.0}
"""How often files of these names are damaged, if not as often as others: a process reads .h5ad."""


class Inputs:
    """Graphs, vertex data, part vectors, capacities of every format, damaged."""

    def __init__(self, folder: Path) -> None:
        self.bases = {name: text.encode() for name, text in TEXTS.items()} | binaries(folder)
        self.tables = {name: text.encode() for name, text in _folders().items()}
        self.bases |= self.tables | evil_files()
        self.names = sorted(self.bases)
        shares = np.array([SHARES.get(Path(name).suffix, 1.0) for name in self.names])
        self.shares = shares / shares.sum()

    def case(self, trial: int) -> Case:
        rng = np.random.default_rng([2457690943, 17, trial])
        name = self.names[rng.choice(len(self.names), p=self.shares)]
        base = self.bases[name]
        if name in TEXTS or name in self.tables:
            content, how = damaged_text(base, rng)
            if rng.random() < 0.1 and not name.startswith(FOLDERS):
                content, name, more = _packed(content, name, rng)
                how += more
        elif name.startswith("code"):
            content, how = (base, "code") if rng.random() < 0.5 else damaged(base, rng)
        elif name.endswith(".parquet") and rng.random() < 0.7:
            content, how = odd_table(rng)
        elif name.endswith(".npy") and rng.random() < 0.5:
            content, how = odd_array(base, rng)
        elif base.startswith(b"PK") and rng.random() < 0.3:
            content, how = odd_archive(base, rng)
        elif base.startswith(b"PK") and rng.random() < 0.6:
            content, how = damaged_member(base, rng)
        else:
            content, how = damaged(base, rng)
        files = {name: content}
        if name.startswith(FOLDERS):  # the others as they were
            folder = name.split("/")[0]
            files |= {
                n: c for n, c in self.bases.items() if n.split("/")[0] == folder and n != name
            }
        if name.endswith(".json"):
            files[MAPPING] = npy(np.arange(N))
        return Case(f"{name}: {how}", files)

    def look(self, case: Case, folder: Path) -> str:
        """Read it: "ok", or an error of plancc; any other exception is a finding."""
        name = next(iter(case.files))
        path = folder / (name.split("/")[0] if name.startswith(FOLDERS) else name)
        warnings.simplefilter("ignore")
        try:
            return self._read(name, path)
        finally:
            if (folder / TRACE).exists():
                raise Finding("silent", f"code in {name} was executed")

    def _read(self, name: str, path: Path) -> str:
        from plancc.graph.formats import read_graph
        from plancc.graph.partvector import read_part_vector
        from plancc.graph.vertexsources import read_vertex_data
        from plancc.models.capacities import read_capacities

        if ".part." in name:
            parts = read_part_vector(path)
            if name.endswith(".json"):
                return "ok"
            _same(parts.tolist(), _int_lines, path)
            return "ok"
        if name.startswith("capacities"):
            read_capacities(path)
            return "ok"
        if ".data." in name:
            data = read_vertex_data(path, N)
            if name.endswith(".npy"):
                _same_array(data.features, path)
            return "ok"
        graph = read_graph(path)
        if name in ("csr.npz", "csc.npz", "coo.npz"):
            _same_matrix(graph, path)
        reader = next(
            (read for end, read in ORACLES.items() if name.removesuffix(".gz").endswith(end)), None
        )
        if reader is not None:
            _same((graph.num_vertices, entries_of(graph)), reader, path)
        if name.endswith((".npz", ".pt", ".h5ad")) or name.startswith(FOLDERS):
            read_vertex_data(path, graph, required=False)
        return "ok"


def binaries(folder: Path) -> dict[str, bytes]:
    """Files that are no text, by their names; those whose libraries are installed."""
    from scipy import sparse

    row, col = np.array(EDGES).T
    values = np.arange(len(row)) + 0.5
    matrix = sparse.csr_array((values, (row, col)), shape=(N, N))
    features = np.arange(N * 2, dtype=np.float32).reshape(N, 2)
    labels = np.arange(N) % 3
    arrays = {"csr": matrix, "csc": matrix.tocsc(), "coo": matrix.tocoo()}
    made = {}
    for name, each in arrays.items():
        stream = io.BytesIO()
        sparse.save_npz(stream, each, compressed=name == "csr")
        made[f"{name}.npz"] = stream.getvalue()
    made["plain.npz"] = npz(
        indptr=matrix.indptr, indices=matrix.indices, num_nodes=np.array(N), features=features,
        labels=labels, train_mask=labels == 1, clusters=labels,
    )  # fmt: skip
    sizes = np.array([N, 2])
    made["sparse.data.npz"] = npz(
        feat_indptr=np.arange(N + 1), feat_indices=labels % 2, feat_data=np.ones(N),
        feat_shape=sizes, train_idx=np.array([0, 1]), targets=labels[:, None] == np.arange(3),
    )  # fmt: skip
    stream = io.BytesIO()
    np.save(stream, features)
    made["x.data.npy"] = stream.getvalue()
    made["graph.h5ad"] = _h5ad(folder / "made.h5ad", matrix, features, labels)
    if find_spec("pyarrow") is not None:
        from pyarrow import parquet, table

        parquet.write_table(table({"src": row, "dst": col, "w": values}), folder / "made.parquet")
        made["graph.parquet"] = (folder / "made.parquet").read_bytes()
        held = {"id": np.arange(N), "f0": values[:N], "label": labels, "train_mask": labels == 1}
        parquet.write_table(table(held), folder / "made.parquet")
        made["table.data.parquet"] = (folder / "made.parquet").read_bytes()
    if find_spec("torch") is not None:
        import torch

        held = {"edge_index": torch.tensor(np.array(EDGES).T), "x": torch.tensor(features)}
        held |= {"y": torch.tensor(labels), "num_nodes": torch.tensor(N)}
        for name, new in (("graph.pt", True), ("old.pt", False)):
            stream = io.BytesIO()
            torch.save(held, stream, _use_new_zipfile_serialization=new)
            made[name] = stream.getvalue()
    return made


def _h5ad(path: Path, matrix: Any, features: Any, labels: Any) -> bytes:
    import h5py

    with h5py.File(path, "w") as file:
        group = file.create_group("obsp/connectivities")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
        for key in ("data", "indices", "indptr"):
            group[key] = getattr(matrix, key)
        file["X"] = features
        column = file.create_group("obs/label")
        column.attrs["encoding-type"] = "categorical"
        column["codes"], column["categories"] = labels, np.arange(3)
        file["obs/train_mask"] = labels == 1
    return path.read_bytes()


def _folders() -> dict[str, str]:
    """Tables of a folder of the Open Graph Benchmark, and what describes partitions of DistDGL."""
    made = {
        "ogbn/raw/edge.csv": "".join(f"{i},{j}\n" for i, j in EDGES),
        "ogbn/raw/num-node-list.csv": f"{N}\n",
        "ogbn/raw/num-edge-list.csv": f"{len(EDGES)}\n",
        "ogbn/raw/edge-feat.csv": "".join(f"{i}.5\n" for i, _ in EDGES),
        "ogbn/raw/node-feat.csv": "".join(f"{i},{i}.25\n" for i in range(N)),
        "ogbn/raw/node-label.csv": "0.0\n2.0\nnan\n1.0\n0.0\n1.0\n",
    }
    for name, rows in {"train": (0, 3), "valid": (1,), "test": (4,)}.items():
        made[f"ogbn/split/time/{name}.csv"] = "".join(f"{row}\n" for row in rows)
    described = {"graph_name": "small", "num_parts": 2, "num_nodes": N, "num_edges": 8}
    described |= {"node_map": {"_N": [[0, 3], [3, N]]}, "edge_map": {"_E": [[0, 4], [4, 8]]}}
    made["small.part.json"] = json.dumps(described | {"part_method": "metis"}, indent=1)
    return made


def _packed(content: bytes, name: str, rng: np.random.Generator) -> tuple[bytes, str, str]:
    """A text packed by gzip, for some in two streams, cut off, or with more behind it."""
    kind, at = rng.integers(6), int(rng.integers(len(content) + 1))
    packed, how = gzip.compress(content, 1, mtime=0), ""
    if kind == 0:
        packed, how = gzip.compress(content[:at]) + gzip.compress(content[at:]), "; two streams"
    elif kind == 1:
        packed, how = packed[: int(rng.integers(1, len(packed)))], "; a stream cut off"
    elif kind == 2:
        more = rng.integers(256, size=9).astype(np.uint8).tobytes()
        packed, how = packed + bytes(more if rng.random() < 0.5 else 9), "; more behind the stream"
    elif kind == 3:
        packed, how = damaged(packed, rng)
        how = f"; {how}"
    elif kind == 4:
        packed, how = gzip.compress(packed), "; packed twice"
    return packed, f"{name}.gz", how


def _same(found: Any, read: Callable[[str], Any], path: Path) -> None:
    """Finding unless a reader of its own finds the same in the text."""
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")
        wanted = read(text.removeprefix("\xef\xbb\xbf"))
    except Exception as error:
        raise Finding("silent", f"read what another reader refuses: {error!r}"[:200]) from error
    if not _equal(found, wanted):
        raise Finding("silent", f"read other numbers than another reader from {path.name}")


def entries_of(graph: Any) -> Entries:
    """The nonzeros of a graph of plancc."""
    rows = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    values = np.ones(len(rows)) if graph.values is None else graph.values
    pairs = zip(rows.tolist(), graph.indices.tolist(), strict=True)
    return dict(zip(pairs, values.tolist(), strict=True))


def _same_array(found: Any, path: Path) -> None:
    """Finding unless features are those that numpy reads, one column for a vector."""
    wanted = np.load(path)
    wanted = wanted.reshape(len(wanted), -1).astype(np.float32)
    if found is None or not np.array_equal(found, wanted, equal_nan=True):
        raise Finding("silent", f"read other features than numpy from {path.name}")


def _same_matrix(graph: Any, path: Path) -> None:
    """Finding unless scipy reads the same matrix, or none."""
    from scipy import sparse

    try:
        wanted = sparse.csr_array(sparse.load_npz(path)).astype(np.float64)
        wanted.sum_duplicates()
        wanted.eliminate_zeros()
    except Exception:
        return  # there is more than scipy reads
    if graph.types is not None:
        return  # a rectangular one
    values = np.ones(len(graph.indices)) if graph.values is None else graph.values
    found = sparse.csr_array((values, graph.indices, graph.indptr), shape=(graph.num_vertices,) * 2)
    if wanted.shape != found.shape or not np.allclose(
        found.toarray(), wanted.toarray(), rtol=1e-6, atol=0
    ):
        raise Finding("silent", f"read another matrix than scipy from {path.name}")


def _equal(found: Any, wanted: Any) -> bool:
    if not isinstance(found, tuple):
        return bool(found == wanted)
    (n, entries), (count, others) = found, wanted
    return n == count and entries.keys() == others.keys() and all(
        math.isclose(value, others[pair], rel_tol=1e-9) for pair, value in entries.items()
    )  # fmt: skip


def _int_lines(text: str) -> list[int]:
    return [int(line) for line in text.splitlines() if line.strip()]


def _summed(entries: list[tuple[int, int, float | None]]) -> Entries:
    """Duplicates added up, zeros left out; without values every entry is a one."""
    found: Entries = {}
    for i, j, value in entries:
        found[i, j] = 1.0 if value is None else found.get((i, j), 0.0) + value
    return {pair: value for pair, value in found.items() if value}


def _read_mtx(text: str) -> tuple[int, Entries]:
    head, *rest = text.split("\n")
    field, symmetry = head.lower().split()[3:]
    lines = [line.split() for line in rest if line.strip() and not line.lstrip().startswith("%")]
    (rows, columns, count), lines = map(int, lines[0]), lines[1:]
    assert rows == columns
    assert len(lines) == count
    entries: list[tuple[int, int, float | None]] = []
    for words in lines:
        i, j = int(words[0]) - 1, int(words[1]) - 1
        assert 0 <= i < rows
        assert 0 <= j < rows
        value = None if field == "pattern" else float(words[2])
        assert len(words) == (2 if value is None else 3)
        entries.append((i, j, value))
        if symmetry != "general" and i != j:
            sign = -1 if symmetry == "skew-symmetric" else 1
            entries.append((j, i, None if value is None else sign * value))
    return rows, _summed(entries)


def _read_edges(text: str) -> tuple[int, Entries]:
    text = re.sub(r'"([-+.\deE]+)"', r"\1", re.sub(r"(?<=\S)[ \t]+#.*", "", text))
    lines = [line for line in text.split("\n") if line.strip() and line[0] not in "#%"]
    mark = next((mark for mark in ",;" if mark in lines[0]), None)
    if not any(_is_number(word) for word in lines[0].split(mark)):  # names of columns
        names, lines = lines[0].split(mark), lines[1:]
        mark = next((mark for mark in ",;" if mark in lines[0]), None)
        assert len(names) == len(lines[0].split(mark))
    entries = [[word.strip() for word in line.split(mark)] for line in lines]
    ids = sorted({int(word) for words in entries for word in words[:2]})
    place = {number: k for k, number in enumerate(ids)}
    assert {len(words) for words in entries} in ({2}, {3})
    return len(ids), _summed([
        (place[int(u)], place[int(v)], float(w[0]) if w else None) for u, v, *w in entries
    ])  # fmt: skip


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def _read_metis(text: str) -> tuple[int, Entries]:
    lines = [line.split() for line in text.split("\n") if not line.startswith("%")]
    at = next(k for k, words in enumerate(lines) if words)
    n, _, *form = map(int, lines[at])
    digits = f"{form[0] if form else 0:03d}"
    skipped = (digits[0] == "1") + (digits[1] == "1") * (form[1] if len(form) > 1 else 1)
    entries: list[tuple[int, int, float | None]] = []
    for i, words in enumerate(lines[at + 1 :]):
        numbers = list(map(int, words[skipped:]))
        assert i < n or not words
        if digits[2] == "1":
            pairs = zip(numbers[::2], numbers[1::2], strict=True)
            entries += [(i, j - 1, float(value)) for j, value in pairs]
        else:
            entries += [(i, j - 1, None) for j in numbers]
    return n, _summed(entries)


ORACLES: dict[str, Callable[[str], tuple[int, Entries]]] = {
    ".mtx": _read_mtx,
    "graph.txt": _read_edges,
    "weights.csv": _read_edges,
    "graph.graph": _read_metis,
}
"""Readers by the end of the name."""
