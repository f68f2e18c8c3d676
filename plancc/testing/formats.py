"""Checks that a graph format does what `plancc.graph.formats` relies on."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from plancc.errors import InputError
from plancc.graph.canonical import to_scipy
from plancc.graph.convert import as_graph
from plancc.graph.formats import FORMATS, find_format, read_graph, write_graph
from plancc.graph.graph import Graph

MOST_BYTES = 1 << 24
"""Largest number of bytes of memory that reading a short, wrong file may take."""


class FormatTests:
    """Tests of a graph format. Inherit from this class, and set `name`.

    Attributes:
        name: Name of the format in `plancc.graph.formats.FORMATS`.
        directed: Whether files of this format hold directed graphs.
        garbage: A line that is wrong in every file; b"" for files without lines of text.
        hostile: Contents of short files whose headers announce much more data.
    """

    name: ClassVar[str]
    directed: ClassVar[bool] = True
    garbage: ClassVar[bytes] = b"? ? ? ? ?"
    hostile: ClassVar[Sequence[bytes]] = ()

    def write(self, graph: Graph, path: Path) -> None:
        """Write a graph to `path`. Override this if the format has no writer."""
        write_graph(graph, path, self.name)

    def array(self) -> npt.NDArray[np.float64]:
        """Return the matrix that the tests write: a ring of seven vertices with one chord."""
        array = np.zeros((7, 7))
        array[np.arange(7), np.arange(1, 8) % 7] = np.arange(1, 8)
        array[0, 3] = 9
        return array if self.directed else np.maximum(array, array.T)

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Return the path of a file that holds the matrix `array`."""
        path = tmp_path / f"graph{FORMATS[self.name].extensions[0]}"
        self.write(as_graph(sp.csr_array(self.array())), path)
        return path

    def check(self, path: Path, expected: npt.NDArray[Any], **reading: Any) -> Graph:
        """Read a graph, compare its matrix with `expected`, and return the graph."""
        graph = read_graph(path, **reading)
        assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)
        assert np.array_equal(to_scipy(graph, np.float64).toarray(), expected)
        return graph

    def refused(self, path: Path, data: bytes) -> str:
        """Write these bytes to a file, and read it; return the error's message, or ""."""
        path.write_bytes(data)
        words = ""
        try:
            read_graph(path)
        except InputError as error:
            words = str(error)
        assert not words or str(path) in words
        assert "\n" not in words
        return words

    def test_extensions(self) -> None:
        for extension in FORMATS[self.name].extensions:
            assert extension == extension.lower() != ".gz"
            assert find_format(f"graph{extension}") == self.name

    def test_what_is_written_is_read(self, path: Path) -> None:
        graph = self.check(path, self.array())
        assert graph.directed == self.directed
        assert (graph.source.name, graph.source.format) == (path.name, self.name)
        assert graph.source.sha256 == sha256(path.read_bytes()).hexdigest()

    def test_ways_to_read(self, path: Path) -> None:
        """The options transpose, symmetrize and pattern change the graph as documented.

        All combinations of the options are read.
        """
        for pattern, symmetrize, transpose in product((False, True), repeat=3):
            expected = self.array().T if transpose else self.array()
            if symmetrize and self.directed:
                expected = expected + expected.T
            flags = {"pattern": pattern, "symmetrize": symmetrize, "transpose": transpose}
            graph = self.check(path, expected != 0 if pattern else expected, **flags)
            assert (graph.values is None) == pattern
            assert graph.directed == (self.directed and not symmetrize)

    def test_gzip(self, path: Path) -> None:
        if not FORMATS[self.name].gzip:
            pytest.skip("not read from .gz")
        zipped, data = path.with_name(f"{path.name}.gz"), gzip.compress(path.read_bytes())
        zipped.write_bytes(data)
        self.check(zipped, self.array())
        assert self.refused(zipped, data[: len(data) // 2])
        assert self.refused(zipped, path.read_bytes())

    def test_damage(self, path: Path) -> None:
        """A truncated file, or a file with one changed byte, gives a graph or an InputError."""
        data = path.read_bytes()
        assert self.refused(path, b"")
        for end in range(1, len(data), 1 + len(data) // 200):
            self.refused(path, data[:end])
        for place, byte in product(range(0, len(data), 1 + len(data) // 50), b"\0-9\xff"):
            self.refused(path, data[:place] + bytes([byte]) + data[place + 1 :])

    def test_a_wrong_line_is_named(self, path: Path) -> None:
        lines = path.read_bytes().splitlines() if self.garbage else []
        for number in range(len(lines)):
            wrong = [*lines[:number], self.garbage, *lines[number + 1 :]]
            assert f"{path}, line {number + 1}: " in self.refused(path, b"\n".join(wrong) + b"\n")

    def test_promises_take_no_memory(self, path: Path) -> None:
        for data in self.hostile:
            tracemalloc.start()
            try:
                assert self.refused(path, data)
                assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
            finally:
                tracemalloc.stop()
