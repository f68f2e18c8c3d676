"""Replaying a corpus: what counts as a difference, and what is kept."""

import json

import pytest

from benchmarks.replay import Kept, compare, lines_of
from benchmarks.replay_cases import GRAPHS, MODELS, OBJECTIVES, PLANS, corpus


def outcome(content: str = "ab12", loss: str = "0.25", warning: str = "uneven") -> dict:
    return {
        "plans": {"content": content},
        "figures": {"loss": loss, "words": 7},
        "texts": {"warnings": [warning]},
    }


def test_equal_outcomes_are_one_line():
    found = compare({"a": outcome(), "b": outcome()}, {"b": outcome(), "a": outcome()})
    assert not found.failed
    assert list(lines_of(found)) == ["no difference: 2 cases, 8 values; texts that differ: 0"]


def test_another_hash_and_another_figure_are_differences():
    found = compare(
        {"a": outcome(), "b": outcome()}, {"a": outcome("cd"), "b": outcome(loss="0.5")}
    )
    assert found.failed
    (plan,), (figure,) = found.sections["plans"], found.sections["figures"]
    assert str(plan) == 'a: content: "ab12" -> "cd"'
    assert str(figure) == 'b: loss: "0.25" -> "0.5"'
    assert "plans that differ: 1, in 1 of 2 cases" in list(lines_of(found))


def test_another_wording_is_listed_and_does_not_fail():
    found = compare({"a": outcome()}, {"a": outcome(warning="not even")})
    assert not found.failed
    first, second, last = lines_of(found)
    assert first == "texts that differ: 1, in 1 of 1 cases"
    assert second == '  a: warnings: ["uneven"] -> ["not even"]'
    assert last.startswith("no difference")


@pytest.mark.parametrize("lacking", ["old", "new"])
def test_a_case_that_one_tree_lacks_is_a_difference(lacking):
    sides = {"old": {"a": outcome(), "b": outcome()}, "new": {"a": outcome(), "b": outcome()}}
    del sides[lacking]["b"]
    found = compare(**sides)
    assert found.failed
    (difference,) = found.sections["plans"]
    assert (difference.case, difference.key) == ("b", "case")
    assert getattr(difference, lacking) == "missing"


def test_a_value_that_one_tree_lacks_is_a_difference():
    less = outcome()
    del less["figures"]["words"]
    for old, new in ((less, outcome()), (outcome(), less)):
        (difference,) = compare({"a": old}, {"a": new}).sections["figures"]
        assert "missing" in (difference.old, difference.new)


@pytest.mark.parametrize(
    ("new", "differs"), [("0.30000000000000004", False), ("0.3000001", True), ("missing", True)]
)
def test_predicted_numbers_may_differ_by_rounding(new, differs):
    sides = [{"a": outcome() | {"predicted": {"seconds": value}}} for value in ("0.3", new)]
    found = compare(*sides)
    assert found.failed == differs
    assert len(found.sections["predicted"]) == differs


def test_an_error_in_place_of_a_plan_is_a_difference():
    error = {"plans": {"error": "InputError"}, "figures": {}, "texts": {"error": "error: no"}}
    assert compare({"a": outcome()}, {"a": error}).failed


def test_results_are_kept_by_key_and_a_line_cut_short_is_not(tmp_path):
    path = tmp_path / "results.jsonl"
    cases = [{"name": "a", "key": "1"}, {"name": "b", "key": "2"}]
    path.write_text(json.dumps({"key": "1", "outcome": outcome()}) + '\n{"key": "2", "outc')
    kept = Kept(path)
    assert kept.missing(cases) == cases[1:]
    assert kept.outcomes(cases) == {"a": outcome()}


def test_of_two_results_of_a_case_the_last_counts(tmp_path):
    path = tmp_path / "results.jsonl"
    results = [{"key": "1", "outcome": outcome(content)} for content in ("ab", "cd")]
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    assert Kept(path).outcomes([{"name": "a", "key": "1"}]) == {"a": outcome("cd")}


@pytest.mark.parametrize("quick", [True, False])
def test_the_corpus_has_every_model_and_objective(quick):
    cases = corpus(quick, shared=False)
    settings = [case["settings"] for case in cases if case["kind"] == "compile"]
    assert {each["model"] for each in settings} >= set(MODELS)
    assert {each.get("objective") for each in settings} >= set(OBJECTIVES)
    assert {case["graph"] for case in cases if case["kind"] == "compile"} <= set(GRAPHS)
    for case in cases:
        assert {*case.get("plans", ()), case.get("plan", "row")} <= set(PLANS)
