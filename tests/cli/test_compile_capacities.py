"""``--capacities`` of compile and refine: a list or a file, and what is refused."""

import json
from pathlib import Path

from cli_helpers import as_json, ok


def test_the_commands(tmp_path: Path) -> None:
    source, file = tmp_path / "g.mtx", tmp_path / "speeds.txt"
    ok("dataset", "sbm", "--size", 50, "--p-in", 0.12, "--p-out", 0.004, "-o", source)
    file.write_text("1 3\n1, 2\n")
    words = ["compile", source, "-p", 4, "--effort", "fast", "--json"]
    by_list = json.loads(ok(*words, "--capacities", "1,3,1,2", "-o", tmp_path / "a.h5"))
    by_file = json.loads(ok(*words, "--capacities", file, "-o", tmp_path / "b.h5"))
    assert by_list["content_sha256"] == by_file["content_sha256"]
    assert by_list["provenance"]["machine"]["speed"] == [1, 3, 1, 2]
    seconds = as_json("simulate", tmp_path / "a.h5")["seconds"]
    assert seconds == by_list["epoch"]["seconds"]
    reached = by_list["provenance"]["balance_imbalance"].split(",")
    shown = f"above its share by capacities: {float(reached[0]):.1%} in nnz"
    assert shown in " ".join(ok("inspect", tmp_path / "a.h5").split())
    better = ["refine", tmp_path / "a.h5", "--capacities", "1,1,1,1", "--json"]
    refined = json.loads(ok(*better, "-o", tmp_path / "c.h5"))
    assert refined["provenance"]["machine"]["speed"] == [1, 1, 1, 1]
