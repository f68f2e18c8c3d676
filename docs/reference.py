"""Add helps, lists and options to the built documentation (a hook of mkdocs)."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner
from mkdocs.structure.files import File

from plancc.fields import entries, options_of
from plancc.graph.formats import ReadOptions
from plancc.options import PlanOptions, RefineOptions, SearchOptions
from plancc_cli.group import LISTINGS, SECTIONS, command
from plancc_cli.run_command import command as run_command
from plancc_runtime.options import TrainOptions

OPTIONS = {
    "plancc.pipeline.compile": (SearchOptions, PlanOptions),
    "plancc.refinement.refine": (RefineOptions,),
    "plancc.graph.formats.read_graph": (ReadOptions,),
    "plancc_runtime.options.TrainOptions": (TrainOptions,),
}
"""Options that docstrings get at run time, where mkdocs does not see them."""


def _printed(program: Any, name: str, *words: str) -> str:
    """Return what a command prints, as a code block under its name."""
    result = CliRunner().invoke(program, list(words), prog_name=name, terminal_width=100)
    if result.exit_code:
        raise SystemExit(f"{name} {' '.join(words)}: {result.output}")
    title = " ".join([name, *(word for word in words if word not in ("--help", "all"))])
    return f"## {title}\n\n```text\n{result.output.rstrip()}\n```\n"


def on_files(files: Any, config: Any) -> Any:
    """Add reference/commands.md and reference/registries.md."""
    names = [name for section in SECTIONS.values() for name in section]
    helps = [_printed(command, "plancc", name, "--help", "all") for name in names]
    helps.append(_printed(run_command, "plancc-run", "--help", "all"))
    lists = [_printed(command, "plancc", name) for name in LISTINGS]
    for page, title, blocks in (
        ("commands", "Commands", helps),
        ("registries", "Registries", lists),
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
