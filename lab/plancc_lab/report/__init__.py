"""A page about plans for a browser, and a short form of this page for notebooks."""
