"""Every transport moves, reduces and agrees alike: transport_checks.py on real ranks."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
import transport_checks
from cases import long
from launcher import alone, run

import plancc
from plancc.errors import BackendUnavailable, InputError, PlanError
from plancc_runtime import launch
from plancc_runtime.testing import TransportTests
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.messages import MessagePiece
from plancc_runtime.transport.single import SingleTransport
from plancc_runtime.transport.torch_dist import DISTANCES, TAGS, nccl_groups

CHECKS, FAILURES = (
    Path(__file__).with_name(f"{name}.py") for name in ("transport_checks", "failure_main")
)


def all_done(result, ranks):
    assert result.returncode == 0, result.stderr
    expected = [f"rank {r} of {ranks} is done" for r in range(ranks)]
    assert sorted(result.stdout.splitlines()) == expected
    assert "Exception ignored" not in result.stderr


@pytest.mark.mpi
def test_mpi(ranks):
    ranks.call(3, transport_checks.check_mpi)


@pytest.mark.mpi
def test_gloo(ranks):
    ranks.call(3, transport_checks.check_gloo)


@pytest.mark.mpi
def test_an_exchange_that_is_alive_at_the_end_of_mpi():
    """And at the end of the interpreter."""
    all_done(run(2, FAILURES, "mpi", "nothing", 200), 2)


@long
@pytest.mark.parametrize(("name", "launcher"), [("mpi", "mpirun"), ("gloo", "torchrun")])
def test_ranks_of_a_launcher(name, launcher):
    all_done(run(3, CHECKS, name, launcher=launcher), 3)


@pytest.mark.parametrize("ranks", [3, *(pytest.param(size, marks=long) for size in (1, 2, 5))])
def test_threads(ranks):
    run_ranks(ranks, transport_checks.check_more, timeout=200)


@pytest.mark.parametrize("ranks", [6, 8])
def test_groups_of_whole_grids(ranks):
    def work(transport):
        groups = transport_checks.make_groups(transport)
        transport_checks.check_groups(transport, groups, 7, [torch.float32])

    run_ranks(ranks, work, timeout=200)


class TestThreads(TransportTests):
    """As a third party inherits it."""

    def run(self, ranks, work):
        run_ranks(ranks, work, timeout=200)


def test_groups_sum_in_the_order_of_the_members():
    values = np.random.default_rng(3).standard_normal((6, 50)).astype(np.float32)
    chosen = [0, 2, 3, 5]

    def add(transport):
        mine = values[transport.rank].copy()
        group = transport.subgroup(chosen if transport.rank in chosen else [1, 4])
        first, second, third = mine.copy(), mine.copy(), mine.copy()
        group.allreduce_sum(first)
        group.reduce_sum(second, 1)
        pieces = np.split(third, [9, 9, 30][: group.size - 1])
        group.reduce_scatter_sum(pieces)
        transport.allreduce_sum(mine)
        return first, second, pieces[group.rank], mine

    total = values[0].copy()
    for rank in chosen[1:]:
        total += values[rank]
    results = run_ranks(6, add)
    for rank, share in zip(chosen, np.split(total, [9, 9, 30]), strict=True):
        assert results[rank][0].tolist() == total.tolist()
        assert results[rank][2].tolist() == share.tolist()
    assert results[2][1].tolist() == total.tolist()
    whole = values[0].copy()
    for other in values[1:]:
        whole += other
    assert all(result[3].tolist() == whole.tolist() for result in results)


def test_a_member_that_fails_ends_the_others():
    def work(transport):
        group = transport.subgroup([transport.rank] if transport.rank == 1 else [0, 2])
        if transport.rank == 2:
            raise PlanError("broken")
        group.broadcast(np.zeros(3), group.size - 1)

    with pytest.raises(PlanError, match=r"^rank 2: broken$"):
        run_ranks(3, work, timeout=200)


def test_one_rank_alone():
    transport = SingleTransport()
    array = np.array([3.0])
    transport.allreduce_sum(array)
    assert array.tolist() == [3.0]
    assert transport.gather("x") == ["x"]
    transport_checks.check_groups(transport, transport_checks.make_groups(transport), 5)
    for peer, messages in ((1, ([], [(1, np.zeros(1))])), (2, ([(2, np.zeros(1))], []))):
        with pytest.raises(ValueError, match=f"rank {peer}"):
            transport.exchange(*messages)
    exchange = transport.exchange([], [])
    exchange.start()
    assert list(exchange.arrivals()) == []


def test_groups_of_nccl_cannot_wait_for_each_other():
    """300 ranks, played: a rank starts its next group once both ends of the last one's started."""
    size, random = 300, np.random.default_rng(0)
    pairs = {(a, b) for a, b in random.integers(0, size, (4000, 2)).tolist() if a != b}
    pairs |= {(0, rank) for rank in range(1, size)} | {(rank, 0) for rank in range(1, size)}
    messages = [
        (a, b, tag) for a, b in sorted(pairs) for tag in range(random.choice([1, 1, 1, 2 * TAGS]))
    ]
    sends: list[list[MessagePiece]] = [[] for _ in range(size)]
    receives: list[list[MessagePiece]] = [[] for _ in range(size)]
    for a, b, tag in messages:
        sends[a].append(MessagePiece(0, b, tag, None))
        receives[b].append(MessagePiece(0, a, tag, None))
    groups = []
    for rank in range(size):
        mine = nccl_groups(rank, size, sends[rank], receives[rank])
        assert max(map(len, mine)) <= 2 * DISTANCES * TAGS
        groups.append(
            [
                [(rank, p.peer, p.tag) if out else (p.peer, rank, p.tag) for out, p in g]
                for g in mine
            ]
        )
    started = Counter(message for mine in groups for message in mine[0])
    at = [0] * size
    moving = True
    while moving:
        moving = False
        for rank, mine in enumerate(groups):
            if at[rank] < len(mine) and all(started[m] == 2 for m in mine[at[rank]]):
                at[rank] += 1
                moving = True
                if at[rank] < len(mine):
                    started.update(mine[at[rank]])
    assert at == [len(mine) for mine in groups]
    assert min(at) > 3
    assert started == dict.fromkeys(messages, 2)


def test_one_order_between_two_ranks():
    """NCCL knows no tags: pieces go in the order of their tags."""
    shuffled = np.random.default_rng(1).permutation(100).tolist()
    pieces = [MessagePiece(0, 3, tag, None) for tag in shuffled]
    back = [MessagePiece(0, 3, tag, None) for tag in shuffled[::-1]]
    groups = nccl_groups(1, 5, pieces, back)
    assert [p.tag for group in groups for out, p in group if out] == list(range(100))
    assert [p.tag for group in groups for out, p in group if not out] == list(range(100))


def open_mpi(size, rank, **more):
    return {"OMPI_COMM_WORLD_SIZE": size, "OMPI_COMM_WORLD_RANK": rank, **more}


def torchrun(size, rank, local, **more):
    return {"WORLD_SIZE": size, "RANK": rank, "LOCAL_RANK": local, **more}


def srun(size, rank, **more):
    return {"SLURM_STEP_NUM_TASKS": size, "SLURM_PROCID": rank, **more}


LAUNCHERS = [
    ({}, (0, 1), 0),
    (open_mpi("4", "3"), (3, 4), 0),
    (open_mpi("", "x"), (0, 1), 0),
    ({"PMI_SIZE": "2", "PMI_RANK": "1"}, (1, 2), 0),
    (srun("8", "5"), (5, 8), 0),
    (srun("8", "5", SLURM_LOCALID="1"), (5, 8), 1),
    ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, (0, 1), 0),  # the batch script itself
    ({"PMI_SIZE": "2", "PMI_RANK": "1", "SLURM_STEP_NUM_TASKS": "9"}, (1, 2), 0),
    (torchrun("4", "3", "1"), (3, 4), 1),
    ({"WORLD_SIZE": "4", "RANK": "3"}, (0, 1), 0),  # whatever set these, it was not torchrun
    # one torchrun per node, started by srun
    (torchrun("8", "5", "1", TORCHELASTIC_RUN_ID="x", **srun("2", "1")), (5, 8), 1),
    # left behind by something else, under mpirun
    (torchrun("1", "0", "0", **open_mpi("4", "2", OMPI_COMM_WORLD_LOCAL_RANK="2")), (2, 4), 2),
]
CLEARED = (
    *(name for launcher in launch._LAUNCHERS for name in launcher),
    *(name for job in launch._JOBS for name in job),
    *launch._SIZES,
    *("TORCHELASTIC_RUN_ID", "HOROVOD_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("SLURM_NTASKS", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"),
)


@pytest.fixture
def environ(monkeypatch):
    for name in filter(None, CLEARED):
        monkeypatch.delenv(name, raising=False)

    def set_all(variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_all


@pytest.mark.parametrize(("variables", "expected", "local"), LAUNCHERS)
def test_what_launchers_announce(environ, variables, expected, local):
    environ(variables)
    assert launch.announced() == expected
    assert launch.local_rank() == local


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, True),
        ({"WORLD_SIZE": "4", "RANK": "0", "MASTER_ADDR": "localhost"}, True),
        ({"HOROVOD_SIZE": "4", "HOROVOD_RANK": "3"}, True),
        ({"WORLD_SIZE": "4"}, False),
        ({"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "localhost"}, False),
        ({"SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, False),
        ({"SLURM_NTASKS": "4", **srun("4", "0")}, False),
        ({"SLURM_NTASKS": "4", **open_mpi("1", "0")}, False),
        ({"SLURM_NTASKS": "4", **torchrun("1", "0", "0", TORCHELASTIC_RUN_ID="x")}, False),
        ({}, False),
    ],
)
def test_a_task_of_several_does_not_train_alone(environ, variables, refused):
    environ(variables)
    name = next(iter(variables), "")
    if not refused:
        launch.check_no_singleton()
        return
    with pytest.raises(InputError, match=rf"has 4 tasks \({name}\).*or give `ranks` 1"):
        launch.check_no_singleton()


def test_commands_say_that_a_task_of_several_is_alone(environ, tmp_path):
    name = "HOROVOD_SIZE"
    environ({name: "4", "HOROVOD_RANK": "3"})
    plan = tmp_path / "plan.h5"
    plancc.compile((2, np.array([[0, 1], [1, 0]])), num_parts=1).save(plan)
    done = alone(plan, "--epochs", 1)
    assert done.returncode == 2
    [sentence] = done.stderr.splitlines()
    assert sentence.endswith("srun (with PMIx), mpirun or torchrun, or give --ranks 1 to run alone")
    assert name not in alone(plan, "--epochs", 1, "--ranks", 1).stderr
    with pytest.raises(InputError, match=name):
        plancc.train(plan, epochs=1)
    for words in (("predict", plan, "--weights", "w.npz"), ("calibrate", "-o", "no/m.toml")):
        assert f"has 4 tasks ({name})" in alone(*words, program="plancc").stderr
        assert name not in alone(*words, "--ranks", 1, program="plancc").stderr


def test_tasks_of_slurm_that_are_no_number(environ):
    environ({"SLURM_NTASKS": "abc", **open_mpi("1", "0")})
    launch.check_no_singleton()
    environ({"OMPI_COMM_WORLD_SIZE": ""})
    with pytest.raises(InputError, match="SLURM_NTASKS 'abc': must be a whole number"):
        launch.check_no_singleton()


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("variables", "cure"),
    [
        (srun("4", "0"), "(SLURM_MPI_TYPE=pmix for srun), or with mpirun"),
        (open_mpi("4", "0"), "MPI library of this job"),
    ],
)
def test_ranks_that_mpi_does_not_see(variables, cure):
    environ = {name: value for name, value in os.environ.items() if name not in CLEARED}
    words = [
        sys.executable,
        "-c",
        "from plancc_runtime.launch import open_transport as o; o('mpi')",
    ]
    done = subprocess.run(
        words, env=environ | variables, capture_output=True, text=True, timeout=120
    )
    last = done.stderr.rpartition("BackendUnavailable: ")[2]
    assert last.startswith("the launcher started 4 ranks but MPI sees 1: ")
    assert cure in last


SLURM, OPEN_MPI = srun("4", "1", SLURM_JOB_ID="77"), open_mpi("4", "1")


@pytest.mark.parametrize(
    ("variables", "host"),
    [
        ({"MASTER_ADDR": "there", **SLURM}, "there"),
        ({**SLURM, "SLURM_STEP_NUM_NODES": "1"}, "localhost"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, "localhost"),
        ({}, "localhost"),
    ],
)
def test_where_rank_0_listens(environ, variables, host):
    environ(variables)
    address, port = launch.rendezvous()
    assert address == host
    assert 10000 <= port < 30000


def test_no_address_of_rank_0(environ):
    environ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})  # several nodes
    with pytest.raises(BackendUnavailable, match="set MASTER_ADDR"):
        launch.rendezvous()


def test_ports_follow_from_the_job(environ):
    environ({**SLURM, "SLURM_STEP_NUM_NODES": "1"})
    one = launch.rendezvous()[1]
    assert launch.rendezvous()[1] == one
    environ({"SLURM_JOB_ID": "78"})
    assert launch.rendezvous()[1] != one
    environ({"MASTER_PORT": "1234"})
    assert launch.rendezvous()[1] == 1234
    environ({"MASTER_PORT": "http"})
    with pytest.raises(InputError, match="MASTER_PORT 'http'"):
        launch.rendezvous()


def test_names_of_transports(environ):
    assert isinstance(launch.open_transport(), SingleTransport)
    with pytest.raises(InputError, match="pigeon"):
        launch.open_transport("pigeon")
    if not torch.cuda.is_available():
        with pytest.raises(BackendUnavailable, match="CUDA"):
            launch.open_transport("nccl")
    environ(OPEN_MPI)
    with pytest.raises(InputError, match="transport single: has one rank, but 4 started"):
        launch.open_transport("single")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize(("name", "ranks"), [("nccl", 1), ("nccl", 2), ("gloo", 3), ("mpi", 3)])
def test_tensors_on_a_device(name, ranks):
    if name == "nccl" and ranks > torch.cuda.device_count():
        pytest.skip("NCCL wants a device for every rank")
    launcher = "mpirun" if name == "mpi" else "torchrun"
    all_done(run(ranks, CHECKS, name, "cuda", launcher=launcher), ranks)


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
def test_threads_on_a_device(monkeypatch):
    monkeypatch.setattr(transport_checks, "DEVICE", "cuda")
    run_ranks(3, transport_checks.check_all, timeout=200)
