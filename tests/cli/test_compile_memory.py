"""`plancc compile --memory`."""

from cli_helpers import plancc


def test_too_little_memory_is_said_before_the_search(tmp_path):
    graph, plan = tmp_path / "g.mtx", tmp_path / "p.h5"
    assert plancc("dataset", "grid", "-o", graph).code == 0
    done = plancc("compile", graph, "-p", 4, "--memory", "10M", "-o", plan)
    assert done.code == 2
    assert "nonzeros need" in done.err
    assert "--memory is 10 MiB" in done.err
    assert "mpirun -n R plancc compile FOLDER" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not plan.exists()
