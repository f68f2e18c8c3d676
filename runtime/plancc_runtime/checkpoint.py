"""Checkpoints: files from which training resumes with the same results to the bit.

A checkpoint is a safetensors file, complete or absent; JSON in its metadata has all other data.

    DIR/last.safetensors    weights and buffers under their names in the network, the optimiser's
                            state as "optimizer/<parameter>/<name>", the best weights as "best/..."
    DIR/last-1.safetensors  the checkpoint before the last, from which training resumes if the last
                            is damaged; `TrainOptions.keep_last` checkpoints are kept
    DIR/*.damaged           a damaged checkpoint from which training did not resume
    DIR/best.safetensors    weights and buffers that had the best validation loss
    DIR/.lock               exists while a run writes into the folder

A checkpoint may come from an untrusted source, so every value is checked, and reading takes no more
memory than file and network. No random state is stored: every random number is a function of seed,
epoch or step, and vertex.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import reprlib
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plancc.errors import BackendUnavailable, InputError, OutputError, why_not_written
from plancc.fields import checked, type_in_words
from plancc.files import FolderLock, StrPath, atomic_write, remove_leftovers
from plancc.text import shown
from plancc_runtime.learner import Learner
from plancc_runtime.optim import Validation
from plancc_runtime.options import FULL, OF_A_RANK, OPTION_NAMES, PATHS, TrainOptions
from plancc_runtime.transport.base import Transport, is_lack_of_memory
from plancc_runtime.transport.messages import name_ranks

FORMAT = 1
LAST, BEST = "last.safetensors", "best.safetensors"
MOST_TEXT = 1 << 20
"""Largest number of characters of the JSON in a checkpoint."""
MOST_COUNT = 1 << 53
"""Largest number of epochs, evaluations or updates."""
FREE = {each.name for each in fields(TrainOptions) if each.metadata.get("free")}
OWN = {*OF_A_RANK, *PATHS, "resume", "embeddings"}
"""Options that a resumed run does not take from its checkpoint."""
EPOCH_SCHEDULES = ("step", "cosine")  # schedules that depend on the number of epochs
BEST_FACTS = ("loss", "epoch", "since", "drops")  # fields of `Validation` that a checkpoint keeps


class _Damaged(Exception):
    """Raised if a file was cut off or changed after it was written; the message says how."""


class _Unfit(Exception):
    """Raised if an undamaged file is not a checkpoint that this version can read.

    The message says why.
    """


@dataclass(frozen=True)
class _Facts:
    """The values in a checkpoint's JSON, after every value was checked.

    Attributes:
        plan: Content hash of the plan.
        epoch: Number of trained epochs.
        options: All options of the run that wrote the checkpoint, by name.
        best: The best validation loss so far, without the weights that reached it.
    """

    plan: str
    epoch: int
    options: dict[str, Any]
    best: Validation


def resumed_options(folder: StrPath, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run that resumes: from `given`, else from its checkpoint.

    Options in `OWN` are never taken from the checkpoint. Not collective. If all checkpoints are
    damaged, return `given`; `Checkpoints` then raises the error.
    """
    _need_safetensors()
    for number in _numbers(Path(folder)):
        try:
            there = _read_file(Path(folder) / _name(number))[0].options
        except (_Damaged, _Unfit, OSError):
            continue
        taken = {name: there[name] for name in OPTION_NAMES if name not in OWN}
        return {k: tuple(v) if isinstance(v, list) else v for k, v in taken.items()} | dict(given)
    return dict(given)


class Checkpoints:
    """The checkpoints of one run. Every method is collective.

    Parameters:
        options: Options of the run; the folder ``options.checkpoint`` is made if missing.
        content: Content hash of the plan.

    Attributes:
        remarks (list of str): Remarks for the user, on missing locks or damage.
        source (str): The file that `load` read; "" before `load`.

    Raises:
        InputError: If the folder has a checkpoint and the run does not resume, or the reverse, or
            if another run writes into the folder.
    """

    def __init__(self, options: TrainOptions, content: str, transport: Transport) -> None:
        assert options.checkpoint is not None
        self._folder = Path(options.checkpoint)
        self._options, self._content, self._transport = options, content, transport
        self.remarks: list[str] = []
        self.source = ""
        self._best_epoch: int | None = None  # epoch of BEST, once this run has written it
        self._saved: int | None = None  # epoch of the last checkpoint
        self._damaged: list[str] = []  # names of damaged checkpoints
        self._lock: FolderLock | None = None
        with transport.agreement():
            _need_safetensors()
            there = self._names()
            if options.resume and not there:
                raise InputError(f"`resume`: there is no checkpoint {self._folder / LAST}")
            if not options.resume and there:
                raise InputError(
                    f"`checkpoint` {self._folder}: holds a checkpoint of an earlier run; set "
                    "`resume` to continue from it, or choose another folder"
                )
        with transport.agreement():
            if transport.rank == 0:
                self._take_folder()

    def _names(self) -> list[str]:
        """Return the names of all checkpoints in the folder, newest first, even damaged ones."""
        return [_name(number) for number in _numbers(self._folder)]

    def _take_folder(self) -> None:
        """Make the folder and lock it; remove temporary files of killed runs."""
        with _attempted(f"make {self._folder}"):
            try:
                os.makedirs(self._folder, exist_ok=True)
                self._lock = FolderLock(self._folder)
            except FileExistsError as error:
                why = f"`checkpoint` {self._folder}: is not a folder"
                raise OutputError(why) from error
            except BlockingIOError as error:
                raise InputError(
                    f"`checkpoint` {self._folder}: another run writes into it ({error.strerror}); "
                    "wait until that run has ended, or choose another folder"
                ) from error
        if not self._lock.holds:
            before = self._lock.before
            self.remarks.append(
                f"`checkpoint` {self._folder}: its file system has no locks, so that a second run "
                "on another machine is not refused"
                + f"; see that {before}, which {self._folder / '.lock'} names, has ended"
                * bool(before)
            )
        for name in (LAST, BEST):
            remove_leftovers(self._folder / name, alone=self._lock.holds)

    def close(self) -> None:
        """Release the folder for other runs; not collective."""
        if self._lock is not None:
            self._lock.release()

    def save(self, learner: Learner, epoch: int, best: Validation) -> None:
        """Write the checkpoint after `epoch` epochs; do nothing if this checkpoint exists already.

        After an OutputError, which all ranks raise, the previous checkpoint still exists.
        """
        if epoch == self._saved:
            return
        with self._transport.agreement():
            if self._transport.rank == 0:
                self._write(learner, epoch, best)
        self._saved = epoch

    def _write(self, learner: Learner, epoch: int, best: Validation) -> None:
        facts = {
            "format": FORMAT,
            "plan": self._content,
            "epoch": epoch,
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
        former = [self._folder / _name(k) for k in range(1, self._options.keep_last)]
        for name in self._damaged:  # whole checkpoints stay until the new checkpoint exists
            path = self._folder / name
            with _attempted(f"rename {path}"), suppress(FileNotFoundError):  # a missing LAST
                os.replace(path, f"{path}.damaged")
        self._damaged = []
        _write_file(self._folder / LAST, {**weights, **state, **kept}, facts, former)
        for number in _numbers(self._folder):
            if number > len(former):
                path = self._folder / _name(number)
                with _attempted(f"remove {path}"):
                    path.unlink(missing_ok=True)

    def begin(self, learner: Learner) -> tuple[int, Validation]:
        """Return the result of `load` if the run resumes, else (0, an empty `Validation`).

        If `load` fails, this object is closed, which releases the folder.
        """
        try:
            return self.load(learner) if self._options.resume else (0, Validation())
        except BaseException:
            self.close()
            raise

    def load(self, learner: Learner) -> tuple[int, Validation]:
        """Set network and optimiser to the newest undamaged checkpoint.

        Return the next epoch to train, and the best validation loss so far with the weights that
        reached it. All ranks raise InputError if all files are damaged, or if the newest undamaged
        file does not fit plan and options.
        """
        path, facts, tensors, digest = self._newest()
        with self._transport.agreement():
            network, optimizer = learner.network, learner.optimizer
            weights = _matching(path, tensors, "", network.state_dict())
            if facts.epoch > self._options.epochs:
                raise InputError(
                    f"`epochs` {self._options.epochs}: {path} was saved after {facts.epoch} epochs"
                )
            best = facts.best
            if best.loss is not None:
                best.weights = _matching(path, tensors, "best/", network.state_dict())
            names = [name for name, _ in network.named_parameters()]
            state = [
                _matching(path, tensors, f"optimizer/{name}/", values)
                for name, values in zip(names, optimizer.state, strict=True)
            ]
        if not self._transport.all_equal(digest.encode()):
            self._transport.agree(InputError(f"{path}: is not the same file on all ranks"))
        network.load_state_dict(weights)
        for here, there in zip(optimizer.state, state, strict=True):
            for key, value in here.items():
                value.copy_(there[key])
        learner.is_trained = facts.epoch > 0
        self._saved = None if self._damaged else facts.epoch
        self.source = str(path)
        return facts.epoch, best

    def _newest(self) -> tuple[Path, _Facts, dict[str, Tensor], str]:
        """Find the newest checkpoint that is undamaged on all ranks. Collective.

        Return path, JSON values, tensors and digest; add names of damaged files to `_damaged`.
        """
        transport, reasons, found = self._transport, [], None
        for name in transport.gather(self._names())[0]:
            path, why = self._folder / name, ""
            with transport.agreement():  # a rank may run out of memory
                try:
                    found = _read_file(path)
                    self._check(path, found[0])
                except _Damaged as error:
                    why = str(error)
                except _Unfit as error:
                    raise InputError(f"{path}: {error}") from error
                except OSError as error:
                    raise InputError(f"{path}: cannot be read: {error.strerror}") from error
            every = transport.gather(why)
            bad = [rank for rank, each in enumerate(every) if each]
            if not bad:
                break
            where = "" if len(bad) == transport.size else f" ({name_ranks(bad)})"
            reasons.append(f"{path}: {every[bad[0]]}{where}")
            self._damaged.append(name)
            found = None
        if found is None:
            reason = "; ".join(reasons) or f"there is no checkpoint {self._folder / LAST}"
            transport.agree(InputError(f"`resume`: all checkpoints are damaged: {reason}"))
        assert found is not None
        if path.name != LAST and not reasons:
            reasons = [f"{self._folder / LAST}: is missing"]
        if reasons:
            after = f"training resumes from {path}, after {found[0].epoch} epochs"
            self.remarks.append(f"{'; '.join(reasons)}; {after}")
        return path, *found

    def _check(self, path: Path, facts: _Facts) -> None:
        if facts.plan != self._content:
            raise InputError(
                f"{path}: belongs to another plan (content hash "
                f"{shown(facts.plan, 12) or 'none'}; the plan of this run has "
                f"{self._content[:12] or 'none'}); give the plan of the checkpoint"
            )
        here, there = _plain(self._options), facts.options
        fixed = [name for name in OPTION_NAMES if name not in FREE]
        if self._options.schedule in EPOCH_SCHEDULES:
            fixed.append("epochs")
        if self._options.schedule == "plateau":  # counts evaluations
            fixed.append("eval_every")
        for name in fixed:
            before = there[name]
            if here[name] != before:
                was = f"with {name.replace('_', '-')} {_value_text(before)}"
                now = f"with {_value_text(here[name])}: leave `{name}` out"
                if isinstance(before, bool) and isinstance(here[name], bool):  # a flag
                    ways = ("with", "without")
                    was, now = f"{ways[not before]} `{name}`", f"{ways[before]} it"
                raise InputError(f"{path}: was made {was}; cannot resume {now}")


def _value_text(value: Any) -> str:
    """Return the value of an option as it is written on a command line."""
    if value in (None, []):
        return "none"
    return shown(",".join(map(str, value)) if isinstance(value, list) else value, 60)


def _need_safetensors() -> None:
    try:
        import safetensors.torch  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable(
            "checkpoints need safetensors; install it with: pip install 'plancc[run]'"
        ) from error


def _name(number: int) -> str:
    """Return the file name of a checkpoint: number 0 is the last, 1 the one before, and so on."""
    return f"last-{number}.safetensors" if number else LAST


def _numbers(folder: Path) -> list[int]:
    """Return k for every checkpoint ``last-k`` in a folder, ascending; 0 stands for ``last``."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    matches = [re.fullmatch(r"last-([1-9][0-9]{0,5})\.safetensors", name) for name in names]
    return [0] * (LAST in names) + sorted(int(match[1]) for match in matches if match)


@contextmanager
def _attempted(what: str) -> Iterator[None]:
    """Context manager that turns an OSError into an OutputError: "cannot `what`: ..."."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot {what}: {why_not_written(error)}") from error


def _plain(options: TrainOptions) -> dict[str, Any]:
    """Return the options by name, with values as JSON keeps them: a path as str, a tuple as list.

    For full-batch training, `batch_size` becomes None, even if the user gave `FULL`.
    """
    plain: dict[str, Any] = json.loads(json.dumps(asdict(options), default=os.fspath))
    if plain["batch_size"] == FULL:  # trains like None
        plain["batch_size"] = None
    return plain


def _write_file(
    path: Path, tensors: dict[str, Tensor], facts: dict[str, Any], former: Sequence[Path] = ()
) -> None:
    from safetensors.torch import save

    text = json.dumps(facts)
    tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    raw = save(tensors, {"plancc": text, "sha256": _digest(text, tensors)})
    with atomic_write(path, former) as temporary:
        temporary.write_bytes(raw)


def _read_file(path: Path) -> tuple[_Facts, dict[str, Tensor], str]:
    """Return the facts and tensors that `_write_file` wrote, and the digest of both (`_digest`).

    Raise `_Damaged` for a missing, cut or changed file, `_Unfit` if this version cannot read it.
    """
    from safetensors import SafetensorError, safe_open

    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise _Unfit("is not a regular file")
        if not found.st_size:
            raise _Damaged("is damaged: it is empty")
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            if "plancc" not in metadata:
                raise _Unfit("is not a checkpoint of plancc")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise _Damaged("is missing") from None
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if is_lack_of_memory(error) or getattr(error, "errno", None) is not None:
            raise
        raise _Damaged(f"is damaged: cannot be read ({shown(error)})") from error
    text = metadata["plancc"]
    digest = _digest(text, tensors)
    if digest != metadata.get("sha256"):
        raise _Damaged("is damaged: its checksum does not match its content")
    for name, value in tensors.items():
        counts = name.startswith("optimizer/") and value.dtype == torch.int64
        if counts and ((value < 0) | (value >= MOST_COUNT)).any():
            raise _Unfit(f"is damaged: {shown(name, 40)} does not count updates")
    return _facts_of(text), tensors, digest


def _facts_of(text: str) -> _Facts:
    """Return the values in a checkpoint's JSON; raise `_Unfit` if a value is wrong."""
    if len(text) > MOST_TEXT:
        raise _Unfit(f"is not a checkpoint of plancc: its JSON has {len(text):,} characters")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _Unfit("is not a checkpoint of plancc: its metadata is not JSON") from None
    if not isinstance(found, dict):
        raise _Unfit("is not a checkpoint of plancc: its metadata is not a JSON object")
    if found.get("format") != FORMAT or isinstance(found["format"], bool):
        version = shown(reprlib.repr(found.get("format")), 40)
        raise _Unfit(f"has format {version}; this version of plancc reads {FORMAT}")

    def taken(values: dict[str, Any], name: str, fits: Callable[[Any], bool], kind: str) -> Any:
        if name not in values or not fits(values[name]):
            there = reprlib.repr(values[name]) if name in values else "missing"
            raise _Unfit(f"is damaged: '{name}' is {shown(there, 40)}, and must be {kind}")
        return values[name]

    epoch = taken(found, "epoch", _is_count, "a number of epochs")
    options = taken(found, "options", _is_object, "an object")
    for each in fields(TrainOptions):
        value = options.get(each.name, ...)
        try:
            if value is not None or "None" not in type_in_words(each):
                checked(each, value)
        except InputError:
            there = shown(reprlib.repr(options.get(each.name, "missing")), 40)
            raise _Unfit(
                f"is of another version, or damaged: its option '{each.name}' is {there}"
            ) from None
    best = taken(found, "best", _is_object, "an object")
    loss = taken(best, "loss", lambda x: x is None or _is_finite(x), "null or a finite number")
    counts = {name: taken(best, name, _is_count, "a number") for name in BEST_FACTS[1:]}
    if counts["epoch"] > epoch:
        raise _Unfit(f"is damaged: it has epoch {epoch}, but the best is {counts['epoch']}")
    return _Facts(
        plan=taken(found, "plan", lambda x: isinstance(x, str), "text"),
        epoch=epoch,
        options=options,
        best=Validation(loss=None if loss is None else float(loss), **counts),
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_COUNT


def _is_finite(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < MOST_COUNT
    return isinstance(value, float) and math.isfinite(value)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _digest(text: str, tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of a checkpoint: JSON, and tensors' names, dtypes, shapes and bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _matching(
    path: Path, tensors: dict[str, Tensor], prefix: str, wanted: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return the tensors named `prefix` + a name in `wanted`, by that name; InputError if unfit."""
    for name, value in wanted.items():
        found = tensors.get(prefix + name)
        if found is None or found.shape != value.shape or found.dtype != value.dtype:
            what = "missing" if found is None else f"{found.dtype} of shape {tuple(found.shape)}"
            raise InputError(
                f"{path}: belongs to another model: {name} is {what}, but this model needs "
                f"{value.dtype} of shape {tuple(value.shape)}"
            )
    return {name: tensors[prefix + name] for name in wanted}
