"""Partitioning of hypergraphs that are read from files, not made from a matrix."""
