"""Execution of a plan's distributed product, forward and adjoint; one module per layout."""
