"""`plancc estimate`, and `plancc compile --memory`."""

import json

import pytest
from cli_helpers import plancc

from plancc.search.footprint import ProblemSizes, work

JSON = "estimate --vertices 1000 --nonzeros 9000 --memory 1G --json"
TABLE = "estimate --vertices 1000 --nonzeros 9000 --memory 1M --effort fast"
CSV = "estimate --vertices 1000 --nonzeros 9000 --csv"


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
    table = plancc(*TABLE.split())
    assert table.code == 0
    assert "allowed are 1 MiB" in table.out
    assert " no" in table.out
    csv = plancc(*CSV.split())
    assert csv.out.startswith("effort,fits,peak,stages.read")
    mapped = json.loads(plancc(*JSON.split(), "--folder").out)
    assert [way["peak"] for way in mapped["ways"]] == peaks(mapped=True)
    even = json.loads(plancc(*JSON.split(), "--even").out)
    assert [way["peak"] for way in even["ways"]] == peaks(uneven=False)
    large = ("estimate", "--vertices", 10**5, "--nonzeros", 10**6, "--effort", "fast", "--json")
    (way,) = json.loads(plancc(*large).out)["ways"]
    assert way["peak"] == work(ProblemSizes(10**5, 11 * 10**5), "fast", True).peak


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--vertices 0 --nonzeros 1", "--vertices 0: at least 1"),
        ("--vertices 3 --nonzeros 10", "--nonzeros 10: at most 9 are possible"),
        ("--vertices 3 --nonzeros -1", "--nonzeros -1: at least 0"),
        ("--vertices 3000000000 --nonzeros 1", "--vertices 3000000000: at most"),
        ("--vertices 3 --nonzeros 1 --features -2", "--features -2: at least 0"),
        ("--vertices 3 --nonzeros 1 --memory lots", "'lots': give bytes"),
        ("--vertices 3 --nonzeros 1 --effort hard", "hard"),
    ],
)
def test_bad_numbers(words, said):
    done = plancc("estimate", *words.split())
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


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
