"""Exports loaded by the real libraries: PyTorch Geometric here, others where they are installed.

A Python with dgl 2.1.0 is named by PLANCC_DGL_PYTHON, one with petsc4py by PLANCC_PETSC_PYTHON
(default: /usr/bin/python3, where Debian has it); PLANCC_DGL_TOOLS is the folder tools/ of DGL's
sources. A test whose library is found nowhere is skipped.
"""

import os
import runpy
import shutil
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cases import long
from export_helpers import LOADERS, python_with, run, system_mpi

from plancc.export import export
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.plan.lowering import lower


@long
def test_distdgl(case, tmp_path):
    """Written by the command in the Python that has DGL, too."""
    python, out = python_with("dgl", "PLANCC_DGL_PYTHON"), tmp_path / "out"
    main = "from plancc_cli.main import main; main()"
    run(python, "-c", main, "export", case.path, "--to", "distdgl", "-o", out)
    said = run(python, LOADERS / "distdgl.py", out / "plancc.json", case.reference)
    assert "loaded by dgl" in said


@long
def test_dgl_chunked(case, tmp_path):
    """DGL's own tools make a DistDGL partition of it, on two ranks."""
    tools = os.environ.get("PLANCC_DGL_TOOLS", "")
    if not tools:
        pytest.skip("name the folder tools/ of DGL's sources in PLANCC_DGL_TOOLS")
    python = python_with("dgl, pyarrow, psutil", "PLANCC_DGL_PYTHON")
    folder, out = tmp_path / "chunked", tmp_path / "out"
    export(case.plan, "dgl-chunked", folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [python, Path(tools) / "distpartitioning" / "data_proc_pipeline.py"]
    words += ["--world-size", 2, "--num-parts", 4, "--graph-name", "plancc"]
    words += ["--schema", "metadata.json", "--process-group-timeout", 120]
    words += ["--input-dir", folder, "--partitions-dir", folder, "--output", out]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    where["PYTHONPATH"] = tools

    def rank(number: int) -> str:
        return run(*words, RANK=str(number), **where)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(rank, range(2)))
    config = out / "metadata.json"
    assert "loaded by dgl" in run(python, LOADERS / "distdgl.py", config, case.reference)


def test_pyg(case, tmp_path, monkeypatch, capsys):
    """Both exports, and one of a graph whose last vertices are isolated.

    Without features nothing but ``num_nodes`` tells of these.
    """
    graph = Graph(np.minimum(np.arange(41), 35), np.arange(1, 36, dtype=np.int32), np.ones(35))
    owners = Owners(np.repeat(np.arange(4, dtype=np.int32), 10))
    plan = lower(graph, owners, 4, normalization="none", self_loops=False)
    plan.save(tmp_path / "plan.h5")
    lines = [
        f"pyg-cluster {case.path} {tmp_path}/cluster pyg_cluster.py {case.reference}",
        f"pyg-partition {case.path} {tmp_path}/partition pyg_partition.py {case.reference}",
        f"pyg-cluster {tmp_path}/plan.h5 {tmp_path}/isolated pyg_sizes.py 4",
    ]
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "stdin", lines)
    runpy.run_path(str(LOADERS / "pyg.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("loaded by torch_geometric") == 2
    assert said.splitlines()[-1] == f"40 35 {np.diff(plan.part_ptr).tolist()}"


@long
def test_petsc(case, tmp_path):
    python = python_with("petsc4py", "PLANCC_PETSC_PYTHON", "/usr/bin/python3")
    mpirun = system_mpi()
    export(case.plan, "petsc", tmp_path / "out")
    said = run(*mpirun, python, LOADERS / "petsc.py", tmp_path / "out", case.reference)
    assert "loaded by PETSc" in said


@long
def test_hypre(case, tmp_path):
    if not Path("/usr/include/hypre/_hypre_parcsr_mv.h").exists() or not shutil.which("mpicc"):
        pytest.skip("no hypre of the system (libhypre-dev)")
    mpirun = system_mpi()
    export(case.plan, "hypre", tmp_path / "out")
    order = case.plan.global_id
    vector = np.random.default_rng(1).standard_normal(len(order))
    np.savetxt(tmp_path / "vector", vector[order], fmt="%.17g")
    np.savetxt(tmp_path / "product", (case.matrix @ vector)[order], fmt="%.17g")
    program = tmp_path / "hypre"
    run("mpicc", "-I/usr/include/hypre", LOADERS / "hypre.c", "-o", program, "-lHYPRE", "-lm")
    files = (tmp_path / name for name in ("out", "vector", "product"))
    assert "loaded by hypre" in run(*mpirun, program, *files)
