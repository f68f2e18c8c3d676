"""Commands on MPI ranks that are given different things: one sentence of all, and no hang."""

from dataclasses import replace

import numpy as np
import pytest
import worlds
from cli_helpers import plancc_run

from plancc.graph.csr import write_csr
from plancc.graph.vertexdata import VertexData

pytestmark = pytest.mark.mpi

PREDICT = "predict plan.h5 --weights w.npz"
COMPILE = "compile graph -o p.h5"
OTHERS = "the ranks have different options: "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A graph, plans with and without data, and weights of two networks."""
    made = tmp_path_factory.mktemp("ranks")
    (made / "graph").mkdir()
    write_csr(worlds.graph("undirected"), made / "graph")
    plan = worlds.plan("undirected", "row", 2)
    plan.save(made / "plan.h5")
    replace(plan, vertex_data=VertexData()).save(made / "bare.h5")
    (made / "pairs.csv").write_text("0,1\n")
    (made / "two.csv").write_text("3\n4\n")
    for name, model in (("w.npz", "gcn"), ("sage.npz", "sage")):
        done = plancc_run(made / "plan.h5", "--model", model, "--epochs", 1, "--save", made / name)
        assert done.code == 0, done.err
    return made


A_CSV = f"{PREDICT} -o a.csv"
TOGETHER = [
    (A_CSV, f"{PREDICT} --ids 1,2", 2,
     OTHERS + "--output is a.csv on rank 0, not given on rank 1; give all ranks the same"),
    (A_CSV, f"{PREDICT} -o b.csv", 2, OTHERS + "--output is a.csv on rank 0, b.csv on rank 1"),
    (A_CSV, f"{A_CSV} --ids two.csv", 2, OTHERS + "--ids is not given on rank 0, given on rank 1"),
    (f"{A_CSV} --links pairs.csv", A_CSV, 2,
     OTHERS + "--links is given on rank 0, not given on rank 1"),
    (f"{A_CSV} --embeddings 1", A_CSV, 2,
     OTHERS + "--embeddings is 1 on rank 0, not given on rank 1"),
    (f"{PREDICT} --ids 3,4,5", f"{PREDICT} --ids 3,4", 2,
     "the ids differ between ranks; give every rank the same ids"),
    (A_CSV, A_CSV.replace("w.npz", "sage.npz"), 2,
     "w.npz: the weights of rank 0 differ from those of rank 1"),
    (A_CSV, A_CSV.replace("w.npz", "gone.npz"), 2, "rank 1: gone.npz: "),
    (A_CSV, A_CSV.replace("plan.h5", "bare.h5"), 1, "the ranks opened different plans"),
    ("calibrate --quick -o m.toml", "calibrate -o m.toml", 2,
     OTHERS + "--quick is True on rank 0, False on rank 1"),
    (f"{COMPILE} -p 2", f"{COMPILE} -p 3", 2, OTHERS + "--parts is 2 on rank 0, 3 on rank 1"),
    (f"{COMPILE} -p 2", f"{COMPILE} -p 2 --compress", 2, "rank 1: --compress works in one"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "code", "sentence"), TOGETHER)
def test_ranks_refuse_together(first, second, code, sentence, folder, ranks, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    done = ranks.run(2, each=[first.split(), second.split()], program="plancc", timeout=60)
    assert done.returncode == code, done.stderr
    [said] = done.stderr.splitlines()
    assert sentence in said
    assert sorted(path.name for path in folder.iterdir()) == before


def test_files_of_ranks_may_have_other_names(folder, ranks, monkeypatch, tmp_path):
    """Rank 0 writes; the others read the same under names of their own."""
    monkeypatch.chdir(folder)
    for name in ("plan.h5", "w.npz", "two.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    words = [
        f"predict {at}/plan.h5 --weights {at}/w.npz --ids {at}/two.csv -o {tmp_path}/a.npz"
        for at in (".", tmp_path)
    ]
    done = ranks.run(2, each=[each.split() for each in words], program="plancc")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "a.npz") as found:
        assert found["id"].tolist() == [3, 4]
