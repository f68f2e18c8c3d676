"""Studies: several graphs, models and numbers of parts, with a line of figures for each plan."""
