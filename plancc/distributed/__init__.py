"""Compiling on several ranks: every rank has a share of the rows, and writes its own parts.

Arrays with an entry per vertex are on every rank (owners, weights, labels). Arrays with an entry
per nonzero are divided. Choices depend only on data that all ranks have. Vertices choose in turns
that do not depend on the number of ranks, so any number of ranks makes the same plan. Some
decisions need so little data that rank 0 can hold all of the data. Rank 0 makes these decisions as
in one process: on the graph between clusters, and on the corridor along the boundaries of graphs
without hubs (`nets`).

`compile.compile_folder` shows all steps. Ranks communicate by a transport of the runtime, which
this package does not import (`ranks.Collectives` lists the methods that it uses).
"""
