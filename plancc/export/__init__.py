"""Plans in the formats of other frameworks, one file per target."""

from plancc.export.target import EXPORTS, Export, export

__all__ = ["EXPORTS", "Export", "export"]
