"""MPI ranks that wait for work: tests that need some share one launch (the fixture `ranks`).

    answers = ranks.call(3, function, *arguments)     of function(transport, *arguments) on 3 ranks
    done = ranks.run(2, "plan.h5", "--epochs", 1)     as mpirun -n 2 plancc-run plan.h5 --epochs 1

MPI and torch are started once. Ranks wait at a socket of their own, where they take no core, and
fewer ranks than there are see a job of their own size. Who tests the launch itself starts one.

    mpirun python ranks.py ADDRESS    is what `Pool` starts
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest.mock import patch

SIZE = 3
START, LONGEST, END = 120.0, 200.0, 30.0
"""Seconds that a start, a piece of work and an end may take, however busy the machine is."""
PROGRAMS = {"plancc-run": "plancc_cli.run", "plancc": "plancc_cli.main"}
BIN = Path(sys.executable).parent
MPIRUN = shutil.which("mpirun", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE_"))},
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMP_NUM_THREADS": "1",
}


class Ended(RuntimeError):
    """The ranks have ended instead of giving an answer: a crash, a hang or an Abort."""


class Pool:
    """Ranks that wait for work, started when there is some, and again after they have ended.

    Parameters:
        size: The most ranks that a piece of work can have.
    """

    def __init__(self, size: int = SIZE) -> None:
        self.size = size
        self._job: _Job | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            job.end()

    def call(self, size: int, function, *arguments, timeout: float = LONGEST, **named) -> list:
        """``function(transport, *arguments, **named)`` on so many ranks; the answers of all.

        The function goes by its module and name. What it raises is raised here; the ranks live on
        if all have answered, and otherwise end.
        """
        return self._done(size, timeout, {}, (function, arguments, named))

    def run(
        self,
        size: int,
        *words: object,
        each: Sequence[Sequence[object]] = (),
        program: str = "plancc-run",
        timeout: float = LONGEST,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """A program with these words on the command line of all ranks, or with those of `each`."""
        lines = [list(map(str, line)) for line in each or [words] * size]
        with tempfile.TemporaryDirectory() as folder:
            codes = self._done(size, timeout, environment, (None, (folder, program, lines), {}))
            out, err = (
                "".join(Path(folder, f"{rank}.{end}").read_text() for rank in range(size))
                for end in ("out", "err")
            )
        assert len(set(codes)) == 1, (codes, err)  # all ranks end with the same one
        return subprocess.CompletedProcess([program, *lines[0]], codes[0], out, err)

    def _done(self, size: int, timeout: float, environment: dict[str, str], work: tuple) -> list:
        assert 1 <= size <= self.size, f"{size} of {self.size} ranks"
        if self._job is None:
            self._job = _Job(self.size)
        job, self._job = self._job, None  # it is kept if all its ranks answer
        try:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            head = size, timeout, sys.path, os.getcwd(), environment, test
            answers, error = job.answers(size, timeout, head, pickle.dumps(work))
        except BaseException:
            job.kill()
            raise
        if len(answers) == size:
            self._job = job
        else:
            job.kill()
        if error is not None:
            raise error
        return [answers[rank] for rank in range(size)]


class _Job:
    """One mpirun, and the sockets to its ranks."""

    def __init__(self, size: int) -> None:
        if MPIRUN is None:
            import pytest

            pytest.skip("no mpirun on this machine")
        self._folder = tempfile.TemporaryDirectory()
        address = f"{self._folder.name}/socket"
        self._said = Path(self._folder.name, "stderr")
        self._channels: dict[int, Connection] = {}
        self.said = ""  # by mpirun and its ranks, until they have ended
        self._counted = 0.0
        words = [MPIRUN, "-n", str(size), "--oversubscribe", sys.executable, __file__, address]
        with socket.socket(socket.AF_UNIX) as door, open(self._said, "wb") as said:
            door.bind(address)
            door.listen(size)
            door.settimeout(0.5)
            self._mpirun = subprocess.Popen(
                words, stdout=said, stderr=said, env=ENVIRONMENT, start_new_session=True
            )
            try:
                self._meet(size, door)
            except BaseException:
                self.kill()
                raise

    def _meet(self, size: int, door: socket.socket) -> None:
        deadline = time.monotonic() + START
        while len(self._channels) < size:
            if self._mpirun.poll() is not None or time.monotonic() > deadline:
                raise Ended(f"mpirun starts no ranks: {self._said.read_text()}")
            with suppress(TimeoutError):
                channel = Connection(door.accept()[0].detach())
                self._channels[channel.recv()] = channel

    def answers(self, size: int, timeout: float, head: tuple, work: bytes) -> tuple[dict, Any]:
        """Answers by rank, and the first error; some are missing if ranks wait for one with it."""
        left = {self._channels[rank]: rank for rank in range(size)}
        answers: dict[int, Any] = {}
        error, deadline = None, time.monotonic() + timeout + END
        try:
            for channel in left:
                channel.send(head)
                channel.send_bytes(work)
            while left:
                ready = wait(list(left), max(0, deadline - time.monotonic()))
                if not ready and error is None:
                    raise Ended(f"no answer after {timeout:g} s: {self._said.read_text()}")
                if not ready:
                    break
                for channel in ready:
                    rank = left[channel]
                    failed, seconds = channel.recv()
                    answers[rank] = pickle.loads(channel.recv_bytes())
                    del left[channel]
                    self._count(seconds)
                    if failed and error is None:
                        error, text = answers[rank]
                        error.add_note(f"in rank {rank}:\n{text}")
                        deadline = min(deadline, time.monotonic() + END)
        except (EOFError, OSError) as problem:
            if error is not None:  # a rank that has failed may take others with it
                return answers, error
            code = self.kill(END)
            raise Ended(f"mpirun ends with {code}: {self.said}") from problem
        return answers, error

    def _count(self, seconds: float) -> None:
        """Give the CPU seconds of ranks to the test that has used them (`durations`)."""
        if "durations" in sys.modules:
            sys.modules["durations"].CLOCK.seconds["mpi"] += seconds
            self._counted += seconds

    def end(self) -> None:
        """Let the ranks end by themselves."""
        for channel in self._channels.values():
            channel.close()
        self.kill(2 * END)

    def kill(self, patience: float = 0.0) -> int:
        """End what has not ended by itself after so many seconds; the exit code of mpirun."""
        before = _seconds_of_children()
        with suppress(subprocess.TimeoutExpired):
            self._mpirun.wait(patience)
        # mpirun ends its ranks on SIGTERM; SIGKILL alone would leave them running
        if self._mpirun.poll() is None:
            self._mpirun.terminate()
            try:
                self._mpirun.wait(END)
            except subprocess.TimeoutExpired:
                os.killpg(self._mpirun.pid, signal.SIGKILL)
                self._mpirun.wait()
        # the system counts what mpirun has waited for
        self._count(-min(self._counted, _seconds_of_children() - before))
        for channel in self._channels.values():
            channel.close()  # a rank that waits for work ends then
        if self._said.exists():
            self.said = self._said.read_text()
            self._folder.cleanup()
        return self._mpirun.returncode


def _seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# -- what a rank does ------------------------------------------------------------------------------


def main() -> None:
    """Work until the socket is closed."""
    end = socket.socket(socket.AF_UNIX)
    end.connect(sys.argv[1])
    channel = Connection(end.detach())
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    channel.send(rank)
    from plancc_runtime.transport.mpi import load_mpi

    mpi = load_mpi()
    comms = {1: mpi.COMM_SELF, mpi.COMM_WORLD.size: mpi.COMM_WORLD}
    errors = open(os.dup(2), "w")  # noqa: SIM115  commands have another stderr
    while True:
        try:
            size, timeout, sys.path[:], folder, environment, test = channel.recv()
            work = channel.recv_bytes()
        except EOFError:
            return
        if size not in comms:
            members = mpi.COMM_WORLD.group.Incl(range(size))
            comms[size] = mpi.COMM_WORLD.Create_group(members)
        _measure(test)
        faulthandler.dump_traceback_later(timeout, exit=True, file=errors)
        start = time.process_time()
        failed = False
        try:
            with _job_of(mpi, comms[size], folder, environment):
                answer = pickle.dumps(_answer(comms[size], *pickle.loads(work)))
        except Exception as error:
            failed, answer = True, _told(error)
        faulthandler.cancel_dump_traceback_later()
        channel.send((failed, time.process_time() - start))
        channel.send_bytes(answer)


def _answer(comm: Any, function: Any, arguments: tuple, named: dict[str, Any]) -> Any:
    from plancc_runtime.transport.mpi import MpiTransport
    from plancc_runtime.transport.single import SingleTransport

    if function is None:
        return _command(*arguments)
    transport = SingleTransport() if comm.size == 1 else MpiTransport(comm)
    return function(transport, *arguments, **named)


def _told(error: Exception) -> bytes:
    text = traceback.format_exc()
    try:
        told = pickle.dumps((error, text))
        pickle.loads(told)
    except Exception:  # it has a constructor of its own
        told = pickle.dumps((RuntimeError(repr(error)), text))
    return told


@contextmanager
def _job_of(mpi: Any, comm: Any, folder: str, environment: dict[str, str]) -> Iterator[None]:
    """What a rank sees of a job that has the ranks of `comm`; nothing goes on at its end."""
    from plancc_runtime.transport import watchdog

    size = str(comm.size)
    sizes = {"OMPI_COMM_WORLD_SIZE": size, "OMPI_COMM_WORLD_LOCAL_SIZE": size}
    before = os.getcwd()
    os.chdir(folder)
    try:
        with (
            patch.dict(os.environ, {**sizes, **environment}),
            patch.object(mpi, "COMM_WORLD", comm),
        ):
            yield
    finally:
        os.chdir(before)
        watchdog._stop_all()


def _command(folder: str, program: str, lines: list[list[str]]) -> int:
    """The exit code of a program, whose streams go to files of `folder`."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    run = import_module(PROGRAMS[program]).main
    with patch.object(sys, "argv", [program, *lines[rank]]), _streams(folder, rank):
        try:
            run()
            return 0
        except SystemExit as stop:
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
                return 1
            return stop.code or 0


@contextmanager
def _streams(folder: str, rank: int) -> Iterator[None]:
    """Lead the descriptors of both streams to files, and make streams that write to them."""
    before, kept, files = (sys.stdout, sys.stderr), {}, []
    for number, end in ((1, "out"), (2, "err")):
        kept[number] = os.dup(number)
        with open(f"{folder}/{rank}.{end}", "wb") as file:
            os.dup2(file.fileno(), number)
        files.append(open(number, "w", closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = files
    try:
        yield
    finally:
        for file in files:
            file.flush()
        sys.stdout, sys.stderr = before
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


def _measure(test: str) -> None:
    """Name the test for what measures this process (`make coverage`)."""
    with suppress(ImportError):
        from coverage import Coverage

        measured = Coverage.current()
        if measured is not None:
            measured.switch_context(test)


if __name__ == "__main__":
    main()
