"""Search for owners with several partitioners and passes, as far as the effort allows."""
