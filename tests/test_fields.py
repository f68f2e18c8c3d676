"""Options as fields: what signatures, docstrings, checks and command lines make of them."""

import inspect
import math
from dataclasses import dataclass

import click
import pytest

import plancc
from plancc.fields import check_options, described, divided, like, option, options_of, taking
from plancc.options import PlanOptions, RefineOptions, SearchOptions
from plancc.predict.machine_files import find_machine
from plancc_cli.options import option_of
from plancc_runtime.options import TrainOptions


@described
@dataclass(frozen=True)
class Cut:
    """How a cake is cut.

    Raises:
        InputError: It cannot be.
    """

    pieces: int = option(8, "number of pieces", more="All alike.", at_least=1, at_most=64)
    width: float | None = option(
        None, "width of a piece", otherwise="even", above=0, below=math.inf
    )
    shape: str = option("round", "outline; see `pieces`", choices=("round", "square"))
    knife: bool = option(False, internal=True)

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Served:
    pieces: int = like(Cut, "pieces", default=2)


@taking(Cut, rest="guests")
def cut(cake: str, shape: str = "round", **options):
    """Cut a cake.

    Parameters:
        **options
        **guests: By name.
    """
    return divided(options, Cut)


def test_a_docstring_has_the_options_of_its_class():
    assert Cut.__doc__ is not None
    head, tail = Cut.__doc__.split("Raises:\n")
    assert "    pieces (int): Number of pieces. Default: 8. All alike.\n" in head
    assert "    width (float | None): Width of a piece. Default: even.\n" in head
    assert "    shape ({round, square}): Outline; see `pieces`. Default: round." in head
    assert "knife" not in head
    assert tail.endswith("It cannot be.")


def test_a_function_shows_the_options_that_it_takes():
    shown = inspect.signature(cut).parameters
    assert [*shown] == ["cake", "shape", "pieces", "width", "guests"]
    assert shown["pieces"].default == 8
    assert shown["guests"].kind is inspect.Parameter.VAR_KEYWORD
    assert cut.__doc__ is not None
    assert "Parameters:\n    pieces (int): Number" in cut.__doc__
    assert cut("x", pieces=3, ann=1) == [{"pieces": 3}, {"ann": 1}]
    assert Served().pieces == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pieces": 0}, "`pieces` 0: must be at least 1"),
        ({"pieces": 65}, "`pieces` 65: must be at most 64"),
        ({"pieces": 2.0}, "`pieces` 2.0: a whole number is needed"),
        ({"width": 0}, "`width` 0: must be above 0"),
        ({"width": math.nan}, "`width` nan: must be above 0"),
        ({"width": math.inf}, "`width` inf: must be finite"),
        (
            {"shape": "rond"},
            r"unknown shape 'rond' \(did you mean round\?\); choose from round, sq",
        ),
    ],
)
def test_what_an_option_cannot_be(given, said):
    with pytest.raises(plancc.InputError, match=said):
        Cut(**given)


def test_a_command_line_reads_and_checks_them():
    options = [option_of(each) for each in options_of(Cut)]
    command = click.Command("cut", params=[*options], callback=lambda **given: given)
    given = ["--pieces", "3", "--shape", "square"]
    found = command.main(given, standalone_mode=False)
    assert found == {"pieces": 3, "width": None, "shape": "square"}
    with pytest.raises(plancc.InputError, match="`pieces` 65: must be at most 64"):
        command.main(["--pieces", "65"], standalone_mode=False)
    text = command.get_help(click.Context(command))
    assert "Outline; see --pieces.  [default: round]" in text
    assert "Width of a piece.  [default: even]" in text


@pytest.mark.parametrize(
    ("function", "declared"),
    [
        (plancc.compile, (SearchOptions, PlanOptions)),
        (plancc.refine, (RefineOptions,)),
        (plancc.train, (TrainOptions,)),
    ],
)
def test_the_library_shows_its_options(function, declared):
    parameters, text = inspect.signature(function).parameters, inspect.getdoc(function)
    for each in [each for one in declared for each in options_of(one)]:
        assert parameters[each.name].default == each.default
        assert f"\n    {each.name} (" in text
        assert each.metadata["help"], each.name


def test_what_refine_says_of_machines_and_their_speeds():
    text = inspect.getdoc(plancc.refine) or ""
    speeds = " ".join(text.split("\n    capacities (")[1].split("\n\n")[0].split())
    assert "Default: the machine's." in speeds
    assert "None:" not in speeds  # once
    assert "\n    machine (Machine | str | None): " in text
    assert RefineOptions(machine="simple") == RefineOptions(machine=find_machine("simple"))
