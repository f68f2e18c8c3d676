"""Layers and losses on top of any layout. Knows dense arrays; must not know messages or files."""
