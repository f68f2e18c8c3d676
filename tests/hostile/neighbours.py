"""Files beside plans and graphs: machines, part vectors, capacities, weights, checkpoints, logs,
timelines, journals of studies."""

import json
import zlib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np

from .attack import Attack, Case
from .commands import run_command
from .damage import damaged, damaged_text
from .odd_files import damaged_member
from .plan_bytes import fresh_plans

PAGES = 8
GRAPH = "".join(f"{i} {(i * 7 + k) % 24}\n" for i in range(24) for k in (1, 3)).encode()
RUN = ("--ranks", "1", "--hidden", "4", "--threads", "1", "--kernel", "torch", "--eval-every", "1")
COMMANDS = {
    # file: the command that reads it, in which PLAN, GRAPH, FILE and FOLDER stand for paths
    "machine.toml": "simulate PLAN --machine FILE --json",
    "graph.part.4": "compile GRAPH --model file --part FILE -p 4 -o out.h5 -q",
    "capacities.txt": "compile GRAPH --model block -p 4 --capacities FILE -o out.h5 -q",
    "kept.jsonl": "study GRAPH --models block,rp -p 2,4 --results FILE --json -q",
    "run.jsonl": "report PLAN --run FILE -o out.html -q",
    "trace.json": "report PLAN --trace FILE -o out.html -q",
    "weights.npz": "predict PLAN --weights FILE -o out.csv --threads 1",
    "kept/last.safetensors": "plancc-run PLAN --epochs 3 --checkpoint FOLDER/kept --resume",
}
MAKERS = {
    # file: commands that make undamaged ones
    "kept.jsonl": (COMMANDS["kept.jsonl"],),
    "run.jsonl": ("plancc-run PLAN --epochs 3 --log FILE",),
    "trace.json": ("rehearse PLAN --trace FILE -q",),
    "weights.npz": tuple(
        f"plancc-run PLAN --epochs 1 --model {model} --save FILE" for model in ("gcn", "gat")
    ),
    "kept/last.safetensors": ("plancc-run PLAN --epochs 2 --every 1 --checkpoint FOLDER/kept",),
}


class Neighbours(Attack):
    """Files beside plans and graphs: machines, part vectors, weights, checkpoints, logs, ..."""

    name = "neighbours"
    quick, few = 190, 16
    bases: ClassVar[dict[str, list[bytes]]] = {
        "machine.toml": [
            files("plancc.predict").joinpath("machines", f"{name}.toml").read_bytes()
            for name in ("simple", "summit", "h100", "cpu-cluster")
        ],
        "graph.part.4": ["".join(f"{i % 4}\n" for i in range(24)).encode()],
        "capacities.txt": [b"1 1 2 1\n", b"# speeds\n1,1\n0.5, 1e0\n"],
    }
    """Undamaged files; what commands make is kept for other attacks of the process."""

    def prepare(self, folder: Path) -> None:
        self.paths = {"PLAN": str(fresh_plans(folder, ("row",))[0])}
        self.paths["GRAPH"] = str(folder / "graph.txt")
        Path(self.paths["GRAPH"]).write_bytes(GRAPH)
        for file in MAKERS.keys() - self.bases.keys():
            self.bases[file] = []
            for command in MAKERS[file]:
                self.run(command, file, folder)
                self.bases[file].append((folder / file).read_bytes())

    def run(self, command: str, file: str, folder: Path) -> str:
        known = self.paths | {"FILE": str(folder / file)}
        words = [known.get(each, each.replace("FOLDER", str(folder))) for each in command.split()]
        return run_command(folder, *words, *RUN * (words[0] == "plancc-run"))

    def case(self, rng: np.random.Generator) -> Case:
        file = str(rng.choice(list(COMMANDS)))
        content = self.bases[file][rng.integers(len(self.bases[file]))]
        wrong, how = DAMAGE.get(file, damaged_text)(content, rng)
        return Case(f"{file}: {how}", {"damaged": wrong}, words=(file,))

    def look(self, case: Case, folder: Path) -> str:
        """Run the command on a copy, in which it may write; some logs are read without a page."""
        from plancc_lab.report.runs import read_log, read_timeline

        [file], content = case.words, case.files["damaged"]
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        readers = {"run.jsonl": read_log, "trace.json": read_timeline}
        if file in readers and zlib.crc32(content) % PAGES:  # a page takes long
            readers[file](path)
            return "ok"
        return self.run(COMMANDS[file], file, folder)


def _damaged_weights(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Wrong bytes of the archive, or of a member, of which one holds text."""
    return (damaged if rng.random() < 0.5 else damaged_member)(content, rng)


def _damaged_checkpoint(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Wrong bytes, a wrong header, or wrong facts in a whole file with a digest made anew."""
    from safetensors.torch import load, save

    from plancc_runtime.checkpoint import _digest

    kind = rng.random()
    if kind < 0.3:
        return damaged(content, rng)
    size = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + size]
    if kind < 0.6:
        wrong, how = damaged_text(header, rng)
        return len(wrong).to_bytes(8, "little") + wrong + content[8 + size :], f"header: {how}"
    wrong, how = damaged_text(json.loads(header)["__metadata__"]["plancc"].encode(), rng)
    tensors, text = load(content), wrong.decode(errors="replace")
    return save(tensors, {"plancc": text, "sha256": _digest(text, tensors)}), f"facts: {how}"


DAMAGE: dict[str, Callable[[bytes, np.random.Generator], tuple[bytes, str]]] = {
    "weights.npz": _damaged_weights,
    "kept/last.safetensors": _damaged_checkpoint,
}
"""How files are damaged that are no text."""
