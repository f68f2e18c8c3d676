"""Graphs of people's daily work: read as they are meant, or said, or refused."""

import pytest
from input_case import Case, run_case

CASES = [
    Case(
        "pairs with ids from 0",
        {"g.txt": "0 1\n1 2\n2 0\n"},
        "compile g.txt PLAIN",
        entries={(0, 1): 1.0, (1, 2): 1.0, (2, 0): 1.0},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_graph_is_read_as_it_is_meant(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)
