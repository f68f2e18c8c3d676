"""Fixtures of `cli_fixtures`, which tests of the lab use too."""

from cli_fixtures import data, graph, machine, plan

__all__ = ["data", "graph", "machine", "plan"]
