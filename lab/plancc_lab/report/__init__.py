"""A page about plans for a browser, and the short form of it that a notebook shows."""
