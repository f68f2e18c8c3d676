"""Edge lists in Parquet, as pyarrow writes them."""

import contextlib
import sys

import numpy as np
import pytest
from graph_helpers import entries, write_parquet

import plancc
from plancc.errors import BackendUnavailable, InputError, PlanccWarning
from plancc.graph.formats import find_format, read_graph, reading_of


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    words = r"a\.parquet: reading this format needs pyarrow.*: pip install 'plancc\[parquet\]'"
    with pytest.raises(BackendUnavailable, match=words):
        read_graph(tmp_path / "a.parquet")


class TestWithPyarrow:
    @pytest.fixture(autouse=True)
    def written(self, tmp_path):
        """`write(name, columns)`, a file of the folder."""

        def write(name, columns):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            write_parquet(tmp_path / name, columns)
            return tmp_path / name

        self.write = write

    @pytest.mark.parametrize("names", [("src", "dst"), ("source", "target"), ("a", "b")])
    @pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.int8])
    def test_pairs(self, names, dtype):
        u, v = np.array([0, 1, 3], dtype), np.array([1, 2, 2], dtype)
        graph = read_graph(self.write("a.parquet", {names[0]: u, names[1]: v}))
        assert entries(graph) == {(0, 1): 1, (1, 2): 1, (3, 2): 1}
        assert (graph.directed, graph.source.format) == (True, "parquet")

    def test_columns_by_name(self, tmp_path):
        columns = {"when": [1, 2], "to": [1, 0], "from": [0, 2], "weight": [0.5, 2], "w2": [3, 4]}
        path = self.write("a.pq", columns)
        assert entries(read_graph(path)) == {(0, 1): 0.5, (2, 0): 2}
        graph = read_graph(path, columns=("to", "from"))
        assert entries(graph) == {(1, 0): 1, (0, 2): 1}
        graph = read_graph(path, columns=("to", "from", "w2"))
        assert entries(graph) == {(1, 0): 3, (0, 2): 4}
        assert graph.source.reading == "columns=to,from,w2"
        assert read_graph(path, pattern=True).values is None
        assert entries(read_graph(path, transpose=True)) == {(1, 0): 0.5, (0, 2): 2}

    @pytest.mark.parametrize(
        "names",
        [
            ("a,b", "c"),
            ('"', "a"),
            (" a", "b c"),
            ("a=b", "'"),
            ("", "x"),
            ("a\nb", "ü,"),
            ("\r", "c"),
        ],
    )
    def test_names_of_any_kind_come_back(self, names):
        path = self.write("a.parquet", dict(zip((*names, "w"), ([0], [1], [2.5]), strict=True)))
        graph = read_graph(path, columns=(*names, "w"))
        again = reading_of(graph.source.reading)
        assert again == {"columns": (*names, "w")}
        assert entries(read_graph(path, **again)) == entries(graph) == {(0, 1): 2.5}

    def test_a_reading_that_is_none(self):
        with pytest.raises(InputError, match="`columns` 'a b' are not names"):
            reading_of("'columns=a\nb'")

    def test_a_folder_of_parts(self, tmp_path):
        self.write("edges/part-0.parquet", {"src": [0, 1], "dst": [1, 2]})
        self.write("edges/more/part-1.parquet", {"src": [5], "dst": [0]})
        (tmp_path / "edges/_SUCCESS").write_text("")
        folder = tmp_path / "edges"
        assert find_format(folder) == "parquet"
        graph = read_graph(folder, keep_ids=True)
        assert entries(graph) == {(0, 1): 1, (1, 2): 1, (5, 0): 1}
        assert graph.num_vertices == 6
        before = graph.source.sha256
        self.write("edges/part-0.parquet", {"src": [0, 1], "dst": [1, 3]})
        assert read_graph(folder, keep_ids=True).source.sha256 != before != ""

    def test_ids(self, tmp_path):
        path = self.write("a.parquet", {"src": [2, 7], "dst": [7, 2]})
        with pytest.warns(PlanccWarning, match="2 vertices occur; ids go up to 7"):
            assert read_graph(path).original_ids.tolist() == [2, 7]
        graph = read_graph(path, num_vertices=10)
        assert (graph.num_vertices, graph.original_ids) == (10, None)
        plan = plancc.compile(graph, "block", 2)
        assert plan.provenance["source_reading"] == "num_vertices=10"

    @pytest.mark.parametrize(
        ("columns", "options", "words"),
        [
            ({"src": [0.0], "dst": [1.0]}, {}, "column 'src' holds 'double', not whole numbers"),
            ({"src": [True], "dst": [False]}, {}, "column 'src' holds 'bool', not whole numbers"),
            ({"src": ["a", None], "dst": ["b", "c"]}, {}, "column 'src': 1 ids are null"),
            ({"src": ["a", ""], "dst": ["b", "c"]}, {}, "an id is empty, or has a NUL"),
            ({"src": ["a", "x" * 1025], "dst": ["b", "c"]}, {}, "an id has more than 1,024 bytes"),
            ({"src": ["a"], "dst": ["b"]}, {"keep_ids": True}, "leave out `keep_ids`"),
            ({"src": [0], "dst": [-1]}, {}, "column 'dst' holds '-1', not a vertex id"),
            ({"src": np.array([2**63], np.uint64), "dst": [0]}, {}, f"holds '{2**63}'"),
            ({"src": [0], "dst": [1], "w": [np.nan]}, {}, "'nan' is not a finite number"),
            ({"src": [0], "dst": [1], "w": ["x"]}, {}, "column 'w' holds 'string', not numbers"),
            ({"src": [0], "dst": [1], "w": [None]}, {}, "column 'w'"),
            ({"src": [], "dst": []}, {}, "column|holds no edge"),
            ({"a": [0], "b": [1]}, {"columns": ("a", "x")}, "column 'x' is missing; there are 'a'"),
            ({"a": [0], "b": [1]}, {"columns": ("a",)}, "give two or three names"),
            ({"src": [0], "dst": [9]}, {"num_vertices": 5}, "row 0: vertex id '9' is out of"),
        ],
    )
    def test_refused(self, columns, options, words):
        path = self.write("a.parquet", columns)
        with pytest.raises(InputError, match=words) as caught:
            read_graph(path, **options)
        assert "a.parquet" in str(caught.value)

    def test_more_edges_than_memory(self, monkeypatch):
        many = np.zeros(1 << 20, np.int64)
        path = self.write("a.parquet", {"other": many, "src": many, "dst": many})
        assert path.stat().st_size < 1 << 20
        monkeypatch.setattr("plancc.memory.available_memory", lambda: 32 << 20)
        assert read_graph(path).num_nonzeros == 1
        monkeypatch.setattr("plancc.memory.available_memory", lambda: (32 << 20) - 1)
        with pytest.raises(InputError, match=r"a\.parquet: reading 1,048,576 edges takes 32 MiB"):
            read_graph(path)

    def test_damage(self, tmp_path):
        path = self.write("a.parquet", {"src": [0, 1], "dst": [1, 2]})
        data = path.read_bytes()
        for end in (1, 4, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:end])
            with pytest.raises(InputError, match="cannot be read as Parquet"):
                read_graph(path)
        for place in range(0, len(data), 7):  # read or refused, nothing else
            path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
            with contextlib.suppress(InputError):
                read_graph(path)
