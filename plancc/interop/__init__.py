"""Readers and writers for other frameworks, which the registries of formats and exports list."""
