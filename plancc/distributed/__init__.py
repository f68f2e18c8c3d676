"""Compile a graph on several ranks. Every rank has some of the rows, and writes its own parts.

Arrays with an entry for every vertex are on every rank; arrays with an entry for every nonzero are
divided. Vertices choose their cluster or part in turns. A hash determines the turn of a vertex, so
the plan is the same for any number of ranks.

This package does not import the runtime; `ranks.Collectives` lists the methods of a transport that
it calls.
"""
