"""Add helps, lists, options and the files to the built documentation (a hook of mkdocs)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from mkdocs.structure.files import File

from plancc.fields import entries, options_of
from plancc.graph.formats import ReadOptions
from plancc.options import PatchOptions, PlanOptions, RefineOptions, SearchOptions
from plancc_cli.group import SECTIONS, command
from plancc_cli.list import command as listing
from plancc_cli.run_command import command as run_command
from plancc_runtime.options import TrainOptions

OPTIONS = {
    "plancc.pipeline.compile": (SearchOptions, PlanOptions),
    "plancc.refinement.refine": (RefineOptions,),
    "plancc.patching.patch": (PatchOptions,),
    "plancc.graph.formats.read_graph": (ReadOptions,),
    "plancc_runtime.options.TrainOptions": (TrainOptions,),
    "plancc_runtime.script.train": (TrainOptions,),
}
"""Options that docstrings get at run time, where mkdocs does not see them."""
ROOT = Path(__file__).parents[1]
PACKAGES = (
    "plancc",
    "runtime/plancc_runtime",
    "cli/plancc_cli",
    "datasets/plancc_datasets",
    "lab/plancc_lab",
)


def _printed(program: Any, name: str, *words: str) -> str:
    """Return what a command prints, as a code block under its name."""
    result = CliRunner().invoke(program, list(words), prog_name=name, terminal_width=100)
    if result.exit_code:
        raise SystemExit(f"{name} {' '.join(words)}: {result.output}")
    title = " ".join([name, *(word for word in words if word not in ("--help", "all"))])
    return f"## {title}\n\n```text\n{result.output.rstrip()}\n```\n"


def _sentence(path: Path) -> str:
    """Return the first sentence of a module."""
    text = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0]
    return re.split(r"(?<=\.)(?<! al\.) ", " ".join(text.split()))[0]


def _files() -> list[str]:
    """Return a table for every folder of the packages: files and their first sentences."""
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    tables = []
    for folder in sorted(folders):
        rows = [f"| `{path.name}` | {_sentence(path)} |" for path in sorted(folder.glob("*.py"))]
        lines = [f"## {folder.relative_to(ROOT)}", "", "| file | what is in it |", "| --- | --- |"]
        tables.append("\n".join([*lines, *rows, ""]))
    return tables


def on_files(files: Any, config: Any) -> Any:
    """Add reference/commands.md, reference/registries.md and reference/files.md."""
    names = [name for section in SECTIONS.values() for name in section]
    helps = [_printed(command, "plancc", name, "--help", "all") for name in names]
    helps.append(_printed(run_command, "plancc-run", "--help", "all"))
    lists = [_printed(command, "plancc", "list", name) for name in listing.commands]
    for page, title, blocks in (
        ("commands", "Commands", helps),
        ("registries", "Registries", lists),
        ("files", "Files", _files()),
    ):
        text = "\n".join([f"# {title}\n", *blocks])
        files.append(File.generated(config, f"reference/{page}.md", content=text))
    return files


def on_page_markdown(markdown: str, **context: Any) -> str:
    """Add the options below what takes them."""
    for name, declared in OPTIONS.items():
        lines = "\n".join(entries(each for one in declared for each in options_of(one)))
        block = f"::: {name}\n\n```text\n{lines}\n```\n"
        markdown = markdown.replace(f"::: {name}\n", block)
    return markdown
