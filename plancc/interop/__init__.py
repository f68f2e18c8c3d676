"""Readers and writers of the formats of other libraries.

The registries `plancc.graph.formats` and `plancc.export` name these modules.
"""
