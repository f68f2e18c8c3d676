"""The benchmark of plans' epochs: machines, orders of pairs, figures of a tiny graph."""

import json
import math
import pickle
import shutil
import subprocess
from dataclasses import replace

import pytest
from cases import long

from benchmarks import epochs_of_plans
from benchmarks.epochs_of_plans import (
    AUTO,
    DEFAULT,
    PAPER,
    QUICK,
    RP,
    TIME,
    Bench,
    Job,
    bench_of,
    can_rehearse,
    figures_of,
    orders,
    run,
    toml_of,
    with_network_of,
)
from benchmarks.inputs import BIN, Inputs
from plancc.predict.machine_files import find_machine, read_machine, shipped_machines
from plancc_lab.kept import Kept


@pytest.mark.parametrize("name", shipped_machines())
def test_a_machine_is_the_same_after_its_file(name, tmp_path):
    machine = find_machine(name)
    (tmp_path / "m.toml").write_text(toml_of(machine))
    assert read_machine(tmp_path / "m.toml") == machine


def test_a_machine_with_another_network():
    network, computer = find_machine("cpu-cluster"), find_machine("small-cpu")
    mixed = with_network_of(network, computer)
    assert mixed.spmm == computer.spmm
    assert mixed.compute == computer.compute
    assert mixed.multiply_adds == computer.multiply_adds
    assert (mixed.node, mixed.latency) == (network.node, network.latency)


@long
def test_predicted_epochs_are_those_of_simulate(tmp_path):
    bench, _ = bench_of(Inputs(tmp_path, quick=True))
    machines = {"default": find_machine("cpu-cluster"), "here": find_machine("small-cpu")}
    plan = tmp_path / "plan.h5"
    job = Job(bench.graphs["rmat"], 4, DEFAULT, plan, machines)
    figures = figures_of(pickle.loads(pickle.dumps(job)))  # as a process of a pool gets it
    for name, machine in (("default", "cpu-cluster"), ("here", "small-cpu")):
        words = ["simulate", plan, "--machine", machine, "--dims", "128,128,16", "--json"]
        done = subprocess.run([BIN / "plancc", *words], check=True, capture_output=True)
        assert json.loads(done.stdout)["seconds"] == figures["epochs"][name]


def test_orders_of_pairs_that_are_far_apart(tmp_path):
    bench = Bench({"g": tmp_path}, Kept(tmp_path / "kept.jsonl", "a"), tmp_path, QUICK)
    predicted = {RP: 3.0, PAPER: 2.0, DEFAULT: 1.0, TIME: 0.9, AUTO: 0.9}
    measured = {RP: 2.0, PAPER: 4.0, DEFAULT: 1.0, TIME: 1.09}
    made = {
        name: {"epochs": {"here": seconds}, "content": "c" if name in (TIME, AUTO) else name}
        for name, seconds in predicted.items()
    }
    assert math.isnan(orders(bench, "measured", (2,)).share)
    bench.kept.put(("plans", "g", 2), {"found": made, "load": 0.0})
    bench.kept.put(("measured", "g", 2), {"found": measured, "load": 0.5})
    found = orders(bench, "measured", (2,))
    assert found.pairs == 5  # but for default and time, which are less than 10% apart
    assert found.wrong == ["g, p = 2: rp / hp nnz measured 0.50, predicted 1.50"]
    assert found.share == 0.8
    assert bench.epochs("measured", "g", 2)[AUTO] == 1.09  # the same plan as time
    assert bench.load() == 0.5


@long
@pytest.mark.mpi
@pytest.mark.skipif(
    not (BIN / "mpirun").exists() and shutil.which("mpirun") is None, reason="no mpirun"
)
def test_a_quick_run_has_every_figure(tmp_path, monkeypatch):
    graphs, _ = epochs_of_plans._graphs(Inputs(tmp_path, quick=True))
    monkeypatch.setattr(epochs_of_plans, "_graphs", lambda inputs: ({"rmat": graphs["rmat"]}, ""))
    # no pool: it takes long to start
    monkeypatch.setattr(epochs_of_plans, "usable_cores", lambda: {0})
    report = run(Inputs(tmp_path, quick=True))
    values = {figure.name: figure.value for figure in report.figures}
    where = "p = 8, cpu-cluster: predicted epoch"
    assert values[f"{where}, default / random"] < 1.2
    assert values[f"{where}, default / bound"] > 1
    assert values["predicted / measured: median ratio"] > 0
    assert values[f"compile, default / {PAPER}"] > 0
    assert math.isnan(values["rehearsed / measured: off by, worst plan"]) != can_rehearse()
    assert not [*tmp_path.glob("*.h5")]

    bench, _ = bench_of(Inputs(tmp_path, quick=True))
    assert [key for key in bench.kept._known if key[0] == "measured"] == [("measured", "rmat", 2)]
    bench.work = replace(bench.work, rounds=0)  # nothing is done again
    bench.run()
