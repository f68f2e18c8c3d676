"""Checkpoints: files from which training resumes with the same bits. Knows the network and its
optimiser; must not know graphs or layers.

A checkpoint is one file, which is complete or does not exist: tensors as safetensors, all else as
JSON in its metadata under the key "plancc".

    DIR/last.safetensors    weights and buffers under their names in the network, the optimiser's
                            state as "optimizer/<parameter>/<name>", the best weights as "best/..."
    DIR/best.safetensors    weights and buffers that had the best validation loss

No state of a random generator is kept: whatever is drawn is a function of the seed, the number of
the epoch or step, and the vertex.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plancc.errors import BackendUnavailable, InputError, OutputError, PlanccError
from plancc.files import atomic_write
from plancc_runtime.learner import Learner
from plancc_runtime.optim import Validation
from plancc_runtime.options import OPTION_NAMES, TrainOptions
from plancc_runtime.transport.base import Transport

FORMAT = 1
LAST, BEST = "last.safetensors", "best.safetensors"
# Options that may change from one run to the next: they change no step, or its rounding only.
FREE = {
    *("epochs", "patience", "eval_every", "threads", "device", "init", "passes", "kernel"),
    *("row_order", "pipeline", "aggregate_on", "checkpoint", "every", "resume", "log", "trace"),
    *("predict", "embeddings"),
}
OF_EPOCHS = ("step", "cosine")  # schedules that depend on the number of epochs
FORMER = {"parametrization": "paper"}  # options that once were none, and what held then
BEST_FACTS = ("loss", "epoch", "since", "drops")  # fields of `Validation` that a checkpoint keeps


class CheckpointError(PlanccError):
    """A file is damaged, or is no checkpoint."""


class Checkpoints:
    """The checkpoints of one run. Every method is collective.

    Parameters
    ----------
    options : TrainOptions
        ``options.checkpoint`` is the folder; it is made if it is missing.
    content : str
        Content hash of the plan.
    transport : Transport

    Attributes
    ----------
    kernels : list of str
        Kernel of the local products on every rank. The caller sets it before `save`, because
        another kernel gives other bits. After `load` it is the checkpoint's; empty if that had
        another number of ranks.

    Raises
    ------
    InputError
        If there is a checkpoint that the run should not resume from, or none to resume from.
    OutputError
        If the folder cannot be made.
    BackendUnavailable
        If safetensors is not installed.
    """

    def __init__(self, options: TrainOptions, content: str, transport: Transport) -> None:
        assert options.checkpoint is not None
        self._folder = Path(options.checkpoint)
        self._options, self._content, self._transport = options, content, transport
        self.kernels: list[str] = []
        self._best_epoch: int | None = None  # of BEST
        last = self._folder / LAST
        with transport.agreement():
            try:
                import safetensors.torch  # noqa: F401
            except ImportError as error:
                raise BackendUnavailable(
                    "checkpoints need safetensors; install it with: pip install 'plancc[run]'"
                ) from error
            if options.resume and not last.exists():
                raise InputError(f"`resume`: there is no checkpoint {last}")
            if not options.resume and last.exists():
                raise InputError(
                    f"`checkpoint` {self._folder}: holds a checkpoint of an earlier run; set "
                    "`resume` to go on from it, or choose another folder"
                )
        with transport.agreement():
            if transport.rank == 0:
                try:
                    os.makedirs(self._folder, exist_ok=True)
                except OSError as error:
                    raise OutputError(f"cannot make {self._folder}: {error.strerror}") from error

    def save(self, learner: Learner, epoch: int, best: Validation) -> None:
        """Write what `load` needs to go on after `epoch` epochs.

        Raises
        ------
        OutputError
            On all ranks, if it cannot be written; the checkpoint before it is still there.
        """
        with self._transport.agreement():
            if self._transport.rank == 0:
                self._write(learner, epoch, best)

    def _write(self, learner: Learner, epoch: int, best: Validation) -> None:
        facts = {
            "format": FORMAT,
            "plan": self._content,
            "epoch": epoch,
            "num_ranks": self._transport.size,
            "kernels": self.kernels,
            "random": {"seed": self._options.seed, "epoch": epoch},
            "options": _plain(self._options),
            "best": {name: getattr(best, name) for name in BEST_FACTS},
        }
        weights = learner.network.state_dict()
        chosen = best.weights or {}
        if best.weights is not None and best.epoch != self._best_epoch:
            _write_file(self._folder / BEST, chosen, {**facts, "epoch": best.epoch})
            self._best_epoch = best.epoch
        names = [name for name, _ in learner.network.named_parameters()]
        state = {
            f"optimizer/{names[number]}/{key}": value
            for number, values in enumerate(learner.optimizer.state)
            for key, value in values.items()
        }
        kept = {f"best/{name}": value for name, value in chosen.items()}
        _write_file(self._folder / LAST, {**weights, **state, **kept}, facts)

    def load(self, learner: Learner) -> tuple[int, Validation]:
        """Put the network and its optimiser where the last checkpoint left them.

        Returns
        -------
        epoch : int
            The next epoch to train.
        best : Validation

        Raises
        ------
        InputError
            On all ranks: if the file is damaged, of another plan, or of another way to train.
        """
        path = self._folder / LAST
        with self._transport.agreement():
            facts, tensors, digest = _read_file(path)
            self._check(path, facts)
            network, optimizer = learner.network, learner.optimizer
            weights = _matching(path, tensors, "", network.state_dict())
            if facts["epoch"] > self._options.epochs:
                raise InputError(
                    f"`epochs` {self._options.epochs}: {path} has seen {facts['epoch']} already"
                )
            best = Validation(**facts["best"])
            if best.loss is not None:
                best.weights = _matching(path, tensors, "best/", network.state_dict())
            names = [name for name, _ in network.named_parameters()]
            state = [
                _matching(path, tensors, f"optimizer/{name}/", values)
                for name, values in zip(names, optimizer.state, strict=True)
            ]
        if not self._transport.all_equal(digest.encode()):
            self._transport.agree(InputError(f"{path}: not the same file on all ranks"))
        network.load_state_dict(weights)
        for here, there in zip(optimizer.state, state, strict=True):
            for key, value in here.items():
                value.copy_(there[key])
        self.kernels = facts["kernels"] if facts["num_ranks"] == self._transport.size else []
        self._best_epoch = best.epoch if (self._folder / BEST).exists() else None
        return facts["epoch"], best

    def _check(self, path: Path, facts: dict[str, Any]) -> None:
        if facts["format"] != FORMAT:
            raise InputError(f"{path}: format {facts['format']}, this version reads {FORMAT}")
        if facts["plan"] != self._content:
            raise InputError(
                f"{path}: belongs to another plan (content hash {facts['plan'][:12] or 'none'}; "
                f"this one has {self._content[:12] or 'none'})"
            )
        here, there = _plain(self._options), facts["options"]
        fixed = [name for name in OPTION_NAMES if name not in FREE]
        if self._options.schedule in OF_EPOCHS:
            fixed.append("epochs")
        if self._options.schedule == "plateau":  # counts evaluations
            fixed.append("eval_every")
        for name in fixed:
            # an option that is newer than the file had its default
            before = there.get(name, FORMER.get(name, getattr(TrainOptions, name)))
            if here[name] != before:
                raise InputError(
                    f"{path}: was made with {name.replace('_', '-')} {before}, which cannot become "
                    f"{here[name]}"
                )


def _plain(options: TrainOptions) -> dict[str, Any]:
    """The options as they are after being written as JSON and read back."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(options), default=os.fspath))
    return plain


def _write_file(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    from safetensors.torch import save

    text = json.dumps(facts)
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    raw = save(tensors, {"plancc": text, "sha256": _digest(text, tensors)})
    with atomic_write(path) as temporary:
        temporary.write_bytes(raw)


def _read_file(path: Path) -> tuple[dict[str, Any], dict[str, Tensor], str]:
    """What `_write_file` wrote, and its digest; CheckpointError if it is something else."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read as a checkpoint ({error})") from error
    if "plancc" not in metadata:
        raise CheckpointError(f"{path}: is not a checkpoint of plancc")
    digest = _digest(metadata["plancc"], tensors)
    if digest != metadata.get("sha256"):
        raise CheckpointError(f"{path}: is damaged: its checksum does not match its content")
    return json.loads(metadata["plancc"]), tensors, digest


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the JSON and of names, types, shapes and bytes of the tensors."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _matching(
    path: Path, tensors: dict[str, Tensor], prefix: str, wanted: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The tensors of a network; InputError if one is missing or of another shape or type."""
    for name, value in wanted.items():
        found = tensors.get(prefix + name)
        if found is None or found.shape != value.shape or found.dtype != value.dtype:
            what = "missing" if found is None else f"{found.dtype} of shape {tuple(found.shape)}"
            raise InputError(
                f"{path}: belongs to another model: {name} is {what}, where this one has "
                f"{value.dtype} of shape {tuple(value.shape)}"
            )
    return {name: tensors[prefix + name] for name in wanted}
