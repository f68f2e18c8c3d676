"""What every test relies on."""

import os
import signal

# A shell ignores Ctrl-C in its background jobs, and programs inherit that: under `make test &` the
# tests that interrupt a program would wait in vain. Programs started from here get the default.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Threads of torch that wait for work spin otherwise, and take the cores of the tests beside them.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# pytest-xdist gives its workers a width of 80. Programs print as in a pipe unless a test says so.
os.environ.pop("COLUMNS", None)

# Folders whose files take longest. They come first, so that at the end no worker is left alone with
# one of them (`pytest -n 2 --dist loadfile --no-loadscope-reorder`).
LONG = ("runtime", "search", "cli", "benchmarks", "partitioners", "hostile")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.parent.name not in LONG)
