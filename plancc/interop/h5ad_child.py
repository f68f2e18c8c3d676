"""The child process of `plancc.interop.h5ad`: reads, and leaves arrays in a folder."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy.sparse import save_npz

from plancc.graph.bounds import allowing
from plancc.guarded_child import answer
from plancc.interop.h5ad import READS


def leave(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The file of each thing by its name, None where nothing was read.

    ``request`` is {"what": key of `READS`, "keys": mapping, "large": bool, "folder": str}.
    """
    with allowing(large=request["large"]):
        found = READS[request["what"]](path, request["keys"])
    files: dict[str, str | None] = dict.fromkeys(found)
    for number, (name, value) in enumerate(found.items()):
        file = os.path.join(request["folder"], str(number))
        if isinstance(value, np.ndarray):
            files[name] = f"{file}.npy"
            np.save(f"{file}.npy", value, allow_pickle=False)
        elif value is not None:
            files[name] = f"{file}.npz"
            save_npz(f"{file}.npz", value, compressed=False)
    return {"files": files}


if __name__ == "__main__":
    answer(leave)
