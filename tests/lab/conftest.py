"""Fixtures of the tests of commands."""

from cli_fixtures import data, graph, machine, plan

__all__ = ["data", "graph", "machine", "plan"]
