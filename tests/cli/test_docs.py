"""What the documentation tells a user to type runs as it stands."""

import ast
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import click
import numpy as np
import pytest
from cases import long
from cli_helpers import environment, ok, plancc_run
from cli_helpers import plancc as plancc_command
from ranks import Pool
from scipy.io import mmread

import plancc
from plancc.partitioners import PARTITIONERS
from plancc.predict.machine import TABLES, Machine
from plancc.predict.machine_files import find_machine, read_machine, shipped_machines
from plancc_cli.group import command
from plancc_cli.run_command import command as run_command

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
DOCS = [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]
HAS_MPI = shutil.which("mpirun", path=environment()["PATH"]) is not None

LONG_PAGES = ("compile", "plans", "edges", "train", "runs", "study")
"""Pages whose commands `make test` only parses; files of tests are about each of them."""

PACKAGES = ("plancc", "runtime", "cli", "datasets", "lab")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

SOME_PARTITIONER = f"""#!{sys.executable}
import sys
path, parts = sys.argv[1], int(sys.argv[2])
vertices = int(open(path).readline().split()[1])
with open(path.removesuffix(".hgr") + f".part.{{parts}}", "w") as file:
    file.writelines(f"{{v * parts // vertices}}\\n" for v in range(vertices))
"""


def shell_blocks(path: Path) -> list[list[str]]:
    """Indented blocks, one list of command lines each."""
    blocks = re.findall(r"(?:^    \S.*\n)+", path.read_text(), re.M)
    return [[line.strip() for line in block.splitlines()] for block in blocks]


def python_blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.S)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the graph that the examples speak of."""
    monkeypatch.chdir(tmp_path)
    ok("dataset", "sbm", "--size", 64, "-o", "graph.mtx")
    return tmp_path


def typed(line: str) -> str:
    """Run one line of a page: programs of ours in this process, what needs a shell in one."""
    words = shlex.split(line, comments=True)
    program = {"plancc": plancc_command, "plancc-run": plancc_run}.get(words[0])
    if program is None or set(line.partition("#")[0]) & set("|&;<>$*"):
        return shell(f'PATH="$PWD:$PATH"; {line}')
    done = program(*words[1:])
    assert done.code == 0, f"{line}\n{done.err}"
    return done.out + done.err


def shell(line: str, timeout: float = 120) -> str:
    """Run one line as a user would; an error or a hang fails the test."""
    env = environment() | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        ["sh", "-c", line],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
        env=env,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=20)
        pytest.fail(f"still running after {timeout} s: {line}")
    assert process.returncode == 0, f"{line}\n{said}"
    return said


@pytest.mark.mpi
@pytest.mark.skipif(not HAS_MPI, reason="no mpirun")
def test_main_job_of_the_readme(workplace: Path, ranks: Pool) -> None:
    dataset, compiling, looking, running = shell_blocks(ROOT / "README.md")[1]
    typed(dataset)
    assert "rows moved" in typed(compiling)
    assert "predicted epoch" in typed(looking)
    program, plan, *options = running.replace("--ranks 4 ", "").split()
    assert program == "plancc-run"
    done = ranks.run(3, plan, *options)  # the demo launches four
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
    assert len((ROOT / "README.md").read_text().splitlines()) <= 80


@pytest.mark.parametrize(
    "page", ["grids.md", *(pytest.param(f"{page}.md", marks=long) for page in LONG_PAGES)]
)
def test_commands_of_the_guide(workplace: Path, page: str) -> None:
    tool = workplace / "some-partitioner"
    tool.write_text(SOME_PARTITIONER)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    ids = range(4, 18)
    (workplace / "edges.txt").write_text("".join(f"{k} {k + 1}\n" for k in ids[:-1]))
    (workplace / "costs.csv").write_text("id,weight\n" + "".join(f"{k},2.5\n" for k in ids))
    lines = [line for block in shell_blocks(ROOT / "docs" / "use" / page) for line in block]
    assert len(lines) >= 4
    for line in lines:
        if not HAS_MPI and line.startswith("mpirun -n 2 "):
            continue
        one_rank = line.removeprefix("mpirun -n 4 ")  # ranks: the README's commands, the demo
        typed(one_rank)
    made = {
        "compile.md": "better.h5",
        "plans.md": "new.h5",
        "edges.md": "best.h5",
        "train.md": "weights.npz",
        "runs.md": "run.jsonl",
        "grids.md": "needed.h5",
        "study.md": "plancc-study.jsonl",
    }
    assert (workplace / made[page]).exists()
    # commands in running text; a file name in capitals is the reader's own
    inline = re.findall(r"`(plancc [^`]*)`", (ROOT / "docs" / "use" / page).read_text())
    for line in inline:
        if re.fullmatch(r"plancc (verify|compile|refine|export) .*[a-z0-9]\.(mtx|h5)", line):
            typed(line)


def test_python_of_the_readme(workplace: Path) -> None:
    (code,) = python_blocks(ROOT / "README.md")
    names: dict = {}
    exec(code, names)
    assert names["plan"].metrics().volume > 0


@long
@pytest.mark.parametrize("page", ["matrix", "training", "research"])
@pytest.mark.timeout(600)
def test_tutorials(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and scripts of a tutorial, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "learn" / f"{page}.md").read_text()
    steps = re.findall(r"```python\n(.*?)```|^    (\S[^\n]*)$", text, re.S | re.M)
    assert len(steps) >= 5
    for code, line in steps:
        if code:
            exec(compile(code, page, "exec"), {})
        else:
            typed(line)


def test_python_of_the_studies(workplace: Path) -> None:
    (code,) = python_blocks(ROOT / "docs" / "use" / "study.md")
    exec(code, {})


def test_h5py_of_the_format(workplace: Path) -> None:
    """The snippet multiplies part 0 as a reader without plancc would."""
    ok("compile", "graph.mtx", "-p", 3, "--normalize", "none", "--no-self-loops", "-o", "plan.h5")
    (code,) = python_blocks(ROOT / "docs" / "reference" / "plan-format.md")
    names: dict = {}
    exec(compile(code, "plan-format.md", "exec"), names)
    product = mmread("graph.mtx").tocsr() @ names["H"]
    assert len(names["own"]) > 0
    np.testing.assert_allclose(names["Y_of_part_0"], product[names["own"]], rtol=1e-6)


def test_the_partitioner_of_the_contributing_page(workplace, monkeypatch):
    (code,) = python_blocks(ROOT / "CONTRIBUTING.md")
    (workplace / "dealt.py").write_text(code)
    monkeypatch.syspath_prepend(workplace)
    monkeypatch.setitem(PARTITIONERS._targets, "dealt", "dealt:ADAPTER")
    for model in ("hp", "gp"):
        plan = plancc.compile("graph.mtx", model, 4, partitioner="dealt", epsilon=0.1)
        assert plan.provenance["partitioner"] == "dealt"
        plancc.verify(plan)


def test_commands_of_the_pages_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command line of a block, of any page, has options and values of its command."""
    monkeypatch.chdir(tmp_path)
    Path("my_net.py").write_text("class Net: ...\n")
    for name in ("machine.toml", "office.toml"):  # which are read where they are given
        Path(name).write_text(toml_blocks(ROOT / "docs" / "reference" / "machines.md")[-1])
    seen = 0
    for path in DOCS:
        text = re.sub(r"\\\n\s*", "", path.read_text())  # lines that go on
        for line in re.findall(
            r"^    (?:mpirun -n \d+ |\w+=\S* )*(plancc[^|&;<>$*\n]*)$", text, re.M
        ):
            program, *words = shlex.split(line, comments=True)
            if program not in ("plancc", "plancc-run") or "..." in words:
                continue
            try:
                parse(program, words)
            except (click.ClickException, plancc.PlanccError) as error:
                pytest.fail(f"{path.name}: {line}: {error}")
            seen += 1
    assert seen >= 100


def parse(program: str, words: list[str]) -> None:
    """A command line up to where its work would begin."""
    if program == "plancc-run":
        run_command.make_context(program, words)
        return
    context = click.Context(command, **command.context_settings)
    name, each, rest = command.resolve_command(context, words)
    while isinstance(each, click.Group):
        context = each.make_context(name, rest, parent=context)
        name, each, rest = each.resolve_command(context, rest)
    assert each is not None
    each.make_context(name, rest, parent=context)


def fenced(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.S)


def test_scripts_of_jobs_are_what_shells_and_schedulers_read(tmp_path: Path) -> None:
    """Bash parses every script, each directive is one of its scheduler, each command is ours."""
    page, programs = ROOT / "docs" / "use" / "jobs.md", set()
    for script in fenced(page, "bash"):
        file = tmp_path / "job.sh"
        file.write_text(script)
        subprocess.run(["bash", "-n", file], check=True, timeout=20)
        first, *lines = script.replace("\\\n", "").splitlines()
        assert first == "#!/bin/bash"
        for line in lines:
            if line.startswith("#"):
                scheduler = line.split()[0]
                programs.add(scheduler)
                words = shlex.split(line)[1:] if scheduler == "#SBATCH" else []
                assert all(re.fullmatch(r"--[a-z-]+(=\S+)?", word) for word in words), line
            if "plancc-run " in line:
                parse("plancc-run", shlex.split(line.partition("plancc-run ")[2]))
    assert programs == {"#SBATCH", "#BSUB", "#PBS"}


def test_options_in_the_documentation_exist() -> None:
    """Every option that a page gives to a command is one of that command's, in its help or not."""
    known = {}
    for name in ("compile", "refine", "inspect", "compare", "verify", "export"):
        context = click.Context(command, **command.context_settings)
        found = command.get_command(context, name)
        assert found is not None
        known[name] = {option for each in found.get_params(context) for option in each.opts}
    seen = 0
    for path in DOCS:
        for name, words in re.findall(r"plancc (\w+) ([^`\n#]*)", path.read_text()):
            for option in re.findall(r"--[a-z][a-z-]*", words):
                if name in known:
                    seen += 1
                    assert option in known[name], f"{path.name}: {name} {option}"
    assert seen >= 8


def test_the_documentation_stays_short() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    words = {page: len(page.read_text().split()) for page in pages}
    assert [page.name for page in pages if page.parent.name == "use" and words[page] > 1200] == []
    assert sum(words.values()) <= 45_000


def test_pages_helps_and_docstrings_use_the_terms_of_the_glossary() -> None:
    glossary = ROOT / "docs/learn/glossary.md"
    entries = re.findall(r"^- \*\*(.+?)\*\*: (.+)", glossary.read_text(), re.M)
    listed = re.findall(r"\(\*elsewhere\*: (.*?)\)", glossary.read_text())
    others = [word for words in listed for word in words.split(", ")]
    assert len(entries) <= 60
    assert len(others) >= 10
    texts = {path.name: path.read_text() for path in DOCS if path != glossary}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text()))
            known = [
                ast.get_docstring(node) or "" for node in nodes if isinstance(node, DOCUMENTED)
            ]
            texts[str(path)] = "\n".join(known)
    for name in command.list_commands(click.Context(command)):
        texts[name] = ok(name, "--help", "all")
    said = re.compile(rf"\b({'|'.join(others)})s?\b", re.I)
    found = {name: said.findall(re.sub("`.*?`", "", text)) for name, text in texts.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_links_between_the_pages_hold() -> None:
    for path in DOCS:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


@pytest.mark.mpi
@pytest.mark.skipif(not HAS_MPI, reason="no mpirun")
@long
@pytest.mark.timeout(600)
def test_demo() -> None:
    said = shell(f"sh {ROOT / 'docs' / 'demo.sh'}", timeout=500)
    assert "$ export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n" in said
    assert "$ export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe\n" in said
    accuracy = re.findall(r"^test accuracy: ([0-9.]+)$", said, re.M)
    assert len(accuracy) == 1, said
    assert float(accuracy[0]) > 0.9


def toml_blocks(path: Path) -> list[str]:
    return re.findall(r"```toml\n(.*?)```", path.read_text(), re.S)


def test_machine_files_of_the_page(tmp_path: Path) -> None:
    """The page's files are machines, and its table has every key of one and no other."""
    page = ROOT / "docs" / "reference" / "machines.md"
    shortest, office = (tmp_path / name for name in ("simple.toml", "office.toml"))
    for path, text in zip((shortest, office), toml_blocks(page), strict=True):
        path.write_text(text)
    simple = find_machine("simple")
    assert replace(read_machine(shortest), source=simple.source) == simple
    machine = read_machine(office)
    assert (machine.name, machine.node.ranks, machine.injection) == ("office", 16, 3.125e9)
    assert machine.collective.broadcast == "tree"

    keys: dict[str, set[str]] = {"": set()}
    table = ""
    text = page.read_text()
    rows = text[text.index("| key | unit | value") :].split("\n\n")[0].splitlines()[2:]
    for row in rows:
        first = row.split("|")[1].strip()
        if first.startswith("**`["):
            table = first.strip("*`[]")
            keys[table] = set()
        else:
            keys[table] |= set(re.findall(r"`(\w+)`", first))
    assert keys[""] == {each.name for each in fields(Machine)} - set(TABLES)
    for name, kind in TABLES.items():
        assert keys[name] == {each.name for each in fields(kind)}
    shipped = text[text.index("## Machines that come with plancc") :]
    assert set(re.findall(r"^\| `([\w-]+)`", shipped, re.M)) == set(shipped_machines())
