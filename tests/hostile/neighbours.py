"""Files beside plans and graphs: machines, part vectors, capacities, weights, checkpoints, logs,
timelines, journals of studies."""

import dataclasses
import json
import zipfile
import zlib
from collections.abc import Callable
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import numpy as np

from plancc_lab.report.runs import read_log, read_timeline

from .attack import Attack, Case
from .commands import run_command
from .damage import damaged, damaged_text
from .plan_bytes import fresh_plans

MACHINES = ("simple", "summit", "h100", "cpu-cluster")
PAGES = 8
GRAPH = "".join(f"{i} {(i * 7 + k) % 24}\n" for i in range(24) for k in (1, 3)).encode()
RUN = ("--ranks", "1", "--hidden", "4", "--threads", "1", "--kernel", "torch", "--eval-every", "1")


class Neighbour(Attack):
    """One kind of file, of which a command needs an undamaged one; derive from it."""

    text = True
    file = ""
    command: tuple[str, ...] = ()
    """The words of a command; PLAN, GRAPH and FILE stand for paths."""
    quick, few = 25, 2

    def prepare(self, folder: Path) -> None:
        self.home = folder
        self.plan = fresh_plans(folder, ("rp",))[0]
        self.graph = folder / "graph.txt"
        self.graph.write_bytes(GRAPH)
        self.bases = self.make(folder)

    def make(self, folder: Path) -> list[bytes]:
        """Undamaged files."""
        raise NotImplementedError

    def case(self, rng: np.random.Generator) -> Case:
        at = int(rng.integers(len(self.bases)))
        content, how = (damaged_text if self.text else damaged)(self.bases[at], rng)
        return Case(f"{self.file} {at}: {how}", {self.file: content})

    def look(self, case: Case, folder: Path) -> str:
        return run_command(folder, *self.words(folder))

    def words(self, folder: Path) -> list[str]:
        known = {"PLAN": self.plan, "GRAPH": self.graph, "FILE": folder / self.file}
        known["FOLDER"], known["OUT"] = folder, folder / "out"
        return [str(known.get(word, word)) for word in self.command]


class Machines(Neighbour):
    """Machine files (TOML), for simulate."""

    name = "machines"
    file = "machine.toml"
    command = ("simulate", "PLAN", "--machine", "FILE", "--json")

    def make(self, folder: Path) -> list[bytes]:
        shipped = files("plancc.predict").joinpath("machines")
        return [shipped.joinpath(f"{name}.toml").read_bytes() for name in MACHINES]


class PartVectors(Neighbour):
    """Part vectors, for compile."""

    name = "part-vectors"
    file = "graph.part.4"
    command = (
        *("compile", "GRAPH", "--model", "file", "--part", "FILE", "-p", "4"),
        *("-o", "out.h5", "--quiet"),
    )

    def make(self, folder: Path) -> list[bytes]:
        return ["".join(f"{i % 4}\n" for i in range(24)).encode()]


class CapacityFiles(Neighbour):
    """Files of capacities, for compile."""

    name = "capacities"
    file = "capacities.txt"
    command = (
        *("compile", "GRAPH", "--model", "block", "-p", "4", "--capacities", "FILE"),
        *("-o", "out.h5", "--quiet"),
    )

    def make(self, folder: Path) -> list[bytes]:
        return [b"1 1 2 1\n", b"# speeds\n1,1\n0.5, 1e0\n"]


class Journals(Neighbour):
    """Journals of studies, from which a study goes on."""

    name = "journals"
    file = "kept.jsonl"
    quick = 15
    command = (
        *("study", "GRAPH", "--models", "block,rp", "-p", "2,4", "--keep", "FILE", "--json"),
        "--quiet",
    )

    def make(self, folder: Path) -> list[bytes]:
        path = folder / self.file
        run_command(folder, *self.words(folder))
        return [path.read_bytes()]

    def case(self, rng: np.random.Generator) -> Case:  # a study writes into it
        case = super().case(rng)
        return dataclasses.replace(case, files={"journal": case.files[self.file]})

    def look(self, case: Case, folder: Path) -> str:
        (folder / self.file).write_bytes(case.files["journal"])
        return super().look(case, folder)


class Logs(Neighbour):
    """Logs of runs, for report; most are read alone, since a page takes long."""

    name = "logs"
    file = "run.jsonl"
    command = ("report", "PLAN", "--run", "FILE", "-o", "out.html", "--quiet")

    def make(self, folder: Path) -> list[bytes]:
        path = folder / self.file
        run_command(folder, "plancc-run", str(self.plan), *RUN, "--epochs", "3", "--log", str(path))
        return [path.read_bytes()]

    def look(self, case: Case, folder: Path) -> str:
        return page_or(read_log, super().look, case, folder)


class Timelines(Neighbour):
    """Timelines of runs, for report."""

    name = "timelines"
    file = "trace.json"
    command = ("report", "PLAN", "--trace", "FILE", "-o", "out.html", "--quiet")

    def make(self, folder: Path) -> list[bytes]:
        path = folder / self.file
        run_command(folder, "rehearse", str(self.plan), "--trace", str(path), "--quiet")
        return [path.read_bytes()]

    def look(self, case: Case, folder: Path) -> str:
        return page_or(read_timeline, super().look, case, folder)


def page_or(
    read: Callable[[Path], object], page: Callable[[Case, Path], str], case: Case, folder: Path
) -> str:
    """Read the file of a case; one of `PAGES` by the command that writes a page of it."""
    (name, content), *_ = case.files.items()
    if zlib.crc32(content) % PAGES == 0:
        return page(case, folder)
    read(folder / name)
    return "ok"


class Weights(Neighbour):
    """Weights of networks, for predict."""

    name = "weights"
    file = "weights.npz"
    text = False
    command = ("predict", "PLAN", "--weights", "FILE", "-o", "out.csv", "--threads", "1")

    def make(self, folder: Path) -> list[bytes]:
        path, found = folder / self.file, []
        for model in ("gcn", "gat"):
            run_command(
                *(folder, "plancc-run", str(self.plan), *RUN, "--epochs", "1"),
                *("--model", model, "--save", str(path)),
            )
            found.append(path.read_bytes())
        return found

    def case(self, rng: np.random.Generator) -> Case:
        """Wrong bytes, or a wrong description in a whole archive."""
        if rng.random() < 0.5:
            return super().case(rng)
        with zipfile.ZipFile(BytesIO(self.bases[int(rng.integers(len(self.bases)))])) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = str(rng.choice(sorted(members)))
        if name == "network.npy":
            text = str(np.load(BytesIO(members[name])))
            wrong, how = damaged_text(text.encode(), rng)
            stream = BytesIO()
            np.save(stream, np.array(wrong.decode(errors="replace")))
            members[name] = stream.getvalue()
        else:
            members[name], how = damaged(members[name], rng)
        stream = BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for each, content in members.items():
                archive.writestr(each, content)
        return Case(f"{name}: {how}", {self.file: stream.getvalue()})


class CheckpointFiles(Neighbour):
    """Checkpoints, from which a run resumes."""

    name = "checkpoints"
    text = False
    file = "kept/last.safetensors"

    def make(self, folder: Path) -> list[bytes]:
        words = ("plancc-run", str(self.plan), *RUN, "--epochs", "2")
        run_command(folder, *words, "--checkpoint", str(folder / "kept"), "--every", "1")
        return [(folder / self.file).read_bytes()]

    def case(self, rng: np.random.Generator) -> Case:
        """Wrong bytes, or wrong JSON in a whole file with a digest made anew."""
        content = self.bases[0]
        kind = rng.random()
        if kind < 0.3:
            wrong, how = damaged(content, rng)
        elif kind < 0.6:
            wrong, how = with_wrong_header(content, rng)
        else:
            wrong, how = self.with_wrong_facts(content, rng)
        return Case(how, {"last": wrong})

    def with_wrong_facts(self, content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
        from safetensors.torch import load, save

        from plancc_runtime.checkpoint import _digest

        size = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + size])["__metadata__"]
        wrong, how = damaged_text(metadata["plancc"].encode(), rng)
        tensors, text = load(content), wrong.decode(errors="replace")
        return save(tensors, {"plancc": text, "sha256": _digest(text, tensors)}), how

    def look(self, case: Case, folder: Path) -> str:
        (folder / "kept").mkdir(exist_ok=True)
        (folder / self.file).write_bytes(case.files["last"])
        return run_command(
            *(folder, "plancc-run", str(self.plan), *RUN, "--epochs", "3"),
            *("--checkpoint", str(folder / "kept"), "--resume"),
        )


def with_wrong_header(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """A file of safetensors whose tensors overlap, have gaps, other types, shapes or names."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    names = [name for name in header if name != "__metadata__"]
    one, other = (names[k] for k in rng.integers(len(names), size=2))
    kind = rng.integers(7)
    begin, end = header[one]["data_offsets"]
    if kind == 0:
        header[one]["data_offsets"] = header[other]["data_offsets"]
    elif kind == 1:
        odd = (-1, 0, begin - 4, end + 4, 1 << 40, (1 << 63) - 1, 1 << 64)
        places = [int(each) for each in rng.integers(len(odd), size=2)]
        header[one]["data_offsets"] = [odd[places[0]], odd[places[1]]]
    elif kind == 2:
        types = ("F64", "F16", "I64", "BOOL", "U8", "BF16", "F8_E4M3", "C64", "x", "")
        header[one]["dtype"] = types[rng.integers(len(types))]
    elif kind == 3:
        shapes: list[list[int]] = [[], [0], [-1, 4], [1 << 62, 4], [1] * 2000, [end - begin]]
        shapes.append([1, 1])
        header[one]["shape"] = shapes[rng.integers(len(shapes))]
    elif kind == 4:
        header[one], header[other] = header[other], header[one]
    elif kind == 5:
        header["a\x1b[31m" if rng.random() < 0.5 else "more"] = header[one]
    else:
        del header[one]
    text = json.dumps(header)
    if kind == 5 and rng.random() < 0.5:  # the same name twice
        text = text[:-1] + f", {json.dumps(one)}: {json.dumps(header[other])}}}"
    packed = text.encode()
    return len(packed).to_bytes(8, "little") + packed + content[8 + size :], f"header {kind} {one}"


NEIGHBOURS = (
    *(Machines, PartVectors, CapacityFiles, Journals, Logs, Timelines, Weights, CheckpointFiles),
)
