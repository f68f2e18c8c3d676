"""Where the time of the tests goes: ``pytest --durations-table FILE`` (`make durations`).

A row is a file of tests. Its CPU seconds are split by kind, each second counted once:

mpi, process
    processes that the test started, with a launcher of ranks or without;
partitioner
    native partitioners, in processes of their own;
test
    this process.

``repeats`` are the CPU seconds of all cases of a function but its first, ``peak`` MB that its
worker held at most until then: the file that raises it asked for it.
"""

import os
import resource
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest

KINDS = ("process", "mpi", "partitioner", "test")
HEAD = ("file", "cases", "wall", "cpu", *KINDS, "repeats", "peak")
LAUNCHERS = ("mpirun", "torchrun", "torch.distributed.run")


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Clock:
    """CPU seconds of this process, and of children by their kind."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._own, self._reaped = time.process_time(), _children()

    def settle(self, child: str = "process") -> None:
        """Give the seconds since the last call to this process, and to `child`."""
        own, reaped = time.process_time(), _children()
        self.seconds["test"] += own - self._own
        self.seconds[child] += reaped - self._reaped
        self._own, self._reaped = own, reaped


CLOCK = Clock()


def _kind_of(arguments) -> str:
    words = [arguments] if isinstance(arguments, str | bytes | os.PathLike) else arguments
    text = " ".join(map(os.fsdecode, map(os.fspath, map(str, words))))
    if any(launcher in text for launcher in LAUNCHERS):
        return "mpi"
    return "partitioner" if "partitioners" in text and "pytest" not in text else "process"


def _watch() -> None:
    """Count by kind what processes take from here on."""
    handle = subprocess.Popen._handle_exitstatus  # type: ignore[attr-defined]

    def handled(self, *args, **kw):
        CLOCK.settle(_kind_of(self.args))
        return handle(self, *args, **kw)

    subprocess.Popen._handle_exitstatus = handled  # type: ignore[attr-defined]


def pytest_addoption(parser) -> None:
    parser.addoption("--durations-table", metavar="FILE", help="where the time goes, by file")


def pytest_configure(config) -> None:
    if config.getoption("--durations-table"):
        config.pluginmanager.register(Durations(config), "durations-table")


class Durations:
    """Counts in the process that runs tests; writes the table in the one that hears of all."""

    def __init__(self, config) -> None:
        self.path = Path(config.rootpath, config.getoption("--durations-table"))
        self.worker = hasattr(config, "workerinput")
        self.rows: dict[str, dict[str, float]] = {}
        self.seen: set[str] = set()
        self.peaks: dict[str, int] = {}
        _watch()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        CLOCK.settle()
        self.before, self.began = dict(CLOCK.seconds), time.perf_counter()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        CLOCK.settle()
        now, clock = dict(CLOCK.seconds), time.perf_counter()
        spent = {kind: now.get(kind, 0.0) - self.before.get(kind, 0.0) for kind in KINDS}
        spent["wall"] = clock - self.began
        self.before, self.began = now, clock
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        report.user_properties = [*report.user_properties, ("spent", spent), ("peak", peak)]
        return report

    def pytest_runtest_logreport(self, report) -> None:
        if self.worker:
            return
        properties = dict(report.user_properties)
        spent = properties["spent"]
        file, _, name = report.nodeid.partition("::")
        row = self.rows.setdefault(file, dict.fromkeys(HEAD[1:], 0.0))
        row["cases"] += report.when == "call"
        row["wall"] += spent["wall"]
        cpu = sum(spent[kind] for kind in KINDS)
        row["cpu"] += cpu
        for kind in KINDS:
            row[kind] += spent[kind]
        function = f"{file}::{name.partition('[')[0]}"
        row["peak"] = max(row["peak"], properties["peak"] / 1024)
        if function in self.seen:
            row["repeats"] += cpu
        if report.when == "teardown":
            self.seen.add(function)
        worker = getattr(report, "worker_id", "main")
        self.peaks[worker] = max(self.peaks.get(worker, 0), properties["peak"])

    def pytest_sessionfinish(self) -> None:
        if self.worker or not self.rows:
            return
        rows = sorted(self.rows.items(), key=lambda row: -row[1]["cpu"])
        total = {name: sum(row[name] for _, row in rows) for name in HEAD[1:]}
        total["peak"] = max(row["peak"] for _, row in rows)
        lines = ["\t".join(HEAD)]
        for file, row in [("all", total), *rows]:
            seconds = (f"{row[name]:.1f}" for name in HEAD[2:])
            lines.append("\t".join([file, f"{row['cases']:.0f}", *seconds]))
        self.path.write_text("\n".join(lines) + "\n")

    def pytest_terminal_summary(self, terminalreporter) -> None:
        peaks = ", ".join(
            f"{name} {peak / 1024:.0f} MB" for name, peak in sorted(self.peaks.items())
        )
        terminalreporter.write_line(f"{self.path}: where the time goes; memory of {peaks}")
