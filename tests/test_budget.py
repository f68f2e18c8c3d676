"""Numbers of the sources that only fall: who lowers one lowers it here.

`python -m benchmarks house` prints them, with the lists behind them.
"""

from benchmarks.house import LAB, ROOT, budgets, files_loaded, files_of_row_path

BUDGET = {
    "code lines of the core": 56944,
    "code lines of the lab": 5431,
    "`import plancc.pipeline, plancc_runtime.run`: files": 170,
    "`import plancc.pipeline, plancc_runtime.run`: code lines": 19049,
    "row path, compile and run: files": 172,
    "row path, compile and run: code lines": 21956,
    "types: other files that name it": 98,
    "types: code lines there": 683,
    "links: other files that name it": 70,
    "links: code lines there": 433,
    "grids: other files that name it": 52,
    "grids: code lines there": 318,
    "hops: other files that name it": 26,
    "hops: code lines there": 176,
    "capacities: other files that name it": 34,
    "capacities: code lines there": 147,
    "edge features: other files that name it": 15,
    "edge features: code lines there": 35,
    "mini-batches: other files that name it": 62,
    "mini-batches: code lines there": 383,
    "disk: other files that name it": 25,
    "disk: code lines there": 63,
}
SLACK = 0.01
"""Share of a number by which the sources may be below the table."""


def test_the_sources_are_within_their_budget():
    found = budgets()
    assert found.keys() == BUDGET.keys()
    above = {
        name: (number, BUDGET[name]) for name, number in found.items() if number > BUDGET[name]
    }
    assert not above, "more than the budget: shorten, or take something away"
    low = {
        name: number for name, number in found.items() if number < (1 - SLACK) * BUDGET[name] - 1
    }
    assert not low, "lower the table"


def test_no_run_loads_the_lab():
    assert not [
        file for file in (*files_loaded(ROOT), *files_of_row_path(ROOT)) if file.startswith(LAB)
    ]
