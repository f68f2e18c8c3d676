"""What a wheel has besides its sources: compiled kernels, if `PLANCC_KERNELS` names a folder."""

import os
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):
    """The kernels of a folder, in a wheel for the Python that builds it.

    The kernels run where numba runs: the wheel has the same tag as numba's own wheel.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files and the tag."""
        folder = os.environ.get("PLANCC_KERNELS")
        if folder is not None and self.target_name == "wheel":
            kernels = sorted(Path(folder).glob("[!.]*.kernel"))
            if not kernels:
                raise ValueError(f"PLANCC_KERNELS: no kernel is in the folder {folder}")
            for kernel in kernels:
                build_data["force_include"][str(kernel)] = f"plancc/portable/{kernel.name}"
            said = distribution("numba").read_text("WHEEL") or ""
            build_data["tag"] = said.partition("Tag: ")[2].split()[0]
            build_data["pure_python"] = False
