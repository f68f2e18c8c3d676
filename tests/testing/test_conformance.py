"""What is built in passes the checks that third parties inherit."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long

from plancc.graph.canonical import to_scipy
from plancc.models import MODELS
from plancc.partitioners import PARTITIONERS
from plancc.sampling import SAMPLERS
from plancc.testing.formats import FormatTests
from plancc.testing.models import VERTICES, ModelTests, graph_of
from plancc.testing.partitioners import PartitionerTests
from plancc.testing.samplers import SamplerTests

NATIVE = [name for name in PARTITIONERS.names() if name != "builtin"]


class TestPartitioners(PartitionerTests):
    @pytest.fixture(
        autouse=True, params=["builtin", *(pytest.param(name, marks=long) for name in NATIVE)]
    )
    def each(self, request):
        self.name = request.param


class TestNativePartitioners(PartitionerTests):
    """Each call is a process: on one problem, and on another where numbers of parts are tried."""

    @pytest.fixture(autouse=True, params=NATIVE)
    def each(self, request):
        self.name = request.param

    def problems(self, adapter, side=8):
        found = super().problems(adapter, side)
        return found[:1] if side == 8 else found[-1:]

    @long  # tests/partitioners has several numbers of parts
    def test_number_of_parts(self, adapter):
        super().test_number_of_parts(adapter)


class TestMatrixMarket(FormatTests):
    name = "mtx"
    hostile = (
        b"%%MatrixMarket matrix coordinate pattern general\n9 9 99999999999\n1 2\n",
        b"%%MatrixMarket matrix coordinate real general\n9 9 2000000000\n1 2 3\n",
    )


class TestMetis(FormatTests):
    name, directed = "metis", False
    hostile = (b"2000000000 1\n2\n1\n", b"2 99999999999\n2\n1\n", b"2 1 10 2000000000\n2\n1\n")


class TestEdgeList(FormatTests):
    name = "edgelist"
    hostile = (b"0 99999999999999999999\n", b"99999999999999999999 0 0.5\n")

    def write(self, graph, path):
        entries = to_scipy(graph).tocoo()
        np.savetxt(path, np.stack([entries.row, entries.col, entries.data], axis=1), fmt="%d")


def archive(**arrays):
    file = io.BytesIO()
    np.savez(file, **{name: np.asarray(value) for name, value in arrays.items()})
    return file.getvalue()


class TestArchive(FormatTests):
    name, garbage = "npz", b""
    hostile = (
        archive(indptr=[0, 2**40], indices=[0], num_nodes=1),
        archive(indptr=[0, 1], indices=[0], num_nodes=2**31),
        archive(indptr=[0, 1], indices=[2**40], num_nodes=1),
    )

    def write(self, graph, path):
        sp.save_npz(path, to_scipy(graph))

    @long  # the attack on inputs (tests/hostile) damages archives too
    def test_damage(self, path):
        super().test_damage(path)


MODEL_OPTIONS = {"auto": {"candidates": ("hp", "libra")}, "file": {"part": np.arange(VERTICES) % 4}}


class TestModels(ModelTests):
    @pytest.fixture(autouse=True, params=MODELS.names())
    def each(self, request):
        self.name = request.param
        self.options = MODEL_OPTIONS.get(self.name, {})
        self.num_parts = 8 if self.name == "cagnet-3d" else 4

    @pytest.fixture(
        params=["directed", *(pytest.param(name, marks=long) for name in ("undirected", "empty"))]
    )
    def graph(self, request):  # tests/test_extreme_shapes.py has none for every model
        return graph_of(request.param)


SAMPLER_OPTIONS = {  # other sizes are in tests/sampling/test_samplers.py
    "uniform": {"batch_size": 6},
    "train": {"batch_size": 5},
    "neighbour": {"batch_size": 12, "fanouts": (2, 2)},
    "walk": {"batch_size": 12},
    "cluster": {"batch_size": 12},
    "edges": {"keep": 0.4},
}


def test_all_samplers_are_among_them():
    assert set(SAMPLER_OPTIONS) == set(SAMPLERS)


class TestSamplers(SamplerTests):
    @pytest.fixture(autouse=True, params=SAMPLER_OPTIONS)
    def each(self, request):
        self.name, self.options = request.param, SAMPLER_OPTIONS[request.param]


class TestDealt(ModelTests):
    """The model of docs/learn/research.md, as it stands."""

    name = "dealt"

    @pytest.fixture(autouse=True, scope="class")
    def registered(self, tmp_path_factory):
        page = Path(__file__).resolve().parents[2] / "docs" / "learn" / "research.md"
        (text,) = re.findall(
            r"```python\n(from dataclasses .*?)\nowners = ", page.read_text(), re.S
        )
        folder = tmp_path_factory.mktemp("dealt")
        (folder / "dealt_model.py").write_text(text)
        with pytest.MonkeyPatch.context() as patched:
            patched.syspath_prepend(folder)
            patched.setitem(MODELS._targets, "dealt", "dealt_model:Dealt")
            yield
