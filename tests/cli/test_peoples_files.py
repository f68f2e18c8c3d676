"""A table of what people's files and commands get: the file, line or key, the value, what to do.

Every row is refused with one sentence and exit code 1 or 2, leaves no file behind, and calls no
kernel before. From public bug reports of METIS, DGL, PyTorch Geometric, networkx and pandas users.
"""

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import RING, _refused_in, check_refused, refused_in

from plancc.kernel import LazyKernel

__all__ = ["_refused_in", "refused_in"]
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
    "negative.txt": ("0 1\n-1 2\n", "line 2|ids count from 0|'-1'"),
    "nan.txt": ("0 1 nan\n", "line 1|the weight is not finite|--pattern|'nan'"),
    "inf.txt": ("0 1 inf\n", "line 1|the weight is not finite|--pattern|'inf'"),
    "one.txt": ("0\n1\n", "line 1|two or three columns|# stands before what is no edge|'0'"),
    "five.txt": ("0 1 2 3 4\n", "line 1|two or three columns|--columns 1,2|'0 1 2 3 4'"),
    "zero.txt": ("0 1 2.5\n\0 2 3\n", "line 2|not a whole number"),  # a byte 0 is no separator
    "ragged.txt": ("0 1\n1 2 3\n", "line 2|2 columns are expected, as in the first line|'1 2 3'"),
    "mixed.csv": ("source,target\n1,2\n2,bob\n", "line 3|'bob'|ids are whole numbers, as in"),
    "hash.txt": ("0 1000000000000000000\n", "line 1|18 digits|'1000000000000000000'|anew"),
    "empty.txt": ("", "the file is empty"),
    "comments.txt": ("# a\n# b\n", "the file holds no edge"),
    "header.csv": ("source,target\n", "the file holds no edge"),
    "lists.txt": ("0: 1 2\n1: 2 3\n", "line 1|'0:'|of an adjacency list write one edge a line"),
    "dicts.txt": ('0 1 {"w": 2}\n', "line 1|nx.write_edgelist(graph, path, data=False)"),
    "packed.zip": (zipped("0 1\n"), "unpack it first|.gz is read"),
    "cut.mtx.gz": (gzip.compress(RING.encode(), mtime=0)[:-9], "damaged or truncated"),
    "complex.mtx": (MTX + "complex general\n2 2 1\n1 2 1.0 2.0\n", "line 1|complex matrices"),
    "array.mtx": (MTX.replace("coordinate", "array") + "real general\n2 2\n0\n1\n1\n0\n",
                  "line 1|a coordinate (sparse) matrix|'array'"),
    "vector.mtx": ("%%MatrixMarket vector coordinate real general\n", "line 1|the header must"),
    "bipartite.mtx": (MTX + "pattern general\n3 2 1\n1 3\n", "line 3|out of range 1..2|'3'"),
    "from0.mtx": (MTX + "pattern general\n3 3 1\n0 1\n", "line 3|out of range 1..3|'0'"),
    "more.mtx": (MTX + "pattern general\n3 3 1\n1 2\n2 3\n", "line 4|declares 1|one more|'2 3'"),
    "fewer.mtx": (MTX + "pattern general\n3 3 2\n1 2\n", "1 of 2"),
    "novalue.mtx": (MTX + "real general\n3 3 1\n1 2\n", "line 3|'ROW COLUMN VALUE'|'1 2'"),
    "typo.mtx": (MTX.replace("coord", "cord") + "real general\n1 1 0\n", "line 1|'cordinate'"),
    "word.mtx": (MTX + "real general\n3 3 1\n2 1 x\n", "line 3|the value is not a number|'x'"),
    "huge.mtx": (MTX + "pattern general\n9999999999 9999999999 1\n2 1\n", "line 2|2147483647"),
    "count.graph": ("3 5\n2\n1 3\n2\n", "line 1|declares 5 edges|'2'"),
    "loop.graph": ("2 1\n1\n2\n", "line 2|its own neighbour|'1'"),
    "weights.graph": ("3 2 11\n2\n1 3\n2\n", "line 3|the last neighbour has no edge weight|'3'"),
    "from0.graph": ("3 2\n1\n0 2\n1\n", "line 3|out of range 1..3|'0'"),
    "other.npz": (arrays(a=1), "scipy.sparse.save_npz|'indptr'|'edge_index'|'a'"),
    "halves.npz": (arrays(edge_index=np.array([[0.5], [1]])), "'edge_index'|integers|'float64'"),
    "far.npz": (arrays(edge_index=np.array([[0], [9]]), num_nodes=3), "'9'|out of range 0..2"),
    "turned.npz": (arrays(edge_index=np.zeros((3, 2), int)), "(2, edges)|(3, 2)|transpose it"),
    "objects.npz": (arrays(edge_index=np.array([[None]])), "'edge_index'|Python objects|astype"),
    "pickled.pt": (b"\x80\x04K\x01.", "does not look like a file of torch.save"),
    "broken.graphml": ("<graphml><graph></graphml>", "not XML|line 1"),
    "broken.gml": ("graph [ node [ id 0 ] edge [ source 0 target 5 ] ]", "line 1|'5'|no vertex"),
    "text.h5ad": ("hello", "cannot be read as .h5ad"),
    "g.xyz": ("0 1\n", "'.xyz'|--format|edgelist"),
}  # fmt: skip

F, Y = np.ones((4, 2), np.float32), np.array([0, 1, 0, 1])
FULL = np.ones(4, bool)
DATA: dict[str, tuple[str | bytes, str]] = {
    "rows.npz": (arrays(features=np.ones((5, 2))), "'features'|'5' rows|4 vertices"),
    "nan.npz": (arrays(features=F * np.nan), "'features'|'nan' in row 0, column 0"),
    "objects.npz": (arrays(features=np.array([["a"]] * 4, object)), "'features'|objects|astype"),
    "texts.npz": (arrays(features=np.array([["a"]] * 4)), "'features'|'<U1'|as float32"),
    "complex.npz": (arrays(features=F * 1j), "'features'|'complex64'|as float32"),
    "cube.npz": (arrays(features=np.ones((4, 2, 2))), "'features' must be a matrix|'(4, 2, 2)'"),
    "floats.npz": (arrays(features=F, labels=Y / 2), "'labels'|integers|'float64'|-1 stands for"),
    "minus.npz": (arrays(features=F, labels=Y - 5), "'labels'|'-5'|-1: unknown"),
    "large.npz": (arrays(features=F, labels=Y + 10**12), "'labels'|'1000000000000'|at most"),
    "few.npz": (arrays(features=F, labels=Y[:2]), "'labels' has '2' rows|4 vertices"),
    "words.npz": (arrays(features=F, labels=Y.astype(str)), "'labels'|'<U21'|np.unique(names"),
    "numbers.npz": (arrays(labels=Y, train_mask=Y[:2]), "'train_mask'|is called 'train_idx'"),
    "yes.npz": (arrays(labels=Y, train_mask=FULL.astype(str)), "'train_mask'|booleans|'<U5'"),
    "foo.npz": (arrays(foo=F), "no vertex data|'features, labels|'foo'"),
    "short.csv": ("f0,f1\n1,2\n3,4\n", "'features' has '2' rows|4 vertices"),
    "word.csv": ("id,f0\n0,x\n1,2\n2,3\n3,1\n", "line 2|'x' in column 'f0'"),
    "twice.csv": ("id,f0\n0,1\n0,2\n2,3\n3,1\n", "'id' holds '0' twice|give every id one row"),
}
OWNERS: dict[str, tuple[str, str]] = {
    "few.part": ("0\n1\n", "line 2|the graph has 4 vertices|'2'"),
    "from1.part": ("1\n2\n1\n2\n", "vertex 1 is in part 2|0..1|subtract 1"),
    "float.part": ("0.0\n1.0\n0\n1\n", "line 1|not a whole number|'0.0'"),
    "word.part": ("0\nx\n0\n1\n", "line 2|not a whole number|'x'"),
}
WEIGHTS: dict[str, tuple[str, str]] = {
    "few.txt": ("1\n2\n", "'weights' has '2' rows|4 vertices"),
    "minus.txt": ("1\n2\n-3\n1\n", "line 3|finite numbers from 0|'-3'"),
    "nan.txt": ("1\n2\nnan\n1\n", "line 3|finite numbers from 0|'nan'"),
}
MACHINES: dict[str, tuple[str, str]] = {
    "typo.toml": ("bandwith = 1e9\n", "'bandwith'|did you mean bandwidth?"),
    "no.toml": ("name=a\n", "not TOML|line 1, column 6"),
    "minus.toml": ("latency=-1\nbandwidth=1e9\nmultiply_adds=1e9\n", "'latency' is -1|positive"),
}
COMPILE = "compile ok.mtx -p 2 -o x.h5"
COMMANDS = {
    f"{COMPILE} --capacities 1,0": "--capacities|number 2 is 0.0|above 0",
    f"{COMPILE} --capacities 1,1,1": "--capacities: 3 numbers for 2 parts",
    f"{COMPILE} --memory 0": "--memory|'0'|above 0, such as 512M",
    f"{COMPILE} --memory lots": "--memory|'lots'|512M or 2G",
    f"{COMPILE} --data nothere.npz": "nothere.npz: no such file",
    "compile ok.mtx -p 2 -o nodir/x.h5": "cannot write nodir/x.h5|nodir does not exist",
    "dataset karate -o nodir/x": "cannot write nodir/x|nodir does not exist",
    "export nothere.h5 --to petsc -o nodir/x": "cannot write nodir/x|nodir does not exist",
    "compile ok.mtx -p 2 -o .": "cannot write .|it is a folder",
    "compile ok.mtx -p 2 -o x.mtx": "x.mtx|choose a name that ends in .h5",
    "compile . -p 2 -o x.h5": "a folder of none of the formats",
    "compile ok.mtx -p 2 -o x.h5 --help trining": "--help trining: no option of this name",
    "compile ok.h5 -p 2 -o x.h5": "ok.h5: this is a plan; give the graph file",
    "inspect ok.mtx": "ok.mtx: not a plan but a graph: compile it first",
    "inspect text.h5": "text.h5: not a plan: not an HDF5 file",
    "inspect other.h5": "other.h5: not a plan, or one before format 1.5|compile the graph again",
    "inspect cut.h5": "cut.h5: the plan is cut off: 3,000 of",
    "inspect no.h5": "no.h5: no such file",
    "inspect ok.h5 --dims 3": "--dims '3'|at least two widths|602,128,41",
    "inspect data.h5 --dims 5,4,2": "--dims 5,4,2: the first width is 5|3 columns",
    "compare data.h5 ok.mtx": "ok.mtx: not a plan but a graph: compile it first",
    "refine ok.h5 --objective foo -o x.h5": "unknown objective 'foo'|volume, max-volume",
    "simulate ok.h5 --machine nope": "machine 'nope': no such file|cpu-cluster",
    "simulate ok.mtx --sweep p=2.. --dims 3,2": "numbers 'p=2..'|16..4096",
    "study ok.mtx --models hp -p two": "numbers 'two'|16..4096",
    "export ok.h5 --to foo -o x": "unknown export 'foo'|distdgl",
    "predict ok.h5 --weights w.npz -o x.csv": "ok.h5: the plan has no features|compile it with",
    "predict data.h5 --weights d.npz -o x.csv": "d.npz: does not say which network",
    "predict data.h5 --weights w.npz -o x.txt": "x.txt: choose a name that ends in .csv",
    "report ok.h5 -o x.pdf": "x.pdf: the page is HTML: choose a name that ends in .html",
    "convert ok.mtx -o d.npz": "cannot write folder d.npz: a file of that name exists",
    "dataset rmat --scale 99 -o x.mtx": "--scale 99: must be at most 28",
    "run no.h5": "no.h5: no such file",
    "run ok.mtx": "ok.mtx: not a plan but a graph: compile it first",
    "run data.h5 --ranks 3": "3 ranks for a plan of 2 parts|at most 2 ranks",
    "run data.h5 --model gat --heads 3 --hidden 16": "--heads 3|the width 16|give --hidden 48",
    "run data.h5 --split 0.9,0.9,0.1": "--split 0.9,0.9,0.1|at most 1 together",
    "run data.h5 --epoch 5": "No such option '--epoch'|'--epochs'",
    "run data.h5 --device gpu": "--device gpu: choose cpu, cuda or cuda:NUMBER",
    "run data.h5 --resume": "--resume: give --checkpoint, the folder, too",
    "run data.h5 --predict x.xlsx": "x.xlsx: choose a name that ends in .csv",
    "run data.h5 --predict x-{part}.csv": "x-{part}.csv: rows of all ranks are one file",
    "run data.h5 --sampler neighbour --fanouts 5": "--fanouts 5 has 1 number, the model 2 layers",
    "run data.h5 --init d.npz": "d.npz: has no array convs.0.weight",
    "run data.h5 --batch-size 0": "--batch-size 0: must be at least 1",
}
TABLE = [
    *((f"compile {name} -p 2 -o x.h5", name, *row) for name, row in GRAPHS.items()),
    *((f"{COMPILE} --data {name}", name, *row) for name, row in DATA.items()),
    *((f"{COMPILE} --model file --part {name}", name, *row) for name, row in OWNERS.items()),
    *((f"{COMPILE} --weights {name}", name, *row) for name, row in WEIGHTS.items()),
    *((f"{COMPILE} --machine {name}", name, *row) for name, row in MACHINES.items()),
    *((line, "", b"", says) for line, says in COMMANDS.items()),
]


@pytest.mark.parametrize(
    ("line", "name", "content", "says"), TABLE, ids=lambda each: str(each)[:40]
)
def test_one_sentence(
    line: str,
    name: str,
    content: str | bytes,
    says: str,
    refused_in: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[str] = []
    call = LazyKernel.__call__

    def recorded(kernel: LazyKernel, *arguments: object, **named: object) -> object:
        if not kernel.__module__.startswith("plancc.graph"):  # which read
            called.append(kernel.__name__)
        return call(kernel, *arguments, **named)

    monkeypatch.setattr(LazyKernel, "__call__", recorded)
    if name:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    check_refused(line, f"{says}|{name}", refused_in)
    assert not called, "a kernel ran before the refusal"


def test_there_are_eighty() -> None:
    assert len({line for line, *_ in TABLE}) == len(TABLE) >= 80
