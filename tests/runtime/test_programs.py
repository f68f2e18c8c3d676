"""Programs that the executor runs, and those that its rule would run in another order."""

import pytest
import torch

from plancc.errors import InputError
from plancc.plan.products import (
    FEATURE,
    GRID,
    ROW,
    AllReduce,
    Broadcast,
    Gather,
    Multiply,
    Reduce,
    ScatterAdd,
    adjoint,
    edge_program,
    replicated,
)
from plancc_runtime.layouts.executor import Executor, actions_of, checked
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.single import SingleTransport

BUILT_IN = {
    "row": ROW,
    "edge, expand first": edge_program(True),
    "edge, fold first": edge_program(False),
    "grid": GRID,
    "1.5d": replicated(needed_only=False),
    "1.5d sparse": replicated(needed_only=True),
    "feature": FEATURE,
}


@pytest.mark.parametrize("program", BUILT_IN.values(), ids=BUILT_IN)
def test_built_in_programs_run_both_ways(program):
    assert checked(program) == program
    assert checked(adjoint(program)) == adjoint(program)


def executor_of(*program):
    return Executor(program, {}, {}, Resources(SingleTransport(), torch.float64))


OWN, HALO = Multiply("own", "x", "y"), Multiply("halo", "halo", "y")
PIECES = Broadcast("pieces", "x", "piece")
WRONG = {
    "messages of what is made": (
        (Multiply("a", "x", "t"), Gather("e", "t", "halo"), Multiply("b", "halo", "y")),
        r"^program: Gather 'e' from 't' to 'halo': its messages start before 't' is made; split",
    ),
    "broadcasts of what is made": (
        (
            Multiply("a", "x", "t"),
            Broadcast("pieces", "t", "piece"),
            Multiply("matrix", "piece", "y"),
        ),
        "Broadcast 'pieces' from 't' to 'piece': its messages start before",
    ),
    "a product of what is added": (
        (
            Multiply("x to u", "x", "u"),
            Multiply("a", "x", "t"),
            ScatterAdd("f", "t", "u"),
            Multiply("b", "u", "y"),
        ),
        "Multiply 'b' from 'u' to 'y': 'u' is complete only after the last product",
    ),
    "a product of what is summed": (
        (
            Multiply("a", "x", "piece", transposed=True),
            Reduce("pieces", "piece", "u"),
            Multiply("b", "u", "y"),
        ),
        "Multiply 'b' from 'u' to 'y': 'u' is complete",
    ),
    "read before it comes": ((HALO, Gather("e", "x", "halo"), OWN), "'halo' is read before this"),
    "gathered twice": (
        (Gather("e", "x", "halo"), Gather("f", "x", "halo"), HALO),
        "'halo' is read before this step, or also made by another",
    ),
    "scattered twice": (
        (OWN, Multiply("a", "x", "t"), ScatterAdd("e", "t", "y"), ScatterAdd("f", "t", "y")),
        "ScatterAdd 'f' from 't' to 'y': another step also sends 't'",
    ),
    "made after it left": (
        (OWN, Multiply("a", "x", "t"), ScatterAdd("e", "t", "y"), Multiply("b", "x", "t")),
        "Multiply 'b' from 'x' to 't': an earlier step has sent 't' to",
    ),
    "no product before": (
        (OWN, ScatterAdd("e", "x", "y")),
        "ScatterAdd 'e' from 'x' to 'y': no earlier product makes 'x'",
    ),
    "added to nothing": (
        (Multiply("a", "x", "t"), ScatterAdd("e", "t", "y")),
        "no product makes 'y', to which this step adds",
    ),
    "a transposed product of pieces": (
        (PIECES, Multiply("matrix", "piece", "y", transposed=True)),
        "Broadcast 'pieces' from 'x' to 'piece': exactly one product, not transposed, must read",
    ),
    "two products of pieces": (
        (PIECES, Multiply("a", "piece", "y"), Multiply("b", "piece", "y")),
        "exactly one product, not transposed, must read",
    ),
    "pieces of a product by its source": (
        (Multiply("matrix", "y", "piece"), Reduce("pieces", "piece", "x")),
        "Reduce 'pieces' from 'piece' to 'x': exactly one product, transposed, must make",
    ),
}


@pytest.mark.parametrize(("program", "words"), WRONG.values(), ids=WRONG)
def test_programs_of_another_order_are_refused(program, words):
    with pytest.raises(InputError, match=words):
        executor_of(*program)


def test_an_adjoint_is_refused_where_it_runs():
    """Messages that no product reads have no gradient; forward they are nothing wrong."""
    unread = executor_of(OWN, Gather("e", "x", "halo"))
    with pytest.raises(InputError, match="ScatterAdd 'e' from 'halo' to 'x': no earlier product"):
        unread.run({}, back=True)


def test_a_step_of_a_group_that_is_idle_parts_steps_all_the_same():
    """A gather behind it starts behind it, though one rank has nothing to sum."""
    program = (
        Multiply("a", "x", "t"),
        AllReduce("copies", "t", "u"),
        Gather("e", "u", "halo"),
        Multiply("b", "halo", "y"),
    )
    assert checked(program) == program
    for idle in ((), ("copies",)):
        found = [(each.what, each.step.name) for each in actions_of(program, True, idle)]
        shared = [("share", "copies")] * (not idle)
        assert found == [("multiply", "a"), *shared, ("start", "e"), ("multiply", "b")]
