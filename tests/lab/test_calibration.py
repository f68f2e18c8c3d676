"""What `plancc calibrate` measures and writes. No test depends on how quick this machine is."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from plancc.errors import InputError
from plancc.predict.machine import Machine
from plancc.predict.machine_files import read_machine
from plancc_cli.group import command
from plancc_cli.progress import QUIET
from plancc_lab.calibrate import command as calibrate_command
from plancc_lab.calibrate import measure as calibration
from plancc_lab.calibrate.command import machine_file
from plancc_lab.calibrate.fitting import DrawSeconds, EpochSeconds, fitted, work
from plancc_lab.calibrate.measure import Effort, calibrate
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

TINY = Effort(
    rows=(64, 512),
    nonzeros_per_row=(1, 8),
    widths=(2, 8, 32),
    networks=((16, 4), (200, 8), (300, 32)),
    epochs=2,
    samples=1,
    seconds=1e-5,
)


@pytest.mark.parametrize("ranks", [1, 3])
def test_what_is_measured_is_a_machine(ranks, tmp_path):
    def work(transport):
        return calibrate(transport, TINY, threads=1)

    found = [work(SingleTransport())] if ranks == 1 else run_ranks(ranks, work, timeout=180)
    texts = {machine_file(each) for each in found}
    assert len(texts) == 1  # the same on all ranks
    path = tmp_path / "machine.toml"
    path.write_text(texts.pop())
    machine, sparse = read_machine(path), found[0].sparse
    assert machine.node.ranks == ranks
    assert machine.compute.dense > 0
    assert machine.compute.stream > 0
    assert 0 <= machine.compute.overhead < 1
    assert min(machine.drawn) > 0
    for batch, (seeds, fanout) in zip(found[0].draws, calibration.BATCHES, strict=True):
        assert seeds <= batch.rows <= seeds * (fanout + 2)
        assert batch.nonzeros <= batch.rows * fanout
    crowd = max(1, ranks / found[0].cores)
    assert machine.node.cores == found[0].cores
    # a rate of the table is found again where it was measured
    for i, rows in enumerate(TINY.rows):
        rates = machine.sparse_multiply_adds(8, TINY.widths, rows)
        np.testing.assert_allclose(rates, crowd * sparse.multiply_adds[i, 1], rtol=0.01)
    if ranks == 1:
        assert "not measured" in path.read_text()
        assert (machine.latency, machine.bandwidth) == (2e-6, 1e10)  # those of machine "simple"
    else:
        link = found[0].inside
        assert found[0].between is None
        np.testing.assert_allclose(machine.latency, link.latency, rtol=0.01)
        np.testing.assert_allclose(machine.inside_bandwidth, link.bandwidth, rtol=0.01)
        assert machine.collective.allreduce == found[0].allreduce


def test_samples_that_differ_are_said(tmp_path, monkeypatch, capsys):
    clock = iter([0, 1, 0, 1, *(moment for taken in (4, 6, 5) for moment in (0, taken))])
    monkeypatch.setattr(calibration.time, "perf_counter", lambda: next(clock))
    watch = calibration._Watch(SingleTransport(), replace(TINY, samples=3), crowded=False)
    assert watch.seconds([lambda: None]).tolist() == [5]
    assert watch.spreads == [0.5]
    monkeypatch.undo()
    found = calibrate(SingleTransport(), TINY, threads=1)
    assert found.spread == 0  # of one sample each
    for spread, said in ((0.5, "differ by 50% (median): something else runs"), (0.25, "")):
        disturbed = replace(found, spread=spread)
        monkeypatch.setattr(calibration, "calibrate", lambda *words, it=disturbed: it)
        path = tmp_path / "machine.toml"
        calibrate_command._measure(SingleTransport(), str(path), None, False, QUIET)
        assert (err := capsys.readouterr().err).count("\n") == bool(said)
        assert said in err
        assert f"# samples of a measurement differ by {spread:.0%}" in path.read_text()


def test_fitted_rates_are_those_that_made_the_times():
    sizes = [(16, 4), (2_000, 16), (2_000, 64), (20_000, 16), (20_000, 64)]
    epochs = [EpochSeconds(rows, 8 * rows, (w, w, w, 8), 1.0) for rows, w in sizes]
    cost = np.array([1 / 2e10, 1 / 8e9, 5e-5])
    timed = [EpochSeconds(e.rows, e.nonzeros, e.dims, float(work(e) @ cost)) for e in epochs]
    compute = fitted(timed)
    np.testing.assert_allclose(
        [compute.dense, compute.stream, compute.overhead], 1 / cost ** [1, 1, -1]
    )
    draws = [
        DrawSeconds(rows, each * rows, 2, 2 * 1e-3 + (3e-7 + each * 2e-8) * rows)
        for rows, each in ((300, 2), (3_000, 1), (20_000, 5))
    ]
    drawn = Machine(1, 1, 1, compute=fitted(timed, draws)).drawn
    np.testing.assert_allclose(drawn, (1e-3, 3e-7, 2e-8))
    # of the widths 3, 5, 2: three forward products, two weight gradients and one of the input
    multiply_adds = 10 * (2 * 15 + 2 * 10 + 10)
    assert work(EpochSeconds(10, 20, (3, 5, 2), 1.0))[0] == multiply_adds
    with pytest.raises(InputError, match="2 epochs"):
        fitted(timed[:2])


def test_ranks_stand_node_by_node():
    for hosts, ranks in {"a": 1, "aa": 2, "ab": 1, "aabb": 2, "abc": 1}.items():
        assert calibration._ranks_per_node(list(hosts)) == ranks
    for hosts in ("aab", "abab", "abba", "aba"):
        with pytest.raises(InputError, match="node by node"):
            calibration._ranks_per_node(list(hosts))


def test_every_peer_sends_what_is_received():
    per_node, size = 3, 9
    for place in range(per_node):  # between nodes: the same place on every one
        ends = {}
        for node in range(size // per_node):
            ends[node * per_node + place] = calibration._peers(node, 3, per_node, place)
        for rank, (targets, _) in ends.items():
            assert all(rank in ends[target][1] for target in targets)
            assert all(target % per_node == place for target in targets)
            assert rank not in targets


def test_random_matrices_have_few_full_columns():
    matrix = calibration._pattern(np.random.default_rng(1), 500, 2000, 40_000)
    assert matrix.shape == (500, 2000)
    assert matrix.nnz == 40_000
    for axis in (0, 1):
        counts = np.sort(matrix.getnnz(axis))[::-1]
        share = counts[: len(counts) // 100].sum() / matrix.nnz
        assert 0.12 < share < 0.25


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["-o", "machine.txt"], 2, "machine.txt: choose a name that ends in .toml"),
        (["-o", "none/machine.toml"], 1, "none/machine.toml: the folder"),
        (["--ranks", "0"], 2, "--ranks"),
        (["--threads", "0"], 2, "--threads"),
    ],
)
def test_bad_input(options, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(command, ["calibrate", *options])
    assert words in f"{result.output} {result.exception}"
    error = result.exception
    assert getattr(error, "exit_code", getattr(error, "code", None)) == code
    assert list(tmp_path.iterdir()) == []


@pytest.mark.mpi
def test_ranks_of_a_launcher_are_not_counted_again(tmp_path, ranks):
    path = tmp_path / "machine.toml"
    result = ranks.run(2, "calibrate", "--ranks", 2, "-o", path, program="plancc")
    assert result.returncode == 2
    assert "--ranks 2: the launcher started 2 ranks; leave --ranks out" in result.stderr
    assert "Traceback" not in result.stderr
    assert not path.exists()
