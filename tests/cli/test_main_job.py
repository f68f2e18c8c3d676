"""Graph to plan to figures to other tools' files and back, with every model and option."""

import gzip
from pathlib import Path

import figures
import h5py
import numpy as np
import pytest
import sealing
from cases import some
from cli_helpers import SLOWER, as_json, ok, plancc
from scipy.io import mmread

pytestmark = pytest.mark.usefixtures("opened_once")

CASES = {
    "hp": "",
    "hp fast": "--effort fast --objective max-volume --topology 1x5",
    "hp budget": "--budget 20s --objective messages --seed 2",
    "hp time": "--objective time --dims 5,8 --balance work --partitioner mtkahypar",
    "hp mtkahypar": "--partitioner mtkahypar --objective volume",
    "gp messages": "--model gp --objective messages",
    "rp mapped": "--model rp --topology 5x1",
    "rp": "--model rp --seed 3",
    "block": "--model block --balance rows",
    "rcm": "--model rcm",
    "gp": "--model gp --partitioner metis --preset kway --epsilon 0.5",
    "gp volume": "--model gp --objective volume --epsilon 0.3",
    "gp kaminpar": "--model gp --partitioner kaminpar --epsilon 0.5",
    "gp builtin": "--model gp --partitioner builtin --compress",
    "hp threads": "--partitioner mtkahypar --preset deterministic --threads 2 --time-limit 60",
    "hp kahypar": "--partitioner kahypar --balance rows",
    "hp builtin": "--partitioner builtin --dtype float64",
    "gp several": "--model gp --balance rows,nnz,work,train --dims 5,4,6 --epsilon 0.5",
    "row": "--model rp --normalize row",
    "none": "--model rp --normalize none --no-self-loops",
    "row, no loops": "--model block --normalize row --no-self-loops",
    "sym, no loops": "--model block --normalize sym --no-self-loops --dtype float64",
}


LONG = ("hp", "hp mtkahypar", "block", "hp budget", "hp kahypar", "gp kaminpar", "gp volume")
LONG += ("gp messages", "rp mapped", "rp", "row", "row, no loops")


@some(lambda name: name not in LONG, name=CASES)
def test_compile_verify_inspect_export_and_back(name, graph, data, tmp_path):
    options = CASES[name]
    if "kahypar" in options and "mtkahypar" not in options:
        pytest.importorskip("kahypar")
    if "kaminpar" in options:
        pytest.importorskip("kaminpar")
    plan, words, p = tmp_path / "plan.h5", options.split(), 5
    compiled = as_json("compile", graph, "-p", p, *words, "--data", data, "-o", plan)
    assert compiled["output"] == str(plan)
    assert [path.name for path in tmp_path.iterdir()] == ["plan.h5"]

    # the matrix in the file is the normalised matrix of the graph
    arrays = figures.read(plan)
    normalization = words[words.index("--normalize") + 1] if "--normalize" in words else "sym"
    expected = figures.normalized(
        mmread(graph).toarray(), normalization, "--no-self-loops" not in words
    )
    tolerance = 1e-14 if "float64" in words else 1e-7
    np.testing.assert_allclose(arrays.dense(), expected, rtol=tolerance, atol=0)
    assert len(arrays.value) == (expected != 0).sum()

    # vertex data are there, in plan order
    with h5py.File(plan, locking=False) as file, np.load(data) as source:
        order = file["rows/global_id"][:]
        for name in source.files:
            np.testing.assert_array_equal(file[f"vertex_data/{name}"][:], source[name][order])
        assert sealing.attributes(file)["content_sha256"] == compiled["content_sha256"]
        deflated = file["matrix/value"].compression
    assert deflated == ("gzip" if "--compress" in words else None)

    checks = as_json("verify", plan, "--against", graph)
    assert checks["valid"] is True

    # inspect: every figure from the file, recomputed
    shown = as_json("inspect", plan, "--per-part")
    assert shown["parts"] == figures.parts(arrays, arrays.owner, p)
    for name, owner in (("metrics", arrays.owner), ("random", figures.random_owner(90, p))):
        assert shown[name] == pytest.approx(figures.metrics(arrays, owner, p), rel=1e-12)
    for name in ("metrics", "random", "content_sha256", "provenance"):
        assert shown[name] == compiled[name]
    assert shown["header"]["num_vertices"] == 90
    assert shown["header"]["num_nonzeros"] == len(arrays.value)
    provenance = shown["provenance"]
    recorded = ("model", "seed", "epsilon", "balance", "dims", "preset", "partitioner", "threads")
    recorded += ("effort", "topology")
    for option in recorded:
        if f"--{option}" in words:
            given = words[words.index(f"--{option}") + 1]
            assert str(provenance[option]) == given

    # the part vector, and the same plan from it
    vector = tmp_path / f"graph.part.{p}"
    ok("export", plan, "-o", vector)
    assert [int(line) for line in vector.read_text().splitlines()] == arrays.owner.tolist()
    kept = [w for w in words if w in ("--no-self-loops",)]
    for option in ("--normalize", "--dtype"):
        if option in words:
            kept += [option, words[words.index(option) + 1]]
    words = ["compile", graph, "-p", p, "--model", "file", "--part", vector, *kept, "--data", data]
    again = as_json(*words, "-o", tmp_path / "again.h5")
    assert again["content_sha256"] == compiled["content_sha256"]


def test_a_warning_is_one_line_and_no_failure(graph: Path, tmp_path: Path) -> None:
    vector = tmp_path / "half.part"
    vector.write_text("0\n" * 90)
    plan = tmp_path / "plan.h5"
    done = plancc("compile", graph, "-p", 2, "--model", "file", "--part", vector, "-o", plan)
    assert done.code == 0
    first, second = done.err.splitlines()
    assert first == "plancc: warning: 1 of 2 parts have no rows"
    assert second.startswith("plancc: warning: this plan is predicted to train ")
    assert SLOWER in second
    assert second.endswith("; try --model auto, or fewer parts")


# -- export of graphs ------------------------------------------------------------------------------


def test_export_mtx(graph: Path, tmp_path: Path) -> None:
    adjacency = mmread(graph).toarray()
    out = tmp_path / "copy.mtx"
    ok("export", graph, "-o", out)
    np.testing.assert_array_equal(mmread(out).toarray(), adjacency)
    ok("export", graph, "-o", tmp_path / "copy.mtx.gz")
    assert gzip.decompress((tmp_path / "copy.mtx.gz").read_bytes()) == out.read_bytes()
    ok("export", graph, "--normalize", "sym", "--self-loops", "-o", out)
    expected = figures.normalized(adjacency, "sym", True)
    np.testing.assert_allclose(mmread(out).toarray(), expected, rtol=1e-14)
    ok("export", graph, "--transpose", "-o", out)
    np.testing.assert_array_equal(mmread(out).toarray(), adjacency.T)
    ok("export", graph, "--pattern", "-o", out)
    np.testing.assert_array_equal(mmread(out).toarray(), adjacency != 0)


def test_export_metis_with_several_weights(graph: Path, data: Path, tmp_path: Path) -> None:
    first, out = tmp_path / "first.graph", tmp_path / "out.graph"
    first.write_text("3 2\n2\n1 3\n2\n")
    mask = np.array([True, False, True])
    np.savez(tmp_path / "data.npz", train_mask=mask)
    ok("export", first, "--balance", "nnz,work,train", "--dims", "4,3", "--data",
       tmp_path / "data.npz", "-o", out)  # fmt: skip
    # nonzeros; nonzeros * 4 + 4 * 3; training vertices; neighbours
    assert out.read_text() == "3 2 010 3\n1 16 1 2\n2 20 0 1 3\n1 16 1 2\n"
    ok("compile", out, "-p", 2, "--balance", "weights", "-o", tmp_path / "plan.h5", warned=True)


# -- how a graph is read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reading",
    ["--transpose", "--pattern --symmetrize", "--pattern", "--format edgelist --transpose"],
)
def test_reading_options_are_recorded_and_used_by_verify(reading: str, tmp_path: Path) -> None:
    source = tmp_path / ("edges.dat" if "--format" in reading else "edges.txt")
    edges = [(0, 1, 2.0), (1, 2, 0.5), (2, 0, 3.0), (4, 3, 1.5), (1, 4, 7.0), (4, 4, 1.0)]
    source.write_text("# directed\n" + "".join(f"{u}\t{v}\t{w}\n" for u, v, w in edges))
    plan = tmp_path / "plan.h5"
    words = ["--model", "block", "-p", 2, "--normalize", "none", "-o", plan]
    ok("compile", source, *words, *reading.split())
    expected = np.zeros((5, 5))
    for u, v, weight in edges:
        expected[u, v] = 1 if "--pattern" in reading else weight
    if "--transpose" in reading:
        expected = expected.T
    if "--symmetrize" in reading:
        expected = expected + expected.T - np.diag(np.diag(expected))
    with h5py.File(plan, locking=False) as file:
        notes = sealing.attributes(file["provenance"])
        directed = file.attrs["directed"]
    np.testing.assert_allclose(figures.read(plan).dense(), expected + np.eye(5))
    assert directed == ("--symmetrize" not in reading)
    flags = [word.removeprefix("--") for word in reading.split() if word.startswith("--")]
    assert notes["source_reading"].split() == [flag for flag in flags if flag != "format"]
    assert notes["source_format"] == "edgelist"
    ok("verify", plan, "--against", source)
