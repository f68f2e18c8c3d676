"""The search for owners. It runs partitioners and passes; the effort says how many of these."""
