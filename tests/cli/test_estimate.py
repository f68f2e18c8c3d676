"""`plancc estimate`, and `plancc compile --memory`."""

import json

from cli_helpers import plancc

from plancc.search.footprint import ProblemSizes, work

JSON = "estimate --vertices 1000 --nonzeros 9000 --memory 1G --json"


def peaks(**sizes):
    """Efforts balanced and fast are estimated."""
    sizes = ProblemSizes(1000, 10_000, **sizes)
    return [work(sizes, effort, False).peak for effort in ("balanced", "fast")]


def test_what_efforts_take():
    done = plancc(*JSON.split())
    told = json.loads(done.out)
    assert told["memory"] == 2**30
    assert [way["effort"] for way in told["ways"]] == ["balanced", "fast"]
    assert [way["peak"] for way in told["ways"]] == peaks()
    assert all(way["fits"] for way in told["ways"])
    stages = work(ProblemSizes(1000, 10_000), "balanced", False).stages
    assert told["ways"][0]["stages"] == stages
    mapped = json.loads(plancc(*JSON.split(), "--folder").out)
    assert [way["peak"] for way in mapped["ways"]] == peaks(mapped=True)
    even = json.loads(plancc(*JSON.split(), "--even").out)
    assert [way["peak"] for way in even["ways"]] == peaks(uneven=False)
    large = ("estimate", "--vertices", 10**5, "--nonzeros", 10**6, "--effort", "fast", "--json")
    (way,) = json.loads(plancc(*large).out)["ways"]
    assert way["peak"] == work(ProblemSizes(10**5, 11 * 10**5), "fast", True).peak


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
