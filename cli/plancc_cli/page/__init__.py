"""The page of `plancc report`: charts as geometry, a template, and what puts them together."""
