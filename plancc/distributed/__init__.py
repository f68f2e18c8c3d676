"""Compiling on several ranks: every rank has its share of the rows, and writes its own parts.

Arrays of the length of the vertices are on every rank (owners, weights, labels); what is of the
length of the nonzeros is divided. Choices are made from what all ranks know, in turns that do not
depend on the number of ranks, so that any number of them makes the same plan. Where rank 0 can hold
what decides, it works as one process does: on the graph between clusters, and on the corridor along
the boundaries of graphs without hubs (`nets`).

`compile.compile_folder` is the whole on one page. Ranks are a transport of the runtime, which this
package does not import (`ranks.Collectives` says what is used of it).
"""
