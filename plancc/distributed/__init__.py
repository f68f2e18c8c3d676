"""Compile a graph on several ranks. Every rank has some of the rows, and writes its own parts.

Arrays with an entry for every vertex (owners, weights, labels) are on every rank. Arrays with an
entry for every nonzero are divided among ranks. All decisions depend only on data that all ranks
have. In each round of a search, vertices choose their cluster or part in several turns. A hash, and
not the number of ranks, determines the turn of a vertex, so the plan is the same for any number of
ranks.

For some decisions, rank 0 can hold all data that are needed. Then rank 0 decides alone, by the
methods of a compile in one process. This is so for the graph between clusters and, in graphs
without hubs, for the vertices near the boundaries of parts, the *corridor* (`nets`).

The function `compile.compile_folder` shows all steps. Ranks communicate by a transport of the
runtime. This package does not import the runtime; the class `ranks.Collectives` lists the methods
that it calls.
"""
