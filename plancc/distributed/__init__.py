"""Compiling on several ranks: every rank has its share of the rows, and writes its own parts.

Arrays with an entry per vertex are on every rank (owners, weights, labels); arrays with an entry
per nonzero are divided. Choices depend only on what all ranks know. They are made in turns that do
not depend on the number of ranks, so that any number of ranks makes the same plan. If rank 0 can
hold the data of a decision, it works as one process does: on the graph between clusters, and on the
corridor along the boundaries of graphs without hubs (`nets`).

`compile.compile_folder` is the whole on one page. Ranks are a transport of the runtime, which this
package does not import (`ranks.Collectives` lists the methods that it uses).
"""
