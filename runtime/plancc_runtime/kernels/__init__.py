"""Local sparse products."""
