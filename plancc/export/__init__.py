"""Plans in the formats of other frameworks, one file per target. Knows plans; reads nothing."""

from plancc.export.target import EXPORTS, Export, export

__all__ = ["EXPORTS", "Export", "export"]
