"""Tests for authors of new transports and layouts.

Inherit the test classes, and call the functions on every rank. All need pytest."""

from plancc_runtime.testing.layouts import Layout, LayoutTests
from plancc_runtime.testing.transports import TransportTests, check_transport

__all__ = ["Layout", "LayoutTests", "TransportTests", "check_transport"]
