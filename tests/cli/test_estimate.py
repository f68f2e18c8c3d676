"""`plancc estimate`, and `plancc compile --memory`."""

import json

import pytest
from cli_helpers import plancc

from plancc.search.footprint import ProblemSizes, ways

JSON = "estimate --vertices 1000 --nonzeros 9000 --memory 1G --json"
TABLE = "estimate --vertices 1000 --nonzeros 9000 --memory 1M --effort fast"
CSV = "estimate --vertices 1000 --nonzeros 9000 --csv"


def test_ways_as_they_are_tried():
    done = plancc(*JSON.split())
    told = json.loads(done.out)
    expected = list(ways(ProblemSizes(1000, 10_000), "balanced"))
    assert told["memory"] == 2**30
    assert [way["peak"] for way in told["ways"]] == [way.peak for way in expected]
    assert all(way["fits"] for way in told["ways"])
    assert told["ways"][0]["stages"] == expected[0].stages
    table = plancc(*TABLE.split())
    assert table.code == 0
    assert "allowed are 1 MiB" in table.out
    assert " no" in table.out
    csv = plancc(*CSV.split())
    assert csv.out.startswith("effort,clusters_only,on_disk,fits,peak,stages.read")
    mapped = json.loads(plancc(*JSON.split(), "--folder").out)
    expected = list(ways(ProblemSizes(1000, 10_000, mapped=True), "balanced"))
    assert [way["peak"] for way in mapped["ways"]] == [way.peak for way in expected]
    even = json.loads(plancc(*JSON.split(), "--even").out)
    expected = list(ways(ProblemSizes(1000, 10_000, uneven=False), "balanced"))
    assert [way["peak"] for way in even["ways"]] == [way.peak for way in expected]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--vertices 0 --nonzeros 1", "--vertices 0: at least 1"),
        ("--vertices 3 --nonzeros 10", "--nonzeros 10: 3 vertices have 9 at most"),
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
    assert not plan.exists()
