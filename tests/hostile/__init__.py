"""Attacks on plancc, kept: damaged files, hostile command lines, faults while jobs run.

    python -m tests.hostile --seconds 3600      # or: make hostile

`attack` says what an attack is, `worker` tries its cases under limits of the system, `campaign`
watches the workers and counts. `seeds/` holds what was found; it is tried first in every run.
"""
