"""Partitioning of hypergraphs that are given as files, and do not come from a matrix."""
