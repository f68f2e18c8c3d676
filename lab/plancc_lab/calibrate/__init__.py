"""Rates of this machine, measured with the operations of the runtime, as a machine file."""
