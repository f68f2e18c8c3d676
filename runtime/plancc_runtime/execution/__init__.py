"""How the epochs of a run are executed, in every layout.

`protocol.Execution` is all that the training loop asks for. full_batch.py, grids.py, clones.py and
mini_batches.py implement it; choice.py checks that a plan and options fit, and picks one of them;
figures.py counts the words of an epoch.
"""
