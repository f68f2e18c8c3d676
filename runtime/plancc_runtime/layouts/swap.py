"""One number per row that travels, told once to the other end. Knows messages; must not know rows'
contents, layers or files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.plan.values import Int32Array, Int64Array
from plancc_runtime.transport.base import Transport


def swap(
    transport: Transport,
    to: Int32Array,
    out_ptr: Int64Array,
    out: npt.NDArray[Any],
    source: Int32Array,
    into_ptr: Int64Array,
    into: npt.NDArray[Any],
) -> None:
    """Send ``out[out_ptr[k]:out_ptr[k + 1]]`` to rank ``to[k]``, and fill `into` likewise.

    Collective.
    """
    pieces = np.split(into, into_ptr[1:-1]) if len(source) else []
    receives = list(zip(source.tolist(), pieces, strict=True))
    sends = [(peer, out[out_ptr[k] : out_ptr[k + 1]]) for k, peer in enumerate(to.tolist())]
    exchange = transport.exchange(sends, receives)
    exchange.start()
    for k in range(len(sends)):
        exchange.send(k)
    exchange.finish()
