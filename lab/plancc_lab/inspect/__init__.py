"""`plancc inspect` with a lower bound on the rows moved by any plan."""
