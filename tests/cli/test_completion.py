"""Shells complete commands, options and names; mistyped ones are told the nearest."""

import os
import shutil
import subprocess

import pytest
from cli_helpers import environment, ok, run

BASH = r"""
eval "$(plancc completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_${1//-/_}_completion "$1"
printf '%s\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[str]:
    """What bash, in which the script was evaluated, offers for the last word."""
    # outside of a completion of readline, `compopt` has nothing to set
    script = "compopt() { :; }\n" + BASH
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("plancc com", ["compile", "compare", "completion"]),
        ("plancc compile --part", ["--part", "--parts", "--partitioner"]),
        ("plancc compile g.mtx --model cagnet-1", ["cagnet-1d", "cagnet-1.5d"]),
        ("plancc refine --objective max", ["max-volume"]),
        ("plancc bogus --mod", []),
    ],
)
def test_what_is_offered(words: str, offered: list[str]) -> None:
    """What the program answers to the functions that shells call for the last word."""
    asked = {"_PLANCC_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = run(env=os.environ | asked | {"COMP_CWORD": str(words.count(" "))})
    assert (done.code, done.err) == (0, "")
    assert sorted(done.out.split()) == sorted(f"plain,{word}" for word in offered)


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("plancc com", ["compile", "compare", "completion"]),
        ("plancc-run p.h5 --optimizer ad", ["adam", "adamw"]),
    ],
)
def test_bash_completes(words: str, offered: list[str]) -> None:
    assert sorted(completed(*words.split(" "))) == sorted(offered)


@pytest.mark.parametrize(
    ("shell", "known"),
    [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --no-files")],
)
def test_scripts_say_how_they_are_installed(shell: str, known: str) -> None:
    text = ok("completion", shell)
    assert text.startswith("# ")
    assert f"plancc completion {shell}" in text.splitlines()[0]
    assert text.count(known) >= 2  # plancc and plancc-run
    assert "_PLANCC_COMPLETE" in text
    assert "_PLANCC_RUN_COMPLETE" in text
