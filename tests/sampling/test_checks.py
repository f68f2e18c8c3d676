"""What a third party's batch may answer, and what is refused."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from sampling_helpers import population_of

from plancc.cost.batches import batch_figures
from plancc.errors import InputError
from plancc.sampling import SHOWN, BatchLayer, Sampler, draw, make_sampler
from plancc.sampling.batch import VertexBatch

PATTERN = np.array([[1, 1, 0, 1], [1, 0, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]], bool)
POPULATION = population_of(PATTERN)


def int32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


LAYER = BatchLayer(
    rows=int32(0, 2),
    ptr=np.array([0, 2, 3]),
    columns=int32(0, 3, 3),
    places=int32(0, 2, 1),
    factors=np.array([1.0, 2.0, 0.5]),
)


@dataclass
class Answers(VertexBatch):
    """A batch that answers what it is told to; by default as it may."""

    members: Any = None
    asked: Any = None
    multiplied: Any = None
    layer: Any = None
    num_blocks: int = 1

    def __post_init__(self) -> None:
        self.population, self.listed = POPULATION, self.layer is not None

    def vertices(self):
        return int32(0, 2, 3) if self.members is None else self.members

    def targets(self):
        return self.asked

    def factors(self, block, vertices, rows, columns):
        return self.multiplied

    def block(self, block):
        return self.layer if self.listed else super().block(block)


@dataclass(frozen=True)
class ToldSampler(Sampler):
    """A third party's."""

    name: ClassVar[str] = "told"
    needs: ClassVar[tuple[str, ...]] = ("pattern",)
    made: Callable[[], Any] = Answers

    def batch(self, population, seed, number, stream=SHOWN):
        return self.made()


def asked(sampler: Sampler) -> None:
    """All that a rank asks a batch."""
    batch = draw(sampler, POPULATION, 0, 7)
    batch.block(0)
    if not batch.listed:
        batch.factors(0, int32(0, 2, 3), int32(0, 0, 1), int32(0, 2, 2))


def test_right_answers_pass():
    for answers in (
        {},
        {"asked": int32(), "multiplied": np.ones(3)},
        {"members": int32()},
        {"asked": int32(0, 3), "layer": LAYER},
    ):
        asked(ToldSampler(lambda answers=answers: Answers(**answers)))
    batch = draw(ToldSampler(lambda: Answers(layer=LAYER)), POPULATION, 0, 7)
    assert batch.block(0) is LAYER
    assert batch.vertices().tolist() == [0, 2, 3]


def test_built_in_batches_are_not_checked():
    sampler = make_sampler("uniform", 4, batch_size=2)
    assert type(draw(sampler, POPULATION, 0, 0)) is type(sampler.batch(POPULATION, 0, 0))


WRONG = {
    "vertices that descend": (
        {"members": int32(3, 2, 0)},
        r"`vertices` .*; it is int32\[3\] \[3 2 0",
    ),
    "vertices twice": (
        {"members": int32(0, 2, 2)},
        "`vertices` must be an int32 array of strictly",
    ),
    "a vertex past the last": (
        {"members": int32(0, 4)},
        r"`vertices` must be .* in 0\.\.3, or None",
    ),
    "a vertex below 0": ({"members": int32(-1, 2)}, "`vertices` must be"),
    "a list of vertices": ({"members": [0, 2, 3]}, r"`vertices` must be .*; it is \[0, 2, 3\]"),
    "64 bits": ({"members": np.array([0, 2])}, r"`vertices` must be .*; it is int64\[2\]"),
    "targets that descend": ({"asked": int32(2, 0)}, "`targets` must be an int32 array"),
    "targets elsewhere": ({"asked": int32(1)}, "`targets` must be among its `vertices`"),
    "short factors": ({"multiplied": np.ones(2)}, r"`factors` must be float64\[3\]"),
    "factors of 32 bits": ({"multiplied": np.ones(3, np.float32)}, r"it is float32\[3\]"),
    "factors of nan": ({"multiplied": np.array([1, np.nan, 1])}, "one finite number"),
    "blocks": ({"num_blocks": 2}, "`num_blocks` must be the sampler's, 1; it is 2"),
    **{
        f"layer with {name} {value}": ({"layer": replace(LAYER, **{name: value})}, words)
        for name, value, words in (
            ("rows", int32(2, 0), "`rows` must be an int32 array"),
            ("rows", int32(0, 1), "`rows` must be among its `vertices`"),
            ("ptr", int32(0, 2, 3), "`ptr` of a block"),
            ("ptr", np.array([0, 4, 3]), "`ptr` of a block"),
            ("columns", int32(3, 0, 3), "`columns` of a block"),
            ("columns", int32(0, 3), "`columns` of a block"),
            ("columns", int32(0, 1, 3), "`columns` must be among its `vertices`"),
            ("places", None, "`places` of a `listed` batch .* it is None"),
            ("places", int32(0, 1, 1), "`places` of a `listed` batch"),
            ("places", int32(0, 9, 1), "`places` of a `listed` batch"),
            ("places", int32(0, 2, -1), "`places` of a `listed` batch"),
            ("factors", None, "`factors` of a `listed` batch .* it is None"),
            ("factors", np.array([1, 0, 1.0]), "finite and not 0"),
        )
    },
    "no layer": ({"layer": 3}, r"`block\(\)` must be a plancc.sampling.BatchLayer; it is 3"),
}


@pytest.mark.parametrize(("answers", "words"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_refused(answers, words):
    with pytest.raises(InputError, match=rf"^sampler 'told', batch 7: .*{words}"):
        asked(ToldSampler(lambda: Answers(**answers)))


def test_no_batch_at_all():
    with pytest.raises(
        InputError, match=r"`batch\(\)` must be a plancc.sampling.Batch; it is None"
    ):
        asked(ToldSampler(lambda: None))


def test_a_listed_batch_needs_the_pattern():
    class Without(ToldSampler):
        needs = ()

    with pytest.raises(InputError, match='`listed` needs "pattern" in `needs`'):
        asked(Without(lambda: Answers(layer=LAYER)))


def test_figures_are_of_checked_batches():
    owner = np.zeros(4, np.int32)
    sampler = ToldSampler(lambda: Answers(int32(3, 0)))
    with pytest.raises(InputError, match=r"^sampler 'told', batch 5: `vertices`"):
        batch_figures(sampler, POPULATION, [(owner, 1)], range(5, 6), seed=0)
