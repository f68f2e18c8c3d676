"""A web page about plans, and a short form of this page for notebooks."""
