"""Text from outside on its way to a terminal."""

import re

import pytest

from plancc.errors import InputError, PlanccWarning
from plancc.text import MOST_MESSAGE, MOST_SHOWN, first_sentence, message, printable, shown

NASTY = ["\x1b[31mred", "bell\x07", "nul\0", "\x9b2J", "turn\u202edned", "bad\udcff", "de\x7fl"]


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("function", [printable, shown, message])
def test_control_characters_are_visible(text, function):
    made = function(text)
    assert made.isprintable()
    assert made.count("\N{REPLACEMENT CHARACTER}") == 1


def test_lines_become_one():
    assert message("first\n  second\r\nthird") == "first second third"
    assert shown(" a\n\tb\n") == "a b"
    assert shown("a\vb") == "a\ufffdb"
    assert printable("a\nb") == "a b"


def test_a_value_is_cut_at_its_end():
    assert shown("x" * MOST_SHOWN) == "x" * MOST_SHOWN
    assert shown("x" * 10**7) == "x" * (MOST_SHOWN - 3) + "..."
    assert shown(b"\xff\xfeab") == "\ufffd\ufffdab"


def test_long_values_in_a_message_are_cut_in_their_middle():
    made = message(f"/far/{'x' * 900}/plan.h5 holds '{'y z ' * 300}end' in its key")
    path, _, value = made.partition(" holds ")
    assert re.fullmatch(r"/far/x+\.\.\.x+/plan\.h5", path)
    assert len(path) == MOST_SHOWN
    found = re.fullmatch(r"'(y z y [^']*\.\.\.[^']*z end)' in its key", value)
    assert found is not None
    assert len(found[1]) == MOST_SHOWN


def test_a_message_is_bounded():
    made = message("word " * 10**6)
    assert len(made) == MOST_MESSAGE
    plain = "the parts' sizes " * 100 + "of the plan's own"
    assert message(plain) == plain  # apostrophes of English quote nothing


@pytest.mark.parametrize("kind", [InputError, PlanccWarning])
def test_every_error_and_warning_passes(kind):
    made = kind(f"file \x1b[2J: {[0] * 10**5}")
    assert str(made).isprintable()
    assert len(str(made)) <= MOST_MESSAGE


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Rows in stripes. More of it.", "Rows in stripes"),
        (
            "Block rows (Tripathy et al. 2020,\n  Algorithm 1).",
            "Block rows (Tripathy et al. 2020, Algorithm 1)",
        ),
        ("Divided by 2.5 at most. More", "Divided by 2.5 at most"),
        ("No stop", "No stop"),
        ("", ""),
    ],
)
def test_the_first_sentence(text, first):
    assert first_sentence(text) == first
