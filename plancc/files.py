"""Open and hash files, read TOML, and write files so that a file is complete or does not exist.

Every reader uses `open_file`, or `check_input` if a library opens the file by its name. Every
writer uses `atomic_write`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import threading
import tomllib
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import Any

from plancc.errors import InputError, OutputError, output_error
from plancc.processes import note_written, unfinished
from plancc.text import printable

StrPath = str | os.PathLike[str]
"""Path of a file or of a folder."""
PARSING = threading.RLock()
"""Lock that a thread holds while Python parses a header of .npy, or a model's file. The parser of
CPython 3.11 counts its depth for all threads together; if two threads parse, SystemError is raised.
"""

MOST_TOML = 1 << 20
"""Size of the largest TOML file that is read, in bytes."""
_DEEP_KEY = re.compile(rb"""(?<![\w"' \t-])(?:[\w"' \t-]++\.){50}""")
"""Pattern of keys with more parts than any settings file has; tomllib is slow on such keys."""
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_input(path: StrPath) -> None:
    """Raise InputError unless a path is a regular file, or a link to a regular file.

    The file is not opened: opening a named pipe would block, and a device may have no end.
    """
    name = os.fspath(path)
    with _input_errors(name):
        _check_mode(name, os.stat(name).st_mode)


def open_file(path: StrPath) -> BufferedReader:
    """Open a regular file for reading bytes; raise InputError if this is not possible."""
    name = os.fspath(path)
    check_input(name)
    with _input_errors(name):
        # if the file has become a pipe meanwhile, this does not block
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _check_mode(name, os.fstat(handle).st_mode)
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise


@contextlib.contextmanager
def _input_errors(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL, or a character that the system's encoding lacks
        raise InputError(f"'{name}': is not a file name: {error}") from error


def _check_mode(name: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise InputError(f"{name}: is a folder, not a file")
    kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "something else")
    raise InputError(f"{name}: is not a regular file but {kind}")


def sha256_of(path: StrPath) -> str:
    """Return the SHA-256 of a file's bytes as 64 hexadecimal digits; reads 4 MiB at a time."""
    digest = hashlib.sha256()
    buffer = bytearray(1 << 22)
    view = memoryview(buffer)
    with open_file(path) as stream:
        while size := stream.readinto(buffer):
            digest.update(view[:size])
    return digest.hexdigest()


def read_toml(path: StrPath) -> dict[str, Any]:
    """Return the values of a TOML file; raise InputError if it is not TOML or exceeds 1 MiB."""
    name = os.fspath(path)
    with open_file(path) as stream, _input_errors(name):
        content = stream.read(MOST_TOML + 1)
    if len(content) > MOST_TOML:
        raise InputError(f"{name}: is larger than {MOST_TOML >> 20} MiB, too large for settings")
    if _DEEP_KEY.search(content):
        raise InputError(f"{name}: a key has more than 50 levels, too many for settings")
    try:
        values = tomllib.loads(_text_of(content))
        repr(values)  # fails for hexadecimal integers with more digits than Python can print
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: is not TOML: {error}") from error
    return values


def _text_of(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("the file is not text") from None


def check_target(path: StrPath) -> None:
    """Raise OutputError if a path cannot be written; call this before computing the content."""
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
    try:
        os.lstat(temporary_name(target))
    except FileNotFoundError:
        return
    except OSError as error:  # the name is too long
        raise output_error(path, error) from error


def _sync(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@cache
def _home() -> str:
    """Return a hash of this machine, 6 hexadecimal digits; containers count as other machines."""
    name = platform.node()
    with contextlib.suppress(OSError):
        name += f" {os.stat('/proc/self/ns/pid').st_ino}"
    return f"{zlib.crc32(name.encode()) & 0xFFFFFF:06x}"


def temporary_name(target: str, is_folder: bool = False) -> str:
    """Return a new name beside `target`: hash of the machine, process id, random digits."""
    parent, name = os.path.split(target)
    stem, suffix = (name, "") if is_folder else os.path.splitext(name)
    token = f"{_home()}{os.getpid():06x}{secrets.token_hex(3)}"
    return os.path.join(parent, f".{stem}.{token}.tmp{suffix}")


def _lives(process: int) -> bool:
    """Return whether a process exists on this machine; True if this cannot be known."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to another user
        return True
    return True


def remove_leftovers(path: StrPath, *, is_folder: bool = False, alone: bool = False) -> None:
    """Remove temporary files (or folders) of processes that were killed while they wrote `path`.

    Errors are ignored. Files that processes of other machines wrote are removed only if `alone`
    promises that no other process writes `path`.
    """
    folder, name = os.path.split(os.path.realpath(path))
    stem, suffix = (name, "") if is_folder else os.path.splitext(name)
    token = "([0-9a-f]{6})([0-9a-f]{6})[0-9a-f]{6}"  # machine, process, random
    form = re.compile(rf"\.{re.escape(stem)}\.{token}\.tmp{re.escape(suffix)}")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = form.fullmatch(entry.name)
            if match is None:
                continue
            is_gone = not _lives(int(match[2], 16)) if match[1] == _home() else alone
            if not is_gone:
                continue
            if is_folder and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif not is_folder and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
"""Error numbers of a lock that is tried on a file system without locks."""


class FolderLock:
    """A locked file ``.lock`` in a folder, which keeps a second process from writing there.

    The lock ends with the process. If another process holds the lock, BlockingIOError names that
    process. If the file system has no locks, the file names the process and machine that use the
    folder.

    Attributes:
        holds: Whether the lock is held; False if the file system has no locks.
        before: If the file system has no locks, the process on another machine that the file named
            before; otherwise "".
    """

    def __init__(self, folder: StrPath) -> None:
        self._path, self._handle = os.path.join(folder, ".lock"), -1
        self.holds, self.before = False, ""
        for _ in range(100):
            if self._tried():
                break

    def _tried(self) -> bool:
        """Try to lock the file; return False if another process has removed the opened file."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            handle = os.open(self._path, flags, 0o666)
        except OSError as error:
            raise self._unfit(error.strerror) from error
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise self._unfit("it is not a regular file")
        try:
            # not lockf: its lock ends when the process closes the same file, opened elsewhere
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.stat(self._path, follow_symlinks=False)
            if not os.path.samestat(os.fstat(handle), there):
                raise FileNotFoundError
            self.holds = True
        except OSError as error:
            holder = printable(os.pread(handle, 100, 0).decode(errors="replace").strip())
            taken = error.errno in NO_LOCKS and self._may_be_there(holder)
            if error.errno not in NO_LOCKS or taken:
                os.close(handle)
            if taken:
                holder += f"; this file system has no locks; if that is no run, remove {self._path}"
            if taken or error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(errno.EAGAIN, holder) from None
            if isinstance(error, FileNotFoundError):
                return False
            if error.errno not in NO_LOCKS:
                raise self._unfit(error.strerror) from error
        self._handle = handle
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
        return True

    def _may_be_there(self, holder: str) -> bool:
        """Return whether `holder`, the file's text, names another live process of this machine."""
        found = re.fullmatch(r"process (\d{1,9}) on (.*)", holder)
        if found is None or int(found[1]) == os.getpid():
            return False
        if found[2] != platform.node():
            self.before = holder
            return False
        return _lives(int(found[1]))

    def _unfit(self, why: str | None) -> OutputError:
        return OutputError(f"cannot lock {self._path}: {why}")

    def release(self) -> None:
        """Release the folder for others; a second call does nothing."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(handle)

    def __del__(self) -> None:
        """Release the folder of a run that failed, even if its process continues."""
        self.release()


@contextlib.contextmanager
def atomic_write(path: StrPath, former: Sequence[StrPath] = ()) -> Iterator[Path]:
    """Write a file under a temporary name in the same folder; rename it when it is complete.

    The context gets an empty file with the same last suffix, which is removed if the context
    raises. A symbolic link stays, and its target is replaced.

    `former` are the paths of earlier versions, the newest first. A replaced file moves to the first
    of these paths, the file there to the second, and so on. If the file system has hard links, a
    file exists at `path` at every moment.
    """
    shown = os.fspath(path)
    target = os.path.realpath(shown)
    check_target(shown)
    with _temporary(shown, target, is_folder=False) as temporary:
        # created by os.open, so that the user's umask decides the mode
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield Path(temporary)
        _sync(temporary, os.O_RDWR)
        for newer, older in reversed([*pairwise(former)]):
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        if former:
            _keep(target, former[0])
        os.replace(temporary, target)


@contextlib.contextmanager
def _temporary(shown: str, target: str, is_folder: bool) -> Iterator[str]:
    """Yield a temporary name in the folder of `target`, under which a file or folder is made.

    The context makes it, and renames it to `target`. If the context raises an exception, the file
    or folder is removed. Errors of the disk or of permissions become an OutputError that names
    `shown`.
    """
    remove_leftovers(target, is_folder=is_folder)
    temporary = temporary_name(target, is_folder)
    with unfinished(temporary):
        try:
            yield temporary
            note_written(shown)
        except BaseException as error:
            if is_folder:
                shutil.rmtree(temporary, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            if isinstance(error, OSError) or "No space left on device" in str(error):
                raise output_error(shown, error) from error
            raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        _sync(os.path.dirname(target), os.O_RDONLY)


def _keep(path: str, name: StrPath) -> None:
    """Give a file, if it exists, the second name `name`; replace any file that has this name."""
    extra = temporary_name(path)
    with unfinished(extra):
        try:
            os.link(path, extra)
            os.replace(extra, name)
        except FileNotFoundError:
            pass
        except OSError:  # the file system has no hard links
            os.replace(path, name)
        finally:
            with contextlib.suppress(OSError):  # raised if the file had both names already
                os.unlink(extra)


@contextlib.contextmanager
def atomic_folder(path: StrPath) -> Iterator[Path]:
    """Write a new or empty folder under a temporary name, and rename it when it is complete.

    The context gets an empty folder beside `path`, which is removed if the context raises.
    """
    shown = os.fspath(path)
    target = check_folder_target(shown)
    with _temporary(shown, target, is_folder=True) as temporary:
        os.mkdir(temporary)
        yield Path(temporary)
        for folder, _, names in os.walk(temporary):
            for each in names:
                _sync(os.path.join(folder, each), os.O_RDWR)
        os.replace(temporary, target)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty temporary folder that only this user may read; remove it at the end."""
    folder = os.path.join(tempfile.gettempdir(), f"plancc-{secrets.token_hex(8)}")
    with unfinished(folder):
        try:
            os.mkdir(folder, 0o700)
            yield Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def check_folder_target(path: StrPath) -> str:
    """Return the absolute path of a folder, new or empty; raise OutputError for others."""
    shown = os.fspath(path)
    target = os.path.realpath(shown)
    parent = os.path.dirname(target)
    if os.path.isdir(target):
        if os.listdir(target):
            raise OutputError(
                f"cannot write {shown}: the folder is not empty; name a new folder, or remove it"
            )
    elif os.path.exists(target):
        raise OutputError(f"cannot write folder {shown}: a file has this name; choose another name")
    if not os.path.isdir(parent):
        raise OutputError(f"cannot write {shown}: the folder {parent} does not exist")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {shown}: no permission to write into the folder {parent}")
    return target
