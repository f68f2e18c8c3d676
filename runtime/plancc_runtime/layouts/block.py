"""One rank's share of one layer's sparse product, as a value. Knows arrays; must not know ranks.

A plan's slice is one block that serves all layers. A block may be rectangular: where only some rows
of a layer's output are wanted, its outputs are fewer than its inputs.

            own inputs       halo rows
          +------------+---------------+
    own   |            |               |   row_ptr, column, value: CSR
    out-  |            |               |   columns numbered [own inputs | halo rows]
    puts  +------------+---------------+
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plancc.plan.plan import Int32Array, Int64Array, Part

COEFFICIENTS = ("plan", "mean", "sum")


@dataclass(frozen=True, eq=False)
class Block:
    """One rank's share of one layer's product. Immutable.

    Attributes
    ----------
    inputs : int32[num_inputs]
        Vertex of every own row of the layer's input.
    outputs : int64[num_outputs] or None
        Place of every own row of the layer's output among the inputs, ascending; None: they are
        the same rows.
    row_ptr : int64[num_outputs + 1], column : int32[nonzeros], value : float[nonzeros]
        Local CSR; columns numbered [own inputs | halo rows], distinct in a row.
    send_peer : int32[s], send_ptr : int64[s + 1], send_row : int32[sent rows]
        To peer ``send_peer[k]`` go the input rows ``send_row[send_ptr[k]:send_ptr[k + 1]]``.
    recv_peer : int32[r], recv_ptr : int64[r + 1]
        From peer ``recv_peer[k]`` come the halo rows ``recv_ptr[k]:recv_ptr[k + 1]``.
    self_loops : bool
        Whether nonzeros of the diagonal were added by normalising, and are no edges.
    """

    inputs: Int32Array
    outputs: Int64Array | None
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    send_peer: Int32Array
    send_ptr: Int64Array
    send_row: Int32Array
    recv_peer: Int32Array
    recv_ptr: Int64Array
    self_loops: bool

    @classmethod
    def of_part(cls, part: Part, self_loops: bool) -> Block:
        """The block of a plan's slice, for any layer."""
        return cls(
            inputs=part.global_id,
            outputs=None,
            row_ptr=part.row_ptr,
            column=part.column,
            value=part.value,
            send_peer=part.send_peer,
            send_ptr=part.send_ptr,
            send_row=part.send_row,
            recv_peer=part.recv_peer,
            recv_ptr=part.recv_ptr,
            self_loops=self_loops,
        )

    @property
    def num_inputs(self) -> int:
        return len(self.inputs)

    @property
    def num_outputs(self) -> int:
        return self.num_inputs if self.outputs is None else len(self.outputs)

    @property
    def num_halo(self) -> int:
        return int(self.recv_ptr[-1])

    @property
    def num_columns(self) -> int:
        return self.num_inputs + self.num_halo

    def output_places(self) -> Int64Array:
        """`outputs`, also where they are all inputs."""
        return np.arange(self.num_inputs) if self.outputs is None else self.outputs

    def with_coefficients(self, name: str) -> Block:
        """The same pattern with other values.

        Parameters
        ----------
        name : str
            "plan": as the plan has them. "sum": 1 for every edge. "mean": 1 / edges of the row.
            The last two leave out the diagonal that normalising added.
        """
        if name == "plan":
            return self
        block = self.without_added_diagonal()
        degree = np.diff(block.row_ptr)
        each = np.ones(len(degree)) if name == "sum" else 1 / np.maximum(degree, 1)
        return replace(block, value=np.repeat(each, degree))

    def without_added_diagonal(self) -> Block:
        """Without the diagonal if normalising added it; messages stay as they are."""
        if not self.self_loops:
            return self
        degree = np.diff(self.row_ptr)
        edge = self.column != np.repeat(self.output_places(), degree)
        kept = np.concatenate([[0], np.cumsum(edge)])
        return replace(
            self,
            row_ptr=kept[self.row_ptr],
            column=self.column[edge],
            value=self.value[edge],
            self_loops=False,
        )
