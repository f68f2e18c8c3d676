"""Execution of a plan's distributed product and of its adjoint; one module per layout."""
