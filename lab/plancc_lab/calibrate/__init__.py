"""Measurement of this machine with operations of the runtime; the results become a machine file."""
