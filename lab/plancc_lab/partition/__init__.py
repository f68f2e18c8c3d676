"""Partitions of hypergraphs that do not come from a matrix."""
