"""How a plan's distributed product is executed, forward and adjoint; one module per layout."""
