"""Local sparse products. Knows matrices; must not know ranks or layers."""
