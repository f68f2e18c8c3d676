"""Partitions of hypergraphs that no matrix has."""
