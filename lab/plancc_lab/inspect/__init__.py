"""An extension of `plancc inspect`: a lower bound on the rows that any row plan moves."""
