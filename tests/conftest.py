"""What every test relies on."""

import gc
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
from cases import CHOSEN
from hypothesis import HealthCheck, settings

pytest_plugins = ["durations", "plan_files"]

gc.disable()  # until all is imported, and what is there then is never looked at again

# A shell ignores Ctrl-C in its background jobs, nohup the end of the terminal, and programs
# inherit that: tests that send these signals would wait in vain. What starts from here gets the
# default.
USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
for number in USUAL:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, USUAL[number])

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

# Threads of torch that wait for work spin otherwise, and take the cores of the tests beside them.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# pytest-xdist gives its workers a width of 80. Programs print as in a pipe unless a test says so.
os.environ.pop("COLUMNS", None)

# `make test` tries the same few examples in every run, `make test-all` many new ones.
EVER = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("few", max_examples=20, derandomize=True, database=None, **EVER)
settings.register_profile("many", max_examples=200, **EVER)

TABLE = Path(__file__).with_name("durations.tsv")


def pytest_addoption(parser):
    parser.addoption(
        "--one-of-each", action="store_true", help="the first test of every file (`make check`)"
    )
    parser.addoption(
        "--golden", action="store_true", help="write tests/cli/golden, and fail (test_printed.py)"
    )


def pytest_configure(config):
    quick = config.option.markexpr == "not long"
    settings.load_profile("few" if quick else "many")
    CHOSEN["all"] = not quick


def pytest_collection_modifyitems(config, items):
    """The longest files first, so that at the end no worker is left alone with one of them."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]]
    seconds = {file: float(cells[1]) for file, *cells in rows}
    root = config.rootpath
    if not any("::" in each for each in config.args):  # else in the order that they are named in
        items.sort(key=lambda item: -seconds.get(str(item.path.relative_to(root)), 0.0))
    if config.option.one_of_each:
        left = {item for item in items if item.get_closest_marker("long")}
        files = {item.path: item for item in reversed(items) if item not in left}
        left |= set(items) - set(files.values())
        items[:] = files.values()
        config.hook.pytest_deselected(items=list(left))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Whole files go to a worker, and those that use the pool of ranks to one, which starts it."""
    from xdist.scheduler import LoadFileScheduling

    root = config.rootpath
    uses = re.compile(r"\branks\.(call|run)\(")
    of_pool = {
        str(path.relative_to(root))
        for path in Path(__file__).parent.rglob("test_*.py")
        if uses.search(path.read_text())
    }

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "pool of ranks" if file in of_pool else file

    return Scheduling(config, log)


def pytest_collection_finish():
    gc.collect()  # what is frozen is never given back
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter):
    """One line for every reason to skip."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")


@pytest.fixture(autouse=True)
def _handlers_of_signals():
    """What a test does to signals ends with it."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(scope="session")
def ranks():
    """A pool of MPI ranks that wait for work (`ranks.Pool`), started at its first use."""
    from ranks import Pool

    with Pool() as pool:
        yield pool


def _coverage():
    """What measures this process (`make coverage`), or None."""
    try:
        from coverage import Coverage
    except ImportError:
        return None
    return Coverage.current()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    measured = _coverage()
    if measured is not None:
        measured.switch_context(item.nodeid)


def pytest_sessionfinish(session):
    measured = _coverage()
    if measured is not None and hasattr(session.config, "workerinput"):
        measured.stop()  # workers of pytest-xdist end without a word to coverage
        measured.save()
