"""Ids that are names: read, kept in the plan, found in vertex data, written with predictions."""

import gzip

import h5py
import numpy as np
import pytest
from cli_helpers import plancc
from input_case import PLAIN, Case, parquet, run_case

from plancc import load
from plancc.plan.matrix import ends_of_links

EDGES = [("bob", "alice"), ("carol", "bob"), ("Smith, J", "zoë"), ("alice", "carol")]
KNOWS = {(u.encode(), v.encode()): 1.0 for u, v in EDGES}
CSV = 'bob,alice\ncarol,bob\n"Smith, J",zoë\nalice,carol\n'
GZIP = gzip.compress(CSV.encode())
LATIN = "renée,bob\nbob,renée\n".encode("latin-1")
IDS = ["zoë", "carol", "alice", "Smith, J", "bob"]
NUMBERS = np.array([5.0, 3.0, 1.0, 0.0, 2.0])
"""Rows of the names in `IDS`; in the order of all names they are 0, 1, 2, 3, 5."""
DATA = "id,f0,f1,label\n" + "".join(
    f'"{name}",{k},{-k},{k % 2}\n' for name, k in zip(IDS, NUMBERS.astype(int), strict=True)
)
FEATURES = np.array([[0, 0], [1, -1], [2, -2], [3, -3], [5, -5]], np.float32)
ROWS = {"features": FEATURES, "labels": [0, 1, 0, 1, 1]}
NAMED = "ids are names: 5 vertices, numbered in the order of the names"


def npz(**arrays):
    return lambda path: np.savez(path, **arrays)


def edges(command: str, files: dict, name: str, entries: dict, **more) -> Case:
    by_name = {tuple(word.encode() for word in pair): 1.0 for pair in entries}
    return Case(name, files, f"compile {command} PLAIN", entries=by_name, **more)


TO_BOB = [("a", "bob"), ("bob", "c")]
CASES = [
    Case("csv", {"g.csv": CSV}, says=(NAMED,), entries=KNOWS),
    Case("other order", {"g.csv": "".join(reversed(CSV.splitlines(True)))}, entries=KNOWS),
    Case("gzip", {"g.csv.gz": GZIP}, entries=KNOWS),
    Case("usual names above", {"g.csv": f"Source,Target\n{CSV}"},
         says=("row = Source, column = Target",), silent=("warning",), entries=KNOWS),
    Case("other names above", {"g.csv": f"follower,followee\n{CSV}"},
         says=("g.csv, line 1: 'follower,followee' is read as names of columns|--columns 1,2",),
         entries=KNOWS),
    Case("parquet", {"g.parquet": parquet(src=[u for u, _ in EDGES], dst=[v for _, v in EDGES])},
         says=(NAMED,), entries=KNOWS),
    Case("converted", {"g.csv": CSV}, "convert g.csv -o folder"),
    Case("weights", {"g.csv": "a;bob;1,5\nbob;c;2\n"}, entries={(b"a", b"bob"): 1.5,
         (b"bob", b"c"): 2.0}),
    Case("weights below names", {"g.txt": "p1 p2 score\na bob 1.5\nbob c 2\n"},
         silent=("warning: g",), entries={(b"a", b"bob"): 1.5, (b"bob", b"c"): 2.0}),
    Case("parquet with weights and a dictionary", {"g.parquet": parquet(u=["a", "bob"],
         v=["bob", "c"], w=[1.5, 2.0])}, entries={(b"a", b"bob"): 1.5, (b"bob", b"c"): 2.0}),
    edges("g.txt", {"g.txt": "# c\n\na bob\n\n% d\nbob\tc\r\n"}, "comments and blanks", TO_BOB),
    edges("g.txt", {"g.txt": '"a" "bob"\n"bob" "c"'}, "quotes between blanks", TO_BOB),
    edges("g.tsv", {"g.tsv": "New York\tL. A.\nL. A.\tParis\n"}, "blanks between tabs",
          [("New York", "L. A."), ("L. A.", "Paris")]),
    edges("g.csv", {"g.csv": 'a,"x ""y"""\n"x ""y""",a\n'}, "quotes in quotes",
          [("a", 'x "y"'), ('x "y"', "a")]),
    edges("g.txt", {"g.txt": "10.0.0.1 10.0.0.2\n10.0.0.2 7\n"}, "addresses and a number",
          [("10.0.0.1", "10.0.0.2"), ("10.0.0.2", "7")]),
    edges("g.csv", {"g.csv": "10.1000/1,10.1000/2\n10.1000/2,10.1000/3\n"}, "DOIs",
          [("10.1000/1", "10.1000/2"), ("10.1000/2", "10.1000/3")]),
    edges("g.csv --columns 1,3", {"g.csv": "a,likes,bob\nbob,likes,c\n"}, "columns", TO_BOB),
    edges("g.csv --columns to,from", {"g.csv": "from,to,when\nbob,a,x\nc,bob,y\n"},
          "columns by name", TO_BOB),
    edges("g.csv --columns 1,2", {"g.csv": "who,whom\na,bob\nbob,c\n"}, "no names of columns",
          [("who", "whom"), *TO_BOB]),
    edges("g.txt", {"g.txt": "x y\na bob\nbob c\n"}, "perhaps names of columns",
          [("x", "y"), *TO_BOB],
          says=("g.txt, line 1: 'x y' is read as an edge; neither word occurs as an id below",)),
    edges("g.txt", {"g.txt": "u v\nv w\n"}, "usual names that are ids", [("v", "w")],
          says=("g.txt, line 1: 'u v' is read as names of columns; 'v' occurs as an id below",)),
    edges("g.csv --transpose", {"g.csv": "bob,a\nc,bob\n"}, "turned", TO_BOB),
    Case("rows of a csv", {"g.csv": CSV, "d.csv": DATA}, "compile g.csv --data d.csv PLAIN",
         rows=ROWS, silent=("rows without ids",)),
    Case("rows of an npz", {"g.csv": CSV, "d.npz": npz(id=np.array(IDS), train_idx=IDS[:2],
         features=np.stack([NUMBERS, -NUMBERS], axis=1), labels=NUMBERS.astype(int) % 2)},
         "compile g.csv --data d.npz PLAIN", rows=ROWS | {"train_mask": [0, 0, 0, 1, 1]}),
    Case("rows of a parquet", {"g.csv": CSV, "d.parquet": parquet(id=IDS, f0=NUMBERS, f1=-NUMBERS,
         label=NUMBERS.astype(int) % 2)}, "compile g.csv --data d.parquet PLAIN", rows=ROWS),
    Case("rows without ids", {"g.csv": CSV, "d.npy": lambda path: np.save(path, FEATURES)},
         "compile g.csv --data d.npy PLAIN", rows={"features": FEATURES},
         says=("d.npy: rows without ids|order of vertices (Smith, J, alice, bob, carol, ...)",)),
]  # fmt: skip
AUTHORS, PAPERS = {"num_nodes": 2, "n_id": ["zoë", "ann"]}, {"num_nodes": 3}
WRITES = ("author", "writes", "paper")
WRITTEN = {WRITES: {"edge_index": [[0, 1, 1], [1, 2, 0]]}}
TWO = '*Vertices 4 2\n1 "zoë"\n2 "ann"\n3 "B"\n4 "ann"\n*Edges\n1 3 2\n2 4 5\n'


def pt(record: dict):
    def write(path):
        torch = pytest.importorskip("torch")
        torch.save(
            {
                name: {
                    key: torch.tensor(each) if key in ("edge_index", "x", "y") else each
                    for key, each in held.items()
                }
                for name, held in record.items()
            },
            path,
        )

    return write


def ids_of(*words: str):
    """Ids of the plan's vertices, in their order."""

    def check(folder):
        with h5py.File(folder / "p.h5") as file:
            rows = file["rows"]
            found = rows["original_id"][:][np.argsort(rows["global_id"][:])]
        assert [*found] == [each.encode() for each in words]

    return check


def check_links(folder):
    """Rows of a plan of one part are its vertices: Smith, J; alice; bob; carol; zoë."""
    assert ends_of_links(load(folder / "p.h5")).T.tolist() == [[1, 2], [4, 0], [2, 4]]


LATER = [
    Case("types", {"g.pt": pt({"author": AUTHORS, "paper": PAPERS, **WRITTEN})},
         says=("numbered in the source's order",), silent=("ignored:",),
         check=ids_of("zoë", "ann", "0", "1", "2"), entries={(b"1", b"zo\xc3\xab"): 1,
         (b"2", b"ann"): 1, (b"0", b"ann"): 1}),
    Case("types with numbers", {"g.pt": pt({"author": {"num_nodes": 2, "ids": [70, 10]},
         "paper": {"num_nodes": 3, "n_id": [5, 3, 70]}, **WRITTEN})},
         entries={(3, 70): 1, (70, 10): 1, (5, 10): 1}),
    Case("types with both", {"g.pt": pt({"author": AUTHORS,
         "paper": {"x": [[1.0]] * 3, "n_id": [5, 3, 7]}, **WRITTEN})}, silent=("ignored:",),
         check=ids_of("zoë", "ann", "5", "3", "7")),
    Case("types without ids that differ", {"g.pt": pt({"author": {**AUTHORS, "n_id": ["a", "a"]},
         "paper": PAPERS, **WRITTEN})}, says=("type 'author': ignored: 'n_id'|numbered by row",),
         entries={(3, 0): 1, (4, 1): 1, (2, 1): 1}),
    Case("two modes", {"g.net": TWO}, silent=("ignored:",),
         check=ids_of("zoë", "ann", "B", "ann")),
    Case("two modes turned", {"g.net": TWO}, "compile g.net --transpose PLAIN",
         check=ids_of("B", "ann", "zoë", "ann")),
    Case("links", {"g.csv": CSV, "l.npz": npz(train=[["alice"], ["bob"]],
         val=[["zoë"], ["Smith, J"]], val_negative=[["bob"], ["zoë"]])},
         "compile g.csv --links l.npz PLAIN", silent=("vertex numbers",), check=check_links),
    Case("links of a stranger", {"g.csv": CSV, "l.npz": npz(train=[["alice"], ["Bob"]])},
         "compile g.csv --links l.npz PLAIN", refused="l.npz: train[1, 0]|'Bob'"),
    Case("parts by line", {"g.csv": CSV, "v.part": "0\n0\n0\n0\n0\n"},
         "compile g.csv --model file --part v.part -p 1 -o p.h5",
         says=("v.part: lines are read in the graph's order of vertices (Smith, J, alice,",)),
]  # fmt: skip


REFUSED = {
    "empty.csv": ("a,b\na,\n", "line 2|an id or a weight is empty|'a,'"),
    "wide.csv": ("a,b\nb,c,d\n", "line 2|2 columns are expected, as in the first line|'b,c,d'"),
    "latin.csv": (LATIN, "line 1|an id is not UTF-8"),
    "control.csv": ("a,b\nb,c\x01\n", "line 2|a control character"),
    "long.txt": ("a b\n" + "x" * 1025 + " b\n", "line 2|an id has more than 1,024 bytes"),
    "weight.txt": ("a b 1\nb c x\n", "line 2|the weight is not a number|'x'"),
    "list.txt": ("alice: bob\n", "line 1|write an adjacency list as an edge list"),
    "pairs.txt": ("(1, 2)\n(2, 3)\n", "line 1|without brackets|'(1, 2)'"),
    "mixed.txt": ("1 2\n2 bob\n", "line 2|'bob'|move a line with a name to the top"),
}


@pytest.mark.parametrize("case", [*CASES, *LATER], ids=str)
def test_names_are_ids(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_name_is_refused(name, tmp_path, monkeypatch):
    content, words = REFUSED[name]
    case = Case(name, {name: content}, f"compile {name} PLAIN", refused=f"{name}|{words}")
    run_case(case, tmp_path, monkeypatch)


OTHERS = [
    Case(words, {"g.csv": CSV, "d.csv": data}, f"compile g.csv {option} PLAIN", refused=words)
    for option, data, words in (
        ("--keep-ids", "", "g.csv: ids are names|leave out --keep-ids"),
        ("--num-vertices 9", "", "g.csv: ids are names|leave out --num-vertices"),
        ("--data d.csv", "id,f0\nalice,1\nbob,2\n", "vertex 'Smith, J' of the graph has no row"),
        ("--data d.csv", "id,f0\nalice,1\nalice,2\n", "holds 'alice' twice"),
    )
]


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_options_and_data_that_do_not_fit_names(case, tmp_path, monkeypatch):
    run_case(case, tmp_path, monkeypatch)


def ok(command: str):
    done = plancc(*command.replace("PLAIN", PLAIN).split())
    assert done.code == 0, done.err
    return done


def test_names_go_through_every_way_of_a_plan(tmp_path, monkeypatch):
    """Source, folder and patch give one plan; predictions have the names."""
    monkeypatch.chdir(tmp_path)
    names = [f"v{k}é" if k % 3 else f"v, {k}" for k in range(40)]
    lines = [f'"{names[k]}","{names[j % 40]}"\n' for k in range(40) for j in (k + 1, k + 39, k + 7)]
    (tmp_path / "g.csv").write_text("source,target\n" + "".join(lines))
    rows = "".join(f'"{names[k]}",{k},{k % 2}\n' for k in reversed(range(40)))
    (tmp_path / "d.csv").write_text("id,f0,label\n" + rows)
    whole = "-p 2 --effort fast"
    ok(f"compile g.csv --data d.csv {whole} -o a.h5")
    ok("convert g.csv -o folder --data d.csv")
    ok(f"compile folder {whole} -o b.h5")
    said = plancc("inspect", "b.h5").out.splitlines()
    assert said[1] == "ids are names: 40 vertices, numbered in the source's order"
    assert "ids_are_names" in plancc("inspect", "b.h5", "--json").out
    with h5py.File("a.h5") as first, h5py.File("b.h5") as second:
        assert first.attrs["content_sha256"] == second.attrs["content_sha256"]
        by_vertex = np.empty(40, object)
        by_vertex[first["rows/global_id"][:]] = first["rows/original_id"].asstr()[:]
        assert by_vertex.tolist() == sorted(names, key=str.encode)
        assert first["rows/original_id"].dtype == "S5"
    ok(f"compile g.csv {whole} -o c.h5")
    (tmp_path / "add.csv").write_text("a newcomer,v1é\n")
    assert "line 1" not in ok("patch c.h5 --add add.csv -o d.h5 --migration moved.csv").err
    assert (tmp_path / "moved.csv").read_text().splitlines()[1].startswith("a newcomer,-1,")
    (tmp_path / "h.csv").write_text("source,target\n" + "".join(lines) + "a newcomer,v1é\n")
    ok("patch c.h5 --graph h.csv -o e.h5")
    ok("verify d.h5")
    for name in ("d.h5", "e.h5"):
        with h5py.File(name) as file:
            kept = file["rows/original_id"]
            assert kept.dtype == "S10"
            assert {*kept.asstr()[:]} == {*names, "a newcomer"}
    (tmp_path / "numbers.csv").write_text("1,2\n2,3\n")
    done = plancc("patch", "c.h5", "--graph", "numbers.csv", "-o", "f.h5")
    assert done.code == 2
    assert "the plan has names as ids, the graph has not; compile" in done.err
