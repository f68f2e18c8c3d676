"""`Graph`: a rank's share of a plan, as an object for a user's own PyTorch script."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.registry import check_choice
from plancc.sampling.counter import key_of
from plancc.threads import check_threads
from plancc_runtime.batches import Batch, drawn_batches
from plancc_runtime.data import SPLITS
from plancc_runtime.devices import own_device
from plancc_runtime.gathering import gather_rows, named_arrays, save_rows
from plancc_runtime.layouts.block import NONZEROS, Block
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.layouts.order import reordered
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.layouts.whole_counts import with_whole_rows
from plancc_runtime.nn.aggregation import aggregate
from plancc_runtime.nn.dropout import dropout
from plancc_runtime.nodes import with_exchange
from plancc_runtime.optim import copy_from_first, sum_gradients
from plancc_runtime.slices import Slice, open_plan, read_ids, rows_of_rank
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc.graph.vertexdata import VertexData

DTYPES = (torch.float32, torch.float64)


class Graph(EdgeGraph):
    """This rank's rows of a graph, with collective operations; made by `plancc_runtime.open`.

    A dense tensor has one row for each of this rank's own rows, in the order of `vertices`. Columns
    of the local matrix are numbered [own rows | halo rows]. A layer of `plancc_runtime.nn` takes a
    graph as its first argument. All ranks must call methods marked *collective* in the same order,
    and all must run the backward pass through the results.

    Attributes:
        features: Tensor[num_rows, width] or None.
        labels (int64[num_rows], bool or float32[num_rows, num_classes], or None): int64: the class
            of every vertex, -1 if it is unknown. bool: whether the vertex is in each class. float:
            real numbers, NaN if they are unknown.
        num_classes (int): Number of classes, or of real numbers per vertex; the same on all
            ranks; 0 without labels.
        train_mask, val_mask, test_mask: bool[num_rows] or None.
        data_of_types (mapping of str to VertexData): Vertex data of this rank's rows, by type;
            only in a plan with types.
        vertices (int32[num_rows]): For every row, the number of its vertex in the compiled graph.
        plan_part (Part): This rank's slice of the plan, without vertex data.
        Other attributes: See `EdgeGraph`.
    """

    def __init__(
        self,
        header: Header,
        part: Part,
        transport: Transport,
        dtype: torch.dtype,
        device: torch.device,
        plan: StrPath | None = None,
        content: str = "",
    ) -> None:
        block = with_whole_rows(Block.of_part(part, header.self_loops), transport)
        super().__init__(block, Resources(transport, dtype, device=device), header)
        self._alike: set[tuple[tuple[str, tuple[int, ...]], ...]] = set()
        data = part.vertex_data
        self.plan_part = replace(part, vertex_data=type(data)())
        self.data_of_types = data.of_type
        self._rows, self._plan, self._content = rows_of_rank(header, part), plan, content
        self.features = self.features_of(data)
        self.labels = self.targets_of(data)
        masks = self.masks_of(data)
        self.train_mask, self.val_mask, self.test_mask = map(masks.get, SPLITS)
        classes = 0
        if self.labels is not None and self.labels.ndim == 2:
            classes = self.labels.shape[1]
        elif self.labels is not None and len(self.labels):
            classes = int(self.labels.max()) + 1
        [self.num_classes] = transport.largest(classes)

    def __repr__(self) -> str:
        return (
            f"Graph(rank {self.rank} of {self.num_ranks}: {self.num_rows} of {self.num_vertices} "
            f"rows, {self.num_halo} halo rows, {len(self.block.column)} nonzeros)"
        )

    def product(self, x: Tensor, coefficients: str = "plan") -> Tensor:
        """Return the product A x. The backward pass multiplies gradients by A^T. Collective.

        Parameters:
            x: Tensor[num_rows, width].
            coefficients: Values of A. "plan": the plan's values. "sum": 1 for every edge. "mean":
                1 / number of edges of the row. "closed-mean": like "mean", with the row itself as
                one more neighbour.

        Returns:
            Tensor[num_rows, width]

        Raises:
            InputError: If x does not fit the graph. All methods that take x raise this error.
        """
        self._check(x, ndim=2)
        return super().product(x, coefficients)

    def halo(self, x: Tensor) -> Tensor:
        """Return the halo rows of x. Collective.

        In the backward pass, each owner adds up the gradients of its rows.

        Parameters:
            x: Tensor[num_rows, ...].

        Returns:
            Tensor[num_halo, ...]
        """
        self._check(x)
        return super().halo(x)

    def aggregate(
        self,
        x: Tensor,
        reduce: str = "sum",
        weight: Tensor | str | None = None,
        nonzeros: str = "edges",
    ) -> Tensor:
        """Reduce x[j] or weight[e] x[j] over the nonzeros e = (i, j) of every row i. Collective.

        Parameters:
            x: Tensor[num_rows, width].
            reduce: "sum", "mean" or "max"; the result is 0 in rows without nonzeros.
            weight (Tensor[nonzeros] or Tensor[nonzeros, width], or "plan"): A weight for every
                nonzero, in the order of `local_edge_index`. "plan": the weights are `edge_values`.
                Not allowed with "max".
            nonzeros: "edges": the plan's nonzeros without the diagonal that normalisation added.
                "closed": the edges and the whole diagonal. "plan": the plan's nonzeros.

        Returns:
            Tensor[num_rows, width]
        """
        check_choice("nonzeros", nonzeros, NONZEROS)
        if isinstance(weight, str):
            check_choice("weight", weight, ("plan",))
            weight = self.edge_values(nonzeros)
        self._check(x, ndim=2)
        return aggregate(self, x, reduce, weight, nonzeros)

    def dropout(self, x: Tensor, rate: float, *key: int) -> Tensor:
        """Return x after dropout. Not collective.

        The mask does not depend on the number of ranks or on the partition.

        Parameters:
            x: Tensor[num_rows, width].
            rate: Dropout rate, in [0, 1).
            key (int): Numbers that identify the mask, for instance seed, epoch and layer.
        """
        self._check(x, ndim=2)
        if not 0 <= rate < 1:
            raise InputError(f"rate {rate}: must be at least 0 and below 1")
        return dropout(x, rate, key_of(*key), self.vertices)

    def mean_loss(self, losses: Tensor) -> Tensor:
        """Return the mean of the losses of all ranks, the same on all ranks. Collective.

        The backward pass gives each rank its share of the gradients; `sync_gradients` then adds up
        the shares.

        Parameters:
            losses (Tensor[...]): One loss for each of this rank's rows that count in the mean. A
                rank may have no such rows. If no rank has any, the mean is 0.

        Returns:
            Tensor[]
        """
        return _MeanLoss.apply(losses, self.transport)

    def all_reduce(self, x: Tensor) -> Tensor:
        """Return the sum of x over all ranks; the result has no gradient. Collective.

        Parameters:
            x (Tensor[...]): Tensor of the same shape on all ranks, float32, float64 or int64.
        """
        total = x.detach().clone(memory_format=torch.contiguous_format)
        self.transport.allreduce_sum(total)
        return total

    def sync_gradients(self, of: nn.Module | Iterable[nn.Parameter]) -> None:
        """Replace gradients by their sums over all ranks; call between backward() and step().

        Collective. `of` is a module or some parameters; they must be the same on all ranks.
        """
        if isinstance(of, nn.Module):
            named = dict(of.named_parameters())
        else:
            named = {f"number {k}": each for k, each in enumerate(of)}
        self._check_alike(named)
        sum_gradients(named.values(), self.transport)

    def sync_parameters(self, module: nn.Module) -> None:
        """Copy the parameters and buffers of rank 0 to all ranks. Collective.

        This is needed if ranks initialise parameters differently, for instance from torch's random
        generator in different states.
        """
        tensors = dict(module.named_parameters()) | dict(module.named_buffers())
        self._check_alike(tensors)
        copy_from_first([*tensors.values()], self.transport)

    def batches(
        self,
        sampler: str | None = None,
        *,
        layers: int = 2,
        seed: int = 1,
        epochs: int = 1,
        **options: Any,
    ) -> Iterator[Batch]:
        """Yield mini-batches for a training loop of your own; they depend on the seed. Collective.

        Each step of the iteration is collective too: all ranks must take all batches, and a rank
        must take them all from one thread.

            for batch in graph.batches("neighbour", batch_size=1024, fanouts=(10, 5), epochs=5):
                x = graph.features[batch.rows]
                for layer, layer_graph in zip(network, batch.graphs):
                    x = layer(layer_graph, x)
                out, y = x[batch.targets], graph.labels[batch.rows][batch.targets]

        Parameters:
            sampler: A name that `plancc list samplers` prints. By default the sampler that the plan
                was compiled for; if there is none, "uniform".
            layers: Number of layers of the network, and length of `Batch.graphs`.
            seed: Seed of the batches; ``plancc-run`` with the same seed draws the same batches.
            epochs: Number of epochs for which batches are drawn.
            **options: Options of the sampler: batch_size, fanouts, walk_length, keep. Also `draw`:
                see ``plancc-run --draw``.

        Raises:
            InputError: On all ranks, if the plan is not a row plan or was not opened from a file.
                Also if options do not suit the sampler or the plan, or differ between ranks.
        """
        with self.transport.agreement():
            if self._plan is None:
                raise InputError("mini-batches need a plan file, not a slice; open the plan file")
        of_rank, drawing = (self.plan_header, self.plan_part), (sampler, options)
        return drawn_batches(
            *(self._plan, of_rank, self.resources, *drawing),
            layers=layers,
            seed=seed,
            epochs=epochs,
        )

    def take(self, array: Any, axis: int = 0) -> Tensor:
        """Return this rank's rows of an array that has an entry for every vertex of the graph.

        If the array is in a file, only these rows are read. Not collective.

        Parameters:
            array: A NumPy array, a memory map or an h5py data set, in the order of the source's
                vertices.
            axis: Axis of the vertices: for instance 1 if the shape is [times, num_vertices, width].

        Returns:
            Tensor[..., num_rows, ...]: In the graph's dtype if the numbers are floating-point.
        """
        shape = np.shape(array)
        if not -len(shape) <= axis < len(shape) or shape[axis] != self.num_vertices:
            raise InputError(
                f"the array has shape {list(shape)}, but needs {self.num_vertices} entries, one "
                f"for each vertex, in axis {axis}"
            )
        rows = self.vertices.long().cpu()
        ascending, order = rows.sort()  # h5py needs this order, and it reads a file front to back
        before = (slice(None),) * (axis % len(shape))
        read = np.asarray(array[(*before, ascending.numpy())])
        if read.dtype.kind not in "biuf":
            raise InputError(f"the array has dtype {read.dtype}; give real numbers")
        dtype = self.dtype if read.dtype.kind == "f" else None
        found = self._tensor(read.astype(read.dtype.newbyteorder("="), copy=False), dtype)
        assert found is not None
        return found.index_select(axis, order.argsort().to(self.device))

    def gather(self, rows: Tensor, everywhere: bool = False) -> Tensor | None:
        """Return the rows of all ranks in the order of the source's vertices, 0..n-1. Collective.

        Parameters:
            rows (Tensor[num_rows, ...]): Numbers of any dtype, the same dtype on all ranks; the
                result has no gradient.
            everywhere: Whether every rank gets the result; otherwise only rank 0 does.

        Returns:
            Tensor[num_vertices, ...] or None: The rows in the same dtype, in the CPU's memory; None
                on a rank that gets no result. If the memory is too small, use `save_rows`.

        Raises:
            InputError: On all ranks, if the rows of one rank do not fit its graph.
        """
        with self.transport.agreement():
            [array] = named_arrays(rows, self.num_rows).values()
        if not self.transport.all_equal(str(rows.dtype).encode()):
            self.transport.agree(InputError("the ranks give rows of several dtypes; use one dtype"))
        found = gather_rows(self._rows, array, self.transport, everywhere)
        if found is None:
            return None
        whole = torch.from_numpy(found)
        return whole.to(rows.dtype) if isinstance(rows, Tensor) else whole

    def save_rows(self, path: StrPath, rows: Tensor | Mapping[str, Tensor]) -> None:
        """Write the rows of all ranks in the source's order, with the source's ids. Collective.

        Parameters:
            path: Name of the file; its extension gives the format: ``.csv`` or ``.npz``. Rank 0
                writes the file in pieces, and holds a few MiB at a time.
            rows (Tensor[num_rows, ...], or mapping of str to such tensors): Columns by name; a
                single tensor gets the name "row". A CSV has a column for each number of a row:
                ``row_0``, ``row_1`` and so on.

        Raises:
            InputError: On all ranks, if the rows of one rank do not fit its graph, or if the file
                name or a column name is not allowed.
            OutputError: On all ranks, if the file cannot be written; no file is left then.
            PlanError: On all ranks, if the plan's file was replaced since the graph was opened.
        """
        with self.transport.agreement():
            arrays = named_arrays(rows, self.num_rows, f"{os.fspath(path)}: `rows`")
            ids = None
            if self._plan is not None:
                ids = read_ids(self._plan, self._content, self.transport)
        save_rows(path, self._rows, arrays, ids, self.transport)

    def _check_alike(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise InputError if a tensor holds data of one rank, not a parameter. Collective.

        A tensor is refused if its shape differs between ranks, or if its values differ and its
        length is a number of local rows or edges. Shapes that were checked once are not checked
        again.
        """
        shapes = tuple((name, tuple(tensor.shape)) for name, tensor in tensors.items())
        if shapes in self._alike:
            return
        whose = "leave out parameters that have an entry for every local row or edge"
        if not self.transport.all_equal(repr([shape for _, shape in shapes]).encode()):
            self.transport.agree(
                InputError(f"the parameters differ in shape between ranks: {whose}")
            )
        sizes = set.intersection(
            *(set(enumerate(each)) for each in self.transport.gather(self._own_sizes()))
        )
        counts = {size for _, size in sizes if size > 1} if self.num_ranks > 1 else set()
        for name, tensor in tensors.items():
            if tensor.ndim and len(tensor) in counts:
                values = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
                if not self.transport.all_equal(values.numpy().tobytes()):
                    self.transport.agree(
                        InputError(
                            f"'{name}' differs between ranks, and its length {len(tensor)} is the "
                            f"number of rows, halo rows or edges of each rank: {whose}; "
                            "if it is a weight, use the same torch seed on all ranks"
                        )
                    )
        self._alike.add(shapes)

    def _own_sizes(self) -> list[int]:
        """Return this rank's number of rows, halo rows, nonzeros, edges, and rows of each type."""
        edges = [len(self.block.with_nonzeros(each).column) for each in ("plan", "edges")]
        found = [self.num_rows, self.num_halo, *edges]
        if self.types is not None:
            of_type = self.types.type_of(self.vertices.cpu().numpy())
            found += np.bincount(of_type, minlength=len(self.types.counts)).tolist()
        return found

    def features_of(self, data: VertexData) -> Tensor | None:
        """Return the features in the graph's dtype; None if `data` has no features."""
        return self._tensor(data.features, self.dtype)

    def targets_of(self, data: VertexData) -> Tensor | None:
        """Return labels as int64, or targets in their own dtype; None if `data` has neither."""
        if data.targets is not None:
            return self._tensor(data.targets)
        return self._tensor(data.labels, torch.int64)

    def masks_of(self, data: VertexData) -> dict[str, Tensor]:
        """Return the masks in `data`, under the names "train", "val" and "test"."""
        masks = (self._tensor(getattr(data, f"{split}_mask")) for split in SPLITS)
        return {s: mask for s, mask in zip(SPLITS, masks, strict=True) if mask is not None}

    def _tensor(self, array: np.ndarray | None, dtype: torch.dtype | None = None) -> Tensor | None:
        if array is None:
            return None
        writable = np.require(array, requirements=["C", "W"])  # torch warns of other arrays
        return torch.from_numpy(writable).to(self.device, dtype)

    def _check(self, x: Tensor, ndim: int | None = None) -> None:
        check_rows(x, self.num_rows, self, ndim)


def check_rows(x: Tensor, rows: int, graph: Graph, ndim: int | None = None, of: str = "") -> None:
    """Raise InputError unless x has `rows` rows, `ndim` axes, and the graph's dtype and device."""
    if not isinstance(x, Tensor):
        raise InputError(f"x is of type {type(x).__name__}; give torch.as_tensor(x)")
    if x.ndim == 0 or len(x) != rows or ndim not in (None, x.ndim):
        shape = ", ".join([str(rows), "any number" if ndim == 2 else "..."])
        raise InputError(f"x has shape {list(x.shape)}, but rank {graph.rank} needs [{shape}]{of}")
    if x.dtype != graph.dtype or x.device != graph.device:
        raise InputError(
            f"x is {x.dtype} on {x.device}, but the graph is {graph.dtype} on {graph.device}; "
            "convert x, or open the plan with another dtype or device"
        )


class _MeanLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, losses: Tensor, transport: Transport) -> Tensor:
        count = losses.new_tensor(losses.numel(), dtype=torch.float64)
        total = torch.stack([losses.sum(dtype=torch.float64), count])
        transport.allreduce_sum(total)
        ctx.shape, ctx.count = losses.shape, total[1].clamp(min=1).item()
        return (total[0] / ctx.count).to(losses.dtype)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return (g / ctx.count).expand(ctx.shape), None


def open_graph(
    plan: StrPath | Slice,
    transport: Transport,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    threads: int | None = None,
) -> Graph:
    """Return this rank's share of a plan, as `plancc_runtime.open` does. Collective."""
    dtype = dtype or torch.get_default_dtype()
    with transport.agreement():
        if dtype not in DTYPES:
            raise InputError(f"dtype {dtype}: choose torch.float32 or torch.float64")
        check_threads(threads)
        device = own_device(device, transport)
    opened = open_plan(plan, transport)
    header, content = opened.header, opened.content
    with transport.agreement():
        if opened.rows.grid is not None:
            raise InputError(
                f"{opened.name or 'this plan'}: is for grid '{header.grid}', but the library needs "
                "a row plan or an edge plan; train with plancc-run"
            )
    part = with_exchange(header, opened.read(transport), "auto", transport)
    if header.types is not None:
        part = reordered(part, np.argsort(header.types.type_of(part.global_id), kind="stable"))
    share = transport.cores_per_rank()
    if threads is not None or "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(threads or share)
    path = None if isinstance(plan, tuple) else plan
    return Graph(header, part, transport, dtype, device, path, content)
