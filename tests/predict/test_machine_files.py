"""Machines and their files: what is read is what stands there, and what is wrong is named."""

from dataclasses import replace

import pytest

from plancc.errors import InputError
from plancc.predict.machine import CollectiveShapes, Compute, Machine, Node, Overlap, SparseRates
from plancc.predict.machine_files import find_machine, read_machine, shipped_machines

FULL = """
name = "ours"
source = "measured"
latency = 1e-6
bandwidth = 2e10
multiply_adds = 3e9
[node]
ranks = 8
cores = 4
injection = 5e10
latency = 2e-7
bandwidth = 4e10
memory = 8e9
[compute]
dense = 6e10
stream = 7e9
overhead = 1e-5
[spmm]
nonzeros_per_row = [1, 8]
width = [4, 64]
multiply_adds = [[1e9, 2e9], [3e9, 4e9]]
[overlap]
communication = 0.25
[collective]
broadcast = "tree"
allreduce = "ring"
"""


def test_a_machine_with_everything(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text(FULL)
    machine = find_machine(path)
    assert machine == read_machine(path)
    assert machine == Machine(
        *(1e-6, 2e10, 3e9, "ours", "measured"),
        node=Node(8, 4, 5e10, 2e-7, 4e10, 8e9),
        compute=Compute(6e10, 7e9, 1e-5),
        spmm=SparseRates((1, 8), (4, 64), ((1e9, 2e9), (3e9, 4e9))),
        overlap=Overlap(0.25),
        collective=CollectiveShapes("tree", "ring"),
    )
    assert Machine.from_json(machine.to_json()) == machine  # what a provenance keeps is all of it
    numbers = ["latency", "bandwidth", "multiply_adds"]
    assert list(find_machine("simple").as_dict()) == [*numbers, "name", "source"]
    assert list(Machine(1.0, 2.0, 3.0).as_dict()) == numbers
    assert machine.as_dict()["node"]["ranks"] == 8


@pytest.mark.parametrize("name", shipped_machines())
def test_machines_that_come_with_plancc(name):
    machine = find_machine(name)
    assert machine.name
    assert machine.source
    assert Machine.from_json(machine.to_json()) == machine


def test_the_simple_machine():
    """Three numbers: a message, a byte, a multiply-add."""
    machine = find_machine("simple")
    assert (machine.latency, machine.bandwidth, machine.multiply_adds) == (2e-6, 1e10, 5e9)
    assert replace(machine, name="", source="") == Machine(2e-6, 1e10, 5e9)


def test_machine_files(tmp_path):
    path = tmp_path / "machine.toml"
    path.write_text("# ours\nlatency = 1e-5\nbandwidth = 3_000_000_000\nmultiply_adds = 4e10\n")
    assert read_machine(path) == Machine(1e-5, 3e9, 4e10, name="machine")
    assert read_machine(path.rename(tmp_path / "two\nlines")).name == "two lines"
    (tmp_path / "two\nlines").rename(path)
    lines = path.read_text().splitlines()[1:]
    for line in lines:  # none of the three has a default
        path.write_text("\n".join(set(lines) - {line}))
        with pytest.raises(InputError) as found:
            read_machine(path)
        name = line.partition(" ")[0]
        assert str(found.value) == (
            f"{path}: machine: '{name}' is missing: a machine needs latency, bandwidth, "
            "multiply_adds"
        )


NEEDED = ("latency = 1e-6", "bandwidth = 1e9", "multiply_adds = 1e9")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("latency = 0", "'latency' is 0"),
        ("latency = -2e-6", "'latency' is -2e-06"),
        ("bandwidth = inf", "'bandwidth' is inf"),
        ("bandwidth = nan", "'bandwidth' is nan"),
        (f"bandwidth = 1{'0' * 400}", "'bandwidth' is 1000"),
        ("latency = 9223372036854775808", "'latency' is 9223372036854775808, not a positive"),
        ("multiply_adds = '5e9'", "'multiply_adds' is '5e9'"),
        ("multiply_adds = true", "'multiply_adds' is True"),
        ("multiply_adds = [1.0]", r"'multiply_adds' is \[1.0\]"),
        ("latency = 2026-01-01", "'latency' is datetime"),
        ("turbo = 3", "unknown key 'turbo' = 3; choose from latency, bandwidth, multiply_adds"),
        ("[machine]\nlatency = 1e-6", r"unknown table \[machine\]"),
        ("[nodes]\nranks = 3", r"unknown table \[nodes\] \(did you mean node\?\)"),
        ('"a\\nb" = 1', r"unknown key 'a\\nb'"),
        ("latency: 3", "not TOML"),
        (f"latency = 1{'0' * 5000}", "not TOML"),
        ("latency = " + "[" * 3000, "not TOML"),
        (b"latency = \xff", "not TOML: the file is not text"),
        (None, "no such file"),
        ("node = 3", "'node' is 3, not a table"),
        ("[node]\nranks = 0", "'node.ranks' is 0, not a whole number from 1"),
        ("[node]\nranks = 1.5", r"'node.ranks' is 1.5"),
        ("[node]\nranks = 9999999999", "not a whole number from 1 to 2147483647"),
        ("[node]\ncores = true", "'node.cores' is True"),
        ("[node]\ninjection = -1", "'node.injection' is -1"),
        (
            "[node]\nspeed = 2",
            r"'node.speed' = 2 \(it belongs above all tables\); choose from ranks",
        ),
        (
            "[compute]\nlatency = 1",
            r"'compute.latency' = 1 \(it belongs above all tables or to \[node",
        ),
        ("bandwith = 1", r"unknown key 'bandwith' = 1 \(did you mean bandwidth\?\); choose from"),
        ("[compute]\noverhead = -1", "'compute.overhead' is -1, not a finite number from 0"),
        ("[compute]\ndense = 'x'", "'compute.dense' is 'x'"),
        ("[spmm]\nwidth = [1]", "'spmm.nonzeros_per_row' is missing: table 'spmm' needs nonzeros"),
        ("[spmm]\nwidth = [1]\nnonzeros_per_row = [1]", "'spmm.multiply_adds' is missing"),
        (
            "[spmm]\nwidth = [2, 1]\nnonzeros_per_row = [1]\nmultiply_adds = [[1, 2]]",
            r"'spmm.width' is \[2, 1\], not a list of ascending",
        ),
        (
            "[spmm]\nwidth = [1, 2]\nnonzeros_per_row = [1]\nmultiply_adds = [[1]]",
            "not a table of 1 rows of 2 positive numbers",
        ),
        ("[overlap]\ncommunication = 2", "'overlap.communication' is 2, not a number between"),
        ("[collective]\nbroadcast = 'star'", "'star'.*ring, tree"),
        ("name = 3", "'name' is 3, not text"),
        ("speed = 2", "'speed' is 2, not a list of positive finite numbers"),
        ("speed = []", r"'speed' is \[\], not a list of positive"),
        ("speed = [1, 0]", r"'speed' is \[1, 0\], not a list of positive"),
        ("speed = [1, nan]", r"'speed' is \[1, nan\], not a list"),
        ("speed = [1, inf]", r"'speed' is \[1, inf\], not a list"),
        ("speed = [1, 'x']", r"'speed' is \[1, 'x'\], not a list"),
        ("speed = [1, true]", r"'speed' is \[1, True\], not a list"),
    ],
)
def test_wrong_machine_files(tmp_path, text, says):
    path = tmp_path / "machine.toml"
    if isinstance(text, bytes):
        path.write_bytes(text)
    elif text is not None:
        others = (line for line in NEEDED if not text.startswith(line.partition(" ")[0]))
        path.write_text("\n".join([*others, text]))
    with pytest.raises(InputError, match=says) as found:
        read_machine(path)
    assert str(found.value).startswith(f"{path}: ")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "3", "[" * 50_000, '{"latency": 1}', '{"latency": NaN}', '{"x": 1}'),
        '{"latency": 1, "bandwidth": 1, "multiply_adds": 1, "node": 3}',
        '{"latency": 1, "bandwidth": 1, "multiply_adds": 1, "spmm": {"width": [1]}}',
    ],
)
def test_other_texts_are_no_machines(text):
    with pytest.raises(InputError, match=r"machine|unknown key"):
        Machine.from_json(text)


def test_wrong_machines(tmp_path):
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_machine(tmp_path)
    with pytest.raises(InputError, match="'latency'"):
        Machine(latency=0.0, bandwidth=1.0, multiply_adds=1.0)
    with pytest.raises(InputError, match="'nowhere': no such file; give a path, or choose"):
        find_machine("nowhere")
