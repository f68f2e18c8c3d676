"""The errors that reach a user. Each says whose fault it is; the CLI prints one sentence and exits.

Nothing else may become a traceback: code that calls a library translates what it raises into
one of these, in the user's words (file, line, value). Messages are fit for a terminal, whatever the
values that they name (`plancc.text.message`).
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
    errno.ENOENT: "its folder takes no new files, or is gone",
}


class PlanccError(Exception):
    """Base of every error that plancc raises on purpose.

    Attributes:
        exit_code (int): What the command line exits with (1 failed, 2 wrong usage or input, 75
            stopped on request).
    """

    exit_code = 1

    def __init__(self, sentence: object = "", *more: object) -> None:
        super().__init__(message(sentence), *more)


class InputError(PlanccError):
    """The user's file or option is wrong; the message names file, line and value."""

    exit_code = 2


class Stopped(PlanccError):
    """A run that was asked to stop has saved a checkpoint, from which it can go on.

    Its exit code is EX_TEMPFAIL of ``sysexits.h``: start it again.
    """

    exit_code = 75


class PlanError(PlanccError):
    """A plan is damaged, of another version, or violates an invariant of the format."""


class OutputError(PlanccError):
    """A result cannot be written (missing folder, no permission, full disk)."""


class BackendUnavailable(PlanccError):
    """An optional library is not installed; the message says what to install."""


class BackendError(PlanccError):
    """A partitioner or another native library failed; the message carries its words."""


class PlanccWarning(UserWarning):
    """Something that a user should know of a plan that was compiled, or of a run that trained."""

    def __init__(self, sentence: object = "", *more: object) -> None:
        super().__init__(message(sentence), *more)


def warn(sentence: str) -> None:
    """Say what a user should know; the warning names the line that called the caller."""
    warnings.warn(sentence, PlanccWarning, stacklevel=3)


def why_not_written(error: BaseException) -> str:
    """The reason in plain words: of an OSError, or of HDF5 and NumPy, which give text alone."""
    number = getattr(error, "errno", None)
    words = str(error)
    full = "No space left on device" in words or re.search(r"\d+ requested and \d+ written", words)
    if number is None and full:  # the words of HDF5 and of numpy's tofile
        number = errno.ENOSPC
    reason = _REASONS.get(number) if number is not None else None
    if reason is None:
        reason = getattr(error, "strerror", None) or words or type(error).__name__
    return str(reason)


def output_error(path: str, error: BaseException) -> OutputError:
    return OutputError(f"cannot write {path}: {why_not_written(error)}")
