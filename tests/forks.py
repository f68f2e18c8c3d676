"""Command lines in processes of their own, without the start: forks of a process that has imported.

`run(["plancc", ...])` is `subprocess.run` of the console script, but for what an interpreter and
its libraries do when they start. The server has imported the program and has run nothing, so that a
fork of it is as good as new: no threads, no region of OpenMP, no kernel called. It starts at the
first `run` of a process and ends with that process; if it dies, the next `run` starts another.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import pkgutil
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, NoReturn

from plancc import processes

AT_START = ("PYTHON", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "LD_", "LC_", "LANG")
"""How variables begin that an interpreter or a library reads once."""
REPLY = struct.Struct("id")  # exit code; CPU seconds of the server and its children so far
MAIN = {"plancc": "plancc_cli.main", "plancc-run": "plancc_cli.run"}


def run(
    words: Sequence[object],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | IO = 0,
    stdout: int | IO | None = None,
    stderr: int | IO | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """A command line to its end; `stdout` and `stderr` are text where they are not given."""
    argv, env = list(map(str, words)), dict(os.environ if env is None else env)
    with (
        tempfile.TemporaryFile("w+") as request,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        json.dump({"argv": argv, "env": env, "cwd": str(cwd or os.getcwd())}, request)
        request.seek(0)
        streams = (stdin, stdout or out, stderr or err)
        numbers = [each if isinstance(each, int) else each.fileno() for each in streams]
        try:
            code = _Server.living(env).ask([request.fileno(), *numbers], timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(argv, timeout) from None
        out.seek(0), err.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read(), err.read())


class _Server:
    """The server of this process, as its clients see it."""

    started: _Server | None = None
    lock = threading.RLock()

    @classmethod
    def living(cls, env: Mapping[str, str]) -> _Server:
        """The one that has started, or a new one; AssertionError if `env` is not for forks."""
        with cls.lock:
            if cls.started is None or cls.started.process.poll() is not None:
                cls.started = cls()
            known = cls.started.env
            others = {name for name in {*env, *known} if env.get(name) != known.get(name)}
            read = sorted(name for name in others if name.startswith(AT_START))
            assert not read, f"{read}: only a program that starts reads them (cli_helpers.execute)"
            return cls.started

    def __init__(self) -> None:
        self.env, self.seconds = dict(os.environ), 0.0
        self.control, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            env=self.env | {"OPENBLAS_NUM_THREADS": "1"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self.end)

    def ask(self, descriptors: list[int], timeout: float) -> int:
        """The exit code of a command; it ends with the server where none comes in time."""
        with self.lock:
            try:
                self.control.settimeout(timeout)
                socket.send_fds(self.control, [b"?"], descriptors)
                reply = self.control.recv(REPLY.size, socket.MSG_WAITALL)
                assert reply, "the server of forks has died"
            except BaseException:
                self.end()
                raise
            code, seconds = REPLY.unpack(reply)
            if "durations" in sys.modules:
                sys.modules["durations"].CLOCK.seconds["process"] += seconds - self.seconds
            self.seconds = seconds
            return code

    def end(self) -> None:
        self.control.close()
        self.process.kill()
        self.process.wait()


# -- the server ------------------------------------------------------------------------------------


def _serve(control: socket.socket) -> None:
    while descriptors := socket.recv_fds(control, 1, 4)[1]:
        request, *streams = descriptors
        with open(request) as file:
            asked = json.load(file)
        program = Path(asked["argv"][0]).name
        _import_all(program)
        server = os.getpid()
        if (child := os.fork()) == 0:
            control.close()
            processes.die_with_parent(server)
            _command(program, streams, **asked)
        for each in streams:
            os.close(each)
        ended = os.pidfd_open(child)
        if ended not in select.select([ended, control], [], [])[0]:
            return  # whoever asked is gone, and with this process goes its child
        os.close(ended)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        control.sendall(REPLY.pack(code, sum(os.times()[:4])))


def _import_all(program: str) -> None:
    """What a program imports when it starts, or while it works."""
    if program == "plancc-run":
        for name in ("torch", "plancc_runtime.train", "plancc_cli.run_command"):
            import_module(name)
    else:
        for package in ("plancc", "plancc_cli", "plancc_datasets", "plancc_lab"):
            path = import_module(package).__path__
            for module in pkgutil.walk_packages(path, f"{package}."):
                if not module.name.endswith("__main__"):
                    import_module(module.name)
    from numba.core.registry import cpu_target

    cpu_target.typing_context.refresh()  # as at the first call of a kernel
    cpu_target.target_context.refresh()
    gc.freeze()


def _command(
    program: str, streams: list[int], argv: list[str], env: dict[str, str], cwd: str
) -> NoReturn:
    """Be the console script, from its first line to the end of its process."""
    from plancc_cli.signals import code_of

    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = argv
    tempfile.tempdir = None
    for number, each in enumerate(streams):
        os.dup2(each, number)
        os.close(each)
    strict = sys.stdout.errors
    sys.stdin = sys.__stdin__ = _text(0, "r", strict)
    sys.stdout = sys.__stdout__ = _text(1, "w", strict, 1 if os.isatty(1) else -1)
    sys.stderr = sys.__stderr__ = _text(2, "w", "backslashreplace", 1)
    if "coverage" in sys.modules and (measured := sys.modules["coverage"].Coverage.current()):
        measured.switch_context(env.get("PYTEST_CURRENT_TEST", ""))
    code = code_of(import_module(MAIN[program]).main)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _text(number: int, mode: str, errors: str, buffering: int = -1) -> IO[str]:
    """A standard stream, as the interpreter makes it."""
    return open(number, mode, buffering, sys.stdout.encoding, errors, closefd=False)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # as of the console script
    _serve(socket.socket(fileno=int(sys.argv[1])))
