"""What an attack is: cases made from random numbers, and how the program is made to meet them."""

import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

MOST_WORDS = 1000
"""Characters of an error, the paths in it left out."""


class Finding(Exception):
    """The program did what it promises not to do.

    Parameters:
        kind: One of `KINDS`.
        what: One line.
    """

    def __init__(self, kind: str, what: str) -> None:
        assert kind in KINDS, kind
        super().__init__(f"{kind}: {what}")
        self.kind, self.what = kind, what


KINDS = {
    "crash": "a process died by a signal that nobody sent",
    "hang": "a case took more CPU time or wall time than its limit",
    "memory": "memory above the limit was asked for",
    "traceback": "an exception of Python reached the user, or 'unexpected ... please report it'",
    "manners": "control characters, several lines, no file named, too long, a wrong exit code",
    "leftover": "a temporary file or a process was left, or an input was changed",
    "silent": "wrong data were accepted: a result, exit code 0, and no word",
}


@dataclass(frozen=True)
class Case:
    """One thing to try.

    Attributes:
        how: How it was made, in a few words; for people.
        files: Names and contents; the worker writes them into an empty folder.
        words: What else the attack needs: options, numbers as text.
    """

    how: str
    files: dict[str, bytes] = field(default_factory=dict)
    words: tuple[str, ...] = ()


class Attack:
    """A way to attack; derive from it, one subclass per thing that is attacked.

    Attributes:
        name (str): For the command line and the names of saved cases.
        cpu, wall (float): Seconds of CPU time and of wall time of one case: above is a hang.
            Machines may be busy.
        memory (int): Bytes of address space that a case may take beyond what the process has; 0: no
            limit.
        quick, few (int): New cases of `make test-all` and of `make test`, besides the seeds.
    """

    name = ""
    cpu, wall = 10.0, 300.0
    memory = 1 << 30
    quick, few = 50, 3

    def prepare(self, folder: Path) -> None:
        """Make what all cases share, such as plans to be damaged, in a folder of its own."""

    def case(self, rng: np.random.Generator) -> Case:
        """A case; the same for the same numbers."""
        raise NotImplementedError

    def look(self, case: Case, folder: Path) -> str:
        """Let the program meet the case, whose files are in `folder`.

        Returns:
            How it ended, in a word; "ok" or "refused" for most. An error of plancc that is raised
            is "refused" too.

        Raises:
            Finding: If the program does what it must not. Any exception that is not plancc's is
                one.
        """
        raise NotImplementedError

    def numbers(self, seed: int, trial: int) -> np.random.Generator:
        """The random numbers of a trial."""
        return np.random.default_rng([zlib.crc32(self.name.encode()), seed, trial])


def check_words(sentence: str, folder: Path) -> None:
    """An error is one line that a terminal can show, and no longer than people read."""
    text = sentence.replace(str(folder), "")
    if not text.isprintable():
        raise Finding("manners", f"an error with control characters: {text[:200]!a}")
    if len(text) > MOST_WORDS:
        raise Finding("manners", f"an error of {len(text)} characters: {text[:100]}")
