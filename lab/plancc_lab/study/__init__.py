"""Graphs compiled with several models for several numbers of parts: a row of figures for each."""
