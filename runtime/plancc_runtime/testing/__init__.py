"""Checks that authors of transports and layouts inherit, or call on every rank. Needs pytest."""

from plancc_runtime.testing.layouts import Layout, LayoutTests
from plancc_runtime.testing.transports import TransportTests, check_transport

__all__ = ["Layout", "LayoutTests", "TransportTests", "check_transport"]
