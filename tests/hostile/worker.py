"""Tries cases under limits of the system, in a process of its own, and says how each one ends.

    python -m tests.hostile.worker FOLDER

Reads lines of JSON, ``{"attack": "lines", "seed": 1, "first": 0, "last": 100}`` or ``{"attack":
"lines", "seeds": true}``, and writes one when a case begins and when it ends. Whoever reads them
sees a crash or a hang by what is missing. Attacks are prepared when they are first asked for.
"""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from plancc import guarded_child
from plancc.errors import PlanccError

from .attack import Attack, Case, Finding
from .attacks import ATTACKS
from .manners import check_leftovers, check_words
from .seeds import seeds_of

LARGE = 1 << 24
"""Bytes of a file that is not kept."""
SPARE = 2.0
"""Seconds of CPU time beyond an attack's before the system ends the process."""


def main(folder: str) -> None:
    says = os.fdopen(os.dup(1), "w", buffering=1)  # what the program prints goes elsewhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    home, prepared = Path(folder), {}
    for each in ("case", "tmp"):
        (home / each).mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(home / "tmp")
    guarded_child.CPU_SECONDS = 2  # a whole file needs 0.4; those that never end use up all
    for line in sys.stdin:
        order = json.loads(line)
        name = order["attack"]
        if name not in prepared:
            prepared[name] = ready(ATTACKS[name], home / "base" / name)
        attack = prepared[name]
        for trial, make in cases(attack, order):
            print(json.dumps({"begin": trial}), file=says)
            outcome = tried(attack, make, home)
            if "what" in outcome:  # the next case may use the folder before anybody has looked
                keep(home / "case", home / "found" / str(trial))
            print(json.dumps({"end": trial} | outcome), file=says)
        print(json.dumps({"done": True}), file=says)


def ready(attack: type[Attack], folder: Path) -> Attack:
    """An attack that is prepared, without the limits of earlier cases."""
    for which in (resource.RLIMIT_CPU, resource.RLIMIT_AS):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (hard, hard))
    folder.mkdir(parents=True, exist_ok=True)
    made = attack()
    made.prepare(folder)
    return made


def cases(attack: Attack, order: dict[str, Any]) -> Iterator[tuple[int | str, Callable[[], Case]]]:
    """The trials that are ordered: a number or the name of a seed, and what makes the case."""
    if "seeds" in order:
        for seed in seeds_of(attack.name)[order.get("first", 0) :]:
            yield seed.name, seed.case
        return
    for trial in range(order["first"], order["last"]):
        yield trial, lambda trial=trial: attack.case(attack.numbers(order["seed"], trial))  # type: ignore


def tried(attack: Attack, make: Callable[[], Case], home: Path) -> dict[str, Any]:
    """How a case ends: ``outcome``, and ``what`` for a finding."""
    case = make()
    folder, temporary = home / "case", home / "tmp"
    for each in (folder, temporary):
        shutil.rmtree(each)
        each.mkdir()
    for name, content in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for name in case.fifos:
        os.mkfifo(folder / name)
    said = " ".join((case.how, *case.words))
    (home / "how").write_text(ascii(said))
    start = limited(attack)
    here = os.getcwd()
    os.chdir(folder)
    try:
        outcome = attack.look(case, folder)
        used = cpu_seconds() - start
        if used > attack.cpu:
            raise Finding("hang", f"{used:.0f} s of CPU time ({case.how})")
        check_leftovers(case, folder, temporary)
        return {"outcome": outcome}
    except Finding as found:
        return {"outcome": found.kind, "what": found.what, "how": case.how}
    except PlanccError as error:
        try:
            check_words(str(error), folder)
            check_leftovers(case, folder, temporary)
        except Finding as found:
            return {"outcome": found.kind, "what": found.what, "how": case.how}
        return {"outcome": "refused"}
    except MemoryError:
        return {"outcome": "memory", "what": f"MemoryError {place()}", "how": case.how}
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__} {place()}: {' '.join(str(error).split())[:200]}"
        return {"outcome": "traceback", "what": what, "how": case.how}
    finally:
        os.chdir(here)


def keep(folder: Path, to: Path) -> None:
    """Copy the regular files of a folder: a pipe would be waited for."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < LARGE:
            (to / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to / path.relative_to(folder))


def limited(attack: Attack) -> float:
    """Sets the limits of the next case; the CPU seconds that the process has used so far."""
    used = cpu_seconds()
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + attack.cpu + SPARE) + 1, hard))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = address_space() + attack.memory if attack.memory else hard
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    return used


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def place() -> str:
    """Where the present exception was raised: the innermost line of this project."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [f for f in frames if "/plancc" in f.filename and "site-packages" not in f.filename]
    frame = (ours or list(frames))[-1]
    return f"in {Path(frame.filename).name}:{frame.name}"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the campaign ends its workers
    main(sys.argv[1])
