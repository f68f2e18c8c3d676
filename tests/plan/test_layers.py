"""Steps of layers that cannot be right are refused where they enter, by file and line."""

import pytest

from plancc.errors import BackendError, InputError
from plancc.plan.convolutions import ConvOptions, GATOptions
from plancc.plan.layers import (
    Aggregate,
    GatherNeighbours,
    Linear,
    Maximum,
    OwnLinear,
    input_at_hand,
)

WRONG = {
    "nothing": (None, "give a list of steps of plancc.plan.layers, not None"),
    "no step": ([], "not []"),
    "a word": (["product"], "'product' is not a step"),
    "coefficients": ([Aggregate(8, "nonsense")], "coefficients 'nonsense': choose from plan, mean"),
    "not gathered": ([Maximum(8)], "Maximum needs gathered rows; put GatherNeighbours first"),
    "width": ([Linear(8, 4), Aggregate(8)], "reads 8 columns, but its input has 4"),
}


@pytest.mark.parametrize(("steps", "words"), WRONG.values(), ids=WRONG)
def test_steps_that_cannot_be_right(steps, words):
    class Wrong(ConvOptions):
        def steps(self, d_in, d_out, last):
            return steps

    with pytest.raises(BackendError) as raised:
        Wrong().both_ways((8, 4), last=True, first=True, fixed=False)
    assert words in str(raised.value)
    assert "test_layers.py, line" in str(raised.value)


def test_an_error_of_steps_is_not_another_ones():
    class Typo(ConvOptions):
        def steps(self, d_in, d_out, last):
            return [Linear(self.widht, d_out)]

    with pytest.raises(BackendError, match="has no attribute 'widht'"):
        Typo().both_ways((8, 4), last=True, first=True, fixed=False)


def test_own_rows_stay_before_a_product():
    steps = [OwnLinear(8, 4), Aggregate(4)]
    assert input_at_hand(steps) == steps
    maximum = [GatherNeighbours(8), Maximum(8), Linear(8, 4)]
    assert [each.at_hand for each in input_at_hand(maximum)] == [True, True, False]


def test_options_say_what_they_are():
    for given, words in (({"heads": "2.5"}, "a whole number"), ({"bias": "3"}, "true or false")):
        with pytest.raises(InputError, match=f"give {words}"):
            GATOptions.read(given, "GATConv")
