"""The tables of `inspect` and `compare` say what their JSON says, and the JSON is right."""

import json
import re
from itertools import pairwise, product
from pathlib import Path

import figures
import numpy as np
import pytest
from cases import long
from cli_helpers import as_json, ok

from plancc_cli.render_figures import FIGURES, OF_EDGE_PLANS

pytestmark = pytest.mark.usefixtures("opened_once")

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "s": 1, "ms": 1e-3, "us": 1e-6}


def table(text: str, title: str) -> list[list[str]]:
    """Cells of every line of a table."""
    lines = text.splitlines()
    lines = lines[[line.strip() for line in lines].index(title) + 1 :]
    rows = []
    for line in lines:
        if not line.strip():
            break
        rows.append(re.split(" {2,}", line.strip()))
    heads = max(len(row) for row in rows)
    return [row + [""] * (heads - len(row)) for row in rows[1:]]


def value(cell: str) -> float:
    words = cell.replace(",", "").split()
    return float(words[0]) * UNITS[words[1]] if len(words) > 1 else float(words[0])


def assert_shown(cell: str, expected: float) -> None:
    """The cell is the number, rounded as the table rounds."""
    if " " in cell:
        assert value(cell) == pytest.approx(expected, rel=0.06)
    elif isinstance(expected, int):
        assert cell == f"{expected:,}"
    else:
        decimals = 1 if expected >= 100 else 2 if expected >= 1 else 4
        assert cell == f"{expected:,.{decimals}f}"


def test_components_of_parts(plan: Path) -> None:
    found = as_json("inspect", plan, "--components")["components"]
    words = f"{min(found)} to {max(found)} in a part, {sum(found)} in all"
    assert words in ok("inspect", plan, "--components")
    merged = as_json("inspect", plan, "--components", "--ranks", 1)
    assert len(merged["components"]) == 1
    assert merged["components"][0] <= sum(found)


def test_the_answer_comes_first(plan: Path) -> None:
    """Figures from the first line on, beside those of random; the rest with -v."""
    first, *rest = ok("inspect", plan).splitlines()
    shown = as_json("inspect", plan)
    assert f"{shown['header']['num_vertices']} vertices" in first
    volume, random = shown["metrics"]["volume"], shown["random"]["volume"]
    lines = dict(
        re.split(" {2,}", line.strip(), maxsplit=1) for line in rest if re.match(r"\w.*  ", line)
    )
    assert lines["rows moved"] == f"{volume:,}, {volume / random:.2f} of random ({random:,})"
    assert re.match(r"[\d.]+ \w+, [\d.]+ of random", lines["predicted epoch"])
    assert len(rest) <= 12
    assert "content" not in lines
    assert "-v shows provenance" in rest[-1]


def test_one_part_moves_nothing(graph: Path, tmp_path: Path) -> None:
    text = ok("compile", graph, "-p", 1, "-o", tmp_path / "one.h5")
    text += ok("inspect", tmp_path / "one.h5")
    assert len(re.findall("rows moved +0, by a random partition too", text)) == 2
    assert "- of random" not in text


def test_tables_and_json_hold_the_same(plan: Path) -> None:
    words = [
        "inspect",
        plan,
        "-v",
        "--dims",
        "5,16,8,4",
        "--boundary-sampling",
        "1,0.1",
        "--per-part",
    ]
    text, shown = ok(*words), as_json(*words)

    rows = table(text, "communication and balance")
    of_row_plans = [(name, words) for name, words in FIGURES if name not in OF_EDGE_PLANS]
    assert [row[0] for row in rows] == [words.strip() for _, words in of_row_plans]
    for row, (name, _) in zip(rows, of_row_plans, strict=True):
        mine, random = shown["metrics"][name], shown["random"][name]
        assert_shown(row[1], mine)
        assert_shown(row[2], random)
        if row[3]:
            assert float(row[3]) == pytest.approx(mine / random, abs=5.1e-3)
    assert set(shown["metrics"]) == {name for name, _ in FIGURES}

    rows = table(text, "training a GCN of 5 x 16 x 8 x 4")
    for column, name in ((1, "training"), (2, "random_training")):
        cost = shown[name]
        memory = cost["max_memory"]
        expected = [
            cost["words"],
            4 * cost["words"],
            4 * cost["max_words_sent"],
            cost["messages"],
            cost["max_messages_sent"],
            *(
                memory[part]
                for part in ("plan", "matrix", "halo", "features", "activations", "total")
            ),
            cost["recomputed_memory"],
        ]
        assert len(rows) == len(expected)
        for row, number in zip(rows, expected, strict=True):
            assert_shown(row[column], number)

    rows = table(text, "words with passes, each added to those before")
    for row, cost in zip(rows, shown["training"]["passes"], strict=True):
        assert row[0] == (f"+ {cost['passes'][-1]}" if cost["passes"] else "plain")
        assert row[1] == f"{cost['words']:,}"
        assert row[2] == f"{100 * cost['saved']:.1f}%"
        assert row[3:] == [f"{cost[name]:,}" for name in ("max_words_sent", "messages")]
    rows = table(text, "boundary sampling (BNS-GCN)")
    for row, cost in zip(rows, shown["boundary_sampling"], strict=True):
        assert row[:2] == [f"{cost['rate']:g}", f"{cost['words']:,.0f}"]
        assert row[2] == f"{cost['messages']:,.1f}"
        assert_shown(row[3], cost["max_memory"])
        assert_shown(row[4], cost["mean_memory"])
    assert [cost["rate"] for cost in shown["boundary_sampling"]] == [1, 0.1]

    rows = table(text, "per part")
    names = ("rows", "nonzeros", "sent", "received", "messages_sent", "messages_received")
    assert len(rows) == 7
    for part, row in enumerate(rows):
        assert row == [str(part), *(f"{shown['parts'][name][part]:,}" for name in names)]

    header, notes = shown["header"], shown["provenance"]
    assert f"{header['num_vertices']} vertices, {header['num_nonzeros']} nonzeros" in text
    assert shown["content_sha256"] in text
    assert notes["source_sha256"] in text
    assert re.search(rf"partitioner version +{re.escape(notes['partitioner_version'])}", text)
    assert "features, labels, train_mask, test_mask" in text


DIMS = ((5, 4), (5, 16, 4), (5, 7, 7, 7))
RANKS = (None, 7, 3, 2, 1)
QUICK = {(DIMS[k % 3], ranks) for k, ranks in enumerate(RANKS)}


@pytest.mark.parametrize(
    ("dims", "ranks"),
    [
        pytest.param(*case, marks=() if case in QUICK else long, id=f"{case[0]} {case[1]}")
        for case in product(DIMS, RANKS)
    ],
)
def test_words_messages_and_merged_parts(dims: tuple[int, ...], ranks: int | None, plan: Path):
    words = ["inspect", plan, "--json", "--per-part", "--dims", ",".join(map(str, dims))]
    shown = json.loads(ok(*words, *([] if ranks is None else ["--ranks", ranks])))
    arrays, p = figures.read(plan), 7
    r = ranks or p
    rank_of_part = [next(k for k in range(r) if m < (k + 1) * p // r) for m in range(p)]
    owners = np.array(rank_of_part)[arrays.owner], figures.random_owner(90, r)
    of_parts, random = (figures.parts(arrays, owner, r) for owner in owners)
    assert shown["num_ranks"] == r
    assert shown["parts"] == of_parts
    for name, owner in zip(("metrics", "random"), owners, strict=True):
        assert shown[name] == pytest.approx(figures.metrics(arrays, owner, r), rel=1e-12)
    for name, tables in (("training", of_parts), ("random_training", random)):
        cost, layers = shown[name], len(dims) - 1
        width = sum(a + b for a, b in pairwise(dims))
        assert cost["words"] == width * sum(tables["sent"])
        pairs = list(zip(tables["sent"], tables["received"], strict=True))
        busiest = max(s * sum(dims[:-1]) + g * sum(dims[1:]) for s, g in pairs)
        assert cost["max_words_sent"] == busiest
        assert cost["messages"] == 2 * layers * sum(tables["messages_sent"])
        talk = zip(tables["messages_sent"], tables["messages_received"], strict=True)
        assert cost["max_messages_sent"] == layers * max(s + g for s, g in talk)
        memory = cost["max_memory"]
        assert memory["total"] == sum(bytes for term, bytes in memory.items() if term != "total")
        assert cost["recomputed_memory"] <= memory["total"]
        # no rank can do with less than its own H^0, nor the plan with less than its numbers
        assert memory["features"] >= 4 * dims[0] * min(tables["rows"])
        assert memory["plan"] >= 8 * min(tables["nonzeros"])
        assert cost["passes"][0]["words"] == cost["words"]


def test_compare_puts_plans_side_by_side(
    graph: Path, plan: Path, tmp_path: Path, monkeypatch
) -> None:
    other = tmp_path / "rp.h5"
    ok("compile", graph, "-p", 3, "--model", "rp", "--seed", 8, "-o", other)
    words = ["compare", plan, other, "--dims", "5,4"]
    both = as_json(*words)
    alone = [as_json("inspect", "-v", each, "--dims", "5,4") for each in (plan, other)]
    added = ("search_seconds", "pays", "pays_random")
    assert [{k: v for k, v in each.items() if k not in added} for each in both] == alone
    monkeypatch.setenv("COLUMNS", "400")  # since the paths are long
    text = ok(*words)
    rows = table(text, "figure (ratio to an even random partition)")
    by_label = {}
    for row in rows:
        by_label.setdefault(row[0], row[1:])
    assert by_label["model"] == ["hp", "rp"]
    assert by_label["parts"] == ["7", "3"]
    assert by_label["seed"] == ["1", "8"]
    for each, cell in zip(both, by_label["volume: rows moved per exchange"], strict=True):
        volume = each["metrics"]["volume"]
        assert cell == f"{volume:,} ({volume / each['random']['volume']:.2f})"
    for each, cell in zip(both, by_label["words sent per epoch"], strict=True):
        words_sent = each["training"]["words"]
        assert cell == f"{words_sent:,} ({words_sent / each['random_training']['words']:.2f})"
