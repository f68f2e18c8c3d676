"""Readers and writers of other frameworks, behind the registries of formats and exports."""
