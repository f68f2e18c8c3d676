"""Numbers of the sources that only fall: who lowers one lowers it here.

`python -m benchmarks house` prints them, with the lists behind them.
"""

from benchmarks.house import budgets

BUDGET = {}
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
