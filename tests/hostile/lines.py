"""Hostile command lines: every command with options that nobody means."""

from pathlib import Path

import click
import numpy as np

from .attack import Attack, Case
from .commands import run_command
from .neighbours import GRAPH
from .plan_bytes import fresh_plans

BASES = {
    # words that make a whole command; PLAN, OTHER, GRAPH stand for files
    "compile": ("GRAPH", "-p", "3", "--model", "block", "-o", "out.h5"),
    "refine": ("PLAN", "-o", "out.h5", "--budget", "1"),
    "inspect": ("PLAN",),
    "compare": ("PLAN", "OTHER"),
    "study": ("GRAPH", "--models", "block", "-p", "2", "--results", "kept.jsonl"),
    "report": ("PLAN", "-o", "out.html"),
    "predict": ("PLAN", "--weights", "WEIGHTS", "-o", "out.csv", "--threads", "1"),
    "simulate": ("PLAN",),
    "rehearse": ("PLAN", "--epochs", "1"),
    "verify": ("PLAN",),
    "export": ("GRAPH", "-o", "out.mtx"),
    "accelerators": ("PLAN",),
    "dataset": ("karate", "-o", "out.mtx"),
    "list": ("models",),
    "plancc-run": (
        *("PLAN", "--ranks", "1", "--threads", "1", "--kernel", "torch", "--hidden", "4"),
        *("--epochs", "1"),
    ),
}
VALUES = (
    *("", "-", "--", "0", "-1", "1", "2", "3", "1000000", "2147483647", "2147483648", "1e18"),
    *("9223372036854775808", "-9223372036854775809", "9" * 5000, "nan", "inf", "-inf", "1e-300"),
    *("0.5", "1.0", "None", "true", "x" * 5000, "\x1b[31mred", "a\nb", "\r", "é", "\udcff"),
    *("1,1,1", "0,0", ",", "1,,2", "3,4,4", "3," * 3000 + "4", "2x2", "0x0", "-1x4"),
    *("99999999x99999999", "p=2..4", "p=4..2", "p=1..999999999999", "a=b", "=", "rp,rp"),
    *("hp", "auto", "block", "cagnet-3d", "volume", "time", "best", "30s", "0s", "1e99s", "-5m"),
    *("PLAN", "OTHER", "GRAPH", "WEIGHTS", "FIFO", ".", "/", "/dev/null", "/dev/zero", "missing"),
    *("heads=null", "heads={}", 'heads="4"', "train_eps=1", "bias=0", "slope=" + "[" * 5000),
    *("9" * 400 + ":0.5", "heads=" + "9" * 400, "64:" + "9" * 400, "10:nan", "least_degree=-1"),
    *("4611686018427387904", "9223372036854775807", "9" * 40, "1e39", "1e308", "-1e308", "1e-50"),
    *("/proc/self/mem", "out.h5", "../case/out.h5", "a/b/c", "%s%n", "$(true)", "*", "~"),
)


class Lines(Attack):
    """Command lines with odd options, values and files."""

    name = "lines"
    cpu = 20.0
    quick, few = 60, 5

    def prepare(self, folder: Path) -> None:
        from plancc_cli.group import COMMANDS, LazyGroup
        from plancc_cli.group import command as top
        from plancc_cli.run_command import command as run

        assert isinstance(top, LazyGroup)
        context = click.Context(top)
        self.options = {"plancc-run": option_names(run)}
        for name in COMMANDS:
            found = top.get_command(context, name)
            assert found is not None
            self.options[name] = option_names(found)
        plans = fresh_plans(folder)
        self.paths = {"PLAN": str(plans[0]), "OTHER": str(plans[2])}
        self.paths |= {"GRAPH": str(folder / "graph.txt"), "WEIGHTS": str(folder / "weights.npz")}
        Path(self.paths["GRAPH"]).write_bytes(GRAPH)
        words = [*self.named(BASES["plancc-run"]), "--save", self.paths["WEIGHTS"]]
        run_command(folder, "plancc-run", *words)

    def named(self, words: tuple[str, ...] | list[str]) -> list[str]:
        return [self.paths.get(word, word) for word in words]

    def case(self, rng: np.random.Generator) -> Case:
        command = str(rng.choice(sorted(BASES)))
        words = list(BASES[command])
        if rng.random() < 0.2 and words:
            words[int(rng.integers(len(words)))] = str(VALUES[rng.integers(len(VALUES))])
        for _ in range(rng.integers(1, 4)):
            names = self.options[command]
            name, flag, choices = names[rng.integers(len(names))]
            words.append(name)
            if not flag or rng.random() < 0.05:
                good = [*choices] if rng.random() < 0.3 else []
                values = good or VALUES
                words.append(str(values[rng.integers(len(values))]))
        return Case(f"{command} {' '.join(words)}"[:300], fifos=("FIFO",), words=(command, *words))

    def look(self, case: Case, folder: Path) -> str:
        command, *words = case.words
        return run_command(folder, command, *self.named(words), hungry=True)


def option_names(command: click.Command) -> list[tuple[str, bool, tuple[str, ...]]]:
    """Options of a command: a name, whether it is a flag, what it may be where that is known."""
    found = []
    for each in command.params:
        if isinstance(each, click.Option):
            choices = tuple(map(str, getattr(each.type, "choices", ())))
            found += [(name, each.is_flag, choices) for name in (*each.opts, *each.secondary_opts)]
    return [*found, ("--no-such-option", False, ())]
