"""Execution of a run's epochs, in every layout.

`protocol.Execution` is the interface that the training loop calls. full_batch.py, grids.py,
clones.py and mini_batches.py implement it. choice.py checks that plan and options fit each other,
and chooses an execution. figures.py counts the words of an epoch.
"""
