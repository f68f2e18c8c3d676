"""The search for owners: partitioners and passes, by effort and budget."""
