"""`plancc inspect` with one more figure: a lower bound on the rows that any row plan moves."""
