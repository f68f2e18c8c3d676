"""Epochs of all ranks executed on this computer, replayed on the links of a machine."""
