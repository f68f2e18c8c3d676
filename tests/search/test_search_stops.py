"""Errors and Ctrl-C in a search with threads: it ends at once, and leaves nothing running."""

import math
import signal
import threading
import time
from dataclasses import replace

import pytest
from search_helpers import small_graph

from plancc.graph.owners import Owners
from plancc.options import SearchOptions
from plancc.passes.deadline import Deadline
from plancc.search import memetic, rows
from plancc.search.effort import search

SEED, PROMPT, PATIENCE = 5, 60.0, 240.0


def interrupt():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def boom():
    raise RuntimeError("boom")


def stop():
    raise KeyboardInterrupt


@pytest.fixture
def stopped():
    """``stopped(error, options)``: the search raises it in time, and all its threads have ended."""
    before = set(threading.enumerate())

    def stopped(error, report=None, **options):
        search(small_graph("grid"), 4, SearchOptions(effort="fast"))  # compiles
        begin = time.perf_counter()
        asked = SearchOptions(seed=SEED, threads=2, **options)
        with pytest.raises(error):
            search(small_graph("grid"), 4, asked, report=report)
        seconds = time.perf_counter() - begin
        for thread in set(threading.enumerate()) - before:
            if thread.ident is None:  # Ctrl-C came before it began
                continue
            thread.join(PROMPT)
            assert not thread.is_alive()
        return seconds

    return stopped


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize(
    ("event", "error"),
    [(boom, RuntimeError), (stop, KeyboardInterrupt), (interrupt, KeyboardInterrupt)],
)
def test_one_of_two_threads_ends_the_other(monkeypatch, stopped, failing, event, error):
    def chain(job, owner, seed, cycles, cuts=True, quick=False):
        begin = time.perf_counter()
        if seed == SEED + failing and not quick:
            time.sleep(0.2)
            event()
        until = begin + (0 if quick else PATIENCE)
        while seed >= SEED and not job.deadline.passed() and time.perf_counter() < until:
            time.sleep(0.02)
        return job.note("waited", begin, Owners(owner))

    monkeypatch.setattr(rows.RowJob, "chain", chain)
    assert stopped(error, effort="balanced") < PROMPT


@pytest.mark.parametrize("objective", ["volume", "messages"])
def test_ctrl_c_in_a_search_without_end(monkeypatch, stopped, objective):
    endless = replace(memetic.EVOLUTION, rounds=10**9, patience=10**9, alike=0.0)
    monkeypatch.setattr(memetic, "EVOLUTION", endless)
    begun = threading.Event()

    def report(trial):
        if trial.step.startswith(("combined", "mutated", "refined")):
            begun.set()

    threading.Thread(target=lambda: begun.wait() and interrupt(), daemon=True).start()
    stopped(KeyboardInterrupt, effort="best", objective=objective, report=report)


def test_a_report_that_fails_ends_the_search(stopped):
    def report(trial):
        if trial.step.startswith("sweeps"):
            raise RuntimeError("no more")

    assert stopped(RuntimeError, effort="balanced", report=report) < PROMPT


def test_deadlines():
    never, soon = Deadline(), Deadline.after(100.0)
    assert never.earlier(5.0).at == math.inf
    assert 94 < soon.earlier(5.0).seconds_left() < 95.1
    asked = Deadline.after(None, lambda: True)
    assert asked.passed()
    assert asked.stopped()
    assert asked.earlier(1.0).passed()
    assert asked.seconds_left() == -math.inf
    assert Deadline(-math.inf).earlier(-math.inf).passed()
