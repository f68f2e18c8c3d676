"""Measurement of this machine's rates with the runtime's operations, for a machine file."""
