"""Files: hashing, reading TOML, and writing that leaves either the whole file or nothing.

Knows no format. Every writer of the project goes through `atomic_write`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plancc.errors import InputError, OutputError

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this system allows",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENAMETOOLONG: "the file name is too long",
    errno.ENOENT: "its folder takes no new files, or is gone",
}


def sha256_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes, as 64 hexadecimal digits; reads 4 MiB at a time."""
    digest = hashlib.sha256()
    buffer = bytearray(1 << 22)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as stream:
        while size := stream.readinto(buffer):
            digest.update(view[:size])
    return digest.hexdigest()


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The values of a TOML file; InputError if it cannot be read, or is not TOML."""
    name = os.fspath(path)
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except OSError as error:
        raise InputError(f"{name}: not readable ({error.strerror})") from error
    try:
        values = tomllib.loads(content.decode())
        repr(values)  # integers in hexadecimal may have more digits than Python prints
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not TOML: {error}") from error
    return values


def _output_error(path: str, error: BaseException) -> OutputError:
    number = getattr(error, "errno", None)
    words = str(error)
    if number is None and "No space left on device" in words:
        number = errno.ENOSPC
    reason = _REASONS.get(number) if number is not None else None
    if reason is None:
        reason = getattr(error, "strerror", None) or words or type(error).__name__
    return OutputError(f"cannot write {path}: {reason}")


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a path that cannot be written, before the work whose result it is to hold.

    Raises
    ------
    OutputError
        If the folder is missing or not writable, or `path` is not a regular file.
    """
    path, target = os.fspath(path), os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.exists(folder):
        raise OutputError(f"cannot write {path}: the folder {folder} does not exist")
    if not os.path.isdir(folder):
        raise OutputError(f"cannot write {path}: {folder} is not a folder")
    if os.path.isdir(target):
        raise OutputError(f"cannot write {path}: it is a folder")
    if os.path.exists(target) and not os.path.isfile(target):
        raise OutputError(f"cannot write {path}: it is not a regular file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {path}: no permission to write into the folder {folder}")


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a file under a temporary name in the same folder; rename it when it is complete.

        with atomic_write("plan.h5") as temporary:
            ...                          # write to `temporary`, close it
        # plan.h5 is there, whole and on the disk; had anything been raised, nothing would be

    Parameters
    ----------
    path : str or PathLike
        The file to write. An existing file is replaced only when the new one is complete; a
        symbolic link keeps pointing where it does.

    Yields
    ------
    pathlib.Path
        An empty file beside `path`, with the same last suffix.

    Raises
    ------
    OutputError
        If the folder is missing or not writable (checked before the body runs), or if writing
        fails (disk full, quota, permission): one sentence that names `path`. Whatever the body
        raises, KeyboardInterrupt included, the temporary file is removed.
    """
    shown = os.fspath(path)
    target = os.path.realpath(shown)
    check_target(shown)
    folder, name = os.path.split(target)
    stem, suffix = os.path.splitext(name)
    # created by os.open, so that the user's umask decides the mode
    temporary = os.path.join(folder, f".{stem}.{secrets.token_hex(6)}.tmp{suffix}")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield Path(temporary)
        _sync(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) or "No space left on device" in str(error):
            raise _output_error(shown, error) from error
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        _sync(folder, os.O_RDONLY)


@contextlib.contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write a folder of files under a temporary name beside it; rename it when it is complete.

    Parameters
    ----------
    path : str or PathLike
        The folder to make. It must not exist yet, or be empty.

    Yields
    ------
    pathlib.Path
        An empty folder beside `path`.

    Raises
    ------
    OutputError
        As `atomic_write`, and if `path` is a file or a folder that is not empty. Whatever the body
        raises, the temporary folder is removed with all that is in it.
    """
    shown = os.fspath(path)
    target = check_folder_target(shown)
    parent, name = os.path.split(target)
    temporary = os.path.join(parent, f".{name}.{secrets.token_hex(6)}.tmp")
    try:
        os.mkdir(temporary)
        yield Path(temporary)
        for folder, _, names in os.walk(temporary):
            for each in names:
                _sync(os.path.join(folder, each), os.O_RDWR)
        os.replace(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) or "No space left on device" in str(error):
            raise _output_error(shown, error) from error
        raise
    with contextlib.suppress(OSError):
        _sync(parent, os.O_RDONLY)


def check_folder_target(path: str | os.PathLike[str]) -> str:
    """The absolute path of a folder that can be made; OutputError if it cannot, or has files."""
    shown = os.fspath(path)
    target = os.path.realpath(shown)
    parent = os.path.dirname(target)
    if os.path.isdir(target):
        if os.listdir(target):
            raise OutputError(
                f"cannot write {shown}: the folder is not empty; name a new one, or remove it"
            )
    elif os.path.exists(target):
        raise OutputError(f"cannot write {shown}: it is a file, and a folder is written")
    if not os.path.isdir(parent):
        raise OutputError(f"cannot write {shown}: the folder {parent} does not exist")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {shown}: no permission to write into the folder {parent}")
    return target
