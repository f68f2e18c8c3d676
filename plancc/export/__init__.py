"""Write a plan in the format of another framework. Each format is a target of the export."""

from plancc.export.target import EXPORTS, Export, export

__all__ = ["EXPORTS", "Export", "export"]
