"""Plans in pieces that are cut as a test wants; ranks that compile write pieces of their own."""

from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike

import numpy as np

from plancc.plan.digests import cut_points, digests_of_plan, root_of
from plancc.plan.format import header_attributes, node_of
from plancc.plan.piece_writer import ArrayKind, PieceTable, write_piece, write_plan_head
from plancc.plan.pieces import folder_name, new_folder
from plancc.plan.plan import Plan


def save_in_pieces(
    plan: Plan, path: str | PathLike[str], first_part: Sequence[int], *, compress: bool = False
) -> str:
    """Write a plan whose piece i has the parts ``first_part[i]..first_part[i + 1] - 1``."""
    arrays, parts = plan.arrays(), np.asarray(first_part, dtype=np.int64)
    cut = {name for name in arrays if node_of(name).cut}
    starts = {name: cut_points(node_of(name).cut, arrays.__getitem__)[parts] for name in cut}
    digests = digests_of_plan(arrays)
    content = root_of(header_attributes(plan.header), digests, arrays)
    folder = folder_name(path, content)
    kinds = {name: ArrayKind(arrays[name].dtype, arrays[name].shape) for name in cut}
    whole = {name: arrays[name] for name in arrays if name not in cut}
    with ExitStack() as stack:
        temporary = stack.enter_context(new_folder(path, folder))
        for i in range(len(parts) - 1):
            slices = {
                name: array[starts[name][i] : starts[name][i + 1] + node_of(name).shared]
                for name, array in arrays.items()
                if name in cut
            }
            write_piece(temporary, i, slices, content, compress=compress)
        pieces = PieceTable(folder, parts, starts, kinds)
        attributes = plan.attributes()
        return write_plan_head(path, plan.header, whole, pieces, digests, attributes, stack.close)
