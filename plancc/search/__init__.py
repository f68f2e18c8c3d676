"""The search for owners, which runs partitioners and passes; the effort says how many of them."""
