"""The errors that reach a user.

A message is one sentence that says what is at fault, safe to print on a terminal
(`plancc.text.message`). No other exception may reach the user: code that calls a library turns the
library's exceptions into these errors.
"""

from __future__ import annotations

import errno
import re
import warnings

from plancc.text import message

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this system allows",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
    errno.ENAMETOOLONG: "the file name is too long",
    errno.ENOENT: "its folder does not allow new files, or was removed",
}


class PlanccError(Exception):
    """Base of every error that plancc raises on purpose.

    Attributes:
        exit_code (int): Exit code of the command line (1: failed, 2: wrong usage or input, 75:
            stopped on request).
    """

    exit_code = 1

    def __init__(self, sentence: object = "", *more: object) -> None:
        super().__init__(message(sentence), *more)


class InputError(PlanccError):
    """The user's file or option is wrong; the message names file, line and value."""

    exit_code = 2


class Stopped(PlanccError):
    """A run was asked to stop, and has saved a checkpoint from which it can resume.

    The exit code is EX_TEMPFAIL of ``sysexits.h``; it tells a scheduler to start the run again.
    """

    exit_code = 75


class PlanError(PlanccError):
    """A plan is damaged, has another version of the format, or violates one of its invariants."""


class OutputError(PlanccError):
    """A result cannot be written (missing folder, no permission, full disk)."""


class BackendUnavailable(PlanccError):
    """An optional library is not installed; the message says what to install."""


class BackendError(PlanccError):
    """A partitioner or another native library failed; the message quotes the library."""


class PlanccWarning(UserWarning):
    """A fact that a user should know about an input, a plan or a run; the work goes on."""

    def __init__(self, sentence: object = "", *more: object) -> None:
        super().__init__(message(sentence), *more)


def warn(sentence: str) -> None:
    """Warn the user with this sentence.

    Let f be the function that calls `warn`. The warning names the line that called f.
    """
    warnings.warn(sentence, PlanccWarning, stacklevel=3)


def why_not_written(error: BaseException) -> str:
    """Return in plain words why a file could not be written.

    Errors of HDF5 and NumPy have only a string; an OSError also has an error number.
    """
    number = getattr(error, "errno", None)
    words = str(error)
    full = "No space left on device" in words or re.search(r"\d+ requested and \d+ written", words)
    if number is None and full:  # the texts of HDF5 and of numpy's tofile
        number = errno.ENOSPC
    reason = _REASONS.get(number) if number is not None else None
    if reason is None:
        reason = getattr(error, "strerror", None) or words or type(error).__name__
    return str(reason)


def output_error(path: str, error: BaseException) -> OutputError:
    return OutputError(f"cannot write {path}: {why_not_written(error)}")
