"""A device that is not there: tensors say "cuda:0", hold their numbers on the CPU, and raise where
tensors of two devices meet, as CUDA's do.

So the code for GPUs runs, in the order in which it does there, and its results can be compared. It
has no streams, no speed and no library of its own: `torch` products stand for cuSPARSE's.
"""

from contextlib import ExitStack, contextmanager
from unittest.mock import MagicMock, patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from plancc_runtime.kernels import torch_spmm
from plancc_runtime.transport import local

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
BETWEEN = {"aten::copy_", "aten::_to_copy", "aten::index"}
"""Operations that move numbers between devices, or take indices of the CPU."""


class DeviceTensor(torch.Tensor):
    """A tensor of the device; C++ sees one of the device "meta", for which autograd works."""

    @staticmethod
    def __new__(cls, held: torch.Tensor):
        strided = held.layout == torch.strided
        shape = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(
            cls, held.size(), **(shape if strided else {}), dtype=held.dtype, device="meta"
        )

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @property
    def device(self) -> torch.device:
        return CUDA

    @property
    def is_cuda(self) -> bool:
        return True

    def numpy(self, *, force: bool = False):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __array__(self, *args, **options):
        self.numpy()

    def tolist(self):
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Device(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _Numbered(TorchFunctionMode):
    """The device "cuda" by its number, as a driver would tell it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def numbered(each):
            is_device = isinstance(each, str | torch.device)
            return CUDA if is_device and str(each) == "cuda" else each

        if func is torch.device:
            return func(*args, **(kwargs or {}))
        kwargs = {name: numbered(each) for name, each in (kwargs or {}).items()}
        return func(*map(numbered, args), **kwargs)


def _leaves(values):
    for each in values:
        if isinstance(each, list | tuple):
            yield from _leaves(each)
        else:
            yield each


def _mapped(function, value):
    if isinstance(value, list | tuple):
        return type(value)([_mapped(function, each) for each in value])
    return function(value)


def _run(func, args, kwargs):
    given = [*_leaves((args, [*kwargs.values()]))]
    here = [each for each in given if isinstance(each, DeviceTensor)]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    others = [each for each in tensors if not isinstance(each, DeviceTensor) and each.dim()]
    name = func._schema.name
    if here and others and name not in BETWEEN:
        raise RuntimeError(f"{name}: tensors of cuda:0 and of cpu meet")
    assert not any(each.is_meta for each in others), "an index that is a list"
    asked = kwargs.get("device")
    made_there = bool(here) if asked is None else torch.device(asked).type != "cpu"

    def on_cpu(each):
        if isinstance(each, DeviceTensor):
            return each.held
        return CPU if isinstance(each, torch.device) else each

    args = _mapped(on_cpu, args)
    kwargs = {name: _mapped(on_cpu, each) for name, each in kwargs.items()}
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    out = func(*args, **kwargs)
    places = {id(each.held): each for each in here}

    def back(each):
        if not isinstance(each, torch.Tensor):
            return each
        if id(each) in places:
            return places[id(each)]
        return DeviceTensor(each) if made_there else each

    if name == "aten::copy_":  # the target, wherever it is
        return places.get(id(out), out)
    return _mapped(back, out)


class _Csr:
    """A CSR matrix as cuSPARSE takes it: for `torch.addmm` and `torch.sparse.sampled_addmm`."""

    def __init__(self, ptr, index, value, transposed=False, *, size, device=None) -> None:
        assert device is None or torch.device(device).type == "cuda"
        arrays = (each.to(CUDA).held for each in (ptr, index, value))
        self.held = torch_csr(*arrays, transposed, size=size)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        left, *others = (each.held for each in args)
        if func is torch.sparse.sampled_addmm:
            made = cls.__new__(cls)
            made.held = func(left, *others, **kwargs)
            return made
        assert func is torch.addmm
        assert kwargs["out"] is args[0]
        func(left, *others, beta=kwargs["beta"], out=left)
        return args[0]

    def values(self):
        return DeviceTensor(self.held.values())


torch_csr = torch_spmm._csr


@contextmanager
def simulated_device():
    """Let "cuda" be that device, also in the threads of `run_ranks`."""
    run_threads = local.run_threads

    def on_device(threads, end, work):
        def there(transport):
            with _Numbered(), _Device():
                return work(transport)

        return run_threads(threads, end, there)

    with ExitStack() as stack:
        for name, answer in (
            ("_lazy_init", lambda: None),
            ("device_count", lambda: 1),
            ("set_device", lambda device: None),
            ("current_device", lambda: 0),
            ("synchronize", lambda device=None: None),
            ("Event", MagicMock),  # all is done in order
        ):
            stack.enter_context(patch.object(torch.cuda, name, answer))
        stack.enter_context(patch.object(torch_spmm, "_csr", _Csr))
        stack.enter_context(patch.object(local, "run_threads", on_device))
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)  # a device adds in the same order every time
        torch._C._set_only_lift_cpu_tensors(True)  # numbers of Python become tensors there first
        stack.callback(torch._C._set_only_lift_cpu_tensors, False)
        stack.enter_context(_Numbered())
        stack.enter_context(_Device())
        yield
