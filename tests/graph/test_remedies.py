"""What people's files are refused with besides file, line and value: what to do about it.

From public bug reports of METIS, DGL, PyTorch Geometric, networkx and pandas users.
"""

import io
import zipfile
from typing import Any

import numpy as np
import pytest
from graph_helpers import refused

from plancc.graph.formats import read_graph
from plancc.graph.vertexsources import read_vertex_data

MTX = "%%MatrixMarket matrix coordinate "


def zipped(text: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo("g.txt"), text)
    return stream.getvalue()


def arrays(**given: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **given)
    return stream.getvalue()


GRAPHS: dict[str, tuple[str | bytes, str]] = {
    # file name: (content, words of the message, with | between them)
    "utf16.txt": ("0 1\n1 2\n".encode("utf-16"), "UTF-16|save it as UTF-8"),
    "float.txt": ("0.0 1.0\n", "line 1|'0.0'|write ids without a point (in pandas: .astype(int))"),
    "nan.txt": ("0 1 nan\n", "line 1|the weight is not finite|`pattern`|'nan'"),
    "five.txt": ("0 1 2 3 4\n", "line 1|two or three columns|`columns` 1,2|'0 1 2 3 4'"),
    "zero.txt": ("0 1 2.5\n\0 2 3\n", "line 2|not a whole number"),  # a byte 0 is no separator
    "mixed.csv": ("source,target\n1,2\n2,bob\n", "line 3|'bob'|ids are whole numbers, as in"),
    "hash.txt": ("0 1000000000000000000\n", "line 1|18 digits|'1000000000000000000'|anew"),
    "empty.txt": ("", "the file is empty"),
    "lists.txt": ("0: 1 2\n1: 2 3\n", "line 1|'0:'|write an adjacency list as an edge list"),
    "packed.zip": (zipped("0 1\n"), "only .gz can be read; unpack it first"),
    "array.mtx": (MTX.replace("coordinate", "array") + "real general\n2 2\n0\n1\n1\n0\n",
                  "line 1|a coordinate (sparse) matrix|'array'"),
    "novalue.mtx": (MTX + "real general\n3 3 1\n1 2\n", "line 3|'ROW COLUMN VALUE'|'1 2'"),
    "huge.mtx": (MTX + "pattern general\n9999999999 9999999999 1\n2 1\n", "line 2|2147483647"),
    "count.graph": ("3 5\n2\n1 3\n2\n", "line 1|declares 5 edges|'2'"),
    "loop.graph": ("2 1\n1\n2\n", "line 2|its own neighbour|'1'"),
    "weights.graph": ("3 2 11\n2\n1 3\n2\n", "line 3|the last neighbour has no edge weight|'3'"),
    "other.npz": (arrays(a=1), "scipy.sparse.save_npz|'indptr'|'edge_index'|'a'"),
    "halves.npz": (arrays(edge_index=np.array([[0.5], [1]])), "'edge_index'|integers|'float64'"),
    "far.npz": (arrays(edge_index=np.array([[0], [9]]), num_nodes=3), "'9'|out of range 0..2"),
    "broken.graphml": ("<graphml><graph></graphml>", "not XML|line 1"),
    "broken.gml": ("graph [ node [ id 0 ] edge [ source 0 target 5 ] ]", "line 1|'5'|not a vertex"),
    "text.h5ad": ("hello", "cannot be read as .h5ad"),
    "g.xyz": ("0 1\n", "'.xyz'|`format`|edgelist"),
}  # fmt: skip

F, Y = np.ones((4, 2), np.float32), np.array([0, 1, 0, 1])
FULL = np.ones(4, bool)
DATA: dict[str, tuple[str | bytes, str]] = {
    "objects.npz": (arrays(features=np.array([["a"]] * 4, object)), "'features'|objects|astype"),
    "texts.npz": (arrays(features=np.array([["a"]] * 4)), "'features'|'<U1'|as float32"),
    "complex.npz": (arrays(features=F * 1j), "'features'|'complex64'|as float32"),
    "cube.npz": (arrays(features=np.ones((4, 2, 2))), "'features' must be a matrix|'(4, 2, 2)'"),
    "floats.npz": (arrays(features=F, labels=Y / 2), "'labels'|integers|'float64'|-1 means"),
    "minus.npz": (arrays(features=F, labels=Y - 5), "'labels'|'-5'|-1: unknown"),
    "large.npz": (arrays(features=F, labels=Y + 10**12), "'labels'|'1000000000000'|largest"),
    "words.npz": (arrays(features=F, labels=Y.astype(str)), "'labels'|'<U21'|np.unique(names"),
    "numbers.npz": (arrays(labels=Y, train_mask=Y[:2]), "'train_mask'|is called 'train_idx'"),
    "yes.npz": (arrays(labels=Y, train_mask=FULL.astype(str)), "'train_mask'|booleans|'<U5'"),
    "foo.npz": (arrays(foo=F), "no vertex data|'features, labels|'foo'"),
    "short.csv": ("f0,f1\n1,2\n3,4\n", "'features' has '2' rows|4 vertices"),
    "word.csv": ("id,f0\n0,x\n1,2\n2,3\n3,1\n", "line 2|'x' in column 'f0'"),
    "twice.csv": ("id,f0\n0,1\n0,2\n2,3\n3,1\n", "'id' holds '0' twice|give every id one row"),
}


@pytest.mark.parametrize("name", [*GRAPHS, *DATA])
def test_what_to_do_is_said(name, tmp_path):
    content, says = (GRAPHS | DATA)[name]
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    read = read_graph if name in GRAPHS else lambda at: read_vertex_data(at, 4)
    refused(read, path, *says.split("|"))
